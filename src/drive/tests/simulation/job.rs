//! One job of the simulated cluster: how it will go, what each command shows of it, what it prints.

use std::path::PathBuf;

use oomctl_base::job::{JobState, Stage};

/// A message of PyTorch 2.9 (c10/cuda/CUDACachingAllocator.cpp) as a program prints it that dies of it in
/// one of its phases.
const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated.\n";
const PLACES: [&str; 3] = [
    "loss.backward()",
    "self.compute_log_prob(batch)",
    "self.generate_sequences(prompts)",
];

/// How a job goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Works,
    /// Works, after an out-of-memory that it survived.
    Survives,
    GpuOom,
    /// A rank dies of it and the others wait for ever.
    Hangs,
    HostOom,
    /// A mistake in the code.
    Bug,
    NodeFails,
    Preempted,
    TimesOut,
}

impl Fate {
    pub fn end(self) -> JobState {
        match self {
            Self::Works | Self::Survives => JobState::Completed,
            Self::GpuOom | Self::Hangs | Self::Bug => JobState::Failed,
            Self::HostOom => JobState::OutOfMemory,
            Self::NodeFails => JobState::NodeFail,
            Self::Preempted => JobState::Preempted,
            Self::TimesOut => JobState::Timeout,
        }
    }

    pub fn is_gpu_oom(self) -> bool {
        matches!(self, Self::GpuOom | Self::Hangs)
    }
}

/// A job. Seconds are those of the simulation.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: u64,
    pub token: String,
    /// Its index, where it is a task of a job array, which has a name of its own.
    pub task: Option<u32>,
    pub out: PathBuf,
    pub err: PathBuf,
    pub micro: u32,
    pub fate: Fate,
    pub phase: usize,
    pub submitted: i64,
    /// squeue knows it from then on.
    pub visible: i64,
    pub starts: i64,
    pub stops: i64,
    /// COMPLETING is over.
    pub gone: i64,
    pub end: JobState,
    pub restarts: u32,
    /// The scheduler starts it again so many seconds after it was gone.
    pub requeue: Option<i64>,
    /// When the parts that are over began and stopped.
    pub parts: Vec<(i64, i64)>,
    /// Seconds by which accounting lags, and the text of its logs.
    pub lag: i64,
    pub late: i64,
    pub cancelled: bool,
    /// It hung until its time limit.
    pub limited: bool,
    /// Its script has come to its end and takes a turn of the watch.
    pub turned: bool,
    /// The trace of a refusal.
    pub trace: bool,
    /// A crash of the controller lost it.
    pub lost: bool,
}

impl Job {
    /// Its id as the commands show it.
    pub fn shown(&self) -> String {
        match self.task {
            Some(task) => format!("{}_{task}", self.id),
            None => self.id.to_string(),
        }
    }

    /// Its name and comment.
    pub fn name(&self) -> String {
        let array = self.token.rsplit_once('_').filter(|_| self.task.is_some());
        array
            .map_or(self.token.as_str(), |(array, _)| array)
            .to_owned()
    }

    /// A task that is cancelled while it waits is known to nobody afterwards (22.05).
    pub fn is_traceless(&self) -> bool {
        self.task.is_some() && self.cancelled && self.stops <= self.starts
    }

    fn hangs(&self) -> bool {
        self.fate == Fate::Hangs && !self.cancelled && !self.limited
    }

    pub fn state(&self, now: i64) -> JobState {
        if now < self.starts {
            JobState::Pending
        } else if now < self.stops || self.hangs() {
            JobState::Running
        } else if now < self.gone {
            JobState::Completing
        } else {
            self.end.clone()
        }
    }

    /// Can anything of it still run?
    pub fn is_alive(&self, now: i64) -> bool {
        let over = self.state(now).stage() == Stage::Ended && self.requeue.is_none();
        !self.trace && !self.lost && !over
    }

    pub fn gpu_seconds(&self, now: i64) -> i64 {
        let end = if self.hangs() {
            now
        } else {
            self.stops.min(now)
        };
        let parts = self.parts.iter().copied().chain([(self.starts, end)]);
        parts.map(|(from, to)| 4 * (to - from).max(0)).sum()
    }

    pub fn cancel(&mut self, now: i64) -> bool {
        let ends = !matches!(self.state(now).stage(), Stage::Ended | Stage::Ending);
        if ends {
            self.end = JobState::Cancelled;
            self.cancelled = true;
            self.requeue = None;
            self.starts = self.starts.min(now);
            self.stops = now;
            self.gone = now + 6;
        }
        ends
    }

    pub fn exit(&self) -> &'static str {
        match self.end {
            JobState::Failed => "1:0",
            JobState::OutOfMemory => "0:125",
            _ => "0:0",
        }
    }

    /// What the present part prints, and when: to standard error, or to standard output.
    pub fn words(&self) -> Vec<(i64, bool, String)> {
        let bar = |step: u32| format!("  1%|          | {step}/1000 [00:10<10:00,  1.00s/it]\n");
        let (from, long) = (self.starts, self.stops - self.starts);
        let mut words = vec![(from + 1, false, "loading the model\n".to_owned())];
        // The last phase is one that comes late.
        let first = if self.phase == 2 { 106 } else { 6 };
        for part in 1..4_u32 {
            words.push((from + long * i64::from(part) / 5, true, bar(part + first)));
        }
        let place = PLACES[self.phase % PLACES.len()];
        // Another job dies with other figures.
        let allocated = format!("{:.2} GiB is", 60.0 + (from % 1_700) as f64 / 100.0);
        let message = OOM.replace("77.00 GiB is", &allocated);
        let oom = format!(
            "Traceback (most recent call last):\n  File \"/w/train.py\", line 12, in <module>\n    {place}\n{message}"
        );
        match self.fate {
            Fate::Works => {}
            Fate::Survives => {
                let middle = from + long * 3 / 5;
                words.push((middle, true, oom));
                for step in 4..8_u32 {
                    words.push((middle + i64::from(step) - 2, true, bar(step + first)));
                }
            }
            Fate::GpuOom | Fate::Hangs => words.push((self.stops, true, oom)),
            Fate::HostOom => words.push((self.stops, true, format!("slurmstepd-node1: error: Detected 1 oom-kill event(s) in StepId={}.batch. Some of your processes may have been killed by the cgroup out-of-memory handler.\n", self.id))),
            Fate::Bug => words.push((self.stops, true, "Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in <module>\n    import nothing\nModuleNotFoundError: No module named 'nothing'\n".to_owned())),
            Fate::NodeFails => words.push((self.stops, true, format!("slurmstepd-node1: error: *** JOB {} ON node1 CANCELLED AT 2026-11-21T01:57:33 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n", self.id))),
            Fate::Preempted => words.push((self.stops, true, format!("slurmstepd-node1: error: *** JOB {} ON node1 CANCELLED AT 2026-11-21T01:57:33 DUE TO PREEMPTION ***\n", self.id))),
            Fate::TimesOut => words.push((self.stops, true, format!("slurmstepd-node1: error: *** JOB {} ON node1 CANCELLED AT 2026-11-21T01:57:33 DUE TO TIME LIMIT ***\n", self.id))),
        }
        words
    }
}
