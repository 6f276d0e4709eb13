//! `oomctl plan`: the attempts that may come, with what each would change.

use std::path::Path;

use crate::cli::args::{Configuration, sbatch_option};
use crate::cli::logs::plan_after;
use crate::cli::measure;
use crate::cli::request::known::{LookupTables, gpu_unknown};
use crate::cli::request::{queue, yaml_lint};
use crate::cli::script::{self, NO_TERMINAL};
use crate::cli::session::Session;
use crate::cli::sweep::array;
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::io::job_scripts::job_scripts;
use crate::view::plan_table::places_of;
use crate::view::plan_view::{PlanSettings, PlanView};
use crate::view::{CommandFailure, columns, print};

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// Show what follows this failure: a log file, a job id or a run
    #[arg(long, value_name = "LOG|JOBID|RUN")]
    after: Option<String>,
    /// Also show the memory of every phase, a column each
    #[arg(long, conflicts_with = "after", hide_short_help = true)]
    phases: bool,
    /// Measure on phantom GPUs: the job as it is, then each rung
    #[arg(long, conflicts_with_all = ["after", "phases"])]
    measure: bool,
    /// Also show diffs, notes, values, and rungs that are not used
    #[arg(short = 'v', long, conflicts_with = "after")]
    all: bool,
    /// Option that sbatch gets with the script (repeatable): --sbatch=--mem=64G
    #[arg(long, value_name = "OPT", allow_hyphen_values = true, value_parser = sbatch_option, hide_short_help = true)]
    sbatch: Vec<String>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
    /// Your job script and its arguments, or the run of a script
    #[arg(value_name = "SCRIPT|RUN", trailing_var_arg = true)]
    script: Vec<String>,
}

/// Runs `oomctl plan`.
pub fn run(args: &PlanArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.json);
    if args.measure {
        return measure::plan(&session, &args.configuration, &args.script);
    }
    if let Some(failure) = &args.after {
        plan_after::run(&session, &args.configuration, &args.script, failure)?;
        return Ok(Exit::Success);
    }
    let script = script_meant(&session, args);
    if !script.is_empty() {
        let asked = script::ScriptCommandLine {
            flags: &args.configuration,
            run: None,
            sbatch: &args.sbatch,
            words: &script,
            logs: &[],
        };
        let request = array::shown(
            &session,
            &args.configuration,
            script::planned(&session, &asked)?,
        )?;
        let request = measure::measured_before(&session, request);
        let queue = queue::starts(&session, &request);
        script::plan(&session, &request, queue, args.all)?;
        return Ok(Exit::Success);
    }
    let (request, start) = session.request(&args.configuration, "plan", &[])?;
    yaml_lint::tell(&request);
    let request = measure::measured_before(&session, request);
    let policy = request.inputs().policy;
    let settings = settings(&session, &request)?;
    let view = PlanView::new(request.preset(), policy, (start, request.plan()?), settings);
    session.show(&view, |view| {
        view.text(columns().unwrap_or(NO_TERMINAL), args.all, args.phases)
    })?;
    Ok(Exit::Success)
}

/// The script that is given, or the only one of a folder that has nothing else to plan.
fn script_meant(session: &Session, args: &PlanArgs) -> Vec<String> {
    if !args.script.is_empty() || !session.asks_nothing(&args.configuration) {
        return args.script.clone();
    }
    let found = job_scripts(&session.folder);
    match found.as_slice() {
        [only] => {
            print::talk(&format!("{only} is the only job script here"));
            found
        }
        _ => Vec::new(),
    }
}

/// What the table says of the configuration: where its values are given, and why the memory of a GPU is unknown.
fn settings(session: &Session, request: &Request) -> Result<PlanSettings, CommandFailure> {
    let recipe = request.recipe(&[])?;
    let workdir = Path::new(&request.inputs().workdir);
    let known = LookupTables::new(&session.library, workdir);
    Ok(PlanSettings {
        nodes: request.inputs().nodes.clone(),
        places: places_of(&recipe),
        gpu_unknown: gpu_unknown(request, &recipe, &known),
        most_attempts: request.inputs().limits.attempts,
        queue: queue::starts(session, request),
        phantom: request.kept_measurement().cloned(),
    })
}
