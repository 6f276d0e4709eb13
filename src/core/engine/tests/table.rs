//! Single decisions, as tables.

use jiff::{SignedDuration, Timestamp};

use super::{Toy, at, incident, nothing};
use crate::core::engine::{
    Action, AttemptEvent, Budget, Event, Fact, LogEnd, LogLook, Outcome, Pace, Record, Run,
    RunPhase, Sighting, Verdict, decide, due, next_due, observation,
};
use crate::core::learn::AttemptEnd;
use crate::core::measure::{Figure, Measured, Quantity};
use crate::core::request::Adopts;
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, JobStatus, Token};
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident, Progress, Tri};

/// A run with a ledger in memory.
pub(super) struct Bench {
    pub(super) run: Run,
    records: Vec<Record>,
    epoch: u64,
    /// Its attempts die of GPU memory.
    pub(super) oom: bool,
    /// In this phase; empty where the log does not say.
    pub(super) phase: &'static str,
}

impl Bench {
    pub(super) fn new(toy: Toy) -> Self {
        let mut bench = Self {
            run: Run::new(toy.request(), &[]),
            records: Vec::new(),
            epoch: 1,
            oom: false,
            phase: "",
        };
        bench.write(
            Fact::Created {
                run: "r1".to_owned(),
                version: "0.1.0".to_owned(),
            },
            at(0),
        );
        bench
    }

    fn write(&mut self, fact: Fact, now: Timestamp) {
        let record = Record::new(self.records.len() as u64 + 1, now, self.epoch, fact);
        self.run.apply(&record);
        self.records.push(record);
    }

    /// Hands an event in and everything that follows; gives the facts.
    pub(super) fn feed(&mut self, event: &Event, second: i64) -> Vec<Fact> {
        let now = at(second);
        self.run.observe(event, now);
        let mut all = Vec::new();
        let mut facts = decide(&self.run, event, now);
        loop {
            for fact in facts {
                self.write(fact.clone(), now);
                all.push(fact);
            }
            facts = decide(&self.run, &Event::Tick, now);
            if facts.is_empty() {
                return all;
            }
        }
    }

    pub(super) fn prepared(&mut self, attempt: u32, second: i64) -> Vec<Fact> {
        let event = Event::Attempt(
            attempt,
            AttemptEvent::Prepared {
                token: token(attempt),
                script: "job.sbatch".to_owned(),
                script_sha256: "00".repeat(32),
                gpus: 4,
                outputs: Vec::new(),
            },
        );
        self.feed(&event, second)
    }

    /// A run whose first attempt is job 17 and runs since second 10.
    pub(super) fn running(toy: Toy) -> Self {
        let mut bench = Self::new(toy);
        bench.prepared(1, 1);
        bench.feed(&accepted(1), 2);
        bench.feed(&polled(status(JobState::Running)), 10);
        bench
    }

    /// Lets the job end so, with what its log says; gives the verdict.
    pub(super) fn end(&mut self, status: JobStatus, incident: Incident) -> Verdict {
        self.feed(&polled(status.clone()), 100);
        self.feed(&polled(status), 200);
        self.drained(incident)
    }

    fn drained(&mut self, incident: Incident) -> Verdict {
        assert_eq!(self.run.phase(), RunPhase::Draining);
        let attempt = self.run.history.attempt().unwrap().number;
        let facts = self.feed(
            &read_to_the_end(attempt, incident, None, Measured::default()),
            210,
        );
        let decided = facts.into_iter().find_map(|fact| match fact {
            Fact::Decided { verdict, .. } => Some(*verdict),
            _ => None,
        });
        decided.expect("a drained attempt is decided")
    }

    /// The same facts in the hands of another process.
    pub(super) fn taken_up_again(self, second: i64) -> Self {
        let run = Run::new(self.run.request, &self.records);
        let mut again = Self { run, ..self };
        again.owner_changed(second);
        again
    }

    /// Whether something of this kind is due.
    fn asks(&self, second: i64, is: impl Fn(&Action) -> bool) -> bool {
        due(&self.run, at(second)).iter().any(is)
    }

    fn owner_changed(&mut self, second: i64) {
        self.epoch += 1;
        self.write(
            Fact::OwnerChanged {
                host: "h".to_owned(),
                pid: 1,
            },
            at(second),
        );
    }
}

fn token(attempt: u32) -> Token {
    Token(format!("oomctl-r1-{attempt}-0badcafe"))
}

pub(super) fn accepted(attempt: u32) -> Event {
    Event::Attempt(
        attempt,
        AttemptEvent::Accepted {
            id: JobId((16 + attempt).to_string()),
            cluster: None,
        },
    )
}

