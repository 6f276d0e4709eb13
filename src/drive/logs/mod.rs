//! The logs of one attempt: followed while its job runs, explained when it is over.
//!
//! Where they were read to is written down now and then (`bookmark`), so that a watch that was killed can be
//! taken up again.

pub(super) mod bookmark;
#[cfg(test)]
mod tests;
mod text;

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::core::engine::{LogEnd, LogLook, Rising};
use crate::core::measure::{AttemptFigures, Figure, FigurePattern};
use crate::io::files::FileError;
use oomctl_base::job::JobStatus;
use oomctl_diagnose::{
    Class, Digest, EMPTY_LOG, Incident, Link, Links, Progress, Scanner, ScannerState,
};
use oomctl_follow::{FilePosition, FollowStart, Followed, Followers, LookMode};

pub(super) use bookmark::JobPart;
use bookmark::{Bookmark, Marked};
use text::{LogStream, Readers};

/// Most looks at the logs of an ended job: somebody may still write to them.
const LOOKS_MAX: usize = 16 * 1_024;
/// Looks in a row that must find nothing before a log is at its end.
const QUIET_LOOKS: usize = 2;

/// Milliseconds between two marks, unless one is needed at once.
const MARK_MS: i64 = 1_000;
/// Bytes of text after which a mark is worth its while, and how many times its own size: what a restart
/// reads again, and what is written, stay small beside the log.
const MARK_BYTES: u64 = 64 * 1024;
const MARK_RATIO: u64 = 4;

/// One log file.
struct Log {
    followed: Followed,
    text: LogStream,
    /// What was last known by the path.
    file: FollowedFile,
}

/// The file that a path led to, by its numbers; whether it is gone, and whether anything was read of it.
type FollowedFile = (Option<(u64, u64)>, bool, bool);

fn file_of(at: &FilePosition) -> FollowedFile {
    (at.file, at.gone, at.offset > 0)
}

/// Where we stood when it was last written down.
#[derive(Debug, Default)]
struct Mark {
    at: Option<Timestamp>,
    /// What it took.
    bytes: u64,
    told: (Option<u64>, Option<Class>),
    events: u64,
    /// Something changed that must not be lost.
    needed: bool,
}

/// The logs of one attempt.
pub struct AttemptLogs {
    readers: Readers,
    logs: Vec<Log>,
    look: LogLook,
    /// Files that hold what other jobs have printed so far.
    left_out: Vec<PathBuf>,
    /// Where an earlier process read a part of them: how far that was surely of the part of the job that it knew of.
    resumed: Option<Vec<LogEnd>>,
    mark: Mark,
}

impl AttemptLogs {
    /// Logs that may not exist yet, from where the present part of the job begins. `group` is the run's
    /// number with the followers.
    pub fn open(
        paths: &[PathBuf],
        starts: &[LogEnd],
        mut scanner: Scanner,
        followers: &mut Followers,
        group: u64,
    ) -> Self {
        let logs = paths.iter().map(|path| {
            let start = FollowStart::At(start_of(path, starts));
            let followed = followers.follow(path.clone(), start, group);
            let name = shown_name(path);
            Log::new(followed, LogStream::new(scanner.source(&name), name, 0))
        });
        let logs = logs.collect();
        Self::of(logs, scanner)
    }

    /// The logs from where an earlier process stood. None when that is about other logs.
    pub fn resume(
        kept: Bookmark<ScannerState>,
        paths: &[PathBuf],
        mut scanner: Scanner,
        followers: &mut Followers,
        group: u64,
    ) -> Option<Self> {
        let same = kept.logs.iter().map(|log| &log.path).eq(paths);
        if !same || !scanner.resume(kept.scanner) {
            return None;
        }
        if !kept.logs.iter().all(|log| scanner.has(log.source)) {
            return None;
        }
        let logs = kept.logs.into_iter().map(|log| {
            let text = LogStream::new(log.source, shown_name(&log.path), log.rotations);
            let followed = followers.follow(log.path, FollowStart::Checkpoint(log.at), group);
            Log {
                file: file_of(&log.at),
                ..Log::new(followed, text)
            }
        });
        let mut logs = Self::of(logs.collect(), scanner);
        logs.readers.figures = AttemptFigures::found(kept.figures, kept.steps_ms);
        logs.take_stock(followers);
        logs.mark.told = logs.told();
        logs.resumed = Some(kept.surely);
        Some(logs)
    }

