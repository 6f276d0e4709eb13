//! Logs for people: printed once, or followed.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::{CHUNK, LogGroup, OutputPart, Unread, cannot, meant, nodes, whole_lines};
use crate::cli::runs::Runs;
use crate::view::pager::Pager;
use crate::view::{CommandFailure, print};
use oomctl_base::job::{JobStatus, Stage};
use oomctl_follow::{FollowStart, Followed, Followers, Growth, LookMode};

/// Longest wait between two looks, and between two looks at the ledger.
const WAIT: Duration = Duration::from_secs(1);

/// Which of the files of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stream {
    /// Those that this node alone writes.
    Node(String),
    /// Standard error.
    Err,
    /// Standard output.
    Out,
    /// Both, or the one where both go to, and those of single nodes.
    Both,
}

/// The files of a group. A job of somebody else may write both streams into one.
fn files(group: &LogGroup, stream: &Stream) -> Result<Vec<PathBuf>, CommandFailure> {
    let own = group.files.len() - group.program.len().min(group.files.len());
    Ok(match (stream, &group.files[..own]) {
        (Stream::Node(node), _) => nodes::of_one(group, node)?,
        (Stream::Err, [err, _]) => vec![err.clone()],
        (Stream::Out, [_, out]) => vec![out.clone()],
        (Stream::Both, _) => {
            let all = &group.files;
            let own = nodes::files(group).into_iter().map(|(_, path)| path);
            all.iter().cloned().chain(own).collect()
        }
        (_, all) => all.to_vec(),
    })
}

fn waits(status: &JobStatus) -> bool {
    status.state.stage() == Stage::Waiting
}

/// Prints where they are.
pub fn paths(group: &LogGroup, stream: &Stream) -> Result<(), CommandFailure> {
    let paths = files(group, stream)?;
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    print::data(&paths.join("\n"))
}

/// Prints what they hold, each below its name where there are several, as `tail` does.
pub fn print(group: &LogGroup, stream: &Stream) -> Result<(), CommandFailure> {
    let files: Vec<PathBuf> = files(group, stream)?
        .into_iter()
        .filter(|f| holds_text(f))
        .collect();
    if files.is_empty() {
        let elsewhere = *stream == Stream::Err && group.files.iter().any(|f| holds_text(f));
        let why = match elsewhere {
            true => {
                "the log of standard error is empty. Without --error Slurm writes it into that of standard output (--out)"
            }
            false if group.status.as_ref().is_some_and(waits) => "its job has not started",
            false => "the log is empty",
        };
        print::talk(&format!("{}: {why}", group.name()));
        return Ok(());
    }
    let mut pager = Pager::open();
    for file in &files {
        let head = format!("==> {} <==\n", file.display());
        let goes_on = (files.len() == 1 || pager.write(&head)?)
            && pour(file, group.of_program(file), &mut pager).map_err(|e| match e {
                Poured::Unread(e) => cannot(file, &Unread::Failed(e)),
                Poured::Unwritten(failure) => failure,
            })?;
        if !goes_on {
            break;
        }
    }
    pager.close();
    Ok(())
}

fn holds_text(file: &Path) -> bool {
    !matches!(file.metadata(), Ok(m) if m.len() == 0)
        && !matches!(file.metadata(), Err(e) if e.kind() == ErrorKind::NotFound)
}

/// Why a file was not printed to its end.
enum Poured {
    Unread(std::io::Error),
    Unwritten(CommandFailure),
}

fn pour(file: &Path, of: Option<&OutputPart>, pager: &mut Pager) -> Result<bool, Poured> {
    let mut reader = std::fs::File::open(file).map_err(Poured::Unread)?;
    let (start, end) = of.map_or((0, None), |text| (text.start, text.end));
    // A file that is shorter by now was begun anew.
    let start = start.min(reader.metadata().map_or(0, |m| m.len()));
    reader
        .seek(SeekFrom::Start(start))
        .map_err(Poured::Unread)?;
    let mut reader = reader.take(end.map_or(u64::MAX, |end| end.saturating_sub(start)));
    let mut chunk = vec![0; CHUNK];
    let mut held = 0;
    loop {
        let read = match reader.read(&mut chunk[held..]) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => read.map_err(Poured::Unread)?,
        };
        held += read;
        let whole = if read == 0 {
            held
        } else {
            whole_lines(&chunk[..held])
        };
        let text = String::from_utf8_lossy(&chunk[..whole]);
        if !pager.write(&text).map_err(Poured::Unwritten)? {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
        chunk.copy_within(whole..held, 0);
        held -= whole;
    }
}

