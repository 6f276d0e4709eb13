//! What is wrong with the GPUs of a machine, and the command that helps.
//!
//! Rule: advice is about what one look shows. It says what it saw, never what somebody must have done.

mod balance;
mod faults;
mod holders;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpu::{Gpu, Machine, Process};
use oomctl_base::units::Bytes;

/// Pieces of advice at most; a node with more trouble than that is seen to be in trouble.
const MOST: usize = 12;

/// One thing that is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuAdvice {
    /// What kind of trouble it is.
    pub kind: Trouble,
    /// The GPUs that it is about, by NVML's index.
    pub gpus: Vec<u32>,
    /// What was seen, as a sentence.
    pub text: String,
    /// The command that helps.
    pub command: String,
}

/// Kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// A GPU that does not answer any more.
    Lost,
    /// Memory errors that could not be corrected, or rows that could not be replaced.
    Ecc,
    /// An Xid in the kernel's log that no program is to blame for.
    Xid,
    /// Clocks that are held down by heat or power.
    Throttled,
    /// Memory held by a process that does not exist, or by nobody that can be seen.
    Zombie,
    /// Memory held by a process that is stopped or has ended.
    Stopped,
    /// Much memory held while nothing runs.
    Idle,
    /// A GPU shared by several jobs or users.
    CoTenant,
    /// One of a program's GPUs much fuller than the others.
    Imbalance,
    /// A GPU that is smaller than what the project's job takes.
    TooSmall,
    /// The project's last out-of-memory was one of a fragmented allocator.
    Fragmentation,
}

/// What to say about a machine, the worst first. `me` is the name of the user who asks.
pub fn advise(machine: &Machine, me: Option<&str>) -> Vec<GpuAdvice> {
    let mut all = faults::of(machine);
    all.extend(balance::of(machine));
    all.extend(holders::of(machine, me));
    all.truncate(MOST);
    all
}

/// A process as a message names it: `process 4711 (anna, python train.py)`.
fn named(process: &Process) -> String {
    /// Characters of a command that identify it.
    const COMMAND: usize = 40;
    let command = process.command.as_deref().map(|command| {
        let cut: String = command.chars().take(COMMAND).collect();
        cut.trim_end().to_owned()
    });
    let known = [process.user.clone(), command];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() {
        format!("process {}", process.pid)
    } else {
        format!("process {} ({})", process.pid, known.join(", "))
    }
}

/// The advice about one GPU.
fn about(gpu: &Gpu, kind: Trouble, text: String, command: String) -> GpuAdvice {
    GpuAdvice {
        kind,
        gpus: vec![gpu.index],
        text,
        command,
    }
}

/// The GPUs that are too small for a job that takes at least so much on one.
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
