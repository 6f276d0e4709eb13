//! Running a check on many inputs for a while, and telling how to repeat the one that fails.
//!
//! Each case has a number, from which its input follows: the number repeats it. An input that fails is
//! made shorter while it still fails, and written to a file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::checks::random::Random;
use crate::mutate;
use crate::seeds::{self, Seeds};
use oomctl_base::word_list;

/// What `OOMCTL_FUZZ_TARGET` may name: the targets here, and the one beside the follower.
const TARGETS: [&str; 12] = word_list(
    "log message slurm project template ledger kernel_log snapshot python script printed follower",
);
/// Seconds for each target where nothing else is asked for.
const SECONDS: u64 = 3;
/// Bytes of the stack that a check may use: in a test build a level of recursion takes ten times what it
/// takes in the program, whose main thread has 8 MiB.
const STACK: usize = 64 << 20;
/// Seconds for making an input shorter.
const SHRINKING: Duration = Duration::from_secs(30);

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What the environment asks for.
struct Wish {
    seconds: u64,
    /// The first case: the same in every test run, another one each time where more time is given.
    first: u64,
    /// This one case only.
    only: Option<u64>,
    /// This input only.
    input: Option<PathBuf>,
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) => panic!("{name}={text} cannot be read"),
    }
}

/// `None` where another target is asked for.
fn wish(target: &str) -> Option<Wish> {
    if let Some(name) = variable::<String>("OOMCTL_FUZZ_TARGET") {
        assert!(
            TARGETS.contains(&name.as_str()),
            "no target is named {name}"
        );
        if name != target {
            return None;
        }
    }
    let seconds = variable("OOMCTL_FUZZ_SECONDS");
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Some(Wish {
        first: seconds.map_or(0, |_: u64| Random::new(clock.as_secs()).next()),
        seconds: seconds.unwrap_or(SECONDS),
        only: variable("OOMCTL_FUZZ_SEED"),
        input: variable("OOMCTL_FUZZ_INPUT"),
    })
}

/// Runs a check until the time is up, or on the one case that the environment names.
pub fn run(target: &'static str, check: impl Fn(&[u8]) + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name(target.to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, move || campaign(target, &check))
            .unwrap();
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn campaign(target: &str, check: &dyn Fn(&[u8])) {
    let Some(wish) = wish(target) else {
        return;
    };
    be_quiet_where_asked();
    if let Some(path) = wish.input {
        return check(&std::fs::read(path).unwrap());
    }
    let seeds = seeds::of(target);
    if let Some(case) = wish.only {
        return judge(target, case, &input(case, &seeds), check);
    }
    let end = Instant::now() + Duration::from_secs(wish.seconds);
    let (mut cases, mut bytes) = (0_u64, 0);
    while Instant::now() < end {
        let case = wish.first.wrapping_add(cases);
        // A case that ends the process, or never ends, is named here.
        std::fs::write(found(target, "running"), case.to_string()).unwrap();
        let input = input(case, &seeds);
        judge(target, case, &input, check);
        cases += 1;
        bytes += input.len();
    }
    println!(
        "{target}: {cases} cases, {bytes} bytes, from case {}",
        wish.first
    );
}

fn input(case: u64, seeds: &Seeds) -> Vec<u8> {
    // Neighbours are to have nothing in common.
    let mut random = Random::new(Random::new(case).next());
    mutate::input(&mut random, &seeds.inputs, &seeds.words)
}

fn found(target: &str, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{target}.{name}"))
}

fn judge(target: &str, case: u64, input: &[u8], check: &dyn Fn(&[u8])) {
    let Some(why) = failure(input, check) else {
        return;
    };
    let shortest = shrink(input, &|input| failure(input, check).is_some());
    let path = found(target, &format!("{case}.input"));
    std::fs::write(&path, &shortest).unwrap();
    let why = failure(&shortest, check).unwrap_or(why);
    let why: String = why.chars().take(2_000).collect();
    panic!(
        "{target}, case {case}: {why}\n{} bytes, made shorter to {} in {path}\n\
         the case:  OOMCTL_FUZZ_TARGET={target} OOMCTL_FUZZ_SEED={case} cargo test --test fuzz\n\
         the input: OOMCTL_FUZZ_TARGET={target} OOMCTL_FUZZ_INPUT={path} cargo test --test fuzz",
        input.len(),
        shortest.len(),
        path = path.display(),
    );
}

/// What the check says against an input, without a word on the terminal.
fn failure(input: &[u8], check: &dyn Fn(&[u8])) -> Option<String> {
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| check(input)));
    QUIET.set(false);
    let panic = outcome.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .or_else(|| Some("a panic without words".to_owned()))
}

fn be_quiet_where_asked() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                usual(panic);
            }
        }));
    });
}

/// A shorter input that still fails: pieces are taken out, large ones first, then bytes made plain.
pub fn shrink(input: &[u8], fails: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let end = Instant::now() + SHRINKING;
    let mut shortest = input.to_vec();
    let mut size = shortest.len().div_ceil(2);
    while size > 0 && Instant::now() < end {
        let mut at = 0;
        while at < shortest.len() && Instant::now() < end {
            let mut without = shortest.clone();
            without.drain(at..(at + size).min(shortest.len()));
            if fails(&without) {
                shortest = without;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    for at in 0..shortest.len() {
        if Instant::now() >= end {
            break;
        }
        let before = std::mem::replace(&mut shortest[at], b'a');
        if before == b'\n' || !fails(&shortest) {
            shortest[at] = before;
        }
    }
    shortest
}
