//! Programs in the foreground of this process, as a scheduler: submitting one is to find it a GPU and to start it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};

use super::minder::{Minder, ProgramState};
use super::place::{ClaimedGpu, LaunchPlace, PlaceSearch};
use super::{Launch, LaunchError, LaunchNews, ProgramResult, locked};
use crate::core::launch::GpuWish;
use crate::drive::sources::Wake;
use crate::io::disk::beside;
use crate::io::program::{Inbox, Outputs, RunningProgram};
use crate::io::scheduler::local::process::{Identity, ProcessState, host_name};
use crate::io::scheduler::{FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer};
use oomctl_base::job::{JobId, JobRef, JobState, JobStatus, RunMachine, Token};

/// How long what a dead program left running may take to end before the next attempt.
const LEFT_PATIENCE: Duration = Duration::from_secs(5);
const LEFT_PAUSE: Duration = Duration::from_millis(20);
/// What to do where there is no GPU.
const NO_GPU: &str = "`oomctl gpus` shows what GPUs this machine has and who holds them; --allow-cpu lets it run without";
/// What to do with the run of a process that is gone.
const GONE: &str = "start it with `oomctl run` again";

/// Programs in the foreground of this process.
pub struct Foreground {
    /// None in a process that started no program: it sees whether one lives that another process started, and can end it.
    here: Option<ProgramStarter>,
}

struct ProgramStarter {
    launch: Launch,
    /// What was found for the first attempt, until it starts.
    first: Option<LaunchPlace>,
    search: PlaceSearch,
    wake: Sender<Wake>,
    result: Arc<Mutex<ProgramResult>>,
    last: Option<StartedProgram>,
}

/// The program that was started last.
struct StartedProgram {
    id: JobId,
    program: RunningProgram,
    at: Timestamp,
    machine: RunMachine,
    state: Arc<Mutex<ProgramState>>,
    cancelled: bool,
}

impl Foreground {
    pub(super) fn new(
        mut launch: Launch,
        wake: Sender<Wake>,
        result: Arc<Mutex<ProgramResult>>,
    ) -> Self {
        let first = std::mem::replace(&mut launch.first, LaunchPlace::Cpu);
        // A signal ends the pause of a search.
        let woken = wake.clone();
        launch.ears.add(move |_| woken.send(Wake::Jobs).is_ok());
        let here = ProgramStarter {
            launch,
            first: Some(first),
            search: PlaceSearch::default(),
            wake,
            result,
            last: None,
        };
        Self { here: Some(here) }
    }

    /// In a process that starts no program.
    pub fn absent() -> Self {
        Self { here: None }
    }
}

impl ProgramStarter {
    /// Looks for a place for the attempt and starts the program there.
    fn submit(&mut self, submission: &JobSubmission, wish: &GpuWish) -> SubmitAnswer {
        if let Some(last) = self.last.take() {
            last.end_what_is_left();
        }
        let place = match self.first.take() {
            Some(place) => Ok(place),
            None => {
                let (launch, mut listener) = (&self.launch, locked(&*self.launch.listener));
                let machine = &launch.machine;
                machine.look(&mut self.search, wish, &launch.ears, &mut *listener)
            }
        };
        let (result, reason, hint) = match place {
            Ok(LaunchPlace::Later(pause)) => return SubmitAnswer::NotYet { pause },
            Ok(LaunchPlace::Signal(number)) => return self.withdrawn(number),
            Ok(LaunchPlace::Nowhere { why, exit }) => {
                locked(&*self.launch.listener).news(&LaunchNews::NoGpu { why: &why });
                let hint = Some(NO_GPU.to_owned());
                let result = ProgramResult::NoGpu {
                    why: why.clone(),
                    exit,
                };
                (result, why, hint)
            }
            Ok(LaunchPlace::Cpu) => match self.start(submission, None) {
                Ok(answer) => return answer,
                Err(error) => not_started(error),
            },
            Ok(LaunchPlace::Gpu(gpu)) => match self.start(submission, Some(gpu)) {
                Ok(answer) => return answer,
                Err(error) => not_started(error),
            },
            Err(error) => not_started(error),
        };
        self.search = PlaceSearch::default();
        let passing = matches!(result, ProgramResult::NoGpu { .. });
        *locked(&self.result) = result;
        SubmitAnswer::Refused {
            reason,
            hint,
            passing,
        }
    }

