//! When a run goes on with the same configuration, and when it stops.

use jiff::SignedDuration;

use super::table::{Bench, accepted, polled, polled_of, read_to_the_end, status};
use super::{Toy, at, incident, nothing};
use crate::core::engine::{
    Action, AttemptEvent, Event, Fact, LogEnd, LogLook, Outcome, RetryCause, RunPhase, Verdict, due,
};
use crate::core::measure::Measured;
use oomctl_base::job::{JobId, JobState};
use oomctl_diagnose::{Class, Incident, Progress};

fn progress(step: u64) -> Option<Progress> {
    Some(Progress {
        step,
        ..Progress::default()
    })
}

/// The next attempt is job 17 plus its number and ends so, on these nodes, after so many steps.
fn attempt(bench: &mut Bench, number: u32, end: JobState, nodes: &[&str], steps: u64) -> Verdict {
    came_to(bench, number, end, nodes, progress(steps))
}

fn came_to(
    bench: &mut Bench,
    number: u32,
    end: JobState,
    nodes: &[&str],
    progress: Option<Progress>,
) -> Verdict {
    let second = i64::from(number) * 1_000;
    bench.prepared(number, second);
    bench.feed(&accepted(number), second + 1);
    let mut status = status(end);
    status.id = JobId("17".to_owned());
    status.nodes = nodes.iter().map(|n| (*n).to_owned()).collect();
    for later in [10, 100] {
        bench.feed(&polled_of(number, status.clone()), second + later);
    }
    drained(bench, number, second + 200, progress)
}

fn drained(bench: &mut Bench, number: u32, second: i64, progress: Option<Progress>) -> Verdict {
    let oom = bench.oom.then(|| Incident {
        phase: bench.phase.to_owned(),
        ..incident("cuda_oom", Class::GpuOom)
    });
    let incident = oom.unwrap_or_else(nothing);
    let event = read_to_the_end(number, incident, progress, Measured::default());
    let facts = bench.feed(&event, second);
    let verdict = facts.into_iter().find_map(|fact| match fact {
        Fact::Decided { verdict, .. } => Some(*verdict),
        _ => None,
    });
    verdict.unwrap()
}

fn cause(verdict: &Verdict) -> Option<RetryCause> {
    match verdict {
        Verdict::Again { cause, .. } => Some(*cause),
        _ => None,
    }
}

#[test]
fn an_oom_after_many_steps_is_tried_once_from_the_checkpoint_before_a_rung() {
    for (resumes, fixed_data, steps, expected) in [
        (true, false, 500, Some(RetryCause::LateOom)),
        (true, false, 3, None),
        // Nothing says how long it is.
        (true, false, 30, None),
        (false, false, 500, None),
        // The same batch would come again.
        (true, true, 500, None),
    ] {
        let mut bench = Bench::new(Toy {
            resumes,
            fixed_data,
            ..Toy::new(3)
        });
        bench.oom = true;
        let verdict = attempt(&mut bench, 1, JobState::Failed, &["node1"], steps);
        assert_eq!(cause(&verdict), expected, "{resumes} {fixed_data} {steps}");
        let verdict = attempt(&mut bench, 2, JobState::Failed, &["node1"], steps);
        assert!(matches!(verdict, Verdict::Climb { .. }), "{verdict:?}");
    }
}

#[test]
fn an_evaluation_that_ran_out_meets_the_same_data_again() {
    let mut bench = Bench::new(Toy {
        resumes: true,
        ..Toy::new(3)
    });
    (bench.oom, bench.phase) = (true, "eval");
    let verdict = attempt(&mut bench, 1, JobState::Failed, &["node1"], 500);
    assert!(matches!(verdict, Verdict::Climb { .. }), "{verdict:?}");
}

/// One in 500 steps was too large. Of 300 more none is with probability 0.55, of 500 more with 0.37.
#[test]
fn an_oom_that_will_likely_come_again_is_no_reason_to_try_the_same() {
    for (total, expected) in [(800, Some(RetryCause::LateOom)), (1000, None)] {
        let mut bench = Bench::new(Toy {
            resumes: true,
            ..Toy::new(3)
        });
        bench.oom = true;
        let progress = Some(Progress::new(500, Some(total)));
        let verdict = came_to(&mut bench, 1, JobState::Failed, &["node1"], progress);
        assert_eq!(cause(&verdict), expected, "{total}");
    }
}

#[test]
fn an_oom_soon_after_a_resume_is_not_late() {
    let mut bench = Bench::new(Toy {
        resumes: true,
        ..Toy::new(3)
    });
    bench.oom = true;
    let resumed = progress(500).map(|p| Progress { own: Some(3), ..p });
    let verdict = came_to(&mut bench, 1, JobState::Failed, &["node1"], resumed);
    assert!(matches!(verdict, Verdict::Climb { .. }), "{verdict:?}");
}

