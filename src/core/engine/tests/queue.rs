//! The scheduler is asked before a rung that asks for more, and `soonest` takes what ends first.

use super::table::{Bench, polled, read_to_the_end, status};
use super::toy::KNOBS;
use super::{Toy, at, incident, nothing};
use crate::core::engine::{Action, AttemptEvent, Event, Fact, RunPhase, Verdict, due};
use crate::core::ladder::Policy;
use crate::core::measure::Measured;
use crate::core::request::tests::start::stored;
use crate::core::request::{Inputs, QueueStart, Request, StartForecast};
use oomctl_base::job::JobState;
use oomctl_diagnose::{Class, Progress};

const THIN: &str =
    "  - { rung: thin, title: t, slower: 0.2, moves: [{ role: micro_batch, times: 0.5 }] }\n";
const MORE: &str = "  - { rung: more, title: t, moves: [{ role: gpus_per_node, times: 2 }] }\n";
const HOUR: i64 = 3_600;

fn request(policy: Policy, ladder: &[&str], backend: &str) -> Request {
    let preset = format!("{KNOBS}{}", ladder.concat());
    let script =
        "#!/bin/bash\n#SBATCH -J {{ attempt.token }} --gpus={{ gpus }}\ntrain {{ micro }}\n";
    Request::new(Inputs {
        policy,
        backend: backend.to_owned(),
        ..stored("r1", &preset, ("job.sbatch.j2", script))
    })
    .unwrap()
}

/// Ended out of memory at step 10 of so many, each of a minute; the facts until something is to be done.
fn died(request: Request, total: Option<u64>) -> (Bench, Vec<Fact>) {
    let mut bench = Bench::running(Toy::new(1));
    bench.run.request = request;
    bench.feed(&polled(status(JobState::Failed)), 100);
    let progress = total.map(|total| Progress::new(10, Some(total)));
    let incident = incident("cuda_oom", Class::GpuOom);
    let measured = Measured::default().with_steps(vec![60_000; 5]);
    let facts = bench.feed(&read_to_the_end(1, incident, progress, measured), 210);
    (bench, facts)
}

fn start(rung: &str, gpus: u64, wait_s: Option<i64>) -> QueueStart {
    QueueStart {
        rungs: vec![rung.to_owned()],
        gpus,
        start: wait_s.map(|s| StartForecast::At(at(210 + s))),
    }
}

/// What follows from the scheduler's answer: the first rung, with its note.
fn answered(bench: &mut Bench, starts: Vec<QueueStart>) -> (String, String) {
    let event = Event::Attempt(1, AttemptEvent::QueueAnswered(starts));
    let facts = bench.feed(&event, 210);
    let steps = facts.iter().find_map(|fact| match fact {
        Fact::Decided { verdict, .. } => match &**verdict {
            Verdict::Climb { steps, .. } => Some(steps.clone()),
            _ => None,
        },
        _ => None,
    });
    let first = steps.expect("a decision")[0].clone();
    let note = first.notes.iter().find(|n| n.starts_with("queue: "));
    (first.rung, note.cloned().unwrap_or_default())
}

fn asks(bench: &Bench) -> bool {
    due(&bench.run, at(211)).contains(&Action::AskQueue { attempt: 1 })
}

#[test]
fn nothing_is_decided_before_the_scheduler_was_asked_about_a_rung_that_asks_for_more() {
    let (mut bench, facts) = died(request(Policy::Ladder, &[MORE, THIN], "slurm"), None);
    assert!(
        !facts.iter().any(|f| matches!(f, Fact::Decided { .. })),
        "{facts:?}"
    );
    assert!(asks(&bench) && bench.run.phase() == RunPhase::Judging);
    // Whoever takes the run up asks anew, and an answer that was written down is not asked for again.
    bench = bench.taken_up_again(211);
    assert!(asks(&bench));
    let starts = vec![start("more", 8, Some(9 * HOUR)), start("thin", 4, Some(0))];
    let (rung, note) = answered(&mut bench, starts);
    assert_eq!(rung, "more");
    assert_eq!(
        note,
        "queue: more (8 GPUs) starts in about 9h 00m; without more (4 GPUs) starts now"
    );
    assert!(!asks(&bench));
}

