//! `oomctl explain KNOB`: where a value came from, and which values it overrides.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::args::Configuration;
use crate::cli::script;
use crate::cli::session::Session;
use crate::core::config::variable;
use crate::core::engine::History;
use crate::core::exit::Exit;
use crate::core::recipe::{Knob, Recipe, Resolved};
use crate::core::request::Request;
use crate::view::measured_plan_view::phantoms_that_moved;
use crate::view::settings_view::SettingsView;
use crate::view::{CommandFailure, DIM, NAME, Paint};
use oomctl_base::{Effect, Role};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// The knob, by name or full spelling [default: every knob that is not at its default]
    #[arg(allow_hyphen_values = true)]
    knob: Option<String>,
    #[command(flatten)]
    configuration: Configuration,
    /// The value in a run, rungs included
    #[arg(long, value_name = "JOBID|RUN")]
    run: Option<String>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ExplainView {
    schema_version: u32,
    knob: String,
    doc: String,
    role: Option<Role>,
    effect: Effect,
    unit: Option<String>,
    spelling: Option<String>,
    #[serde(flatten)]
    resolved: Resolved,
    pinned: Option<String>,
    rules: Vec<String>,
    rungs: Vec<String>,
    #[serde(skip)]
    changed_by: String,
    source: Option<String>,
    /// What was measured on phantom GPUs and moved it.
    phantom: Vec<String>,
    environment: String,
    /// Is it of a job script that the user wrote?
    #[serde(skip)]
    of_script: bool,
}

/// Runs `oomctl explain`.
pub fn run(args: &ExplainArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.json);
    let run = session.run_meant(args.run.as_ref(), &args.configuration)?;
    let (request, history) = match &run {
        Some(run) => session
            .runs
            .find(run)
            .and_then(|run| Ok((run.request()?, run.history)))?,
        None => (
            session.request(&args.configuration, "explain", &[])?.0,
            History::default(),
        ),
    };
    let recipe = request.recipe(&history.rungs())?;
    let Some(wanted) = &args.knob else {
        session.show(&SettingsView::of(&recipe), SettingsView::text)?;
        return Ok(Exit::Success);
    };
    let knob = script::knob_named(&request, wanted)?;
    let mut view = view(&request, knob, &recipe)?;
    view.phantom = phantoms_that_moved(&history, &knob.name);
    session.show(&view, text)?;
    Ok(Exit::Success)
}

fn view(request: &Request, knob: &Knob, recipe: &Recipe) -> Result<ExplainView, CommandFailure> {
    let preset = request.preset();
    let resolved = recipe
        .values
        .get(&knob.name)
        .cloned()
        .ok_or_else(|| preset.unknown_knob(&knob.name))?;
    let mut rungs = request.inputs().ladder.to_vec();
    rungs.retain(|r| r.moves(&knob.name, knob.role));
    Ok(ExplainView {
        schema_version: 1,
        knob: knob.name.clone(),
        doc: knob.doc.clone(),
        role: knob.role,
        effect: knob.effect,
        unit: knob.unit.clone(),
        spelling: knob.spelling.as_ref().map(|s| s.name().to_owned()),
        pinned: recipe.pins.get(&knob.name).map(ToString::to_string),
        rules: request.rules_about(&knob.name, recipe),
        rungs: rungs.iter().map(|r| r.rung.clone()).collect(),
        changed_by: Vec::from_iter(rungs.iter().map(|r| r.beside(knob.effect))).join(", "),
        source: knob.source.clone(),
        phantom: Vec::new(),
        environment: variable(&knob.name),
        of_script: request.inputs().scripts.is_some(),
        resolved,
    })
}

fn text(view: &ExplainView) -> String {
    let (value, doc) = (&view.resolved.value, &view.doc);
    let unit = view.unit.as_deref().unwrap_or("");
    let mut out = format!("{} = {value} {unit}\n  {doc}\n", Paint(NAME, &view.knob));
    let overrides = view.resolved.beaten();
    let overrides =
        overrides.map(|b| Paint(DIM, &format!("{} ({})", b.value, b.origin)).to_string());
    let changed_by = Some(view.changed_by.clone()).filter(|rungs| !rungs.is_empty());
    // The script says how its program spells a knob, and where it is set.
    let set = format!("--set {}=VALUE, or ${}", view.knob, view.environment);
    let own = |lines: Vec<String>| if view.of_script { Vec::new() } else { lines };
    let lines = [
        ("from", vec![view.resolved.origin.to_string()]),
        ("overrides", overrides.collect()),
        ("pinned", view.pinned.iter().cloned().collect()),
        ("written as", own(view.spelling.iter().cloned().collect())),
        ("by itself", vec![view.effect.describe().to_owned()]),
        ("rule", view.rules.clone()),
        ("changed by", changed_by.into_iter().collect()),
        ("phantom", view.phantom.clone()),
        ("source", view.source.iter().cloned().collect()),
        ("set with", own(vec![set])),
    ];
    for (label, line) in lines
        .iter()
        .flat_map(|(l, all)| all.iter().map(move |a| (l, a)))
    {
        let _ = writeln!(out, "  {label:<10}  {line}");
    }
    out
}
