//! One story's place: a copy of the example, its environment, and what can be read about its runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cluster::{Cluster, PATIENCE, answer, lost_nodes, path, slurm, wait_for};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/diamonds-grpo");
const OOMCTL: &str = env!("CARGO_BIN_EXE_oomctl");

/// Added to the example's project file: short waits, and away from the node that others lose.
const SUPERVISION: &str = "backend: slurm
supervision: { poll: 1s, poll_max: 4s, hang_grace: 5s, settle: 4s, drain: 1s }
";

/// A card on which the very first configuration fits.
pub const LARGE_CARD: (&str, &str) = ("SIM_GPU_GIB", "140");
/// Its first attempt runs out of memory some seconds after it began.
pub const LATE_OOM: [(&str, &str); 4] = [
    LARGE_CARD,
    ("SIM_STEP_S", "1"),
    ("SIM_OOM_AT_STEP", "4"),
    ("SIM_ONLY_ATTEMPTS", "1"),
];

/// One story's place.
pub struct Place {
    folder: tempfile::TempDir,
    /// `slurm.conf` of the cluster.
    pub conf: PathBuf,
    environment: BTreeMap<String, String>,
    story: String,
}

/// A job as sacct tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: String,
    pub state: String,
    pub asked: String,
    pub name: String,
}

/// What a command of ours left.
pub struct Told {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Told {
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Checks the exit code, showing everything where it is another.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Checks that standard error says something.
    pub fn says(&self, part: &str) {
        assert!(
            self.stderr.contains(part),
            "{part:?} is not in stderr:\n{}\nstdout:\n{}",
            self.stderr,
            self.stdout
        );
    }
}

impl Place {
    /// A copy of the example on a cluster; `None` where there is no cluster.
    pub fn on(cluster: Cluster, story: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let conf = cluster.conf()?;
        let folder = tempfile::tempdir().unwrap();
        copy(Path::new(EXAMPLE), folder.path());
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let pairs = [
            ("PATH", path()),
            ("HOME", folder.path().display().to_string()),
            ("SLURM_CONF", conf.display().to_string()),
            ("SIM_STEP_S", "0.02".to_owned()),
            ("SIM_START_S", "0.1".to_owned()),
            ("SIM_STEPS", "6".to_owned()),
        ];
        let place = Self {
            folder,
            conf,
            environment: pairs.map(|(k, v)| (k.to_owned(), v)).into(),
            story: format!("{story}-{}-{number}", std::process::id()),
        };
        place.configure(SUPERVISION);
        Some(match cluster {
            Cluster::Full => place.knob("exclude", &format!("'{}'", lost_nodes())),
            Cluster::Plain | Cluster::Outages => place,
        })
    }

    /// Adds to the project file.
    pub fn configure(&self, text: &str) {
        let path = self.file("oomctl.yaml");
        let old = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{}\n{text}", old.trim_end())).unwrap();
    }

    /// Gives a knob a value in the project file.
    pub fn knob(self, name: &str, value: &str) -> Self {
        let path = self.file("oomctl.yaml");
        let old = fs::read_to_string(&path).unwrap();
        let new = old.replacen("knobs:\n", &format!("knobs:\n  {name}: {value}\n"), 1);
        assert_ne!(old, new);
        fs::write(&path, new).unwrap();
        self
    }

    /// Takes a knob out of the project file.
    pub fn forget_knob(&self, name: &str) {
        let text = self.text("oomctl.yaml");
        let line = format!("  {name}: ");
        let kept = text.lines().filter(|l| !l.starts_with(&line));
        let text: String = kept.map(|l| format!("{l}\n")).collect();
        fs::write(self.file("oomctl.yaml"), text).unwrap();
    }

    /// Sets a variable of the environment from which `oomctl` is called.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// With the example's own programs on the search path, before those of the machine.
    pub fn with_its_programs(self) -> Self {
        let bin = self.file("bin").display().to_string();
        let path = format!("{bin}:{}", path());
        self.set("PATH", &path)
    }

    /// The same with pairs.
    pub fn with(self, pairs: &[(&str, &str)]) -> Self {
        pairs.iter().fold(self, |place, (k, v)| place.set(k, v))
    }

