//! Following thousands of logs: what it costs, and how long a line takes to become an incident.
//!
//! The bench writes the logs. Whoever follows them is a process of its own: this program again, with the
//! loop of `oomctl watch` around follower and scanner, or `tail -F`. CPU time is read from
//! /proc/PID/task/*/schedstat, memory and descriptors from /proc; a delay is the time from the write of a
//! line to the arrival here of the follower's word on it.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench touches files, processes and the clock, prints, and ends at the first surprise"
)]

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use oomctl::drive::WakeSources;
use oomctl_diagnose::{ProgressPattern, Scanner, SourceId};
use oomctl_follow::{FollowStart, Followed, Followers, Growth, LookMode};

/// Shortest wait of the loop, as in `oomctl watch`.
const WAIT_MIN: Duration = Duration::from_millis(20);
/// How long followers may settle before they are measured.
const SETTLE: Duration = Duration::from_secs(13);
/// Time between two lines that are an incident.
const PROBE: Duration = Duration::from_millis(47);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--follow") {
        return follow(
            &args[at + 1],
            Path::new(&args[at + 2]),
            args[at + 3].parse().unwrap(),
        );
    }
    let number = |name: &str, default: u64| {
        let at = args.iter().position(|a| a == name);
        at.map_or(default, |at| args[at + 1].parse().unwrap())
    };
    let (files, seconds) = (number("--files", 10_000), number("--seconds", 15));
    let lines = number("--lines", 1_000);
    let folder =
        tempfile::tempdir_in(std::env::var("BENCH_DIR").unwrap_or_else(|_| ".".into())).unwrap();
    let logs = Logs::make(folder.path(), files);
    let some = files.min(1_000);
    println!(
        "{files} logs, {lines} lines/s over all of them, {seconds} s each; load {}\n",
        fs::read_to_string("/proc/loadavg").unwrap().trim()
    );
    println!(
        "| follower | logs | lines/s | CPU % of a core | RSS MiB | descriptors | delay ms: median | p95 | p99 | max | seen |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut rig = Bench {
        logs,
        seconds,
        probe: 0,
    };
    for (who, of, rate) in [
        (Who::Ours("inotify"), files, lines),
        (Who::Ours("polling"), files, lines),
        (Who::Ours("inotify"), files, 0),
        (Who::Ours("polling"), files, 0),
        (Who::Ours("inotify"), some, lines),
        (Who::Ours("polling"), some, lines),
        (Who::Tail(""), some, lines),
        (Who::Tail("---disable-inotify"), some, lines),
        (Who::Tail(""), some, 0),
    ] {
        rig.measure(who, of, rate);
    }
    println!(
        "\nload at the end {}",
        fs::read_to_string("/proc/loadavg").unwrap().trim()
    );
}

