//! One policy on one case, and what is told of many.

use oomctl::core::recipe::Shape;
use oomctl_base::units::Bytes;
use serde::Serialize;

use super::cases::{Case, Sort, Stacks};
use super::clock::processor_s;
use super::family::Family;
use super::outcome::{Outcome, Phase};
use super::policy::{Attempt, Next, Policy, view};
use super::setup::{Program, Setup};
use super::units::GIB;
use super::why::{Belief, beliefs};

/// Attempts that a run has, as the product's default limits say.
pub const MOST_ATTEMPTS: usize = 12;

/// What became of a case under a policy.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub truth: Family,
    pub case: u64,
    pub policy: &'static str,
    pub sort: Sort,
    pub program: String,
    pub model: &'static str,
    pub card_gib: f64,
    pub gpus: u64,
    /// The term that the product does not know, if there is one.
    pub unknown: String,
    pub solved: bool,
    pub gave_up: bool,
    pub resubmissions: usize,
    /// How the job starts, and what is true of it beside.
    pub start: String,
    pub told: String,
    /// Phases that failed, in time.
    pub failed: Vec<&'static str>,
    /// Why each attempt failed, as the product read it.
    pub kinds: Vec<String>,
    /// Each attempt: what was moved, why it died, bytes of the phases that passed.
    pub attempts: Vec<String>,
    /// Probability to fit that was expected of each resubmission, where there was one.
    pub expected: Vec<Option<f64>>,
    /// Speed against the oracle's; above 1 only where the experiment is another one or has more GPUs.
    pub speed_ratio: Option<f64>,
    /// GPU-hours of attempts that failed.
    pub burnt: f64,
    /// A knob that changes training is not what it was.
    pub changed: bool,
    /// Knobs and values at the end that are not those of the start.
    pub moved: Vec<String>,
    /// GPUs at the end, as a multiple of those at the start.
    pub grown: f64,
    /// Milliseconds of processor time that the policy took for its decisions.
    pub decisions_ms: Vec<f64>,
    /// What the oracle moves.
    pub best: Vec<String>,
    /// What the model believed of each attempt, where that was asked for.
    pub beliefs: Vec<Vec<Belief>>,
    /// The same experiment faster on as many GPUs, or on fewer, than the oracle found: there should be none.
    pub beats_oracle: bool,
}

/// Follows a case to its end; `wonders` whether to note what the model believes.
pub fn follow(case: &Case, stacks: &Stacks, policy: &dyn Policy, wonders: bool) -> Row {
    let stack = stacks.of(case.program);
    let mut row = blank(case, policy.name());
    let mut rungs = Vec::new();
    let mut attempts: Vec<Attempt> = Vec::new();
    while attempts.len() < MOST_ATTEMPTS {
        let layers: Vec<_> = case.layers.iter().chain(&rungs).cloned().collect();
        let Ok(shape) = stack.shape(&layers, &case.cluster) else {
            row.failed.push("illegal");
            break;
        };
        let setup = Setup::read(case.program, shape.recipe(), &case.cluster);
        let outcome = case.truth.run(&setup);
        row.resubmissions = attempts.len();
        row.attempts.push(attempt(case, &setup, &outcome));
        if wonders {
            row.beliefs.push(beliefs(case, stacks, &shape, &setup));
        }
        let Some(incident) = outcome.incident else {
            row.solved = true;
            row.speed_ratio = case.best.as_ref().map(|best| outcome.speed / best.speed);
            row.changed = changed(case, stacks, &setup, &shape);
            row.grown = setup.world() as f64 / case.start.world() as f64;
            row.moved = moved(case, &setup);
            row.beats_oracle = beats(case, &setup, outcome.speed);
            return row;
        };
        row.burnt += outcome.seconds * setup.world() as f64 / 3600.0;
        row.failed.push(died(outcome.died));
        row.kinds.push(incident.kind.clone());
        attempts.push(Attempt {
            rungs,
            incident: Some(incident),
            peaks: outcome.peaks,
        });
        let asked = processor_s();
        let next = policy.next(&view(case, stacks, &attempts));
        row.decisions_ms.push((processor_s() - asked) * 1e3);
        match next {
            Next::Attempt(next, expected) => {
                row.expected.push(expected);
                rungs = next;
            }
            Next::GiveUp => {
                row.gave_up = true;
                break;
            }
        }
    }
    row
}

