//! One story from its first turn to its end, and what must hold there.

use std::path::Path;
use std::rc::Rc;

use super::choices::Choices;
use super::commands::{accept, known_ids, plan, print};
use super::job::Fate;
use super::planted::Bug;
use super::watch_chain::Duty;
use super::world::{Fault, World};
use crate::core::engine::{History, Outcome, RetryCause};
use crate::io::files::make_private_dir;
use crate::io::ledger::{Takeover, read};
use crate::io::trial;
use oomctl_base::job::JobState;

/// Turns after which a story must have ended, once nothing bad happens any more.
const TURNS_MAX: u32 = 3_000;
/// How often somebody asks that a run goes on that is over.
const RETRIES_MAX: u32 = 3;
/// Ledger records after which a run counts as one that never ends. 1,500 days without a planted mistake had 65 at most.
const RECORDS_MAX: usize = 500;

/// How a story went.
#[derive(Debug)]
pub struct Told {
    /// What was broken; nothing in a good story.
    pub broken: Option<String>,
    /// How the run ended.
    pub outcome: Option<Outcome>,
    /// The choices of the adversary.
    pub choices: Vec<u32>,
    /// What happened, where it was asked for.
    pub lines: Vec<String>,
}

/// Lives through a story. `base` holds a folder `bin` with Slurm's commands.
pub fn tell(base: &Path, choices: Choices, bug: Option<Bug>, lines: bool) -> Told {
    let (root, heard) = (base.join("project"), base.join("heard"));
    std::fs::create_dir(&root).unwrap();
    make_private_dir(&heard).unwrap();
    let world = World::new(choices, root.clone(), bug, lines);
    trial::set(Some(Rc::<World>::clone(&world)));
    let outcome = world.live();
    for host in 0..2 {
        let simulated_supervisor = world.seats.borrow_mut()[host].take();
        if let Some(simulated_supervisor) = simulated_supervisor {
            world.end(simulated_supervisor, true);
        }
    }
    trial::set(None);
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::remove_dir_all(&heard).unwrap();
    Told {
        broken: world.broken.borrow().clone(),
        outcome,
        choices: world.choices.borrow().values.clone(),
        lines: world
            .told
            .as_ref()
            .map_or_else(Vec::new, |t| t.borrow().clone()),
    }
}

impl World {
    fn live(self: &Rc<Self>) -> Option<Outcome> {
        let bad = 30 + self.below(120);
        self.first();
        for turn in 0..TURNS_MAX {
            if turn == bad {
                self.calm();
            }
            self.staff();
            self.turns();
            for host in 0..2 {
                let next = self.seats.borrow()[host].as_ref().map(|s| s.next);
                if next.is_some_and(|next| next <= self.now.get()) {
                    self.turn(host);
                }
            }
            if self.is_broken() {
                return None;
            }
            if let Some(outcome) = self.finished() {
                self.check_end(&outcome);
                if self.is_broken() || !self.goes_on(&outcome) {
                    return Some(outcome);
                }
            }
            self.pass(self.step());
        }
        self.broke(format!(
            "the run neither ends nor goes on: {}",
            self.standing()
        ));
        None
    }

    /// The adversary has had its fun.
    fn calm(&self) {
        self.tell(|| "nothing bad happens from now on".to_owned());
        self.quiet.set(true);
        self.disk.borrow_mut().full = 0;
        let mut cluster = self.cluster.borrow_mut();
        (cluster.silent, cluster.lies) = (self.now.get(), 0);
        for simulated_supervisor in self.seats.borrow_mut().iter_mut().flatten() {
            simulated_supervisor.paused = 0;
        }
    }

    /// Somebody begins a supervisor where there is none, sometimes a second one.
    fn staff(self: &Rc<Self>) {
        let empty = |host: usize| self.seats.borrow()[host].is_none();
        let nobody = empty(0) && empty(1) && !(self.is_watched_in_turns() && self.is_seen_to());
        if nobody && (self.quiet.get() || self.below(4) == 0) {
            self.begin(self.below(2) as usize, Takeover::IfDead, Duty::Stays);
        } else if empty(1) && self.strikes(Fault::Second, 60) {
            let forced = self.below(4) == 3;
            let takeover = if forced {
                Takeover::Forced
            } else {
                Takeover::IfDead
            };
            self.begin(1, takeover, Duty::Stays);
        }
        if self.strikes(Fault::Pause, 20) {
            let until = self.now.get() + 60 + self.seconds(600);
            if let Some(simulated_supervisor) = &mut self.seats.borrow_mut()[self.below(2) as usize]
            {
                simulated_supervisor.paused = until;
            }
        }
    }

