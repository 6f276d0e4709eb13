//! One scheduler command, run to its end or to its deadline: argv only, an environment of our
//! choice, bounded output. Nothing here knows what the words of the output mean.

use std::ffi::{OsStr, OsString};
use std::io::{PipeReader, PipeWriter, Read, pipe};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use crate::io::words::{self, PipeRead};

/// Bytes kept of standard output; the rest is read and dropped, and the answer marked as cut.
/// 20,000 jobs (a large `MaxJobCount`) at 300 bytes a line are 6 MB.
pub const MAX_STDOUT_BYTES: usize = 16 << 20;
/// Bytes kept of standard error.
pub const MAX_STDERR_BYTES: usize = 64 << 10;

/// Variables of Slurm's own that a caller may have set and that change what its commands answer
/// (`SQUEUE_STATES` empties a list, `SBATCH_PARTITION` beats the script).
const SLURM_PREFIXES: [&str; 8] = [
    "SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SRUN_", "SALLOC_",
];

/// Where scheduler commands are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchPath {
    /// Exactly this folder.
    Folder(PathBuf),
    /// The folders of a `PATH` value, in its order.
    Path(OsString),
}

impl SearchPath {
    /// The absolute path of `program`, when there is an executable file of that name.
    pub fn locate(&self, program: &str) -> Option<PathBuf> {
        match self {
            Self::Folder(folder) => executable(folder, program),
            Self::Path(path) => std::env::split_paths(path)
                .filter(|folder| folder.is_absolute())
                .find_map(|folder| executable(&folder, program)),
        }
    }

    /// Runs a program that is looked for there.
    pub(super) fn run(
        &self,
        program: &str,
        arguments: &[String],
        environment: Vec<(OsString, OsString)>,
        deadline: Duration,
        folder: Option<&Path>,
    ) -> CommandOutput {
        let Some(located) = self.locate(program) else {
            let absent = format!("{program} is not on PATH");
            return CommandOutput::silent(CommandEnd::NotStarted(absent));
        };
        let call = CommandCall {
            program: located,
            arguments: arguments.iter().map(Into::into).collect(),
            environment,
            folder: folder.map(Into::into),
            deadline,
        };
        #[cfg(test)]
        if let Some(answer) = crate::io::trial::with(|t| t.call(&call)) {
            return answer;
        }
        run(&call)
    }
}

fn executable(folder: &Path, program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(program);
    let found = std::fs::metadata(&path).ok()?;
    (found.is_file() && found.permissions().mode() & 0o111 != 0).then_some(path)
}

/// One call of a program.
#[derive(Debug, Clone)]
pub struct CommandCall {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory; ours when `None`.
    pub folder: Option<PathBuf>,
    /// After this long the program and its process group are killed.
    pub deadline: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEnd {
    /// The program ended with this exit code.
    Exited(i32),
    /// The program died of this signal.
    Killed(i32),
    /// The deadline passed first; the program was killed.
    TimedOut,
    /// The program could not be started.
    NotStarted(String),
}

/// What a call brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
    pub end: CommandEnd,
    /// Standard output, bytes that are no UTF-8 replaced.
    pub stdout: String,
    /// Standard error, the same.
    pub stderr: String,
    /// True when more standard output came than is kept.
    pub cut: bool,
}

impl CommandOutput {
    /// An end without a word.
    pub fn silent(end: CommandEnd) -> Self {
        Self {
            end,
            stdout: String::new(),
            stderr: String::new(),
            cut: false,
        }
    }

    /// True for exit code 0 and a complete standard output.
    pub fn is_clean(&self) -> bool {
        self.end == CommandEnd::Exited(0) && !self.cut
    }

    /// How it ended, with the last line of standard error, for a message.
    pub fn describe(&self) -> String {
        let end = match &self.end {
            CommandEnd::Exited(0) if self.cut => "more output than is read".to_owned(),
            CommandEnd::Exited(code) => format!("exit code {code}"),
            CommandEnd::Killed(signal) => format!("killed by signal {signal}"),
            CommandEnd::TimedOut => "no answer before the deadline".to_owned(),
            CommandEnd::NotStarted(error) => format!("could not be started: {error}"),
        };
        match self
            .stderr
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
        {
            Some(line) => format!("{end}: {}", line.trim()),
            None => end,
        }
    }
}

/// `inherited` without the variables that change what Slurm's commands answer. `SLURM_CONF`, which
/// says where the cluster is, stays.
pub fn without_slurm_variables(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    inherited
        .into_iter()
        .filter(|(name, _)| !changes_answers(name))
        .collect()
}