pub(super) fn status(state: JobState) -> JobStatus {
    JobStatus {
        nodes: vec!["node1".to_owned()],
        started: Some(at(10)),
        ..JobStatus::bare(JobId("17".to_owned()), state)
    }
}

pub(super) fn polled(status: JobStatus) -> Event {
    polled_of(1, status)
}

pub(super) fn polled_of(attempt: u32, status: JobStatus) -> Event {
    let age = SignedDuration::ZERO;
    Event::Attempt(attempt, AttemptEvent::Polled { status, age })
}

/// The logs of an attempt that ended were read to their end.
pub(super) fn read_to_the_end(
    attempt: u32,
    incident: Incident,
    progress: Option<Progress>,
    measured: Measured,
) -> Event {
    Event::Attempt(
        attempt,
        AttemptEvent::Drained {
            complete: true,
            incident: Box::new(incident),
            progress,
            measured,
        },
    )
}

/// The logs of the first attempt were looked at.
fn looked(look: LogLook) -> Event {
    Event::Attempt(1, AttemptEvent::LogsRead(look))
}

fn ends(offset: u64) -> Vec<LogEnd> {
    let path = "/run/attempt-1/slurm.err".into();
    vec![LogEnd { path, offset }]
}

fn step(step: u64) -> Progress {
    Progress {
        step,
        ..Progress::default()
    }
}

fn oom() -> Incident {
    incident("cuda_oom", Class::GpuOom)
}

fn found(ids: &[&str]) -> Event {
    let sighting = |id: &&str| Sighting {
        status: JobStatus::bare(JobId((*id).to_owned()), JobState::Pending),
        cluster: None,
        submitted: Some(at(3)),
        refused_trace: false,
    };
    Event::Attempt(1, AttemptEvent::Found(ids.iter().map(sighting).collect()))
}

fn is_poll(action: &Action) -> bool {
    matches!(action, Action::Poll { .. })
}

fn is_cancel(action: &Action) -> bool {
    matches!(action, Action::Cancel { .. })
}

fn outcome(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::End { outcome } => outcome.exit_code(),
        Verdict::Again { .. } => 100,
        Verdict::Climb { .. } => 101,
    }
}

const AGAIN: u8 = 100;
const CLIMB: u8 = 101;

#[test]
fn the_state_and_the_log_together_decide_what_follows() {
    use JobState::{
        BootFail, Cancelled, Completed, Deadline, Failed, NodeFail, OutOfMemory, Preempted, Timeout,
    };
    let engine = || incident("vllm_kv_cache", Class::EngineMemory);
    let host = || incident("host_oom", Class::HostOom);
    let bug = || incident("code_bug", Class::NotOom);
    let survived = || Incident {
        fatal: false,
        ..oom()
    };
    for (state, incident, expected) in [
        (Completed, nothing(), 0),
        (Completed, survived(), 0),
        (Completed, oom(), CLIMB), // no step was done, whatever the exit code
        (Failed, oom(), CLIMB),
        (Failed, engine(), CLIMB),
        (Timeout, oom(), CLIMB), // the other ranks hung until the limit
        (OutOfMemory, oom(), CLIMB),
        (Failed, survived(), 1),
        (Failed, bug(), 1),
        (Failed, nothing(), 1),
        (Failed, host(), 1), // no rung for the host in this ladder, and never the GPU's
        (OutOfMemory, nothing(), 1),
        (Cancelled, nothing(), 9),
        (Cancelled, oom(), 9), // a user's scancel is never healed
        (Timeout, nothing(), 6),
        (Deadline, nothing(), 6),
        (NodeFail, nothing(), AGAIN),
        (BootFail, nothing(), AGAIN),
        (Preempted, nothing(), AGAIN),
    ] {
        let mut bench = Bench::running(Toy::new(3));
        let kind = incident.kind.clone();
        let verdict = bench.end(status(state.clone()), incident);
        assert_eq!(
            outcome(&verdict),
            expected,
            "{state:?} with {kind}: {verdict:?}"
        );
    }
}

#[test]
fn host_oom_asks_the_ladder_and_gets_only_rungs_for_the_host() {
    let toy = Toy {
        host_rungs: 1,
        ..Toy::new(0)
    };
    let mut bench = Bench::running(toy);
    let verdict = bench.end(status(JobState::OutOfMemory), nothing());
    assert_eq!(outcome(&verdict), CLIMB);
}

