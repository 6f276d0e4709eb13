//! `oomctl fix`: what to change after a failure, from a log alone.

use crate::cli::args::Configuration;
use crate::cli::logs::died::{self, FailureDecision};
use crate::cli::logs::{self, LogGroup, plan_after};
use crate::cli::script::{NO_TERMINAL, Shelves, no_script};
use crate::cli::session::{PROJECT_FILE, Session};
use crate::core::adopt::{Likely, Logged, assemble};
use crate::core::exit::Exit;
use crate::core::ladder::{Advices, advise};
use crate::core::recipe::PresetFile;
use crate::io::job_scripts::job_scripts;
use crate::view::fix_view::{self, LogAdvice};
use crate::view::{CommandFailure, columns};
use oomctl_diagnose::Incident;

/// Arguments of `fix`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{WRITES}"))]
pub struct FixArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// A snapshot of PyTorch's allocator, taken when memory ran out [default: one that the log names]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    snapshot: Option<std::path::PathBuf>,
    /// Exit with 0 for no failure, 10 for GPU OOM, 11 for host OOM, 12 for another failure
    #[arg(long, hide_short_help = true)]
    exit_code: bool,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
    /// A log file, - for standard input, a job id or a run [default: the newest run]
    #[arg(value_name = "LOG|JOBID|RUN")]
    log: Option<String>,
    /// The job script and its arguments, as on sbatch's command line
    #[arg(value_name = "SCRIPT", trailing_var_arg = true)]
    script: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  oomctl fix slurm-4711.err job.slurm   the change of the script, as a diff
  oomctl fix slurm-4711.err             by oomctl.yaml if there is one; else general advice
  oomctl fix - < issue.md               a pasted log";

const WRITES: &str = "\
Nothing is written. `oomctl sweep fix` is another command: it changes the values of a sweep.";

/// Runs `oomctl fix`.
pub fn run(args: &FixArgs) -> Result<Exit, CommandFailure> {
    let flags = &args.configuration;
    let session = Session::open(flags.config.as_deref())?.printing(args.json);
    let log = match &args.log {
        Some(log) => log.clone(),
        None => session.runs.newest()?,
    };
    let other = args.script.first().map_or("LOG", String::as_str);
    no_script(
        &log,
        &format!("the log comes first: `oomctl fix {other} {log}`"),
    )?;
    if !args.json && args.script.is_empty() && died::shows_what_fitted(&session, &log)? {
        return Ok(Exit::Success);
    }
    let mut groups = logs::paired(logs::asked(&session.runs, &log)?);
    died::succeeded(&session, &log);
    groups
        .iter_mut()
        .for_each(|g| g.snapshot.clone_from(&args.snapshot));
    let decided = decides(args, &session, &groups)
        .then(|| plan_after::decide(&session, flags, &args.script, &log, &mut groups))
        .transpose()?;
    let incident = match decided {
        Some(decided) if decided.in_program.is_none() => {
            let (decision, diff) = (decided.view, decided.diff);
            let view = fix_view::FixDecision { decision, diff };
            session.show(&view, |view| view.text(columns().unwrap_or(NO_TERMINAL)))?;
            decided.incident
        }
        decided => advised(args, &session, (&log, &groups), decided)?,
    };
    Ok(match args.exit_code {
        true => logs::exit(&incident),
        false => Exit::Success,
    })
}

/// Whether it is known what died: a run, a script, or a configuration.
fn decides(args: &FixArgs, session: &Session, groups: &[LogGroup]) -> bool {
    let flags = &args.configuration;
    let rest = Configuration {
        preset: None,
        ..flags.clone()
    };
    !args.script.is_empty()
        || rest.says_what_to_run()
        || session.folder.join(PROJECT_FILE).is_file()
        || flags.config.is_some()
        || groups.first().is_some_and(|g| g.attempt.is_some())
}

/// Says what helps in the spelling of the framework that the log is of.
fn advised(
    args: &FixArgs,
    session: &Session,
    (log, groups): (&str, &[LogGroup]),
    decided: Option<FailureDecision>,
) -> Result<Incident, CommandFailure> {
    let Some(group) = groups.first() else {
        return Err(CommandFailure::usage(format!("{log} has no log")));
    };
    let given = args.configuration.preset.as_deref();
    let shelves = Shelves::of_project(session, given)?;
    let mut logged = Logged::new(&shelves.presets);
    let own = session.own_failures()?;
    let mut incident = group.diagnose_beside(&own, &mut |lines| logged.take(lines))?;
    let in_program = decided.and_then(|decided| {
        let settled = decided.incident;
        (incident.phase, incident.notes) = (settled.phase, settled.notes);
        (incident.helps, incident.worse) = (settled.helps, settled.worse);
        decided.in_program
    });
    let likely = match given {
        Some(name) => Some(Likely {
            presets: shelves.presets.iter().collect(),
            by: vec![format!("--preset {name}")],
        }),
        None => logged.likely(),
    };
    let presets = likely.as_ref().map_or(&[][..], |l| &l.presets);
    let mut all = presets.iter().map(|file| advices(file, &incident));
    let mut advices = all.next().transpose()?;
    for other in all {
        let other = other?;
        advices.iter_mut().for_each(|a| a.keep_shared(&other));
    }
    let of_log = logs::view(group, &incident);
    let view = LogAdvice::new(of_log, likely.as_ref(), advices, in_program.as_ref());
    let view = view.beside(&job_scripts(&session.folder));
    let view = view.of_run(group.attempt.is_some());
    let script = Some(args.script.join(" ")).filter(|words| !words.is_empty());
    session.show(&view, |view| view.text(&incident, log, script.as_deref()))?;
    Ok(incident)
}

/// What a preset, its sets in it, has against an incident.
fn advices(file: &PresetFile, incident: &Incident) -> Result<Advices, CommandFailure> {
    let preset = assemble(file.clone(), Vec::new(), None)?;
    Ok(advise(&preset, &file.stack(), incident))
}
