//! Thousands of bad days. The real loop, ledger, ownership, followers, diagnosis and Slurm client live in
//! a simulated world: the calls of `io::disk` and Slurm's commands are answered by an adversary that
//! draws from a seed. What must hold is asserted where it can be broken: at sbatch (`commands`), after a
//! turn (`simulated_supervisor`) and at the end (`story`). In some stories a supervisor stays, in others small jobs or the job's own script
//! take turns (`watch_chain`).
//!
//! The world keeps to what is promised of it: sbatch's message is dealt with within 20 s of a lost answer
//! or sits in a controller that answers nothing else; squeue leaves a job out for at most 25 s at a time, and
//! shows it for a minute in between; a job that is requeued is so within 20 s of its end; caches are at
//! most 60 s old, and an open shows what is there; nobody is stopped between the look at the owner's own file and
//! the start of sbatch or scancel; the job's own node has the cluster's clock, because Slurm's authentication refuses another
//! (munged(8): a credential lives for 300 s).

mod choices;
mod cluster;
mod commands;
mod disk;
mod job;
mod planted;
mod simulated_supervisor;
mod story;
mod watch_chain;
mod world;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use choices::{Choices, shrink};
use planted::Bug;
use story::{Told, tell};

/// Stories of every test run.
const SEEDS: u64 = 2_000;
/// Stories among which a planted mistake must be found.
const SEEDS_PLANTED: u64 = 3_000;
/// Stories that are tried to make one shorter.
const SHRINK_TRIES: usize = 1_500;

/// A folder in memory, where there is one, with Slurm's commands.
fn base() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let memory = Path::new("/dev/shm");
    let base = match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    std::fs::create_dir(base.path().join("bin")).unwrap();
    for name in ["sbatch", "squeue", "sacct", "scontrol", "scancel"] {
        let path = base.path().join("bin").join(name);
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    base
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Lives through the stories of these seeds, several at a time. Returns how many ended how, and the first
/// that were broken.
fn live(
    seeds: std::ops::Range<u64>,
    bug: Option<Bug>,
    most: usize,
) -> (BTreeMap<String, u64>, Vec<(u64, Told)>) {
    let next = AtomicU64::new(seeds.start);
    let ends: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let broken: Mutex<Vec<(u64, Told)>> = Mutex::default();
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(16);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let base = base();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || broken.lock().unwrap().len() >= most {
                        return;
                    }
                    let told = tell(base.path(), Choices::new(seed), bug, false);
                    match (&told.broken, &told.outcome) {
                        (None, Some(outcome)) => {
                            *ends
                                .lock()
                                .unwrap()
                                .entry(outcome.word().to_owned())
                                .or_default() += 1
                        }
                        _ => broken.lock().unwrap().push((seed, told)),
                    }
                }
            });
        }
    });
    let mut broken = broken.into_inner().unwrap();
    broken.sort_by_key(|(seed, _)| *seed);
    (ends.into_inner().unwrap(), broken)
}

/// The shortest story that is broken in the same way.
fn shortest(told: &Told, bug: Option<Bug>) -> Told {
    let base = base();
    let kind = |told: &Told| {
        told.broken.as_ref().map(|b| {
            b.chars()
                .filter(|c| !c.is_ascii_digit())
                .take(24)
                .collect::<String>()
        })
    };
    let wanted = kind(told);
    let short = shrink(told.choices.clone(), SHRINK_TRIES, |choices| {
        kind(&tell(
            base.path(),
            Choices::again(choices.to_vec()),
            bug,
            false,
        )) == wanted
    });
    tell(base.path(), Choices::again(short), bug, true)
}

fn report(seed: u64, told: &Told) -> String {
    let short = shortest(told, None);
    let choices = short.choices.iter().filter(|v| **v != 0).count();
    format!(
        "seed {seed}: {}\nOOMCTL_SIM_SEED={seed} tells this story again. The shortest of its kind has {choices} bad choices:\n{}\n",
        told.broken.as_deref().unwrap_or(""),
        short.lines.join("\n")
    )
}

#[test]
fn nothing_is_lost_or_doubled_in_thousands_of_bad_days() {
    if let Some(seed) = number("OOMCTL_SIM_SEED") {
        let told = tell(base().path(), Choices::new(seed), None, true);
        println!("{}", told.lines.join("\n"));
        assert_eq!(told.broken, None, "{}", report(seed, &told));
        return;
    }
    let from = number("OOMCTL_SIM_FROM").unwrap_or(0);
    let seeds = number("OOMCTL_SIM_SEEDS").unwrap_or(SEEDS);
    let (ends, broken) = live(from..from + seeds, None, 20);
    println!("seeds {from} to {}: {ends:?}", from + seeds);
    for (seed, told) in &broken {
        println!("seed {seed}: {}", told.broken.as_deref().unwrap_or(""));
    }
    if let Some((seed, told)) = broken.first() {
        panic!("{}", report(*seed, told));
    }
    // A few days need not see every end.
    if seeds < SEEDS {
        return;
    }
    for word in
        "succeeded failed exhausted refused retries_spent budget_spent cancelled".split_whitespace()
    {
        assert!(ends.contains_key(word), "no run was {word}: {ends:?}");
    }
}

#[test]
fn every_planted_mistake_is_found() {
    let only = std::env::var("OOMCTL_SIM_BUG").ok();
    let wanted = |bug: &Bug| only.as_ref().is_none_or(|name| *name == format!("{bug:?}"));
    for bug in Bug::ALL.into_iter().filter(wanted) {
        let first = bug.first_seed();
        let (_, broken) = live(first..first + SEEDS_PLANTED, Some(bug), 1);
        let (seed, told) = broken
            .first()
            .unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!(
            "{bug:?}: seed {seed}: {}",
            told.broken.as_deref().unwrap_or("")
        );
    }
}

#[test]
fn the_same_seed_is_the_same_story() {
    let base = base();
    for seed in 0..20 {
        let first = tell(base.path(), Choices::new(seed), None, true);
        let again = tell(
            base.path(),
            Choices::again(first.choices.clone()),
            None,
            true,
        );
        assert_eq!(first.lines, again.lines, "seed {seed}");
    }
}
