//! A project folder with the real binary, and what the stories look at in it.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for something that takes a second or two on a quiet machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Short supervision times: stories are about order, not about waiting.
const QUICK: &str =
    "supervision: { poll: 1s, poll_max: 1s, drain: 0s, hang_grace: 2s, settle: 2s }\n";

/// A project in a temporary folder, with a home of its own.
pub struct Place {
    _folder: tempfile::TempDir,
    pub root: PathBuf,
    pub home: PathBuf,
    /// Put before everything else on PATH.
    pub first_on_path: Vec<PathBuf>,
    /// Variables of every call.
    pub variables: Vec<(String, String)>,
}

/// A command that ended.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The words of a command: a list, or a text that is split at blanks.
pub trait Words {
    fn words(&self) -> Vec<&str>;
}

impl Words for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Words for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Words for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Words for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Words for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

impl<W: Words + ?Sized> Words for &W {
    fn words(&self) -> Vec<&str> {
        (**self).words()
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            code: output
                .status
                .code()
                .unwrap_or_else(|| -output.status.signal().unwrap_or(0)),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Done {
    /// Both streams and the code, for a snapshot.
    pub fn told(&self) -> String {
        let mut text = String::new();
        for (name, stream) in [("stdout", &self.out), ("stderr", &self.err)] {
            if !stream.is_empty() {
                text.push_str(&format!("--- {name}\n{stream}"));
            }
        }
        text + &format!("--- exit code {}\n", self.code)
    }

    /// The same, when the exit code is the expected one.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.told());
        self
    }

    #[track_caller]
    pub fn says(&self, words: &[&str]) {
        for word in words {
            let there = self.out.contains(word) || self.err.contains(word);
            assert!(there, "{word:?} is not said in\n{}", self.told());
        }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}\n{}", self.told()))
    }
}

impl Place {
    /// A project with these lines in its oomctl.yaml, and short supervision times.
    pub fn with(yaml: &str) -> Self {
        let place = Self::bare();
        place.write("oomctl.yaml", &format!("{yaml}\n{QUICK}"));
        place
    }

    /// An empty folder.
    pub fn bare() -> Self {
        Self::named("proj")
    }

    /// An empty folder of this name.
    pub fn named(name: impl AsRef<OsStr>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let place = Self {
            home: root.join("home"),
            root: root.join(name.as_ref()),
            _folder: folder,
            first_on_path: Vec::new(),
            variables: Vec::new(),
        };
        fs::create_dir(&place.home).unwrap();
        fs::create_dir(&place.root).unwrap();
        place
    }

    /// A copy of the example, whose trainer hurries.
    pub fn example() -> Self {
        let mut place = Self::bare();
        place.copy_project(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/diamonds-grpo"));
        place.set("SIM_STEP_S", "0.01");
        place.set("SIM_START_S", "0.05");
        place.set("SIM_NCCL_NOISE", "0");
        place
    }

    /// A copy of another example.
    pub fn example_named(name: &str) -> Self {
        let place = Self::bare();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        place.copy_project(&examples.join(name));
        place
    }

    /// Copies a project to here, and shortens its supervision times.
    pub fn copy_project(&self, from: &Path) {
        copy(from, &self.root);
        let yaml = self.read("oomctl.yaml");
        self.write("oomctl.yaml", &format!("{yaml}\n{QUICK}"));
    }

    /// Sets a variable of every later call.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(n, _)| n != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The binary, in this folder, with an environment of which every variable is known.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomctl"));
        command.args(arguments);
        self.at_home(&mut command);
        command
    }

    /// Gives a command the folder and the environment of this place.
    pub fn at_home(&self, command: &mut Command) {
        let path = self
            .first_on_path
            .iter()
            .map(|p| p.display().to_string())
            .chain(["/usr/local/bin:/usr/bin:/bin".to_owned()])
            .collect::<Vec<_>>()
            .join(":");
        command
            .current_dir(&self.root)
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .envs(self.variables.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null());
    }

    pub fn run(&self, words: &(impl Words + ?Sized)) -> Done {
        let words = words.words();
        let done = self.command(&words).output().unwrap().into();
        super::described::check(&words, &done);
        done
    }

    /// Runs the binary, which ends with this code and says these parts.
    #[track_caller]
    pub fn says(&self, words: &(impl Words + ?Sized), code: i32, parts: &[&str]) {
        self.run(words).ends(code).says(parts);
    }

    /// Runs the binary, which succeeds and prints JSON.
    #[track_caller]
    pub fn json(&self, words: &(impl Words + ?Sized)) -> Value {
        self.run(words).ends(0).json()
    }

    /// What a shell makes of a line, in this folder and environment; `$OOMCTL` is the binary.
    pub fn shell(&self, line: &str) -> Done {
        let mut command = Command::new("bash");
        self.at_home(&mut command);
        command
            .args(["-c", line])
            .env("OOMCTL", env!("CARGO_BIN_EXE_oomctl"));
        command.output().unwrap().into()
    }