#[test]
fn a_bare_kill_without_a_witness_is_answered_by_no_rung() {
    let killed = Incident {
        is_gpu_oom: Tri::False,
        is_host_oom: Tri::Ambiguous,
        ..incident("host_oom", Class::HostOom)
    };
    let toy = || Toy {
        host_rungs: 1,
        ..Toy::new(0)
    };
    let verdict = Bench::running(toy()).end(status(JobState::Failed), killed.clone());
    assert_eq!(outcome(&verdict), 1, "anybody may have killed it");
    let verdict = Bench::running(toy()).end(status(JobState::OutOfMemory), killed);
    assert_eq!(outcome(&verdict), CLIMB, "the scheduler is the witness");
}

#[test]
fn exit_code_0_after_a_step_that_died_of_memory_is_no_success() {
    let mut ended = status(JobState::Completed);
    ended.derived_exit = Some(ExitStatus::of(1, 0));
    let verdict = Bench::running(Toy::new(3)).end(ended.clone(), oom());
    assert_eq!(outcome(&verdict), CLIMB);
    let verdict = Bench::running(Toy::new(3)).end(ended.clone(), nothing());
    assert_eq!(outcome(&verdict), 0, "a cleaning step may fail");
    ended.step_out_of_memory = true;
    let verdict = Bench::running(Toy::new(3)).end(ended, nothing());
    assert_eq!(outcome(&verdict), 1, "host memory, and no rung for it");
}

#[test]
fn without_a_rung_left_gpu_and_host_end_differently() {
    let gpu = Bench::running(Toy::new(0)).end(status(JobState::Failed), oom());
    assert!(
        matches!(&gpu, Verdict::End { outcome: Outcome::Exhausted { skipped, .. } } if skipped.len() == 1)
    );
    let host = Bench::running(Toy::new(0)).end(status(JobState::OutOfMemory), nothing());
    let Verdict::End {
        outcome: Outcome::Failed { reason, .. },
    } = host
    else {
        panic!("{host:?}");
    };
    assert_eq!(reason, "host memory ran out: job 17 ended in OUT_OF_MEMORY");
}

#[test]
fn memory_held_by_others_means_another_node_and_nothing_changed() {
    let gib = |n: u64| Some(Bytes(n << 30));
    let theirs = |requested, free, others| Incident {
        requested_bytes: requested,
        free_bytes: free,
        co_tenant_bytes: others,
        ..oom()
    };
    for (incident, expected) in [
        (theirs(gib(2), gib(1), gib(40)), AGAIN),
        (theirs(gib(20), gib(1), gib(1)), CLIMB), // would not have fitted without them either
        (theirs(None, None, gib(40)), AGAIN),
        (theirs(None, None, Some(Bytes(300 << 20))), CLIMB),
        (theirs(gib(2), gib(1), None), CLIMB),
    ] {
        let mut bench = Bench::running(Toy::new(3));
        let verdict = bench.end(status(JobState::Failed), incident);
        assert_eq!(outcome(&verdict), expected, "{verdict:?}");
        if expected == AGAIN {
            assert_eq!(bench.run.history.excluded_nodes(), ["node1"]);
            assert_eq!(
                bench.run.history.rungs().len(),
                1,
                "the layer that excludes it"
            );
            assert_eq!(bench.run.history.steps().count(), 0);
        }
    }
}

#[test]
fn what_others_hold_on_every_node_is_the_jobs_own() {
    let gib = |n: u64| Some(Bytes(n << 30));
    let theirs = |others| Incident {
        total_bytes: gib(79),
        free_bytes: gib(1),
        reserved_bytes: gib(38),
        requested_bytes: gib(2),
        co_tenant_bytes: gib(others),
        ..oom()
    };
    // Only the difference of 40 GiB says that others hold it, or a list of processes; then as much on another node, or less.
    for (first, second, expected) in [
        (40, 40, CLIMB),
        (40, 20, AGAIN),
        (36, 35, CLIMB),
        (36, 20, AGAIN),
        (30, 40, CLIMB),
    ] {
        let mut bench = Bench::running(Toy::new(3));
        let verdict = bench.end(status(JobState::Failed), theirs(first));
        assert_eq!(outcome(&verdict), AGAIN, "{verdict:?}");
        bench.prepared(2, 220);
        bench.feed(&accepted(2), 221);
        let event = polled_of(
            2,
            JobStatus {
                id: JobId("18".to_owned()),
                ..status(JobState::Failed)
            },
        );
        bench.feed(&event, 300);
        bench.feed(&event, 400);
        let verdict = bench.drained(theirs(second));
        assert_eq!(outcome(&verdict), expected, "{first} {second} {verdict:?}");
    }
}

