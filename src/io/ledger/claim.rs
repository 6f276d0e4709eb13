//! One writer per run.
//!
//! Ownership is a file `owner-<epoch>.json`, made by a hard link, which is atomic on NFS too; the
//! highest epoch is the present owner. To take over is to make the next one, which only one of two
//! can do. Locks of the file system are not used: on shared file systems they may hold for one node
//! only, or fail.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LedgerError;
use crate::io::disk;
use crate::io::files::{io_error, read_bounded, sync_dir};
use crate::io::scheduler::local::process;

/// Seconds without a heartbeat after which an owner on another host may be dead.
const STALE_S: u64 = 120;
/// Largest owner file that is read, in bytes.
const OWNER_MAX: u64 = 4_096;
/// How often two processes that take over at the same time look again.
const TRIES: u32 = 8;

/// Who writes a run's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerOwner {
    /// Number of the owner, from 1.
    pub epoch: u64,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// When the process started, in clock ticks since the boot (`/proc/PID/stat`, field 22).
    pub started: u64,
    /// Boot of the host (`/proc/sys/kernel/random/boot_id`) and the process-id namespace.
    pub boot: String,
    /// True when it gave the run back.
    #[serde(default)]
    pub released: bool,
}

/// When a run may be taken from its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// When the owner is surely or probably dead.
    IfDead,
    /// Always: the user says that the owner is gone.
    Forced,
}

/// What can be told of an owner from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    Alive,
    Gone,
}

/// Our ownership of a run.
#[derive(Debug)]
pub struct LedgerClaim {
    dir: PathBuf,
    owner: LedgerOwner,
}

/// The present owner of a run that has one and did not give it back.
///
/// # Errors
/// When the folder cannot be read.
pub fn owner(dir: &Path) -> Result<Option<LedgerOwner>, LedgerError> {
    let Some(epoch) = highest(dir)? else {
        return Ok(None);
    };
    Ok(load(dir, epoch)?.filter(|o| !o.released && life(dir, o) == OwnerState::Alive))
}

impl LedgerClaim {
    /// Becomes the owner of a run.
    ///
    /// # Errors
    /// When another process owns it, or the folder cannot be written.
    pub fn take(dir: &Path, takeover: Takeover) -> Result<Self, LedgerError> {
        for _ in 0..TRIES {
            let last = highest(dir)?;
            if let Some(last) = last {
                let Some(owner) = load(dir, last)? else {
                    continue;
                };
                let free = owner.released || takeover == Takeover::Forced;
                if !free && life(dir, &owner) == OwnerState::Alive {
                    return Err(LedgerError::Owned {
                        dir: dir.to_owned(),
                        owner: Box::new(owner),
                    });
                }
            }
            let owner = myself(last.unwrap_or(0) + 1);
            if make(dir, &owner)? {
                // Others may have come and gone since `last` was read, so that this number was free
                // again: then it is not the highest.
                if highest(dir)? != Some(owner.epoch) {
                    let _ = disk::remove_file(&file_of(dir, owner.epoch));
                    continue;
                }
                // All of them: an owner that was killed here may have left the one that it replaced, who
                // would not notice that there was yet another after it.
                for epoch in epochs(dir)?.into_iter().filter(|e| *e < owner.epoch) {
                    let _ = disk::remove_file(&file_of(dir, epoch));
                }
                return Ok(Self {
                    dir: dir.to_owned(),
                    owner,
                });
            }
        }
        Err(LedgerError::TakenOver {
            dir: dir.to_owned(),
        })
    }

    /// Number of this owner.
    pub fn epoch(&self) -> u64 {
        self.owner.epoch
    }

    /// Who we are.
    pub fn owner(&self) -> &LedgerOwner {
        &self.owner
    }

    /// Folder of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Is it still ours? Our own file is opened, for that makes a network file system ask its server.
    pub fn holds(&self) -> bool {
        let next = file_of(&self.dir, self.owner.epoch + 1);
        let mine = load(&self.dir, self.owner.epoch);
        mine.is_ok_and(|o| o.as_ref() == Some(&self.owner)) && !disk::is_there(&next)
    }

