//! `oomctl plan --after`: the decision after a failure.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::args::Configuration;
use super::load::{self, Project};
use super::logs::{self, Group};
use super::print::explanation::with_patch;
use super::print::outcome::{cannot_fit, expectation, smallest_request};
use super::print::rung_view::{Memory, Row, Rung, before, table};
use super::print::{self, DIM, Failure, Paint};
use super::{own, runs};
use crate::core::diagnose::Incident;
use crate::core::ladder::{Decision, Expectation, Past, Peak, Shortfall, Skipped, Tried};
use crate::core::measure::Measured;
use crate::core::recipe::Layer;
use crate::core::supervise::{Explanation, Request};
use crate::drive::explained;

#[derive(Serialize)]
struct View {
    schema_version: u32,
    /// Run and attempt, where it is one of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<String>,
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
    fn new(died: &Died, decision: Decision) -> Self {
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
        let Died { request, rungs, .. } = died;
        Self {
            schema_version: 1,
            attempt: died.name.clone(),
            incident: died.incident.clone(),
            decision: word,
            now: Memory::of(request, rungs),
            steps: Rung::all(request, rungs, steps),
            skipped,
            expects,
            shortfall,
            explanation: explained(request, rungs, &died.incident, &died.measured),
        }
    }
}

/// What died, and what had been tried before.
struct Died {
    /// Run and attempt, where it is one of a run.
    name: Option<String>,
    number: u32,
    request: Request,
    rungs: Vec<Layer>,
    earlier: Vec<Tried>,
    measured: Measured,
    incident: Incident,
}

impl Died {
    /// A configuration as it stands, of which this log is.
    fn at_first(request: Request, incident: Incident) -> Self {
        Self {
            name: None,
            number: 1,
            request,
            rungs: Vec::new(),
            earlier: Vec::new(),
            measured: Measured::default(),
            incident,
        }
    }

    /// The last attempt of a run that died among those whose logs these are, with all that went before it.
    fn of_run(project: &Project, run: &str, groups: &[Group]) -> Result<Self, Failure> {
        let stored = runs::open(&project.folder, run)?;
        let history = &stored.history;
        let died = |group: &&Group| {
            let number = group.attempt.as_ref().map(|(_, number)| *number);
            let mut attempts = history.attempts.iter();
            let attempt = attempts.find(|a| Some(a.number) == number);
            attempt
                .and_then(|a| a.incident.as_ref())
                .is_some_and(|i| i.fatal)
        };
        let Some(group) = groups.iter().rev().find(died) else {
            let what = format!("no attempt of {run} died of something that is known");
            return Err(
                Failure::new(2, what).hint(format!("`oomctl status {run}` shows its attempts"))
            );
        };
        let number = group.attempt.as_ref().map_or(1, |(_, number)| *number);
        let past = history.at_the_end_of(number);
        Ok(Self {
            name: Some(group.name()),
            number,
            request: runs::request(&stored.folder)?,
            rungs: past.rungs(),
            earlier: past.tried(),
            measured: past
                .attempt()
                .map(|a| a.measured.clone())
                .unwrap_or_default(),
            incident: group.diagnose(&project.signatures()?)?,
        })
    }

    fn decision(&self) -> Result<Decision, Failure> {
        let past = Past {
            earlier: &self.earlier,
            peaks: &Peak::of(&self.measured),
            left_out: &[],
        };
        let (rungs, incident) = (&self.rungs, Some(&self.incident));
        Ok(self.request.ascend(rungs, past, incident, self.number)?)
    }
}

/// Prints what a supervisor would decide after this failure: of a run with all that it has tried, else of the
/// configuration or the script (`words`) that the log is of.
pub fn run(
    flags: &Configuration,
    words: &[String],
    failure: &str,
    json: bool,
) -> Result<ExitCode, Failure> {
    let project = load::project(flags.config.as_deref())?;
    let groups = logs::paired(logs::meant(&project.folder, failure)?);
    let Some(group) = groups.first() else {
        return Err(Failure::new(2, format!("{failure} has no log")));
    };
    let died = match &group.attempt {
        Some(_) if flags.says_what_to_run() || !words.is_empty() => {
            let what = format!("{failure} is a run, which has its own configuration");
            return Err(Failure::new(2, what).hint(
                "leave the options and the script out, or name the log of its attempt to decide for another configuration",
            ));
        }
        Some((run, _)) => Died::of_run(&project, run, &groups)?,
        None => {
            let request = match words {
                [] => load::request(flags, "plan", &[])?,
                // The log is of the script as it stands, whatever other runs have taught since.
                words => {
                    let fresh = true;
                    own::planned(
                        &project,
                        &Configuration {
                            fresh,
                            ..flags.clone()
                        },
                        words,
                    )?
                }
            };
            Died::at_first(request, group.diagnose(&project.signatures()?)?)
        }
    };
    let view = View::new(&died, died.decision()?);
    if json {
        print::json(&view)?;
    } else {
        print::data(&text(&view))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(view: &View) -> String {
    let whose = view
        .attempt
        .as_ref()
        .map(|a| format!("{a}: "))
        .unwrap_or_default();
    let mut out = format!("After: {whose}{}\n", view.incident.headline());
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