    /// Puts a script in the way of one of Slurm's commands.
    pub fn wrapping(self, program: &str, script: &str) -> Self {
        let folder = self.file("wrappers");
        fs::create_dir_all(&folder).unwrap();
        let wrapper = folder.join(program);
        fs::write(&wrapper, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&wrapper, mode).unwrap();
        self.set("PATH", &format!("{}:{}", folder.display(), path()))
    }

    /// Changes a text in the project file.
    pub fn reconfigure(&self, from: &str, to: &str) {
        let old = self.text("oomctl.yaml");
        let new = old.replacen(from, to, 1);
        assert_ne!(old, new);
        fs::write(self.file("oomctl.yaml"), new).unwrap();
    }

    /// A file of the project.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of a file of the project.
    pub fn text(&self, name: &str) -> String {
        let path = self.file(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Name of the story's run; no other test has it.
    pub fn run(&self) -> &str {
        &self.story
    }

    /// `oomctl` with these words, in the project's folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(OOMCTL);
        command
            .args(words)
            .current_dir(self.folder.path())
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null());
        command
    }

    /// The environment in which `oomctl` is called.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Calls `oomctl` and waits for its end.
    pub fn oomctl(&self, words: &[&str]) -> Told {
        self.start(words).end()
    }

    /// `oomctl submit --run RUN …`.
    pub fn submit(&self, words: &[&str]) -> Told {
        self.oomctl(&[&["submit", "--run", self.run()], words].concat())
    }

    /// `oomctl submit --run RUN --watch …`, to its end.
    pub fn submit_and_watch(&self, words: &[&str]) -> Told {
        self.submit(&[&["--watch"], words].concat())
    }

    /// `oomctl watch RUN`, to its end.
    pub fn watch(&self) -> Told {
        self.oomctl(&["watch", self.run()])
    }

    /// Starts `oomctl` and leaves it running. Its output goes to files that can be read meanwhile.
    pub fn start(&self, words: &[&str]) -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.file(&format!("said-{number}.{kind}"));
        let (stdout, stderr) = (file("out"), file("err"));
        let child = self
            .command(words)
            .stdout(fs::File::create(&stdout).unwrap())
            .stderr(fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        Running {
            child: Some(child),
            stdout,
            stderr,
        }
    }

    /// The view of a run that `status --json` gives.
    pub fn view_of(&self, run: &str) -> Value {
        let told = self.oomctl(&["status", run, "--json"]).expect_code(0);
        let document: Value = serde_json::from_str(&told.stdout).unwrap();
        document["runs"][0].clone()
    }

    /// The view of the story's run.
    pub fn view(&self) -> Value {
        self.view_of(self.run())
    }

    /// The view's attempts.
    pub fn attempts(&self) -> Vec<Value> {
        self.attempts_of(self.run())
    }

    /// The attempts of a run.
    pub fn attempts_of(&self, run: &str) -> Vec<Value> {
        self.view_of(run)["attempts"].as_array().unwrap().clone()
    }

    /// The rungs that were taken, in order.
    pub fn rungs(&self) -> Vec<String> {
        self.attempts()
            .iter()
            .flat_map(|a| a["rungs"].as_array().cloned().unwrap_or_default())
            .filter_map(|rung| rung.as_str().map(str::to_owned))
            .collect()
    }

    /// Waits until the run's latest attempt is in a state of Slurm's, and gives its job id.
    pub fn until(&self, state: &str) -> String {
        wait_for(&format!("{} {state}", self.run()), || {
            let told = self.oomctl(&["status", self.run(), "--json"]);
            let document: Value = serde_json::from_str(&told.stdout).ok()?;
            let attempt = document["runs"][0]["attempts"].as_array()?.last()?.clone();
            (attempt["state"] == state).then(|| attempt["job"].as_str().unwrap().to_owned())
        })
    }

