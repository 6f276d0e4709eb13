//! One story's place beside a scheduler that is there for the stories alone: a copy of the example, its environment, and what the
//! scheduler and `oomctl` tell of its run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/diamonds-grpo");
/// Longest wait for anything: it only bounds a failure, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(600);
/// Added to the example's project file.
const SETTINGS: &str =
    "supervision: { poll: 1s, poll_max: 4s, hang_grace: 5s, settle: 4s, drain: 1s }";
/// A card on which the very first configuration fits.
pub const LARGE_CARD: (&str, &str) = ("SIM_GPU_GIB", "140");

/// A scheduler of the stories.
pub trait Cluster {
    /// What `backend:` calls it.
    const BACKEND: &'static str;

    /// The variables by which its commands find it.
    fn variables(&self) -> Vec<(&'static str, String)>;

    /// All jobs that it ever had.
    fn jobs(&self) -> Vec<JobRow>;
}

/// One story's place.
pub struct Place<'c, C> {
    folder: tempfile::TempDir,
    cluster: &'c C,
    environment: BTreeMap<String, String>,
    run: String,
}

/// A job as its scheduler tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: String,
    pub status: String,
    pub name: String,
}

/// What a command of ours left.
pub struct Told {
    code: i32,
    pub stderr: String,
    pub stdout: String,
}

impl Told {
    /// Checks the exit code, showing everything where it is another.
    pub fn expect_code(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, code, "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    /// Checks that standard error says something.
    pub fn says(&self, part: &str) {
        assert!(self.stderr.contains(part), "{part:?}:\n{}", self.stderr);
    }
}

impl<'c, C: Cluster> Place<'c, C> {
    /// A copy of the example, beside a scheduler.
    pub fn beside(cluster: &'c C, story: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().unwrap();
        copy(Path::new(EXAMPLE), folder.path());
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let pairs = [
            ("PATH", std::env::var("PATH").unwrap()),
            ("HOME", folder.path().display().to_string()),
            ("SIM_STEP_S", "0.02".to_owned()),
            ("SIM_START_S", "0.1".to_owned()),
            ("SIM_STEPS", "6".to_owned()),
        ];
        let place = Self {
            folder,
            cluster,
            environment: pairs
                .into_iter()
                .chain(cluster.variables())
                .map(|(k, v)| (k.to_owned(), v))
                .collect(),
            run: format!("{story}-{}-{number}", std::process::id()),
        };
        let project = place.text("oomctl.yaml");
        place.write(
            "oomctl.yaml",
            &format!("{project}\nbackend: {}\n{SETTINGS}\n", C::BACKEND),
        );
        place
    }

    /// Sets variables of the environment from which `oomctl` is called.
    pub fn with(mut self, pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        self.environment.extend(pairs);
        self
    }

    /// Puts a script in the way of a command; `real` in it is the true one.
    pub fn wrapping(self, command: &str, script: &str) -> Self {
        let path = self.environment["PATH"].clone();
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(command));
        let real = places.find(|place| place.is_file()).unwrap();
        let wrapper = self.file("wrapped").join(command);
        fs::create_dir_all(self.file("wrapped")).unwrap();
        fs::write(
            &wrapper,
            script.replace("real", &real.display().to_string()),
        )
        .unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{path}", self.file("wrapped").display());
        self.with(&[("PATH", &path)])
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    /// Name of the story's run; no other test has it.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Starts `oomctl` and leaves it running.
    pub fn start(&self, words: &[&str]) -> Running {
        let stderr = self.file(&format!("said-{}", words[0]));
        let child = Command::new(env!("CARGO_BIN_EXE_oomctl"))
            .args(words)
            .current_dir(self.folder.path())
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        Running { child, stderr }
    }

    /// Calls `oomctl` and waits for its end.
    pub fn oomctl(&self, words: &[&str]) -> Told {
        self.start(words).end()
    }

    /// `oomctl submit --run RUN …`.
    pub fn submit(&self, words: &[&str]) -> Told {
        self.oomctl(&[&["submit", "--run", self.run()], words].concat())
    }

    /// The view of the run that `status --json` gives.
    pub fn view(&self) -> Value {
        let told = self
            .oomctl(&["status", self.run(), "--json"])
            .expect_code(0);
        let document: Value = serde_json::from_str(&told.stdout).unwrap();
        document["runs"][0].clone()
    }

    /// Waits until the latest attempt is in a state, and gives its job's id.
    pub fn until(&self, state: &str) -> String {
        wait_for(&format!("{} {state}", self.run()), || {
            let attempt = self.view()["attempts"].as_array()?.last()?.clone();
            (attempt["state"] == state).then(|| attempt["job"].as_str().unwrap().to_owned())
        })
    }

    /// The heart of every story: the scheduler saw exactly one job for every attempt, in the order of the attempts.
    pub fn one_job_per_attempt(&self) -> Vec<JobRow> {
        let ours = |row: &JobRow| row.name.starts_with(&format!("oomctl-{}-", self.run()));
        let mut rows: Vec<JobRow> = self.cluster.jobs().into_iter().filter(ours).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let view = self.view();
        let attempts = view["attempts"].as_array().unwrap();
        let told: Vec<&str> = attempts.iter().filter_map(|a| a["job"].as_str()).collect();
        let seen: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(
            seen, told,
            "jobs of the scheduler, and jobs of the attempts: {rows:?}"
        );
        rows
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        let left = ["logs", "checkpoints", "__pycache__"];
        if left.iter().any(|l| name == *l) || name.to_string_lossy().starts_with('.') {
            continue;
        }
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Looks every tenth of a second until there is something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "in vain waited for: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A command of ours that runs.
pub struct Running {
    child: Child,
    stderr: PathBuf,
}

impl Running {
    /// Waits until it says something.
    pub fn until_it_says(&self, part: &str) {
        wait_for(part, || {
            let said = fs::read_to_string(&self.stderr).unwrap();
            said.contains(part).then_some(())
        });
    }

    /// Waits for its end.
    pub fn end(self) -> Told {
        let output = self.child.wait_with_output().unwrap();
        Told {
            code: output.status.code().unwrap_or(-1),
            stderr: fs::read_to_string(&self.stderr).unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
        }
    }
}
