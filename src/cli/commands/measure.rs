//! `oomctl measure`: a program's own first steps on phantom GPUs, and the memory that it asked for.

use std::io::ErrorKind;

use crate::cli::args::Configuration;
use crate::cli::launch::launching::signals;
use crate::cli::measure::{MeasureOptions, closed_form, job, keep_of_job, progress, summary_of};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::measure::{PhantomEnd, PhantomOutcome, PhantomRecord, phantom_outcome};
use crate::io::phantom::{PhantomRun, run as run_on_phantom};
use crate::view::phantom_view::{PhantomView, program_output};
use crate::view::{CommandFailure, print};

/// Arguments of `measure`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct MeasureArgs {
    #[command(flatten)]
    configuration: Configuration,
    #[command(flatten)]
    options: MeasureOptions,
    /// Print one JSON document at the end
    ///
    /// Print one JSON document at the end; the program's standard output goes to standard error
    #[arg(short, long)]
    json: bool,
    /// Your job script, or a program, and its arguments [default: the project's job]
    #[arg(value_name = "SCRIPT|COMMAND", trailing_var_arg = true)]
    words: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  oomctl measure my_job.slurm                    the program that the script starts
  oomctl measure --gpu-type a100-40gb -- torchrun --nproc-per-node 8 train.py";

const EXIT_CODES: &str = "\
A phantom GPU is simulated: memory is counted, kernels do nothing, and every result is zero.
Exit codes: 0 measured, 1 not measured, 3 the program ran out of GPU memory, 21 time limit reached,
126 the program cannot be executed, 127 the program was not found.";

/// Runs `oomctl measure`.
pub fn run(args: &MeasureArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.json);
    let job = job(
        &session,
        &args.configuration,
        &args.words,
        &MeasureOptions::names(),
    )?;
    let asked = args.options.asked(&session, &job)?;
    let ears = signals()?;
    print::talk(
        "the program runs on phantom GPUs; what it prints of losses and times means nothing",
    );
    let ran = run_on_phantom(
        &asked,
        program_output(),
        &ears,
        progress(Some("phantom".to_owned())),
    )
    .map_err(|e| not_started(&asked, &e))?;
    let (end, records) = (ran.end, ran.records.clone());
    let record = PhantomRecord::fullest(records);
    let outcome = phantom_outcome(record.as_ref(), end);
    let exit = match (&outcome, end) {
        (PhantomOutcome::Measured, _) => Exit::Success,
        (PhantomOutcome::DoesNotFit, _) => Exit::StillOutOfMemory,
        (_, PhantomEnd::TimeLimit) => Exit::TimedOut,
        (_, PhantomEnd::Interrupted(signal)) => Exit::Signal(signal),
        _ => Exit::Failed,
    };
    let summary = summary_of(&asked, &ran, record.as_ref(), &outcome);
    keep_of_job(&session, (&job, &asked), &summary)?;
    let said = closed_form(&session, &args.configuration, (&job, &asked, &args.options));
    let record = record.unwrap_or_default();
    let view = PhantomView::new(&asked, &ran, record, (&summary, exit), said);
    session.show(&view, PhantomView::text)?;
    Ok(exit)
}

fn not_started(asked: &PhantomRun, error: &std::io::Error) -> CommandFailure {
    let program = asked.program.command.first().map_or("", String::as_str);
    match error.kind() {
        ErrorKind::NotFound => {
            CommandFailure::new(Exit::NotFound, format!("there is no program {program}")).hint(
                "a job script that is here, or a program: `oomctl measure -- python train.py`",
            )
        }
        ErrorKind::PermissionDenied => CommandFailure::new(
            Exit::NotExecutable,
            format!("{program} cannot be executed: {error}"),
        ),
        ErrorKind::Unsupported => {
            CommandFailure::refused(format!("the job would write its own files: {error}"))
                .hint("`oomctl measure -- COMMAND` runs a command all the same")
        }
        _ => CommandFailure::refused(format!("{program} cannot be started: {error}")),
    }
}
