//! What `oomctl plan` shows: the ladder rung by rung, with what the memory model expects.

use std::fmt::Write as _;

use serde::Serialize;

use super::run_view::change_lines;
use super::{DIM, Failure, NAME, Paint, start_view};
use crate::core::ladder::{Decision, Policy, Skipped, Step};
use crate::core::memory::Phase;
use crate::core::recipe::Layer;
use crate::core::supervise::{Request, Start};
use crate::core::units::GIB;

/// Rungs that are shown at most.
const MOST_RUNGS: u32 = 64;

/// The ladder from here.
#[derive(Serialize)]
pub struct View {
    schema_version: u32,
    preset: String,
    framework_version: Option<String>,
    policy: Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    now: Option<Memory>,
    rungs: Vec<Rung>,
    not_used: Vec<Skipped>,
}

/// A rung with what the memory model expects after it.
#[derive(Serialize)]
struct Rung {
    #[serde(flatten)]
    step: Step,
    /// Share of its speed that the job loses by it, as the preset states; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    slower: Option<f64>,
    memory: Option<Memory>,
}

#[derive(Serialize)]
struct Memory {
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

/// Climbs as if every attempt died of a GPU OOM of which nothing is known.
pub fn view(request: &Request, start: Option<Start>) -> Result<View, Failure> {
    let mut taken: Vec<Layer> = Vec::new();
    let mut rungs = Vec::new();
    let mut not_used = Vec::new();
    for attempt in 1..=MOST_RUNGS {
        match request.climb(&taken, None, attempt)? {
            Decision::Climb { steps, .. } => {
                for step in steps {
                    taken.push(step.layer.clone());
                    let memory = memory(request, &taken);
                    let slower = slower(request, &step.rung);
                    rungs.push(Rung {
                        step,
                        slower,
                        memory,
                    });
                }
            }
            Decision::Exhausted { skipped, .. } => {
                let used = |s: &Skipped| rungs.iter().any(|r: &Rung| r.step.rung == s.rung);
                not_used = skipped.into_iter().filter(|s| !used(s)).collect();
                break;
            }
        }
    }
    Ok(View {
        schema_version: 1,
        preset: request.preset().name.clone(),
        framework_version: request.preset().version.as_ref().map(ToString::to_string),
        policy: request.inputs().policy,
        start,
        now: memory(request, &[]),
        rungs,
        not_used,
    })
}

/// What a rung costs in speed, as the ladder states.
fn slower(request: &Request, rung: &str) -> Option<f64> {
    let ladder = &request.inputs().ladder;
    ladder.iter().find(|r| r.rung == rung)?.slower
}

/// What the memory model expects of the configuration with these rungs, where it can be asked.
fn memory(request: &Request, rungs: &[Layer]) -> Option<Memory> {
    let estimate = request.estimate(rungs)?.ok()?;
    let gib = |bytes: f64| (bytes / GIB * 10.0).round() / 10.0;
    let phases = estimate.phases.iter().map(|p| PhaseMemory {
        phase: p.phase,
        gib: gib(p.bytes),
    });
    Some(Memory {
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

impl View {
    /// The ladder for people.
    pub fn text(&self) -> String {
        text(self)
    }
}

fn text(view: &View) -> String {
    let version = view.framework_version.as_deref();
    let version = version.map_or_else(String::new, |v| format!(" {v}"));
    let mut out = match &view.start {
        Some(start) => format!("{}\n", start_view::text(start)),
        None => String::new(),
    };
    let _ = writeln!(
        out,
        "Ladder of {}{version}, from here, if every attempt runs out of GPU memory:",
        view.preset
    );
    if view.policy == Policy::Predict {
        let note = "note: the policy predict decides from each failure and is bound to no rung; --after LOG shows its decision";
        let _ = writeln!(out, "{}", Paint(DIM, note));
    }
    for (i, rung) in view.rungs.iter().enumerate() {
        let _ = writeln!(
            out,
            "\n{:>3}  {}  {}",
            i + 2,
            Paint(NAME, &rung.step.rung),
            rung.step.title
        );
        out.push_str(&step_text(&rung.step));
        let before = match i {
            0 => view.now.as_ref(),
            _ => view.rungs[i - 1].memory.as_ref(),
        };
        if let (Some(before), Some(after)) = (before, &rung.memory) {
            let _ = writeln!(out, "       {}", Paint(DIM, &memory_text(before, after)));
        }
        if let Some(slower) = rung.slower {
            let speed = format!("speed about {:.0} % less", slower * 100.0);
            let _ = writeln!(out, "       {}", Paint(DIM, &speed));
        }
    }
    if !view.not_used.is_empty() {
        out.push_str("\nNot used:\n");
        for skipped in &view.not_used {
            let _ = writeln!(out, "     {}: {}", skipped.rung, skipped.reason);
        }
    }
    if view.rungs.is_empty() {
        out.push_str("\nThere is none: after a failure of memory the run ends.\n");
    } else {
        out.push_str("\nThe number is the attempt that would run with the rung.\n");
    }
    out
}

/// Expected memory before and after a rung.
fn memory_text(before: &Memory, after: &Memory) -> String {
    let phase = after.phase.name();
    let chance = after
        .fits_probability
        .map_or_else(String::new, |p| format!(", probability to fit {p:.2}"));
    format!(
        "memory {:.0} -> {:.0} GiB ({phase}{chance})",
        before.peak_gib, after.peak_gib
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