    /// Tells others that we are alive, in the clock of the file system.
    ///
    /// # Errors
    /// When the owner's file cannot be touched.
    pub fn heartbeat(&self) -> Result<(), LedgerError> {
        let path = file_of(&self.dir, self.owner.epoch);
        let file = fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(io_error("touch", &path))?;
        Ok(disk::touch(&file).map_err(io_error("touch", &path))?)
    }
}

/// Gives the run back. A failure costs the next owner the wait for our death, nothing else.
impl Drop for LedgerClaim {
    fn drop(&mut self) {
        if !self.holds() {
            return;
        }
        self.owner.released = true;
        let path = file_of(&self.dir, self.owner.epoch);
        if let Ok(text) = serde_json::to_vec(&self.owner) {
            let _ = crate::io::files::write_atomic(&path, &text, crate::io::files::Access::Private);
        }
    }
}

fn file_of(dir: &Path, epoch: u64) -> PathBuf {
    dir.join(format!("owner-{epoch}.json"))
}

/// The highest epoch that has an owner file.
fn highest(dir: &Path) -> Result<Option<u64>, LedgerError> {
    Ok(epochs(dir)?.into_iter().max())
}

/// The epochs that have an owner file.
fn epochs(dir: &Path) -> Result<Vec<u64>, LedgerError> {
    let names = disk::names(dir).map_err(io_error("read", dir))?;
    let epoch = |name: &std::ffi::OsString| {
        let number = name.to_str()?.strip_prefix("owner-")?;
        number.strip_suffix(".json")?.parse().ok()
    };
    Ok(names.iter().filter_map(epoch).collect())
}

/// The owner of an epoch; `None` when its file went away in between.
fn load(dir: &Path, epoch: u64) -> Result<Option<LedgerOwner>, LedgerError> {
    let path = file_of(dir, epoch);
    let bytes = match read_bounded(&path, OWNER_MAX) {
        Ok(bytes) => bytes,
        Err(crate::io::files::FileError::Io { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            return Ok(None);
        }
        Err(e) => return Err(e.into()),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| LedgerError::Damaged {
            path,
            line: 1,
            why: format!("not an owner ({e})"),
        })
}

/// Makes the owner file of an epoch with its content in one step. False when another was faster.
fn make(dir: &Path, owner: &LedgerOwner) -> Result<bool, LedgerError> {
    let path = file_of(dir, owner.epoch);
    let failed = || io_error("create", &path);
    let file = disk::temporary(dir, ".oomctl-owner-", 0o600).map_err(failed())?;
    let text = serde_json::to_vec(owner).map_err(|e| failed()(e.into()))?;
    file.as_file().write_all(&text).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    match disk::hard_link(file.path(), &path) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => return Err(failed()(e).into()),
    }
    sync_dir(dir)?;
    Ok(true)
}

/// Is the owner alive, as far as it can be told from here?
fn life(dir: &Path, owner: &LedgerOwner) -> OwnerState {
    let here = myself(0);
    if owner.host == here.host {
        let (boot, namespace) = split_boot(&owner.boot);
        let (my_boot, my_namespace) = split_boot(&here.boot);
        if boot != my_boot {
            return OwnerState::Gone;
        }
        if namespace == my_namespace {
            let started = process_start(owner.pid);
            return if started == Some(owner.started) {
                OwnerState::Alive
            } else {
                OwnerState::Gone
            };
        }
    }
    match silence(dir, owner.epoch) {
        Some(age) if age > Duration::from_secs(STALE_S) => OwnerState::Gone,
        _ => OwnerState::Alive,
    }
}

fn split_boot(boot: &str) -> (&str, &str) {
    boot.split_once(' ').unwrap_or((boot, ""))
}

/// How long an owner has given no heartbeat, in the clock of the file system: a file made now gives
/// the time to compare with, so that the clocks of two hosts need not agree.
fn silence(dir: &Path, epoch: u64) -> Option<Duration> {
    let beat = fs::metadata(file_of(dir, epoch)).ok()?.modified().ok()?;
    Some(disk::time(dir)?.duration_since(beat).unwrap_or_default())
}

/// This process as an owner.
fn myself(epoch: u64) -> LedgerOwner {
    #[cfg(test)]
    if let Some(owner) = crate::io::trial::with(|t| t.process()) {
        return LedgerOwner { epoch, ..owner };
    }
    let pid = std::process::id();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    LedgerOwner {
        epoch,
        host: process::host_name(),
        pid,
        started: process_start(pid).unwrap_or(0),
        boot: format!("{} {}", process::boot_id(), namespace.display()),
        released: false,
    }
}

