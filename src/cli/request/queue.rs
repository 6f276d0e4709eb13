//! When Slurm would start what `plan` shows.

use jiff::{SignedDuration, Timestamp};

use crate::cli::session::Session;
use crate::core::ladder::Policy;
use crate::core::request::{Alternative, QueueStart, Request, StartForecast};
use crate::drive::QueueQuestion;
use crate::io::environment::variables;
use crate::io::scheduler::Scheduler;
use crate::io::scratch::ScratchFolder;
use crate::view::print;
use crate::view::starts_view::{InTheWay, StartsView};

/// Asks Slurm when the job would start as it is, and with each answer to its first out-of-memory, and whether a maintenance is in
/// the way; `None` where neither says anything. Nothing is submitted.
pub fn starts(session: &Session, request: &Request) -> Option<StartsView> {
    let runs = &session.runs;
    if request.inputs().backend != "slurm" || !runs.reach_slurm() || runs.is_slurm_silent() {
        return None;
    }
    let mut scheduler = runs.scheduler("slurm");
    let starts = answers(request, scheduler.as_mut());
    if starts.is_some() && runs.rest().is_some() {
        print::warn("slurmrestd cannot say when a job would start; sbatch --test-only can");
    }
    let asked_at = Timestamp::now();
    let maintenance = maintenance(request, scheduler.as_mut(), asked_at);
    (starts.is_some() || maintenance.is_some()).then(|| StartsView {
        asked_at,
        starts: starts.unwrap_or_default(),
        maintenance,
    })
}

/// Whether Slurm would take the job as it is, and when it would start; `None` where it does not say. Nothing is submitted.
pub fn tested(session: &Session, request: &Request) -> Option<StartForecast> {
    let asks = session.runs.rest().is_none() && request.inputs().backend == "slurm";
    if !asks || !session.runs.reach_slurm() || session.runs.is_slurm_silent() {
        return None;
    }
    let mut scheduler = session.runs.scheduler("slurm");
    let as_it_is = request.unchanged_and(Vec::new());
    asked(request, &as_it_is, scheduler.as_mut())?.pop()?.start
}

/// What Slurm says of some answers.
fn asked(
    request: &Request,
    alternatives: &[Alternative],
    scheduler: &mut dyn Scheduler,
) -> Option<Vec<QueueStart>> {
    let question = QueueQuestion {
        request,
        rungs: &[],
        alternatives,
        environment: variables(),
    };
    let folder = ScratchFolder::new("queue").ok()?;
    Some(question.ask(&folder.path().join("answers"), scheduler))
}

/// When each answer would start; `None` where no answer asks for more, so that all start alike.
fn answers(request: &Request, scheduler: &mut dyn Scheduler) -> Option<Vec<QueueStart>> {
    let alternatives = request.first_alternatives();
    let more = alternatives.iter().any(|a| request.asks_for_more(&a.steps));
    if !more && request.inputs().policy != Policy::Soonest {
        return None;
    }
    asked(request, &request.unchanged_and(alternatives), scheduler)
}

/// The first maintenance that the job reaches into if it starts now. Where its time limit is unknown, or it goes to another cluster
/// or a reservation, nobody knows.
fn maintenance(
    request: &Request,
    scheduler: &mut dyn Scheduler,
    now: Timestamp,
) -> Option<InTheWay> {
    let words = ["--cluster", "-M", "--reservation"];
    if request.gives_sbatch(&["clusters", "reservation"], &words) {
        return None;
    }
    let limit_s = request.resources(&[]).ok()?.time_limit_s?;
    let limit = SignedDuration::from_secs(i64::try_from(limit_s).ok()?);
    let end = now.checked_add(limit).ok()?;
    let met = scheduler
        .maintenances()
        .into_iter()
        .filter(|m| m.start < end && m.end > now);
    let first = met.min_by_key(|m| m.start)?;
    Some(InTheWay {
        start: first.start,
        end: first.end,
        time_limit_s: limit_s,
    })
}
