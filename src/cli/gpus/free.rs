//! `oomctl gpus --wait`: until a GPU is free.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::interrupt;
use crate::core::exit::Exit;
use crate::drive::gpus::{Looks, Patience, Waited, wait_for};
use crate::io::claims::Claims;
use crate::io::gpu_pool::Cards;
use crate::view::{CommandFailure, print};
use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_gpu::nvml::GpuError;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The GPU that is free.
#[derive(Serialize, JsonSchema)]
pub struct FreeView<'a> {
    schema_version: u32,
    gpu: u32,
    uuid: &'a str,
    name: &'a str,
    total_bytes: Bytes,
    free_bytes: Bytes,
}

/// Reads the memory that is waited for: MiB, or a size with its unit. `oomctl run` has an option of the same name that
/// takes a time, and `60m` would be both.
pub fn size(text: &str) -> Result<Bytes, String> {
    if text.parse::<f64>().is_err() && parse_duration_s(text).is_ok() {
        return Err(format!(
            "this is a time; --wait takes an amount of free memory (40GiB), and --timeout {text} the time"
        ));
    }
    Bytes::parse_mib(text)
}

/// There is no driver to wait for.
pub fn none(error: &GpuError) -> CommandFailure {
    CommandFailure::new(Exit::NoGpu, error.to_string())
        .hint("a login node has no GPUs: run this inside a job")
}

/// Waits, and prints the UUID.
pub fn wait(
    looks: &Looks,
    need: Bytes,
    timeout_s: u64,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let sources = interrupt::listen_quietly()?;
    let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let patience = Patience {
        at_most: Duration::from_secs(timeout_s),
        every: LOOK,
    };
    let claims = Claims::open()?;
    let mut cards = Cards::new(looks.driver(), &claims);
    let mut look = || cards.look(list.as_deref()).cards;
    let mut tell = |free: Bytes| {
        print::talk(&format!(
            "waiting for a GPU with {need} free; the freest has {free}"
        ));
    };
    match wait_for(need, patience, &sources, &mut look, &mut tell) {
        Waited::Free(card) if json => {
            print::json(&FreeView {
                schema_version: 1,
                gpu: card.gpu,
                uuid: &card.uuid,
                name: &card.name,
                total_bytes: card.total_bytes,
                free_bytes: card.available(),
            })?;
            Ok(Exit::Success)
        }
        Waited::Free(card) => print::data(&card.uuid).map(|()| Exit::Success),
        Waited::Signal(signal) => Ok(Exit::Signal(signal)),
        Waited::Never(None) => Err(CommandFailure::new(Exit::NoGpu, "no GPU may be used here")
            .hint("CUDA_VISIBLE_DEVICES or the job's device cgroup hides GPUs")),
        Waited::Never(Some(largest)) => Err(CommandFailure::new(
            Exit::NoGpu,
            format!("no GPU here has {need}; the largest has {largest}"),
        )),
        Waited::TimedOut(free) => Err(CommandFailure::new(
            Exit::TimedOut,
            format!("no GPU had {need} free in time; the freest has {free}"),
        )
        .hint("`oomctl gpus` shows who holds the memory; --timeout waits longer")),
    }
}
