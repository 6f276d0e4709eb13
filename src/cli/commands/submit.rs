//! `oomctl submit`: render, write the intent down, submit.

use std::io::IsTerminal;

use crate::cli::args::{Configuration, SubmitOptions};
use crate::cli::request::{agreed, checkpoint, learned, yaml_lint};
use crate::cli::session::Session;
use crate::cli::sweep::cells::SweepPlan;
use crate::cli::watch::pipeline::{Flags, Pipeline};
use crate::cli::watch::showing::Showing;
use crate::cli::watch::{self, once};
use crate::cli::watch_chain::{self, Supervise};
use crate::cli::{measure, script};
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::drive::Until;
use crate::view::CommandFailure;

/// Arguments of `submit`.
#[derive(Debug, clap::Args)]
pub struct SubmitArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// Name of the run [default: the script, dataset or preset, and a number]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Stay, follow the logs, resubmit smaller on GPU OOM
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    showing: Showing,
    /// Do not stay, even if the project file has `supervision: watch`
    #[arg(long, conflicts_with = "watch", hide_short_help = true)]
    no_watch: bool,
    /// Who resubmits: here (this process), job (small jobs), script
    #[arg(long, value_name = "WHO", value_enum, hide_possible_values = true, conflicts_with_all = ["watch", "dry_run"])]
    supervise: Option<Supervise>,
    #[command(flatten)]
    how: SubmitOptions,
    /// Your job script and its arguments [default: what the project file says]
    #[arg(value_name = "SCRIPT", trailing_var_arg = true)]
    script: Vec<String>,
    #[command(flatten)]
    pipeline: Flags,
}

impl SubmitArgs {
    /// Does it watch? Only somebody at a terminal is there to see what the project file asks for.
    fn stays(&self, request: &Request) -> bool {
        let asked = request.inputs().supervision.watch && !self.no_watch && !self.how.json;
        self.watch
            || self.supervise == Some(Supervise::Here)
            || asked && self.supervise.is_none() && std::io::stderr().is_terminal()
    }
}

/// Runs `oomctl submit`.
pub fn run(args: &SubmitArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.how.json);
    let (name, mut request) = wanted(&session, args)?;
    let stays = args.stays(&request);
    if !stays {
        args.pipeline.without_watch()?;
    }
    let folder = session.runs.folder(&name)?;
    if let Some(attempts) = args.how.attempts {
        request = request.with_attempts(attempts);
    }
    if let Some(folder) = &args.how.resume_from {
        request = checkpoint::resuming_from(&session.runs, request, folder)?;
    }
    let pipeline = Pipeline {
        flags: &args.pipeline,
        runs: &session.runs,
        asked: name.clone(),
        showing: args.showing.plain_if(args.how.json),
    };
    if let Some(list) = request.array()? {
        let supervised = args.supervise.is_some() && !stays;
        args.how.is_for_many(&list, supervised)?;
        let memory = learned::memory(&session, args.configuration.fresh);
        let plan = SweepPlan::of_array(&name, &request, &list, memory.as_ref())?;
        return args
            .how
            .submit_array(plan, &session, &request, &pipeline, stays);
    }
    request = request.measured_if(args.how.measure);
    let measured = measure::before(&session, &request)?;
    if args.how.dry_run {
        return script::dry_run(&session, &measured.shown(&request), args.how.json);
    }
    if !args.script.is_empty() {
        script::agreed(&session, &measured.shown(&request), None, args.how.yes)?;
    } else {
        agreed::agreed(&session, &name, &request, args.how.yes)?;
    }
    if let Some(supervise) = args.supervise {
        supervise.check(&request)?;
    }
    checkpoint::tell(&request);
    yaml_lint::tell(&request);
    let mut handle = session.runs.create(&name, request.clone())?;
    measured.written(&mut handle)?;
    let config = args.configuration.config.as_deref();
    let chained = args.supervise.filter(|_| !stays);
    let watched = chained.map(|_| watch_chain::begin(&request, &folder, config));
    let watched = watched.transpose()?.flatten();
    let supervisor = session.runs.supervisor(&request.inputs().backend);
    let mut supervisor = supervisor.measuring(measure::measurer(args.configuration.config.clone()));
    supervisor.add(handle);
    if stays {
        return watch::follow(supervisor, Until::Finished, args.how.json, &pipeline);
    }
    once::submit_once(
        supervisor,
        &pipeline,
        args.how.json,
        watched.as_ref().zip(args.supervise),
    )
}

/// The run that is asked for: from templates, or a script of the user's own.
fn wanted(session: &Session, args: &SubmitArgs) -> Result<(String, Request), CommandFailure> {
    if !args.script.is_empty() {
        let asked = script::ScriptCommandLine {
            flags: &args.configuration,
            run: args.run.as_deref(),
            sbatch: &args.how.sbatch,
            words: &args.script,
            logs: &[],
        };
        let (name, request) = script::submit(session, &asked)?;
        script::has_its_scheduler(session, &args.configuration, &request)?;
        return Ok((name, request));
    }
    let mut configuration = args.configuration.clone();
    let knobs = args.supervise.and_then(Supervise::knobs);
    configuration.set.extend(knobs.map(str::to_owned));
    let (name, request) =
        session.named_request(&configuration, args.run.as_ref(), &args.how.sbatch)?;
    script::has_its_scheduler(session, &configuration, &request)?;
    Ok((name, request))
}
