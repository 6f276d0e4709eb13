//! `oomctl plan`: the ladder from here, rung by rung, with what each would change.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::args::Configuration;
use super::load;
use super::print::run_view::change_lines;
use super::print::{self, DIM, Failure, NAME, Paint};
use crate::core::ladder::{Decision, Skipped, Step};
use crate::core::recipe::Layer;
use crate::core::supervise::Request;

/// Rungs that are shown at most.
const MOST_RUNGS: u32 = 64;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    schema_version: u32,
    preset: String,
    framework_version: Option<String>,
    policy: crate::core::ladder::Policy,
    rungs: Vec<Step>,
    not_used: Vec<Skipped>,
}

/// Runs `oomctl plan`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let request = load::request(&args.configuration, "plan", &[])?;
    let view = view(&request)?;
    if args.json {
        print::json(&view)?;
    } else {
        print::data(&text(&view))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Climbs as if every attempt died of a GPU OOM of which nothing is known.
fn view(request: &Request) -> Result<View, Failure> {
    let mut taken: Vec<Layer> = Vec::new();
    let mut rungs = Vec::new();
    let mut not_used = Vec::new();
    for attempt in 1..=MOST_RUNGS {
        match request.climb(&taken, None, attempt)? {
            Decision::Climb { steps, .. } => {
                taken.extend(steps.iter().map(|s| s.layer.clone()));
                rungs.extend(steps);
            }
            Decision::Exhausted { skipped } => {
                let used = |s: &Skipped| rungs.iter().any(|r: &Step| r.rung == s.rung);
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
        rungs,
        not_used,
    })
}

fn text(view: &View) -> String {
    let version = view.framework_version.as_deref();
    let version = version.map_or_else(String::new, |v| format!(" {v}"));
    let mut out = format!(
        "Ladder of {}{version}, from here, if every attempt runs out of GPU memory:\n",
        view.preset
    );
    for (i, rung) in view.rungs.iter().enumerate() {
        let _ = writeln!(
            out,
            "\n{:>3}  {}  {}",
            i + 2,
            Paint(NAME, &rung.rung),
            rung.title
        );
        out.push_str(&step_text(rung));
    }
    if !view.not_used.is_empty() {
        out.push_str("\nNot used:\n");
        for skipped in &view.not_used {
            let _ = writeln!(out, "     {}: {}", skipped.rung, skipped.reason);
        }
    }
    out.push_str("\nThe number is the attempt that would run with the rung.\n");
    out
}

/// The changes and remarks of a rung, one a line.
fn step_text(step: &Step) -> String {
    let mut out = String::new();
    for line in change_lines(&step.changes) {
        let _ = writeln!(out, "       {line}");
    }
    for note in &step.notes {
        let _ = writeln!(out, "       {} {note}", Paint(DIM, "note:"));
    }
    out
}