#[test]
fn a_driver_without_room_while_a_model_is_loaded_met_others_where_no_rung_helps() {
    let bare = |kind, phase: &str| Incident {
        phase: phase.to_owned(),
        ..incident(kind, Class::GpuOom)
    };
    for (rungs, incident, expected) in [
        (0, bare("cuda_driver_oom", "load"), AGAIN),
        (0, bare("cuda_driver_oom", "init"), AGAIN),
        (2, bare("cuda_driver_oom", "load"), CLIMB),
        (0, bare("cuda_driver_oom", "backward"), 3),
        (0, bare("cuda_oom", "load"), 3),
    ] {
        let verdict = Bench::running(Toy::new(rungs)).end(status(JobState::Failed), incident);
        assert_eq!(outcome(&verdict), expected, "{verdict:?}");
    }
}

#[test]
fn retries_are_counted_by_cause_and_end() {
    let mut toy = Toy::new(3);
    toy.supervision.node_failure_retries = 1;
    let mut bench = Bench::running(toy);
    let verdict = bench.end(status(JobState::NodeFail), nothing());
    assert_eq!(outcome(&verdict), AGAIN);
    bench.prepared(2, 220);
    bench.feed(&accepted(2), 221);
    let mut second = status(JobState::NodeFail);
    second.id = JobId("18".to_owned());
    let event = polled_of(2, second);
    bench.feed(&event, 300);
    bench.feed(&event, 400);
    let verdict = bench.drained(nothing());
    let Verdict::End { outcome } = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(outcome.exit_code(), 6);
    assert_eq!(bench.run.phase(), RunPhase::Finished);
    assert!(due(&bench.run, at(9_999)).is_empty());
}

#[test]
fn a_node_failure_that_is_requeued_by_the_scheduler_is_waited_for() {
    let mut bench = Bench::running(Toy::new(3));
    bench.feed(&polled(status(JobState::NodeFail)), 100);
    assert_eq!(bench.run.phase(), RunPhase::Live, "may still be requeued");
    let requeued = JobStatus {
        restarts: 1,
        started: None,
        ..JobStatus::bare(JobId("17".to_owned()), JobState::Pending)
    };
    let facts = bench.feed(&polled(requeued), 115);
    assert!(
        matches!(facts[0], Fact::Restarted { restarts: 1, .. }),
        "{facts:?}"
    );
    assert_eq!(bench.run.phase(), RunPhase::Live);
    assert_eq!(bench.run.history.attempts.len(), 1);
}

#[test]
fn parts_of_a_job_that_nobody_saw_count_as_accounting_tells_of_them() {
    let restarted = |state, ran_before_s| JobStatus {
        restarts: 1,
        started: Some(at(500)),
        ran_before_s,
        ..status(state)
    };
    let seconds = |bench: &Bench| {
        let gpus = bench.run.history.attempts[0].gpus;
        (bench.run.history.gpu_seconds(at(600)) / f64::from(u32::try_from(gpus).unwrap())).round()
    };
    // Nobody saw the end of the first part, which began at 10: it may have been as late as the next part's beginning.
    for (told, counted) in [(None, 490.0), (Some(30), 30.0)] {
        let mut bench = Bench::running(Toy::new(3));
        bench.feed(&polled(restarted(JobState::Running, told)), 550);
        assert!((seconds(&bench) - counted - 100.0).abs() < 1.0, "{told:?}");
        // What is told later sets it right.
        let ended = JobStatus {
            ended: Some(at(600)),
            ..restarted(JobState::Failed, Some(30))
        };
        bench.feed(&polled(ended), 600);
        assert!((seconds(&bench) - 130.0).abs() < 1.0, "{told:?}");
    }
}

#[test]
fn unknown_and_completing_states_end_nothing() {
    let mut bench = Bench::running(Toy::new(3));
    for (i, state) in [
        JobState::Completing,
        JobState::Unknown("MELTING".to_owned()),
        JobState::Suspended,
        JobState::RequeueHold,
    ]
    .into_iter()
    .enumerate()
    {
        let second = 100 + 1_000 * i64::try_from(i).unwrap();
        bench.feed(&polled(status(state.clone())), second);
        bench.feed(&polled(status(state.clone())), second + 500);
        assert_eq!(bench.run.phase(), RunPhase::Live, "{state:?}");
        assert!(bench.asks(second + 700, is_poll));
        assert!(!bench.asks(second + 700, |a| matches!(a, Action::Prepare { .. })));
    }
}

#[test]
fn the_intent_of_an_earlier_owner_is_looked_for_before_anything_is_submitted() {
    let mut bench = Bench::new(Toy::new(3));
    bench.prepared(1, 1);
    assert!(matches!(
        due(&bench.run, at(1))[..],
        [Action::Submit { .. }]
    ));
    bench.owner_changed(5);
    assert!(matches!(due(&bench.run, at(5))[..], [Action::Find { .. }]));
}

