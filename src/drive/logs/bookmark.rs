//! Where a watch stands in the logs of an attempt, so that the next one, whatever became of the first, goes
//! on from there: `follow.jsonl` in the attempt's folder.
//!
//! Position and diagnosis lie in one file, for one is wrong without the other. It is a help, not a fact: one
//! that is missing, torn, of another part of the job or of another version is left aside, and the logs are
//! read from where the part begins.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::prepare::sha256;
use crate::core::engine::LogEnd;
use crate::core::measure::Figure;
use crate::io::files::{FileError, read_text, replace};
use oomctl_diagnose::SourceId;
use oomctl_follow::FilePosition;

/// Largest file that is written or read, in bytes. A usual one has a few thousand; a scanner that holds as
/// much as it may would take more than this, and is not written down.
const BOOKMARK_MAX: u64 = 16 * 1024 * 1024;

/// Version of the format.
const VERSION: u32 = 1;

/// What a bookmark is of: one part of one attempt's job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPart {
    /// The run.
    pub run: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// How often the job had been restarted.
    pub restarts: u32,
    /// Where the part begins in the logs.
    pub starts: Vec<LogEnd>,
}

/// One log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Marked {
    /// The file.
    pub path: PathBuf,
    /// Where the follower stands in it, and by what it knows it again.
    pub at: FilePosition,
    /// The scanner's number for the text.
    pub source: SourceId,
    /// How often it was rotated.
    pub rotations: usize,
}

/// Where a watch stands; `S` is the scanner.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bookmark<S> {
    /// What it is of.
    pub part: JobPart,
    /// The logs, in the order in which they are read.
    pub logs: Vec<Marked>,
    /// How far they had been read when the scheduler last said that this part of the job was the present one. What was read
    /// since then may be of a later part, of which nobody had heard yet.
    pub surely: Vec<LogEnd>,
    /// The largest figures that they showed.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Milliseconds that each of the first steps took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps_ms: Vec<u64>,
    /// What was understood of them.
    pub scanner: S,
}

/// The first line of the file, about the second.
#[derive(Debug, Serialize, Deserialize)]
struct Seal {
    v: u32,
    /// Another version may understand the same text differently.
    program: String,
    sha256: String,
}

impl Seal {
    fn of(body: &str) -> Self {
        Self {
            v: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: sha256(body.as_bytes()),
        }
    }
}

/// Writes a bookmark; says how many bytes it takes.
///
/// # Errors
/// When it cannot be written. The one before is untouched then.
pub fn write<S: Serialize>(path: &Path, bookmark: &Bookmark<S>) -> Result<u64, FileError> {
    let failed = |error: serde_json::Error| FileError::Io {
        action: "write",
        path: path.to_owned(),
        source: error.into(),
    };
    let body = serde_json::to_string(bookmark).map_err(failed)?;
    let seal = serde_json::to_string(&Seal::of(&body)).map_err(failed)?;
    let text = format!("{seal}\n{body}\n");
    if text.len() as u64 <= BOOKMARK_MAX {
        replace(path, text.as_bytes())?;
    }
    Ok(text.len() as u64)
}

/// Reads the bookmark of a part, where there is a sound one.
pub fn read<S: DeserializeOwned>(path: &Path, part: &JobPart) -> Option<Bookmark<S>> {
    let text = read_text(path, BOOKMARK_MAX).ok()?;
    let (seal, body) = text.strip_suffix('\n')?.split_once('\n')?;
    let seal: Seal = serde_json::from_str(seal).ok()?;
    let expected = Seal::of(body);
    if (seal.v, seal.program, seal.sha256) != (expected.v, expected.program, expected.sha256) {
        return None;
    }
    let bookmark: Bookmark<S> = serde_json::from_str(body).ok()?;
    (bookmark.part == *part).then_some(bookmark)
}
