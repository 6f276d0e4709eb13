//! `plan --measure`: the job as it is and after each rung, on phantom GPUs, until it fits.

use super::cache;
use super::job::{job_of, measured};
use super::options::MeasureOptions;
use crate::cli::args::Configuration;
use crate::cli::launch::launching::signals;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::ladder::Decision;
use crate::core::measure::{PhantomEnd, PhantomRecord, PhantomSummary, phantom_outcome};
use crate::core::recipe::Layer;
use crate::io::phantom::{PhantomRun, run as run_on_phantom};
use crate::io::program::{Ears, Outputs};
use crate::view::measured_plan_view::{MeasuredAttempt, MeasuredPlanView};
use crate::view::{CommandFailure, print};

/// Attempts that are measured at most.
const MOST_ATTEMPTS: u32 = 16;

/// Measures the attempts of a job, or of the project's where there are no words, until one fits.
pub fn plan(
    session: &Session,
    flags: &Configuration,
    words: &[String],
) -> Result<Exit, CommandFailure> {
    let (request, mut rungs) = job_of(session, flags, words)?;
    let ears = signals()?;
    let mut view = MeasuredPlanView::default();
    let mut decisions = request.decisions(MOST_ATTEMPTS);
    let mut steps = Vec::new();
    loop {
        let job = measured(session, &request, &rungs)?;
        let asked = MeasureOptions::default().asked(session, &job)?;
        let number = view.attempts.len() + 1;
        let (summary, before) = summary(session, &asked, &ears, number)?;
        let fits = summary.fits;
        view.attempts.push(MeasuredAttempt {
            attempt: number,
            rungs: std::mem::take(&mut steps),
            gpu_bytes: asked.phantom.card.total_bytes,
            measured_before: before,
            summary,
        });
        if fits != Some(false) || ears.ending().is_some() {
            break;
        }
        match decisions.next() {
            Some(Ok(Decision::Climb { steps: next, .. })) => {
                rungs.extend(
                    next.iter()
                        .map(|step| step.layer.clone())
                        .collect::<Vec<Layer>>(),
                );
                steps = next;
            }
            _ => break,
        }
    }
    session.show(&view, MeasuredPlanView::text)?;
    Ok(match (ears.ending(), view.fits()) {
        (Some(signal), _) => Exit::Signal(signal),
        (None, Some(true)) => Exit::Success,
        (None, Some(false)) => Exit::StillOutOfMemory,
        (None, None) => Exit::Failed,
    })
}

/// What a measurement comes to, and whether it was made before.
fn summary(
    session: &Session,
    asked: &PhantomRun,
    ears: &Ears,
    number: usize,
) -> Result<(PhantomSummary, bool), CommandFailure> {
    let place = cache::place(session, asked);
    if let Some(known) = cache::kept(&place) {
        return Ok((known, true));
    }
    print::talk(&format!("attempt {number}: runs on phantom GPUs"));
    let silent = Outputs {
        out: Box::new(std::io::sink()),
        err: Box::new(std::io::sink()),
    };
    let ran = run_on_phantom(asked, silent, ears);
    let ran = ran.map_err(|e| {
        CommandFailure::refused(format!(
            "{} cannot be started: {e}",
            asked.program.command[0]
        ))
    })?;
    let record = PhantomRecord::fullest(ran.records);
    let end: PhantomEnd = ran.end;
    let outcome = phantom_outcome(record.as_ref(), end);
    let summary = PhantomSummary::new(record.as_ref(), &outcome);
    cache::keep(&place, &summary)?;
    Ok((summary, false))
}
