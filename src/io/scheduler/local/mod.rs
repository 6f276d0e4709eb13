//! Jobs without a scheduler: each is a detached session under a small keeper process, with the same
//! log files, states and exit codes as Slurm's, and outlives the command that submitted it.
//!
//! Rule: the records on disk are the truth (`records`), a process is believed only when its number,
//! its start time and the machine's boot fit (`process`).

mod keeper;
pub mod process;
pub mod records;

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;

use super::{FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer};
use crate::io::files::is_full;
pub use keeper::keep;
use oomctl_base::job::{ExitStatus, JobRef, JobState, JobStatus, Token};
use process::{Identity, ProcessState, host_name, left_behind};
use records::{Cancel, JobFolder, LocalJob, LocalJobEnd, Started, numbers};

/// The first argument that makes oomctl a keeper; the second is the job's folder.
pub const KEEP_ARGUMENT: &str = "__keep-local-job";
/// The variable that tells a job its id.
pub const JOB_ID: &str = "OOMCTL_JOB_ID";
/// What a keeper prints once the job is its own.
const READY: &[u8] = b"ready\n";
/// How long a submission waits for that.
const READY_DEADLINE: Duration = Duration::from_secs(20);
/// A job whose keeper has not shown itself after this long has none.
const KEEPER_DEADLINE: SignedDuration = SignedDuration::from_secs(60);
/// Seconds from SIGTERM to SIGKILL (Slurm's `KillWait` is 30 by default).
const GRACE_S: u64 = 10;

/// Jobs of this machine.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    keeper: io::Result<PathBuf>,
    grace_s: u64,
    /// Keepers that this process started: to be waited for, lest they stay as zombies.
    children: Vec<Child>,
}

impl Local {
    /// Jobs below `<project>/.oomctl/local`.
    pub fn new(project: &Path) -> Self {
        Self {
            root: project.join(".oomctl").join("local"),
            keeper: std::env::current_exe(),
            grace_s: GRACE_S,
            children: Vec::new(),
        }
    }

    /// The same with another program as keeper; it must call [`keep`] for [`KEEP_ARGUMENT`].
    pub fn kept_by(mut self, program: impl Into<PathBuf>) -> Self {
        self.keeper = Ok(program.into());
        self
    }

    /// The same with another time from SIGTERM to SIGKILL, in seconds.
    pub fn grace_s(mut self, seconds: u64) -> Self {
        self.grace_s = seconds;
        self
    }