    fn of(logs: Vec<Log>, scanner: Scanner) -> Self {
        Self {
            readers: Readers {
                scanner,
                figures: AttemptFigures::default(),
                links: Links::default(),
                trouble: Vec::new(),
            },
            logs,
            look: LogLook::default(),
            left_out: Vec::new(),
            resumed: None,
            mark: Mark::default(),
        }
    }

    /// From now on these are not read, and no others are left out.
    pub fn leave_out(&mut self, files: Vec<PathBuf>) {
        self.left_out = files;
    }

    /// The same with the figures that the program prints.
    pub fn measuring(mut self, patterns: Vec<FigurePattern>) -> Self {
        self.readers.figures = self.readers.figures.with(patterns);
        self
    }

    /// The largest figures so far.
    pub fn figures(&self) -> Vec<Figure> {
        self.readers.figures.peaks()
    }

    /// Milliseconds that each of the first steps took.
    pub fn steps_ms(&self) -> Vec<u64> {
        self.readers.figures.steps_ms().to_vec()
    }

    /// Where an earlier process read a part of these logs: how far that was surely of the part of the job that it knew of.
    pub fn resumed(&self) -> Option<&[LogEnd]> {
        self.resumed.as_deref()
    }

    /// What could not be read since this was last asked.
    pub fn trouble(&mut self) -> Vec<String> {
        std::mem::take(&mut self.readers.trouble)
    }

    /// The pages of trackers that were named since this was last asked.
    pub fn links(&mut self) -> Vec<Link> {
        self.readers.links.take()
    }

    /// What was seen at the last look.
    pub fn last_look(&self) -> &LogLook {
        &self.look
    }

    /// Reads what is new, up to a bound. True when there was nothing.
    pub fn read(&mut self, followers: &mut Followers, now: Timestamp, look: LookMode) -> bool {
        let mut nothing = true;
        for log in &mut self.logs {
            let Log { followed, text, .. } = log;
            let path = followers.path(followed);
            if self.left_out.iter().any(|left_out| left_out == path) {
                continue;
            }
            nothing &= !followers.read(followed, now, look, &mut |growth| {
                text.take(growth, &mut self.readers);
            });
        }
        for log in &mut self.logs {
            let file = file_of(&followers.checkpoint(&log.followed));
            let other = std::mem::replace(&mut log.file, file) != file;
            self.mark.needed |= other || log.text.anew;
        }
        if nothing && self.look.ends.len() == self.logs.len() {
            self.look.anew.clear();
            return true;
        }
        self.take_stock(followers);
        nothing
    }

    /// What the logs say by now.
    fn take_stock(&mut self, followers: &Followers) {
        let Digest {
            progress, incident, ..
        } = self.readers.scanner.digest();
        let path = |log: &Log| followers.path(&log.followed).to_owned();
        let ends = self.logs.iter().map(|log| LogEnd {
            path: path(log),
            offset: followers.checkpoint(&log.followed).offset,
        });
        let ends = ends.collect();
        let anew = self.logs.iter_mut();
        let anew = anew.filter_map(|log| std::mem::take(&mut log.text.anew).then(|| path(log)));
        // What rises is asked for step by step: it is many pairs of rows.
        let moved = progress != self.look.progress;
        let rising = match moved {
            true => {
                let (courses, step_s) = self.readers.scanner.rising();
                Rising { courses, step_s }
            }
            false => std::mem::take(&mut self.look.rising),
        };
        self.look = LogLook {
            rising,
            fatal: incident.filter(|i| i.fatal).map(|i| i.class),
            progress,
            ends,
            anew: anew.collect(),
        };
    }