    /// The tokens that the run's ledger intended to submit, in order.
    pub fn tokens(&self, run: &str) -> Vec<String> {
        let ledger = self.text(&format!(".oomctl/runs/{run}/ledger.jsonl"));
        let records = ledger
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records
            .filter(|record| record["fact"] == "intended")
            .map(|record| record["token"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Every job that Slurm ever saw of a run, once sacct knows how all of them ended. sacct of
    /// 22.05 is up to five seconds late with names; squeue knows them at once, for five minutes.
    pub fn jobs_of(&self, run: &str, at_least: usize) -> Vec<Job> {
        let ours = |name: &str| name.starts_with(&format!("oomctl-{run}-"));
        let fields = "JobID,State,ReqTRES,JobName";
        // Without states a job that was cancelled while it was held is left out.
        let states = "-sBF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,S,TO";
        let window = ["-S", "now-2hours", "-E", "now+1hour", states];
        let accounts = [&["-X", "-n", "-P", "-o", fields][..], &window].concat();
        let queue = ["-h", "-t", "all", "-o", "%i|%j"];
        wait_for(&format!("sacct knows the jobs of {run}"), || {
            let queued = answer(&self.conf, "squeue", &queue);
            let rows = answer(&self.conf, "sacct", &accounts);
            let jobs: Vec<Job> = rows
                .lines()
                .filter_map(job)
                .filter(|job| ours(&job.name))
                .collect();
            let known = |id: &str| jobs.iter().any(|job| job.id == id);
            let complete = queued
                .lines()
                .filter_map(|line| line.split_once('|'))
                .all(|(id, name)| !ours(name) || known(id));
            let live = |job: &Job| job.state == "PENDING" || job.state == "RUNNING";
            (complete && jobs.len() >= at_least && !jobs.iter().any(live)).then_some(jobs)
        })
    }

    /// The heart of every story: sacct saw exactly one job for every attempt that was submitted.
    pub fn one_job_per_attempt(&self, run: &str) -> Vec<Job> {
        let view = self.view_of(run);
        let attempts = view["attempts"].as_array().unwrap();
        let submitted: Vec<&Value> = attempts.iter().filter(|a| !a["job"].is_null()).collect();
        let jobs = self.jobs_of(run, submitted.len());
        let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        let told: Vec<&str> = submitted
            .iter()
            .map(|a| a["job"].as_str().unwrap())
            .collect();
        assert_eq!(
            ids, told,
            "jobs in sacct, and jobs of the attempts: {jobs:?}"
        );
        let names: BTreeSet<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        let tokens = self.tokens(run);
        let intended: BTreeSet<&str> = tokens.iter().map(String::as_str).collect();
        assert_eq!(names, intended);
        assert_eq!(names.len(), jobs.len(), "one job for each token: {jobs:?}");
        jobs
    }

    /// Ends what a failed story left behind.
    fn clean_up(&self) {
        let queue = slurm(&self.conf, "squeue", &["-h", "-o", "%i %j"]);
        let text = String::from_utf8_lossy(&queue.stdout).into_owned();
        for line in text.lines().filter(|line| line.contains(&self.story)) {
            if let Some((id, _)) = line.split_once(' ') {
                slurm(&self.conf, "scancel", &[id]);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.clean_up();
        }
    }
}

fn job(row: &str) -> Option<Job> {
    let mut fields = row.splitn(4, '|').map(str::to_owned);
    Some(Job {
        id: fields.next()?,
        state: fields.next()?,
        asked: fields.next()?,
        name: fields.next()?,
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let hidden = name.to_string_lossy().starts_with('.');
        if hidden || name == "logs" || name == "checkpoints" || name == "__pycache__" {
            continue;
        }
        let target = to.join(&name);
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A command of ours that runs.
pub struct Running {
    child: Option<Child>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// What it said so far on standard error.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// Waits until it says something.
    pub fn until_it_says(&self, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.stderr().contains(part) {
            let said = self.stderr();
            assert!(
                Instant::now() < deadline,
                "in vain waited for {part:?}:\n{said}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for its end.
    pub fn end(mut self) -> Told {
        let mut child = self.child.take().unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                let _ = child.kill();
                panic!("in vain waited for its end: {}", self.stderr());
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let read = |path: &Path| {
            let mut bytes = Vec::new();
            let mut file = fs::File::open(path).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        Told::new(Output {
            status,
            stdout: read(&self.stdout),
            stderr: read(&self.stderr),
        })
    }

    /// `kill -9`. True when it was still running.
    pub fn kill(mut self) -> bool {
        let mut child = self.child.take().unwrap();
        let running = child.try_wait().unwrap().is_none();
        let _ = child.kill();
        child.wait().unwrap();
        running
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.child.as_ref().unwrap().id()).unwrap();
        let pid = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