    fn try_submit(
        &mut self,
        submission: &JobSubmission,
        now: Timestamp,
    ) -> io::Result<SubmitAnswer> {
        let (id, folder) = JobFolder::create(&self.root)?;
        let job = LocalJob {
            id: id.clone(),
            token: submission.token.clone(),
            submitted: now,
            script: submission.script.clone(),
            arguments: submission.arguments.clone(),
            workdir: submission.workdir.clone(),
            stdout: submission.stdout.clone(),
            stderr: submission.stderr.clone(),
            time_limit_s: submission.time_limit_s,
            grace_s: self.grace_s,
            host: host_name(),
        };
        let written = folder.write("job.json", &job);
        let keeper = written.and_then(|()| self.start_keeper(&folder, submission));
        match keeper {
            Ok(ready) if ready || folder.has("started") => {
                Ok(SubmitAnswer::Accepted { id, cluster: None })
            }
            Ok(_) => Ok(SubmitAnswer::Unclear {
                detail: "the job's keeper does not answer".to_owned(),
            }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder.0);
                Err(error)
            }
        }
    }

    /// Starts the keeper with the job's environment; true once it said that the job is its own.
    fn start_keeper(&mut self, folder: &JobFolder, submission: &JobSubmission) -> io::Result<bool> {
        let program = self
            .keeper
            .as_ref()
            .map_err(|error| io::Error::other(error.to_string()))?;
        let mut keeper = Command::new(program)
            .arg(KEEP_ARGUMENT)
            .arg(&folder.0)
            .env_clear()
            .envs(&submission.environment)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = keeper.stdout.take();
        self.children.push(keeper);
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            let read = pipe.map(|pipe| BufReader::new(pipe).read_until(b'\n', &mut line));
            let _ = sender.send(matches!(read, Some(Ok(_))) && line == READY);
        });
        Ok(receiver.recv_timeout(READY_DEADLINE).unwrap_or(false))
    }

    fn reap(&mut self) {
        self.children
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

/// What can be known before anything is started.
fn check(submission: &JobSubmission) -> Result<(), String> {
    for path in [
        &submission.script,
        &submission.workdir,
        &submission.stdout,
        &submission.stderr,
    ] {
        if !path.is_absolute() {
            return Err(format!("{} is no absolute path", path.display()));
        }
    }
    if !submission.workdir.is_dir() {
        return Err(format!(
            "the working directory {} does not exist",
            submission.workdir.display()
        ));
    }
    if !submission.script.is_file() {
        return Err(format!(
            "the script {} does not exist",
            submission.script.display()
        ));
    }
    for log in [&submission.stdout, &submission.stderr] {
        if !log.parent().is_some_and(Path::is_dir) {
            return Err(format!("the folder of {} does not exist", log.display()));
        }
    }
    Ok(())
}

fn unreadable(folder: &JobFolder, error: &io::Error) -> NoAnswer {
    NoAnswer::of("local", format!("{}: {error}", folder.0.display()))
}

/// State of one job; a job whose keeper is gone without a word is given its end here.
fn look(folder: &JobFolder, job: &LocalJob, now: Timestamp) -> io::Result<JobStatus> {
    let started: Option<Started> = folder.read("started")?;
    let tell =
        |exit: Option<&LocalJobEnd>, state| records::status(job, started.as_ref(), exit, state);
    if let Some(exit) = folder.read::<LocalJobEnd>("exit")? {
        return Ok(tell(Some(&exit), exit.state.clone()));
    }
    let life = match &started {
        Some(started) => started.keeper.life(),
        None if job.host != host_name() => ProcessState::Elsewhere,
        None if now.duration_since(job.submitted) < KEEPER_DEADLINE => {
            return Ok(tell(None, JobState::Pending));
        }
        None => ProcessState::Gone,
    };
    match life {
        ProcessState::Alive if folder.has("ending") || folder.has("cancel") => {
            Ok(tell(None, JobState::Completing))
        }
        ProcessState::Alive => Ok(tell(None, JobState::Running)),
        ProcessState::Elsewhere => {
            let mut status = tell(None, JobState::Unknown("OTHER_HOST".to_owned()));
            status.reason = Some(format!("runs on {}, ask there", job.host));
            Ok(status)
        }
        ProcessState::Gone => bury(folder, job, started.as_ref(), now),
    }
}

/// Ends what a dead keeper left behind and records the end, unless the keeper did at the last
/// moment. A job that no keeper came for is claimed first: one that comes late finds it taken.
fn bury(
    folder: &JobFolder,
    job: &LocalJob,
    started: Option<&Started>,
    now: Timestamp,
) -> io::Result<JobStatus> {
    match started {
        Some(started) => {
            let mark = format!("{JOB_ID}={}", job.id);
            let left = left_behind(&started.keeper, &mark);
            left.into_iter()
                .for_each(|pid| process::signal(pid, Signal::KILL));
        }
        None if !folder.write_first(
            "started",
            &Started {
                keeper: Identity::nobody(),
                at: now,
            },
        )? =>
        {
            return Ok(records::status(job, None, None, JobState::Pending));
        }
        None => {}
    }
    let cancel: Option<Cancel> = folder.read("cancel")?;
    let exit = LocalJobEnd {
        state: if cancel.is_some() {
            JobState::Cancelled
        } else {
            JobState::NodeFail
        },
        exit: ExitStatus::default(),
        at: now,
        reason: Some("KeeperGone".to_owned()),
        cancelled_by: cancel.map(|cancel| cancel.by),
    };
    folder.write_first("exit", &exit)?;
    let exit: LocalJobEnd = folder.read("exit")?.unwrap_or(exit);
    Ok(records::status(
        job,
        started,
        Some(&exit),
        exit.state.clone(),
    ))
}

impl Scheduler for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn submit(&mut self, submission: &JobSubmission, now: Timestamp) -> SubmitAnswer {
        self.reap();
        if let Err(reason) = check(submission) {
            return SubmitAnswer::refused(reason, None);
        }
        self.try_submit(submission, now)
            .unwrap_or_else(|error| SubmitAnswer::Refused {
                reason: format!("the job could not be started: {error}"),
                hint: Some(format!("{} must be writable", self.root.display())),
                passing: is_full(&error),
            })
    }

    fn find(&mut self, tokens: &[Token], since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        self.reap();
        let root = JobFolder(self.root.clone());
        let mut found = Vec::new();
        for number in numbers(&self.root).map_err(|error| unreadable(&root, &error))? {
            let folder = JobFolder(self.root.join(number.to_string()));
            let job: Option<LocalJob> = match folder.read("job.json") {
                // A job of somebody else in a shared project.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
                read => read.map_err(|error| unreadable(&folder, &error))?,
            };
            let Some(job) = job.filter(|job| tokens.contains(&job.token)) else {
                continue;
            };
            let now = since.max(job.submitted);
            found.push(FoundJob {
                token: job.token.clone(),
                status: look(&folder, &job, now).map_err(|error| unreadable(&folder, &error))?,
                cluster: None,
                submitted: Some(job.submitted),
                refused_trace: false,
            });
        }
        Ok(found)
    }

    fn poll(&mut self, jobs: &[JobRef], now: Timestamp) -> Result<Poll, NoAnswer> {
        self.reap();
        let mut poll = Poll::default();
        for wanted in jobs {
            let folder = JobFolder::of(&self.root, &wanted.id);
            let job = match &folder {
                Some(folder) => folder
                    .read::<LocalJob>("job.json")
                    .map_err(|error| unreadable(folder, &error))?,
                None => None,
            };
            match (folder, job.filter(|job| job.is(wanted))) {
                (Some(folder), Some(job)) => {
                    poll.jobs.push(
                        look(&folder, &job, now).map_err(|error| unreadable(&folder, &error))?,
                    );
                }
                _ => poll.vanished.push(wanted.id.clone()),
            }
        }
        Ok(poll)
    }

    fn cancel(&mut self, wanted: &JobRef) -> Result<(), NoAnswer> {
        self.reap();
        let Some(folder) = JobFolder::of(&self.root, &wanted.id) else {
            return Ok(());
        };
        let failed = |error: io::Error| unreadable(&folder, &error);
        let job: Option<LocalJob> = folder.read("job.json").map_err(failed)?;
        let Some(job) = job.filter(|job| job.is(wanted) && !folder.has("exit")) else {
            return Ok(());
        };
        let by = rustix::process::getuid().as_raw().to_string();
        folder
            .write_first("cancel", &Cancel { by })
            .map_err(failed)?;
        let started: Option<Started> = folder.read("started").map_err(failed)?;
        let Some(Started { keeper, .. }) = started else {
            // Not there yet: it sees the wish when it comes.
            return Ok(());
        };
        match keeper.life() {
            ProcessState::Alive => process::signal(keeper.pid, Signal::TERM),
            ProcessState::Elsewhere => {
                let detail = format!("the job runs on {}: cancel it there", job.host);
                return Err(NoAnswer::of("local", detail));
            }
            ProcessState::Gone => {}
        }
        Ok(())
    }
}
