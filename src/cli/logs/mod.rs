//! Logs that are judged together, and which are meant by an argument.

mod absent;
mod around;
pub mod died;
mod nodes;
pub mod plan_after;
pub mod reading;
mod shown;
mod targets;
pub mod unwatched;
mod why;

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::core::adopt::ProgramLog;
use crate::core::adopt::version::{LogExcerpt, MAX_LOG};
use crate::core::engine::LogEnd;
use crate::core::request::Request;
use crate::io::files::{is_pipe, open_log};
use crate::io::library::bugs;
use crate::io::snapshots;
use crate::io::window::log_tail;
use crate::view::CommandFailure;
use oomctl_base::job::JobStatus;
use oomctl_diagnose::{Incident, ProgressPattern, ProjectFailures, Scanner, Versions};

use around::around;
pub use shown::{exit, view};
pub use targets::{asked, meant, paired};
pub use why::why;

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;
/// Where a chunk begins in memory: the kernel copies a third slower to a few bytes behind the place in a page
/// that it copies from (measured with Linux 6.18 on a Zen 4).
const PAGE: usize = 4096;
const SNAPSHOT_HINT: &str = "torch.cuda.memory._dump_snapshot(FILE) writes one";
/// Standard input, as an argument.
pub const STDIN: &str = "-";

/// Logs that are judged together, with what a scheduler says about their job.
#[derive(Debug, Clone, Default)]
pub struct LogGroup {
    /// The files; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The run and attempt, for those of a run.
    pub attempt: Option<(String, u32)>,
    /// The scheduler's word.
    pub status: Option<JobStatus>,
    /// How its program prints progress.
    progress: Vec<ProgressPattern>,
    /// Versions of packages that are installed where it ran.
    installed: Versions,
    /// Its script goes on to another program, even where one has failed.
    goes_on: bool,
    /// A snapshot of PyTorch's allocator that is given for them.
    pub snapshot: Option<PathBuf>,
    /// Where the present part of the job begins in the files.
    starts: Vec<LogEnd>,
    /// Those of the files into which its program prints.
    program: Vec<OutputPart>,
    /// Files that it had printed into before a later attempt began them anew.
    overwritten: Vec<PathBuf>,
    /// What was read of standard input before its turn.
    ahead: Vec<u8>,
}

/// A file into which a program prints, and which part of it is of one job.
#[derive(Debug, Clone)]
pub struct OutputPart {
    path: PathBuf,
    start: u64,
    end: Option<u64>,
}

impl From<ProgramLog> for OutputPart {
    fn from(log: ProgramLog) -> Self {
        Self {
            start: log.stale.map_or(log.offset, |_| 0),
            end: None,
            path: log.path,
        }
    }
}

impl LogGroup {
    /// The same with the files into which its program prints.
    fn with_program(mut self, program: Vec<OutputPart>) -> Self {
        for text in program {
            self.starts.retain(|start| start.path != text.path);
            self.starts.push(LogEnd {
                path: text.path.clone(),
                offset: text.start,
            });
            self.files.push(text.path.clone());
            self.program.push(text);
        }
        self
    }

    /// The part of a file that is of this job, where its program prints into it.
    fn of_program(&self, path: &Path) -> Option<&OutputPart> {
        self.program.iter().find(|text| text.path == path)
    }

    /// The same as what jobs of this request print.
    pub fn of_request(mut self, request: &Request) -> Self {
        self.progress = request.progress().to_vec();
        self.installed = request.inputs().installed.clone();
        self.goes_on = request.goes_on_after_failure();
        self
    }