    /// Seconds to the next turn: when something is due, or later.
    fn step(&self) -> i64 {
        let now = self.now.get();
        let next = self
            .seats
            .borrow()
            .iter()
            .flatten()
            .map(|s| s.next - now)
            .min();
        let late = [0, 0, 3, 30][self.below(4) as usize];
        next.unwrap_or(20).clamp(1, 120) + late
    }

    /// Time passes, and things happen in it.
    pub fn pass(&self, seconds: i64) {
        self.now.set(self.now.get() + seconds);
        self.weather();
        let now = self.now.get();
        self.cluster.borrow_mut().print(now);
        self.scripts();
        self.requeue();
        self.thaw();
    }

    /// A controller that goes on first does what it was sent while it was frozen.
    pub fn thaw(&self) {
        let mut cluster = self.cluster.borrow_mut();
        if cluster.silent > self.now.get() {
            return;
        }
        let orders = std::mem::take(&mut cluster.frozen);
        drop(cluster);
        for order in orders {
            let id = accept(self, order);
            let mut cluster = self.cluster.borrow_mut();
            let job = cluster.jobs.iter_mut().rev().find(|j| j.id == id);
            job.unwrap().visible = self.now.get();
        }
    }

    fn weather(&self) {
        let now = self.now.get();
        if self.strikes(Fault::Silence, 15) {
            let long = [120, 600, 10_800][self.below(3) as usize];
            self.cluster.borrow_mut().silent = now + self.seconds(long);
        }
        // Not again and again: what it leaves out is seen in between.
        let honest = now > self.cluster.borrow().lies + 60;
        if honest && self.strikes(Fault::Lies, 40) {
            self.cluster.borrow_mut().lies = now + self.seconds(25);
        }
        if self.strikes(Fault::LostJobs, 20) {
            let mut cluster = self.cluster.borrow_mut();
            let fresh =
                |j: &&mut super::job::Job| now - j.submitted < 5 && now < j.starts && !j.trace;
            if let Some(id) = cluster.jobs.last_mut().filter(fresh).map(|j| {
                j.lost = true;
                j.id
            }) {
                cluster.next_id = id;
                cluster.words.clear();
            }
        }
        if self.strikes(Fault::ReusedIds, 60) {
            let mut cluster = self.cluster.borrow_mut();
            let old = |j: &&super::job::Job| !j.is_alive(now) && now > j.gone + 20;
            let ids: Vec<u64> = cluster.jobs.iter().filter(old).map(|j| j.id).collect();
            cluster.reused = ids;
        }
        if self.strikes(Fault::Clock, 15) {
            let by = self.seconds(7_200) - 3_600;
            self.tell(|| format!("a clock jumps by {by} s"));
            self.hosts.borrow_mut()[self.below(2) as usize].ahead += by;
        }
        if self.strikes(Fault::Crash, 4) {
            self.fell(self.below(2) as usize);
        }
        if self.strikes(Fault::Cancel, 6) {
            self.cancel();
        }
    }

    /// A host goes down between two turns.
    fn fell(&self, host: usize) {
        if self.process().is_some() {
            return;
        }
        self.crash(host);
        let simulated_supervisor = self.seats.borrow_mut()[host].take();
        if let Some(simulated_supervisor) = simulated_supervisor {
            self.end(simulated_supervisor, true);
        }
    }

    /// A user ends the job, or the run.
    fn cancel(&self) {
        let now = self.now.get();
        if self.below(2) == 1 {
            if self.ledger().exists() && self.process().is_none() {
                self.tell(|| "a user asks for the end of the run".to_owned());
                self.folder().request_cancel("u").unwrap();
                self.facts.end_asked.set(true);
            }
            return;
        }
        let history = read(self.folder().dir())
            .ok()
            .map(|r| History::replay(&r.records));
        // Once a hanging job is ours to cancel, a user's cancellation cannot be told from ours. Before the grace time is
        // over it is not ours, whatever an answer says that was on its way.
        let grace = i64::try_from(self.toy.supervision.hang_grace_s).unwrap();
        let known = history
            .as_ref()
            .and_then(History::attempt)
            .is_some_and(|a| !a.stalled);
        let mut cluster = self.cluster.borrow_mut();
        let Some(job) = cluster.last().cloned().filter(|j| {
            known && j.is_alive(now) && (j.fate != Fate::Hangs || now < j.stops + grace)
        }) else {
            return;
        };
        if cluster.scancel(&job.shown(), &job.name(), now).is_some() {
            self.facts.cancelled.set(Some(job.id));
            drop(cluster);
            self.tell(|| format!("a user cancels job {}", job.id));
        }
    }

