//! What `oomctl plan` shows: the ladder rung by rung, with what the memory model expects.

use std::fmt::Write as _;

use serde::Serialize;

use super::run_view::change_lines;
use super::{DIM, Failure, NAME, Paint, start_view};
use crate::core::ladder::{Decision, Policy, Skipped, Step, costs};
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
    /// Rules that every configuration here holds.
    rules: usize,
    now: Option<Memory>,
    rungs: Vec<Rung>,
    not_used: Vec<Skipped>,
}

/// A rung with what the memory model expects after it.
#[derive(Serialize)]
struct Rung {
    #[serde(flatten)]
    step: Step,
    /// Share of its speed that the job loses by this lap; absent where the preset does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    slower: Option<f64>,
    /// Share that it has lost by now, by all rungs of which the preset says it.
    slower_so_far: f64,
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
                    rungs.push(Rung {
                        step,
                        slower: None,
                        slower_so_far: 0.0,
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
    price(request, &mut rungs);
    Ok(View {
        schema_version: 1,
        preset: request.preset().name.clone(),
        framework_version: request.preset().version.as_ref().map(ToString::to_string),
        policy: request.inputs().policy,
        start,
        rules: request.preset().rules.len(),
        now: memory(request, &[]),
        rungs,
        not_used,
    })
}

/// Puts in what each rung costs in speed.
fn price(request: &Request, rungs: &mut [Rung]) {
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
    /// The ladder for people; with the table of phases where it is not wider than this.
    pub fn text(&self, columns: usize) -> String {
        let mut out = self.head();
        for i in 0..self.rungs.len() {
            self.rung(i, &mut out);
        }
        if !self.not_used.is_empty() {
            out.push_str("\nNot used:\n");
            for skipped in &self.not_used {
                let _ = writeln!(out, "     {}: {}", skipped.rung, skipped.reason);
            }
        }
        let table = self.phases();
        let width = table.lines().map(|l| l.chars().count()).max();
        match width {
            Some(width) if width <= columns => {
                let _ = write!(
                    out,
                    "\nMemory of the fullest GPU by phase, in GiB, and the probability to fit:\n\n{table}"
                );
            }
            None if columns == usize::MAX => out.push_str(
                "\nMemory is not known by phase; `oomctl estimate` says what is missing.\n",
            ),
            _ => {}
        }
        if self.rungs.is_empty() {
            out.push_str("\nThere is none: after a failure of memory the run ends.\n");
        } else {
            out.push_str("\nThe number is the attempt that would run with the rung.");
            match self.rules {
                0 => {}
                1 => out.push_str(" All of them hold the preset's rule."),
                n => {
                    let _ = write!(out, " All of them hold the preset's {n} rules.");
                }
            }
            out.push('\n');
        }
        out
    }

    fn head(&self) -> String {
        let version = self.framework_version.as_deref();
        let version = version.map_or_else(String::new, |v| format!(" {v}"));
        let mut out = match &self.start {
            Some(start) => format!("{}\n", start_view::text(start)),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "Ladder of {}{version}, from here, if every attempt runs out of GPU memory:",
            self.preset
        );
        if self.policy == Policy::Predict {
            let note = "note: the policy predict decides from each failure and is bound to no rung; --after LOG shows its decision";
            let _ = writeln!(out, "{}", Paint(DIM, note));
        }
        out
    }

    fn rung(&self, i: usize, out: &mut String) {
        let rung = &self.rungs[i];
        let name = Paint(NAME, &rung.step.rung);
        let _ = writeln!(out, "\n{:>3}  {name}  {}", i + 2, rung.step.title);
        out.push_str(&step_text(&rung.step));
        let before = match i.checked_sub(1) {
            None => self.now.as_ref(),
            Some(before) => self.rungs[before].memory.as_ref(),
        };
        if let (Some(before), Some(after)) = (before, &rung.memory) {
            let _ = writeln!(out, "       {}", Paint(DIM, &memory_text(before, after)));
        }
        if let Some(slower) = rung.slower {
            let mut speed = format!("speed about {:.0} % less", slower * 100.0);
            if rung.slower_so_far > slower {
                let _ = write!(speed, ", {:.0} % by now", rung.slower_so_far * 100.0);
            }
            let _ = writeln!(out, "       {}", Paint(DIM, &speed));
        }
    }

    /// A line for each attempt, a column for each phase; empty where memory is not known.
    fn phases(&self) -> String {
        let Some(now) = &self.now else {
            return String::new();
        };
        let rungs = self
            .rungs
            .iter()
            .map(|r| (r.step.rung.as_str(), r.memory.as_ref()));
        let rows: Vec<(&str, Option<&Memory>)> = std::iter::once(("as it is", Some(now)))
            .chain(rungs)
            .collect();
        let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let heads: Vec<(Phase, &str)> = now
            .phases
            .iter()
            .map(|p| (p.phase, p.phase.name()))
            .collect();
        let mut out = format!("{:>3}  {:<first$}", "", "");
        for (_, head) in &heads {
            let _ = write!(out, "  {head}");
        }
        out.push_str("  fits\n");
        for (i, (name, memory)) in rows.iter().enumerate() {
            let _ = write!(out, "{:>3}  {name:<first$}", i + 1);
            for (phase, head) in &heads {
                let width = head.len();
                let gib = memory.and_then(|m| m.phases.iter().find(|p| p.phase == *phase));
                let gib = gib.map_or_else(|| "-".to_owned(), |p| format!("{:.1}", p.gib));
                let _ = write!(out, "  {gib:>width$}");
            }
            let fits = memory.and_then(|m| m.fits_probability);
            let fits = fits.map_or_else(|| "-".to_owned(), |p| format!("{p:.2}"));
            let _ = writeln!(out, "  {fits:>4}");
        }
        out
    }
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
