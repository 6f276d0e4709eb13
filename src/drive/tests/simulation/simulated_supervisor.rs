//! A supervisor in its process: begun, given its turns, ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use super::planted::{Bug, Planted};
use super::watch_chain::Duty;
use super::world::{Fault, Killed, Process, World};
use crate::core::engine::History;
use crate::core::engine::tests::at;
use crate::drive::monotonic_clock::Anchor;
use crate::drive::record::{Array, TaskPlace};
use crate::drive::{Environment, Handle, Notice, Observer, Supervisor, TimeSource};
use crate::io::ledger::{Takeover, read};
use crate::io::scheduler::Scheduler;
use crate::io::scheduler::ending::EndingJobScheduler;
use crate::io::scheduler::slurm::{Deadlines, Slurm};
use oomctl_base::job::{JobId, Token};

/// A supervisor in its process.
pub struct SimulatedSupervisor {
    pub supervisor: Supervisor,
    process: Process,
    pub duty: Duty,
    /// When it began.
    pub since: i64,
    /// When it wants its next turn.
    pub next: i64,
    /// It is stopped until then.
    pub paused: i64,
    /// The last fact that was compared with the ledger.
    checked: u64,
}

/// Tells the world.
struct Ear<'a>(&'a World);

impl Observer for Ear<'_> {
    fn notice(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Fact { record, .. } => self
                .0
                .tell(|| format!("fact {} {:?}", record.seq, record.fact)),
            Notice::SetAside { why, .. } => self.0.tell(|| format!("set aside: {why}")),
            Notice::Trouble { what, .. } => self.0.tell(|| format!("trouble: {what}")),
            _ => {}
        }
    }
}

impl World {
    /// Does something as a process. `None` when it was killed in it; a panic is a violation.
    fn as_process<T>(&self, process: &mut Process, work: impl FnOnce() -> T) -> Option<T> {
        self.running.borrow_mut().push(process.clone());
        let result = catch_unwind(AssertUnwindSafe(work));
        *process = self.running.borrow_mut().pop().unwrap();
        match result {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<Killed>() => None,
            Err(payload) => {
                let text = payload.downcast_ref::<String>().cloned();
                let text = text.or_else(|| payload.downcast_ref::<&str>().map(|t| (*t).to_owned()));
                self.broke(format!("panic: {}", text.unwrap_or_default()));
                None
            }
        }
    }

    /// Begins a supervisor on a host.
    pub fn begin(self: &Rc<Self>, host: usize, takeover: Takeover, duty: Duty) {
        self.pids.set(self.pids.get() + 1);
        let pid = self.pids.get();
        let started = u64::from(pid) * 10;
        self.hosts.borrow_mut()[host].alive.insert(pid, started);
        let mut process = Process {
            host,
            pid,
            dead: false,
        };
        let world = Rc::clone(self);
        self.tell(|| format!("login{} begins {pid}: {duty:?}", host + 1));
        let supervisor = self
            .as_process(&mut process, || world.open(host, pid, takeover, &duty))
            .flatten();
        match supervisor {
            Some(supervisor) if !process.dead => {
                let simulated_supervisor = SimulatedSupervisor {
                    supervisor,
                    process,
                    duty,
                    since: self.now.get(),
                    next: self.now.get(),
                    paused: 0,
                    checked: 0,
                };
                self.seats.borrow_mut()[host] = Some(simulated_supervisor);
            }
            _ => {
                self.hosts.borrow_mut()[host].alive.remove(&pid);
                self.hand_over(&duty, None);
            }
        }
    }

    /// How many other processes live.
    fn others(&self) -> usize {
        let hosts = self.hosts.borrow();
        hosts.iter().map(|h| h.alive.len()).sum::<usize>() - 1
    }

    fn open(
        self: &Rc<Self>,
        host: usize,
        pid: u32,
        takeover: Takeover,
        duty: &Duty,
    ) -> Option<Supervisor> {
        let now = match duty {
            Duty::AtEnd { .. } => at(self.now.get()),
            _ => self.wall(host),
        };
        // What is opened is seen as it is.
        self.disk.borrow_mut().refresh(host);
        let folder = self.folder();
        let mut toy = self.toy.clone();
        match self.bug {
            Some(Bug::NoGrace) => toy.supervision.hang_grace_s = 0,
            Some(Bug::NoSettling) => toy.supervision.settle_s = 0,
            _ => {}
        }
        let handle = if folder.inputs().exists() {
            Handle::open(folder, toy.request(), takeover, now)
        } else if self.others() > 0 {
            // Somebody makes it just now.
            return None;
        } else {
            // Whoever was killed before there was a request has submitted nothing.
            let _ = std::fs::remove_dir_all(folder.dir());
            Handle::create(folder, toy.request(), "{}", &Environment::default(), now)
        };
        let mut handle = match handle {
            Ok(handle) => handle,
            Err(error) => {
                self.tell(|| format!("cannot open: {error}"));
                if matches!(
                    error,
                    crate::drive::DriveError::Ledger(
                        crate::io::ledger::LedgerError::Damaged { .. }
                    )
                ) {
                    self.broke(format!("{error}"));
                }
                return None;
            }
        };
        if self.bug == Some(Bug::NoEpoch) {
            let epoch = handle.run.history.epoch;
            handle
                .run
                .history
                .attempts
                .iter_mut()
                .for_each(|a| a.ready_epoch = epoch);
        }
        let clock: TimeSource = {
            let world = Rc::clone(self);
            let uptime = |world: &Self| Duration::from_secs(world.now.get().unsigned_abs());
            let anchor = Anchor::new(now, uptime(&world));
            Box::new(move || anchor.at(uptime(&world)))
        };
        // As if both processes were on one host: they hear what the other heard.
        let heard = self.root.with_file_name("heard");
        let slurm = Slurm::with_path(self.root.with_file_name("bin"))
            .inheriting(Vec::new())
            // Both are one thread here: who waited for the other would wait in vain, and in true time.
            .deadlines(Deadlines::all(Duration::ZERO))
            .sharing_answers_in(&heard);
        let slurm = Planted::new(slurm, self.bug);
        let scheduler: Box<dyn Scheduler> = match duty {
            Duty::AtEnd { job, code } => {
                Box::new(EndingJobScheduler::new(slurm, JobId(job.clone()), *code))
            }
            _ => Box::new(slurm),
        };
        let mut supervisor = Supervisor::new(scheduler, clock).paced(pid.into());
        supervisor.add(handle);
        // A watch over the run alone knows nothing of the array.
        if self.has(Fault::Array) && self.below(3) < 2 {
            self.take_array(&mut supervisor);
        }
        if *duty == Duty::Retries {
            supervisor.retry("u", &mut Ear(self));
        }
        Some(supervisor)
    }

