//! The folder in which runs are kept: everything that the ledger does to a file is done once, to a file of our own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, StatVfs, flock, statvfs};

use crate::io::files::is_full;
use crate::io::finding::{CheckFinding, CheckHealth};
use oomctl_base::units::Bytes;
use oomctl_follow::network_file_system;

/// Below this a run of a few attempts may not find room for its logs, in bytes.
const LITTLE: u64 = 1 << 30;
/// Below this a ledger may not, in bytes.
const NOTHING: u64 = 16 << 20;
/// Files that a few runs make.
const FEW_FILES: u64 = 1_000;
/// Seconds between two clocks that mean nothing.
const CLOCK_S: i64 = 5;

/// Looks at the folder, or at the nearest one above it that exists.
pub fn folder(path: &Path) -> Vec<CheckFinding> {
    let there = path.ancestors().find(|p| p.is_dir()).unwrap_or(path);
    let mut findings = vec![place(there)];
    let trial = tempfile::Builder::new()
        .prefix(".oomctl-doctor-")
        .tempdir_in(there);
    match &trial {
        Ok(trial) => {
            findings.push(files(trial.path()));
            findings.push(lock(trial.path()));
            findings.extend(clock(trial.path()));
        }
        Err(e) => {
            let (shown, why) = (there.display(), e.kind());
            let found = format!("cannot write in {shown}: {why}");
            let advice = "oomctl keeps runs in .oomctl/runs of the project: work in a folder that you can write, or `chmod u+w` this one";
            findings.push(CheckFinding::with(CheckHealth::Bad, "files", found, advice));
        }
    }
    findings.extend(statvfs(there).ok().map(|room| space(&room)));
    findings
}

fn place(there: &Path) -> CheckFinding {
    let shown = there.display();
    match network_file_system(there) {
        Ok(Some(name)) => CheckFinding::good("run folder", format!("{shown}, on {name}")),
        Ok(None) => CheckFinding {
            advice: Some("fine for jobs on this machine; with Slurm use a file system that the compute nodes share".to_owned()),
            ..CheckFinding::good("run folder", format!("{shown}, on a file system of this machine"))
        },
        Err(e) => CheckFinding::with(
            CheckHealth::Odd,
            "run folder",
            format!("{shown}: cannot determine its file system: {e}"),
            "see the lines below; if they are good, nothing to do",
        ),
    }
}

/// Written and synced, renamed, linked: without these a ledger is not safe.
fn files(folder: &Path) -> CheckFinding {
    let tried = [
        (
            "write and sync a file",
            write as fn(&Path) -> io::Result<()>,
        ),
        ("rename a file over another", rename),
        ("make a hard link", link),
        ("sync a folder", |folder| File::open(folder)?.sync_all()),
    ];
    let failed = tried
        .iter()
        .find_map(|(what, act)| act(folder).err().map(|e| (what, e)));
    match failed {
        None => CheckFinding::good("files", "write, sync, rename and hard link work"),
        Some((what, e)) => CheckFinding::with(
            CheckHealth::Bad,
            "files",
            format!("cannot {what}: {e}"),
            match is_full(&e) {
                true => "the disk is full: free some space (`df -h .`, `df -i .`, `quota`)",
                false => {
                    "use another file system for the project (home or scratch, not an object store)"
                }
            },
        ),
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let mut file = File::create(folder.join("a"))?;
    file.write_all(b"oomctl doctor\n")?;
    file.sync_all()
}

fn rename(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("b"), b"older\n")?;
    fs::rename(folder.join("a"), folder.join("b"))
}

fn link(folder: &Path) -> io::Result<()> {
    fs::hard_link(folder.join("b"), folder.join("c"))?;
    match fs::metadata(folder.join("c"))?.nlink() {
        2 => Ok(()),
        links => Err(io::Error::other(format!(
            "the file system counts {links} links of 2"
        ))),
    }
}

fn lock(folder: &Path) -> CheckFinding {
    let locked = File::create(folder.join("lock"))
        .map_err(|e| e.to_string())
        .and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|e| e.to_string())
        });
    match locked {
        Ok(()) => CheckFinding::good("locks", "flock works"),
        Err(e) => CheckFinding::with(
            CheckHealth::Odd,
            "locks",
            format!("flock: {e}"),
            "nothing to do: the ledger needs no locks; other programs in this folder may",
        ),
    }
}

/// Times of files are the file server's.
fn clock(folder: &Path) -> Option<CheckFinding> {
    let before = SystemTime::now();
    let at = folder.join("clock");
    let stamped = fs::write(&at, b"tick\n").and_then(|()| at.metadata()?.modified());
    // Where no file can be written, the line on files says so.
    let stamped = stamped.ok()?;
    let apart = match stamped.duration_since(before) {
        Ok(later) => i64::try_from(later.as_secs()).unwrap_or(i64::MAX),
        Err(earlier) => -i64::try_from(earlier.duration().as_secs()).unwrap_or(i64::MAX),
    };
    if apart.abs() <= CLOCK_S {
        let found = "this machine and the file server agree";
        return Some(CheckFinding::good("clock", found));
    }
    let word = if apart > 0 { "ahead of" } else { "behind" };
    Some(CheckFinding::with(
        CheckHealth::Odd,
        "clock",
        format!("the file server is {} s {word} this machine", apart.abs()),
        "times in reports will be off by that much; ask the administrators about NTP",
    ))
}

fn space(room: &StatVfs) -> CheckFinding {
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let inodes = (room.f_files > 0).then_some(room.f_favail);
    let few = inodes.is_some_and(|n| n < FEW_FILES);
    let files = inodes.filter(|_| few);
    let files = files.map_or(String::new(), |n| format!(", room for {n} more files"));
    let found = format!("{} free{files}", Bytes(free));
    let advice = "free some space, or move the project: a full disk ends runs and cuts their logs";
    match free {
        _ if inodes == Some(0) || free < NOTHING => {
            CheckFinding::with(CheckHealth::Bad, "space", found, advice)
        }
        _ if few || free < LITTLE => CheckFinding::with(CheckHealth::Odd, "space", found, advice),
        _ => CheckFinding::good("space", found),
    }
}
