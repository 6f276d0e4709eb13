//! A job as it is and after each rung of the ladder, on phantom GPUs, until it fits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::cache;
use super::closed_form::with_rungs;
use super::job::measured;
use super::options::MeasureOptions;
use super::progress::progress;
use crate::cli::interrupt;
use crate::cli::launch::launching::signals;
use crate::cli::session::Session;
use crate::core::engine::{
    AttemptEvent, Event, PhantomCheck, PhantomMeasurement, Record, Run, decide,
};
use crate::core::exit::Exit;
use crate::core::measure::{PhantomOutcome, PhantomRecord, PhantomSummary, phantom_outcome};
use crate::core::recipe::Layer;
use crate::core::request::Request;
use crate::drive::{Handle, Measurer, Silent};
use crate::io::phantom::{PhantomRan, PhantomRun, run as run_on_phantom};
use crate::io::program::{Ears, Outputs, UsualSignals};
use crate::view::measured_plan_view::{MeasuredAttempt, MeasuredPlanView};
use crate::view::{CommandFailure, print};

/// The longest that one measurement of a run may take: hours in a queue are worth so much.
pub const LONGEST: Duration = Duration::from_secs(300);

/// What was measured before a run is made; nothing where nobody asks for it.
#[derive(Default)]
pub struct BeforeRun {
    /// Signals mean what they meant before.
    _signals: Option<UsualSignals>,
    checks: Vec<PhantomCheck>,
}

impl BeforeRun {
    /// The request as its first attempt is, for people.
    pub fn shown(&self, request: &Request) -> Request {
        let layers = self.checks.iter().flat_map(PhantomCheck::layers);
        with_rungs(request, layers)
    }

    /// Writes it down as facts of the run.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn written(self, handle: &mut Handle) -> Result<(), CommandFailure> {
        let measured = self.checks.into_iter().map(|check| check.measurement);
        Ok(handle.measured_before(measured.collect(), Timestamp::now(), &mut Silent)?)
    }
}

/// Measures the job of a run that is about to be made, and shows that. What cannot be measured is submitted as it is.
///
/// # Errors
/// A signal came, or nothing that the ladder leads to fits.
pub fn before(session: &Session, request: &Request) -> Result<BeforeRun, CommandFailure> {
    if !request.supervision().measure {
        return Ok(BeforeRun::default());
    }
    let ears = signals()?;
    let (run, view) = until_it_fits(request, |rungs, attempt| {
        let measured = measurement(session, request, rungs, &ears, Some(LONGEST), Some(attempt));
        Ok(measured.unwrap_or_else(|why| (PhantomMeasurement::impossible(&why.sentence()), false)))
    })?;
    let ending = ears.ending();
    let signals = ears.close().map_err(|e| interrupt::cannot(&e))?;
    if let Some(signal) = ending {
        return Err(CommandFailure::quiet(Exit::Signal(signal)));
    }
    print::talk(view.text().trim_end());
    if view.fits() == Some(false) && view.then.is_empty() {
        let what = "the job does not fit on the phantom GPU, and no rung of the ladder is left";
        return Err(CommandFailure::new(Exit::StillOutOfMemory, what)
            .hint("more GPUs or larger ones; without --measure it is submitted all the same"));
    }
    Ok(BeforeRun {
        _signals: Some(signals),
        checks: run.history.phantoms(1).cloned().collect(),
    })
}

/// Measures a job with no rung, and with those that the engine takes for each failure there, until it measures no more.
///
/// # Errors
/// Those of `measure`.
pub fn until_it_fits(
    request: &Request,
    mut measure: impl FnMut(&[Layer], usize) -> Result<(PhantomMeasurement, bool), CommandFailure>,
) -> Result<(Run, MeasuredPlanView), CommandFailure> {
    let mut run = Run::new(request.clone().measured_if(true), &[]);
    let mut view = MeasuredPlanView::default();
    let mut rungs = Vec::new();
    while let Some(attempt) = run.to_be_measured() {
        let number = view.attempts.len() + 1;
        let (measurement, measured_before) = measure(&run.history.rungs(), number)?;
        let taken = std::mem::take(&mut rungs);
        let attempt_view = MeasuredAttempt::new(number, taken, &measurement, measured_before);
        view.attempts.push(attempt_view);
        let event = AttemptEvent::PhantomMeasured(Box::new(measurement));
        let facts = decide(&run, &Event::Attempt(attempt, event), Timestamp::UNIX_EPOCH);
        for fact in facts {
            run.apply(&Record::new(
                run.history.seq + 1,
                Timestamp::UNIX_EPOCH,
                1,
                fact,
            ));
        }
        let Some(check) = run.history.phantoms(attempt).last() else {
            break;
        };
        rungs.clone_from(&check.steps);
        view.stopped.clone_from(&check.stopped);
    }
    view.then = rungs;
    Ok((run, view))
}

