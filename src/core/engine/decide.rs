//! What an event means for a run: facts, and nothing else.
//!
//! Every step that follows from facts alone is taken on `Tick`, never in the same breath as the event
//! that made it possible: a crash between two facts then leaves nothing undecided for ever.

use jiff::Timestamp;

use super::event::{AttemptEvent, Event, Sighting};
use super::fact::{Fact, LogEnd};
use super::follow_up::{ended, follow_up, last_end};
use super::outcome::{Outcome, RetryCause};
use super::retry::again;
use super::state::{Attempt, Run, RunPhase, part, uncounted};
use super::time::{seconds, signed};
use super::{queue, refused, steer};
use crate::core::learn::{BadNode, NodesExcluded};
use crate::core::measure::Measured;
use oomctl_base::job::{JobRef, JobStatus, Stage};
use oomctl_diagnose::{Incident, Progress};

/// Seconds for which a change of nothing but the pending reason is not worth another fact.
const REASON_REST_S: i64 = 60;

/// The facts that follow from an event. An event about an attempt that is not the present one, or
/// that does not fit where the run stands, gives none.
pub fn decide(run: &Run, event: &Event, now: Timestamp) -> Vec<Fact> {
    match event {
        Event::Tick => follow_up(run, now).into_iter().collect(),
        Event::Attach(adopts) if run.history.attempts.is_empty() => vec![Fact::Attached {
            attempt: 1,
            job: adopts.job.clone(),
            gpus: adopts.gpus,
            logs: adopts.logs.clone(),
            outputs: adopts.outputs.clone(),
        }],
        Event::CancelAsked { by }
            if run.history.cancel.is_none() && run.phase() != RunPhase::Finished =>
        {
            vec![Fact::CancelRequested { by: by.clone() }]
        }
        Event::ResumeAsked { by } => resume(run, by),
        Event::RetryAsked { by } => retry(run, by),
        Event::ProvenInfeasible { by, reason } if run.history.is_unstarted() => {
            vec![Fact::Pruned {
                by: by.clone(),
                reason: reason.clone(),
            }]
        }
        Event::Attempt(number, event) if run.phase() == RunPhase::Preparing(*number) => {
            prepared(run, *number, event).into_iter().collect()
        }
        Event::Attempt(number, event) => match run.history.attempt() {
            Some(attempt) if attempt.number == *number => on_attempt(run, attempt, event, now),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The files of the next attempt are there, or cannot be made.
fn prepared(run: &Run, attempt: u32, event: &AttemptEvent) -> Option<Fact> {
    match event {
        AttemptEvent::Prepared {
            token,
            script,
            script_sha256,
            gpus,
            outputs,
        } => Some(Fact::Intended {
            attempt,
            token: token.clone(),
            script: script.clone(),
            script_sha256: script_sha256.clone(),
            gpus: *gpus,
            rungs: run.history.steps().map(|s| s.rung.clone()).collect(),
            outputs: outputs.clone(),
        }),
        AttemptEvent::PhantomMeasured(measurement) if run.to_be_measured() == Some(attempt) => {
            Some(Fact::PhantomMeasured {
                attempt,
                check: Box::new(run.checked(attempt, measurement)),
            })
        }
        AttemptEvent::NodesAreBad(nodes) => without(run, attempt, nodes),
        AttemptEvent::FilesChanged(files) => run.history.files_changed(attempt, files),
        AttemptEvent::PrepareRefused(reason) => Some(Fact::Finished {
            outcome: Outcome::Configuration {
                reason: reason.clone(),
            },
        }),
        _ => None,
    }
}

/// The next attempt stays away from these nodes, where the stack has a knob for that and they are not excluded yet.
fn without(run: &Run, attempt: u32, nodes: &[BadNode]) -> Option<Fact> {
    let names: Vec<String> = nodes.iter().map(|bad| bad.node.clone()).collect();
    let layer = run.request.exclude(&run.history.rungs(), &names, attempt)?;
    Some(Fact::NodesExcluded {
        attempt,
        excluded: Box::new(NodesExcluded {
            nodes: nodes.to_vec(),
            layer,
        }),
    })
}

fn on_attempt(run: &Run, attempt: &Attempt, event: &AttemptEvent, now: Timestamp) -> Vec<Fact> {
    let number = attempt.number;
    match (run.phase(), event) {
        (_, AttemptEvent::LinkSeen(link)) if attempt.is_news(link) => vec![Fact::Linked {
            attempt: number,
            link: link.clone(),
        }],
        (_, AttemptEvent::VersionSeen(found)) if run.request.assumes_version() => {
            vec![Fact::VersionFound {
                attempt: number,
                found: found.clone(),
            }]
        }
        (RunPhase::Submitting, AttemptEvent::Accepted { id, cluster }) => vec![Fact::Submitted {
            attempt: number,
            job: JobRef {
                id: id.clone(),
                cluster: cluster.clone(),
                token: attempt.token.clone(),
                submitted: now,
            },
            adopted: false,
        }],
        (
            RunPhase::Submitting,
            AttemptEvent::Refused {
                reason,
                hint,
                passing,
            },
        ) => vec![Fact::SubmitRefused {
            attempt: number,
            reason: reason.clone(),
            hint: hint.clone(),
            passing: *passing,
            again_s: refused::pause_s(run, attempt, now).filter(|_| *passing),
        }],
        (RunPhase::Submitting, AttemptEvent::Unclear(detail)) => vec![Fact::SubmitUnclear {
            attempt: number,
            detail: detail.clone(),
        }],
        (RunPhase::Searching, AttemptEvent::Found(jobs)) => searched(run, attempt, jobs, now),
        (RunPhase::Live, AttemptEvent::Polled { status, .. }) => polled(run, attempt, status, now),
        (RunPhase::Live, AttemptEvent::Vanished) => {
            // It ended at some time after it was last seen. Who did not look meanwhile knows no more.
            let seen = run.watch.answered.unwrap_or(attempt.status_at);
            vec![ended(attempt, last_end(attempt), seen.min(now))]
        }
        (
            RunPhase::Draining,
            AttemptEvent::Drained {
                complete,
                incident,
                progress,
                measured,
            },
        ) if *complete || in_the_text(incident) => {
            drained(run, number, incident, progress.as_ref(), measured)
        }
        (RunPhase::Judging, AttemptEvent::QueueAnswered(starts)) => queue::asked(attempt, starts),
        (_, AttemptEvent::CancelTaken(job)) => cancel_taken(attempt, job),
        (_, AttemptEvent::EscalationAsked { by }) => steer::escalate(run, attempt, by, now),
        (_, AttemptEvent::LeaveOutAsked { rung, by }) => {
            steer::leave_out(run, attempt, rung, by, now)
        }
        _ => Vec::new(),
    }
}

/// The logs of the ended job were read: what it took, and why it ended.
fn drained(
    run: &Run,
    attempt: u32,
    incident: &Incident,
    progress: Option<&Progress>,
    measured: &Measured,
) -> Vec<Fact> {
    let peaks = (!measured.is_empty()).then(|| Fact::Measured {
        attempt,
        measured: Box::new(measured.clone()),
    });
    let mut incident = Box::new(incident.clone());
    run.request.settle(&run.history.rungs(), &mut incident);
    let diagnosed = Fact::Diagnosed {
        attempt,
        incident,
        progress: progress.cloned(),
    };
    peaks.into_iter().chain([diagnosed]).collect()
}

/// Is there a line in the logs that says why the job failed? One that nobody knows may be the first of a
/// message whose rest is to come.
fn in_the_text(incident: &Incident) -> bool {
    let known = incident.fatal && !matches!(incident.kind.as_str(), "other" | "cancelled");
    known && incident.evidence.iter().any(|e| !e.file.is_empty())
}

/// What was found under a token: the lowest id is kept, every other must go. Duplicates are noted
/// before the job that is kept, so that a crash in between leads back to this search.
fn searched(run: &Run, attempt: &Attempt, jobs: &[Sighting], now: Timestamp) -> Vec<Fact> {
    let mut real: Vec<&Sighting> = jobs.iter().filter(|j| !j.refused_trace).collect();
    real.sort_by_key(|j| id_order(&j.status.id.0));
    real.dedup_by(|a, b| a.status.id == b.status.id);
    let Some((kept, others)) = real.split_first() else {
        // A trace may be that of an earlier submission, and says nothing of the last one then.
        let earlier = attempt.refused.is_some();
        if (jobs.is_empty() || earlier) && surely_absent(run, now) {
            return vec![Fact::SubmitAbsent {
                attempt: attempt.number,
            }];
        }
        return match earlier {
            true => Vec::new(),
            false => refused_by_trace(attempt, jobs),
        };
    };
    let reference = |found: &Sighting| JobRef {
        id: found.status.id.clone(),
        cluster: found.cluster.clone(),
        token: attempt.token.clone(),
        submitted: found.submitted.unwrap_or(attempt.intended_at),
    };
    let known = |job: &JobRef| {
        attempt
            .duplicates
            .iter()
            .chain(&attempt.removed)
            .any(|d| d.id == job.id)
    };
    let mut facts: Vec<Fact> = others
        .iter()
        .map(|other| reference(other))
        .filter(|job| !known(job))
        .map(|job| Fact::DuplicateFound {
            attempt: attempt.number,
            job,
        })
        .collect();
    facts.push(Fact::Submitted {
        attempt: attempt.number,
        job: reference(kept),
        adopted: true,
    });
    facts
}

/// Only the trace of a refusal was found: that is the answer which was lost.
fn refused_by_trace(attempt: &Attempt, jobs: &[Sighting]) -> Vec<Fact> {
    jobs.first()
        .map(|trace| Fact::SubmitRefused {
            attempt: attempt.number,
            reason: trace
                .status
                .reason
                .clone()
                .unwrap_or_else(|| trace.status.state.word().to_owned()),
            hint: None,
            passing: false,
            again_s: None,
        })
        .into_iter()
        .collect()
}

/// Ids in the order in which they were given out: by number, then as text.
fn id_order(id: &str) -> (u64, String) {
    let digits: String = id.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(u64::MAX), id.to_owned())
}

/// True when clean empty answers have come, without a break, for the whole settle time, and at least
/// two of them.
fn surely_absent(run: &Run, now: Timestamp) -> bool {
    let settle = run.request.supervision().settle_s;
    run.watch.clean_answers >= 2
        && run
            .watch
            .clean_since
            .is_some_and(|since| seconds(since, now) >= signed(settle))
}

fn polled(run: &Run, attempt: &Attempt, status: &JobStatus, now: Timestamp) -> Vec<Fact> {
    let mut facts = Vec::new();
    if status.restarts > attempt.restarts {
        facts.push(Fact::Restarted {
            attempt: attempt.number,
            restarts: status.restarts,
            gpu_seconds: uncounted(attempt, status)
                .unwrap_or_else(|| part(attempt, status.started.unwrap_or(now).min(now))),
            logs: starts_of_new_part(run, attempt, status),
        });
    }
    if changed(attempt, status, now) {
        facts.push(Fact::StateSeen {
            attempt: attempt.number,
            status: status.clone(),
        });
    }
    facts
}

/// Where the logs of a restarted job begin: where they end now while it waits, else where they
/// ended when the earlier part was last seen. A log that is shorter was truncated: from its start.
fn starts_of_new_part(run: &Run, attempt: &Attempt, status: &JobStatus) -> Vec<LogEnd> {
    let ends = &run.watch.log_ends;
    if status.state.stage() == Stage::Waiting {
        return ends.clone();
    }
    if run.watch.ends_before_poll.is_empty() {
        return attempt.log_starts.clone();
    }
    let mut starts = run.watch.ends_before_poll.clone();
    for start in &mut starts {
        let end = ends.iter().find(|e| e.path == start.path);
        if end.is_some_and(|e| e.offset < start.offset) {
            start.offset = 0;
        }
    }
    starts
}

/// Does the scheduler's word differ in something that a reader of the ledger wants to know?
fn changed(attempt: &Attempt, status: &JobStatus, now: Timestamp) -> bool {
    let Some(known) = &attempt.status else {
        return true;
    };
    known.state != status.state
        || known.restarts != status.restarts
        || known.nodes != status.nodes
        || known.exit != status.exit
        || known.derived_exit != status.derived_exit
        || known.step_out_of_memory != status.step_out_of_memory
        || known.started != status.started
        || (known.reason != status.reason && seconds(attempt.status_at, now) >= REASON_REST_S)
}

fn cancel_taken(attempt: &Attempt, job: &JobRef) -> Vec<Fact> {
    if attempt.duplicates.iter().any(|d| d.id == job.id) {
        return vec![Fact::DuplicateCancelled {
            attempt: attempt.number,
            job: job.clone(),
        }];
    }
    let ours = attempt.job.as_ref().is_some_and(|j| j.id == job.id);
    if ours && !attempt.cancel_sent && attempt.ended_at.is_none() {
        return vec![Fact::CancelSent {
            attempt: attempt.number,
        }];
    }
    Vec::new()
}

/// Somebody wants to go on with a run whose submission was refused for now, or whose last job a disk ended.
pub(super) fn resume(run: &Run, by: &str) -> Vec<Fact> {
    let history = &run.history;
    if let Some(fact) = after_a_disk(run) {
        return vec![fact];
    }
    let refused = match (&history.outcome, history.phase()) {
        (Some(Outcome::Refused { .. }), _) | (None, RunPhase::Refused) => history.attempt(),
        _ => None,
    };
    let passing = |a: &&Attempt| a.job.is_none() && a.refusal().is_some_and(|r| r.passing);
    let again = refused.filter(passing).map(|attempt| Fact::SubmitAgain {
        attempt: attempt.number,
        by: Some(by.to_owned()),
    });
    again.into_iter().collect()
}

/// The same configuration once more, after a job that a full or failing disk ended, and nothing else.
fn after_a_disk(run: &Run) -> Option<Fact> {
    let attempt = run.history.attempt()?;
    let failed = matches!(run.history.outcome, Some(Outcome::Failed { .. }));
    let disk = attempt.incident.as_ref().is_some_and(|i| i.kind == "disk");
    let goes_on = failed && disk && run.request.supervision().resubmit;
    goes_on.then(|| Fact::Decided {
        attempt: attempt.number,
        verdict: Box::new(again(run, attempt, RetryCause::Disk, &[])),
    })
}

/// Somebody wants a run that is over to go on, whatever ended it. What that means for its last attempt follows from this one
/// fact (`History::reopen`), so a kill loses nothing. A run that succeeded has nothing left to do.
pub(super) fn retry(run: &Run, by: &str) -> Vec<Fact> {
    let over = run.history.outcome.as_ref();
    let unfinished = over.filter(|o| **o != Outcome::Succeeded);
    let asked = unfinished.map(|_| Fact::RetryRequested { by: by.to_owned() });
    asked.into_iter().collect()
}
