//! `oomctl plan`: the ladder from here, rung by rung, with what each would change.

use crate::cli::args::Configuration;
use crate::cli::logs::plan_after;
use crate::cli::measure;
use crate::cli::request::yaml_lint;
use crate::cli::script;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::plan_view::PlanView;
use crate::view::{CommandFailure, columns};

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// Show the decision after this failure instead: a log file, the id of a job, or a run
    #[arg(long, value_name = "LOG|JOBID|RUN")]
    after: Option<String>,
    /// Also show the memory of every phase, a column each (by itself where the terminal is wide enough)
    #[arg(long, conflicts_with = "after")]
    phases: bool,
    /// Run the job's own program on phantom GPUs as it is and after each rung, until it fits (docs/measure.md)
    #[arg(long, conflicts_with_all = ["after", "phases"])]
    measure: bool,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
    /// Your job script and its arguments, or a run of one: shows each rung as a diff
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
    if !args.script.is_empty() {
        script::plan(
            &session,
            &script::planned(&session, &args.configuration, &args.script, &[])?,
        )?;
        return Ok(Exit::Success);
    }
    let (request, start) = session.request(&args.configuration, "plan", &[])?;
    yaml_lint::tell(&request);
    let policy = request.inputs().policy;
    let view = PlanView::new(request.preset(), policy, start, request.plan()?);
    let columns = match args.phases {
        true => usize::MAX,
        false => columns().unwrap_or(0),
    };
    session.show(&view, |view| view.text(columns))?;
    Ok(Exit::Success)
}
