//! One attempt: the program runs, its output is read, its GPU is looked at.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::place::{ClaimedGpu, MachineGpus};
use super::{LaunchAttempt, LaunchError, LaunchJob, LaunchListener, LaunchNews};
use crate::core::launch::{Ended, ProgramAttempt};
use crate::core::measure::{AttemptFigures, Figure, FigurePattern, Overlap};
use crate::io::files::{Access, io_error, make_private_dir, write_atomic};
use crate::io::gpu_pool::Cards;
use crate::io::installed::active_here;
use crate::io::library::bugs;
use crate::io::program::{Ears, Inbox, ProgramEnd, ProgramEvent, RunningProgram};
use crate::io::scheduler::local::process::is_below;
use oomctl_base::job::{ExitStatus, JobId, JobState, JobStatus};
use oomctl_diagnose::{Class, Incident, ProgressPattern, Scanner, SourceId};

/// Time between two looks at the GPU; the first ones come sooner, for programs that die soon.
const LOOK: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// How long what a dead program left running may take to end before the next attempt.
const LEFT_PATIENCE: Duration = Duration::from_secs(5);
const LEFT_PAUSE: Duration = Duration::from_millis(20);

/// Runs an attempt to its end; `inbox` is told of signals already.
pub(super) fn run(
    job: &LaunchJob<'_>,
    attempt: &ProgramAttempt,
    number: u32,
    mut held: Option<&mut ClaimedGpu>,
    machine: &MachineGpus,
    listener: &mut dyn LaunchListener,
    inbox: &Inbox,
) -> Result<(Ended, LaunchAttempt), LaunchError> {
    let mut gpu = held.as_ref().map(|h| h.gpu.clone());
    let command = with_copies(job, attempt, number)?;
    listener.news(&LaunchNews::Started {
        number,
        command: &command,
        gpu: gpu.as_ref(),
    });
    let started = Timestamp::now();
    let start = Instant::now();
    let uuid = gpu.as_ref().map_or("", |g| g.uuid.as_str());
    let environment = environment(attempt, uuid, number);
    let begin = || RunningProgram::start(&command, &environment, (job.outputs)(), inbox);
    let program = match &held {
        Some(held) => held.claim.shared_with(begin),
        None => begin(),
    };
    let program = program.map_err(|source| LaunchError::Start {
        program: command.first().cloned().unwrap_or_default(),
        source,
    })?;
    let mut reader = OutputReader::new(job);
    let mut watch = GpuWatch {
        program,
        cards: held.as_ref().and_then(|_| machine.cards()),
        gpu: gpu.as_mut(),
        next: start,
        pause: FIRST_LOOK,
    };
    let (exit, told) = follow(inbox, &mut reader, &mut watch, attempt);
    let (incident, figures) = reader.verdict(exit);
    let ended = Ended {
        exit,
        incident,
        told: told || job.ears.ending().is_some(),
    };
    if ended.of_memory() {
        end_what_is_left(program, inbox);
    }
    if let (Some(held), Some(gpu)) = (&mut held, &gpu) {
        held.gpu.clone_from(gpu);
    }
    let failed = exit != ExitStatus::default();
    let tried = LaunchAttempt {
        number,
        command,
        gpu,
        started,
        seconds: (start.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        exit,
        incident: failed.then(|| ended.incident.clone()),
        figures,
        rungs: Vec::new(),
    };
    Ok((ended, tried))
}

/// Writes the copies of an attempt into a folder beside its record; the command that names them there.
fn with_copies(
    job: &LaunchJob<'_>,
    attempt: &ProgramAttempt,
    number: u32,
) -> Result<Vec<String>, LaunchError> {
    let Some(records) = job.records.as_ref().filter(|_| !attempt.copies.is_empty()) else {
        return Ok(attempt.command(""));
    };
    let dir = records.join(format!("attempt-{number}"));
    let dir = std::path::absolute(&dir).map_err(io_error("find", &dir))?;
    make_private_dir(&dir)?;
    for copy in &attempt.copies {
        write_atomic(&dir.join(&copy.name), copy.text.as_bytes(), Access::Private)?;
    }
    Ok(attempt.command(&dir.to_string_lossy()))
}

/// What the program is told by variables: its GPU by UUID, and to print at once what it prints.
fn environment(attempt: &ProgramAttempt, uuid: &str, number: u32) -> Vec<(String, String)> {
    let mut all = vec![
        ("CUDA_VISIBLE_DEVICES".to_owned(), uuid.to_owned()),
        ("OOMCTL_ATTEMPT".to_owned(), number.to_string()),
    ];
    if std::env::var_os("PYTHONUNBUFFERED").is_none() {
        all.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
    }
    all.extend(attempt.environment.iter().cloned());
    all
}

/// Takes events until the program has ended and all that it said is read. True when somebody told it to end.
fn follow(
    inbox: &Inbox,
    reader: &mut OutputReader,
    watch: &mut GpuWatch<'_>,
    attempt: &ProgramAttempt,
) -> (ExitStatus, bool) {
    let mut told = false;
    let mut ending = ProgramEnd::default();
    let mut hang = Hang::new(attempt);
    loop {
        if let Some(exit) = ending.over(told, Instant::now()) {
            return (exit, told);
        }
        let event = inbox.next(ending.until(told).unwrap_or(watch.next));
        if let Some(event) = &event {
            ending.heard(event, Instant::now());
        }
        match event {
            Some(ProgramEvent::Output { error, bytes }) => {
                reader.read(error, &bytes);
                hang.heard();
            }
            // The driver may not have freed its memory yet, and it may have ended before the first look.
            Some(ProgramEvent::Exited(_)) => watch.look(),
            Some(ProgramEvent::Signal(number)) => {
                told |= Ears::ends(number);
                watch.program.signal(number);
            }
            Some(ProgramEvent::Said | ProgramEvent::Closed | ProgramEvent::Freed) | None => {}
        }
        if !ending.has_exited() && Instant::now() >= watch.next {
            watch.look();
            if let Some(signal) = hang.due(reader) {
                watch.program.signal(signal);
            }
        }
    }
}

/// Ends what a dead program left running: it holds memory that the next attempt needs.
fn end_what_is_left(program: RunningProgram, inbox: &Inbox) {
    program.signal(signal_hook::consts::SIGTERM);
    let end = Instant::now() + LEFT_PATIENCE;
    while program.leaves_something() && Instant::now() < end {
        let _ = inbox.next(Instant::now() + LEFT_PAUSE);
    }
    program.kill();
}

/// A program that has died of memory in one of its processes, and whose others wait for it in vain.
struct Hang {
    grace: Duration,
    heard: Instant,
    ended: bool,
}

impl Hang {
    fn new(attempt: &ProgramAttempt) -> Self {
        Self {
            grace: Duration::from_secs(attempt.hang_grace_s),
            heard: Instant::now(),
            ended: false,
        }
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// The signal that is due: first the polite one, after as long again the deadly one.
    fn due(&mut self, reader: &OutputReader) -> Option<i32> {
        if self.heard.elapsed() < self.grace || !reader.is_dead_of_memory() {
            return None;
        }
        self.heard = Instant::now();
        let politely = !std::mem::replace(&mut self.ended, true);
        Some(if politely {
            signal_hook::consts::SIGTERM
        } else {
            signal_hook::consts::SIGKILL
        })
    }
}

/// Looks at the GPU now and then.
struct GpuWatch<'a> {
    program: RunningProgram,
    cards: Option<Cards<'a>>,
    gpu: Option<&'a mut super::GpuUsed>,
    next: Instant,
    pause: Duration,
}

impl GpuWatch<'_> {
    fn look(&mut self) {
        self.pause = (self.pause * 2).min(LOOK);
        self.next = Instant::now() + self.pause;
        let (Some(cards), Some(gpu)) = (&mut self.cards, &mut self.gpu) else {
            return;
        };
        let root = self.program.pid();
        let ours = |pid: u32| i32::try_from(pid).is_ok_and(|pid| is_below(pid, root));
        let Some(reading) = cards.reading(&gpu.uuid, ours) else {
            return;
        };
        gpu.peak_bytes = gpu.peak_bytes.max(Some(reading.used_bytes));
        gpu.own_peak_bytes = gpu.own_peak_bytes.max(reading.own_bytes);
    }
}