    /// The run is a task of an array, whose others are done.
    fn take_array(&self, supervisor: &mut Supervisor) {
        let token = Token("oomctl-sweep-1-00c0ffee".to_owned());
        let runs = ["x", "y", "z", "r1"].map(str::to_owned);
        for handle in supervisor.runs.values_mut() {
            handle.task = Some(TaskPlace {
                array: token.clone(),
                index: 3,
                // On half of the days it is an array of a script, of which each attempt is a task.
                always: self.has(Fault::Requeue),
            });
        }
        supervisor.arrays.push(Array {
            sweep: "sweep".to_owned(),
            folder: self.root.join(".oomctl/sweeps/sweep/array-1"),
            token,
            tasks: (0..).zip(runs).collect(),
            at_once: None,
        });
    }

    /// One turn of the supervisor on a host.
    pub fn turn(&self, host: usize) {
        let Some(mut simulated_supervisor) = self.seats.borrow_mut()[host].take() else {
            return;
        };
        if simulated_supervisor.paused > self.now.get() {
            self.seats.borrow_mut()[host] = Some(simulated_supervisor);
            return;
        }
        let process = &mut simulated_supervisor.process;
        let supervisor = &mut simulated_supervisor.supervisor;
        let next = self.as_process(process, || supervisor.cycle(&mut Ear(self)));
        if let Some(Some(next)) = next
            && !simulated_supervisor.process.dead
        {
            self.check_memory(&mut simulated_supervisor);
            if self.is_done(&simulated_supervisor) {
                return self.end(simulated_supervisor, false);
            }
            let next = next
                .duration_since(simulated_supervisor.supervisor.now())
                .as_secs();
            simulated_supervisor.next = self.now.get() + next;
            self.seats.borrow_mut()[host] = Some(simulated_supervisor);
            return;
        }
        self.end(simulated_supervisor, next.is_none());
    }

    /// The process ends, by itself or not.
    pub fn end(&self, simulated_supervisor: SimulatedSupervisor, killed: bool) {
        let SimulatedSupervisor {
            supervisor,
            mut process,
            duty,
            ..
        } = simulated_supervisor;
        process.dead |= killed;
        let (host, pid) = (process.host, process.pid);
        let handle = supervisor.runs().next();
        let known = handle.filter(|h| !process.dead && h.error().is_none());
        self.hand_over(&duty, known.map(Handle::history));
        self.as_process(&mut process, move || {
            let mut supervisor = supervisor;
            supervisor.save(&mut Ear(self));
        });
        self.hosts.borrow_mut()[host].alive.remove(&pid);
    }

    /// Memory is what the ledger says.
    fn check_memory(&self, simulated_supervisor: &mut SimulatedSupervisor) {
        let Some(handle) = simulated_supervisor.supervisor.runs().next() else {
            return;
        };
        if handle.history().seq < simulated_supervisor.checked + 8 {
            return;
        }
        simulated_supervisor.checked = handle.history().seq;
        if handle.ledger.still_ours().is_err() || self.bug == Some(Bug::NoEpoch) {
            return;
        }
        match read(self.folder().dir()) {
            Ok(reading) => {
                if History::replay(&reading.records) != *handle.history() {
                    self.broke("a replay of the ledger is not what is in memory".to_owned());
                }
            }
            Err(error) => self.broke(format!("the ledger: {error}")),
        }
    }

    /// The present process stands still for a while, and the world goes on.
    pub fn pause(&self) {
        if self.running.borrow().len() > 1 {
            return;
        }
        let seconds = 30 + self.seconds(400);
        self.tell(|| format!("stopped for {seconds} s"));
        let until = self.now.get() + seconds;
        let other = 1 - self.process().map_or(0, |p| p.host);
        while self.now.get() < until && !self.is_broken() {
            self.pass(15 + self.seconds(30));
            let Some(me) = self.me.upgrade() else { return };
            if self.seats.borrow()[other].is_none() && self.below(3) == 2 {
                me.begin(other, Takeover::IfDead, Duty::Stays);
            }
            self.turn(other);
        }
        self.tell(|| "goes on".to_owned());
    }
}
