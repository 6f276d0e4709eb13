//! What one waits for every day: the start of the program, `status` over a thousand runs, the report of a sweep of ten
//! thousand.
//!
//! The sweep is made by the program itself, from two cells of the example `path-star`: one that succeeds, one that runs
//! out of memory on every rung. All others are copies of the folders of these runs, every tenth of the one that failed,
//! with their ledgers under new names and everything else as hard links.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench touches files, processes and the clock, prints, and ends at the first surprise"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

#[path = "scan/cost.rs"]
mod cost;
use cost::{Cost, found};

/// Times that a short command is run.
const OFTEN: usize = 40;
/// Times that a report is made, after one that finds no index.
const SELDOM: usize = 5;
/// One run in so many failed.
const FAILED_EVERY: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = args.iter().position(|a| a == name);
        at.map(|at| args[at + 1].clone())
    };
    let number = |name: &str, default: usize| value(name).map_or(default, |v| v.parse().unwrap());
    let program = value("--oomctl").unwrap_or_else(|| env!("CARGO_BIN_EXE_oomctl").to_owned());
    let program = fs::canonicalize(program).unwrap();
    let folder = value("--folder").unwrap_or_else(|| "target/tmp".to_owned());
    let folder = Path::new(&folder).join(format!("oomctl-everyday-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let folder = fs::canonicalize(folder).unwrap();
    println!("load {}", load());
    println!("| | wall ms | processor ms | MiB |\n| --- | ---: | ---: | ---: |");
    let some = Project::make(&program, &folder.join("some"), number("--runs", 1_000));
    starts(&some);
    some.status();
    Project::make(&program, &folder.join("many"), number("--tasks", 10_000)).report();
    println!("load {}", load());
    fs::remove_dir_all(&folder).unwrap();
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg")
        .unwrap()
        .trim()
        .to_owned()
}

/// Costs of commands that are run in turns, so that whatever else the machine does falls on all of them.
fn in_turns(commands: &mut [(&str, Command)], times: usize) -> Vec<Cost> {
    let mut costs = vec![Vec::new(); commands.len()];
    for _ in 0..=times {
        for (costs, (_, command)) in costs.iter_mut().zip(&mut *commands) {
            costs.push(Cost::of(command));
        }
    }
    // The first of each warms the caches.
    let medians = costs.iter().map(|costs| Cost::median(&costs[1..]));
    let medians: Vec<Cost> = medians.collect();
    for ((name, _), cost) in commands.iter().zip(&medians) {
        tell(name, *cost);
    }
    medians
}

fn tell(name: &str, cost: Cost) {
    let Cost {
        cpu_s,
        wall_s,
        peak_mib,
    } = cost;
    let (wall_ms, cpu_ms) = (wall_s * 1e3, cpu_s * 1e3);
    println!("| {name} | {wall_ms:.1} | {cpu_ms:.1} | {peak_mib:.0} |");
}

/// The start of the program, beside ripgrep's.
fn starts(project: &Project) {
    let mut tab = project.oomctl(&["--", "oomctl", "status", "s"]);
    tab.env("OOMCTL_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "2");
    let mut commands = vec![
        ("`oomctl --version`", project.oomctl(&["--version"])),
        (
            "`oomctl completions bash`",
            project.oomctl(&["completions", "bash"]),
        ),
        ("a Tab behind `oomctl status s`", tab),
    ];
    match found("rg") {
        false => println!("| `rg` is not in PATH: nothing to set beside | | | |"),
        true => {
            for (name, word) in [
                ("`rg --version`", &["--version"][..]),
                (
                    "`rg --generate complete-bash`",
                    &["--generate", "complete-bash"],
                ),
            ] {
                let mut rg = Command::new("rg");
                rg.args(word);
                commands.push((name, rg));
            }
        }
    }
    in_turns(&mut commands, OFTEN);
}

/// A project with a sweep.
struct Project {
    program: PathBuf,
    folder: PathBuf,
    runs: usize,
}

impl Project {
    fn make(program: &Path, folder: &Path, runs: usize) -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/path-star");
        copied(&example, folder, fs::copy);
        fs::remove_dir_all(folder.join(".oomctl")).ok();
        let sweep = "parameters:\n  graph_vocab_size: {values: [10000, 1000000]}\n  eval_batch_size: {value: 256}\n  seed: {value: 0}\n";
        fs::write(folder.join("sweep.yaml"), sweep).unwrap();
        let project = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            runs,
        };
        let words = "sweep submit sweep.yaml --watch --fresh --backend local";
        let words: Vec<&str> = words.split(' ').collect();
        let mut submit = project.oomctl(&words);
        submit.env("SIM_STEP_S", "0").env("SIM_GPU_GIB", "2.5");
        assert_eq!(submit.output().unwrap().status.code(), Some(3));
        project.multiply();
        project
    }

    fn oomctl(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(&self.folder);
        command
    }

    /// Copies the two runs until there are enough.
    fn multiply(&self) {
        let all = self.folder.join(".oomctl/runs");
        let name = |number: usize| format!("sweep-1.{number}");
        let ledgers = [1, 2].map(|n| fs::read_to_string(all.join(name(n)).join("ledger.jsonl")));
        let ledgers = ledgers.map(Result::unwrap);
        for number in 3..=self.runs {
            let of = if number % FAILED_EVERY == 0 { 2 } else { 1 };
            let (from, to) = (all.join(name(of)), all.join(name(number)));
            copied(&from, &to, |from, to| fs::hard_link(from, to).map(|()| 0));
            fs::remove_file(to.join("ledger.jsonl")).unwrap();
            let own =
                ledgers[of - 1].replace(&format!("{}\"", name(of)), &format!("{}\"", name(number)));
            fs::write(to.join("ledger.jsonl"), own).unwrap();
        }
        let runs: Vec<String> = (1..=self.runs).map(name).collect();
        let record = json!({ "schema_version": 1, "sweep": "sweep-1", "flock": { "runs": runs, "at_once": 1 } });
        fs::write(
            self.folder.join(".oomctl/sweeps/sweep-1/sweep.json"),
            record.to_string(),
        )
        .unwrap();
        fs::remove_file(self.folder.join(".oomctl/index.jsonl")).ok();
    }

    /// All runs at a glance, beside a program that does nothing.
    fn status(&self) {
        let runs = self.runs;
        tell(
            &format!("`status`, {runs} runs, the first time"),
            Cost::of(&mut self.oomctl(&["status"])),
        );
        let name = format!("`status`, {runs} runs");
        let mut commands = [
            (name.as_str(), self.oomctl(&["status"])),
            ("`/bin/true`", Command::new("/bin/true")),
        ];
        let costs = in_turns(&mut commands, OFTEN);
        let (wall, cpu) = (
            costs[0].wall_s / costs[1].wall_s,
            costs[0].cpu_s / costs[1].cpu_s,
        );
        println!("| `status` / `/bin/true` (aim 30) | {wall:.1} | {cpu:.1} | |");
    }

    /// The page of the whole sweep.
    fn report(&self) {
        let tasks = self.runs;
        let words = ["report", "sweep-1", "--to", "page.html"];
        tell(
            &format!("`report`, {tasks} tasks, the first time"),
            Cost::of(&mut self.oomctl(&words)),
        );
        let name = format!("`report`, {tasks} tasks (aim 2,000 ms)");
        in_turns(&mut [(name.as_str(), self.oomctl(&words))], SELDOM);
        let page = fs::read_to_string(self.folder.join("page.html")).unwrap();
        assert!(
            page.contains(&format!("sweep-1.{tasks}")),
            "the last run is not in the page"
        );
        println!(
            "| the page: {:.2} MB (aim 5) | | | |",
            page.len() as f64 / 1e6
        );
    }
}

/// The files of a folder, each by `copy`, in another folder.
fn copied<T>(from: &Path, to: &Path, copy: fn(PathBuf, PathBuf) -> std::io::Result<T>) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copied(&entry.path(), &to, copy),
            false => drop(copy(entry.path(), to).unwrap()),
        }
    }
}
