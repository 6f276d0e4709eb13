//! One `oomctl watch` over thousands of jobs: how often it asks the scheduler, and what it costs.
//!
//! A project with one submitted run is made by the program itself; the others are copies of that run's folder under
//! other names, ids and tokens, half of them tasks of job arrays. Slurm's commands are scripts that print prepared
//! answers and note each call. Jobs end while the watches go on, half of them well. CPU time is read from
//! /proc/PID/task/*/schedstat, memory and descriptors from /proc.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench touches files, processes and the clock, prints, and ends at the first surprise"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Tasks of one job array.
const TASKS: usize = 1_000;
/// Id of the job of the run that the others are copies of.
const SEED_ID: &str = "4711";
/// The first ids of the other jobs and of the arrays.
const FIRST_JOB: usize = 100_000;
const FIRST_ARRAY: usize = 50_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let at = args.iter().position(|a| a == name);
        at.map_or(default, |at| args[at + 1].parse().unwrap())
    };
    let (runs, watches) = (number("--runs", 1_000), number("--watches", 1));
    let seconds = number("--seconds", 120) as u64;
    let ends = number("--ends", runs.div_ceil(100));
    let folder = tempfile_dir(&std::env::var("BENCH_DIR").unwrap_or_else(|_| "target/tmp".into()));
    let mut site = Site::make(&folder, runs);
    println!("{runs} runs, {ends} end each minute; {}", load());
    println!(
        "| runs | watches | start s | calls a minute: squeue | sacct | scontrol | CPU % of a core | RSS MiB | descriptors |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    site.measure(watches, seconds, ends);
    println!("{}", load());
    fs::remove_dir_all(&folder).unwrap();
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    format!("load {}", load.trim())
}

fn tempfile_dir(under: &str) -> PathBuf {
    let name = format!("oomctl-supervise-{}", std::process::id());
    let folder = Path::new(under).join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::canonicalize(folder).unwrap()
}

/// A project with its runs, and a Slurm of scripts.
struct Site {
    folder: PathBuf,
    /// Run, job id, job name.
    jobs: Vec<(String, String, String)>,
    /// States other than RUNNING, by job.
    states: BTreeMap<usize, &'static str>,
}

impl Site {
    fn make(folder: &Path, runs: usize) -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/diamonds-grpo");
        fs::copy(example.join("oomctl.yaml"), folder.join("oomctl.yaml")).unwrap();
        let site = Self {
            folder: folder.to_owned(),
            jobs: Vec::new(),
            states: BTreeMap::new(),
        };
        fs::create_dir(folder.join("bin")).unwrap();
        fs::create_dir(folder.join("runtime")).unwrap();
        site.script("sbatch", &format!("echo {SEED_ID}"));
        site.script("scancel", "exit 0");
        site.script(
            "scontrol",
            "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
        );
        for name in ["squeue", "sacct"] {
            site.script(
                name,
                &format!("exec cat {}/{name}.answer", folder.display()),
            );
            fs::write(folder.join(format!("{name}.answer")), "").unwrap();
        }
        site.copies(runs)
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.folder.join("bin").join(name);
        let calls = self.folder.join("calls");
        let text = format!("#!/bin/sh\necho {name} >>{}\n{body}\n", calls.display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn oomctl(&self) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomctl"));
        command
            .current_dir(&self.folder)
            .env("PATH", format!("{}/bin:{path}", self.folder.display()))
            .env("XDG_RUNTIME_DIR", self.folder.join("runtime"))
            .stdout(Stdio::null());
        command
    }