#[test]
fn absent_is_said_only_after_clean_answers_for_the_whole_settle_time() {
    let unanswered = || Event::Attempt(1, AttemptEvent::FindUnanswered);
    // (second, answer, absent afterwards)
    for (name, script) in [
        (
            "quick",
            vec![(10, found(&[]), false), (39, found(&[]), false)],
        ),
        (
            "enough",
            vec![(10, found(&[]), false), (40, found(&[]), true)],
        ),
        ("one answer only", vec![(100, found(&[]), false)]),
        (
            "broken row",
            vec![
                (10, found(&[]), false),
                (20, unanswered(), false),
                (41, found(&[]), false),
                (70, found(&[]), false),
                (71, found(&[]), true),
            ],
        ),
    ] {
        let mut bench = Bench::new(Toy::new(3));
        bench.prepared(1, 1);
        bench.feed(
            &Event::Attempt(1, AttemptEvent::Unclear("Socket timed out".to_owned())),
            5,
        );
        for (second, event, absent) in script {
            let facts = bench.feed(&event, second);
            assert_eq!(
                facts == [Fact::SubmitAbsent { attempt: 1 }],
                absent,
                "{name}, {second} s"
            );
            let submit = matches!(due(&bench.run, at(second))[..], [Action::Submit { .. }]);
            assert_eq!(submit, absent, "{name}, {second} s");
        }
    }
}

