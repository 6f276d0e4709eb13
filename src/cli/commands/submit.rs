//! `oomctl submit`: render, write the intent down, submit.

use std::io::IsTerminal;
use std::path::PathBuf;

use crate::cli::args::{Configuration, sbatch_option};
use crate::cli::measure;
use crate::cli::request::{checkpoint, yaml_lint};
use crate::cli::script;
use crate::cli::session::Session;
use crate::cli::watch::pipeline::{Flags, Pipeline};
use crate::cli::watch::showing::Showing;
use crate::cli::watch::{self, once};
use crate::cli::watch_chain::{self, Supervise};
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::drive::Until;
use crate::view::CommandFailure;

/// Arguments of `submit`.
#[derive(Debug, clap::Args)]
pub struct SubmitArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// Name of the run [default: the dataset or preset, and a number]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Stay, follow the logs, resubmit smaller on GPU OOM
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    showing: Showing,
    /// Submit and leave, where `supervision: watch` says to stay
    #[arg(long, conflicts_with = "watch", hide_short_help = true)]
    no_watch: bool,
    /// Who resubmits: here (this process), job (small jobs), script
    #[arg(long, value_name = "WHO", value_enum, hide_possible_values = true, conflicts_with_all = ["watch", "dry_run"])]
    supervise: Option<Supervise>,
    /// Measure on phantom GPUs first, take rungs until it fits there
    #[arg(long)]
    measure: bool,
    /// Show what would be submitted, and submit nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Option for sbatch (repeatable): --sbatch=--qos=high
    #[arg(long, value_name = "OPT", allow_hyphen_values = true, value_parser = sbatch_option)]
    sbatch: Vec<String>,
    /// Attempts in all, the first included
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    /// Begin with a checkpoint: its folder, or the newest of a run
    #[arg(long, value_name = "FOLDER|RUN", hide_short_help = true)]
    resume_from: Option<PathBuf>,
    /// Do not ask before a script of your own is submitted
    #[arg(short, long)]
    yes: bool,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
    /// Your job script and its arguments [default: what the project file says]
    #[arg(value_name = "SCRIPT", trailing_var_arg = true)]
    script: Vec<String>,
    #[command(flatten)]
    pipeline: Flags,
}

impl SubmitArgs {
    /// Does it watch? Only somebody at a terminal is there to see what the project file asks for.
    fn stays(&self, request: &Request) -> bool {
        let asked = request.inputs().supervision.watch && !self.no_watch && !self.json;
        self.watch
            || self.supervise == Some(Supervise::Here)
            || asked && self.supervise.is_none() && std::io::stderr().is_terminal()
    }
}

/// Runs `oomctl submit`.
pub fn run(args: &SubmitArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.json);
    let (name, mut request) = wanted(&session, args)?;
    let stays = args.stays(&request);
    if !stays {
        args.pipeline.without_watch()?;
    }
    let folder = session.runs.folder(&name)?;
    if let Some(attempts) = args.attempts {
        request = request.with_attempts(attempts);
    }
    if let Some(folder) = &args.resume_from {
        request = checkpoint::resuming_from(&session.runs, request, folder)?;
    }
    request = request.measured_if(args.measure);
    let measured = measure::before(&session, &request)?;
    if args.dry_run {
        script::dry_run(&session, &measured.shown(&request), args.json)?;
        return Ok(Exit::Success);
    }
    if !args.script.is_empty() {
        script::agreed(&session, &measured.shown(&request), None, args.yes)?;
    }
    if let Some(supervise) = args.supervise {
        supervise.check(&request)?;
    }
    checkpoint::tell(&request);
    yaml_lint::tell(&request);
    let mut handle = session.runs.create(&name, request.clone())?;
    measured.written(&mut handle)?;
    let config = args.configuration.config.as_deref();
    let watched = match args.supervise.filter(|_| !stays) {
        Some(_) => watch_chain::begin(&request, &folder, config)?,
        None => None,
    };
    let supervisor = session.runs.supervisor(&request.inputs().backend);
    let mut supervisor = supervisor.measuring(measure::measurer(args.configuration.config.clone()));
    supervisor.add(handle);
    let pipeline = Pipeline {
        flags: &args.pipeline,
        runs: &session.runs,
        asked: name,
        showing: args.showing.plain_if(args.json),
    };
    if stays {
        return watch::follow(supervisor, Until::Finished, args.json, &pipeline);
    }
    once::submit_once(
        supervisor,
        &pipeline,
        args.json,
        watched.as_ref().zip(args.supervise),
    )
}

/// The run that is asked for: from templates, or a script of the user's own.
fn wanted(session: &Session, args: &SubmitArgs) -> Result<(String, Request), CommandFailure> {
    if !args.script.is_empty() {
        let asked = script::ScriptCommandLine {
            flags: &args.configuration,
            run: args.run.as_deref(),
            sbatch: &args.sbatch,
            words: &args.script,
            logs: &[],
        };
        return script::submit(session, &asked);
    }
    let mut configuration = args.configuration.clone();
    let knobs = args.supervise.and_then(Supervise::knobs);
    configuration.set.extend(knobs.map(str::to_owned));
    session.named_request(&configuration, args.run.as_ref(), &args.sbatch)
}
