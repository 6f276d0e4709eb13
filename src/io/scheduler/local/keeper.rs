//! The small process that owns one local job: starts the script, ends it when its time is up or
//! somebody cancels it, and records how it ended. It is oomctl itself, called again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::process::{Identity, descendants, reap_orphans, signal};
use super::records::{Cancel, JobFolder, LocalJob, LocalJobEnd, Started};
use super::{JOB_ID, READY};
use oomctl_base::job::{ExitStatus, JobState};

/// Slurm's signal number for a job whose logs could not be opened.
const NO_LOG: i32 = 53;
/// How often what is left of a job is killed before it is given up.
const MAX_SWEEPS: usize = 50;
/// Pause between two sweeps.
const SWEEP_PAUSE: Duration = Duration::from_millis(20);
/// Signals in flight to the keeper's loop.
const MAX_SIGNALS: usize = 64;

/// Runs the job in `folder` to its end. The process must have the job's environment already.
pub fn keep(folder: &Path) -> ExitCode {
    // A session of its own: the end of the terminal or of the submitting process is not ours.
    let _ = rustix::process::setsid();
    // Processes of the job that lose their parent become ours, and end with the job.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let folder = JobFolder(folder.to_path_buf());
    match keep_job(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn keep_job(folder: &JobFolder) -> io::Result<()> {
    let missing = || io::Error::other("there is no such job");
    let job: LocalJob = folder.read("job.json")?.ok_or_else(missing)?;
    let signals = listen()?;
    // Whoever makes this file owns the job; a second keeper ends here.
    let started = Started {
        keeper: Identity::own(),
        at: Timestamp::now(),
    };
    folder.write("started", &started)?;
    if folder.has("exit") {
        return Ok(());
    }
    let exit = match begin(&job) {
        Ok(_) if folder.has("cancel") => ended(JobState::Cancelled, None),
        Ok(command) => {
            say_ready();
            run(command, &job, folder, &signals)?
        }
        Err(error) => {
            let exit = ExitStatus::of(0, NO_LOG);
            LocalJobEnd {
                exit,
                ..ended(JobState::Failed, Some(format!("JobLaunchFailure: {error}")))
            }
        }
    };
    sweep();
    folder.write("exit", &signed(exit, folder))
}

/// Tells the submitting process that the job is ours now.
fn say_ready() {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
}

fn ended(state: JobState, reason: Option<String>) -> LocalJobEnd {
    LocalJobEnd {
        state,
        exit: ExitStatus::default(),
        at: Timestamp::now(),
        reason,
        cancelled_by: None,
    }
}

fn signed(mut exit: LocalJobEnd, folder: &JobFolder) -> LocalJobEnd {
    if exit.state == JobState::Cancelled {
        exit.cancelled_by = folder
            .read::<Cancel>("cancel")
            .ok()
            .flatten()
            .map(|cancel| cancel.by);
    }
    exit
}

/// The script as a process to be: logs open, environment inherited, a process group of its own.
fn begin(job: &LocalJob) -> io::Result<Command> {
    let bash = if Path::new("/bin/bash").exists() {
        "/bin/bash"
    } else {
        "bash"
    };
    let mut command = Command::new(bash);
    command
        .arg(&job.script)
        .args(&job.arguments)
        .current_dir(&job.workdir)
        .env(JOB_ID, &job.id.0)
        .stdin(Stdio::null())
        .stdout(append(&job.stdout)?)
        .stderr(append(&job.stderr)?)
        .process_group(0);
    Ok(command)
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Signals as they come, in a channel.
fn listen() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGINT, SIGHUP])?;
    let (sender, receiver) = mpsc::sync_channel(MAX_SIGNALS);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// What ends a script before its time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopCause {
    TimeLimit,
    Cancelled,
    KeeperTerminated,
}

/// An end that was decided, and when the deadly signal follows the polite one.
struct PendingStop {
    cause: StopCause,
    kill_at: Instant,
}

