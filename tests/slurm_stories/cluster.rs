//! The cluster that the stories run on: `tests/slurm/cluster`, started once and shared.

use super::script::script;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The nodes that two stories lose; every other job stays away from them.
pub const LOST_NODES: &str = "node[3-4]";

/// Stories that stop the controller take this alone; those that could not tell a refusal from an
/// outage share it. Long waits take no part: a supervisor survives an outage.
static CONTROLLER: RwLock<()> = RwLock::new(());

/// One of the two clusters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// Four nodes, with slurmdbd.
    Full,
    /// One node, no accounting, ended jobs forgotten after two seconds.
    Plain,
}

impl Cluster {
    fn script(self, arguments: &[&str]) -> Output {
        script(self == Self::Plain, arguments)
    }

    /// Its `slurm.conf`. `None`, and a word about it, where there is no cluster and none is
    /// demanded.
    pub fn conf(self) -> Option<PathBuf> {
        static CONFS: [OnceLock<Option<PathBuf>>; 2] = [OnceLock::new(), OnceLock::new()];
        let conf = CONFS[usize::from(self == Self::Plain)].get_or_init(|| self.start());
        if conf.is_none() {
            eprintln!("skipped: no Slurm cluster (tests/slurm/cluster up, or OOMCTL_TEST_SLURM=1)");
        }
        conf.clone()
    }

    fn start(self) -> Option<PathBuf> {
        let set = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
        let demanded = set("OOMCTL_TEST_SLURM", "1") || set("CI", "true");
        if !demanded && !Self::Full.script(&["status"]).status.success() {
            return None;
        }
        let up = self.script(&["up"]);
        let talk = String::from_utf8_lossy(&up.stderr).into_owned();
        assert!(up.status.success(), "no cluster: {talk}");
        let text = String::from_utf8(up.stdout).unwrap();
        Some(
            text.trim()
                .strip_prefix("export SLURM_CONF=")
                .unwrap()
                .into(),
        )
    }

    /// A command of the cluster script that must succeed: `stop slurmctld`, `pause slurmctld`, ….
    pub fn does(self, arguments: &[&str]) {
        let output = self.script(arguments);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "cluster {arguments:?}: {talk}");
    }
}

/// Nobody stops the controller meanwhile.
pub fn undisturbed() -> RwLockReadGuard<'static, ()> {
    CONTROLLER.read().unwrap_or_else(PoisonError::into_inner)
}

/// Nobody needs the controller meanwhile.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    CONTROLLER.write().unwrap_or_else(PoisonError::into_inner)
}

/// One of Slurm's commands, as an administrator would call it.
pub fn slurm(conf: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("SLURM_CONF", conf)
        .env("SLURM_TIME_FORMAT", "%s")
        .output()
        .unwrap()
}

/// Standard output of a command of Slurm's that must succeed; asked again for a minute.
pub fn answer(conf: &Path, program: &str, arguments: &[&str]) -> String {
    wait_for(60, &format!("{program} {arguments:?}"), || {
        let output = slurm(conf, program, arguments);
        output
            .status
            .success()
            .then(|| String::from_utf8(output.stdout).unwrap())
    })
}

/// Looks every tenth of a second until there is something; panics when there is nothing in time.
pub fn wait_for<T>(seconds: u64, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
