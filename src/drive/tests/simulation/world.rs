//! The world that takes the place of ours: time, hosts, processes, and the adversary's choices.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::choices::Choices;
use super::cluster::Cluster;
use super::disk::Disk;
use super::planted::Bug;
use super::simulated_supervisor::SimulatedSupervisor;
use super::watch_chain::{Ready, Watch};
use crate::core::engine::tests::{Toy, at};
use crate::drive::RunFolder;
use crate::io::disk::DiskChange;
use crate::io::ledger::{LEDGER_FILE, LedgerOwner};
use crate::io::scheduler::command::{CommandCall, CommandOutput};
use crate::io::trial::Trial;

/// What the adversary does in a story. Each story has a part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    LostAnswers,
    Silence,
    Lies,
    Lag,
    NoAccounts,
    ReusedIds,
    LostJobs,
    LateLogs,
    TornLogs,
    Kill,
    Crash,
    FullDisk,
    Caches,
    Clock,
    Second,
    Pause,
    Requeue,
    Trouble,
    Cancel,
    Refusals,
    Budgets,
    /// No fault: the first attempt is a task of a job array.
    Array,
    /// squeue takes its time.
    Slow,
    /// No fault: nobody may stay to watch.
    Turns,
}

pub const FAULTS: u32 = Fault::Turns as u32 + 1;

/// A process was killed where it stood.
pub struct Killed;

/// A process of a supervisor.
#[derive(Debug, Clone)]
pub struct Process {
    pub host: usize,
    pub pid: u32,
    pub dead: bool,
}

/// A login node.
#[derive(Debug, Clone, Default)]
pub struct Host {
    pub boot: u32,
    /// What its clock is ahead of the cluster's, in seconds.
    pub ahead: i64,
    /// Processes by id, with the moment of their start.
    pub alive: BTreeMap<u32, u64>,
}

/// The world of one story.
pub struct World {
    pub choices: RefCell<Choices>,
    pub now: Cell<i64>,
    faults: u32,
    /// The adversary has stopped.
    pub quiet: Cell<bool>,
    pub cluster: RefCell<Cluster>,
    pub disk: RefCell<Disk>,
    pub hosts: RefCell<[Host; 2]>,
    /// The processes that run now, one inside the pause of another.
    pub running: RefCell<Vec<Process>>,
    pub seats: RefCell<[Option<SimulatedSupervisor>; 2]>,
    pub pids: Cell<u32>,
    pub watch: Cell<Watch>,
    /// Watch jobs that wait, and scripts that have come to their end, with their exit codes.
    pub watch_chain: RefCell<Vec<Ready>>,
    pub ends: RefCell<Vec<(String, i32)>>,
    pub toy: Toy,
    pub bug: Option<Bug>,
    pub root: PathBuf,
    /// What was broken first.
    pub broken: RefCell<Option<String>>,
    /// What happened, if anybody wants to read it.
    pub told: Option<RefCell<Vec<String>>>,
    pub facts: Checked,
    /// The world itself.
    pub me: Weak<World>,
}

/// What the invariants remember.
#[derive(Debug, Default)]
pub struct Checked {
    /// The job that a user cancelled.
    pub cancelled: Cell<Option<u64>>,
    /// Somebody asked for the end of the run. A retry takes the request back.
    pub end_asked: Cell<bool>,
    pub refused: Cell<bool>,
    /// How often somebody asked that the run goes on.
    pub retries: Cell<u32>,
    pub accepted: RefCell<Vec<String>>,
    /// How many rungs the job needs.
    pub needs: Cell<u32>,
}

