//! All followed files: which is looked at, and when.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use jiff::Timestamp;

use super::calls::Calls;
use super::entry::{FollowerEntry, WatchState, read_some};
use super::hints::{Hints, Waiter, WatchAnswer};
use super::position::{FilePosition, TAIL};
use super::record::{FileRecord, LookContext};
use super::{FollowStart, Growth};

/// Bytes of a log that are read at once, for all logs into the same buffer.
const CHUNK: usize = 256 * 1024;

/// Milliseconds by which a look may be early, so that a caller that ticks need not tick exactly.
const EARLY_MS: i64 = 100;

/// Milliseconds by which the clock may be set back before all logs are looked at anew.
const SET_BACK_MS: i64 = 60_000;

/// How a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookMode {
    /// If it is time, or an event came.
    Due,
    /// In any case.
    Now,
    /// In any case, and nobody will write to it any more: wait for nothing.
    Last,
}

/// A file that is followed; dropping this ends it.
#[derive(Debug)]
pub struct Followed {
    file: u32,
    gone: Sender<u32>,
}

impl Followed {
    #[cfg(test)]
    pub(super) fn file(&self) -> u32 {
        self.file
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // When the followers are gone there is nothing left to end.
        let _ = self.gone.send(self.file);
    }
}

/// All files that are followed: one buffer, one inotify instance, one schedule. Dropped files are
/// forgotten at the next call.
#[derive(Debug)]
pub struct Followers {
    pub(super) calls: Calls,
    entries: Vec<Option<FollowerEntry>>,
    free: Vec<u32>,
    /// When each is to be looked at next, in milliseconds since 1970: a row of numbers, quicker to go
    /// through as a whole than any queue is to keep.
    due: Vec<i64>,
    latest: i64,
    pub(super) hints: Option<Hints>,
    woken: Vec<u32>,
    gone: (Sender<u32>, Receiver<u32>),
    buffer: Vec<u8>,
    pub(super) held: usize,
    notices: Vec<String>,
    out_of_descriptors: bool,
}

impl Followers {
    /// Follows by polling, with inotify to shorten the wait where there is any.
    pub fn new() -> Self {
        Self::with(Calls::SYSTEM, true)
    }

    /// Follows by polling alone.
    pub fn polling() -> Self {
        Self::with(Calls::SYSTEM, false)
    }

    pub(super) fn with(calls: Calls, hints: bool) -> Self {
        let mut notices = Vec::new();
        let hints = hints.then(|| Hints::new(&calls)).and_then(|hints| {
            let why = |e| format!("no inotify instance ({e}): logs are polled");
            hints.map_err(|e| notices.push(why(e))).ok()
        });
        Self {
            calls,
            entries: Vec::new(),
            free: Vec::new(),
            due: Vec::new(),
            latest: i64::MIN,
            hints,
            woken: Vec::new(),
            gone: channel(),
            buffer: vec![0; CHUNK + TAIL],
            held: 0,
            notices,
            out_of_descriptors: false,
        }
    }

    /// Is a file where nobody writes over a network? One that does not exist is where its folder is.
    pub fn is_local(&self, followed: &Followed) -> bool {
        let Some(entry) = self
            .entries
            .get(followed.file as usize)
            .and_then(Option::as_ref)
        else {
            return false;
        };
        let path = &entry.record.path;
        let ask = || {
            self.calls.is_network(path) && path.parent().is_none_or(|p| self.calls.is_network(p))
        };
        !entry.record.network.unwrap_or_else(ask)
    }

    /// Follows a file, which need not exist. `group` is handed back by [`Followers::ready`]: the caller's
    /// number for what the file belongs to.
    pub fn follow(&mut self, path: PathBuf, start: FollowStart, group: u64) -> Followed {
        self.reap();
        let position = match start {
            FollowStart::At(offset) => FilePosition::at(offset),
            FollowStart::Checkpoint(checkpoint) => checkpoint,
        };
        let entry = FollowerEntry::new(FileRecord::new(path, position), group);
        let file = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.due.push(i64::MAX);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.entries[file as usize] = Some(entry);
        self.due[file as usize] = i64::MIN;
        Followed {
            file,
            gone: self.gone.0.clone(),
        }
    }

    /// Where a file stands, to be started from later.
    pub fn checkpoint(&self, file: &Followed) -> FilePosition {
        self.entry(file.file)
            .map(|e| e.record.position)
            .unwrap_or_default()
    }

    /// The path of a file.
    pub fn path(&self, file: &Followed) -> &Path {
        self.entry(file.file)
            .map_or(Path::new(""), |e| &e.record.path)
    }

    /// Something that waits for events; none where there are none.
    pub fn waiter(&self) -> Option<Waiter> {
        self.hints.as_ref().and_then(|h| h.waiter().ok())
    }