/// True for a variable that changes what Slurm's commands do.
pub fn changes_answers(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name != "SLURM_CONF" && SLURM_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Runs a call. Standard input is empty. The call has a process group of its own, so that the
/// deadline also ends what a site's wrapper script started.
pub fn run(call: &CommandCall) -> CommandOutput {
    run_with(call, Stdio::null())
}

/// The same, with something on standard input.
pub fn run_with(call: &CommandCall, input: Stdio) -> CommandOutput {
    let mut command = Command::new(&call.program);
    command
        .args(&call.arguments)
        .env_clear()
        .envs(call.environment.iter().map(|(name, value)| (name, value)))
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(folder) = &call.folder {
        command.current_dir(folder);
    }
    let started = pipe().and_then(|life| Ok((command.spawn()?, life)));
    match started {
        Ok((child, life)) => attend(child, call.deadline, life),
        Err(error) => CommandOutput::silent(CommandEnd::NotStarted(format!(
            "{}: {error}",
            call.program.display()
        ))),
    }
}

/// What came from one of the two pipes.
struct PipeOutput {
    error: bool,
    words: PipeRead,
}

/// What has been kept so far of both pipes.
#[derive(Default)]
struct CapturedOutput {
    out: Vec<u8>,
    err: Vec<u8>,
    cut: bool,
    /// Pipes of which all came that the program itself wrote.
    said: u8,
}

impl CapturedOutput {
    fn add(&mut self, heard: PipeOutput) {
        let PipeRead::Piece(bytes) = heard.words else {
            self.said += 1;
            return;
        };
        let (kept, limit) = match heard.error {
            false => (&mut self.out, MAX_STDOUT_BYTES),
            true => (&mut self.err, MAX_STDERR_BYTES),
        };
        self.cut |= !heard.error && kept.len() + bytes.len() > limit;
        let room = limit.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
    }
}

/// Pieces in flight between a reader and the caller.
const MAX_PIECES: usize = 64;
/// How long output is waited for that comes after all that the program itself wrote, from a child that outlives
/// it (`tee` behind a site's wrapper script).
const LAST_WORDS: Duration = Duration::from_millis(300);

fn attend(
    mut child: Child,
    deadline: Duration,
    (life, alive): (PipeReader, PipeWriter),
) -> CommandOutput {
    let started = Instant::now();
    let (sender, pieces) = mpsc::sync_channel(MAX_PIECES);
    let life = Arc::new(life);
    read_pipe(child.stdout.take(), false, &life, sender.clone());
    read_pipe(child.stderr.take(), true, &life, sender);
    let mut kept = CapturedOutput::default();
    let end = loop {
        match child.try_wait() {
            Ok(Some(status)) => break end_of(status),
            Ok(None) if started.elapsed() >= deadline => break kill(&mut child),
            Ok(None) => receive(&pieces, &mut kept, step(started.elapsed())),
            Err(error) => break CommandEnd::NotStarted(error.to_string()),
        }
    };
    drop(alive);
    hear_out(&pieces, &mut kept);
    CommandOutput {
        end,
        stdout: String::from_utf8_lossy(&kept.out).into_owned(),
        stderr: String::from_utf8_lossy(&kept.err).into_owned(),
        cut: kept.cut,
    }
}

/// Takes what a program that has ended wrote: all of it, however long a busy machine needs.
fn hear_out(pieces: &Receiver<PipeOutput>, kept: &mut CapturedOutput) {
    while kept.said < 2
        && let Ok(heard) = pieces.recv()
    {
        kept.add(heard);
    }
    let said = Instant::now();
    while let Some(left) = LAST_WORDS.checked_sub(said.elapsed())
        && let Ok(heard) = pieces.recv_timeout(left)
    {
        kept.add(heard);
    }
}

/// Time between two looks at the program: short for one that answers in milliseconds, long for one
/// that waits for a slow controller.
fn step(elapsed: Duration) -> Duration {
    (elapsed / 8).clamp(Duration::from_millis(1), Duration::from_millis(50))
}

fn receive(pieces: &Receiver<PipeOutput>, kept: &mut CapturedOutput, wait: Duration) {
    match pieces.recv_timeout(wait) {
        Ok(heard) => kept.add(heard),
        Err(RecvTimeoutError::Timeout) => {}
        // Both pipes are closed, the program still runs.
        Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
    }
}

fn read_pipe(
    pipe: Option<impl Read + AsFd + Send + 'static>,
    error: bool,
    life: &Arc<PipeReader>,
    sender: SyncSender<PipeOutput>,
) {
    let Some(pipe) = pipe else { return };
    let life = Arc::clone(life);
    std::thread::spawn(move || {
        words::read(pipe, life, |words| {
            sender.send(PipeOutput { error, words }).is_ok()
        });
    });
}

fn kill(child: &mut Child) -> CommandEnd {
    // Not waited for yet, so the number still belongs to this child.
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    CommandEnd::TimedOut
}

fn end_of(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Exited(code),
        (None, signal) => CommandEnd::Killed(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
