//! `oomctl run`: a program on this machine, on a GPU that is free, again and smaller when it runs out of memory.

use std::sync::{Arc, Mutex};

use crate::cli::launch::begin::ReadyProgram;
use crate::cli::launch::launching::{Options, signals, visible};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::drive::launch::MachineGpus;
use crate::view::launch_summary::{self, LaunchView};
use crate::view::launch_view::{self, Teller};
use crate::view::{CommandFailure, print};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct RunArgs {
    #[command(flatten)]
    options: Options,
    /// Print one JSON document at the end
    ///
    /// Print one JSON document at the end; the program's standard output goes to standard error
    #[arg(short, long)]
    json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  oomctl run -- python train.py model=lora training.batch_size=64
  oomctl run --min-gpu-memory 20GiB --knob batch=--bs -- python train.py --bs 64
  oomctl run --set batch=64 -- bash -c 'BS={batch} ./train.sh'";

const EXIT_CODES: &str = "\
The exit code is the program's, or 128 plus the signal that ended it. Of oomctl itself: 2 usage,
5 configuration, 20 no GPU is large enough, 21 none came free in time, 126 the program cannot be
executed, 127 the program was not found.";

/// Runs `oomctl run`.
pub fn run(args: &RunArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(None)?;
    let (request, remarks) = args.options.request(&session, args.command.clone())?;
    let memory = args.options.memory(&session);
    let json = args.json;
    let program = ReadyProgram {
        session: &session,
        request,
        memory: memory.as_ref(),
        ears: signals()?,
        listener: Arc::new(Mutex::new(Teller::new(&remarks))),
        outputs: Box::new(move || launch_view::outputs(json)),
    };
    let machine = MachineGpus::open(visible())?;
    let place = program.place(&machine)?;
    let ran = program.run(machine, place)?;
    launch_summary::close(&ran.summary);
    if json {
        print::json(&LaunchView::new(&ran.summary))?;
    }
    match ran.failure {
        Some(failure) => Err(failure),
        None => Ok(ran.summary.exit_code),
    }
}