    /// Logs of files alone.
    pub fn of_files(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            ..Self::default()
        }
    }

    /// What each file begins and ends with. Of standard input or a pipe the beginning alone, which is kept for the diagnosis.
    pub fn ends(&mut self) -> Vec<LogExcerpt> {
        let mut ends = Vec::new();
        for path in &self.files {
            let mut head = Vec::new();
            let read = open(path, &self.ahead).map(|log| log.take(MAX_LOG).read_to_end(&mut head));
            let is_stream = is_stream(path);
            if is_stream {
                self.ahead.clone_from(&head);
            }
            // What cannot be read is told by the diagnosis.
            if read.is_ok() {
                ends.push(LogExcerpt::new(path, &head, true));
                ends.extend((!is_stream).then(|| log_tail(path)).flatten());
            }
        }
        ends
    }

    /// Reads the files and judges them together.
    pub fn diagnose(&self, own: &ProjectFailures) -> Result<Incident, CommandFailure> {
        self.diagnose_beside(own, &mut |_| {})
    }

    /// The same while somebody else looks at the lines, for what comes through a pipe is read once.
    pub fn diagnose_beside(
        &self,
        own: &ProjectFailures,
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<Incident, CommandFailure> {
        let scanner = Scanner::new(&self.progress).knowing(&own.signatures);
        let scanner = scanner.knowing_bugs(bugs, self.installed.clone());
        let scanner = scanner.of_several_programs(self.goes_on);
        let mut scanner = scanner.knowing_own_bugs(&own.bugs);
        let of_a_job = self.attempt.is_some() || self.status.is_some();
        let mut notes = Vec::new();
        let mut bytes = 0;
        for path in &self.files {
            let end = self.of_program(path).and_then(|text| text.end);
            let part = (self.start_of(path), end.unwrap_or(u64::MAX));
            match read(&mut scanner, path, &self.ahead, part, look) {
                Err(Unread::Failed(e)) if of_a_job && e.kind() == ErrorKind::NotFound => {
                    notes.push(format!("{} is not there", path.display()));
                }
                Err(e) => return Err(cannot(path, &e)),
                Ok(read) => bytes += read,
            }
        }
        notes.extend(
            self.overwritten
                .iter()
                .map(|path| format!("{} now holds the output of a later attempt", path.display())),
        );
        if bytes == 0 && notes.is_empty() {
            notes.push("the file is empty, so it says nothing about the job".to_owned());
        }
        let mut incident = scanner.verdict(self.status.as_ref());
        // A job that writes one log leaves the other out.
        if bytes == 0 || incident.kind == "other" {
            incident.notes.append(&mut notes);
        }
        self.see_snapshot(&mut incident)?;
        Ok(incident)
    }

    /// Lets the incident see the snapshot that is given, or that the job left.
    fn see_snapshot(&self, incident: &mut Incident) -> Result<(), CommandFailure> {
        if let Some(given) = &self.snapshot {
            return snapshots::show(incident, given)
                .map_err(|why| CommandFailure::usage(why.to_string()).hint(SNAPSHOT_HINT));
        }
        let mut folders: Vec<&Path> = self.files.iter().filter_map(|f| f.parent()).collect();
        folders.dedup();
        let own = |folder: &&Path| {
            let name = folder.file_name().and_then(|n| n.to_str());
            name.is_some_and(|name| name.starts_with("attempt-"))
        };
        let beside = folders.iter().copied().find(own);
        let beside = beside.filter(|_| self.attempt.is_some());
        folders.push(Path::new(""));
        snapshots::look(incident, &self.files, &folders, beside);
        Ok(())
    }

    /// The name of the group, for people.
    pub fn name(&self) -> String {
        match (&self.attempt, &self.status) {
            (Some((run, number)), Some(status)) => {
                format!("{run}, attempt {number} (job {})", status.id)
            }
            (Some((run, number)), None) => format!("{run}, attempt {number}"),
            (None, Some(status)) => format!("job {}", status.id),
            (None, None) => {
                let files = self.files.iter().map(|f| f.display().to_string());
                files.collect::<Vec<_>>().join(" + ")
            }
        }
    }

    fn start_of(&self, path: &Path) -> u64 {
        let start = self.starts.iter().find(|s| s.path == path);
        start.map_or(0, |s| s.offset)
    }
}

/// Why a log was not read.
enum Unread {
    /// It cannot be.
    Failed(std::io::Error),
    /// It is compressed; with the program that unpacks it.
    Packed(&'static str),
    /// It holds no text.
    Binary,
}

impl From<std::io::Error> for Unread {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Whether what was read of it is gone.
fn is_stream(path: &Path) -> bool {
    path == Path::new(STDIN) || is_pipe(path)
}

/// A file; or standard input or a pipe, behind what was read `ahead` of it.
fn open<'a>(path: &Path, ahead: &'a [u8]) -> std::io::Result<Box<dyn Read + 'a>> {
    if path == Path::new(STDIN) {
        return Ok(Box::new(ahead.chain(std::io::stdin())));
    }
    let is_read = |e: &std::io::Error| e.kind() == ErrorKind::NotConnected && !ahead.is_empty();
    match open_log(path) {
        Ok(log) if is_stream(path) => Ok(Box::new(ahead.chain(log))),
        Err(e) if is_read(&e) => Ok(Box::new(ahead)),
        log => Ok(log?),
    }
}

