//! The thread that stays with a program until it has ended: it passes signals on and looks at its GPU.

use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::locked;
use super::place::MachineGpus;
use crate::drive::sources::Wake;
use crate::io::gpu_pool::Cards;
use crate::io::program::{Ears, Inbox, ProgramEnd, ProgramEvent, RunningProgram};
use crate::io::sampler::SampleFile;
use crate::io::scheduler::local::process::is_below;
use oomctl_base::job::ExitStatus;
use oomctl_gpu::Recorder;

/// Time between two looks at the GPU; the first ones come sooner, for programs that die soon.
const LOOK: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// How far a program has come.
#[derive(Debug, Default)]
pub(super) struct ProgramState {
    /// How and when it ended.
    pub(super) ended: Option<(ExitStatus, Timestamp)>,
    /// Somebody told it to end.
    pub(super) told: bool,
}

/// What stays with a program.
pub(super) struct Minder {
    pub(super) program: RunningProgram,
    pub(super) inbox: Inbox,
    pub(super) ears: Ears,
    pub(super) state: Arc<Mutex<ProgramState>>,
    pub(super) wake: Sender<Wake>,
}

impl Minder {
    /// Stays with the program until it has ended and what it said is written down. `gpu` is its GPU, whose samples go into
    /// the folder of the attempt.
    pub(super) fn stay(self, machine: &MachineGpus, gpu: Option<&str>, folder: &Path) {
        let mut watch = GpuWatch {
            program: self.program,
            gpu: gpu.and_then(|uuid| Some((machine.cards()?, uuid))),
            file: SampleFile::of(folder),
            recorder: Recorder::new(LOOK.as_secs(), 0, None),
            next: Instant::now(),
            pause: FIRST_LOOK,
        };
        let exit = self.follow(&mut watch);
        watch.close();
        let mut state = locked(&self.state);
        state.told |= self.ears.ending().is_some();
        state.ended = Some((exit, Timestamp::now()));
        drop(state);
        let _ = self.wake.send(Wake::Jobs);
    }

    fn follow(&self, watch: &mut GpuWatch<'_>) -> ExitStatus {
        let mut ending = ProgramEnd::default();
        loop {
            let told = locked(&self.state).told;
            if let Some(exit) = ending.over(told, Instant::now()) {
                return exit;
            }
            let event = self.inbox.next(ending.until(told).unwrap_or(watch.next));
            if let Some(event) = &event {
                ending.heard(event, Instant::now());
            }
            match event {
                // The driver may not have freed its memory yet, and it may have ended before the first look.
                Some(ProgramEvent::Exited(_)) => watch.look(),
                Some(ProgramEvent::Signal(number)) => {
                    locked(&self.state).told |= Ears::ends(number);
                    self.program.signal(number);
                }
                _ => {}
            }
            if !ending.has_exited() && Instant::now() >= watch.next {
                watch.look();
            }
        }
    }
}

/// Looks at the GPU now and then, and writes samples as the sampler beside a job does.
struct GpuWatch<'a> {
    program: RunningProgram,
    gpu: Option<(Cards<'a>, &'a str)>,
    file: SampleFile,
    recorder: Recorder,
    next: Instant,
    pause: Duration,
}

impl GpuWatch<'_> {
    fn look(&mut self) {
        self.pause = (self.pause * 2).min(LOOK);
        self.next = Instant::now() + self.pause;
        let Some((cards, uuid)) = &mut self.gpu else {
            return;
        };
        let root = self.program.pid();
        let ours = |pid: u32| i32::try_from(pid).is_ok_and(|pid| is_below(pid, root));
        let reading = cards.reading(uuid, ours);
        let line = reading.and_then(|r| self.recorder.take(&[r], Timestamp::now()));
        line.iter().for_each(|line| self.file.append(line));
    }

    fn close(&mut self) {
        let line = self.recorder.last(Timestamp::now());
        line.iter().for_each(|line| self.file.append(line));
    }
}
