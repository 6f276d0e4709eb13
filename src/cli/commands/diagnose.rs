//! `oomctl diagnose`: what killed this job, with the line that proves it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::logs::{self, LogGroup};
use crate::cli::runs::Runs;
use crate::cli::script::no_script;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::{CommandFailure, IncidentView, print};
use oomctl_diagnose::{Incident, ProjectFailures};

/// Arguments of `diagnose`.
#[derive(Debug, clap::Args)]
pub struct DiagnoseArgs {
    /// Log files, - for standard input, a run of this project, or a job id [default: the newest run]
    #[arg(value_name = "LOG|JOBID|RUN")]
    logs: Vec<String>,
    /// Judge all files as the logs of one job (X.out and X.err always are)
    #[arg(long)]
    together: bool,
    /// A snapshot of PyTorch's allocator, taken when memory ran out [default: the one that the log names]
    #[arg(long, value_name = "FILE")]
    snapshot: Option<std::path::PathBuf>,
    /// Exit with 0 for no failure, 10 for GPU OOM, 11 for host OOM, 12 for another failure
    #[arg(long)]
    exit_code: bool,
    /// Project file, for its signatures and runs; by default the nearest oomctl.yaml, walking up from here
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct DiagnosisView {
    schema_version: u32,
    files: Vec<IncidentView>,
}

/// Runs `oomctl diagnose`.
pub fn run(args: &DiagnoseArgs) -> Result<Exit, CommandFailure> {
    let session = Session::of_runs(args.config.as_deref())?;
    let own = session.own_failures()?;
    let mut groups: Vec<LogGroup> = Vec::new();
    for argument in session.runs.or_newest(&args.logs)? {
        no_script(&argument, "give the log of its job, or the job's id")?;
        groups.extend(logs::asked(&session.runs, &argument)?);
    }
    let mut groups = if args.together {
        vec![LogGroup::of_files(
            groups.into_iter().flat_map(|g| g.files).collect(),
        )]
    } else {
        logs::paired(groups)
    };
    if let Some(given) = &args.snapshot {
        let [group] = groups.as_mut_slice() else {
            return Err(CommandFailure::usage(
                "--snapshot belongs to one job, but several are given",
            )
            .hint("give the logs of one job, with --together if there are several"));
        };
        group.snapshot = Some(given.clone());
    }
    let mut answers = Vec::new();
    for group in &groups {
        answers.push(answer(&session.runs, group, &own)?);
    }
    let code = answers
        .iter()
        .map(|(i, _)| logs::exit(i))
        .max_by_key(|exit| exit.code());
    if args.json {
        print::json(&DiagnosisView {
            schema_version: 1,
            files: answers.into_iter().map(|(_, view)| view).collect(),
        })?;
    } else {
        for (incident, view) in &answers {
            print::prose(&view.text(incident, print::unicode()))?;
        }
    }
    Ok(match args.exit_code {
        true => code.unwrap_or(Exit::Success),
        false => Exit::Success,
    })
}

/// What is said about one group.
fn answer(
    runs: &Runs,
    group: &LogGroup,
    own: &ProjectFailures,
) -> Result<(Incident, IncidentView), CommandFailure> {
    let mut incident = group.diagnose(own)?;
    let explanation = logs::why(runs, group, &mut incident);
    let mut view = logs::view(group, &incident);
    view.explanation = explanation;
    Ok((incident, view))
}