    /// What does not work as it should, for all files; each said once.
    pub fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Groups with a file of which an event came, or that was not read to its end. Each once, in order.
    pub fn woken(&mut self) -> Vec<u64> {
        self.reap();
        self.hear();
        let mut groups: Vec<u64> = std::mem::take(&mut self.woken)
            .into_iter()
            .filter_map(|file| self.entry(file).map(|e| e.group))
            .collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// True if [`Followers::woken`] has something to say without an event.
    pub fn is_behind(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Groups with a file that is to be looked at now, for whatever reason. Each once, in order;
    /// again at the next call, unless it was read.
    pub fn ready(&mut self, now: Timestamp) -> Vec<u64> {
        let mut groups = self.woken();
        let now = now.as_millisecond();
        if now.saturating_add(SET_BACK_MS) < self.latest {
            self.all_due();
        }
        self.latest = now;
        let due = self.due.iter().zip(&self.entries);
        let due = due.filter(|(due, _)| **due <= now);
        groups.extend(due.filter_map(|(_, entry)| entry.as_ref().map(|e| e.group)));
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// When a look is due next, if no event comes before.
    pub fn next_due(&self) -> Option<Timestamp> {
        let at = self.due.iter().min().filter(|at| **at < i64::MAX)?;
        Some(Timestamp::from_millisecond(*at).unwrap_or(Timestamp::MIN))
    }

    /// Looks at a file, reads a bounded part of what is new and tells it. False if there was nothing.
    pub fn read(
        &mut self,
        file: &Followed,
        now: Timestamp,
        look: LookMode,
        each: &mut dyn FnMut(Growth<'_>),
    ) -> bool {
        let number = file.file;
        let now = now.as_millisecond();
        self.watch(number);
        let Some(entry) = self
            .entries
            .get_mut(number as usize)
            .and_then(Option::as_mut)
        else {
            return false;
        };
        let due = &mut self.due[number as usize];
        if look == LookMode::Due && !entry.hinted && *due > now.saturating_add(EARLY_MS) {
            return false;
        }
        let mut desk = LookContext {
            calls: &self.calls,
            buffer: &mut self.buffer,
            held: &mut self.held,
            now,
            last: look == LookMode::Last,
            likely: entry.hinted,
        };
        let seen = read_some(&mut entry.record, &mut desk, each);
        if seen.out_of_descriptors && !std::mem::replace(&mut self.out_of_descriptors, true) {
            self.notices
                .push("no file descriptor left to read logs with: it is tried again".into());
        }
        *due = entry.reschedule(&seen, now);
        if seen.behind {
            self.woken.push(number);
        }
        seen.anything
    }

    /// What a followed file costs besides its path and, in its folder, its name.
    #[cfg(test)]
    pub(super) fn bytes_per_file() -> usize {
        size_of::<Option<FollowerEntry>>() + size_of::<i64>()
    }

    fn entry(&self, file: u32) -> Option<&FollowerEntry> {
        self.entries.get(file as usize).and_then(Option::as_ref)
    }

    /// Asks for the events of a file whose events are wanted.
    fn watch(&mut self, file: u32) {
        let Some(entry) = self.entries.get_mut(file as usize).and_then(Option::as_mut) else {
            return;
        };
        if entry.watch != WatchState::Wanted {
            return;
        }
        let Some(hints) = &mut self.hints else {
            entry.watch = WatchState::No;
            return;
        };
        entry.watch = match hints.watch(&self.calls, &entry.record.path, file) {
            Ok(WatchAnswer::Yes(number)) => {
                entry.number = Some(number);
                WatchState::Yes
            }
            Ok(WatchAnswer::NotYet) => WatchState::Wanted,
            Ok(WatchAnswer::Never) => WatchState::No,
            Err(error) => {
                let what = format!("no further inotify watch ({error}): other logs are polled");
                self.notices.push(what);
                WatchState::No
            }
        };
    }

    /// Takes note of the events that have come.
    fn hear(&mut self) {
        let Some(hints) = &mut self.hints else {
            return;
        };
        let heard = hints.hear();
        for file in heard.files {
            if let Some(entry) = self.entries.get_mut(file as usize).and_then(Option::as_mut) {
                entry.watch = WatchState::Yes;
                if !std::mem::replace(&mut entry.hinted, true) {
                    self.woken.push(file);
                }
            }
        }
        for file in heard.unwatched {
            if let Some(entry) = self.entries.get_mut(file as usize).and_then(Option::as_mut) {
                entry.watch = WatchState::Wanted;
                entry.hinted = true;
                self.woken.push(file);
            }
        }
        if heard.overflow {
            self.all_due();
        }
    }

    /// Every file may have changed.
    fn all_due(&mut self) {
        for (due, entry) in self.due.iter_mut().zip(&self.entries) {
            if entry.is_some() {
                *due = i64::MIN;
            }
        }
    }

    /// Forgets files that were dropped.
    fn reap(&mut self) {
        while let Ok(file) = self.gone.1.try_recv() {
            let slot = self.entries.get_mut(file as usize).and_then(Option::take);
            if let Some(mut entry) = slot {
                entry.record.close(&mut self.held);
                if let (Some(hints), Some(number)) = (&mut self.hints, entry.number) {
                    hints.unwatch(number, &entry.record.path, file);
                }
                self.due[file as usize] = i64::MAX;
                self.free.push(file);
            }
        }
    }
}

impl Default for Followers {
    fn default() -> Self {
        Self::new()
    }
}
