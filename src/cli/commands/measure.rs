//! `oomctl measure`: a program's own first steps on phantom GPUs, and the memory that it asked for.

use std::io::ErrorKind;
use std::time::Duration;

use crate::cli::launch::launching::signals;
use crate::cli::request::known::LookupTables;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::measure::{PhantomEnd, PhantomOutcome, PhantomRecord, phantom_outcome};
use crate::io::phantom::{PhantomRun, run as run_on_phantom};
use crate::view::phantom_view::{PhantomView, program_output};
use crate::view::{CommandFailure, print};
use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_memory::Capacity;
use oomctl_phantom::{Phantom, PhantomCard};

/// Arguments of `measure`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct MeasureArgs {
    /// The type of GPU that the phantom is, by its GRES type or product name
    #[arg(long, value_name = "TYPE", default_value = "h100")]
    gpu_type: String,
    /// How much memory each has, instead of what the type has
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    gpu_memory: Option<Bytes>,
    /// How many of them the program sees
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    gpus: u16,
    /// Play one rank of this many: torch.distributed gets a process group that needs no other process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    world: u32,
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
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const AFTER_HELP: &str = "\
Examples:
  oomctl measure -- python train.py --batch_size 8
  oomctl measure --gpu-type a100-40gb --world 8 -- python train.py

A phantom GPU is none: memory is counted, kernels do nothing, and what the program reads back is zero.
Exit codes: 0 a step was measured, 1 it was not, 3 the program ran out of the card's memory, 21 time
was up, 126 and 127 as `run`.";

/// Runs `oomctl measure`.
pub fn run(args: &MeasureArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(None)?.printing(args.json);
    let asked = PhantomRun {
        command: args.command.clone(),
        phantom: Phantom {
            card: card(args, &LookupTables::new(&session.library, &session.folder))?,
            devices: args.gpus,
            ones: args.ones,
        },
        steps: args.steps,
        world: args.world,
        time_limit: Duration::from_secs(args.time_limit),
        host_bytes: args.host_memory.0,
    };
    let ears = signals()?;
    print::talk(
        "the program runs on phantom GPUs; what it prints of losses and times means nothing",
    );
    let ran = run_on_phantom(&asked, program_output(), &ears).map_err(|e| not_started(args, &e))?;
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

fn card(args: &MeasureArgs, known: &LookupTables<'_>) -> Result<PhantomCard, CommandFailure> {
    let name = &args.gpu_type;
    let Some((capability, processors)) = known.processor(name)? else {
        let what = format!("the tables do not have one compute capability for GPU type {name}");
        return Err(CommandFailure::usage(what).hint("`--gpu-type h100`, `a100-40gb`, `l40s`; a table of your own in presets/gpus/ (docs/measure.md)"));
    };
    let total_bytes = match (args.gpu_memory, known.gpu(name)?) {
        (Some(bytes), _) => bytes.0,
        (None, Some((Capacity::Known(text, _), _))) => {
            Bytes::parse(&text)
                .map_err(CommandFailure::configuration)?
                .0
        }
        (None, Some((Capacity::Several(all), _))) => {
            let what = format!("GPU type {name} has {}", all.join(" or "));
            return Err(CommandFailure::usage(what)
                .hint("`--gpu-memory SIZE`, or a name with its memory: a100-40gb"));
        }
        (None, None) => {
            return Err(CommandFailure::usage(format!(
                "no table has GPU type {name}"
            )));
        }
    };
    let bad = || CommandFailure::configuration(format!("capability {capability} of {name}"));
    let (major, minor) = capability.split_once('.').ok_or_else(bad)?;
    let number = |text: &str| text.parse::<u8>().map_err(|_| bad());
    Ok(PhantomCard {
        name: name.clone(),
        total_bytes,
        context_bytes: args.context.0,
        capability: (number(major)?, number(minor)?),
        processors,
    })
}

fn not_started(args: &MeasureArgs, error: &std::io::Error) -> CommandFailure {
    let program = args.command.first().map_or("", String::as_str);
    match error.kind() {
        ErrorKind::NotFound => {
            CommandFailure::new(Exit::NotFound, format!("there is no program {program}"))
        }
        ErrorKind::PermissionDenied => CommandFailure::new(
            Exit::NotExecutable,
            format!("{program} cannot be executed: {error}"),
        ),
        _ => CommandFailure::refused(format!("{program} cannot be started: {error}")),
    }
}