/// Reads one log from its beginning, and returns how many bytes it has; what lies before `start` belongs to
/// an earlier part of the job.
fn read(
    scanner: &mut Scanner,
    path: &Path,
    ahead: &[u8],
    (start, end): (u64, u64),
    look: &mut dyn FnMut(&[u8]),
) -> Result<u64, Unread> {
    let mut reader = open(path, ahead)?.take(end);
    let source = scanner.source(&path.display().to_string());
    let mut room = vec![0; PAGE + CHUNK];
    let page = room.as_ptr().align_offset(PAGE).min(PAGE);
    let chunk = &mut room[page..page + CHUNK];
    // The chunk begins with so many bytes of a line whose end was not read yet: a line in two pieces costs more.
    let (mut offset, mut held) = (0, 0);
    loop {
        let read = offset + held as u64;
        let to_start = usize::try_from(start.saturating_sub(read)).unwrap_or(CHUNK);
        let room = CHUNK - held;
        let wanted = if to_start == 0 {
            room
        } else {
            to_start.min(room)
        };
        match reader.read(&mut chunk[held..held + wanted]) {
            Ok(0) => break,
            Ok(n) => {
                held += n;
                if let Some(program) = packed(&chunk[..n]).filter(|_| read == 0) {
                    return Err(Unread::Packed(program));
                }
                if read == 0 && is_binary(&chunk[..n.min(PAGE)]) {
                    return Err(Unread::Binary);
                }
                let is_start = read + n as u64 == start;
                let lines = if is_start {
                    held
                } else {
                    whole_lines(&chunk[..held])
                };
                scanner.feed(source, offset, &chunk[..lines]);
                look(&chunk[..lines]);
                offset += lines as u64;
                chunk.copy_within(lines..held, 0);
                held -= lines;
                if is_start {
                    scanner.restart(source);
                }
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    scanner.feed(source, offset, &chunk[..held]);
    look(&chunk[..held]);
    scanner.finish_source(source);
    Ok(offset + held as u64)
}

/// Bytes of the whole lines in a chunk; all of it where it holds a part of one only.
fn whole_lines(chunk: &[u8]) -> usize {
    memchr::memrchr2(b'\n', b'\r', chunk).map_or(chunk.len(), |end| end + 1)
}

/// The program that unpacks a file that begins like this (RFC 1952, RFC 8878, and the formats of xz and bzip2).
fn packed(beginning: &[u8]) -> Option<&'static str> {
    match beginning {
        [0x1f, 0x8b, ..] => Some("zcat"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstdcat"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xzcat"),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => Some("bzcat"),
        _ => None,
    }
}

/// Is more than a fifth of it neither text nor codes for terminals? Zeroes count as nothing: a log that was truncated
/// under its writer begins with them.
fn is_binary(beginning: &[u8]) -> bool {
    let bytes: Vec<u8> = beginning.iter().copied().filter(|b| *b != 0).collect();
    let text = String::from_utf8_lossy(&bytes);
    let of_terminals = ['\t', '\n', '\r', '\x07', '\x08', '\x0b', '\x0c', '\x1b'];
    let odd = |c: &char| *c == '\u{fffd}' || c.is_control() && !of_terminals.contains(c);
    let all = text.chars().count();
    all >= 64 && text.chars().filter(odd).count() * 5 > all
}

fn cannot(path: &Path, why: &Unread) -> CommandFailure {
    let path = path.display();
    match why {
        Unread::Failed(error) if error.kind() == ErrorKind::IsADirectory => {
            CommandFailure::usage(format!("{path} is a directory, not a log"))
                .hint(format!("`ls -t {path}` shows its newest file first"))
        }
        Unread::Failed(error) => CommandFailure::usage(format!("cannot read {path}: {error}"))
            .hint("give the path of a log, - for standard input, a run, or the id of a job"),
        Unread::Binary => CommandFailure::usage(format!("{path} is binary: it is no log"))
            .hint("give the path of a log, - for standard input, a run, or the id of a job"),
        Unread::Packed(program) => {
            CommandFailure::usage(format!("cannot read {path}: it is compressed"))
                .hint(format!("{program} {path} | oomctl diagnose -"))
        }
    }
}
