//! The clusters that the stories run on: `tests/slurm/cluster`, each started once and shared.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The script that starts a cluster.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/cluster");

/// A setting of the script that this process was given; empty where it was not.
fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// What the names of the first cluster's nodes begin with.
fn node_name() -> String {
    Some(setting("CLUSTER_NODE_NAME"))
        .filter(|name| !name.is_empty())
        .unwrap_or("node".into())
}

/// Nodes that a story loses on purpose, one story each (`LostNode`); every other job stays away from them.
pub fn lost_nodes() -> String {
    format!("{}[8-12]", node_name())
}

/// The search path on which the cluster's own commands come first.
pub fn path() -> String {
    let (prefix, plain) = (setting("CLUSTER_PREFIX"), setting("PATH"));
    match prefix.as_str() {
        "" => plain,
        prefix => format!("{prefix}/bin:{plain}"),
    }
}

/// The name of the cluster of a `slurm.conf`.
pub fn cluster_name(conf: &Path) -> String {
    let text = std::fs::read_to_string(conf).unwrap();
    let mut lines = text.lines();
    let name = lines.find_map(|line| line.strip_prefix("ClusterName="));
    name.unwrap().to_owned()
}

/// Where one of Slurm's commands is.
pub fn program(name: &str) -> PathBuf {
    let path = path();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = places.find(|place| place.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on {path}"))
}

/// Longest wait for anything. Stories wait for events, so this only bounds a failure, also on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// One of the clusters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// Twelve nodes, with slurmdbd. Nobody stops its daemons.
    Full,
    /// One node, no accounting, ended jobs forgotten after two seconds, small arrays.
    Plain,
    /// Two nodes, with slurmdbd. Stories stop its daemons, one story at a time (`Daemons`).
    Outages,
}

impl Cluster {
    /// What follows the first cluster's state folder, ports above its port, and settings.
    fn differs(self) -> (&'static str, u16, &'static [(&'static str, &'static str)]) {
        match self {
            Self::Full => ("", 0, &[]),
            Self::Plain => (
                "-plain",
                400,
                &[
                    ("CLUSTER_ACCT", "none"),
                    ("CLUSTER_NAME", "plain"),
                    ("CLUSTER_NODES", "1"),
                    // Short enough to wait until a job is forgotten, long enough for a poll that is late.
                    ("CLUSTER_MIN_JOB_AGE", "30"),
                    ("CLUSTER_EXTRA", "MaxArraySize=4"),
                ],
            ),
            Self::Outages => (
                "-outages",
                800,
                &[("CLUSTER_NAME", "outages"), ("CLUSTER_NODES", "2")],
            ),
        }
    }

    /// What follows the first cluster's name of nodes.
    fn differs_in_nodes(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Plain => "plain",
            Self::Outages => "outage",
        }
    }

    /// Runs the script for this cluster.
    pub fn script(self, arguments: &[&str]) -> Output {
        let (suffix, above, settings) = self.differs();
        let state = std::env::var("CLUSTER_STATE").unwrap_or("/tmp/oomctl-slurm".into());
        let port = std::env::var("CLUSTER_PORT").unwrap_or("17800".into());
        let port = port.parse::<u16>().expect("CLUSTER_PORT is a port") + above;
        let mut command = Command::new(SCRIPT);
        command
            .args(arguments)
            .env("CLUSTER_STATE", state + suffix)
            .env("CLUSTER_PORT", port.to_string())
            // What an earlier `up` was given holds too: said always, so that commands and daemons are of one Slurm.
            .env("CLUSTER_PREFIX", setting("CLUSTER_PREFIX"))
            .envs(settings.iter().copied());
        if self != Self::Full {
            // Two clusters of one machine must not share the names of nodes: cgroups are named by them.
            let name = setting("CLUSTER_NODE_NAME") + self.differs_in_nodes();
            command.env("CLUSTER_NODE_NAME", name);
        }
        command.output().expect("tests/slurm/cluster runs")
    }

    /// Its `slurm.conf`. `None`, and a word about it, where there is no cluster and none is
    /// demanded. It is started once: where that fails each story says so, and none tries again.
    pub fn conf(self) -> Option<PathBuf> {
        static CONFS: [OnceLock<Result<Option<PathBuf>, String>>; 3] =
            [const { OnceLock::new() }; 3];
        let conf = CONFS[self as usize].get_or_init(|| self.start());
        let conf = conf
            .clone()
            .unwrap_or_else(|why| panic!("no cluster: {why}"));
        if conf.is_none() {
            eprintln!("skipped: no Slurm cluster (tests/slurm/cluster up, or OOMCTL_TEST_SLURM=1)");
        }
        conf
    }

    fn start(self) -> Result<Option<PathBuf>, String> {
        let set = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
        let demanded = set("OOMCTL_TEST_SLURM", "1") || set("CI", "true");
        if !demanded && !Self::Full.script(&["status"]).status.success() {
            return Ok(None);
        }
        let up = self.script(&["up"]);
        let said = String::from_utf8_lossy(&up.stdout);
        let conf = said.lines().next();
        match conf.and_then(|line| line.strip_prefix("export SLURM_CONF=")) {
            Some(conf) if up.status.success() => Ok(Some(conf.into())),
            _ => Err(String::from_utf8_lossy(&up.stderr).into_owned()),
        }
    }

    /// A command of the cluster script that must succeed: `stop slurmctld`, `pause slurmctld`, ….
    pub fn does(self, arguments: &[&str]) {
        let output = self.script(arguments);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "cluster {arguments:?}: {talk}");
    }
}

