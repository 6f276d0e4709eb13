//! Watching in turns (`submit --supervise job` and `script`): whoever is due, what each does, and who comes next.
//!
//! The commands that put a watch job into the queue belong to the program (`cli/watch_chain`; with a real Slurm in
//! `tests/slurm_stories/relay.rs`). Here there is one when it was promised: the next is in the queue before a turn does
//! anything, and one that is killed is followed a minute later.

use std::rc::Rc;

use super::job::Fate;
use super::simulated_supervisor::SimulatedSupervisor;
use super::world::World;
use crate::core::engine::{History, NextLook, next_look};
use crate::drive::Handle;
use crate::io::ledger::Takeover;
use oomctl_base::job::{JobState, Stage};

/// Seconds for the turn of a watch job, of one at the end of a script, and between a turn and the next where nothing else
/// is known (`cli/watch_chain`).
const PATIENCE: i64 = 1_200;
const PATIENCE_AT_END: i64 = 30;
const BREATH: i64 = 60;
const LATER: i64 = 300;
/// The first watch job looks for itself after this time.
const FIRST: i64 = 900;
/// A script that takes a turn at its end is over at the latest after this time.
const SCRIPT: i64 = 300;
/// A job that hangs and that nobody watches reaches its time limit after this time.
const LIMIT: i64 = 1_800;

/// How a run is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// By a process that stays.
    Here,
    /// By small jobs that take turns.
    Job,
    /// By each job, at the end of its script.
    Script,
}

/// What a process is there for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Duty {
    /// It watches until the run is over.
    Stays,
    /// It asks that a run goes on that is over, and watches it.
    Retries,
    /// It submits, and ends.
    Submits,
    /// It takes a turn, as a watch job.
    Turn,
    /// It takes a turn at the end of the script of this job, whose exit code is known.
    AtEnd { job: String, code: i32 },
}

/// A watch job that waits.
#[derive(Debug, Clone)]
pub struct Ready {
    /// For the end of this job, by any means.
    after: Option<String>,
    /// Until then.
    at: i64,
}

impl World {
    /// Does nobody stay to watch the run?
    pub fn is_watched_in_turns(&self) -> bool {
        self.watch.get() != Watch::Here
    }

    /// The first process of the story.
    pub fn first(self: &Rc<Self>) {
        if !self.is_watched_in_turns() {
            return self.begin(0, Takeover::IfDead, Duty::Stays);
        }
        if self.watch.get() == Watch::Job {
            self.ready(None, FIRST);
        }
        self.begin(0, Takeover::IfDead, Duty::Submits);
    }

    fn ready(&self, after: Option<String>, in_s: i64) {
        let at = self.now.get() + in_s;
        self.watch_chain.borrow_mut().push(Ready { after, at });
    }

    /// Has somebody promised to look after the run? A job whose script has still to end takes a turn of its own.
    pub fn is_seen_to(&self) -> bool {
        let now = self.now.get();
        let runs = |j: &super::job::Job| j.is_alive(now) && now < j.stops;
        let script =
            self.watch.get() == Watch::Script && self.cluster.borrow().jobs.iter().any(runs);
        script || !self.watch_chain.borrow().is_empty() || !self.ends.borrow().is_empty()
    }

    /// Scripts come to their end, and jobs to their limit.
    pub fn scripts(&self) {
        if !self.is_watched_in_turns() {
            return;
        }
        let now = self.now.get();
        let mut cluster = self.cluster.borrow_mut();
        for job in cluster.jobs.iter_mut().filter(|j| j.is_alive(now)) {
            let code = match job.fate {
                Fate::Works | Fate::Survives => 0,
                Fate::GpuOom | Fate::Bug => 1,
                Fate::Hangs if now > job.stops + LIMIT => {
                    job.time_out(now);
                    continue;
                }
                _ => continue,
            };
            if self.watch.get() == Watch::Script
                && now >= job.stops
                && !job.turned
                && !job.cancelled
            {
                job.turned = true;
                job.gone = now + SCRIPT;
                self.ends.borrow_mut().push((job.shown(), code));
            }
        }
    }