/// Measures one configuration of a job; true where that was done before.
///
/// # Errors
/// It cannot be started here.
pub fn measurement(
    session: &Session,
    request: &Request,
    rungs: &[Layer],
    ears: &Ears,
    longest: Option<Duration>,
    told: Option<usize>,
) -> Result<(PhantomMeasurement, bool), CommandFailure> {
    let job = measured(session, request, rungs)?;
    let mut asked = MeasureOptions::default().asked(session, &job)?;
    asked.time_limit = longest.map_or(asked.time_limit, |longest| asked.time_limit.min(longest));
    let place = cache::place(session, &asked);
    let of = |summary, seconds| PhantomMeasurement {
        gpu_type: Some(asked.phantom.card.name.clone()),
        gpu_bytes: asked.phantom.card.total_bytes,
        summary,
        seconds,
    };
    if let Some(known) = cache::kept(&place) {
        return Ok((of(known, 0), true));
    }
    if let Some(attempt) = told {
        print::talk(&format!("phantom run {attempt} begins"));
    }
    let (summary, seconds) = summary(&asked, ears, told)?;
    cache::keep(&place, &summary)?;
    Ok((of(summary, seconds), false))
}

/// What a run on phantom GPUs comes to, and the seconds that it took.
fn summary(
    asked: &PhantomRun,
    ears: &Ears,
    told: Option<usize>,
) -> Result<(PhantomSummary, u64), CommandFailure> {
    let who = told.map(|attempt| format!("phantom run {attempt}"));
    let silent = Outputs {
        out: Box::new(std::io::sink()),
        err: Box::new(std::io::sink()),
    };
    let ran = run_on_phantom(asked, silent, ears, progress(who)).map_err(|e| {
        CommandFailure::refused(format!(
            "{} cannot be started: {e}",
            asked.program.command[0]
        ))
    })?;
    let record = PhantomRecord::fullest(ran.records.clone());
    let outcome = phantom_outcome(record.as_ref(), ran.end);
    let summary = summary_of(asked, &ran, record.as_ref(), &outcome);
    Ok((summary, ran.seconds.ceil() as u64))
}

/// What is kept of a run on phantom GPUs.
pub fn summary_of(
    asked: &PhantomRun,
    ran: &PhantomRan,
    record: Option<&PhantomRecord>,
    outcome: &PhantomOutcome,
) -> PhantomSummary {
    let mut summary = PhantomSummary::new(record, outcome);
    summary.replaced.splice(..0, ran.replaced.iter().cloned());
    let cuda = record.and_then(|r| r.cuda.as_deref());
    summary.context = Some(asked.context.sentence(cuda));
    let trust = |r: &PhantomRecord| r.confidence(&ran.unknown_calls, &asked.context);
    summary.trust = record.filter(|_| summary.fits.is_some()).map(trust);
    let unknown = ran.unknown_calls.iter();
    summary
        .replaced
        .extend(unknown.map(|name| format!("the phantom does not know {name}")));
    summary
}

/// What measures the runs of a project for those who watch them.
pub fn measurer(config: Option<PathBuf>) -> Measurer {
    Arc::new(move |request, rungs, ears| {
        let session = Session::open(config.as_deref());
        let measured = session
            .and_then(|session| measurement(&session, request, rungs, ears, Some(LONGEST), None));
        match measured {
            Ok((measured, _)) => measured,
            Err(why) => PhantomMeasurement::impossible(&why.sentence()),
        }
    })
}
