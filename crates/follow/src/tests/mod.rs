//! A folder with logs, a follower of them, and a clock that the test turns.

mod faults;
mod model;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rustix::io::Errno;

use super::calls::Calls;
use super::*;
use oomctl_diagnose::{ProgressPattern, Scanner, SourceId};

/// How files are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// inotify shortens the wait.
    Hints,
    /// Polling alone.
    Polling,
    /// On what says that it is NFS.
    Network,
}

/// The way `torch` 2.x says it (c10/cuda/CUDACachingAllocator.cpp).
pub(super) const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.\n";

thread_local! {
    /// Which call fails, and how often it was made.
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// A fault of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    NoInstance,
    WatchesAfter(u32),
    Refused,
    StaleOnce,
    EverySeventhRead,
    Interrupted,
    NoDescriptor,
}

pub(super) fn fault(fault: Option<Fault>) {
    FAULT.set(fault);
    CALLS.set(0);
}

fn count() -> u32 {
    CALLS.set(CALLS.get() + 1);
    CALLS.get()
}

fn fails(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

fn refused() -> io::Result<()> {
    match FAULT.get() {
        Some(Fault::Refused) => Err(Errno::ACCESS.into()),
        Some(Fault::NoDescriptor) => Err(Errno::MFILE.into()),
        _ => Ok(()),
    }
}

/// The system's calls, with a fault in them.
fn calls(mode: Mode) -> Calls {
    Calls {
        stat: |path| refused().and_then(|()| (Calls::SYSTEM.stat)(path)),
        open: |path| refused().and_then(|()| (Calls::SYSTEM.open)(path)),
        read_at: |file, buffer, offset| {
            match FAULT.get() {
                Some(Fault::StaleOnce) => {
                    fault(None);
                    return Err(Errno::STALE.into());
                }
                Some(Fault::EverySeventhRead) if count().is_multiple_of(7) => {
                    return Err(Errno::IO.into());
                }
                Some(Fault::Interrupted) if count() % 2 == 1 => return Err(Errno::INTR.into()),
                _ => {}
            }
            let read = (Calls::SYSTEM.read_at)(file, buffer, offset)?;
            BYTES.set(BYTES.get() + read as u64);
            Ok(read)
        },
        file_system: if mode == Mode::Network {
            |_| Ok(0x6969)
        } else {
            |_| Ok(0xef53)
        },
        hints: || {
            if fails(Fault::NoInstance) {
                return Err(Errno::MFILE.into());
            }
            (Calls::SYSTEM.hints)()
        },
        watch: |instance, folder| match FAULT.get() {
            Some(Fault::WatchesAfter(most)) if count() > most => Err(Errno::NOSPC.into()),
            _ => (Calls::SYSTEM.watch)(instance, folder),
        },
    }
}

/// A piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Bytes(u64, Vec<u8>),
    /// Another file, or a new part of it.
    Border,
}

/// One followed file and all that was told of it.
pub(super) struct ReportedEntry {
    followed: Followed,
    /// The bytes, and the other news in brackets.
    pub text: Vec<u8>,
    pub pieces: Vec<Piece>,
    next: u64,
    largest: usize,
    source: SourceId,
}

pub(super) struct Rig {
    mode: Mode,
    folder: tempfile::TempDir,
    pub followers: Followers,
    told: Vec<ReportedEntry>,
    pub scanner: Scanner,
    pub now: Timestamp,
}