    /// Whoever is due begins its turn, where there is a host for it.
    pub fn turns(self: &Rc<Self>) {
        let empty = |host: usize| self.seats.borrow()[host].is_none();
        let Some(host) = (0..2).find(|host| empty(*host)) else {
            return;
        };
        let ended = self.ends.borrow_mut().pop();
        if let Some((job, code)) = ended {
            self.ready(Some(job.clone()), BREATH);
            return self.begin(host, Takeover::IfDead, Duty::AtEnd { job, code });
        }
        let due = |ready: &Ready| self.now.get() >= ready.at && self.is_over(ready);
        let waiting = self.watch_chain.borrow().len();
        self.watch_chain.borrow_mut().retain(|ready| !due(ready));
        if self.watch_chain.borrow().len() < waiting {
            self.begin(host, Takeover::IfDead, Duty::Turn);
        }
    }

    /// Is what a watch job waits for over, or forgotten?
    fn is_over(&self, ready: &Ready) -> bool {
        let (cluster, now) = (self.cluster.borrow(), self.now.get());
        let waited = |job: &&super::job::Job| Some(job.shown()) == ready.after;
        !cluster
            .jobs
            .iter()
            .filter(waited)
            .any(|j| j.is_alive(now) || j.state(now).stage() == Stage::Ending)
    }

    /// Has a process done what it came for, or no more time for it?
    pub fn is_done(&self, simulated_supervisor: &SimulatedSupervisor) -> bool {
        let waited = self.now.get() - simulated_supervisor.since;
        let mut runs = simulated_supervisor.supervisor.runs();
        match simulated_supervisor.duty {
            Duty::Stays | Duty::Retries => false,
            Duty::Submits => waited > PATIENCE || runs.all(Handle::is_under_way),
            Duty::Turn => waited > PATIENCE || runs.all(Handle::is_settled),
            Duty::AtEnd { .. } => waited > PATIENCE_AT_END || runs.all(Handle::is_settled),
        }
    }

    /// A turn is over: who comes next. Of one that was killed, or could not begin, nothing is known.
    pub fn hand_over(&self, duty: &Duty, known: Option<&History>) {
        match (duty, known.map(next_look)) {
            (Duty::AtEnd { job, .. }, next) => {
                let seen_to = match &next {
                    Some(NextLook::Never) => true,
                    Some(NextLook::After(next)) => next.id.0 != *job,
                    Some(NextLook::Later) | None => false,
                };
                if seen_to {
                    let other = |ready: &Ready| ready.after.as_ref() != Some(job);
                    self.watch_chain.borrow_mut().retain(other);
                }
                let now = self.now.get();
                let mut cluster = self.cluster.borrow_mut();
                let mut own = cluster.jobs.iter_mut().filter(|j| j.shown() == *job);
                if let Some(own) = own.next_back() {
                    own.gone = own.gone.min(now + 5);
                }
            }
            (Duty::Turn | Duty::Submits, Some(next)) if self.watch.get() == Watch::Job => {
                if *duty == Duty::Submits {
                    self.watch_chain.borrow_mut().clear();
                }
                match next {
                    NextLook::Never => {}
                    NextLook::After(job) => self.ready(Some(job.id.0), 0),
                    NextLook::Later => self.ready(None, LATER),
                }
            }
            (Duty::Turn, Some(NextLook::After(job))) => self.ready(Some(job.id.0), 0),
            (Duty::Turn, Some(NextLook::Later)) => self.ready(None, LATER),
            (Duty::Turn, None) => self.ready(None, BREATH),
            (Duty::Turn | Duty::Submits | Duty::Stays | Duty::Retries, _) => {}
        }
    }
}

impl super::job::Job {
    /// Its time is over.
    fn time_out(&mut self, now: i64) {
        self.end = JobState::Timeout;
        self.limited = true;
        self.stops = now;
        self.gone = now + 6;
    }
}
