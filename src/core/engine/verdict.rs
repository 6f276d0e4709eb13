//! What follows from an attempt that has ended: the one table of the supervisor.

use super::ending::{assumed, memory_incident, succeeded};
use super::outcome::{Outcome, RetryCause, Verdict};
use super::queue_choice::{chosen, with_past};
use super::state::{Attempt, Run};
use super::unmoved::unmoved;
use super::withdraw::withdraw;
use super::{given_memory, retry};
use crate::core::ladder::Decision;
use oomctl_base::Refusal;
use oomctl_base::job::{JobState, JobStatus};
use oomctl_diagnose::{Class, Incident};

/// What follows from an attempt that has ended and is diagnosed.
///
/// The order matters: work that was done counts whatever else happened; then what people asked for;
/// then what the text proves; then the scheduler's word; and without any of these the run ends.
pub fn verdict(run: &Run, attempt: &Attempt) -> Verdict {
    let status = attempt.status.as_ref();
    let incident = attempt.incident.as_ref();
    if succeeded(run, attempt) {
        return end(Outcome::Succeeded);
    }
    if let Some(outcome) = stopped(run, attempt, status) {
        return end(outcome);
    }
    if let Some(incident) = memory_incident(status, incident) {
        if !run.request.supervision().resubmit {
            return end(Outcome::Failed {
                reason: reason(attempt, status, Some(&incident)),
                skipped: Vec::new(),
            });
        }
        return answer(run, attempt, status, &incident);
    }
    if attempt.was_ended_for_a_rung() {
        return answer(run, attempt, status, &assumed());
    }
    match status.and_then(|s| retry::cause_of(run, s).map(|cause| (s, cause))) {
        Some((status, cause)) => retry::retry(run, attempt, status, cause),
        None => withdraw(run, attempt).unwrap_or_else(|| {
            end(Outcome::Failed {
                reason: reason(attempt, status, incident),
                skipped: Vec::new(),
            })
        }),
    }
}

fn end(outcome: Outcome) -> Verdict {
    Verdict::End { outcome }
}

/// What to do about a job that never starts.
const NEVER_STARTS: &str = "request less, or what is allowed: `sinfo -o '%P %l %D'`, `sacctmgr show qos`, \
     `sacctmgr show assoc user=$USER`; `supervision: never_starts` sets when such a job is cancelled";

/// The end that people asked for: our own cancel on request or for a budget, or anybody's scancel. A
/// cancellation that we sent because the job hung, or for the next rung, is no such end.
fn stopped(run: &Run, attempt: &Attempt, status: Option<&JobStatus>) -> Option<Outcome> {
    if let Some(by) = &run.history.cancel {
        return Some(Outcome::Cancelled {
            by: Some(by.clone()),
        });
    }
    if let Some(budget) = &run.history.budget {
        return Some(Outcome::BudgetSpent {
            budget: budget.clone(),
        });
    }
    let is_gone = status.is_none_or(|s| s.state == JobState::Cancelled);
    if let Some(reason) = attempt.never_starts.as_ref().filter(|_| is_gone) {
        return Some(Outcome::Refused {
            reason: format!("the job could never start: {reason}"),
            hint: Some(NEVER_STARTS.to_owned()),
            rung: run.history.steps().last().map(|s| s.rung.clone()),
            program: false,
        });
    }
    // We cancel what is pruned only while it waits. Of such a task of a job array nothing may be left to be asked.
    let gone = attempt.cancel_sent && status.is_none_or(|s| s.state == JobState::Cancelled);
    if let Some(outcome) = run.history.pruned().filter(|_| gone) {
        return Some(outcome);
    }
    let cancelled = status.filter(|s| s.state == JobState::Cancelled)?;
    let goes_on = attempt.stalled || attempt.steered.escalation.is_some();
    (!goes_on).then(|| Outcome::Cancelled {
        by: cancelled.cancelled_by.clone(),
    })
}