    /// Submits one run and copies it.
    fn copies(mut self, runs: usize) -> Self {
        let seed = "bench-seed";
        let submitted = self.oomctl().args(["submit", "--run", seed]).status();
        assert!(submitted.unwrap().success());
        let runs_dir = self.folder.join(".oomctl/runs");
        let read = |name: &str| fs::read_to_string(runs_dir.join(seed).join(name)).unwrap();
        let (inputs, ledger) = (read("inputs.json"), read("ledger.jsonl"));
        let token = ledger
            .split("\"token\":\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let script = runs_dir.join(seed).join("attempt-1/job.sbatch");
        for index in 0..runs {
            let run = format!("r{index:05}");
            let (id, name, own) = identity(index, &run);
            let folder = runs_dir.join(&run);
            fs::create_dir_all(folder.join("attempt-1")).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(folder.join("inputs.json"), inputs.replace(seed, &run)).unwrap();
            let ledger = ledger.replace(token, &own).replace(seed, &run);
            let ledger = ledger.replace(
                &format!("\"id\":\"{SEED_ID}\""),
                &format!("\"id\":\"{id}\""),
            );
            fs::write(folder.join("ledger.jsonl"), ledger).unwrap();
            fs::copy(&script, folder.join("attempt-1/job.sbatch")).unwrap();
            fs::copy(
                runs_dir.join(seed).join("environment.json"),
                folder.join("environment.json"),
            )
            .unwrap();
            fs::write(
                folder.join("attempt-1/slurm.err"),
                "(TaskRunner pid=4121) step:1 - actor/pg_loss:0.013\n",
            )
            .unwrap();
            self.jobs.push((run, id, name));
        }
        fs::remove_dir_all(runs_dir.join(seed)).unwrap();
        for index in (0..runs).step_by(5) {
            self.states.insert(index, "PENDING");
        }
        self.answer();
        fs::write(self.folder.join("calls"), "").unwrap();
        self
    }

    /// Writes what squeue and sacct say from now on.
    fn answer(&self) {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let (mut queue, mut accounts) = (String::new(), String::new());
        for (index, (_, id, name)) in self.jobs.iter().enumerate() {
            let state = self.states.get(&index).copied().unwrap_or("RUNNING");
            let exit = if state == "FAILED" { 256 } else { 0 };
            let start = now - 600;
            writeln!(
                queue,
                "{id}|{id}|{state}|{exit}|0|0|{start}|{start}|{now}|node{}|None|{name}|{name}",
                index % 64
            )
            .unwrap();
            if state == "FAILED" {
                writeln!(
                    accounts,
                    "{id}|{id}|{state}|1:0|0:0|{start}|{start}|{now}|node1|None||{name}"
                )
                .unwrap();
            }
        }
        for (name, text) in [("squeue", queue), ("sacct", accounts)] {
            let new = self.folder.join(format!("{name}.new"));
            fs::write(&new, text).unwrap();
            fs::rename(new, self.folder.join(format!("{name}.answer"))).unwrap();
        }
    }

    fn measure(&mut self, watches: usize, seconds: u64, ends: usize) {
        let part = self.jobs.len().div_ceil(watches);
        let parts: Vec<Vec<String>> = self
            .jobs
            .chunks(part)
            .map(|jobs| jobs.iter().map(|j| j.0.clone()).collect())
            .collect();
        let start = Instant::now();
        let mut children: Vec<Child> = Vec::new();
        for names in &parts {
            let err = fs::File::create(self.folder.join(format!("watch-{}.err", children.len())))
                .unwrap();
            children.push(
                self.oomctl()
                    .arg("watch")
                    .args(names)
                    .stderr(err)
                    .spawn()
                    .unwrap(),
            );
        }
        // Each has begun when it has asked; the first minute's questions are not counted.
        while self.calls().get("squeue").copied().unwrap_or(0) < 1 {
            std::thread::sleep(Duration::from_millis(100));
            assert!(
                children[0].try_wait().unwrap().is_none(),
                "the watch has ended"
            );
        }
        let began = start.elapsed();
        std::thread::sleep(Duration::from_secs(10) + began);
        let (calls, cpu, start) = (self.calls(), cpu_of(&children), Instant::now());
        self.live(Duration::from_secs(seconds), ends);
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        let cpu = (cpu_of(&children) - cpu) / start.elapsed().as_secs_f64() * 100.0;
        let after = self.calls();
        let rate = |name: &str| {
            let count = |calls: &BTreeMap<String, u64>| calls.get(name).copied().unwrap_or(0);
            format!("{:.1}", (count(&after) - count(&calls)) as f64 / minutes)
        };
        let (rss, descriptors) = (rss_of(&children), descriptors_of(&children));
        println!(
            "| {} | {watches} | {:.1} | {} | {} | {} | {cpu:.2} | {rss:.1} | {descriptors} |",
            self.jobs.len(),
            began.as_secs_f64(),
            rate("squeue"),
            rate("sacct"),
            rate("scontrol"),
        );
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Lets jobs end and logs grow.
    fn live(&mut self, time: Duration, ends: usize) {
        let start = Instant::now();
        let (mut ended, mut lines) = (0, 0);
        while start.elapsed() < time {
            let passed = start.elapsed().as_secs_f64();
            let wanted = (passed / 60.0 * ends as f64) as usize;
            if wanted > ended + ends / 12 || (wanted > ended && ends < 12) {
                for index in ended..wanted {
                    let job = (index * 7 + 1) % self.jobs.len();
                    let state = if index.is_multiple_of(2) {
                        "COMPLETED"
                    } else {
                        "FAILED"
                    };
                    self.states.insert(job, state);
                }
                ended = wanted;
                self.answer();
            }
            let due = (passed * 100.0) as usize;
            while lines < due {
                self.log(lines);
                lines += 1;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A line of some run's log.
    fn log(&self, line: usize) {
        let run = &self.jobs[line * 31 % self.jobs.len()].0;
        let path = self
            .folder
            .join(".oomctl/runs")
            .join(run)
            .join("attempt-1/slurm.err");
        let mut log = OpenOptions::new().append(true).open(path).unwrap();
        writeln!(
            log,
            "(TaskRunner pid=4121) step:{line} - actor/pg_loss:0.013"
        )
        .unwrap();
    }

    fn calls(&self) -> BTreeMap<String, u64> {
        let text = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        let mut calls = BTreeMap::new();
        for name in text.lines() {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
        calls
    }
}

/// Id and name of a run's job, and the token in its ledger: every other one is a task of an array.
fn identity(index: usize, run: &str) -> (String, String, String) {
    if index.is_multiple_of(2) {
        let token = format!("oomctl-{run}-1-{index:08x}");
        return ((FIRST_JOB + index).to_string(), token.clone(), token);
    }
    let (array, task) = (index / 2 / TASKS, index / 2 % TASKS);
    let name = format!("oomctl-s{array}-1-{array:08x}");
    let token = format!("{name}_{task}");
    (format!("{}_{task}", FIRST_ARRAY + array), name, token)
}

/// Seconds of processor time so far.
fn cpu_of(children: &[Child]) -> f64 {
    let mut nanoseconds = 0.0;
    for child in children {
        for task in fs::read_dir(format!("/proc/{}/task", child.id())).unwrap() {
            let text =
                fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap_or_default();
            nanoseconds += text
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0.0);
        }
    }
    nanoseconds / 1e9
}

/// MiB, of all.
fn rss_of(children: &[Child]) -> f64 {
    let of = |child: &Child| {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    children.iter().map(of).sum::<f64>() / 1024.0
}

fn descriptors_of(children: &[Child]) -> usize {
    let of = |child: &Child| {
        fs::read_dir(format!("/proc/{}/fd", child.id()))
            .unwrap()
            .count()
    };
    children.iter().map(of).sum()
}
