//! The logs of one attempt: followed while its job runs, explained when it is over.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::core::diagnose::{
    Digest, Incident, Progress, ProgressPattern, Scanner, SourceId, UserSignature,
};
use crate::core::job::JobStatus;
use crate::core::measure::{Figure, FigurePattern, Figures, Overlap};
use crate::core::supervise::{LogEnd, LogLook};
use crate::io::follow::{Followed, Followers, Growth, Look, Start};

/// Most looks at the logs of an ended job: somebody may still write to them.
const LOOKS_MAX: usize = 16 * 1_024;
/// Looks in a row that must find nothing before a log is at its end.
const QUIET_LOOKS: usize = 2;
/// Most renamed predecessors of one log whose text is kept; at the next the log begins anew.
const ROTATIONS_MAX: usize = 64;

/// One log file.
struct Log {
    followed: Followed,
    text: Text,
}

/// Where the text of a log goes.
struct Text {
    /// How evidence names it.
    name: String,
    source: SourceId,
    rotations: usize,
    overlap: Overlap,
}

/// What reads the text of all logs.
struct Readers {
    scanner: Scanner,
    figures: Figures,
    trouble: Vec<String>,
}

/// The logs of one attempt.
pub struct AttemptLogs {
    readers: Readers,
    logs: Vec<Log>,
    look: LogLook,
}

impl AttemptLogs {
    /// Logs that may not exist yet, from where the present part of the job begins. `group` is the run's
    /// number with the followers.
    pub fn open(
        paths: &[PathBuf],
        starts: &[LogEnd],
        progress: &[ProgressPattern],
        followers: &mut Followers,
        group: u64,
    ) -> Self {
        let mut scanner = Scanner::new(progress);
        let logs = paths
            .iter()
            .map(|path| Log {
                followed: followers.follow(path.clone(), Start::At(start_of(path, starts)), group),
                text: Text::new(shown_name(path), &mut scanner),
            })
            .collect();
        Self {
            readers: Readers {
                scanner,
                figures: Figures::default(),
                trouble: Vec::new(),
            },
            logs,
            look: LogLook::default(),
        }
    }

    /// The same with signatures of the project's own.
    pub fn knowing(mut self, signatures: &[UserSignature]) -> Self {
        self.readers.scanner = self.readers.scanner.knowing(signatures);
        self
    }

    /// The same with the figures that the program prints.
    pub fn measuring(mut self, patterns: Vec<FigurePattern>) -> Self {
        self.readers.figures = Figures::new(patterns);
        self
    }

    /// The largest figures so far.
    pub fn figures(&self) -> Vec<Figure> {
        self.readers.figures.peaks()
    }

    /// What could not be read since this was last asked.
    pub fn trouble(&mut self) -> Vec<String> {
        std::mem::take(&mut self.readers.trouble)
    }

    /// What was seen at the last look.
    pub fn last_look(&self) -> &LogLook {
        &self.look
    }

    /// Reads what is new, up to a bound. True when there was nothing.
    pub fn read(&mut self, followers: &mut Followers, now: Timestamp, look: Look) -> bool {
        let mut nothing = true;
        for log in &mut self.logs {
            let Log { followed, text } = log;
            nothing &= !followers.read(followed, now, look, &mut |growth| {
                text.take(growth, &mut self.readers);
            });
        }
        if nothing && self.look.ends.len() == self.logs.len() {
            return true;
        }
        let Digest {
            progress, incident, ..
        } = self.readers.scanner.digest();
        let ends = self.logs.iter().map(|log| LogEnd {
            path: followers.path(&log.followed).to_owned(),
            offset: followers.checkpoint(&log.followed).offset,
        });
        self.look = LogLook {
            fatal: incident.filter(|i| i.fatal).map(|i| i.class),
            progress,
            ends: ends.collect(),
        };
        nothing
    }

    /// Why the job ended: reads to the end, and takes a last line without newline for complete.
    pub fn explain(
        &mut self,
        status: Option<&JobStatus>,
        followers: &mut Followers,
        now: Timestamp,
    ) -> (Incident, Option<Progress>) {
        let mut quiet = 0;
        for _ in 0..LOOKS_MAX {
            let nothing = self.read(followers, now, Look::Last);
            quiet = if nothing { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                break;
            }
        }
        let scanner = &mut self.readers.scanner;
        for log in &self.logs {
            scanner.finish_source(log.text.source);
        }
        let progress = scanner.digest().progress;
        (scanner.verdict(status), progress)
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

impl Text {
    fn new(name: String, scanner: &mut Scanner) -> Self {
        Self {
            source: scanner.source(&name),
            name,
            rotations: 0,
            overlap: Overlap::default(),
        }
    }

    /// Takes what a look found.
    fn take(&mut self, growth: Growth<'_>, readers: &mut Readers) {
        let Readers {
            scanner,
            figures,
            trouble,
        } = readers;
        match growth {
            Growth::Bytes { offset, data } => {
                scanner.feed(self.source, offset, data);
                figures.feed(&mut self.overlap, data);
                return;
            }
            Growth::Rotated if self.rotations < ROTATIONS_MAX => {
                scanner.finish_source(self.source);
                self.source = scanner.source(&self.name);
                self.rotations += 1;
            }
            Growth::NewGeneration | Growth::Rotated => scanner.restart(self.source),
            Growth::Removed => trouble.push(format!("{} was removed", self.name)),
            Growth::Trouble(what) => trouble.push(what.to_owned()),
        }
        self.overlap.clear();
    }
}