impl Rig {
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            folder: tempfile::tempdir().unwrap(),
            followers: Followers::with(calls(mode), mode != Mode::Polling),
            told: Vec::new(),
            scanner: Scanner::new(&ProgressPattern::built_in()),
            now: "2001-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn follow(&mut self, name: &str) -> usize {
        self.follow_from(name, FollowStart::At(0))
    }

    pub fn follow_from(&mut self, name: &str, start: FollowStart) -> usize {
        let path = self.path(name);
        let group = self.told.len();
        self.told.push(ReportedEntry {
            followed: self.followers.follow(path, start, group as u64),
            text: Vec::new(),
            pieces: Vec::new(),
            next: match start {
                FollowStart::At(offset) => offset,
                FollowStart::Checkpoint(checkpoint) => checkpoint.offset,
            },
            largest: 0,
            source: self.scanner.source(name),
        });
        group
    }

    /// A rig with one followed file that holds this.
    pub fn with(mode: Mode, text: &str) -> Self {
        let mut rig = Self::new(mode);
        rig.append("log", text.as_bytes());
        rig.follow("log");
        rig.tick();
        assert_eq!(rig.text(), text);
        rig
    }

    pub fn append(&self, name: &str, bytes: &[u8]) -> File {
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .open(self.path(name))
            .unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// As `--open-mode=truncate` does: the same inode, from the start.
    pub fn rewrite(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// As long as it takes passes for those who poll; no time for those who hear.
    pub fn tick(&mut self) {
        if self.mode == Mode::Hints {
            let woken = self.followers.woken();
            self.read(&woken, LookMode::Due);
        } else {
            self.pass(2_000);
        }
        if self.told.iter().all(|t| t.next == 0 && t.text.is_empty()) {
            self.pass(0);
        }
    }

    /// Time passes, and what is due is looked at.
    pub fn pass(&mut self, milliseconds: i64) {
        self.now += SignedDuration::from_millis(milliseconds);
        for _ in 0..1_000 {
            let ready = self.followers.ready(self.now);
            if ready.is_empty() {
                break;
            }
            self.read(&ready, LookMode::Due);
        }
    }

    /// Long enough for everything that is waited for.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            self.pass(1_000);
        }
    }

    pub fn read(&mut self, groups: &[u64], look: LookMode) {
        let scanner = &mut self.scanner;
        for group in groups {
            let ReportedEntry {
                followed,
                text,
                pieces,
                next,
                largest,
                source,
            } = &mut self.told[usize::try_from(*group).unwrap()];
            self.followers
                .read(followed, self.now, look, &mut |growth| match growth {
                    Growth::Bytes { offset, data } => {
                        if offset != *next {
                            text.extend_from_slice(b"[hole]");
                        }
                        *next = offset + data.len() as u64;
                        *largest = data.len().max(*largest);
                        text.extend_from_slice(data);
                        pieces.push(Piece::Bytes(offset, data.to_vec()));
                        scanner.feed(*source, offset, data);
                    }
                    Growth::NewGeneration => {
                        *next = 0;
                        text.extend_from_slice(b"[new]");
                        pieces.push(Piece::Border);
                        scanner.restart(*source);
                    }
                    Growth::Rotated => {
                        *next = 0;
                        text.extend_from_slice(b"[rotated]");
                        pieces.push(Piece::Border);
                        *source = scanner.source("next");
                    }
                    Growth::Removed => text.extend_from_slice(b"[removed]"),
                    Growth::Trouble(_) => text.extend_from_slice(b"[trouble]"),
                });
        }
    }

    /// What was told of the first file.
    pub fn text(&self) -> String {
        self.text_of(0)
    }

    pub fn text_of(&self, file: usize) -> String {
        String::from_utf8_lossy(&self.told[file].text).into_owned()
    }

    /// Kinds of the incidents that the scanner sees.
    pub fn incident(&self) -> Option<String> {
        self.scanner.digest().incident.map(|i| i.kind.to_string())
    }

    pub fn checkpoint(&self) -> FilePosition {
        self.followers.checkpoint(&self.told[0].followed)
    }

    /// The process is killed and another goes on from what the first had kept.
    pub fn restart(&mut self) {
        let kept = serde_json::to_string(&self.checkpoint()).unwrap();
        let checkpoint: FilePosition = serde_json::from_str(&kept).unwrap();
        self.followers = Followers::with(calls(self.mode), self.mode != Mode::Polling);
        let path = self.path("log");
        self.told[0].followed = self
            .followers
            .follow(path, FollowStart::Checkpoint(checkpoint), 0);
    }
}

/// Descriptors of this process that are open under a folder.
pub(super) fn descriptors(under: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(under)))
        .count()
}
