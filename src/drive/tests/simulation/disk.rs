//! The disk of the simulated world: what is not durable yet, and what hosts remember of it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::planted::Bug;
use crate::io::disk::DiskChange;

/// Longest time for which a host may answer from its cache, in seconds: `acregmax` and `acdirmax` of
/// nfs(5) are 60.
const CACHE_S: i64 = 60;

/// A change that a crash of its host may undo.
#[derive(Debug)]
struct Pending {
    host: usize,
    path: PathBuf,
    before: Option<Vec<u8>>,
    appended: bool,
}

#[derive(Debug, Default)]
pub struct Disk {
    /// No space is left until then.
    pub full: i64,
    pending: Vec<Pending>,
    /// What each host wrote itself, for a mistake that trusts it.
    lengths: HashMap<(usize, PathBuf), u64>,
    there: HashMap<(usize, PathBuf), (bool, i64)>,
    listings: HashMap<(usize, PathBuf), (Vec<OsString>, i64)>,
}

impl Disk {
    /// Takes note of a change.
    pub fn change(&mut self, host: usize, change: DiskChange<'_>, room: usize, bug: Option<Bug>) {
        match change {
            DiskChange::Append(path, _) => {
                self.remember(host, path, true);
                let key = (host, path.to_owned());
                if let Some(seen) = self.lengths.get_mut(&key) {
                    *seen += room as u64;
                }
            }
            DiskChange::Replace(path) | DiskChange::Link(path) | DiskChange::Remove(path) => {
                self.remember(host, path, false);
                self.forget(host, path);
            }
            DiskChange::Sync(path) => {
                if bug != Some(Bug::NoSync) {
                    self.pending.retain(|p| p.path != path || !p.appended);
                }
            }
            DiskChange::SyncDir(dir) => {
                self.pending
                    .retain(|p| p.appended || p.path.parent() != Some(dir));
            }
            DiskChange::MakeDir(path) => self.forget(host, path),
        }
    }

    /// A host's own changes are in its cache.
    fn forget(&mut self, host: usize, path: &Path) {
        self.there.remove(&(host, path.to_owned()));
        if let Some(dir) = path.parent() {
            self.listings.remove(&(host, dir.to_owned()));
        }
    }

    fn remember(&mut self, host: usize, path: &Path, appended: bool) {
        if self
            .pending
            .iter()
            .any(|p| p.path == path && p.host == host && p.appended == appended)
        {
            return;
        }
        self.pending.push(Pending {
            host,
            path: path.to_owned(),
            before: fs::read(path).ok(),
            appended,
        });
    }

    /// Is all of this file durable?
    pub fn is_durable(&self, path: &Path) -> bool {
        !self.pending.iter().any(|p| p.path == path && p.appended)
    }

    /// Undoes what was not synchronised, or a part of it.
    pub fn crash(&mut self, host: usize, choose: &mut dyn FnMut(u32) -> u32) {
        let (lost, kept) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|p| p.host == host);
        self.pending = kept;
        for pending in lost.into_iter().rev() {
            let Pending {
                path,
                before,
                appended,
                ..
            } = pending;
            if !appended {
                if choose(2) == 1 {
                    let _ = match before {
                        Some(bytes) => fs::write(&path, bytes),
                        None => fs::remove_file(&path),
                    };
                }
                continue;
            }
            let before = before.unwrap_or_default();
            let Ok(now) = fs::read(&path) else { continue };
            let Some(tail) = now.strip_prefix(&before[..]) else {
                continue;
            };
            let cut = choose(u32::try_from(tail.len() + 1).unwrap()) as usize;
            let mut left = now[..now.len() - cut].to_vec();
            if choose(4) == 3 {
                // Blocks that were given out and never written.
                left.resize(now.len(), 0);
            }
            fs::write(&path, left).unwrap();
        }
        self.refresh(host);
    }

    /// A host forgets what it remembers.
    pub fn refresh(&mut self, host: usize) {
        self.lengths.retain(|(h, _), _| *h != host);
        self.there.retain(|(h, _), _| *h != host);
        self.listings.retain(|(h, _), _| *h != host);
    }

    pub fn length(&mut self, host: usize, path: &Path, real: u64, bug: Option<Bug>) -> u64 {
        let seen = self.lengths.entry((host, path.to_owned())).or_insert(real);
        if bug != Some(Bug::NoOwner) {
            *seen = real;
        }
        *seen
    }

    pub fn is_there(&mut self, host: usize, path: &Path, real: bool, old: bool, now: i64) -> bool {
        let seen = self
            .there
            .entry((host, path.to_owned()))
            .or_insert((real, now));
        if now - seen.1 > CACHE_S || !old {
            *seen = (real, now);
        }
        seen.0
    }

    pub fn names(
        &mut self,
        host: usize,
        dir: &Path,
        real: &[OsString],
        old: bool,
        now: i64,
    ) -> Vec<OsString> {
        let seen = self.listings.entry((host, dir.to_owned()));
        let seen = seen.or_insert_with(|| (real.to_vec(), now));
        if now - seen.1 > CACHE_S || !old {
            *seen = (real.to_vec(), now);
        }
        seen.0.clone()
    }
}