impl World {
    pub fn new(choices: Choices, root: PathBuf, bug: Option<Bug>, told: bool) -> Rc<Self> {
        let mut choices = choices;
        let faults = choices.below(1 << FAULTS) & choices.below(1 << FAULTS)
            | choices.below(1 << FAULTS) & choices.below(1 << FAULTS);
        Rc::new_cyclic(|me| {
            let world = Self {
                me: me.clone(),
                faults,
                now: Cell::new(0),
                quiet: Cell::new(false),
                cluster: RefCell::default(),
                disk: RefCell::default(),
                hosts: RefCell::default(),
                running: RefCell::default(),
                seats: RefCell::default(),
                pids: Cell::new(100),
                watch: Cell::new(Watch::Here),
                watch_chain: RefCell::default(),
                ends: RefCell::default(),
                toy: toy(
                    &mut choices,
                    faults & 1 << Fault::Budgets as u32 != 0,
                    &root,
                ),
                bug,
                root,
                broken: RefCell::default(),
                told: told.then(RefCell::default),
                facts: Checked::default(),
                choices: RefCell::new(choices),
            };
            world.facts.needs.set(world.below(5));
            if world.has(Fault::Turns) {
                let watch = [Watch::Here, Watch::Here, Watch::Job, Watch::Script];
                world.watch.set(watch[world.below(4) as usize]);
            }
            world.cluster.borrow_mut().next_id = 10;
            world.cluster.borrow_mut().no_accounts = world.has(Fault::NoAccounts);
            world.cluster.borrow_mut().together = world.has(Fault::Array) && world.below(2) == 1;
            world
        })
    }

    pub fn below(&self, n: u32) -> u32 {
        self.choices.borrow_mut().below(n)
    }

    pub fn seconds(&self, n: u32) -> i64 {
        i64::from(self.below(n))
    }

    /// Is this fault part of the story?
    pub fn has(&self, fault: Fault) -> bool {
        self.faults & (1 << fault as u32) != 0
    }

    /// Does this fault strike now, with so many chances in a thousand?
    pub fn strikes(&self, fault: Fault, chances: u32) -> bool {
        !self.quiet.get() && self.has(fault) && self.below(1_000) >= 1_000 - chances
    }

    pub fn tell(&self, what: impl FnOnce() -> String) {
        if let Some(told) = &self.told {
            let who = self
                .running
                .borrow()
                .last()
                .map_or_else(String::new, |p| format!(" [login{} {}]", p.host + 1, p.pid));
            told.borrow_mut()
                .push(format!("{:>6}{who} {}", self.now.get(), what()));
        }
    }

    /// An invariant does not hold.
    pub fn broke(&self, what: String) {
        self.tell(|| format!("BROKEN: {what}"));
        self.broken.borrow_mut().get_or_insert(what);
    }

    pub fn is_broken(&self) -> bool {
        self.broken.borrow().is_some()
    }

    pub fn folder(&self) -> RunFolder {
        RunFolder::of(&self.root.join(".oomctl/runs"), "r1").unwrap()
    }

    pub fn ledger(&self) -> PathBuf {
        self.folder().dir().join(LEDGER_FILE)
    }

    /// What the clock of a host shows.
    pub fn wall(&self, host: usize) -> Timestamp {
        at(self.now.get() + self.hosts.borrow()[host].ahead)
    }

    pub fn process(&self) -> Option<Process> {
        self.running.borrow().last().cloned()
    }

    /// The present process ends here and now.
    pub fn die(&self) -> ! {
        self.tell(|| "killed".to_owned());
        if let Some(process) = self.running.borrow_mut().last_mut() {
            process.dead = true;
            let mut hosts = self.hosts.borrow_mut();
            hosts[process.host].alive.remove(&process.pid);
        }
        std::panic::resume_unwind(Box::new(Killed));
    }

    /// The present process is killed, or its host goes down, if that is the day for it.
    pub fn risk(&self) {
        let Some(process) = self.process() else {
            return;
        };
        if self.strikes(Fault::Crash, 2) {
            self.crash(process.host);
            self.die();
        }
        if self.strikes(Fault::Kill, 8) {
            self.die();
        }
    }

    /// A host goes down: what was not synchronised is gone, and so are its processes.
    pub fn crash(&self, host: usize) {
        self.tell(|| format!("login{} goes down", host + 1));
        let mut choose = |n| self.below(n);
        self.disk.borrow_mut().crash(host, &mut choose);
        let mut hosts = self.hosts.borrow_mut();
        hosts[host].boot += 1;
        hosts[host].alive.clear();
        drop(hosts);
        for process in self.running.borrow_mut().iter_mut() {
            process.dead |= process.host == host;
        }
    }
}

fn toy(choices: &mut Choices, budgets: bool, root: &Path) -> Toy {
    let mut toy = Toy {
        workdir: root.to_owned(),
        ..Toy::new(choices.below(4) as usize)
    };
    if budgets {
        toy.limits.attempts = 12 - choices.below(11);
        toy.limits.wall_time_s =
            (choices.below(3) == 2).then(|| 1_800 + u64::from(choices.below(7_200)));
        toy.limits.gpu_hours =
            (choices.below(3) == 2).then(|| f64::from(1 + choices.below(8)) / 10.0);
    }
    toy.supervision.time_limit_retries = choices.below(2);
    toy.resumes = choices.below(2) == 1;
    if choices.below(2) == 1 {
        toy.supervision.stall_s = 120;
    }
    toy
}

