//! `oomctl estimate`: how much GPU memory a job needs, before it runs.

use std::path::{Path, PathBuf};

use crate::cli::args::{Configuration, sbatch_option};
use crate::cli::request::known::{ENVIRONMENT, LookupTables, filled, sources, why_unknown};
use crate::cli::request::{learned, load};
use crate::cli::script;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::io::files::read_text;
use crate::view::estimate_view::{EstimateLine, EstimateView, EstimatedJob};
use crate::view::{CommandFailure, print};
use oomctl_memory::{MeasurementRow, Profiles, estimate};

/// Largest file of specifications that is read, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// Arguments of `estimate`.
#[derive(Debug, clap::Args)]
pub struct EstimateArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// Estimate the JSON object in this file (`-` for standard input); `model` and `gpu_type` stand for dimensions and capacity that it does not give
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "jsonl",
        hide_short_help = true
    )]
    spec: Option<PathBuf>,
    /// Estimate the JSON objects in this file, one a line
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    jsonl: Option<PathBuf>,
    /// Option that sbatch gets with the script (repeatable): --sbatch=--mem=64G
    #[arg(long, value_name = "OPT", allow_hyphen_values = true, value_parser = sbatch_option, hide_short_help = true)]
    sbatch: Vec<String>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
    /// Your job script and its arguments [default: what the project file says]
    #[arg(value_name = "SCRIPT", trailing_var_arg = true, conflicts_with_all = ["spec", "jsonl"])]
    script: Vec<String>,
}

/// Runs `oomctl estimate`.
pub fn run(args: &EstimateArgs) -> Result<Exit, CommandFailure> {
    match (&args.spec, &args.jsonl) {
        (Some(path), _) => bare(path, &[(1, text_of(path)?.as_str())]),
        (None, Some(path)) => {
            let text = text_of(path)?;
            let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
            let lines: Vec<_> = lines.filter(|(_, l)| !l.trim().is_empty()).collect();
            bare(path, &lines)
        }
        (None, None) => configured(args),
    }
}

fn configured(args: &EstimateArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.json);
    let request = match &args.script[..] {
        [] => {
            let (request, start) = session.request(&args.configuration, "estimate", &[])?;
            learned::tell(start.as_ref());
            request
        }
        words => script::estimated(&session, &args.configuration, &args.sbatch, words)?,
    };
    // A configuration that breaks a rule is not estimated.
    let shape = request.shape(&[])?;
    let environment = shape.recipe().value(ENVIRONMENT);
    let known = LookupTables::new(&session.library, &session.folder).of_job(environment);
    let bridge = request.preset().memory.as_ref();
    let known_stack = bridge.is_some_and(|m| !m.fields.is_empty());
    let known_stack = known_stack && request.without_model().is_none();
    let estimate = match request.estimate(&[]).filter(|_| known_stack) {
        Some(Ok(estimate)) => estimate,
        Some(Err(unknown)) => return Err(why_unknown(&request, &known, &unknown)),
        None => return Err(script::without_model(&session, &request)),
    };
    let job = EstimatedJob {
        preset: request.preset().name.clone(),
        dataset: request.inputs().dataset.clone(),
        resources: request.resources(&[])?,
        host_memory: request.host_memory()?,
        sources: sources(&request, &known)?,
        narrower: script::narrower(&session, &request, &estimate),
        remedy: request.remedy()?,
    };
    let view = EstimateView::new(job, &estimate);
    session.show(&view, |view| view.text(print::unicode()))?;
    Ok(Exit::Success)
}

/// One JSON line for each specification; those that cannot be estimated are named on standard error.
fn bare(path: &Path, specs: &[(usize, &str)]) -> Result<Exit, CommandFailure> {
    let session = Session::open(None)?;
    let profiles = load::profiles(&session.library)?;
    let known = LookupTables::new(&session.library, &session.folder);
    let mut bad = 0;
    for (number, text) in specs {
        match one(text, &profiles, &known) {
            Ok(line) => print::data(&line)?,
            Err(why) => {
                bad += 1;
                print::talk(&format!("{}:{number}: {why}", path.display()));
            }
        }
    }
    Ok(match bad {
        0 => Exit::Success,
        _ => Exit::Configuration,
    })
}

fn one(text: &str, profiles: &Profiles, known: &LookupTables<'_>) -> anyhow::Result<String> {
    let text = filled(known, text)?;
    let (row, profile) = MeasurementRow::read(&text, profiles)?;
    let spec = row.spec(profile)?;
    let line = EstimateLine::new(row.id, &estimate(&spec, profile), profile);
    Ok(serde_json::to_string(&line)? + "\n")
}

fn text_of(path: &Path) -> Result<String, CommandFailure> {
    if path == Path::new("-") {
        let read = std::io::read_to_string(std::io::stdin());
        return read.map_err(|e| CommandFailure::usage(format!("standard input: {e}")));
    }
    read_text(path, MOST_BYTES).map_err(|e| CommandFailure::from(e).with_exit(Exit::Usage))
}
