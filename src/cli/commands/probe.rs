//! `oomctl probe`: the sampler that job scripts start beside the program.

use std::path::PathBuf;
use std::time::Duration;

use crate::core::exit::Exit;
use crate::io::sampler::{SamplerOptions, sample};
use crate::view::{CommandFailure, print};
use oomctl_base::units::parse_duration_s;

/// Arguments of `sample`.
#[derive(Debug, clap::Args)]
pub struct ProbeArgs {
    /// Folder of the attempt; the samples go to `samples-NODE.jsonl` in it
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration_s)]
    every: u64,
    /// End with this process [default: the one that started the sampler]
    #[arg(long, value_name = "PID")]
    pid: Option<i32>,
}

/// Runs `oomctl probe`. It never fails: a job must not end for its sampler.
pub fn run(args: &ProbeArgs) -> Result<Exit, CommandFailure> {
    let watched = SamplerOptions {
        dir: args.dir.clone(),
        every: Duration::from_secs(args.every.max(1)),
        pid: args.pid,
    };
    if let Err(error) = sample(&watched) {
        print::talk(&format!("no samples of this node's GPUs: {error}"));
    }
    Ok(Exit::Success)
}
