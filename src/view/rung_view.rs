//! A rung as people see it: what it changes, what the memory model expects after it, what it costs.

use std::fmt::Write as _;

use serde::Serialize;

use super::run_view::change_lines;
use super::{DIM, NAME, Paint};
use crate::core::ladder::{Expectation, Step, costs};
use crate::core::memory::Phase;
use crate::core::recipe::Layer;
use crate::core::supervise::{Freed, Request};
use crate::core::units::GIB;

/// A rung with what the memory model expects after it.
#[derive(Serialize)]
pub struct Rung {
    #[serde(flatten)]
    pub step: Step,
    /// Share of its speed that the job loses by this lap; absent where the preset does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    slower: Option<f64>,
    /// Share that it has lost by now, by all rungs of which the preset says it.
    slower_so_far: f64,
    /// After it and those before it; absent where the model cannot be asked.
    pub memory: Option<Memory>,
    /// What it frees of the GPU's memory; absent where the model does not see that.
    #[serde(skip_serializing_if = "Option::is_none")]
    frees: Option<Freed>,
}

/// What the memory model expects of one configuration, on the fullest GPU.
#[derive(Serialize)]
pub struct Memory {
    peak_gib: f64,
    low_gib: f64,
    high_gib: f64,
    phase: Phase,
    fits_probability: Option<f64>,
    /// Expected peak of each phase, in the order of time.
    phases: Vec<PhaseMemory>,
}

#[derive(Serialize)]
struct PhaseMemory {
    phase: Phase,
    gib: f64,
}

impl Rung {
    /// Rungs that are taken for one attempt, on top of those before it.
    pub fn all(request: &Request, before: &[Layer], steps: Vec<Step>) -> Vec<Self> {
        let mut taken = before.to_vec();
        let mut rungs: Vec<Self> = steps
            .into_iter()
            .map(|step| Self::after(request, &mut taken, step))
            .collect();
        price(request, &mut rungs);
        rungs
    }

    /// One more rung on top of those that are taken; what it costs is left to [`price`].
    pub fn after(request: &Request, taken: &mut Vec<Layer>, step: Step) -> Self {
        taken.push(step.layer.clone());
        Self {
            step,
            slower: None,
            slower_so_far: 0.0,
            memory: Memory::of(request, taken),
            frees: request.freed(taken),
        }
    }

    /// Its name, for people.
    pub fn name(&self) -> Paint<'_> {
        Paint(NAME, &self.step.rung)
    }

    /// What it changes, what of memory, and what it costs, one a line.
    pub fn text(&self, before: Option<&Memory>) -> String {
        let mut out = step_text(&self.step);
        if let (Some(before), Some(after)) = (before, &self.memory) {
            let _ = writeln!(out, "       {}", Paint(DIM, &memory_text(before, after)));
        }
        if let Some(in_vain) = self.frees.as_ref().and_then(in_vain) {
            let _ = writeln!(out, "       {}", Paint(DIM, &in_vain));
        }
        if let Some(slower) = self.slower {
            let mut speed = format!("speed about {:.0} % less", slower * 100.0);
            if self.slower_so_far > slower {
                let _ = write!(speed, ", {:.0} % by now", self.slower_so_far * 100.0);
            }
            let _ = writeln!(out, "       {}", Paint(DIM, &speed));
        }
        out
    }
}

impl Memory {
    /// Of the configuration with these rungs, where the model can be asked.
    pub fn of(request: &Request, rungs: &[Layer]) -> Option<Self> {
        let estimate = request.estimate(rungs)?.ok()?;
        let phases = estimate.phases.iter().map(|p| PhaseMemory {
            phase: p.phase,
            gib: gib(p.bytes),
        });
        Some(Self {
            phases: phases.collect(),
            peak_gib: gib(estimate.peak_bytes),
            low_gib: gib(estimate.low_bytes),
            high_gib: gib(estimate.high_bytes),
            phase: estimate.phase,
            fits_probability: estimate
                .fits_probability
                .map(|p| (p * 100.0).round() / 100.0),
        })
    }
}

