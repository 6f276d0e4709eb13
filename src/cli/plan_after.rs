//! `oomctl plan --after`: the decision after one failure, without a run.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::args::Configuration;
use super::load;
use super::logs;
use super::print::explanation::with_patch;
use super::print::outcome::{cannot_fit, expectation, smallest_request};
use super::print::rung_view::{Memory, Row, Rung, before, table};
use super::print::{self, DIM, Failure, Paint};
use crate::core::diagnose::Incident;
use crate::core::ladder::{Decision, Expectation, Past, Shortfall, Skipped};
use crate::core::measure::Measured;
use crate::core::supervise::{Explanation, Request};
use crate::drive::explained;

#[derive(Serialize)]
struct View {
    schema_version: u32,
    incident: Incident,
    decision: &'static str,
    /// What the memory model expects of the configuration that died, whatever its log tells.
    now: Option<Memory>,
    steps: Vec<Rung>,
    skipped: Vec<Skipped>,
    /// What is expected after the steps, given how it died.
    expects: Option<Expectation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shortfall: Option<Shortfall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
}

impl View {
    fn new(request: &Request, incident: Incident, decision: Decision) -> Self {
        let (word, steps, skipped, expects, shortfall) = match decision {
            Decision::Climb {
                steps,
                skipped,
                expects,
            } => ("climb", steps, skipped, expects, None),
            Decision::Exhausted { skipped, shortfall } => {
                ("exhausted", Vec::new(), skipped, None, shortfall)
            }
        };
        Self {
            schema_version: 1,
            incident,
            decision: word,
            now: Memory::of(request, &[]),
            steps: Rung::all(request, steps),
            skipped,
            expects,
            shortfall,
            explanation: None,
        }
    }
}

/// Prints what a supervisor would decide if the configuration had died like this.
pub fn run(
    flags: &Configuration,
    request: &Request,
    failure: &str,
    json: bool,
) -> Result<ExitCode, Failure> {
    let project = load::project(flags.config.as_deref())?;
    let groups = logs::paired(logs::meant(&project.folder, failure)?);
    let Some(group) = groups.first() else {
        return Err(Failure::new(2, format!("{failure} has no log")));
    };
    let incident = group.diagnose(&project.signatures()?)?;
    let decision = request.ascend(&[], Past::default(), Some(&incident), 1)?;
    let explanation = explained(request, &[], &incident, &Measured::default());
    let view = View {
        explanation,
        ..View::new(request, incident, decision)
    };
    if json {
        print::json(&view)?;
    } else {
        print::data(&text(&view))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(view: &View) -> String {
    let mut out = format!("After: {}\n", view.incident.headline());
    for (i, rung) in view.steps.iter().enumerate() {
        let (title, effect) = (&rung.step.title, rung.step.effect.describe());
        let _ = writeln!(out, "\n  {}  {title} ({effect})", rung.name());
        out.push_str(&rung.text(before(view.now.as_ref(), &view.steps, i)));
    }
    match &view.shortfall {
        Some(shortfall) => {
            let _ = writeln!(out, "\n{}", cannot_fit(shortfall));
            let _ = writeln!(out, "{}", smallest_request(shortfall));
        }
        None if view.steps.is_empty() => {
            out.push_str("\nno rung of the ladder answers this failure\n");
        }
        None => {}
    }
    if let Some(expects) = &view.expects {
        let _ = writeln!(out, "\n{}", expectation(expects));
        out.push_str(&phases(view, expects));
    }
    for skipped in &view.skipped {
        let line = format!("not taken: {}: {}", skipped.rung, skipped.reason);
        let _ = writeln!(out, "  {}", Paint(DIM, &line));
    }
    if let Some(explanation) = &view.explanation {
        let _ = write!(out, "\n{}", with_patch(explanation));
    }
    out
}

/// The memory of every phase: as the model has it before and after each step, and as it is expected after this log.
fn phases(view: &View, expects: &Expectation) -> String {
    let mut rows = vec![Row::new("  as it was".to_owned(), view.now.as_ref())];
    let rungs = view.steps.iter();
    rows.extend(rungs.map(|r| Row::new(format!("  {}", r.step.rung), r.memory.as_ref())));
    rows.push(Row::expected("  after this log".to_owned(), expects));
    match table(&rows) {
        table if table.is_empty() => table,
        table => format!(
            "\nMemory of the fullest GPU by phase, in GiB, and the probability to fit:\n\n{table}"
        ),
    }
}
