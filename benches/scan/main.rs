//! What it costs to diagnose a log, beside what it costs to read it at all:
//!
//! ```text
//! cargo bench --bench scan [-- MIB] [VARIANT…] [--rounds N] [--keep FOLDER]
//! ```
//!
//! Makes logs of MIB mebibytes (256 unless said; 1024 for the figures in benches/README.md), reads each
//! with `cat`, `oomctl diagnose`, and, where they are found, `rg` and `grep` with the same signatures,
//! one after the other in every round, and prints medians of processor time (user and system, from
//! `wait4`) and peak memory. One thread each. That the failure is found is asserted; no time is.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads files, starts programs and prints"
)]

mod cost;
mod measure;
mod noise;

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use cost::Cost;
use measure::Reader;
use noise::Variant;

/// Any number: the same log every time.
const SEED: u64 = 20_260_302;

struct Options {
    mib: usize,
    variants: Vec<Variant>,
    rounds: usize,
    keep: Option<PathBuf>,
}

fn options() -> Options {
    let mut options = Options {
        mib: 256,
        variants: Vec::new(),
        rounds: 5,
        keep: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let variant = Variant::ALL.into_iter().find(|v| v.name() == word);
        match (word.as_str(), variant) {
            (_, Some(variant)) => options.variants.push(variant),
            ("--rounds", _) => {
                let n = words.next().and_then(|n| n.parse().ok());
                options.rounds = n.expect("--rounds takes a number");
            }
            ("--keep", _) => options.keep = words.next().map(PathBuf::from),
            ("--bench", _) => {}
            (size, None) => options.mib = size.parse().expect("a size in MiB or a variant's name"),
        }
    }
    if options.variants.is_empty() {
        options.variants = Variant::ALL.to_vec();
    }
    options
}

fn made(folder: &Path, variant: Variant, mib: usize) -> PathBuf {
    let path = folder.join(format!("{}-{mib}.log", variant.name()));
    let size = std::fs::metadata(&path).map_or(0, |m| m.len());
    if size < (mib as u64) << 20 {
        let file = std::fs::File::create(&path).expect("the log can be written");
        noise::write(
            BufWriter::with_capacity(1 << 20, file),
            variant,
            mib << 20,
            SEED,
        )
        .expect("the log can be written");
    }
    path
}

fn compare(path: &Path, variant: Variant, readers: &[Reader], rounds: usize) {
    let found = measure::kind(path);
    assert_eq!(found, variant.kind(), "in {}", path.display());
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); readers.len()];
    for round in 0..=rounds {
        for (reader, costs) in readers.iter().zip(&mut costs) {
            if reader.slow && round != 1 {
                continue;
            }
            let cost = reader.run(path);
            // The first round warms the page cache.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let medians: Vec<Cost> = costs.iter().map(|c| Cost::median(c)).collect();
    let cat = medians[0].cpu_s;
    let rg = readers.iter().position(|r| r.name == "rg -a -c");
    for (reader, cost) in readers.iter().zip(&medians) {
        let beside = rg.map_or(String::new(), |rg| {
            format!("{:>8.2}", cost.cpu_s / medians[rg].cpu_s)
        });
        println!(
            "{:<9} {:<16} {:>8.3} {:>8.3} {:>8.2} {beside} {:>9.1}",
            variant.name(),
            reader.name,
            cost.cpu_s,
            cost.wall_s,
            cost.cpu_s / cat,
            cost.peak_mib
        );
    }
}

fn main() {
    let options = options();
    let temporary = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = options.keep.clone().unwrap_or(temporary.path().to_owned());
    let readers = measure::readers(temporary.path());
    println!(
        "{} MiB, {} rounds, medians; processor time of user and system",
        options.mib, options.rounds
    );
    println!(
        "{:<9} {:<16} {:>8} {:>8} {:>8} {:>8} {:>9}",
        "variant", "reader", "cpu s", "wall s", "x cat", "x rg", "peak MiB"
    );
    for variant in &options.variants {
        let path = made(&folder, *variant, options.mib);
        compare(&path, *variant, &readers, options.rounds);
        if options.keep.is_none() {
            std::fs::remove_file(&path).expect("our own file can be removed");
        }
    }
}
