//! Attempts until a job fits, for each policy, on simulated jobs:
//!
//! ```text
//! cargo bench --bench fit [-- --cases N] [--seed S] [--policy NAME]… [--out FILE.json|FILE.csv]
//! ```
//!
//! What a job needs is computed tensor by tensor through a model of PyTorch's caching allocator, by
//! formulas that have nothing in common with the product's; a third of the jobs has a term that the
//! product does not know. The product's side is the shipped presets, their rules and their ladder.
//! Nothing is asserted here; `tests/fit.rs` checks the simulator itself.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark uses threads and the clock, and prints"
)]

mod allocator;
mod cases;
mod clock;
mod engine;
mod hidden;
mod incident;
mod models;
mod operators;
mod oracle;
mod phases;
mod policy;
mod rng;
mod score;
mod setup;
mod sizes;
mod speed;
mod stack;
mod trainer;
mod truth;

use std::sync::atomic::{AtomicU64, Ordering};

use cases::{Case, Stacks};
use policy::Policy;
use score::{Row, Summary};

struct Options {
    cases: u64,
    seed: u64,
    /// Names of policies; none for all.
    policies: Vec<String>,
    out: Option<String>,
}

fn options() -> Options {
    let mut options = Options {
        cases: 2_000,
        seed: 4,
        policies: Vec::new(),
        out: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            words
                .next()
                .and_then(|n| n.parse().ok())
                .expect("a number follows")
        };
        match word.as_str() {
            "--cases" => options.cases = number(),
            "--seed" => options.seed = number(),
            "--policy" => options.policies.extend(words.next()),
            "--out" => options.out = words.next(),
            "--bench" => {}
            other => panic!("there is no option {other}"),
        }
    }
    options
}

/// Rows of one case, one a policy.
fn rows(case: &Case, stacks: &Stacks, policies: &[Box<dyn Policy>]) -> Vec<Row> {
    let mut rows: Vec<Row> = policies
        .iter()
        .map(|policy| score::follow(case, stacks, policy.as_ref()))
        .collect();
    rows.push(score::oracle(case, stacks));
    rows
}

/// All rows, in the order of the cases, from as many threads as there are cores.
fn simulate(options: &Options, stacks: &Stacks, policies: &[Box<dyn Policy>]) -> Vec<Row> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= options.cases {
                return mine;
            }
            let case = Case::make(stacks, options.seed, index);
            mine.extend(rows(&case, stacks, policies));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<Row> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = started
            .into_iter()
            .map(|thread| thread.join().expect("no case panics"));
        done.flatten().collect()
    });
    all.sort_by_key(|row| row.case);
    all
}

fn write(path: &str, rows: &[Row], summaries: &[Summary]) {
    let text = if path.ends_with(".csv") {
        csv(rows)
    } else {
        let document = serde_json::json!({ "summaries": summaries, "rows": rows });
        serde_json::to_string_pretty(&document).expect("rows are plain data")
    };
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{path}: {e}"));
}

/// One line a row; lists in a row are joined by semicolons.
fn csv(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let serde_json::Value::Object(fields) = serde_json::json!(row) else {
            continue;
        };
        if text.is_empty() {
            text.push_str(&fields.keys().cloned().collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        let cell = |value: &serde_json::Value| match value {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(all) => joined(all),
            other => other.to_string(),
        };
        text.push_str(&fields.values().map(cell).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

fn joined(all: &[serde_json::Value]) -> String {
    let text = |value: &serde_json::Value| value.to_string().trim_matches('"').to_owned();
    all.iter().map(text).collect::<Vec<_>>().join(";")
}

fn main() {
    let options = options();
    let stacks = Stacks::shipped();
    let mut policies = policy::all();
    if !options.policies.is_empty() {
        let known: Vec<&str> = policies.iter().map(|p| p.name()).collect();
        let unknown = options
            .policies
            .iter()
            .find(|name| !known.contains(&name.as_str()));
        assert!(
            unknown.is_none(),
            "there is no policy {unknown:?}; there are {known:?}"
        );
        policies.retain(|p| options.policies.iter().any(|name| name == p.name()));
    }
    let start = std::time::Instant::now();
    let rows = simulate(&options, &stacks, &policies);
    let names = policies.iter().map(|p| p.name()).chain(["oracle"]);
    let summaries: Vec<Summary> = names
        .map(|name| Summary::of(&rows.iter().filter(|r| r.policy == name).collect::<Vec<_>>()))
        .collect();
    println!(
        "{} cases, seed {}, {:.0} s\n",
        options.cases,
        options.seed,
        start.elapsed().as_secs_f64()
    );
    println!("{}", Summary::HEAD);
    for summary in &summaries {
        println!("{}", summary.line());
    }
    let better = rows.iter().filter(|row| row.beats_oracle).count();
    println!(
        "\n{better} of {} runs are better than the oracle",
        rows.len()
    );
    if let Some(path) = &options.out {
        write(path, &rows, &summaries);
    }
}