#[test]
fn a_time_limit_is_not_tried_again_when_nothing_came_of_it() {
    let mut toy = Toy::new(0);
    toy.supervision.time_limit_retries = 5;
    let mut bench = Bench::new(toy);
    for (number, steps) in [(1, 100), (2, 200), (3, 300)] {
        let verdict = attempt(&mut bench, number, JobState::Timeout, &["node1"], steps);
        assert_eq!(cause(&verdict), Some(RetryCause::TimeLimit));
    }
    let verdict = attempt(&mut bench, 4, JobState::Timeout, &["node1"], 300);
    let Verdict::End {
        outcome: Outcome::RetriesSpent { retries, .. },
    } = verdict
    else {
        panic!("{verdict:?}");
    };
    assert_eq!(retries, 3);
}

#[test]
fn a_job_that_must_not_run_twice_does_not() {
    for (end, oom) in [
        (JobState::NodeFail, false),
        (JobState::Preempted, false),
        (JobState::Timeout, false),
        (JobState::Failed, true),
        (JobState::OutOfMemory, false),
    ] {
        let mut toy = Toy::new(3);
        toy.supervision.resubmit = false;
        toy.supervision.time_limit_retries = 5;
        let mut bench = Bench::new(toy);
        bench.oom = oom;
        let verdict = attempt(&mut bench, 1, end.clone(), &["node1"], 500);
        assert!(
            matches!(verdict, Verdict::End { .. }),
            "{end:?}: {verdict:?}"
        );
    }
}

fn look(step: Option<u64>, bytes: u64) -> Event {
    let end = LogEnd {
        path: "/r/slurm.out".into(),
        offset: bytes,
    };
    Event::Attempt(
        1,
        AttemptEvent::LogsRead(LogLook {
            progress: step.and_then(progress),
            ends: vec![end],
            ..LogLook::default()
        }),
    )
}

#[test]
fn a_job_without_progress_is_told_of_once_and_goes_on() {
    let mut bench = Bench::running(Toy::new(3));
    bench.feed(&look(Some(1), 10), 20);
    bench.feed(&look(Some(2), 20), 1_000);
    bench.feed(&look(Some(2), 999), 2_000); // text, and no step
    assert!(
        bench
            .feed(&polled(status(JobState::Running)), 2_799)
            .is_empty()
    );
    let facts = bench.feed(&polled(status(JobState::Running)), 2_801);
    let idle = Fact::Idle {
        attempt: 1,
        idle_s: 1_801,
    };
    assert_eq!(facts, [idle]);
    assert!(
        bench
            .feed(&polled(status(JobState::Running)), 9_000)
            .is_empty()
    );
    assert_eq!(bench.run.phase(), RunPhase::Live);
}

#[test]
fn text_is_progress_until_steps_are_known() {
    let mut bench = Bench::running(Toy::new(3));
    bench.feed(&look(None, 10), 20);
    bench.feed(&look(None, 20), 1_700);
    assert!(
        bench
            .feed(&polled(status(JobState::Running)), 3_000)
            .is_empty()
    );
    let facts = bench.feed(&polled(status(JobState::Running)), 3_501);
    assert!(matches!(facts[..], [Fact::Idle { .. }]), "{facts:?}");
}

#[test]
fn a_job_without_progress_is_cancelled_where_that_is_asked_for() {
    let mut toy = Toy::new(3);
    toy.supervision.stall_cancel = true;
    toy.time_limit_s = Some(7_200);
    let mut bench = Bench::running(toy);
    bench.feed(&look(Some(1), 10), 20);
    let mut running = status(JobState::Running);
    running.started = Some(at(0));
    let facts = bench.feed(&polled(running), 2_000);
    let saved = facts.iter().find_map(|fact| match fact {
        Fact::Stalled {
            saved_gpu_seconds, ..
        } => *saved_gpu_seconds,
        _ => None,
    });
    assert_eq!(saved, Some(4 * 5_200));
    let cancels = due(&bench.run, at(2_000))
        .into_iter()
        .any(|a| matches!(a, Action::Cancel { .. }));
    assert!(cancels);
    bench.feed(&polled(status(JobState::Cancelled)), 2_010);
    let verdict = drained(&mut bench, 1, 2_020, progress(1));
    let Verdict::End {
        outcome: Outcome::Failed { reason, .. },
    } = verdict
    else {
        panic!("{verdict:?}");
    };
    assert!(reason.contains("no progress for 1980 s"), "{reason}");
}