    /// Is where we stand worth being written down? At once when a file was first seen, for it can be renamed
    /// before the next look, and when something is about to be told; else when much was read, or something
    /// happened in it.
    pub fn is_worth_a_mark(&self, now: Timestamp) -> bool {
        if self.mark.needed || self.mark.told != self.told() {
            return true;
        }
        let unmarked = self.unmarked();
        let last = self.mark.at.unwrap_or(Timestamp::MIN);
        if unmarked == 0 || now.duration_since(last).as_millis() < i128::from(MARK_MS) {
            return false;
        }
        let much = MARK_BYTES.max(MARK_RATIO * self.mark.bytes);
        unmarked >= much || self.mark.events != self.readers.scanner.events_seen()
    }

    /// Was anything read since it was last written down?
    pub fn has_moved(&self) -> bool {
        self.mark.needed || self.unmarked() > 0
    }

    /// Writes down where we stand, and how far the text is `surely` of this part of the job.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn mark(
        &mut self,
        path: &Path,
        part: JobPart,
        surely: &[LogEnd],
        followers: &Followers,
        now: Timestamp,
    ) -> Result<(), FileError> {
        let logs = self.logs.iter().map(|log| Marked {
            path: followers.path(&log.followed).to_owned(),
            at: followers.checkpoint(&log.followed),
            source: log.text.source,
            rotations: log.text.rotations,
        });
        let written = bookmark::write(
            path,
            &Bookmark {
                part,
                logs: logs.collect(),
                surely: surely.to_vec(),
                figures: self.figures(),
                steps_ms: self.steps_ms(),
                scanner: &self.readers.scanner,
            },
        );
        // One that failed is not tried again at once.
        self.mark = Mark {
            at: Some(now),
            bytes: *written.as_ref().unwrap_or(&self.mark.bytes),
            told: self.told(),
            events: self.readers.scanner.events_seen(),
            needed: false,
        };
        self.logs.iter_mut().for_each(|log| log.text.unmarked = 0);
        written.map(drop)
    }

    fn unmarked(&self) -> u64 {
        self.logs.iter().map(|log| log.text.unmarked).sum()
    }

    /// What a listener may have put into words by now.
    fn told(&self) -> (Option<u64>, Option<Class>) {
        let tenth = self.look.progress.as_ref().map(Progress::tenth);
        (tenth, self.look.fatal)
    }

    /// Are they all where nobody writes over a network, so that what there is to see can be seen?
    pub fn are_local(&self, followers: &Followers) -> bool {
        #[cfg(test)]
        if let Some(local) = crate::io::trial::with(|_| false) {
            return local;
        }
        self.logs
            .iter()
            .all(|log| followers.is_local(&log.followed))
    }

    /// Why the job ended: reads to the end, and takes a last line without newline for complete where no
    /// more is to come.
    pub fn explain(
        &mut self,
        status: Option<&JobStatus>,
        complete: bool,
        followers: &mut Followers,
        now: Timestamp,
    ) -> (Incident, Option<Progress>) {
        let mut quiet = 0;
        for _ in 0..LOOKS_MAX {
            let nothing = self.read(followers, now, LookMode::Last);
            quiet = if nothing { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                break;
            }
        }
        for log in self.logs.iter().filter(|_| complete) {
            self.readers.scanner.finish_source(log.text.source);
        }
        let scanner = &self.readers.scanner;
        let mut incident = scanner.verdict(status);
        if complete && self.are_empty() {
            incident.notes.push(EMPTY_LOG.to_owned());
        }
        (incident, scanner.progress())
    }

    /// Is there a log, and no line in any?
    fn are_empty(&self) -> bool {
        let found = self.logs.iter().any(|log| log.file.0.is_some());
        found && self.readers.scanner.is_without_lines()
    }
}

/// How evidence names a log: by its file in the attempt's folder.
fn shown_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |n| n.to_string_lossy().into(),
    )
}

fn start_of(path: &Path, starts: &[LogEnd]) -> u64 {
    let start = starts.iter().find(|s| s.path == path);
    start.map_or(0, |s| s.offset)
}

impl Log {
    fn new(followed: Followed, text: LogStream) -> Self {
        Self {
            followed,
            text,
            file: FollowedFile::default(),
        }
    }
}