/// What answers a memory failure.
fn answer(
    run: &Run,
    attempt: &Attempt,
    status: Option<&JobStatus>,
    incident: &Incident,
) -> Verdict {
    // Who asked for a rung does not want the same once more.
    let asked = attempt.steered.escalation.is_some();
    let again = |cause| {
        let nodes = match cause {
            RetryCause::CoTenant => status.map_or(&[][..], |s| &s.nodes),
            _ => &[],
        };
        retry::again(run, attempt, cause, nodes)
    };
    if let Some(cause) = retry::before_a_rung(run, attempt, incident).filter(|_| !asked) {
        return again(cause);
    }
    if let Some(outcome) = unmoved(&run.history, attempt).filter(|_| !asked) {
        return end(outcome);
    }
    let decided = climb(run, attempt, incident);
    let decided = decided.map(|decision| given_memory::named(run, status, decision));
    match decided.map(|decision| chosen(run, attempt, incident, decision)) {
        Ok(Decision::Climb {
            steps,
            skipped,
            expects,
        }) => Verdict::Climb {
            steps,
            skipped,
            expects,
            withdrawn: None,
        },
        Ok(Decision::Exhausted { .. }) if !asked && retry::met_others(run, incident) => {
            again(RetryCause::CoTenant)
        }
        Ok(Decision::Exhausted { skipped, shortfall }) => match incident.class {
            Class::GpuOom | Class::EngineMemory => end(Outcome::Exhausted { skipped, shortfall }),
            Class::HostOom | Class::Shm | Class::NotOom => end(Outcome::Failed {
                reason: reason(attempt, status, Some(incident)),
                skipped,
            }),
        },
        Err(refusal) => end(Outcome::Configuration {
            reason: refusal.to_string(),
        }),
    }
}

/// What the ladder says to an incident of an attempt, past what it was asked to leave out.
pub(super) fn climb(
    run: &Run,
    attempt: &Attempt,
    incident: &Incident,
) -> Result<Decision, Refusal> {
    let rungs = run.history.rungs();
    let left_out = run.history.left_out();
    with_past(&run.history, attempt, &left_out, |past| {
        run.request
            .ascend(&rungs, past, Some(incident), attempt.number)
    })
}

/// Why a run failed, in one line.
fn reason(attempt: &Attempt, status: Option<&JobStatus>, incident: Option<&Incident>) -> String {
    if attempt.idle_s.is_some()
        && attempt.stalled
        && incident.is_none_or(|i| i.class == Class::NotOom)
    {
        let idle_s = attempt.idle_s.unwrap_or(0);
        return format!("no progress for {idle_s} s, so `supervision: stall_cancel` ended it");
    }
    let proof = incident
        .filter(|i| i.kind != "no_failure")
        .and_then(|i| i.evidence.first().map(|e| (i, e)));
    if let Some((incident, evidence)) = proof {
        let (headline, text) = (incident.headline(), &evidence.text);
        let begins = headline
            .rsplit_once(" at ")
            .map_or(headline.as_str(), |(words, _)| words);
        let says_it =
            headline.starts_with(text.as_str()) || text.contains(begins.trim_end_matches('…'));
        return match incident.kind.as_str() {
            "other" => text.clone(),
            _ if says_it || incident.class == Class::GpuOom => headline,
            _ => format!("{headline}: {text}"),
        };
    }
    // What is known without a line of a log, as of a disk that took none.
    let known = incident.filter(|i| i.kind == "disk" && i.evidence.is_empty());
    if let Some((incident, note)) = known.and_then(|i| Some((i, i.notes.first()?))) {
        return format!("{}: {note}", incident.headline());
    }
    let job = attempt
        .job
        .as_ref()
        .map_or_else(|| "the job".to_owned(), |j| format!("job {}", j.id));
    match status {
        Some(status) => {
            let exit = status
                .exit
                .map(|e| format!(" with exit {e}"))
                .unwrap_or_default();
            let why = status
                .reason
                .as_ref()
                .map(|r| format!(" ({r})"))
                .unwrap_or_default();
            format!(
                "{job} ended in {}{exit}{why}; its log does not say why",
                status.state.word()
            )
        }
        None => format!(
            "how {job} ended is unknown: the scheduler has forgotten it, and its log does not say"
        ),
    }
}