    /// The scheduler starts jobs again under their ids.
    fn requeue(&self) {
        let now = self.now.get();
        let again =
            |j: &&mut super::job::Job| !j.lost && j.requeue.is_some_and(|s| now >= j.gone + s);
        let mut job = match self.cluster.borrow_mut().jobs.iter_mut().find(again) {
            Some(job) => job.clone(),
            None => return,
        };
        job.parts.push((job.starts, job.stops));
        job.restarts += 1;
        job.submitted = now;
        plan(self, &mut job, now + 121);
        self.tell(|| {
            format!(
                "job {} is requeued: {:?}, {} to {}",
                job.id, job.fate, job.starts, job.stops
            )
        });
        print(self, &job);
        let mut cluster = self.cluster.borrow_mut();
        if let Some(old) = cluster.jobs.iter_mut().find(again) {
            *old = job;
        }
    }

    fn history(&self) -> Option<History> {
        let reading = read(self.folder().dir()).ok()?;
        Some(History::replay(&reading.records))
    }

    fn standing(&self) -> String {
        let history = self.history();
        let phase = history.as_ref().map(History::phase);
        format!(
            "{phase:?} at {} s, {:?}",
            self.now.get(),
            self.cluster.borrow().last()
        )
    }

    /// How the run ended, once nobody works on it and nothing is under way.
    fn finished(&self) -> Option<Outcome> {
        let idle = self.seats.borrow().iter().all(Option::is_none);
        if !idle || !self.cluster.borrow().frozen.is_empty() {
            return None;
        }
        let reading = read(self.folder().dir()).ok()?;
        if reading.records.len() > RECORDS_MAX {
            self.broke(format!("the run writes without end: {}", self.standing()));
        }
        History::replay(&reading.records).outcome
    }

    /// Somebody may want a run that is over to go on, and is killed over it now and then. False when nobody does.
    fn goes_on(self: &Rc<Self>, outcome: &Outcome) -> bool {
        let asked = self.facts.retries.get();
        if *outcome == Outcome::Succeeded || asked >= RETRIES_MAX || self.below(3) == 2 {
            return false;
        }
        self.facts.retries.set(asked + 1);
        self.begin(self.below(2) as usize, Takeover::IfDead, Duty::Retries);
        true
    }

    fn check_end(&self, outcome: &Outcome) {
        let records = read(self.folder().dir()).unwrap().records;
        let history = History::replay(&records);
        let known = known_ids(&records);
        let now = self.now.get();
        let cluster = self.cluster.borrow();
        let real = |j: &&super::job::Job| !j.trace && !j.lost && !j.is_traceless();
        for job in cluster.jobs.iter().filter(real) {
            if !known.contains(&job.shown()) {
                self.broke(format!("job {} ({}) is in no ledger", job.id, job.token));
            }
            // The script that took the last turn is at its end.
            if job.is_alive(now) && !job.cancelled && !job.turned {
                self.broke(format!("job {} is left alive after {outcome:?}", job.id));
            }
        }
        if history.attempts.len() > history.before_retry() + self.toy.limits.attempts as usize {
            self.broke(format!("{} attempts", history.attempts.len()));
        }
        let Some(last) = cluster.last() else {
            let good = matches!(
                outcome,
                Outcome::Refused { .. } | Outcome::Cancelled { .. } | Outcome::BudgetSpent { .. }
            );
            if !good {
                self.broke(format!("{outcome:?} without a job"));
            }
            return;
        };
        // What the scheduler forgot before it was asked cannot be known.
        let forgotten = cluster.no_accounts || last.lost || last.is_traceless();
        let right = match outcome {
            Outcome::Succeeded => last.end == JobState::Completed,
            Outcome::Exhausted { .. } => {
                last.fate.is_gpu_oom() && history.steps().count() == self.toy.rungs
            }
            Outcome::Cancelled { .. } => {
                self.facts.cancelled.get().is_some() || self.facts.end_asked.get()
            }
            Outcome::Failed { .. } => forgotten || matches!(last.fate, Fate::Bug | Fate::HostOom),
            Outcome::RetriesSpent { cause, .. } => match cause {
                RetryCause::NodeFailure => last.fate == Fate::NodeFails,
                RetryCause::Preemption => last.fate == Fate::Preempted,
                RetryCause::TimeLimit => last.fate == Fate::TimesOut,
                RetryCause::CoTenant
                | RetryCause::LateOom
                | RetryCause::Leak
                | RetryCause::Disk
                | RetryCause::Asked => false,
            },
            Outcome::BudgetSpent { .. } => self.has(Fault::Budgets),
            Outcome::Refused { .. } => self.facts.refused.get(),
            Outcome::Configuration { .. } | Outcome::Pruned { .. } => false,
        };
        if !right {
            self.broke(format!(
                "the run ended as {outcome:?}, and its last job was {last:?}"
            ));
        }
    }
}