fn process_start(pid: u32) -> Option<u64> {
    #[cfg(test)]
    if let Some(started) = crate::io::trial::with(|t| t.started(pid)) {
        return started;
    }
    process::start(i32::try_from(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant(dir: &Path, owner: &LedgerOwner) {
        fs::write(
            file_of(dir, owner.epoch),
            serde_json::to_vec(owner).unwrap(),
        )
        .unwrap();
    }

    #[test]
    fn the_second_owner_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let first = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap();
        let error = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        assert!(first.holds());
        assert_eq!(owner(dir.path()).unwrap().as_ref(), Some(first.owner()));
    }

    #[test]
    fn a_released_run_is_free_and_the_epoch_grows() {
        let dir = tempfile::tempdir().unwrap();
        let first = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap();
        assert_eq!(first.epoch(), 1);
        drop(first);
        assert_eq!(owner(dir.path()).unwrap(), None);
        let second = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap();
        assert_eq!(second.epoch(), 2);
    }

    #[test]
    fn a_dead_process_of_this_host_is_replaced_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut dead = myself(4);
        dead.started += 1; // the pid lives, but as another process
        plant(dir.path(), &dead);
        assert_eq!(
            LedgerClaim::take(dir.path(), Takeover::IfDead)
                .unwrap()
                .epoch(),
            5
        );
    }

    #[test]
    fn a_reboot_frees_a_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut dead = myself(1);
        dead.boot = "another-boot".to_owned();
        plant(dir.path(), &dead);
        assert!(LedgerClaim::take(dir.path(), Takeover::IfDead).is_ok());
    }

    #[test]
    fn an_owner_on_another_host_is_replaced_only_when_it_is_silent() {
        let dir = tempfile::tempdir().unwrap();
        let mut other = myself(1);
        other.host = "login2".to_owned();
        plant(dir.path(), &other);
        assert!(LedgerClaim::take(dir.path(), Takeover::IfDead).is_err());
        let file = fs::File::options()
            .write(true)
            .open(file_of(dir.path(), 1))
            .unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(STALE_S + 5);
        file.set_modified(old).unwrap();
        assert_eq!(
            LedgerClaim::take(dir.path(), Takeover::IfDead)
                .unwrap()
                .epoch(),
            2
        );
    }

    #[test]
    fn a_heartbeat_keeps_a_run() {
        let dir = tempfile::tempdir().unwrap();
        let claim = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(file_of(dir.path(), 1))
            .unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(STALE_S + 5);
        file.set_modified(old).unwrap();
        assert!(silence(dir.path(), 1).unwrap() > Duration::from_secs(STALE_S));
        claim.heartbeat().unwrap();
        assert!(silence(dir.path(), 1).unwrap() < Duration::from_secs(STALE_S));
    }

    #[test]
    fn whoever_was_replaced_notices() {
        let dir = tempfile::tempdir().unwrap();
        let first = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap();
        let second = LedgerClaim::take(dir.path(), Takeover::Forced).unwrap();
        assert!(!first.holds());
        assert!(second.holds());
        drop(first);
        assert!(second.holds(), "a late release changes nothing");
    }

    #[test]
    fn whoever_was_replaced_twice_notices_too() {
        let dir = tempfile::tempdir().unwrap();
        let first = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap();
        // Its successor was killed before it could clear up.
        let mut dead = myself(2);
        dead.started += 1;
        plant(dir.path(), &dead);
        let third = LedgerClaim::take(dir.path(), Takeover::IfDead).unwrap();
        assert_eq!(third.epoch(), 3);
        assert!(third.holds() && !first.holds());
    }

    #[test]
    fn of_many_that_take_over_at_once_one_wins() {
        let dir = tempfile::tempdir().unwrap();
        let mut dead = myself(1);
        dead.started += 1;
        plant(dir.path(), &dead);
        let start = std::sync::Barrier::new(8);
        let won: Vec<Option<LedgerClaim>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        LedgerClaim::take(dir.path(), Takeover::IfDead).ok()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(won.iter().flatten().count(), 1);
    }
}