/// Reads what the program prints.
struct OutputReader {
    scanner: Scanner,
    sources: [SourceId; 2],
    offsets: [u64; 2],
    overlaps: [Overlap; 2],
    figures: AttemptFigures,
}

impl OutputReader {
    fn new(job: &LaunchJob<'_>) -> Self {
        let preset = job.launch.preset();
        let progress: Vec<ProgressPattern> = preset
            .progress
            .iter()
            .filter_map(|p| ProgressPattern::new(p).ok())
            .collect();
        let figures = preset.measures.iter();
        let figures = figures.filter_map(|m| FigurePattern::new(m).ok());
        let mut scanner = Scanner::new(&progress).knowing_bugs(bugs, active_here());
        let sources = [scanner.source("stdout"), scanner.source("stderr")];
        Self {
            scanner,
            sources,
            offsets: [0; 2],
            overlaps: [Overlap::default(), Overlap::default()],
            figures: AttemptFigures::new(figures.collect()),
        }
    }

    fn read(&mut self, error: bool, bytes: &[u8]) {
        let which = usize::from(error);
        self.scanner
            .feed(self.sources[which], self.offsets[which], bytes);
        self.offsets[which] += bytes.len() as u64;
        self.figures.feed(&mut self.overlaps[which], bytes);
    }

    fn is_dead_of_memory(&self) -> bool {
        let incident = self.scanner.digest().incident;
        incident.is_some_and(|i| i.fatal && i.class != Class::NotOom)
    }

    fn verdict(mut self, exit: ExitStatus) -> (Incident, Vec<Figure>) {
        for source in self.sources {
            self.scanner.finish_source(source);
        }
        for overlap in &mut self.overlaps {
            // A figure that ends with the output has no character behind it.
            self.figures.feed(overlap, b"\n");
        }
        let success = exit == ExitStatus::default();
        let state = if success {
            JobState::Completed
        } else {
            JobState::Failed
        };
        let mut status = JobStatus::bare(JobId("run".to_owned()), state);
        status.exit = Some(exit);
        (self.scanner.verdict(Some(&status)), self.figures.peaks())
    }
}