#[test]
fn of_two_jobs_with_one_token_the_lower_id_is_kept() {
    let mut bench = Bench::new(Toy::new(3));
    bench.prepared(1, 1);
    let unclear = Event::Attempt(1, AttemptEvent::Unclear(String::new()));
    bench.feed(&unclear, 5);
    let facts = bench.feed(&found(&["100", "99"]), 10);
    let ids: Vec<&str> = facts
        .iter()
        .map(|fact| match fact {
            Fact::DuplicateFound { job, .. } | Fact::Submitted { job, .. } => job.id.0.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["100", "99"]);
    let cancel = due(&bench.run, at(10)).into_iter().find_map(|a| match a {
        Action::Cancel { job, .. } => Some(job),
        _ => None,
    });
    let job = cancel.expect("the other one must go");
    assert_eq!(job.id.0, "100");
    bench.feed(&Event::Attempt(1, AttemptEvent::CancelTaken(job)), 11);
    assert!(!bench.asks(999, is_cancel));
    assert!(!bench.run.history.attempt().unwrap().cancel_sent);
}

#[test]
fn the_trace_of_a_refusal_is_the_answer_that_was_lost() {
    let mut bench = Bench::new(Toy::new(3));
    bench.prepared(1, 1);
    bench.owner_changed(5);
    let trace = Event::Attempt(
        1,
        AttemptEvent::Found(vec![Sighting {
            status: JobStatus {
                reason: Some("BadConstraints".to_owned()),
                ..JobStatus::bare(JobId("5".to_owned()), JobState::Failed)
            },
            cluster: None,
            submitted: None,
            refused_trace: true,
        }]),
    );
    bench.feed(&trace, 10);
    let outcome = bench.run.history.outcome.clone().unwrap();
    assert!(matches!(&outcome, Outcome::Refused { reason, .. } if reason == "BadConstraints"));
}

#[test]
fn a_refused_rung_ends_the_run_and_is_named() {
    let mut bench = Bench::running(Toy::new(3));
    bench.end(status(JobState::Failed), oom());
    bench.prepared(2, 220);
    let refused = Event::Attempt(
        2,
        AttemptEvent::Refused {
            reason: "Requested node configuration is not available".to_owned(),
            hint: Some("ask for fewer GPUs".to_owned()),
            passing: false,
        },
    );
    bench.feed(&refused, 221);
    let outcome = bench.run.history.outcome.clone().unwrap();
    assert_eq!(outcome.exit_code(), 4);
    assert!(matches!(outcome, Outcome::Refused { rung: Some(rung), .. } if rung == "rung-1"));
}

#[test]
fn a_job_that_hangs_after_an_oom_is_cancelled_and_counts_as_that_oom() {
    let mut toy = Toy::new(3);
    toy.supervision.hang_grace_s = 120;
    let mut bench = Bench::running(toy);
    let look = |at| {
        looked(LogLook {
            fatal: Some(Class::GpuOom),
            progress: Some(step(at)),
            ..LogLook::default()
        })
    };
    bench.feed(&look(1), 20);
    bench.feed(&look(2), 100); // it goes on after all
    assert_eq!(
        next_due(&bench.run, at(100), &Pace::new(None)),
        Some(at(25)),
        "the poll"
    );
    bench.feed(&polled(status(JobState::Running)), 219);
    assert!(
        bench.feed(&Event::Tick, 221).is_empty(),
        "not seen running since"
    );
    assert_eq!(
        next_due(&bench.run, at(219), &Pace::new(None)),
        Some(at(101)),
        "the log"
    );
    assert!(!bench.asks(219, is_poll) && bench.asks(220, is_poll));
    let facts = bench.feed(&polled(status(JobState::Running)), 220);
    assert_eq!(
        facts,
        [Fact::Stalled {
            attempt: 1,
            quiet_s: 120,
            saved_gpu_seconds: None,
        }]
    );
    assert!(bench.asks(220, is_cancel));
    let verdict = bench.end(status(JobState::Cancelled), oom());
    assert_eq!(outcome(&verdict), CLIMB);
}

#[test]
fn a_request_to_cancel_is_honoured_wherever_the_run_stands() {
    let ask = Event::CancelAsked {
        by: "me".to_owned(),
    };
    let mut preparing = Bench::new(Toy::new(3));
    preparing.feed(&ask, 1);
    assert_eq!(preparing.run.history.outcome.unwrap().exit_code(), 9);

    let mut intended = Bench::new(Toy::new(3));
    intended.prepared(1, 1);
    intended.feed(&ask, 2);
    assert_eq!(intended.run.history.outcome.unwrap().exit_code(), 9);

    let mut unclear = Bench::new(Toy::new(3));
    unclear.prepared(1, 1);
    unclear.owner_changed(2);
    unclear.feed(&ask, 3);
    assert_eq!(
        unclear.run.phase(),
        RunPhase::Searching,
        "there may be a job"
    );
    unclear.feed(&found(&["17"]), 4);
    assert!(unclear.asks(4, is_cancel));

    let mut running = Bench::running(Toy::new(3));
    running.feed(&ask, 20);
    let verdict = running.end(status(JobState::Failed), oom());
    assert_eq!(outcome(&verdict), 9, "not healed");

    let mut done = Bench::running(Toy::new(3));
    done.feed(&ask, 20);
    let verdict = done.end(status(JobState::Completed), nothing());
    assert_eq!(outcome(&verdict), 0, "work that was done counts");
}

#[test]
fn bounds_end_a_run_also_while_a_job_runs() {
    let mut toy = Toy::new(9);
    toy.limits.attempts = 1;
    let mut bench = Bench::running(toy);
    bench.end(status(JobState::Failed), oom());
    let outcome_of = |bench: &Bench| bench.run.history.outcome.clone();
    assert_eq!(
        outcome_of(&bench),
        Some(Outcome::BudgetSpent {
            budget: Budget::Attempts { limit: 1 }
        })
    );

    let mut toy = Toy::new(9);
    toy.limits.gpu_hours = Some(1.0);
    let mut bench = Bench::running(toy); // 4 GPUs since second 10: spent at 910
    bench.feed(&polled(status(JobState::Running)), 900);
    assert!(bench.run.history.budget.is_none());
    bench.feed(&Event::Tick, 910);
    assert_eq!(
        bench.run.history.budget,
        Some(Budget::GpuHours { limit: 1.0 })
    );
    assert!(bench.asks(910, is_cancel));
    let verdict = bench.end(status(JobState::Cancelled), nothing());
    assert_eq!(outcome(&verdict), 8);

    let mut toy = Toy::new(9);
    toy.limits.wall_time_s = Some(60);
    let mut bench = Bench::running(toy);
    assert_eq!(
        next_due(&bench.run, at(11), &Pace::new(None)).map(|t| t <= at(61)),
        Some(true)
    );
    bench.feed(&Event::Tick, 61);
    assert_eq!(
        bench.run.history.budget,
        Some(Budget::WallTime { limit_s: 60 })
    );
}

#[test]
fn a_job_that_ended_unwatched_and_was_forgotten_counts_until_it_was_last_seen() {
    let mut bench = Bench::running(Toy::new(3));
    let gpus = u32::try_from(bench.run.history.attempts[0].gpus).unwrap();
    bench.feed(&polled(status(JobState::Running)), 60);
    bench.feed(&Event::Attempt(1, AttemptEvent::Vanished), 5_000);
    let seconds = bench.run.history.gpu_seconds(at(5_000)) / f64::from(gpus);
    assert!((seconds - 50.0).abs() < 1.0, "{seconds}");
}

#[test]
fn a_purged_job_is_judged_by_its_log() {
    for (log, expected) in [(oom(), CLIMB), (nothing(), 1)] {
        let mut bench = Bench::running(Toy::new(3));
        bench.feed(&Event::Attempt(1, AttemptEvent::Vanished), 100);
        let verdict = bench.drained(log);
        assert_eq!(outcome(&verdict), expected);
        if let Verdict::End {
            outcome: Outcome::Failed { reason, .. },
        } = verdict
        {
            assert!(
                reason.starts_with("how job 17 ended is unknown"),
                "{reason}"
            );
        }
    }
}

#[test]
fn the_text_before_a_restart_belongs_to_the_earlier_part() {
    let look = |offset| {
        looked(LogLook {
            ends: ends(offset),
            ..LogLook::default()
        })
    };
    let restarted = |state| {
        polled(JobStatus {
            restarts: 1,
            ..status(state)
        })
    };
    // (offset at the poll before, offset now, state now, where the new part begins)
    for (before, now, state, start) in [
        (500, 800, JobState::Pending, 800),
        (500, 800, JobState::Running, 500),
        (500, 80, JobState::Running, 0),
    ] {
        let mut bench = Bench::running(Toy::new(3));
        bench.feed(&look(before), 20);
        bench.feed(&polled(status(JobState::Running)), 25);
        bench.feed(&look(now), 30);
        let facts = bench.feed(&restarted(state.clone()), 40);
        let Fact::Restarted { logs, .. } = &facts[0] else {
            panic!("{facts:?}");
        };
        assert_eq!(*logs, ends(start), "{state:?}");
    }
}

#[test]
fn where_an_earlier_process_had_read_to_tells_what_belongs_to_a_part_that_nobody_saw_begin() {
    // (known from before, began anew since, where the new part begins)
    for (known, anew, start) in [(500, false, 500), (500, true, 0)] {
        let mut bench = Bench::running(Toy::new(3));
        let ends_known = ends(known);
        bench.feed(&Event::Attempt(1, AttemptEvent::LogsKnown(ends_known)), 20);
        let look = LogLook {
            ends: ends(900),
            anew: anew.then(|| ends(0)[0].path.clone()).into_iter().collect(),
            ..LogLook::default()
        };
        bench.feed(&looked(look), 21);
        let restarted = JobStatus {
            restarts: 1,
            ..status(JobState::Running)
        };
        let facts = bench.feed(&polled(restarted), 22);
        let Fact::Restarted { logs, .. } = &facts[0] else {
            panic!("{facts:?}");
        };
        assert_eq!(*logs, ends(start));
    }
}

#[test]
fn a_late_word_on_an_earlier_attempt_changes_nothing() {
    let mut bench = Bench::running(Toy::new(3));
    bench.end(status(JobState::Failed), oom());
    bench.prepared(2, 220);
    assert!(
        bench
            .feed(&polled(status(JobState::Completed)), 221)
            .is_empty()
    );
    assert!(bench.feed(&accepted(1), 222).is_empty());
    assert!(bench.prepared(2, 223).is_empty(), "it is intended already");
}

#[test]
fn questions_without_an_answer_are_asked_less_and_less_often() {
    let mut bench = Bench::running(Toy::new(3));
    let mut now = 10;
    let mut waits = Vec::new();
    for _ in 0..6 {
        bench.feed(&Event::Attempt(1, AttemptEvent::PollUnanswered), now);
        let wait = (1..).find(|wait| bench.asks(now + wait, is_poll));
        let wait = wait.unwrap();
        waits.push(wait);
        now += wait;
    }
    assert_eq!(waits, [30, 60, 120, 120, 120, 120]);
    bench.feed(&polled(status(JobState::Running)), now);
    assert!(next_due(&bench.run, at(now), &Pace::new(None)).is_some());
}

#[test]
fn flapping_queue_reasons_do_not_fill_the_ledger() {
    let mut bench = Bench::running(Toy::new(3));
    let before = bench.records.len();
    for second in 0..120 {
        let mut s = status(JobState::Running);
        s.reason = Some(format!("Reason{}", second % 2));
        bench.feed(&polled(s), 100 + second);
    }
    let written = bench.records.len() - before;
    assert!((1..=2).contains(&written), "{written}");
}

#[test]
fn a_job_of_somebody_else_can_be_watched() {
    let mut bench = Bench::new(Toy::new(3));
    let attach = Event::Attach(Adopts {
        job: JobRef::foreign("17", at(0)),
        gpus: 0,
        logs: vec!["/home/u/slurm-17.out".into()],
        outputs: Vec::new(),
    });
    bench.feed(&attach, 1);
    assert_eq!(bench.run.phase(), RunPhase::Live);
    let verdict = bench.end(status(JobState::Failed), oom());
    assert_eq!(outcome(&verdict), CLIMB);
}

#[test]
fn what_was_measured_is_a_fact_before_the_diagnosis_and_nothing_is_no_fact() {
    let figure = Figure {
        measure: Quantity::GpuReserved,
        peak_bytes: Bytes(60 << 30),
    };
    let measured = Measured::new(Vec::new(), vec![figure]);
    for (measured, facts) in [
        (measured, &["measured", "diagnosed", "decided"][..]),
        (Measured::default(), &["diagnosed", "decided"][..]),
    ] {
        let mut bench = Bench::running(Toy::new(3));
        bench.feed(&polled(status(JobState::Failed)), 100);
        let drained = read_to_the_end(1, oom(), None, measured.clone());
        let word = |fact: &Fact| serde_json::to_value(fact).unwrap()["fact"].clone();
        let written: Vec<_> = bench.feed(&drained, 210).iter().map(word).collect();
        assert_eq!(written, facts);
        assert_eq!(bench.run.history.attempts[0].measured, measured);
    }
}

/// What the first attempt teaches when its job ends so after so many steps and seconds.
fn taught(state: JobState, incident: Incident, steps: u64, seconds: i64) -> Option<AttemptEnd> {
    let mut bench = Bench::running(Toy::new(2));
    let ended = JobStatus {
        started: Some(at(10)),
        ended: Some(at(10 + seconds)),
        ..status(state)
    };
    bench.feed(&polled(ended.clone()), 100);
    bench.feed(&polled(ended), 200);
    let drained = read_to_the_end(1, incident, Some(step(steps)), Measured::default());
    bench.feed(&drained, 210);
    observation(&bench.run, 1).map(|entry| entry.end)
}

#[test]
fn an_attempt_teaches_no_more_than_it_proves() {
    use JobState::{Cancelled, Completed, Failed, OutOfMemory, Preempted, Timeout};
    let failed = Some(AttemptEnd::Failed {
        kind: "cuda_oom".to_owned(),
        phase: "unknown".to_owned(),
    });
    let fitted = Some(AttemptEnd::Fitted);
    let fragments = Incident {
        fragmentation: true,
        ..oom()
    };
    let crowded = Incident {
        co_tenant_bytes: Some(Bytes(40 << 30)),
        ..oom()
    };
    let host = incident("host_oom", Class::HostOom);
    let engine = incident("vllm_kv_cache", Class::EngineMemory);
    let bug = incident("code_bug", Class::NotOom);
    let ended = [
        (Completed, nothing(), 0, 5, &fitted),
        (Failed, oom(), 0, 5, &failed),
        // Also late, and where the rest of the job ended in another way.
        (Failed, oom(), 900, 9_000, &failed),
        (Timeout, oom(), 0, 5, &failed),
        // Fragments and other processes explain it; the host and an engine's budget are another matter.
        (Failed, fragments, 0, 5, &None),
        (Failed, crowded, 0, 5, &None),
        (Failed, host, 50, 900, &None),
        (Failed, engine, 0, 5, &None),
        (OutOfMemory, nothing(), 50, 900, &None),
        // A job that somebody ended fits when it has trained for a while.
        (Timeout, nothing(), 10, 600, &fitted),
        (Preempted, nothing(), 10, 600, &fitted),
        (Cancelled, nothing(), 10, 600, &fitted),
        (Timeout, nothing(), 9, 600, &None),
        (Timeout, nothing(), 500, 599, &None),
        // One that died of something else may have been about to run out of memory.
        (Failed, nothing(), 50, 900, &None),
        (Failed, bug, 50, 900, &None),
    ];
    for (state, incident, steps, seconds, expected) in ended {
        let what = format!("{state:?} {} {steps} {seconds}", incident.kind);
        assert_eq!(taught(state, incident, steps, seconds), *expected, "{what}");
    }
}

#[test]
fn an_observation_names_the_rungs_that_led_there() {
    let mut bench = Bench::running(Toy::new(2));
    bench.end(status(JobState::Failed), oom());
    bench.prepared(2, 300);
    bench.feed(&accepted(2), 301);
    bench.feed(&polled_of(2, status(JobState::Completed)), 310);
    bench.drained(nothing());
    let observations = [1, 2].map(|n| observation(&bench.run, n).unwrap());
    let micro = observations.each_ref().map(|l| l.job.sizes["micro"]);
    assert_eq!(micro, [32.0, 16.0]);
    let rungs = observations.each_ref().map(|l| l.rungs.len());
    assert_eq!(rungs, [0, 1]);
    assert_eq!(
        (observations[1].id.as_str(), observations[1].run.as_str()),
        ("oomctl-r1-2-0badcafe", "r1")
    );
}
