//! Why a policy did not solve a case at once: what died, what the product's model believed, what was true.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use oomctl::core::recipe::Shape;
use oomctl_memory as memory;

use super::cases::{Case, Sort, Stacks};
use super::outcome::Phase;
use super::score::Row;
use super::setup::Setup;
use super::units::GIB;

/// A phase under one configuration, in GiB.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Belief {
    pub phase: &'static str,
    /// The model's interval, without what the attempts told.
    pub low: f64,
    pub middle: f64,
    pub high: f64,
    pub truth: f64,
}

/// The model's phases that a phase of the truth is made of.
fn parts(phase: Phase) -> &'static [memory::Phase] {
    match phase {
        Phase::Load => &[memory::Phase::Load],
        Phase::EngineStart | Phase::Cache | Phase::Graphs => &[memory::Phase::Rollout],
        Phase::WakeUp => &[memory::Phase::WakeUp, memory::Phase::Rollout],
        Phase::OldLogprob => &[memory::Phase::OldLogprob],
        Phase::RefLogprob => &[memory::Phase::RefLogprob],
        Phase::ActorUpdate | Phase::Forward | Phase::Backward => {
            &[memory::Phase::Forward, memory::Phase::Backward]
        }
        Phase::OptimizerStep => &[memory::Phase::OptimizerStep],
        Phase::Checkpoint => &[memory::Phase::Checkpoint],
    }
}

/// What is believed of each phase of which the truth is known.
pub fn beliefs(case: &Case, stacks: &Stacks, shape: &Shape, setup: &Setup) -> Vec<Belief> {
    let stack = stacks.of(case.program);
    let estimate = stack.profile.as_ref().and_then(|profile| {
        let spec = oomctl::core::memory::spec_of(&stack.preset, shape, profile)?.ok()?;
        Some(memory::estimate(&spec, profile))
    });
    let told = |phase: Phase, used: u64| {
        let known = estimate.iter().flat_map(|e| &e.phases);
        let known = known.filter(|p| parts(phase).contains(&p.phase));
        let most = known.max_by(|a, b| a.bytes.total_cmp(&b.bytes));
        let gib = |bytes: Option<f64>| bytes.map_or(f64::NAN, |b| b / GIB);
        Belief {
            phase: phase.word(),
            low: gib(most.map(|p| p.low_bytes)),
            middle: gib(most.map(|p| p.bytes)),
            high: gib(most.map(|p| p.high_bytes)),
            truth: used as f64 / GIB,
        }
    };
    let needs = case.truth.needs(setup);
    needs.into_iter().map(|(p, used)| told(p, used)).collect()
}

/// Why a row is no first fit: a kind of failure, and what shows it.
pub fn reason(case: &Case, stacks: &Stacks, row: &Row) -> Option<(String, String)> {
    if row.sort != Sort::Solvable || (row.solved && row.resubmissions <= 1) {
        return None;
    }
    let last = row.failed.last().copied().unwrap_or_default();
    let kind = row.kinds.last().map_or("", String::as_str);
    if row.gave_up {
        return Some(gave_up(case, stacks, row, (last, kind)));
    }
    let second = row.failed.get(1).copied().unwrap_or_default();
    let kind = row.kinds.get(1).map_or("", String::as_str);
    let belief = row.beliefs.get(1).into_iter().flatten();
    let same = |phase: &str| ["forward", "backward"].contains(&phase);
    let belief = belief
        .copied()
        .find(|b| b.phase == second || (same(b.phase) && same(second)));
    let how = match belief {
        _ if kind == "host_oom" => "host memory".to_owned(),
        None => "no estimate of it".to_owned(),
        Some(b) if b.truth <= row.card_gib => "whole it would fit: pieces".to_owned(),
        Some(b) if b.high < b.truth => "above the model's interval".to_owned(),
        Some(_) => "inside the model's interval".to_owned(),
    };
    let shown = belief.map_or(String::new(), |b| shown(&b));
    let first = row.failed.first().copied().unwrap_or_default();
    let before = if first == second {
        "again"
    } else {
        "another phase"
    };
    let ended = if row.solved { "" } else { ", never solved" };
    Some((
        format!("died in {second} ({kind}), {before}: {how}{ended}"),
        shown,
    ))
}

/// A case that can be solved and was given up: what the model believes of the oracle's configuration.
fn gave_up(
    case: &Case,
    stacks: &Stacks,
    row: &Row,
    (last, kind): (&str, &str),
) -> (String, String) {
    let Some(best) = &case.best else {
        return ("gave up".to_owned(), String::new());
    };
    let all = beliefs(case, stacks, &best.shape, &best.setup);
    let card = best.setup.card as f64 / GIB;
    let worst = all.iter().filter(|b| b.middle > 0.0);
    let worst = worst.max_by(|a, b| (a.middle - a.truth).total_cmp(&(b.middle - b.truth)));
    let how = match worst {
        Some(b) if b.low > card => format!("{} believed not to fit at all", b.phase),
        Some(b) if b.middle > card => format!("{} believed not to fit", b.phase),
        Some(_) => "the oracle's configuration is believed to fit".to_owned(),
        None => "no estimate".to_owned(),
    };
    let shown = worst.map_or(String::new(), shown);
    (
        format!("gave up after {last} ({kind}): {how}"),
        format!("{shown}; the oracle has {}", row.best.join(" ")),
    )
}

fn shown(b: &Belief) -> String {
    format!(
        "{} believed {:.1} [{:.1}, {:.1}], true {:.1} GiB",
        b.phase, b.middle, b.low, b.high, b.truth
    )
}

/// The most frequent reasons, each with its cases.
pub fn table(reasons: &[(u64, String, String)]) -> String {
    let mut groups: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for (case, reason, shown) in reasons {
        groups.entry(reason).or_default().push((*case, shown));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    let mut text = String::new();
    for (reason, cases) in groups.into_iter().take(10) {
        let _ = writeln!(text, "{:4} {reason}", cases.len());
        for (case, shown) in cases.iter().take(5) {
            let _ = writeln!(text, "       case {case}: {shown}");
        }
        let more: Vec<String> = cases
            .iter()
            .skip(5)
            .take(12)
            .map(|c| c.0.to_string())
            .collect();
        if !more.is_empty() {
            let _ = writeln!(text, "       also {}", more.join(", "));
        }
    }
    text
}

/// One run for a reader: configuration, truth, attempts, decisions.
pub fn told(case: &Case, row: &Row) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "case {} of the {} truth, {:?}: {} on {} GPUs of {:.2} GiB, {}\n  start {}\n  truth {}\n  oracle {}",
        row.case,
        case.family.word(),
        row.sort,
        row.model,
        row.gpus,
        row.card_gib,
        row.policy,
        row.start,
        row.told,
        row.best.join(" "),
    );
    for (index, attempt) in row.attempts.iter().enumerate() {
        let _ = writeln!(text, "  attempt {}: {attempt}", index + 1);
        for belief in row.beliefs.get(index).into_iter().flatten() {
            let _ = writeln!(text, "    {}", shown(belief));
        }
        if let Some(Some(expected)) = row.expected.get(index) {
            let _ = writeln!(text, "    then: expected to fit with {expected:.2}");
        }
    }
    let end = match (row.solved, row.gave_up) {
        (true, _) => "solved",
        (_, true) => "gave up",
        _ => "not solved",
    };
    let _ = writeln!(text, "  {end} after {} resubmissions", row.resubmissions);
    text
}
