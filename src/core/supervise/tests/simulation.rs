//! A simulated world: a cluster that loses answers, shows jobs late, requeues, fails nodes and goes
//! silent; a user who cancels; and a supervisor that is killed after any fact or action. What must
//! hold in every one of them is asserted here, where it is broken on purpose. A failing seed is
//! printed and gives the same world again.

use std::collections::BTreeSet;

use super::double::{Double, at, incident, nothing};
use crate::core::diagnose::{Class, Incident};
use crate::core::job::{JobId, JobRef, JobState, JobStatus, Stage, Token};
use crate::core::measure::Measured;
use crate::core::supervise::{
    Action, Event, Fact, History, LogLook, Outcome, Phase, Record, Run, Sighting, decide, due,
    next_due,
};

const SEEDS: u64 = 400;
const STEPS_MAX: u32 = 20_000;

/// splitmix64: small, seeded, the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    fn percent(&mut self, chance: i64) -> bool {
        self.below(100) < chance
    }
}

/// How a job will go, drawn when it is accepted.
#[derive(Debug, Clone, PartialEq)]
struct Job {
    id: u64,
    token: Token,
    visible_at: i64,
    starts: i64,
    /// When its processes stop, unless it hangs.
    stops: i64,
    /// When COMPLETING is over.
    gone: i64,
    end: JobState,
    oom: bool,
    /// After the OOM the other ranks hang until somebody cancels.
    hangs: bool,
    restarts: u32,
    purged: bool,
}

impl Job {
    fn state(&self, now: i64) -> JobState {
        if now < self.starts {
            JobState::Pending
        } else if now < self.stops || self.hangs {
            JobState::Running
        } else if now < self.gone {
            JobState::Completing
        } else {
            self.end.clone()
        }
    }

    fn alive(&self, now: i64) -> bool {
        self.state(now).stage() != Stage::Ended
    }

    fn status(&self, now: i64) -> JobStatus {
        JobStatus {
            restarts: self.restarts,
            nodes: vec!["node1".to_owned()],
            started: (now >= self.starts).then(|| at(self.starts)),
            ..JobStatus::bare(JobId(self.id.to_string()), self.state(now))
        }
    }

    fn cancel(&mut self, now: i64) {
        if self.alive(now) && (now < self.stops || self.hangs) {
            self.end = JobState::Cancelled;
            self.hangs = false;
            self.starts = self.starts.min(now);
            self.stops = now;
            self.gone = now + 6;
        }
    }
}

struct World {
    seed: u64,
    dice: Dice,
    now: i64,
    jobs: Vec<Job>,
    /// What the disk holds.
    ledger: Vec<Record>,
    double: Double,
    run: Run,
    epoch: u64,
    /// The scheduler answers nothing until then.
    silent_until: i64,
    /// Requests that sit in a frozen scheduler until it goes on.
    frozen: Vec<Token>,
    rungs_needed: usize,
    user_cancelled: bool,
    crashes_left: u32,
    /// When the last answer to a submission was lost.
    lost_at: Option<i64>,
}

