//! `oomctl submit`: render, write the intent down, submit.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use super::args::Configuration;
use super::print::story::Story;
use super::print::{self, Failure, run_view};
use super::{learned, load};
use super::{render, runs, watch};
use crate::core::recipe::Value;
use crate::core::supervise::{Limits, Request, split};
use crate::drive::{End, Environment, Handle, RunFolder, Sources, Supervisor, Until, drive};

/// Seconds for which an unclear submission is looked up before `submit` hands over to `watch`.
pub(super) const PATIENCE_S: u64 = 90;

/// Arguments of `submit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// Name of the run; by default the dataset or preset, with a number
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Stay, follow the logs, and resubmit on GPU OOM
    #[arg(long)]
    watch: bool,
    /// Print the files that would be submitted, and submit nothing
    #[arg(long)]
    dry_run: bool,
    /// Hand an option on to sbatch (repeatable): --sbatch=--qos=high
    #[arg(long, value_name = "OPT", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Attempts in all, the first included
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs `oomctl submit`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let project = load::project(args.configuration.config.as_deref())?;
    let name = match &args.run {
        Some(name) => name.clone(),
        None => new_name(&project, args)?,
    };
    let (mut request, start) =
        learned::request_in(&project, &args.configuration, &name, &args.sbatch)?;
    learned::tell(start.as_ref());
    if let Some(attempts) = args.attempts {
        let limits = request.inputs().limits.clone();
        request = request.with_limits(Limits { attempts, ..limits });
    }
    if args.dry_run {
        return dry_run(&request, &project.folder);
    }
    let backend = request.inputs().backend.clone();
    let handle = create(&project.folder, &name, request)?;
    let mut supervisor = runs::supervisor(&backend, &project.folder);
    supervisor.add(handle);
    if args.watch {
        return watch::follow(supervisor, args.json);
    }
    submit_once(supervisor, &name, args.json)
}

fn new_name(project: &load::Project, args: &Args) -> Result<String, Failure> {
    let stem = load::stem(project, &args.configuration)?;
    runs::new_name(&project.folder, &stem)
}

fn dry_run(request: &Request, project: &Path) -> Result<ExitCode, Failure> {
    let place = render::preview(&project.display().to_string(), &request.inputs().backend);
    let files = request.render(&[], &place)?;
    print::data(&render::text(&files))?;
    print::talk("dry run: nothing was submitted");
    Ok(ExitCode::SUCCESS)
}

/// Makes the run on disk: inputs, environment, first fact.
pub(super) fn create(project: &Path, name: &str, request: Request) -> Result<Handle, Failure> {
    let folder = RunFolder::of(&runs::runs_dir(project), name)?;
    let inputs = serde_json::to_string_pretty(request.inputs())
        .map_err(|e| Failure::new(5, format!("cannot write down the request: {e}")))?;
    let environment = environment(&request)?;
    // A template that cannot be rendered is told before anything is written.
    request.render(
        &[],
        &render::preview(&project.display().to_string(), &request.inputs().backend),
    )?;
    let now = jiff::Timestamp::now();
    let handle = Handle::create(folder, Box::new(request), &inputs, &environment, now);
    Ok(handle?)
}

/// The environment of the jobs: ours, without what is secret or belongs to this process.
fn environment(request: &Request) -> Result<Environment, Failure> {
    let recipe = request.recipe(&[])?;
    let declared = match recipe.value("secrets") {
        Value::List(names) => names.clone(),
        _ => Vec::new(),
    };
    let missing: Vec<&str> = declared
        .iter()
        .map(String::as_str)
        .filter(|n| std::env::var_os(n).is_none())
        .collect();
    if !missing.is_empty() {
        let what = format!("the job needs {}, not set here", missing.join(", "));
        return Err(Failure::new(5, what).hint("set it, or take it out of `secrets`"));
    }
    let all: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    let split = split(&all, &declared);
    Ok(Environment {
        variables: split.variables,
        secrets: split.secrets,
    })
}

fn submit_once(mut supervisor: Supervisor, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let sources = Sources::signals()
        .map_err(|e| Failure::new(4, format!("cannot listen for signals: {e}")))?;
    let until = Until::Submitted {
        patience_s: PATIENCE_S,
    };
    let mut story = Story::quiet();
    let end = drive(&mut supervisor, until, &sources, &mut story);
    story.close();
    let code = watch::result(&supervisor, end, json, &|view| {
        let job = view.attempts.last().and_then(|a| a.job.clone());
        match job {
            Some(job) => print::data(&job),
            None => Ok(()),
        }
    })?;
    match end {
        End::Detached { .. } => {}
        _ => print::talk(&run_view::next_step(&supervisor, name)),
    }
    Ok(code)
}
