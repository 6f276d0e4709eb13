//! inotify: a word that a folder's file may have grown. It shortens a wait and decides nothing.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, ReadFlags, Reader};
use rustix::io::Errno;

use super::calls::{Calls, is_missing};

/// Most reads of events in one go; a queue that fills faster is read on at the next one.
const READS_MAX: usize = 4_096;

/// A folder whose events are wanted.
#[derive(Debug)]
struct Folder {
    path: Arc<Path>,
    /// The followed files in it, by name. Sorted; small where there is one.
    names: Vec<(Box<OsStr>, u32)>,
}

impl Folder {
    /// Where the files of a name are.
    fn range(&self, name: &OsStr) -> Range<usize> {
        let start = self.names.partition_point(|(n, _)| **n < *name);
        let length = self.names[start..].partition_point(|(n, _)| **n == *name);
        start..start + length
    }
}

/// The one inotify instance.
#[derive(Debug)]
pub(super) struct Hints {
    instance: OwnedFd,
    folders: HashMap<i32, Folder>,
    watches: HashMap<Arc<Path>, i32>,
    /// Folders on network file systems.
    silent: HashSet<PathBuf>,
    /// The system gives no further watch.
    exhausted: bool,
}

/// What came of asking for events of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Watched {
    Yes,
    /// Not there yet; ask again.
    NotYet,
    /// There are none, on this file system or any more.
    Never,
}

/// What the events say.
#[derive(Debug, Default)]
pub(super) struct Heard {
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
            folders: HashMap::new(),
            watches: HashMap::new(),
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
    pub(super) fn watch(&mut self, calls: &Calls, path: &Path, file: u32) -> io::Result<Watched> {
        let (Some(folder), Some(name)) = (folder_of(path), path.file_name()) else {
            return Ok(Watched::Never);
        };
        let known = self.watches.get(folder).copied();
        let watch = match known.filter(|w| self.folders.contains_key(w)) {
            Some(watch) => watch,
            None if self.exhausted || self.silent.contains(folder) => {
                return Ok(Watched::Never);
            }
            None => match self.add(calls, folder) {
                Ok(Some(watch)) => watch,
                Ok(None) => return Ok(Watched::Never),
                Err(error) if is_missing(&error) => return Ok(Watched::NotYet),
                Err(error) => {
                    self.exhausted = true;
                    return Err(error);
                }
            },
        };
        if let Some(folder) = self.folders.get_mut(&watch) {
            let range = folder.range(name);
            if !folder.names[range.clone()].iter().any(|(_, f)| *f == file) {
                folder.names.insert(range.end, (name.into(), file));
            }
        }
        Ok(Watched::Yes)
    }

    fn add(&mut self, calls: &Calls, path: &Path) -> io::Result<Option<i32>> {
        // statfs before the watch: one that exists costs the server of a network file system nothing,
        // but is worth nothing either.
        if std::fs::metadata(path)?.is_dir() && calls.is_network(path) {
            self.silent.insert(path.to_owned());
            return Ok(None);
        }
        let watch = (calls.watch)(&self.instance, path)?;
        // A path that leads to a folder that is watched already has the same watch.
        let path: Arc<Path> = path.into();
        self.watches.insert(Arc::clone(&path), watch);
        self.folders.entry(watch).or_insert_with(|| Folder {
            path,
            names: Vec::with_capacity(1),
        });
        Ok(Some(watch))
    }

    /// Wants them no more.
    pub(super) fn unwatch(&mut self, path: &Path, file: u32) {
        let Some(watch) = folder_of(path).and_then(|f| self.watches.get(f)).copied() else {
            return;
        };
        let Some(folder) = self.folders.get_mut(&watch) else {
            return;
        };
        if let Some(name) = path.file_name() {
            let range = folder.range(name);
            let found = folder.names[range.clone()]
                .iter()
                .position(|(_, f)| *f == file);
            if let Some(at) = found {
                folder.names.remove(range.start + at);
            }
        }
        if folder.names.is_empty() {
            inotify::remove_watch(&self.instance, watch).ok();
            self.forget(watch);
        }
    }

    fn forget(&mut self, watch: i32) -> Vec<u32> {
        let Some(folder) = self.folders.remove(&watch) else {
            return Vec::new();
        };
        self.watches.remove(&folder.path);
        folder.names.into_iter().map(|(_, file)| file).collect()
    }

    /// Reads the events that have come. Waits for none.
    pub(super) fn hear(&mut self) -> Heard {
        let mut heard = Heard::default();
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
            let folder = self.folders.get(&event.wd());
            if let (Some(folder), Some(name)) = (folder, event.file_name()) {
                let range = folder.range(OsStr::from_bytes(name.to_bytes()));
                heard
                    .files
                    .extend(folder.names[range].iter().map(|(_, f)| *f));
            }
        }
        for watch in lost {
            heard.unwatched.extend(self.forget(watch));
        }
        heard
    }
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
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.instance, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}