/// The supervisor was killed.
struct Killed;

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut double = Double::new(usize::try_from(dice.below(4)).unwrap());
        double.supervision.co_tenant_retries = 1;
        double.supervision.node_failure_retries = 4;
        let rungs_needed = usize::try_from(dice.below(5)).unwrap();
        let mut world = Self {
            seed,
            now: 0,
            jobs: Vec::new(),
            ledger: Vec::new(),
            run: Run::new(Box::new(double.clone()), &[]),
            double,
            epoch: 1,
            silent_until: 0,
            frozen: Vec::new(),
            rungs_needed,
            user_cancelled: false,
            crashes_left: u32::try_from(dice.below(8)).unwrap(),
            lost_at: None,
            dice,
        };
        world.write(Fact::Created {
            run: "r1".to_owned(),
            version: "0.1.0".to_owned(),
        });
        world
    }

    fn write(&mut self, fact: Fact) {
        let record = Record {
            v: 1,
            seq: self.ledger.len() as u64 + 1,
            at: at(self.now),
            epoch: self.epoch,
            fact,
        };
        self.run.apply(&record);
        self.ledger.push(record);
    }

    /// Kills the supervisor now and then.
    fn risk(&mut self) -> Result<(), Killed> {
        if self.crashes_left > 0 && self.dice.percent(8) {
            self.crashes_left -= 1;
            return Err(Killed);
        }
        Ok(())
    }

    /// The next supervisor: a replay of what is on disk, as text.
    fn restart(&mut self) {
        self.check_replay();
        self.now += self.dice.below(200);
        let text: Vec<String> = self
            .ledger
            .iter()
            .map(|record| serde_json::to_string(record).unwrap())
            .collect();
        let records: Vec<Record> = text
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            records, self.ledger,
            "seed {}: text changes facts",
            self.seed
        );
        self.run = Run::new(Box::new(self.double.clone()), &records);
        self.epoch += 1;
        self.write(Fact::OwnerChanged {
            host: "login1".to_owned(),
            pid: 1,
        });
    }

    fn check_replay(&self) {
        let replayed = History::replay(&self.ledger);
        assert_eq!(replayed, self.run.history, "seed {}: replay", self.seed);
    }

    fn feed(&mut self, event: &Event) -> Result<(), Killed> {
        let now = at(self.now);
        self.run.observe(event, now);
        let mut facts = decide(&self.run, event, now);
        loop {
            for fact in facts {
                self.risk()?;
                self.write(fact);
                self.risk()?;
            }
            facts = decide(&self.run, &Event::Tick, now);
            if facts.is_empty() {
                return Ok(());
            }
        }
    }

    /// The cluster, the network and the user do something.
    fn weather(&mut self) {
        if self.dice.percent(3) {
            self.silent_until = self.now + self.dice.below(120);
        }
        if self.now >= self.silent_until {
            for token in std::mem::take(&mut self.frozen) {
                self.accept(token);
            }
        }
        let now = self.now;
        let trouble = self.dice.below(1_000);
        let requeue_s = 121 + self.dice.below(20);
        let run_s = 20 + self.dice.below(300);
        // Once we have decided to cancel a hanging job, a user's cancel cannot be told from ours.
        let stalled = self.run.history.attempt().is_some_and(|a| a.stalled);
        let Some(job) = self.jobs.last_mut() else {
            return;
        };
        if !job.alive(now) {
            job.purged |= now > job.gone + 300 && job.end != JobState::Cancelled && trouble < 20;
            return;
        }
        match (trouble, job.state(now)) {
            (0..5, JobState::Pending | JobState::Running) if !stalled => {
                job.cancel(now);
                self.user_cancelled = true;
            }
            (5..15, JobState::Running) => {
                job.restarts += 1;
                job.oom = false;
                job.hangs = false;
                job.end = JobState::Completed;
                job.starts = now + requeue_s;
                job.stops = job.starts + run_s;
                job.gone = job.stops + 3;
            }
            _ => {}
        }
    }

    /// A job is accepted: the invariants about jobs are checked here, where jobs are made.
    fn accept(&mut self, token: Token) -> u64 {
        let now = self.now;
        let seed = self.seed;
        for job in &self.jobs {
            assert!(
                !job.alive(now),
                "seed {seed}: a second live job beside {job:?}"
            );
            assert_ne!(
                job.token, token,
                "seed {seed}: an attempt was submitted twice"
            );
        }
        assert!(
            !self.user_cancelled,
            "seed {seed}: a cancelled run was submitted again"
        );
        let rungs = self.run.history.steps().count();
        let oom = rungs < self.rungs_needed;
        let end = match self.dice.below(20) {
            0 => JobState::NodeFail,
            1 => JobState::Timeout,
            2 => JobState::Preempted,
            _ if oom => JobState::Failed,
            _ => JobState::Completed,
        };
        let starts = now + self.dice.below(60);
        let stops = starts + 5 + self.dice.below(300);
        let job = Job {
            id: 10 + self.jobs.len() as u64,
            token,
            visible_at: now + self.dice.below(20),
            starts,
            stops,
            gone: stops + self.dice.below(40),
            hangs: oom && end == JobState::Failed && self.dice.percent(30),
            oom: oom && end == JobState::Failed,
            end,
            restarts: 0,
            purged: false,
        };
        self.jobs.push(job);
        self.jobs.last().expect("just pushed").id
    }

    fn submit(&mut self, attempt: u32, token: Token) -> Result<Event, Killed> {
        if let Some(lost) = self.lost_at
            && self
                .run
                .history
                .attempt()
                .is_some_and(|a| a.token.as_ref() == Some(&token))
            && self
                .ledger
                .iter()
                .any(|r| matches!(r.fact, Fact::SubmitAbsent { attempt: a } if a == attempt))
        {
            let settle = i64::try_from(self.double.supervision.settle_s).unwrap();
            assert!(self.now - lost >= settle, "seed {}: too early", self.seed);
        }
        let unclear = Event::Unclear {
            attempt,
            detail: "Socket timed out".to_owned(),
        };
        if self.now < self.silent_until {
            if self.dice.percent(50) {
                self.frozen.push(token);
            }
            self.lost_at = Some(self.now);
            return Ok(unclear);
        }
        match self.dice.below(10) {
            0 => {
                self.lost_at = Some(self.now);
                Ok(unclear)
            }
            1 => {
                self.accept(token);
                self.lost_at = Some(self.now);
                Ok(unclear)
            }
            2 if attempt > 1 => Ok(Event::Refused {
                attempt,
                reason: "too many GPUs".to_owned(),
                hint: None,
            }),
            _ => {
                let id = self.accept(token);
                self.lost_at = Some(self.now);
                self.risk()?;
                Ok(Event::Accepted {
                    attempt,
                    id: JobId(id.to_string()),
                    cluster: None,
                })
            }
        }
    }

    fn find(&mut self, attempt: u32, token: &Token) -> Event {
        if self.now < self.silent_until || self.dice.percent(5) {
            return Event::FindUnanswered { attempt };
        }
        let visible = |job: &&Job| job.token == *token && job.visible_at <= self.now;
        Event::Found {
            attempt,
            jobs: self
                .jobs
                .iter()
                .filter(visible)
                .map(|job| Sighting {
                    status: job.status(self.now),
                    cluster: None,
                    submitted: None,
                    refused_trace: false,
                })
                .collect(),
        }
    }

    fn poll(&mut self, attempt: u32, reference: &JobRef) -> Event {
        if self.now < self.silent_until || self.dice.percent(5) {
            return Event::PollUnanswered { attempt };
        }
        let job = self.job(reference);
        if job.purged {
            return Event::Vanished { attempt };
        }
        let mut status = job.status(self.now);
        if self.dice.percent(3) {
            status.state = JobState::Unknown("MELTING".to_owned());
        }
        Event::Polled { attempt, status }
    }

    fn job(&self, reference: &JobRef) -> &Job {
        self.jobs
            .iter()
            .find(|j| j.id.to_string() == reference.id.0)
            .expect("every known job exists")
    }

    fn present_job(&self) -> Option<&Job> {
        let reference = self.run.history.attempt()?.job.as_ref()?;
        Some(self.job(reference))
    }

    /// What the log of the present job shows.
    fn log(&self) -> Incident {
        let job = self.present_job().expect("a drained attempt had a job");
        let oom_shown = job.oom && self.now >= job.starts + 5;
        match oom_shown {
            true => incident("cuda_oom", Class::GpuOom),
            false => nothing(),
        }
    }

    fn perform(&mut self, action: Action) -> Result<(), Killed> {
        let event = match action {
            Action::Prepare { attempt } => Event::Prepared {
                attempt,
                token: Token(format!(
                    "oomctl-r1-{attempt}-{:08x}",
                    self.dice.next() as u32
                )),
                script: "job.sbatch".to_owned(),
                script_sha256: "00".repeat(32),
                gpus: 4,
            },
            Action::Submit { attempt, token } => self.submit(attempt, token)?,
            Action::Find { attempt, token, .. } => self.find(attempt, &token),
            Action::Poll { attempt, job } => self.poll(attempt, &job),
            Action::ReadLogs { attempt } => Event::LogsRead {
                attempt,
                look: LogLook {
                    fatal: (self.log().fatal).then_some(Class::GpuOom),
                    ..LogLook::default()
                },
            },
            Action::Cancel { attempt, .. } if self.now < self.silent_until => {
                Event::CancelUnanswered { attempt }
            }
            Action::Cancel { attempt, job } => {
                let now = self.now;
                let id = job.id.0.clone();
                let jobs = self.jobs.iter_mut();
                jobs.filter(|j| j.id.to_string() == id)
                    .for_each(|j| j.cancel(now));
                Event::CancelTaken { attempt, job }
            }
            Action::Drain { attempt } => Event::Drained {
                attempt,
                incident: Box::new(self.log()),
                progress: None,
                measured: Measured::default(),
            },
        };
        self.risk()?;
        self.feed(&event)
    }

    /// One turn of the loop, then time passes to the next thing that is due.
    fn turn(&mut self) -> Result<(), Killed> {
        self.feed(&Event::Tick)?;
        for action in due(&self.run, at(self.now)) {
            self.perform(action)?;
        }
        let next = next_due(&self.run, at(self.now)).map_or(self.now, |t| {
            if t <= at(self.now) {
                self.now
            } else {
                t.as_second() - at(0).as_second()
            }
        });
        self.now = next.clamp(self.now + 1, self.now + 120);
        Ok(())
    }

    fn live_to_the_end(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.run.phase() == Phase::Finished && self.frozen.is_empty() {
                return;
            }
            self.weather();
            if self.turn().is_err() {
                self.restart();
            }
        }
        panic!(
            "seed {}: not finished at {} s: {:?}, {:?}",
            self.seed,
            self.now,
            self.run.phase(),
            self.jobs.last()
        );
    }

    fn check_end(&self) {
        self.check_replay();
        let seed = self.seed;
        let known: BTreeSet<String> = self
            .ledger
            .iter()
            .filter_map(|record| match &record.fact {
                Fact::Submitted { job, .. } | Fact::DuplicateFound { job, .. } => {
                    Some(job.id.0.clone())
                }
                _ => None,
            })
            .collect();
        for job in &self.jobs {
            assert!(
                known.contains(&job.id.to_string()),
                "seed {seed}: lost {job:?}"
            );
            assert!(!job.alive(self.now), "seed {seed}: left alive {job:?}");
        }
        let last = self.jobs.last();
        let completed = last.is_some_and(|j| j.end == JobState::Completed && !j.purged);
        match self.run.history.outcome.as_ref().expect("finished") {
            Outcome::Succeeded => assert!(completed, "seed {seed}: {last:?}"),
            Outcome::Exhausted { .. } => {
                assert_eq!(
                    self.run.history.steps().count(),
                    self.double.rungs,
                    "seed {seed}"
                );
                assert!(last.is_some_and(|j| j.oom), "seed {seed}: {last:?}");
            }
            Outcome::Cancelled { .. } => assert!(self.user_cancelled, "seed {seed}"),
            Outcome::Failed { .. } => {
                assert!(last.is_some_and(|j| j.purged), "seed {seed}: {last:?}");
            }
            Outcome::Refused { .. }
            | Outcome::RetriesSpent { .. }
            | Outcome::BudgetSpent { .. } => {
                assert!(
                    !completed || self.run.history.attempts.len() > 1,
                    "seed {seed}"
                );
            }
            Outcome::Pruned { .. } => panic!("seed {seed}: there is no other run"),
            Outcome::Configuration { reason } => panic!("seed {seed}: {reason}"),
        }
    }
}

#[test]
fn no_run_is_lost_or_doubled_in_any_of_many_bad_days() {
    let mut outcomes: BTreeSet<&'static str> = BTreeSet::new();
    let mut adopted = 0;
    let mut absent = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.live_to_the_end();
        world.check_end();
        outcomes.extend(world.run.history.outcome.as_ref().map(Outcome::word));
        for record in &world.ledger {
            match record.fact {
                Fact::Submitted { adopted: true, .. } => adopted += 1,
                Fact::SubmitAbsent { .. } => absent += 1,
                _ => {}
            }
        }
    }
    // The days were bad enough: every kind of trouble was met.
    for word in [
        "succeeded",
        "exhausted",
        "cancelled",
        "refused",
        "retries_spent",
    ] {
        assert!(outcomes.contains(word), "no run was {word}: {outcomes:?}");
    }
    assert!(
        adopted > 50 && absent > 50,
        "{adopted} adopted, {absent} absent"
    );
}
