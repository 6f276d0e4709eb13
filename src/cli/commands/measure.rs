//! `oomctl measure`: a program's own first steps on phantom GPUs, and the memory that it asked for.

use std::io::ErrorKind;
use std::time::Duration;

use crate::cli::args::Configuration;
use crate::cli::launch::launching::signals;
use crate::cli::measure::{JobMeasure, card, job};
use crate::cli::request::known::LookupTables;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::measure::{PhantomEnd, PhantomOutcome, PhantomRecord, phantom_outcome};
use crate::io::phantom::{PhantomRun, run as run_on_phantom};
use crate::view::phantom_view::{PhantomView, program_output};
use crate::view::{CommandFailure, print};
use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_phantom::Phantom;

/// Arguments of `measure`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct MeasureArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// The type of GPU that the phantom is, by its GRES type or product name [default: the job's; h100 for a command]
    #[arg(long, value_name = "TYPE")]
    gpu_type: Option<String>,
    /// How much memory each has, instead of what the type has
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    gpu_memory: Option<Bytes>,
    /// How many of them the program sees, and how many ranks its launcher starts [default: the job's; 1 for a command]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    gpus: Option<u16>,
    /// Play one rank of this many, whatever the job or its launcher says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    world: Option<u32>,
    /// End the program after this many optimizer steps; 0 lets it run to its end
    #[arg(long, value_name = "N", default_value_t = 2)]
    steps: u32,
    /// What CUDA's context takes of each GPU before the program asks for anything
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = Bytes::parse)]
    context: Bytes,
    /// Single values that the program reads back are one instead of zero
    #[arg(long)]
    ones: bool,
    /// The longest time that the program may run
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration_s)]
    time_limit: u64,
    /// The most memory of this machine that the program may take
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = Bytes::parse)]
    host_memory: Bytes,
    /// Print one JSON document; the program's standard output goes to standard error
    #[arg(short, long)]
    json: bool,
    /// Your job script and its arguments, or a program and its own; without one the project's job
    #[arg(value_name = "SCRIPT|COMMAND", trailing_var_arg = true)]
    words: Vec<String>,
}

const AFTER_HELP: &str = "\
Examples:
  oomctl measure my_job.slurm                    the program that the script starts
  oomctl measure --set per_device_train_batch_size=4 my_job.slurm
  oomctl measure --gpu-type a100-40gb -- torchrun --nproc-per-node 8 train.py

A phantom GPU is none: memory is counted, kernels do nothing, and what the program reads back is zero.
Exit codes: 0 a step was measured, 1 it was not, 3 the program ran out of the card's memory, 21 time
was up, 126 and 127 as `run`.";

/// Runs `oomctl measure`.
pub fn run(args: &MeasureArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.json);
    let job = job(&session, &args.configuration, &args.words)?;
    let asked = asked(args, &session, &job)?;
    let ears = signals()?;
    print::talk(
        "the program runs on phantom GPUs; what it prints of losses and times means nothing",
    );
    let ran =
        run_on_phantom(&asked, program_output(), &ears).map_err(|e| not_started(&asked, &e))?;
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
    let view = PhantomView::new(&asked, &ran, record.as_ref(), &outcome, exit);
    session.show(&view, PhantomView::text)?;
    Ok(exit)
}

/// How a job is measured.
fn asked(
    args: &MeasureArgs,
    session: &Session,
    job: &JobMeasure,
) -> Result<PhantomRun, CommandFailure> {
    let gpu_type = args.gpu_type.as_ref().or(job.gpu_type.as_ref());
    let gpu_type = gpu_type.ok_or_else(|| {
        CommandFailure::usage("the job does not say which type of GPU it runs on")
            .hint("`--gpu-type h100`")
    })?;
    let known = LookupTables::new(&session.library, &session.folder);
    let memory = args
        .gpu_memory
        .or(job.gpu_memory.filter(|_| args.gpu_type.is_none()));
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let gpus = args.gpus.map_or(job.gpus, u64::from);
    let given = |of_job: u64| match args.gpus {
        Some(gpus) if of_job > 0 => u32::from(gpus),
        _ => count(of_job),
    };
    Ok(PhantomRun {
        command: job.command.clone(),
        variables: job.variables.clone(),
        folder: job.folder.clone(),
        files: job.files.clone(),
        scratch: job.scratch,
        replaced: job.replaced.clone(),
        phantom: Phantom {
            card: card(&known, gpu_type, memory, args.context)?,
            devices: u16::try_from(gpus.clamp(1, 64)).unwrap_or(1),
            ones: args.ones,
        },
        steps: args.steps,
        world: args.world.unwrap_or_else(|| given(job.world)),
        ranks: args.gpus.map_or(count(job.ranks), u32::from),
        time_limit: Duration::from_secs(args.time_limit),
        host_bytes: args.host_memory.0,
    })
}

fn not_started(asked: &PhantomRun, error: &std::io::Error) -> CommandFailure {
    let program = asked.command.first().map_or("", String::as_str);
    match error.kind() {
        ErrorKind::NotFound => {
            CommandFailure::new(Exit::NotFound, format!("there is no program {program}"))
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
