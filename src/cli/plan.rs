//! `oomctl plan`: the ladder from here, rung by rung, with what each would change.

use std::process::ExitCode;

use super::args::Configuration;
use super::plan_after;
use super::print::{self, Failure, plan_view};
use super::{learned, load};

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// Show the decision after this failure instead: a log file, the id of a job, or a run
    #[arg(long, value_name = "LOG|JOBID|RUN")]
    after: Option<String>,
    /// Also show the memory of every phase, a column each (by itself where the terminal is wide enough)
    #[arg(long, conflicts_with = "after")]
    phases: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs `oomctl plan`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(failure) = &args.after {
        let request = load::request(&args.configuration, "plan", &[])?;
        return plan_after::run(&args.configuration, &request, failure, args.json);
    }
    let (request, start) = learned::request(&args.configuration, "plan")?;
    let view = plan_view::view(&request, start)?;
    if args.json {
        print::json(&view)?;
    } else {
        let columns = match args.phases {
            true => usize::MAX,
            false => print::columns().unwrap_or(0),
        };
        print::data(&view.text(columns))?;
    }
    Ok(ExitCode::SUCCESS)
}
