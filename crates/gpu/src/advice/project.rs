//! What a project needs of the GPUs of a machine.

use super::super::gpu::Machine;
use super::{GpuAdvice, Trouble};
use oomctl_base::units::Bytes;

/// The GPUs that are too small for a job that takes at least so much on one.
#[must_use]
pub fn too_small(machine: &Machine, need: Bytes) -> Option<GpuAdvice> {
    let small: Vec<_> = machine
        .gpus
        .iter()
        .filter(|gpu| gpu.memory.total < need)
        .collect();
    let largest = small.iter().map(|gpu| gpu.memory.total).max()?;
    let gpus: Vec<u32> = small.iter().map(|gpu| gpu.index).collect();
    let names: Vec<String> = gpus.iter().map(u32::to_string).collect();
    let (plural, has) = if gpus.len() == 1 {
        ("", "has")
    } else {
        ("s", "have")
    };
    Some(GpuAdvice {
        kind: Trouble::TooSmall,
        text: format!(
            "GPU{plural} {} {has} {largest} at most, and the job that oomctl.yaml describes takes {need} or more on one",
            names.join(", ")
        ),
        gpus,
        command: "oomctl plan".to_owned(),
    })
}

/// A run died asking for less than the allocator held without using it.
#[must_use]
pub fn fragmented(run: &str, requested: Bytes, unused: Bytes) -> Option<GpuAdvice> {
    (requested <= unused).then(|| GpuAdvice {
        kind: Trouble::Fragmentation,
        gpus: Vec::new(),
        text: format!(
            "run {run} died asking for {requested} while PyTorch held {unused} that it did not use: fragmentation"
        ),
        command: format!("oomctl diagnose {run}"),
    })
}