/// Who follows.
#[derive(Clone, Copy)]
enum Who {
    Ours(&'static str),
    Tail(&'static str),
}

/// The logs, one a folder as attempts have them.
struct Logs {
    paths: Vec<PathBuf>,
}

impl Logs {
    fn make(folder: &Path, files: u64) -> Self {
        let paths: Vec<PathBuf> = (0..files).map(|file| path(folder, file)).collect();
        for path in &paths {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "(TaskRunner pid=4121) step:1 - actor/pg_loss:0.013\n").unwrap();
        }
        Self { paths }
    }

    fn append(&self, file: u64, line: &str) {
        let path = &self.paths[usize::try_from(file).unwrap()];
        let mut log = OpenOptions::new().append(true).open(path).unwrap();
        log.write_all(line.as_bytes()).unwrap();
    }
}

fn path(folder: &Path, file: u64) -> PathBuf {
    folder.join(format!("run-{file:05}/slurm-{}.err", 100_000 + file))
}

struct Bench {
    logs: Logs,
    seconds: u64,
    probe: u64,
}

impl Bench {
    fn measure(&mut self, who: Who, of: u64, rate: u64) {
        let folder = self.logs.paths[0].ancestors().nth(2).unwrap().to_owned();
        let mut child = start(
            who,
            &folder,
            &self.logs.paths[..usize::try_from(of).unwrap()],
        );
        let heard = listen(&mut child);
        // What a follower does at its start is not measured; its first looks are.
        std::thread::sleep(SETTLE);
        while heard.try_recv().is_ok() {}
        let (cpu, start) = (cpu_of(&child), Instant::now());
        let delays = self.write(&heard, of, rate);
        let share = (cpu_of(&child) - cpu) / start.elapsed().as_secs_f64() * 100.0;
        let (rss, descriptors) = (rss_of(&child), descriptors_of(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        let name = match who {
            Who::Ours(how) => format!("oomctl, {how}"),
            Who::Tail("") => "tail -F, inotify".to_owned(),
            Who::Tail(_) => "tail -F, polling".to_owned(),
        };
        println!(
            "| {name} | {of} | {rate} | {share:.2} | {rss:.1} | {descriptors} | {} |",
            delays.unwrap_or_else(|| "| | | |".to_owned())
        );
    }

    /// Writes so many lines a second over all logs, and now and then an OOM into one that is followed;
    /// says how long these took to be seen.
    fn write(&mut self, heard: &Receiver<(u64, Instant)>, of: u64, rate: u64) -> Option<String> {
        let (start, length) = (Instant::now(), Duration::from_secs(self.seconds));
        if rate == 0 {
            std::thread::sleep(length);
            return None;
        }
        let mut written: HashMap<u64, Instant> = HashMap::new();
        let (mut lines, mut probes) = (0, 0);
        let all = self.logs.paths.len() as u64;
        while start.elapsed() < length {
            let due = rate * u64::try_from(start.elapsed().as_millis()).unwrap() / 1_000;
            while lines < due {
                let line = format!(
                    "(WorkerDict pid=7{lines}) INFO 11-21 05:33:11 worker.py:267] generation throughput {lines} tokens/s\n"
                );
                self.logs.append(scatter(lines, all), &line);
                lines += 1;
            }
            if start.elapsed() > PROBE * probes {
                probes += 1;
                self.probe += 1;
                let line = format!(
                    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. probe {}\n",
                    self.probe
                );
                let log = scatter(self.probe, of);
                written.insert(self.probe, Instant::now());
                self.logs.append(log, &line);
            }
            std::thread::sleep(Duration::from_micros(3_300));
        }
        // What was written last may take a whole poll.
        std::thread::sleep(Duration::from_secs(3));
        let mut delays: Vec<f64> = heard
            .try_iter()
            .filter_map(|(probe, at)| {
                Some(at.duration_since(written.remove(&probe)?).as_secs_f64() * 1e3)
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        let quantile = |q: usize| {
            delays
                .get((delays.len() * q / 100).min(delays.len().saturating_sub(1)))
                .copied()
                .unwrap_or(f64::NAN)
        };
        Some(format!(
            "{:.1} | {:.1} | {:.1} | {:.1} | {} of {probes}",
            quantile(50),
            quantile(95),
            quantile(99),
            quantile(100),
            delays.len()
        ))
    }
}

/// The n-th of a sequence that visits all logs in no order.
fn scatter(n: u64, of: u64) -> u64 {
    n.wrapping_mul(7_919).wrapping_add(13) % of
}

fn start(who: Who, folder: &Path, paths: &[PathBuf]) -> Child {
    let mut command = match who {
        Who::Ours(how) => {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--follow", how])
                .arg(folder)
                .arg(paths.len().to_string());
            command
        }
        Who::Tail(option) => {
            let mut command = Command::new("tail");
            command.args(["-q", "-F", "-n", "0"]);
            command
                .args(Some(option).filter(|o| !o.is_empty()))
                .args(paths);
            command
        }
    };
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Probes as the follower says them, with the time.
fn listen(child: &mut Child) -> Receiver<(u64, Instant)> {
    let (tell, heard) = channel();
    let output = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let probe = line.rsplit_once("probe ").and_then(|(_, n)| n.parse().ok());
            if let Some(probe) = probe
                && tell.send((probe, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    heard
}

/// Seconds of CPU time, of all threads.
fn cpu_of(child: &Child) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id()))
        .unwrap()
        .flatten();
    let times = tasks.map(|task| fs::read_to_string(task.path().join("schedstat")).unwrap());
    let sum: f64 = times
        .map(|t| t.split(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    sum / 1e9
}

/// Resident memory now, in MiB.
fn rss_of(child: &Child) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib as f64 / 1024.0
}

fn descriptors_of(child: &Child) -> usize {
    fs::read_dir(format!("/proc/{}/fd", child.id()))
        .unwrap()
        .count()
}

/// One log with its scanner.
struct Log {
    followed: Followed,
    scanner: Scanner,
    source: SourceId,
    said: bool,
}

/// The follower's process: the loop of `oomctl watch` with the logs alone.
fn follow(how: &str, folder: &Path, files: u64) {
    let mut followers = match how {
        "inotify" => Followers::new(),
        _ => Followers::polling(),
    };
    let mut logs: Vec<Log> = (0..files)
        .map(|file| {
            let mut scanner = Scanner::new(&[] as &[ProgressPattern]);
            let path = path(folder, file);
            let end = fs::metadata(&path).unwrap().len();
            Log {
                source: scanner.source("slurm.err"),
                scanner,
                followed: followers.follow(path, FollowStart::At(end), file),
                said: false,
            }
        })
        .collect();
    let (_tell, sources) = WakeSources::channel();
    let _wakes = followers.waiter().map(|waiter| sources.logs(waiter));
    loop {
        let now = Timestamp::now();
        for file in followers.ready(now) {
            look(
                &mut followers,
                &mut logs[usize::try_from(file).unwrap()],
                now,
            );
        }
        let next = followers.next_due().unwrap_or(now);
        let wait = Duration::try_from(next.duration_since(Timestamp::now())).unwrap_or_default();
        let _ = sources.wait(wait.max(WAIT_MIN));
    }
}

/// Reads a log, and says the probes of which an incident has come.
fn look(followers: &mut Followers, log: &mut Log, now: Timestamp) {
    let Log {
        followed,
        scanner,
        source,
        ..
    } = log;
    let grew = followers.read(followed, now, LookMode::Due, &mut |growth| {
        if let Growth::Bytes { offset, data } = growth {
            scanner.feed(*source, offset, data);
        }
    });
    if !grew {
        return;
    }
    let Some(incident) = log.scanner.digest().incident else {
        return;
    };
    if !std::mem::replace(&mut log.said, true) {
        println!("{}", incident.evidence[0].text);
    }
}
