//! What squeue said, for all processes of one user on one host: ten watches ask about once.
//!
//! Rule: an answer that was asked for before it was wanted may show that a job lives, and nothing else. That a job has
//! ended or is not there, which may lead to a submission, is believed only of an answer that was asked for afterwards;
//! and whether a submission was accepted (`find`) is never asked here.
//!
//! The answers lie in a folder of this user's in memory or in `/tmp`, on no network file system, so a lock is a lock.
//! Nothing rests on it: without folder or lock each process asks for itself.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::io::files::{FileError, make_private_dir, open_lock, read_bounded, replace};
use crate::io::scheduler::command::MAX_STDOUT_BYTES;
use crate::io::uptime::uptime;

/// Oldest answer that is of any use.
const OLDEST: Duration = Duration::from_secs(12);
/// An answer may be as old as this part of the time since this process last had one: who asks again after a second
/// wants to know what changed in it.
const PART: f64 = 0.8;
/// Between two looks whether the process that asks just now has its answer.
const PAUSE: Duration = Duration::from_millis(20);
/// Most bytes in front of the answer itself.
const HEAD_MAX: u64 = 16 << 10;

/// How new an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// Asked for from now on.
    New,
    /// Not much older than the time since the last one.
    Recent,
}

/// What was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedAnswer {
    /// Standard output, or why there is none.
    pub said: Result<String, String>,
    /// It was asked for after it was wanted.
    pub new: bool,
    /// How long before that it was asked for, if it was not.
    pub age: Duration,
}

/// The first line of an answer on disk.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    v: u32,
    question: Vec<String>,
    /// When it was asked, in milliseconds since the host was started.
    asked_ms: u64,
    /// Bytes that follow.
    bytes: u64,
    /// Why there is no answer.
    failed: Option<String>,
}

/// An answer on disk.
struct StoredAnswer {
    asked: Duration,
    said: Result<String, String>,
}

/// The answers that processes share.
#[derive(Debug, Clone)]
pub(super) struct SharedAnswers {
    folder: PathBuf,
    /// When the last answer to each question that this process had was asked for.
    last: HashMap<Vec<String>, Duration>,
    /// Whoever has the lock kept it too long, and is not waited for.
    stuck: bool,
}

impl SharedAnswers {
    /// The answers in this folder.
    ///
    /// # Errors
    /// When it cannot be made, or is not ours.
    pub fn open_in(folder: &Path) -> Result<Self, FileError> {
        make_private_dir(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            last: HashMap::new(),
            stuck: false,
        })
    }

    /// The answer to a question: another process's if it is new enough, or else what `ask` brings, which the others
    /// then have. Who finds another process asking waits for it, for at most `patience`.
    pub fn hear(
        &mut self,
        question: &[String],
        age: Age,
        patience: Duration,
        ask: impl FnOnce() -> Result<String, String>,
    ) -> SharedAnswer {
        let wanted = now();
        let last = self.last.get(question).copied();
        let oldest = oldest(age, last, wanted);
        let path = self.folder.join(name(question));
        // The clock is that of the present boot; what seems to come from the future does not.
        let enough = || {
            let kept = read(&path, question);
            kept.filter(|kept| kept.asked > oldest && kept.asked <= now())
        };
        let (lock, kept) = self.wait(&path, patience, enough);
        let borrowed = kept.is_some();
        let kept = kept.unwrap_or_else(|| {
            let asked = now();
            let kept = StoredAnswer { asked, said: ask() };
            if lock.is_some() {
                // An answer that cannot be shared is as good for this process.
                let _ = write(&path, question, &kept);
            }
            kept
        });
        self.last.insert(question.to_vec(), kept.asked);
        SharedAnswer {
            said: kept.said,
            new: !borrowed || kept.asked > wanted,
            age: wanted.saturating_sub(kept.asked),
        }
    }

    /// Waits for an answer that is new enough or for the lock, whichever comes first.
    fn wait(
        &mut self,
        path: &Path,
        patience: Duration,
        enough: impl Fn() -> Option<StoredAnswer>,
    ) -> (Option<File>, Option<StoredAnswer>) {
        let Ok(file) = open_lock(&path.with_extension("lock")) else {
            return (None, enough());
        };
        let start = Instant::now();
        let mut seen = None;
        loop {
            let taken = file.try_lock();
            let there = face(path);
            // Looked at with the lock in hand, for whoever had it has written its answer; else only where it is another
            // than before, for with thousands of jobs it is a megabyte.
            if (taken.is_ok() || seen != Some(there))
                && let Some(kept) = enough()
            {
                return (None, Some(kept));
            }
            seen = Some(there);
            match taken {
                Ok(()) => {
                    self.stuck = false;
                    return (Some(file), None);
                }
                Err(TryLockError::WouldBlock) if !self.stuck && start.elapsed() < patience => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    self.stuck = true;
                    return (None, None);
                }
                Err(TryLockError::Error(_)) => return (None, None),
            }
        }
    }
}

/// What tells a file from the one that was there before: each is written anew and renamed.
fn face(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

/// The time as it is written down.
fn now() -> Duration {
    Duration::from_millis(u64::try_from(uptime().as_millis()).unwrap_or(0))
}

/// When an answer must have been asked for at the earliest. One that this process had before will not do, and neither
/// will any that is there already for its first: who starts a watch wants to see how things are.
fn oldest(age: Age, last: Option<Duration>, wanted: Duration) -> Duration {
    let since = last.map_or(Duration::ZERO, |last| {
        wanted.saturating_sub(last).mul_f64(PART)
    });
    match age {
        Age::New => wanted,
        Age::Recent => wanted.saturating_sub(since.min(OLDEST)),
    }
}

/// A name for the answers to a question.
fn name(question: &[String]) -> String {
    let hash = Sha256::digest(question.join("\0"));
    let hex: String = hash
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("squeue-{hex}.answer")
}

fn read(path: &Path, question: &[String]) -> Option<StoredAnswer> {
    let limit = MAX_STDOUT_BYTES as u64 + HEAD_MAX;
    let mut bytes = read_bounded(path, limit).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(bytes.get(..end)?).ok()?;
    let text = bytes.split_off(end + 1);
    if head.v != 1 || head.question != question || head.bytes != text.len() as u64 {
        return None;
    }
    Some(StoredAnswer {
        asked: Duration::from_millis(head.asked_ms),
        said: match head.failed {
            Some(why) => Err(why),
            None => Ok(String::from_utf8(text).ok()?),
        },
    })
}

/// Written under another name first, which only the holder of the lock uses.
fn write(path: &Path, question: &[String], kept: &StoredAnswer) -> Result<(), FileError> {
    let text = kept.said.as_deref().unwrap_or_default();
    let head = Head {
        v: 1,
        question: question.to_vec(),
        asked_ms: u64::try_from(kept.asked.as_millis()).unwrap_or(0),
        bytes: text.len() as u64,
        failed: kept.said.as_ref().err().cloned(),
    };
    let head = serde_json::to_string(&head).unwrap_or_default();
    replace(path, format!("{head}\n{text}").as_bytes())
}

#[cfg(test)]
mod tests;