fn died(phase: Option<Phase>) -> &'static str {
    phase.map_or("", Phase::word)
}

fn moved(case: &Case, setup: &Setup) -> Vec<String> {
    let layer = setup.layer(&case.start);
    let settings = layer.settings.iter();
    settings
        .map(|(knob, setting)| format!("{knob}={}", setting.value))
        .collect()
}

/// An attempt in a line.
fn attempt(case: &Case, setup: &Setup, outcome: &Outcome) -> String {
    let moved = moved(case, setup).join(" ");
    let gib = |b: Option<Bytes>| b.map_or(f64::NAN, |b| b.0 as f64 / GIB);
    let how = outcome.incident.as_ref().map(|i| {
        let figures = [
            i.requested_bytes,
            i.allocated_bytes,
            i.free_bytes,
            i.reserved_unallocated_bytes,
        ]
        .map(gib);
        format!(
            "died in {}, told: {} in {} of step {:?}, requested, allocated, free, unallocated {figures:.2?}",
            died(outcome.died),
            i.kind,
            i.phase,
            i.step
        )
    });
    let peaks = outcome.peaks.iter();
    let peaks: Vec<String> = peaks
        .map(|(phase, used)| format!("{} {:.1}", phase.word(), *used as f64 / GIB))
        .collect();
    format!("[{moved}] {how:?} after {}", peaks.join(", "))
}

fn beats(case: &Case, setup: &Setup, speed: f64) -> bool {
    // A rung writes a card's memory rounded to MiB.
    let place = |s: &Setup| (s.response < case.start.response, s.world(), s.card >> 30);
    case.best.as_ref().is_none_or(|best| {
        let (ours, its) = (place(setup), place(&best.setup));
        ours < its || (ours == its && speed > best.speed * 1.02)
    })
}

/// Whether it is another experiment. The script's batch and accumulation may make up for each other.
fn changed(case: &Case, stacks: &Stacks, setup: &Setup, shape: &Shape) -> bool {
    let script = |s: &Setup| {
        (
            s.micro * s.accumulation.unwrap_or(1) * s.world(),
            s.response,
        )
    };
    match case.program {
        Program::Grpo => stacks.grpo.trains_otherwise(&case.shape, shape),
        Program::Replicated | Program::Sharded => script(setup) != script(&case.start),
    }
}

/// The oracle's own row: it knows, so it resubmits once.
pub fn oracle(case: &Case, stacks: &Stacks) -> Row {
    let mut row = blank(case, "oracle");
    match &case.best {
        Some(best) => {
            row.solved = true;
            row.resubmissions = usize::from(case.sort != Sort::Fits);
            row.speed_ratio = Some(1.0);
            row.changed =
                case.sort != Sort::Fits && changed(case, stacks, &best.setup, &best.shape);
            row.moved = moved(case, &best.setup);
            row.grown = best.setup.world() as f64 / case.start.world() as f64;
        }
        None => row.gave_up = true,
    }
    let first = case.truth.run(&case.start);
    if first.incident.is_some() {
        row.burnt = first.seconds * case.start.world() as f64 / 3600.0;
        row.failed.push(died(first.died));
    }
    row
}

fn blank(case: &Case, policy: &'static str) -> Row {
    Row {
        truth: case.family,
        case: case.index,
        policy,
        sort: case.sort,
        program: format!("{:?}", case.program).to_lowercase(),
        model: case.model.name,
        card_gib: case.start.card as f64 / 1024_f64.powi(3),
        gpus: case.start.world(),
        unknown: case.truth.unknown(),
        solved: false,
        gave_up: false,
        resubmissions: 0,
        start: format!("{:?}", case.start),
        told: case.truth.told(),
        failed: Vec::new(),
        kinds: Vec::new(),
        attempts: Vec::new(),
        expected: Vec::new(),
        speed_ratio: None,
        burnt: 0.0,
        changed: false,
        moved: Vec::new(),
        grown: 1.0,
        decisions_ms: Vec::new(),
        best: case
            .best
            .iter()
            .flat_map(|best| moved(case, &best.setup))
            .collect(),
        beliefs: Vec::new(),
        beats_oracle: false,
    }
}