impl Trial for World {
    fn change(&self, change: DiskChange<'_>) -> io::Result<usize> {
        let all = match change {
            DiskChange::Append(_, bytes) => bytes,
            _ => 0,
        };
        let Some(process) = self.process() else {
            return Ok(all);
        };
        if process.dead {
            return Err(io::Error::other("killed"));
        }
        if self.bug == Some(Bug::NoOwner) && matches!(change, DiskChange::Remove(_)) {
            // The file by which an owner sees that it was replaced stays.
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.risk();
        if self.strikes(Fault::Pause, 4) {
            self.pause();
        }
        if self.process().is_some_and(|p| p.dead) {
            self.die();
        }
        let full = self.disk.borrow().full > self.now.get();
        if !full && self.strikes(Fault::FullDisk, 6) {
            self.disk.borrow_mut().full = self.now.get() + 1 + self.seconds(200);
            self.tell(|| "the disk is full".to_owned());
        }
        let full = self.disk.borrow().full > self.now.get();
        let room = match change {
            DiskChange::Append(_, bytes) if full => {
                self.below(u32::try_from(bytes).unwrap()) as usize
            }
            DiskChange::Replace(_) | DiskChange::Link(_) | DiskChange::MakeDir(_) if full => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            DiskChange::Sync(_) if self.strikes(Fault::FullDisk, 4) => {
                return Err(io::Error::other("Input/output error"));
            }
            _ => all,
        };
        self.disk
            .borrow_mut()
            .change(process.host, change, room, self.bug);
        if full && room == 0 && all > 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(room)
    }

    fn length(&self, path: &Path, real: u64) -> u64 {
        let Some(process) = self.process() else {
            return real;
        };
        if process.dead {
            return real;
        }
        if self.strikes(Fault::Pause, 4) {
            self.pause();
            // What it was before the pause is what it was.
        }
        if self.process().is_some_and(|p| p.dead) {
            self.die();
        }
        self.disk
            .borrow_mut()
            .length(process.host, path, real, self.bug)
    }

    fn is_there(&self, path: &Path, real: bool) -> bool {
        let Some(process) = self.process() else {
            return real;
        };
        if self.bug == Some(Bug::NoOwner) {
            return false;
        }
        let old = self.strikes(Fault::Caches, 500);
        let now = self.now.get();
        self.disk
            .borrow_mut()
            .is_there(process.host, path, real, old, now)
    }

    fn names(&self, dir: &Path, real: &[OsString]) -> Vec<OsString> {
        let Some(process) = self.process() else {
            return real.to_vec();
        };
        let old = self.strikes(Fault::Caches, 500);
        let now = self.now.get();
        self.disk
            .borrow_mut()
            .names(process.host, dir, real, old, now)
    }

    fn file_time(&self) -> io::Result<SystemTime> {
        let seconds = at(self.now.get()).as_second();
        Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs()))
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.now.get().unsigned_abs())
    }

    fn process(&self) -> LedgerOwner {
        let process = self.running.borrow().last().cloned();
        let process = process.unwrap_or(Process {
            host: 0,
            pid: 1,
            dead: false,
        });
        let hosts = self.hosts.borrow();
        let host = &hosts[process.host];
        LedgerOwner {
            epoch: 0,
            host: format!("login{}", process.host + 1),
            pid: process.pid,
            started: host.alive.get(&process.pid).copied().unwrap_or(0),
            boot: format!("boot-{}-{} pid:[1]", process.host, host.boot),
            released: false,
        }
    }

    fn started(&self, pid: u32) -> Option<u64> {
        let host = self.running.borrow().last().map_or(0, |p| p.host);
        self.hosts.borrow()[host].alive.get(&pid).copied()
    }

    fn random(&self) -> [u8; 4] {
        self.pids.set(self.pids.get() + 1);
        self.pids.get().to_be_bytes()
    }

    fn call(&self, call: &CommandCall) -> CommandOutput {
        super::commands::call(self, call)
    }
}
