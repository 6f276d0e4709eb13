//! Attempts until a job fits, for each policy, on simulated jobs:
//!
//! ```text
//! cargo bench --bench fit [-- --cases N] [--seed S] [--policy NAME]… [--out FILE.json|FILE.csv]
//! ```
//!
//! `--truth first|second` takes one family of truth, `--why` says why a policy did not solve a case at once,
//! `--case N [--verbose]` is one case alone.
//!
//! What a job needs is computed tensor by tensor through models of PyTorch's caching allocator, in two
//! families that share no formula with each other nor with the product's; a third of the jobs has a term
//! that the product does not know. The product's side is the shipped presets, their rules and their ladder.
//! Nothing is asserted here; `tests.rs` checks the simulator itself.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark uses threads and the clock, and prints"
)]

mod cases;
mod clock;
mod family;
mod first;
mod models;
mod oracle;
mod outcome;
mod policy;
mod rng;
mod score;
mod second;
mod setup;
mod sizes;
mod stack;
mod units;
mod why;

use std::sync::atomic::{AtomicU64, Ordering};

use cases::{Case, Stacks};
use family::Family;
use policy::Policy;
use score::{Row, Summary};

struct Options {
    cases: u64,
    seed: u64,
    families: Vec<Family>,
    /// Names of policies; none for all.
    policies: Vec<String>,
    out: Option<String>,
    /// This case alone.
    case: Option<u64>,
    verbose: bool,
    why: bool,
}

fn options() -> Options {
    let mut options = Options {
        cases: 2_000,
        seed: 4,
        families: vec![Family::First, Family::Second],
        policies: Vec::new(),
        out: None,
        case: None,
        verbose: false,
        why: false,
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
            "--case" => options.case = Some(number()),
            "--policy" => options.policies.extend(words.next()),
            "--out" => options.out = words.next(),
            "--truth" => options.families = families(words.next().as_deref()),
            "--verbose" => options.verbose = true,
            "--why" => options.why = true,
            "--bench" => {}
            other => panic!("there is no option {other}"),
        }
    }
    options
}

fn families(word: Option<&str>) -> Vec<Family> {
    match word {
        Some("first") => vec![Family::First],
        Some("second") => vec![Family::Second],
        other => panic!("there is no truth {other:?}; there are first and second"),
    }
}

/// A reason why a row is no first fit, with its policy and its case.
type Reason = (&'static str, Family, u64, String, String);

/// Rows of one case, one a policy, and reasons.
fn rows(
    case: &Case,
    stacks: &Stacks,
    policies: &[Box<dyn Policy>],
    options: &Options,
) -> (Vec<Row>, Vec<Reason>) {
    let wonders = options.why || options.verbose;
    let mut rows: Vec<Row> = policies
        .iter()
        .map(|policy| score::follow(case, stacks, policy.as_ref(), wonders))
        .collect();
    let reasons = rows.iter().filter(|_| options.why).filter_map(|row| {
        let (reason, shown) = why::reason(case, stacks, row)?;
        Some((row.policy, row.truth, row.case, reason, shown))
    });
    let reasons = reasons.collect();
    if options.verbose {
        for row in &rows {
            println!("{}", why::told(case, row));
        }
    }
    rows.push(score::oracle(case, stacks));
    (rows, reasons)
}

/// All rows, in the order of the cases, from as many threads as there are cores.
fn simulate(
    options: &Options,
    family: Family,
    stacks: &Stacks,
    policies: &[Box<dyn Policy>],
) -> (Vec<Row>, Vec<Reason>) {
    let (first, end) = match options.case {
        Some(case) => (case, case + 1),
        None => (0, options.cases),
    };
    let next = AtomicU64::new(first);
    let work = || {
        let mut mine = (Vec::new(), Vec::new());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= end {
                return mine;
            }
            let case = Case::make(stacks, family, options.seed, index);
            let (rows, reasons) = rows(&case, stacks, policies, options);
            mine.0.extend(rows);
            mine.1.extend(reasons);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in started {
            let (rows, reasons) = thread.join().expect("no case panics");
            all.0.extend(rows);
            all.1.extend(reasons);
        }
    });
    all.0.sort_by_key(|row: &Row| row.case);
    all.1.sort_by_key(|reason: &Reason| reason.2);
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

fn chosen(options: &Options) -> Vec<Box<dyn Policy>> {
    let mut policies = policy::all();
    if options.policies.is_empty() {
        return policies;
    }
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
    policies
}

fn summaries(rows: &[Row], families: &[Family], policies: &[Box<dyn Policy>]) -> Vec<Summary> {
    let names = policies.iter().map(|p| p.name()).chain(["oracle"]);
    let of = |name: &str, family: Family| {
        let mine = rows
            .iter()
            .filter(|r| r.policy == name && r.truth == family);
        Summary::of(&mine.collect::<Vec<_>>())
    };
    names
        .flat_map(|name| families.iter().map(move |family| (name, *family)))
        .map(|(name, family)| of(name, family))
        .collect()
}

fn tell_why(reasons: &[Reason], policies: &[Box<dyn Policy>], families: &[Family]) {
    for policy in policies {
        for family in families {
            let mine = reasons
                .iter()
                .filter(|r| r.0 == policy.name() && r.1 == *family);
            let mine: Vec<_> = mine.map(|r| (r.2, r.3.clone(), r.4.clone())).collect();
            println!(
                "\n{} on the {} truth: {} cases not solved at once\n{}",
                policy.name(),
                family.word(),
                mine.len(),
                why::table(&mine)
            );
        }
    }
}

fn main() {
    let options = options();
    let stacks = Stacks::shipped();
    let policies = chosen(&options);
    let start = std::time::Instant::now();
    let (mut rows, mut reasons) = (Vec::new(), Vec::new());
    for family in &options.families {
        let (mine, why) = simulate(&options, *family, &stacks, &policies);
        rows.extend(mine);
        reasons.extend(why);
    }
    let summaries = summaries(&rows, &options.families, &policies);
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
    if options.why {
        tell_why(&reasons, &policies, &options.families);
    }
    if let Some(path) = &options.out {
        write(path, &rows, &summaries);
    }
}