/// What is told of a policy.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub truth: Option<Family>,
    pub policy: &'static str,
    /// Cases that can be solved and do not fit as they stand; all shares but the last are of these.
    pub cases: usize,
    pub solved: f64,
    /// Over solved cases.
    pub resubmissions_mean: f64,
    pub resubmissions_p90: f64,
    /// Solved at the first resubmission, of all.
    pub first_fits: f64,
    /// Mean of the ratio, at most 1 each, over solved cases.
    pub speed_kept: f64,
    /// Mean GPU-hours of failed attempts.
    pub burnt: f64,
    /// Of solved cases.
    pub changed: f64,
    /// Mean GPUs at the end against the start, over solved cases.
    pub grown: f64,
    /// Cases that can be solved and were given up.
    pub false_cannot: f64,
    /// Cases that cannot be solved and were given up, of all such.
    pub true_cannot: f64,
    /// Mean resubmissions before such a case was given up.
    pub wasted: f64,
    /// Processor time of a decision in milliseconds.
    pub decision_ms_mean: f64,
    pub decision_ms_p99: f64,
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0.0);
    for value in values {
        sum += value;
        n += 1.0;
    }
    if n > 0.0 { sum / n } else { f64::NAN }
}

/// A percentile of sorted values.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((sorted.len() * percent / 100).min(last))
        .copied()
        .unwrap_or(f64::NAN)
}

fn share(values: impl Iterator<Item = bool>) -> f64 {
    mean(values.map(|yes| f64::from(u8::from(yes))))
}

impl Summary {
    /// Of rows of one policy.
    pub fn of(rows: &[&Row]) -> Self {
        let policy = rows.first().map_or("", |r| r.policy);
        let open: Vec<&&Row> = rows.iter().filter(|r| r.sort == Sort::Solvable).collect();
        let hopeless: Vec<&&Row> = rows.iter().filter(|r| r.sort == Sort::CannotFit).collect();
        let solved = || open.iter().filter(|r| r.solved);
        let mut counts: Vec<f64> = solved().map(|r| r.resubmissions as f64).collect();
        counts.sort_by(f64::total_cmp);
        let mut decisions: Vec<f64> = rows.iter().flat_map(|r| r.decisions_ms.clone()).collect();
        decisions.sort_by(f64::total_cmp);
        Self {
            truth: rows.first().map(|r| r.truth),
            policy,
            cases: open.len(),
            solved: share(open.iter().map(|r| r.solved)),
            resubmissions_mean: mean(counts.iter().copied()),
            resubmissions_p90: quantile(&counts, 90),
            first_fits: share(open.iter().map(|r| r.solved && r.resubmissions == 1)),
            speed_kept: mean(solved().filter_map(|r| r.speed_ratio).map(|x| x.min(1.0))),
            burnt: mean(open.iter().map(|r| r.burnt)),
            changed: share(solved().map(|r| r.changed)),
            grown: mean(solved().map(|r| r.grown)),
            false_cannot: share(open.iter().map(|r| r.gave_up)),
            true_cannot: share(hopeless.iter().map(|r| r.gave_up)),
            wasted: mean(hopeless.iter().map(|r| r.resubmissions as f64)),
            decision_ms_mean: mean(decisions.iter().copied()),
            decision_ms_p99: quantile(&decisions, 99),
        }
    }

    /// The head of the table.
    pub const HEAD: &'static str = "\
| policy | truth | cases | solved % | resubmissions: mean | p90 | first fits % | speed kept % | GPU-hours burnt | training changed % | GPUs × | false cannot-fit % | cannot-fit found % | resubmissions before | decision ms: mean | p99 |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

    /// One line of the table.
    pub fn line(&self) -> String {
        format!(
            "| {} | {} | {} | {:.1} | {:.2} | {:.0} | {:.1} | {:.1} | {:.2} | {:.1} | {:.2} | {:.1} | {:.1} | {:.2} | {:.0} | {:.0} |",
            self.policy,
            self.truth.map_or("", Family::word),
            self.cases,
            self.solved * 100.0,
            self.resubmissions_mean,
            self.resubmissions_p90,
            self.first_fits * 100.0,
            self.speed_kept * 100.0,
            self.burnt,
            self.changed * 100.0,
            self.grown,
            self.false_cannot * 100.0,
            self.true_cannot * 100.0,
            self.wasted,
            self.decision_ms_mean,
            self.decision_ms_p99,
        )
    }
}