    /// Starts the binary in a process group of its own.
    pub fn start(&self, arguments: &[&str]) -> Started {
        let mut command = self.command(arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Started {
            child: command.spawn().unwrap(),
        }
    }

    /// The folder of a run.
    pub fn run_dir(&self, run: &str) -> String {
        format!(".oomctl/runs/{run}")
    }

    /// How many facts of a kind a run has.
    pub fn count(&self, run: &str, fact: &str) -> usize {
        let facts = self.facts(run);
        facts.iter().filter(|f| f["fact"] == fact).count()
    }

    /// The facts of a run that count. A record whose line end was never written does not, even where it
    /// is whole: the next owner says so right behind it, with the place in the file.
    pub fn facts(&self, run: &str) -> Vec<Value> {
        let path = self.path(&format!("{}/ledger.jsonl", self.run_dir(run)));
        let text = fs::read(path).unwrap_or_default();
        let mut facts: Vec<(usize, Value)> = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive(|b| *b == b'\n') {
            if let Ok(fact) = serde_json::from_slice::<Value>(line) {
                if fact["fact"] == "torn_tail" {
                    facts.retain(|(at, _)| fact["offset"] != *at);
                }
                facts.push((start, fact));
            }
            start += line.len();
        }
        facts.into_iter().map(|(_, fact)| fact).collect()
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn wait_for(&self, what: &str, so: impl Fn() -> bool) {
        let start = Instant::now();
        while !so() {
            assert!(start.elapsed() < PATIENCE, "in vain waited for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The line of a file, once a program has written it as a whole.
    #[track_caller]
    pub fn written(&self, name: &str) -> String {
        let text = || std::fs::read_to_string(self.path(name)).unwrap_or_default();
        self.wait_for(name, || text().ends_with('\n'));
        text().trim().to_owned()
    }

    /// Waits until a fact of this kind is in the ledger.
    #[track_caller]
    pub fn wait_for_fact(&self, run: &str, fact: &str) {
        self.wait_for(fact, || self.facts(run).iter().any(|f| f["fact"] == fact));
    }

    /// What varies from call to call, taken out.
    pub fn steady(&self, text: &str) -> String {
        let text = text.replace(&self.root.display().to_string(), "[PROJECT]");
        let text = text.replace(env!("CARGO_BIN_EXE_oomctl"), "[OOMCTL]");
        // Whether a job that takes milliseconds is seen while it runs is a matter of luck.
        let passing =
            regex::Regex::new(r"(?m)^(attempt \d+  RUNNING on .*| +step \d.*)\n").unwrap();
        let text = passing.replace_all(&text, "").into_owned();
        let rules = [
            (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "[TIME]"),
            (r"(after |attempts?, | {6,}|: )\d+s\b", "${1}[N]s"),
            (r"\d+\.\d\d GPU-hours", "[N] GPU-hours"),
            (r"pid[= ]\d+", "pid=[PID]"),
            (r"-[0-9a-f]{8}\b", "-[HEX]"),
        ];
        rules.iter().fold(text, |text, (from, to)| {
            regex::Regex::new(from)
                .unwrap()
                .replace_all(&text, *to)
                .into_owned()
        })
    }
}

/// A binary that runs.
pub struct Started {
    pub child: Child,
}

impl Started {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        let _ = rustix::process::kill_process(pid, signal);
    }

    /// kill -9 of its whole process group.
    pub fn kill(mut self) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Waits for its end, which must come.
    #[track_caller]
    pub fn end(mut self) -> Done {
        let mut out = self.child.stdout.take().unwrap();
        let mut err = self.child.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            err.read_to_end(&mut text).unwrap();
            text
        });
        let mut stdout = Vec::new();
        out.read_to_end(&mut stdout).unwrap();
        let output = Output {
            stdout,
            stderr: reader.join().unwrap(),
            status: self.child.wait().unwrap(),
        };
        output.into()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        // What a run of the example in its own folder has left there.
        if [".oomctl", "logs", "checkpoints", "__pycache__"]
            .map(Into::into)
            .contains(&name)
        {
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

/// Installs an executable by another process: a file that this process has open for writing while
/// another test forks cannot be executed ("text file busy").
pub fn install(path: &Path, text: &str) {
    let source = path.with_extension("source");
    fs::write(&source, text).unwrap();
    let done = Command::new("install")
        .args(["-m", "755"])
        .args([&source, path])
        .status();
    assert!(done.unwrap().success());
}

/// The folder that a setup script of the tests fills and names, or `None` where it cannot: in CI it must.
pub fn made_by(setup: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(setup);
    let out = Command::new(script).stderr(Stdio::inherit()).output();
    let folder = out
        .ok()
        .filter(|o| o.status.success())
        .map(|o| PathBuf::from(String::from_utf8_lossy(&o.stdout).trim_end()));
    if folder.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "{setup} failed, and in CI it must not"
        );
        eprintln!("skipped: {setup} could not make what this needs");
    }
    folder
}

/// Does something for every item, several at a time: stories mostly wait.
pub fn at_once<T: Sync>(items: &[T], story: impl Fn(&T) + Sync) {
    const SEVERAL: usize = 6;
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..SEVERAL.min(items.len()) {
            scope.spawn(|| {
                while let Some(item) =
                    items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    story(item);
                }
            });
        }
    });
}
