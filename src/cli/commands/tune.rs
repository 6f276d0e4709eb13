//! `oomctl tune`: from a configuration that fits, the fastest that still does.

use crate::cli::measure;
use crate::cli::session::{PROJECT_FILE, Session};
use crate::cli::tune::command::command;
use crate::cli::tune::{from, probes};

use crate::cli::args::Configuration;
use crate::cli::request::{climbing, load};
use crate::core::config::ConfigDocument;
use crate::core::exit::Exit;
use crate::core::request::{Basis, Request};
use crate::view::CommandFailure;
use crate::view::tune_view::TuneView;

/// Arguments of `tune`.
#[derive(Debug, clap::Args)]
pub struct TuneArgs {
    /// A run or job id that fits, or a dataset profile [default: the project file, else the newest run]
    #[arg(value_name = "DATASET|RUN")]
    from: Option<String>,
    #[command(flatten)]
    configuration: Configuration,
    /// Also take steps that change training
    #[arg(long)]
    allow_training_changes: bool,
    /// Measure the proposal on phantom GPUs, and take steps back until it fits there
    #[arg(long, conflicts_with = "probe_steps")]
    measure: bool,
    #[command(flatten)]
    probes: probes::Probing,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl tune`.
pub fn run(args: &TuneArgs) -> Result<Exit, CommandFailure> {
    let flags = &args.configuration;
    let session = Session::open(flags.config.as_deref())?.printing(args.json);
    let from = session.run_meant(args.from.as_ref(), flags)?;
    let (mut request, basis, from) = from::basis(&session, from.as_deref(), flags)?;
    if flags.min_fit_probability.is_some() {
        // Also of a run that was submitted with another one.
        let none = ConfigDocument::parse(PROJECT_FILE, "")?;
        request = request.with_min_fit_probability(climbing::min_fit_probability(flags, &none)?);
    }
    let preset = request.preset();
    if preset.tune.is_empty() {
        let what = format!("preset {} has no steps that make a job faster", preset.name);
        let hint = "add them under `tune:`; a run keeps the preset that it was submitted with";
        return Err(CommandFailure::configuration(what).hint(hint));
    }
    let before = request.judged(&basis)?;
    if let Some(before) = before.as_ref().filter(|_| !basis.fits) {
        must_fit(&request, &basis, before.fits_probability)?;
    }
    if let Some(steps) = args.probes.probe_steps {
        let of = match (&from, &args.from) {
            (Some(from), _) => from.run.clone(),
            (None, Some(name)) => name.clone(),
            (None, None) => load::stem(&session, flags)?,
        };
        let tuning = probes::ProbeTuning {
            args: &args.probes,
            session: &session,
            config: flags.config.as_deref(),
            request: &request,
            of: &of,
            changes_training: args.allow_training_changes,
        };
        return tuning.run(basis, steps);
    }
    let tuned = request.tune(&basis, args.allow_training_changes)?;
    let (tuned, phantom) = match args.measure {
        true => measure::tuned(&session, &request, &basis.rungs, tuned)?,
        false => (tuned, Vec::new()),
    };
    let mut layers = basis.rungs.clone();
    layers.extend(tuned.steps.iter().map(|s| s.step.layer.clone()));
    let way = match tuned.steps.is_empty() {
        true => (None, None),
        false => match request.patch(&layers)? {
            Some(patch) => (None, Some(patch.diff())),
            None => (Some(command(&request, &layers)?), None),
        },
    };
    let not_counted = request.elsewhere(&basis).map(|e| e.describe());
    let mut view = TuneView::new(from, not_counted, before, tuned, way);
    view.phantom = phantom;
    session.show(&view, |view| view.text())?;
    Ok(Exit::Success)
}

/// What is tuned must be expected to fit.
fn must_fit(request: &Request, basis: &Basis, probability: f64) -> Result<(), CommandFailure> {
    if probability >= request.inputs().min_fit_probability {
        return Ok(());
    }
    let what = format!("this configuration is not expected to fit (probability {probability:.2})");
    let mut hint =
        "`oomctl plan` shows what would fit; `oomctl tune RUN` starts from a run that fits"
            .to_owned();
    if let Some(elsewhere) = request.elsewhere(basis) {
        hint = format!("{}; {hint}", elsewhere.describe());
    }
    Err(CommandFailure::new(Exit::StillOutOfMemory, what).hint(hint))
}