    /// A signal came while no program ran.
    fn withdrawn(&self, signal: i32) -> SubmitAnswer {
        *locked(&self.result) = ProgramResult::Signalled(signal);
        SubmitAnswer::Withdrawn {
            by: format!("signal {signal}"),
        }
    }

    fn start(
        &mut self,
        submission: &JobSubmission,
        gpu: Option<ClaimedGpu>,
    ) -> Result<SubmitAnswer, LaunchError> {
        let command = &submission.arguments;
        let failed = |source| LaunchError::Start {
            program: command.first().cloned().unwrap_or_default(),
            source,
        };
        let outputs = with_logs((self.launch.outputs)(), submission).map_err(failed)?;
        // A signal that came while a GPU was looked for must not be lost: `ending` is set before anybody is told, so
        // from here on it is seen or heard.
        let inbox = Inbox::default();
        self.launch.ears.add(inbox.listener());
        if let Some(signal) = self.launch.ears.ending() {
            return Ok(self.withdrawn(signal));
        }
        let number = submission.environment.get("OOMCTL_ATTEMPT");
        let used = gpu.as_ref().map(|held| &held.gpu);
        locked(&*self.launch.listener).news(&LaunchNews::Started {
            number: number.map_or("1", String::as_str),
            command,
            gpu: used,
        });
        let uuid = used.map_or("", |gpu| gpu.uuid.as_str());
        let environment = environment(submission, uuid);
        let begin = || RunningProgram::start(command, &environment, outputs, &inbox);
        let program = match &gpu {
            Some(held) => held.claim.shared_with(begin),
            None => begin(),
        };
        let program = program.map_err(failed)?;
        *locked(&self.result) = ProgramResult::Runs;
        let state = Arc::new(Mutex::new(ProgramState::default()));
        let minder = Minder {
            program,
            inbox,
            ears: self.launch.ears.clone(),
            state: Arc::clone(&state),
            wake: self.wake.clone(),
        };
        let machine = RunMachine {
            gpu: used.cloned(),
            capacities: self.launch.machine.capacities(),
        };
        let started = Identity::of(program.pid());
        let id = JobId(format!("{}.{}", started.pid, started.start));
        let (gpus, uuid) = (Arc::clone(&self.launch.machine), uuid.to_owned());
        let folder = submission
            .script
            .parent()
            .unwrap_or(Path::new(""))
            .to_owned();
        std::thread::spawn(move || {
            let uuid = Some(uuid.as_str()).filter(|uuid| !uuid.is_empty());
            minder.stay(&gpus, uuid, &folder);
        });
        self.search = PlaceSearch::after(gpu);
        self.last = Some(StartedProgram {
            id: id.clone(),
            program,
            at: Timestamp::now(),
            machine,
            state,
            cancelled: false,
        });
        Ok(SubmitAnswer::Accepted {
            id,
            cluster: Some(host_name()),
        })
    }
}

fn not_started(error: LaunchError) -> (ProgramResult, String, Option<String>) {
    let reason = error.to_string();
    (ProgramResult::NotStarted(error), reason, None)
}

/// What the program is told by variables: its GPU by UUID, and to print at once what it prints.
fn environment(submission: &JobSubmission, uuid: &str) -> Vec<(String, String)> {
    let mut all = vec![("CUDA_VISIBLE_DEVICES".to_owned(), uuid.to_owned())];
    if std::env::var_os("PYTHONUNBUFFERED").is_none() {
        all.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
    }
    let given = submission.environment.iter();
    all.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    all
}

/// Writes what comes into a log, and passes it on.
struct Tee {
    log: File,
    to: Box<dyn Write + Send>,
}

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full disk is no reason to keep the program from its output.
        let _ = self.log.write_all(bytes);
        self.to.write_all(bytes).map(|()| bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn with_logs(outputs: Outputs, submission: &JobSubmission) -> io::Result<Outputs> {
    let tee = |path: &Path, to| -> io::Result<Box<dyn Write + Send>> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(beside(path, 0o600));
        let log = options.open(path)?;
        Ok(Box::new(Tee { log, to }))
    };
    Ok(Outputs {
        out: tee(&submission.stdout, outputs.out)?,
        err: tee(&submission.stderr, outputs.err)?,
    })
}