/// A file that is followed, what its lines begin with, and the line whose end is not written yet.
struct FollowedLog {
    followed: Followed,
    label: String,
    rest: Vec<u8>,
}

impl FollowedLog {
    fn take(&mut self, data: &[u8]) -> Result<bool, CommandFailure> {
        self.rest.extend_from_slice(data);
        let whole = match memchr::memrchr2(b'\n', b'\r', &self.rest) {
            Some(end) => end + 1,
            // A line without end is printed in pieces.
            None if self.rest.len() > CHUNK => self.rest.len(),
            None => return Ok(true),
        };
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        self.print(&lines)
    }

    fn print(&self, lines: &[u8]) -> Result<bool, CommandFailure> {
        let text = String::from_utf8_lossy(lines);
        let lines = text.split_inclusive(['\n', '\r']);
        let lines: Vec<String> = lines.map(|line| format!("{}{line}", self.label)).collect();
        print::piece(&lines.concat())
    }
}

/// Prints what they hold and what is written, of this attempt and of those that follow, until the run is over or the reader
/// goes away. A job that is no run of this project is followed until then.
pub fn follow(runs: &Runs, name: &str, stream: &Stream) -> Result<(), CommandFailure> {
    let mut followers = Followers::new();
    let waiter = followers.waiter();
    let (mut logs, mut shown): (Vec<FollowedLog>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    loop {
        let run = runs.find(name).ok();
        // A run may have a new attempt. Slurm is asked once where the logs of a job are.
        let group = match run.is_some() || shown.is_empty() {
            true => meant(runs, name)?.pop().unwrap_or_default(),
            false => LogGroup::default(),
        };
        let over = run.is_some_and(|run| run.history.outcome.is_some());
        let files = files_so_far(&group, stream, &shown)?;
        if !files.is_empty() && files != shown {
            if !look(&mut followers, &mut logs, LookMode::Last)? {
                return Ok(());
            }
            print::talk(&group.name());
            logs = open(&mut followers, &files, &group);
            shown = files;
        }
        let mode = if over { LookMode::Last } else { LookMode::Due };
        if !look(&mut followers, &mut logs, mode)? || over {
            return Ok(());
        }
        match &waiter {
            Some(waiter) => drop(waiter.wait(WAIT)),
            None => std::thread::sleep(WAIT),
        }
    }
}

/// Prints what is new. `false` when the reader went away.
fn look(
    followers: &mut Followers,
    logs: &mut [FollowedLog],
    mode: LookMode,
) -> Result<bool, CommandFailure> {
    for log in logs {
        let mut new = Vec::new();
        followers.read(
            &log.followed,
            Timestamp::now(),
            mode,
            &mut |growth| match growth {
                Growth::Bytes { data, .. } => new.extend_from_slice(data),
                Growth::Trouble(what) => print::talk(what),
                Growth::NewGeneration | Growth::Rotated | Growth::Removed => {}
            },
        );
        let goes_on = log.take(&new)? && (mode != LookMode::Last || log.print(&log.rest)?);
        if !goes_on {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What is followed: a node that has written nothing yet is waited for.
fn files_so_far(
    group: &LogGroup,
    stream: &Stream,
    shown: &[PathBuf],
) -> Result<Vec<PathBuf>, CommandFailure> {
    match files(group, stream) {
        Err(_) if !shown.is_empty() || group.files.is_empty() => Ok(Vec::new()),
        files => files,
    }
}

fn open(followers: &mut Followers, files: &[PathBuf], group: &LogGroup) -> Vec<FollowedLog> {
    let nodes = nodes::files(group);
    let label = |file: &Path| match (files, nodes.iter().find(|(_, path)| path == file)) {
        ([_], _) => String::new(),
        (_, Some((node, _))) => format!("{node}: "),
        _ => {
            let ending = file.extension().unwrap_or(file.as_os_str());
            format!("{}: ", ending.to_string_lossy())
        }
    };
    let start =
        |file: &PathBuf| FollowStart::At(group.of_program(file).map_or(0, |text| text.start));
    let follow = |file: &PathBuf| FollowedLog {
        label: label(file),
        followed: followers.follow(file.clone(), start(file), 0),
        rest: Vec::new(),
    };
    files.iter().map(follow).collect()
}