fn run(
    mut command: Command,
    job: &LocalJob,
    folder: &JobFolder,
    signals: &Receiver<i32>,
) -> io::Result<LocalJobEnd> {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Ok(ended(
                JobState::Failed,
                Some(format!("JobLaunchFailure: {error}")),
            ));
        }
    };
    drop(command);
    let limit = job
        .time_limit_s
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut ending: Option<PendingStop> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(verdict(status, ending.map(|ending| ending.cause)));
        }
        let due = ending.as_ref().map_or(limit, |ending| Some(ending.kill_at));
        match next(signals, due) {
            KeeperEvent::Signal(SIGTERM | SIGINT | SIGHUP) if ending.is_none() => {
                let cause = if folder.has("cancel") {
                    StopCause::Cancelled
                } else {
                    StopCause::KeeperTerminated
                };
                ending = Some(end(&child, cause, job, folder));
            }
            KeeperEvent::Signal(_) => reap_orphans(child.id()),
            KeeperEvent::Due if ending.is_none() => {
                ending = Some(end(&child, StopCause::TimeLimit, job, folder));
            }
            KeeperEvent::Due => {
                sweep();
                // Should something survive even this, the next look is a moment later.
                ending
                    .iter_mut()
                    .for_each(|ending| ending.kill_at += Duration::from_secs(1));
            }
        }
    }
}

enum KeeperEvent {
    Signal(i32),
    Due,
}

fn next(signals: &Receiver<i32>, due: Option<Instant>) -> KeeperEvent {
    /// Without a due time, how long one wait lasts.
    const LONG: Duration = Duration::from_secs(3_600);
    let wait = due.map_or(LONG, |due| due.saturating_duration_since(Instant::now()));
    match signals.recv_timeout(wait) {
        Ok(signal) => KeeperEvent::Signal(signal),
        Err(_) if due.is_some_and(|due| due <= Instant::now()) => KeeperEvent::Due,
        Err(_) => KeeperEvent::Signal(0),
    }
}

/// Begins the end: a note for whoever asks, a line in the log, SIGTERM (and SIGCONT, for stopped
/// processes) to the script's process group.
fn end(child: &Child, cause: StopCause, job: &LocalJob, folder: &JobFolder) -> PendingStop {
    let _ = folder.write("ending", &Timestamp::now());
    let why = match cause {
        StopCause::TimeLimit => " DUE TO TIME LIMIT",
        StopCause::Cancelled => "",
        StopCause::KeeperTerminated => " DUE TO THE END OF ITS KEEPER",
    };
    let (id, host, now) = (&job.id, &job.host, Timestamp::now());
    let line = format!("oomctl: error: *** JOB {id} ON {host} CANCELLED AT {now:.0}{why} ***\n");
    let _ = append(&job.stderr).and_then(|mut log| log.write_all(line.as_bytes()));
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, Signal::TERM);
        let _ = rustix::process::kill_process_group(group, Signal::CONT);
    }
    PendingStop {
        cause,
        kill_at: Instant::now() + Duration::from_secs(job.grace_s),
    }
}

/// State and exit code in Slurm's terms: a script that was ended from outside has 0:0.
fn verdict(status: process::ExitStatus, cause: Option<StopCause>) -> LocalJobEnd {
    match cause {
        Some(StopCause::TimeLimit) => ended(JobState::Timeout, Some("TimeLimit".to_owned())),
        Some(StopCause::Cancelled) => ended(JobState::Cancelled, None),
        Some(StopCause::KeeperTerminated) => {
            ended(JobState::NodeFail, Some("KeeperTerminated".to_owned()))
        }
        None if status.success() => ended(JobState::Completed, None),
        None => LocalJobEnd {
            exit: status.into(),
            ..ended(JobState::Failed, Some("NonZeroExitCode".to_owned()))
        },
    }
}

/// Kills whatever the job left running, as Slurm does at the end of a batch script.
fn sweep() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for _ in 0..MAX_SWEEPS {
        let left = descendants(own);
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
        std::thread::sleep(SWEEP_PAUSE);
    }
}