/// For which failures a rung is passed over, for it frees no memory of the GPU there; none where that is for no phase.
fn in_vain(frees: &Freed) -> Option<String> {
    let names: Vec<&str> = frees.phases.iter().map(|p| p.name()).collect();
    match (frees.fullest, names.is_empty()) {
        (true, _) => None,
        (false, true) => Some(
            "frees no GPU memory, by the memory model: after a failure it is passed over"
                .to_owned(),
        ),
        (false, false) => Some(format!(
            "the fullest phase needs no less, by the memory model: it is taken after a failure in {} alone",
            names.join(", ")
        )),
    }
}

fn gib(bytes: f64) -> f64 {
    (bytes / GIB * 10.0).round() / 10.0
}

/// Puts in what each rung costs in speed.
pub fn price(request: &Request, rungs: &mut [Rung]) {
    let steps: Vec<&Step> = rungs.iter().map(|r| &r.step).collect();
    let costs = costs(request.preset(), &request.inputs().ladder, &steps);
    let mut speed = 1.0;
    for (rung, slower) in rungs.iter_mut().zip(costs) {
        speed *= 1.0 - slower.unwrap_or(0.0);
        rung.slower = slower.map(share);
        rung.slower_so_far = share(1.0 - speed);
    }
}

fn share(share: f64) -> f64 {
    (share * 1_000.0).round() / 1_000.0
}

/// The memory before a rung, which is that after the one before it.
pub fn before<'a>(now: Option<&'a Memory>, rungs: &'a [Rung], i: usize) -> Option<&'a Memory> {
    match i.checked_sub(1) {
        None => now,
        Some(before) => rungs[before].memory.as_ref(),
    }
}

/// A line of the table of phases.
pub struct Row {
    name: String,
    phases: Vec<(Phase, f64)>,
    fits: Option<f64>,
}

impl Row {
    /// Of a configuration; a line of dashes where its memory is not known.
    pub fn new(name: String, memory: Option<&Memory>) -> Self {
        let phases = memory.map_or(&[][..], |m| &m.phases);
        Self {
            name,
            phases: phases.iter().map(|p| (p.phase, p.gib)).collect(),
            fits: memory.and_then(|m| m.fits_probability),
        }
    }

    /// Of what is expected after a failure.
    pub fn expected(name: String, expects: &Expectation) -> Self {
        let phases = expects.phases.iter();
        Self {
            name,
            phases: phases.map(|p| (p.phase, p.bytes.gib())).collect(),
            fits: Some(expects.fits_probability),
        }
    }
}

/// Lines with a column for each phase of the first.
pub fn table(rows: &[Row]) -> String {
    let Some(head) = rows.first().filter(|r| !r.phases.is_empty()) else {
        return String::new();
    };
    let first = rows.iter().map(|r| r.name.len()).max().unwrap_or(0);
    let heads: Vec<(Phase, &str)> = head.phases.iter().map(|(p, _)| (*p, p.name())).collect();
    let mut out = format!("{:<first$}", "");
    for (_, head) in &heads {
        let _ = write!(out, "  {head}");
    }
    out.push_str("  fits\n");
    for row in rows {
        let _ = write!(out, "{:<first$}", row.name);
        for (phase, head) in &heads {
            let width = head.len();
            let gib = row.phases.iter().find(|(p, _)| p == phase);
            let gib = gib.map_or_else(|| "-".to_owned(), |(_, gib)| format!("{gib:.1}"));
            let _ = write!(out, "  {gib:>width$}");
        }
        let fits = row
            .fits
            .map_or_else(|| "-".to_owned(), |p| format!("{p:.2}"));
        let _ = writeln!(out, "  {fits:>4}");
    }
    out
}

/// Expected memory before and after a rung, of the fullest phase.
fn memory_text(before: &Memory, after: &Memory) -> String {
    let chance = after
        .fits_probability
        .map_or_else(String::new, |p| format!(", probability to fit {p:.2}"));
    let was = match before.phase == after.phase {
        true => String::new(),
        false => format!(" ({})", before.phase.name()),
    };
    format!(
        "memory {:.0}{was} -> {:.0} GiB ({}{chance})",
        before.peak_gib,
        after.peak_gib,
        after.phase.name()
    )
}

/// The changes and remarks of a rung, one a line.
pub fn step_text(step: &Step) -> String {
    let mut out = String::new();
    for line in change_lines(&step.changes) {
        let _ = writeln!(out, "       {line}");
    }
    for note in &step.notes {
        let _ = writeln!(out, "       {} {note}", Paint(DIM, "note:"));
    }
    out
}