#[test]
fn what_asks_for_no_more_and_what_runs_elsewhere_is_decided_at_once() {
    let decided = |facts: &[Fact]| facts.iter().any(|f| matches!(f, Fact::Decided { .. }));
    for (policy, ladder, backend) in [
        (Policy::Ladder, &[THIN, MORE][..], "slurm"),
        (Policy::Soonest, &[THIN][..], "slurm"),
        (Policy::Soonest, &[MORE, THIN][..], "local"),
    ] {
        let (_, facts) = died(request(policy, ladder, backend), None);
        assert!(decided(&facts), "{policy:?} {ladder:?} {backend}");
    }
    // No answer to a success.
    let mut bench = Bench::running(Toy::new(1));
    bench.run.request = request(Policy::Soonest, &[MORE, THIN], "slurm");
    bench.end(status(JobState::Completed), nothing());
}

#[test]
fn soonest_takes_what_ends_first_by_queue_and_speed() {
    let soonest = |total, wait_h: i64| {
        let (mut bench, _) = died(
            request(Policy::Soonest, &[MORE, THIN], "slurm"),
            Some(total),
        );
        let starts = vec![
            start("more", 8, Some(wait_h * HOUR)),
            start("thin", 4, Some(0)),
        ];
        answered(&mut bench, starts)
    };
    // Two hours of steps: 2.5 h at most on what there is, against nine hours of queue.
    let (rung, note) = soonest(120, 9);
    assert_eq!(rung, "thin");
    assert_eq!(
        note,
        "queue: without more (4 GPUs) starts now, ends in 2h 17m to 2h 30m; more (8 GPUs) starts in about 9h 00m, ends in 9h 55m to 11h 00m; the first ends soonest"
    );
    // A hundred hours of steps.
    let (rung, note) = soonest(6_000, 9);
    assert_eq!(rung, "more");
    assert!(note.ends_with("the first ends soonest"), "{note}");
    // Twenty: it depends on what eight GPUs are worth.
    let (rung, note) = soonest(1_200, 9);
    assert_eq!(rung, "more");
    let why = "which ends first is unknown (how much faster or slower each trains), so the ladder's order decides";
    assert!(note.ends_with(why), "{note}");
}

#[test]
fn an_unknown_start_or_end_is_said_and_the_ladder_decides() {
    let asked = |total, starts| {
        let (mut bench, _) = died(request(Policy::Soonest, &[MORE, THIN], "slurm"), total);
        answered(&mut bench, starts)
    };
    let (rung, note) = asked(
        Some(120),
        vec![start("more", 8, None), start("thin", 4, Some(0))],
    );
    assert_eq!(rung, "more");
    assert!(note.contains("more (8 GPUs) has no known start;"), "{note}");
    assert!(
        note.contains("unknown (Slurm gave no start time)"),
        "{note}"
    );
    let (rung, note) = asked(
        None,
        vec![start("more", 8, Some(HOUR)), start("thin", 4, Some(0))],
    );
    assert_eq!(rung, "more");
    assert!(note.contains("the log shows no steps"), "{note}");
    // Slurm could not be asked at all.
    let (rung, note) = asked(Some(120), Vec::new());
    assert_eq!(rung, "more");
    assert!(
        note.contains("unknown (Slurm gave no start time)"),
        "{note}"
    );
    // What would be refused is not taken.
    let why = "Requested node configuration is not available".to_owned();
    let refused = QueueStart {
        start: Some(StartForecast::Refused(why)),
        ..start("more", 8, None)
    };
    let (rung, note) = asked(None, vec![refused, start("thin", 4, Some(0))]);
    assert_eq!(rung, "thin");
    assert!(
        note.contains("more (8 GPUs) would be refused (Requested node"),
        "{note}"
    );
}
