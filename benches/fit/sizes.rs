//! The sizes that the oracle looks for: micro batches and token budgets, each with the phase that it
//! decides about.

use super::outcome::Part as Decides;
use super::setup::{Program, Setup};

/// One size.
pub struct Part {
    pub name: &'static str,
    /// Legal sizes, ascending, the start's the last.
    pub sizes: fn(&Setup) -> Vec<u64>,
    pub put: fn(&mut Setup, u64),
    /// The part of the job that has to fit.
    pub decides: Decides,
    /// Whether offloading states between phases matters to it.
    pub offload: bool,
}

const fn part(
    name: &'static str,
    sizes: fn(&Setup) -> Vec<u64>,
    put: fn(&mut Setup, u64),
    decides: Decides,
    offload: bool,
) -> Part {
    Part {
        name,
        sizes,
        put,
        decides,
        offload,
    }
}

/// With a number of sequences in each micro batch.
#[rustfmt::skip]
const BATCHES: [Part; 3] = [
    part("update", |s| divisors(s.mini_per_rank(), s.micro), |s, x| s.micro = x, Decides::Update, false),
    part("old", |s| divisors(s.step_per_rank(), s.logprob_micro), |s, x| s.logprob_micro = x, Decides::OldLogprob, true),
    part("ref", |s| divisors(s.step_per_rank(), s.ref_micro), |s, x| s.ref_micro = x, Decides::RefLogprob, true),
];

/// With a budget of tokens.
#[rustfmt::skip]
const BUDGETS: [Part; 3] = [
    part("update", |s| budgets(s, s.budget), |s, x| s.budget = x, Decides::Update, false),
    part("old", |s| budgets(s, s.logprob_budget), |s, x| s.logprob_budget = x, Decides::OldLogprob, true),
    part("ref", |s| budgets(s, s.ref_budget), |s, x| s.ref_budget = x, Decides::RefLogprob, true),
];

/// A script has one, and accumulates what it does not do at once.
const SCRIPT: [Part; 1] = [part("update", halvings, accumulate, Decides::Update, false)];

/// The sizes of a program.
pub fn parts(setup: &Setup) -> &'static [Part] {
    match (setup.program, setup.dynamic) {
        (Program::Grpo, false) => &BATCHES,
        (Program::Grpo, true) => &BUDGETS,
        (Program::Replicated | Program::Sharded, _) => &SCRIPT,
    }
}

fn divisors(of: u64, most: u64) -> Vec<u64> {
    (1..=most).filter(|d| of.is_multiple_of(*d)).collect()
}

/// A grid from the least legal budget up to `most`, and what halving reaches.
fn budgets(setup: &Setup, most: u64) -> Vec<u64> {
    let floor = setup.sequence().div_ceil(setup.sequence_parallel).min(most);
    let mut all = vec![most, floor];
    let mut next = most as f64;
    while next * 0.93 > floor as f64 {
        next *= 0.93;
        all.push(next as u64);
    }
    all.extend((1..6).map(|k| most >> k).filter(|b| *b > floor));
    all.sort_unstable();
    all.dedup();
    all
}

/// Batch sizes by halving; with accumulation only even ones are halved.
fn halvings(setup: &Setup) -> Vec<u64> {
    let mut all = vec![setup.micro];
    let mut now = setup.micro;
    while now > 1 && (setup.accumulation.is_none() || now.is_multiple_of(2)) {
        now /= 2;
        all.push(now);
    }
    all.reverse();
    all
}

fn accumulate(setup: &mut Setup, micro: u64) {
    setup.accumulation = setup.accumulation.map(|n| n * setup.micro / micro);
    setup.micro = micro;
}
