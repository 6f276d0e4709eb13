//! inotify: a word that a folder's file may have grown. It shortens a wait and decides nothing.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, ReadFlags, Reader};
use rustix::io::Errno;

use super::calls::{Calls, is_missing};
use super::position::fingerprint;

/// Most reads of events in one go; a queue that fills faster is read on at the next one.
const READS_MAX: usize = 4_096;

/// The one inotify instance.
#[derive(Debug)]
pub(super) struct Hints {
    instance: OwnedFd,
    /// The files whose events are wanted, each with the watch of its folder and a hash of its name. Few bytes,
    /// for there are thousands: paths are not kept, since the system gives a folder that is watched already the
    /// same watch again; and two names of one hash cost a look in vain.
    files: BTreeSet<(i32, u32, u32)>,
    /// Folders on network file systems.
    silent: HashSet<PathBuf>,
    /// The system gives no further watch.
    exhausted: bool,
}

/// What came of asking for events of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchAnswer {
    /// They come with this watch.
    Yes(i32),
    /// Not there yet; ask again.
    NotYet,
    /// There are none, on this file system or any more.
    Never,
}

/// What the events say.
#[derive(Debug, Default)]
pub(super) struct WatchEvents {
    /// Files that may have changed.
    pub files: Vec<u32>,
    /// Files whose folder is watched no more.
    pub unwatched: Vec<u32>,
    /// Events were lost: every file may have changed.
    pub overflow: bool,
}

impl Hints {
    pub(super) fn new(calls: &Calls) -> io::Result<Self> {
        Ok(Self {
            instance: (calls.hints)()?,
            files: BTreeSet::new(),
            silent: HashSet::new(),
            exhausted: false,
        })
    }

    /// Waits for events, for whoever waits elsewhere.
    pub(super) fn waiter(&self) -> io::Result<Waiter> {
        Ok(Waiter {
            instance: self.instance.try_clone()?,
        })
    }

    /// Wants the events of a file.
    ///
    /// # Errors
    /// When the system gives no further watch; said once.
    pub(super) fn watch(
        &mut self,
        calls: &Calls,
        path: &Path,
        file: u32,
    ) -> io::Result<WatchAnswer> {
        let (Some(folder), Some(name)) = (folder_of(path), path.file_name()) else {
            return Ok(WatchAnswer::Never);
        };
        if self.silent.contains(folder) {
            return Ok(WatchAnswer::Never);
        }
        let watch = match self.add(calls, folder) {
            Ok(Some(watch)) => watch,
            Ok(None) => return Ok(WatchAnswer::Never),
            Err(error) if is_missing(&error) => return Ok(WatchAnswer::NotYet),
            Err(_) if self.exhausted => return Ok(WatchAnswer::Never),
            Err(error) => {
                self.exhausted = true;
                return Err(error);
            }
        };
        self.files.insert((watch, hash(name), file));
        Ok(WatchAnswer::Yes(watch))
    }

    fn add(&mut self, calls: &Calls, path: &Path) -> io::Result<Option<i32>> {
        // statfs before the watch: one that exists costs the server of a network file system nothing,
        // but is worth nothing either.
        if std::fs::metadata(path)?.is_dir() && calls.is_network(path) {
            self.silent.insert(path.to_owned());
            return Ok(None);
        }
        (calls.watch)(&self.instance, path).map(Some)
    }

    /// Wants them no more.
    pub(super) fn unwatch(&mut self, watch: i32, path: &Path, file: u32) {
        if let Some(name) = path.file_name() {
            self.files.remove(&(watch, hash(name), file));
        }
        if self.files.range(in_folder(watch)).next().is_none() {
            inotify::remove_watch(&self.instance, watch).ok();
        }
    }

    /// Reads the events that have come. Waits for none.
    pub(super) fn hear(&mut self) -> WatchEvents {
        let mut heard = WatchEvents::default();
        let mut lost = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.instance, &mut buffer);
        for _ in 0..READS_MAX {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                heard.overflow = true;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                lost.push(event.wd());
            }
            if let Some(name) = event.file_name() {
                let (watch, name) = (event.wd(), hash(OsStr::from_bytes(name.to_bytes())));
                let files = self.files.range((watch, name, 0)..=(watch, name, u32::MAX));
                heard.files.extend(files.map(|(_, _, file)| *file));
            }
        }
        for watch in lost {
            let files = self.files.extract_if(in_folder(watch), |_| true);
            heard.unwatched.extend(files.map(|(_, _, file)| file));
        }
        heard
    }
}

/// All files of a folder.
fn in_folder(watch: i32) -> RangeInclusive<(i32, u32, u32)> {
    (watch, 0, 0)..=(watch, u32::MAX, u32::MAX)
}

fn hash(name: &OsStr) -> u32 {
    u32::try_from(fingerprint(name.as_bytes()) >> 32).unwrap_or_default()
}

/// The folder that a file is in; that of a bare name is the present one.
fn folder_of(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    })
}

/// Waits for the first event, in another thread or where there is nothing else to wait for.
#[derive(Debug)]
pub struct Waiter {
    instance: OwnedFd,
}

impl Waiter {
    /// Waits at most so long. True when an event has come and was not yet read.
    pub fn wait(&self, at_most: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.instance, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}
