//! The Flux instances of the stories.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use super::place::{Cluster, JobRow};

/// Two brokers as on two machines, each with fake cores and GPUs.
const HOSTS: &str = "fluke[0-1]";
const CORES: &str = "0-7";
const GPUS: &str = "0-7";

/// An instance that ends with its last story.
pub struct Instance {
    child: Child,
    _folder: tempfile::TempDir,
    pub uri: String,
}

impl Instance {
    /// One for all stories that leave it whole; `None`, and a word about it, where there is no Flux and none is demanded.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Instance>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// One of a story's own.
    pub fn start() -> Option<Self> {
        let version = Command::new("flux").arg("--version").output();
        if !version.is_ok_and(|v| v.status.success()) {
            let demanded = std::env::var("OOMCTL_TEST_FLUX").is_ok_and(|v| v == "1");
            assert!(!demanded, "flux is not on PATH");
            eprintln!("skipped: flux is not on PATH (tests/flux/README.md)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (resources, config) = (folder.path().join("R"), folder.path().join("flux.toml"));
        let words = [
            "R",
            "encode",
            "--ranks=0-1",
            "--hosts",
            HOSTS,
            "--cores",
            CORES,
            "--gpus",
            GPUS,
        ];
        let encoded = Command::new("flux").args(words).output().unwrap();
        fs::write(&resources, succeeded(encoded)).unwrap();
        let text = format!("[resource]\nnoverify = true\npath = {resources:?}\n");
        fs::write(&config, text).unwrap();
        // It lives as long as we hold its standard input.
        let mut child = Command::new("flux")
            .args([
                "start",
                "--test-exit-mode=leader",
                "--test-size=2",
                "--test-hosts",
                HOSTS,
            ])
            .arg(format!("--config-path={}", config.display()))
            .args(["sh", "-c", "echo \"$FLUX_URI\"; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut uri = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut uri).unwrap();
        let uri = uri.trim().to_owned();
        assert!(uri.starts_with("local://"), "{uri:?}");
        Some(Self {
            child,
            _folder: folder,
            uri,
        })
    }

    /// One of Flux's commands, as its owner would call it.
    pub fn call(&self, words: &[&str]) -> Output {
        let mut command = Command::new("flux");
        let command = command.args(words).env("FLUX_URI", &self.uri);
        command.output().unwrap()
    }

    /// Standard output of one that must succeed.
    pub fn answer(&self, words: &[&str]) -> String {
        succeeded(self.call(words))
    }

    /// Loses a broker without a word.
    pub fn loses(&self, rank: &str) {
        let pid = self.answer(&["exec", "-r", rank, "flux", "getattr", "broker.pid"]);
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

impl Cluster for Instance {
    const BACKEND: &'static str = "flux";

    fn variables(&self) -> Vec<(&'static str, String)> {
        vec![("FLUX_URI", self.uri.clone())]
    }

    fn jobs(&self) -> Vec<JobRow> {
        let format = "{id.f58plain} {status} {name}";
        let listed = self.answer(&["jobs", "-a", "-n", "--count=0", "-o", format]);
        listed.lines().filter_map(row).collect()
    }
}

fn row(line: &str) -> Option<JobRow> {
    let mut fields = line.split_whitespace().map(str::to_owned);
    Some(JobRow {
        id: fields.next()?,
        status: fields.next()?,
        name: fields.next()?,
    })
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn succeeded(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}