impl StartedProgram {
    fn status(&self) -> JobStatus {
        let state = locked(&self.state);
        let (exit, ended) = (state.ended.map(|e| e.0), state.ended.map(|e| e.1));
        let word = match exit {
            None => JobState::Running,
            Some(exit) if !exit.failed() => JobState::Completed,
            Some(_) if state.told => JobState::Cancelled,
            Some(_) => JobState::Failed,
        };
        JobStatus {
            nodes: vec![host_name()],
            started: Some(self.at),
            exit,
            ended,
            machine: Some(Box::new(self.machine.clone())),
            ..JobStatus::bare(self.id.clone(), word)
        }
    }

    /// Asks the program to end; who asks again means it.
    fn cancel(&mut self) {
        let again = std::mem::replace(&mut self.cancelled, true);
        locked(&self.state).told = true;
        self.program.signal(match again {
            false => signal_hook::consts::SIGTERM,
            true => signal_hook::consts::SIGKILL,
        });
    }

    /// Ends what a dead program left running: it holds memory that the next attempt needs.
    fn end_what_is_left(&self) {
        self.program.signal(signal_hook::consts::SIGTERM);
        let end = Instant::now() + LEFT_PATIENCE;
        while self.program.leaves_something() && Instant::now() < end {
            std::thread::sleep(LEFT_PAUSE);
        }
        self.program.kill();
    }
}

/// The process that a job is: its number, and when it was started.
fn of_job(job: &JobRef) -> Option<Identity> {
    let (pid, start) = job.id.0.split_once('.')?;
    Some(Identity::started(pid.parse().ok()?, start.parse().ok()?))
}

fn is_here(job: &JobRef) -> bool {
    job.cluster.as_ref().is_none_or(|host| *host == host_name())
}

impl Scheduler for Foreground {
    fn name(&self) -> &'static str {
        "program"
    }

    fn submit(&mut self, submission: &JobSubmission, _: Timestamp) -> SubmitAnswer {
        match (&mut self.here, &submission.gpu) {
            (Some(here), Some(wish)) => here.submit(submission, wish),
            _ => SubmitAnswer::refused(
                "the `oomctl run` that had started this program is gone",
                Some(GONE),
            ),
        }
    }

    fn find(&mut self, _: &[Token], _: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        Ok(Vec::new())
    }

    fn poll(&mut self, jobs: &[JobRef], _: Timestamp) -> Result<Poll, NoAnswer> {
        let mut poll = Poll::default();
        let last = self.here.as_ref().and_then(|here| here.last.as_ref());
        for job in jobs {
            match last.filter(|last| last.id == job.id) {
                Some(last) => {
                    let status = last.status();
                    if let (Some(here), Some(exit)) = (&self.here, status.exit) {
                        *locked(&here.result) = ProgramResult::Exited(exit);
                    }
                    poll.jobs.push(status);
                }
                // On another machine it may live.
                None if !is_here(job) => {}
                None => match of_job(job).map(|program| program.life()) {
                    Some(ProcessState::Alive) => {
                        let status = JobStatus::bare(job.id.clone(), JobState::Running);
                        poll.jobs.push(status);
                    }
                    _ => poll.vanished.push(job.id.clone()),
                },
            }
        }
        Ok(poll)
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        let last = self.here.as_mut().and_then(|here| here.last.as_mut());
        if let Some(last) = last.filter(|last| last.id == job.id) {
            let ended = locked(&last.state).ended.is_some();
            match ended {
                true => last.end_what_is_left(),
                false => last.cancel(),
            }
            return Ok(());
        }
        if !is_here(job) {
            let host = job.cluster.as_deref().unwrap_or_default();
            return Err(NoAnswer::of(
                "program",
                format!("the program runs on {host}: cancel it there"),
            ));
        }
        let program = of_job(job).filter(|program| program.life() == ProcessState::Alive);
        if let Some(group) = program.and_then(|program| Pid::from_raw(program.pid)) {
            let _ = kill_process_group(group, Signal::TERM);
        }
        Ok(())
    }
}