#[test]
fn a_failure_that_the_logs_do_not_explain_yet_is_waited_for() {
    let drained = |incident, complete| {
        Event::Attempt(
            1,
            AttemptEvent::Drained {
                complete,
                incident: Box::new(incident),
                progress: None,
                measured: Measured::default(),
            },
        )
    };
    let oom = || incident("cuda_oom", Class::GpuOom);
    let mut bench = Bench::running(Toy::new(3));
    bench.feed(&polled(status(JobState::Failed)), 100);
    let is_last = |bench: &Bench, second| {
        due(&bench.run, at(second))
            .into_iter()
            .find_map(|a| match a {
                Action::Drain { last, .. } => Some(last),
                _ => None,
            })
    };
    assert_eq!(is_last(&bench, 105), Some(false));
    assert!(bench.feed(&drained(nothing(), false), 105).is_empty());
    assert_eq!(is_last(&bench, 106), None, "not at once again");
    assert!(bench.feed(&drained(nothing(), false), 150).is_empty());
    assert_eq!(is_last(&bench, 155), Some(false));
    // The text came.
    assert!(!bench.feed(&drained(oom(), false), 160).is_empty());

    let mut bench = Bench::running(Toy::new(3));
    bench.feed(&polled(status(JobState::Failed)), 100);
    bench.feed(&drained(nothing(), false), 105);
    bench.feed(&drained(nothing(), false), 195);
    assert_eq!(is_last(&bench, 200), Some(true), "long enough");

    let mut bench = Bench::running(Toy::new(3));
    bench.feed(&polled(status(JobState::Completed)), 100);
    assert_eq!(
        is_last(&bench, 105),
        Some(true),
        "there is nothing to explain"
    );
}

#[test]
fn a_job_whose_log_says_that_it_dies_is_asked_about_soon_and_then_ever_less() {
    let mut bench = Bench::running(Toy::new(3));
    bench.feed(&polled(status(JobState::Running)), 500);
    let fatal = Event::Attempt(
        1,
        AttemptEvent::LogsRead(LogLook {
            fatal: Some(Class::GpuOom),
            ..LogLook::default()
        }),
    );
    bench.feed(&fatal, 501);
    let asked = |bench: &Bench, from: i64| {
        let poll = |second: &i64| {
            let due = due(&bench.run, at(*second));
            due.iter().any(|a| matches!(a, Action::Poll { .. }))
        };
        (from..from + 20).find(poll).unwrap()
    };
    let mut moments = vec![asked(&bench, 501)];
    while moments.len() < 6 {
        let last = moments[moments.len() - 1];
        bench.feed(&polled(status(JobState::Running)), last);
        moments.push(asked(&bench, last));
    }
    // Doubling, until the ordinary 15 seconds are shorter.
    assert_eq!(moments, [502, 503, 505, 509, 517, 532]);
    // What it died of is known: no need to wait for more text once it has ended.
    bench.feed(&polled(status(JobState::Failed)), 533);
    let drains = |second: i64| {
        let due = due(&bench.run, at(second));
        due.iter().any(|a| matches!(a, Action::Drain { .. }))
    };
    assert_eq!(bench.run.phase(), RunPhase::Draining);
    assert!(drains(533));
}

#[test]
fn an_answer_that_was_asked_for_before_the_grace_time_was_over_proves_no_hang() {
    let mut toy = Toy::new(3);
    toy.supervision.hang_grace_s = 60;
    let mut bench = Bench::running(toy);
    let look = LogLook {
        fatal: Some(Class::GpuOom),
        ..LogLook::default()
    };
    bench.feed(&Event::Attempt(1, AttemptEvent::LogsRead(look)), 100);
    let heard = |age_s| {
        Event::Attempt(
            1,
            AttemptEvent::Polled {
                status: status(JobState::Running),
                age: SignedDuration::from_secs(age_s),
            },
        )
    };
    // Another process asked at 158 and 159: since then a user may have ended the job.
    assert_eq!(bench.feed(&heard(10), 168), []);
    assert_eq!(bench.feed(&heard(10), 169), []);
    assert!(matches!(
        bench.feed(&heard(10), 170)[..],
        [Fact::Stalled { .. }]
    ));
}

#[test]
fn a_turn_of_the_watch_stays_until_a_node_failure_has_stood_for_a_while() {
    let mut bench = Bench::running(Toy::new(3));
    assert!(bench.run.waits_for_its_job());
    bench.feed(&polled(status(JobState::NodeFail)), 100);
    assert!(!bench.run.waits_for_its_job(), "the next would begin anew");
    bench.feed(&polled(status(JobState::NodeFail)), 130);
    assert_eq!(bench.run.phase(), RunPhase::Draining);
}
