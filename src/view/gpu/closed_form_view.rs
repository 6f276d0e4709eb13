//! What the closed form says beside what a phantom measured, term by term where terms compare.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::estimate_view::EstimateView;
use super::figures::{gib, in_gib, rounded};
use crate::core::measure::PhantomRecord;
use oomctl_diagnose::sanitize;
use oomctl_memory::{Estimate, Phase, PhaseEstimate};

/// What is held through a step: the recorder's name, and the terms of the closed form that are the same.
const TERMS: [(&str, &[&str]); 3] = [
    ("weights", &["weights", "reference model"]),
    ("gradients", &["gradients"]),
    ("optimizer states", &["optimizer"]),
];
/// The term that holds weights, gradients and states of adapters in one.
const ADAPTER: &str = "adapter";
/// The recorder's phases and those of the closed form, whose tensors are the same: compared where the first of the recorder's was seen. A
/// backward pass begins with all that the end of the forward pass holds, which the closed form counts to the forward.
const PHASES: [(&str, &[&str], &[Phase]); 5] = [
    ("init", &["init", "load"], &[Phase::Load]),
    ("old_logprob", &["old_logprob"], &[Phase::OldLogprob]),
    ("ref_logprob", &["ref_logprob"], &[Phase::RefLogprob]),
    (
        "forward and backward",
        &["backward", "forward"],
        &[Phase::Forward, Phase::Backward],
    ),
    (
        "optimizer step",
        &["optimizer step"],
        &[Phase::OptimizerStep],
    ),
];

/// What comes before a step, and holds the optimizer's states from the second time on, as the closed form has it.
const BEFORE_STEPS: [&str; 2] = ["old_logprob", "ref_logprob"];

/// The closed form beside a measurement.
#[derive(Serialize, JsonSchema)]
pub struct ClosedFormView {
    /// Why it says nothing, and which values it lacks; none where it says something.
    silent: Option<String>,
    /// Terms held through a step, and tensors at the peaks of phases, where both have them.
    compared: Vec<ComparedTerm>,
    /// What it says by itself, as `oomctl estimate` does.
    estimate: Option<EstimateView>,
}

/// The same memory by both.
#[derive(Serialize, JsonSchema)]
struct ComparedTerm {
    name: &'static str,
    phantom_gib: f64,
    closed_form_gib: f64,
    /// By how much the closed form is above the phantom, as a part of it.
    apart: Option<f64>,
}

impl ComparedTerm {
    fn new(name: &'static str, phantom: u64, closed_form: f64) -> Self {
        let measured = phantom as f64;
        Self {
            name,
            phantom_gib: gib(measured, 3),
            closed_form_gib: gib(closed_form, 3),
            apart: (phantom > 0).then(|| rounded(closed_form / measured - 1.0, 3) + 0.0),
        }
    }
}

impl ClosedFormView {
    /// What it says, or why it says nothing, beside the record of a measurement.
    pub fn new(said: Result<(EstimateView, Estimate), String>, record: &PhantomRecord) -> Self {
        match said {
            Err(why) => Self {
                silent: Some(why),
                compared: Vec::new(),
                estimate: None,
            },
            Ok((view, estimate)) => Self {
                silent: None,
                compared: terms(&estimate, record)
                    .into_iter()
                    .chain(phases(&estimate, record))
                    .collect(),
                estimate: Some(view),
            },
        }
    }

    /// As text.
    pub fn write(&self, text: &mut String) {
        if !self.compared.is_empty() {
            let _ = writeln!(text, "\n{:<20}{:>12}{:>14}", "", "phantom", "closed form");
        }
        for term in &self.compared {
            let apart = term.apart.filter(|_| term.phantom_gib >= 0.05);
            let apart = apart.map_or(String::new(), |part| format!("{:>+9.1} %", part * 100.0));
            let (phantom, formula) = (in_gib(term.phantom_gib), in_gib(term.closed_form_gib));
            let _ = writeln!(text, "{:<20}{phantom:>12}{formula:>14}{apart}", term.name);
        }
        let _ = match (&self.estimate, &self.silent) {
            (Some(estimate), _) => writeln!(text, "\nclosed form: {}", estimate.expected()),
            (None, why) => writeln!(
                text,
                "\nThe closed form says nothing: {}",
                sanitize(why.as_deref().unwrap_or("the reason is unknown").as_bytes())
            ),
        };
    }
}

/// Bytes of terms of a phase with these names; `None` where it has none of them.
fn bytes_of(phase: &PhaseEstimate, names: &[&str]) -> Option<f64> {
    let own = phase.terms.iter().filter(|t| names.contains(&t.name));
    own.map(|t| t.bytes).reduce(|a, b| a + b)
}

/// What is held through a step. Of adapters the closed form has one sum.
fn terms(estimate: &Estimate, record: &PhantomRecord) -> Vec<ComparedTerm> {
    let mut steps = estimate.phases.iter();
    let Some(step) = steps.find(|p| p.phase == Phase::OptimizerStep) else {
        return Vec::new();
    };
    if let Some(adapter) = bytes_of(step, &[ADAPTER]) {
        let all: Vec<&str> = TERMS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        let held: u64 = record.held.values().sum();
        let formula = adapter + bytes_of(step, &all).unwrap_or(0.0);
        let whole = ComparedTerm::new("weights and states", held, formula);
        return Some(whole).filter(|_| held > 0).into_iter().collect();
    }
    let compared = |(name, names): &(&'static str, &[&str])| {
        let held = record.held.get(*name).copied().filter(|bytes| *bytes > 0)?;
        Some(ComparedTerm::new(name, held, bytes_of(step, names)?))
    };
    TERMS.iter().filter_map(compared).collect()
}

/// Tensors at the peaks of phases that passed.
fn phases(estimate: &Estimate, record: &PhantomRecord) -> Vec<ComparedTerm> {
    let died = record.failed_in.as_deref();
    let compared = |(name, theirs, ours): &(&'static str, &[&str], &[Phase])| {
        if theirs.iter().any(|phase| Some(*phase) == died) {
            return None;
        }
        let first = theirs[0];
        record.phases.get(first)?;
        if BEFORE_STEPS.contains(&first) && !record.after_a_step.iter().any(|p| p == first) {
            return None;
        }
        let measured = theirs.iter().filter_map(|phase| record.phases.get(*phase));
        let measured = measured.map(|peak| peak.allocated).max()?;
        let formula = estimate.phases.iter().filter(|p| ours.contains(&p.phase));
        let formula = formula.map(PhaseEstimate::tensor_bytes).reduce(f64::max)?;
        Some(ComparedTerm::new(name, measured, formula))
    };
    PHASES.iter().filter_map(compared).collect()
}