/// The daemons of `Cluster::Outages` in the hands of one story. All of them run when it ends, however it ends.
pub struct Daemons(#[expect(dead_code, reason = "held, not looked at")] MutexGuard<'static, ()>);

impl Daemons {
    pub fn taken() -> Self {
        static DAEMONS: Mutex<()> = Mutex::new(());
        Self(DAEMONS.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn does(&self, arguments: &[&str]) {
        Cluster::Outages.does(arguments);
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for daemon in ["slurmctld", "slurmdbd"] {
                Cluster::Outages.script(&["resume", daemon]);
            }
            Cluster::Outages.script(&["up"]);
        }
    }
}

/// A node of `Cluster::Full` that its story loses. It takes jobs before the story and after it.
pub struct LostNode<'a> {
    conf: &'a Path,
    pub name: String,
}

impl<'a> LostNode<'a> {
    /// One of `lost_nodes`; no other story may name it.
    pub fn of(conf: &'a Path, number: u32) -> Self {
        let name = format!("{}{number}", node_name());
        let node = Self { conf, name };
        node.back();
        node
    }

    /// The option that keeps a job on this node.
    pub fn pinned(&self) -> String {
        format!("--nodelist={}", self.name)
    }

    fn update(&self, words: &[&str]) {
        let name = format!("NodeName={}", self.name);
        let words = [&["update", &name], words].concat();
        slurm(self.conf, "scontrol", &words);
    }

    /// The controller gives it up.
    pub fn down(&self) {
        self.update(&["State=DOWN", "Reason=test"]);
    }

    /// Its slurmd dies without a word.
    pub fn killed(&self) {
        Cluster::Full.does(&["stop", &self.name, "KILL"]);
    }

    pub fn back(&self) {
        Cluster::Full.does(&["start", &self.name]);
        // Refused when the node came back by itself.
        self.update(&["State=RESUME"]);
        wait_for("the node takes jobs again", || {
            let words = ["-h", "-n", &self.name, "-o", "%t"];
            let state = answer(self.conf, "sinfo", &words);
            state
                .lines()
                .any(|line| matches!(line, "idle" | "mix" | "alloc"))
                .then_some(())
        });
    }
}

impl Drop for LostNode<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            Cluster::Full.script(&["start", &self.name]);
            self.update(&["State=RESUME"]);
        }
    }
}

/// Starts a requeued job soon. By itself Slurm would after two minutes, when the credential of its first start is
/// surely over; in the very second of the requeue the new one would be taken for it ("Job credential revoked").
pub fn starts_soon(conf: &Path, job: &str) {
    wait_for("the job is put back into the queue", || {
        let line = answer(conf, "scontrol", &["-o", "show", "job", job]);
        (line.contains("JobState=PENDING") && line.contains("Restarts=1")).then_some(())
    });
    wait_for("its begin is moved", || {
        let words = ["update", &format!("JobId={job}"), "StartTime=now+3"];
        slurm(conf, "scontrol", &words)
            .status
            .success()
            .then_some(())
    });
}

/// One of Slurm's commands, as an administrator would call it.
pub fn slurm(conf: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(self::program(program))
        .args(arguments)
        .env_clear()
        .env("PATH", path())
        .env("SLURM_CONF", conf)
        .env("SLURM_TIME_FORMAT", "%s")
        .output()
        .unwrap()
}

/// Standard output of a command of Slurm's that must succeed; asked again where it does not at once.
pub fn answer(conf: &Path, program: &str, arguments: &[&str]) -> String {
    wait_for(&format!("{program} {arguments:?}"), || {
        let output = slurm(conf, program, arguments);
        output
            .status
            .success()
            .then(|| String::from_utf8(output.stdout).unwrap())
    })
}

/// Looks every tenth of a second until there is something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain waited for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
