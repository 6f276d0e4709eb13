//! Logs that are judged together, and which are meant by an argument.

mod around;
mod targets;
mod why;

use std::io::Read;
use std::path::{Path, PathBuf};

use super::print::Failure;
use crate::core::diagnose::{Incident, ProgressPattern, Scanner, UserSignature};
use crate::core::job::JobStatus;
use crate::core::supervise::LogEnd;

pub use around::around;
pub use targets::{meant, paired};
pub use why::why;

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;
/// Standard input, as an argument.
pub const STDIN: &str = "-";

/// Logs that are judged together, with what a scheduler says about their job.
#[derive(Debug, Default)]
pub struct Group {
    /// The files; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The run and attempt, for those of a run.
    pub attempt: Option<(String, u32)>,
    /// The scheduler's word.
    pub status: Option<JobStatus>,
    /// How its program prints progress.
    progress: Vec<ProgressPattern>,
    /// Where the present part of the job begins in the files.
    starts: Vec<LogEnd>,
}

impl Group {
    /// Logs of files alone.
    pub fn of_files(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            ..Self::default()
        }
    }

    /// Reads the files and judges them together.
    pub fn diagnose(&self, signatures: &[UserSignature]) -> Result<Incident, Failure> {
        let mut scanner = Scanner::new(&self.progress).knowing(signatures);
        let of_a_job = self.attempt.is_some() || self.status.is_some();
        let mut missing = Vec::new();
        for path in &self.files {
            match read(&mut scanner, path, self.start_of(path)) {
                Err(e) if of_a_job && e.kind() == std::io::ErrorKind::NotFound => {
                    missing.push(format!("{} is not there", path.display()));
                }
                Err(e) => return Err(cannot(path, &e)),
                Ok(()) => {}
            }
        }
        let mut incident = scanner.verdict(self.status.as_ref());
        incident.notes.append(&mut missing);
        Ok(incident)
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

/// Reads one log from its beginning; what lies before `start` belongs to an earlier part of the job.
fn read(scanner: &mut Scanner, path: &Path, start: u64) -> std::io::Result<()> {
    let mut reader: Box<dyn Read> = if path == Path::new(STDIN) {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path)?)
    };
    let source = scanner.source(&path.display().to_string());
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        let to_start = usize::try_from(start.saturating_sub(offset)).unwrap_or(CHUNK);
        let wanted = if to_start == 0 {
            CHUNK
        } else {
            to_start.min(CHUNK)
        };
        match reader.read(&mut chunk[..wanted]) {
            Ok(0) => break,
            Ok(n) => {
                scanner.feed(source, offset, &chunk[..n]);
                offset += n as u64;
                if offset == start {
                    scanner.restart(source);
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    scanner.finish_source(source);
    Ok(())
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(2, format!("cannot read {}: {error}", path.display()))
        .hint("give the path of a log, - for standard input, a run, or the id of a job")
}
