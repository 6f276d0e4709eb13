//! `oomctl plan --after`: the decision after one failure, without a run.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::args::Configuration;
use super::load;
use super::logs;
use super::print::explanation::with_patch;
use super::print::outcome::{cannot_fit, expectation, smallest_request};
use super::print::plan_view::step_text;
use super::print::{self, DIM, Failure, NAME, Paint};
use crate::core::diagnose::Incident;
use crate::core::ladder::{Decision, Expectation, Past, Shortfall, Skipped, Step};
use crate::core::measure::Measured;
use crate::core::supervise::{Explanation, Request};
use crate::drive::explained;

#[derive(Serialize)]
struct View {
    schema_version: u32,
    incident: Incident,
    decision: &'static str,
    steps: Vec<Step>,
    skipped: Vec<Skipped>,
    expects: Option<Expectation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shortfall: Option<Shortfall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
}

impl View {
    fn new(incident: Incident, decision: Decision) -> Self {
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
            steps,
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
        ..View::new(incident, decision)
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
    for step in &view.steps {
        let _ = writeln!(
            out,
            "\n  {}  {} ({})",
            Paint(NAME, &step.rung),
            step.title,
            step.effect.describe()
        );
        out.push_str(&step_text(step));
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
