//! Processes by more than their number: a pid is used again, a pid with its start time and the
//! machine's boot is not. Read from `/proc` (Linux, proc_pid_stat(5)).

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// One process of one boot of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// The kernel's id of this boot.
    pub boot: String,
    /// Host name.
    pub host: String,
}

/// What is known of a process that an [`Identity`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Alive,
    /// It surely does not run any more.
    Gone,
    /// It belongs to another machine, of which nothing can be seen here.
    Elsewhere,
}

impl Identity {
    /// This process.
    pub fn own() -> Self {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// The process of this machine that has this number now.
    pub fn of(pid: i32) -> Self {
        Self::started(pid, stat(pid).map_or(0, |stat| stat.start))
    }

    /// The process of this boot that had this number and was started then.
    pub fn started(pid: i32, start: u64) -> Self {
        Self {
            pid,
            start,
            boot: boot_id(),
            host: host_name(),
        }
    }

    /// A process of this machine that never was.
    pub fn nobody() -> Self {
        Self::started(0, 0)
    }

    /// Whether the process lives.
    pub fn life(&self) -> ProcessState {
        if self.host != host_name() {
            return ProcessState::Elsewhere;
        }
        let alive = self.boot == boot_id()
            && stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.state != 'Z');
        if alive {
            ProcessState::Alive
        } else {
            ProcessState::Gone
        }
    }
}

/// The machine's name.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The boot of this machine, as the kernel names it; empty where it does not.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: i32,
    state: char,
    parent: i32,
    group: i32,
    session: i32,
    start: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in brackets may hold blanks and brackets: what follows the last bracket counts.
fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, _) = text.split_once(' ')?;
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        pid: pid.parse().ok()?,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// The state of a process, as `/proc` writes it; `None` where there is none.
pub fn state(pid: i32) -> Option<char> {
    stat(pid).map(|stat| stat.state)
}

/// When a process started, in clock ticks since boot; `None` when there is no such process.
pub fn start(pid: i32) -> Option<u64> {
    stat(pid).map(|stat| stat.start)
}

/// The process that started it.
pub fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|stat| stat.parent)
}

fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| stat(name.parse().ok()?)).collect()
}

/// Living processes below `ancestor`, not itself.
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let all = all();
    let mut family = vec![ancestor];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(
            all.iter()
                .filter(|stat| stat.parent == parent)
                .map(|stat| stat.pid),
        );
        at += 1;
    }
    let living = |pid: &i32| all.iter().any(|stat| stat.pid == *pid && stat.state != 'Z');
    family.into_iter().skip(1).filter(living).collect()
}

/// Does a process of this group live? One that has ended and that nobody has waited for does not.
pub fn group_lives(group: i32) -> bool {
    let mut all = all().into_iter();
    all.any(|stat| stat.group == group && stat.state != 'Z')
}

/// Resident bytes of a process group. Pages that its processes share count for each of them.
pub fn group_bytes(group: i32) -> u64 {
    let of = |stat: Stat| {
        let status = fs::read_to_string(format!("/proc/{}/status", stat.pid)).ok()?;
        let held = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = held.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    let all = all().into_iter().filter(|stat| stat.group == group);
    all.filter_map(of).sum()
}

/// Is the process `ancestor`, or below it?
pub fn is_below(pid: i32, ancestor: i32) -> bool {
    /// Deeper families than this are not looked through.
    const DEPTH: usize = 64;
    let parent = |pid: &i32| stat(*pid).map(|stat| stat.parent);
    std::iter::successors(Some(pid), parent)
        .take(DEPTH)
        .any(|pid| pid == ancestor)
}

/// Living processes of a job whose keeper is gone: of its session, younger than it, and with the
/// job's id in their environment.
pub fn left_behind(keeper: &Identity, mark: &str) -> Vec<i32> {
    if keeper.life() != ProcessState::Gone || keeper.boot != boot_id() {
        return Vec::new();
    }
    all()
        .into_iter()
        .filter(|stat| {
            stat.session == keeper.pid && stat.start >= keeper.start && stat.state != 'Z'
        })
        .map(|stat| stat.pid)
        .filter(|pid| carries(*pid, mark))
        .collect()
}

/// Has the process this entry (`NAME=value`) in its environment? False where that may not be read.
pub fn carries(pid: i32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry == mark.as_bytes())
}

/// Waits for ended processes that became children of this one when their parent ended. The one
/// `child` that was started on purpose is left to its owner.
pub fn reap_orphans(child: u32) {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let orphans = all().into_iter().filter(|stat| {
        stat.parent == own && stat.state == 'Z' && u32::try_from(stat.pid) != Ok(child)
    });
    for pid in orphans.filter_map(|stat| Pid::from_raw(stat.pid)) {
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
    }
}

/// Sends a signal; a process that is gone is no error.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_moves_no_field() {
        let text = "42 (a) b (c) S 7 42 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        let expected = Stat {
            pid: 42,
            state: 'S',
            parent: 7,
            group: 42,
            session: 40,
            start: 98_765,
        };
        assert_eq!(parse_stat(text), Some(expected));
        assert_eq!(parse_stat("42 (a"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_process_is_below_those_that_started_it() {
        let own = Identity::own().pid;
        assert!(is_below(own, own) && is_below(own, stat(own).unwrap().parent));
        assert!(!is_below(1, own) && !is_below(-1, own));
        assert!(group_lives(stat(own).unwrap().group) && !group_lives(-1));
    }

    #[test]
    fn a_process_is_told_from_a_later_one_of_the_same_number() {
        let own = Identity::own();
        assert_eq!(own.life(), ProcessState::Alive);
        assert_eq!(
            Identity {
                start: own.start + 1,
                ..own.clone()
            }
            .life(),
            ProcessState::Gone
        );
        assert_eq!(
            Identity {
                boot: "another".into(),
                ..own.clone()
            }
            .life(),
            ProcessState::Gone
        );
        assert_eq!(
            Identity {
                host: "another".into(),
                ..own
            }
            .life(),
            ProcessState::Elsewhere
        );
    }
}
