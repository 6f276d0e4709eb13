//! Programs on several GPUs, one of which is much fuller than the others.

use std::collections::{BTreeMap, BTreeSet};

use super::super::gpu::{Machine, Process};
use super::{GpuAdvice, Trouble, named};
use oomctl_base::units::Bytes;

/// The fullest GPU holds at least so many halves of what the next one holds.
const HALVES: u64 = 3;
/// A smaller difference is no trouble.
const DIFFERENCE: u64 = 4 << 30;

/// What one program holds on a GPU.
#[derive(Default)]
struct ProgramUse<'m> {
    bytes: u64,
    processes: Vec<&'m Process>,
}

type Program<'m> = BTreeMap<u32, ProgramUse<'m>>;

pub(super) fn of(machine: &Machine) -> Vec<GpuAdvice> {
    let mut programs: BTreeMap<String, Program<'_>> = BTreeMap::new();
    for gpu in machine.gpus.iter().filter(|gpu| gpu.mig.is_none()) {
        for process in &gpu.processes {
            let program = programs.entry(family(process)).or_default();
            let held = program.entry(gpu.index).or_default();
            held.bytes += process.used_bytes.unwrap_or_default().0;
            held.processes.push(process);
        }
    }
    programs.values().filter_map(uneven).collect()
}

/// What the processes of one program have in common: the job, or who started them and the program's name.
fn family(process: &Process) -> String {
    let program = process.command.as_deref().unwrap_or_default();
    let program: Vec<&str> = program.split(' ').take(2).collect();
    match (&process.job, process.parent) {
        (Some(job), _) => format!("job {job}"),
        (None, Some(parent)) if parent > 1 => format!("{parent} {}", program.join(" ")),
        _ => process.pid.to_string(),
    }
}

fn uneven(program: &Program<'_>) -> Option<GpuAdvice> {
    let (index, fullest) = program.iter().max_by_key(|(_, held)| held.bytes)?;
    let others = program.iter().filter(|(other, _)| *other != index);
    let next = others.map(|(_, held)| held.bytes).max()?;
    if fullest.bytes < next / 2 * HALVES || fullest.bytes - next < DIFFERENCE {
        return None;
    }
    let what = format!(
        "GPU {index} holds {} of a program that holds at most {} on its other {}",
        Bytes(fullest.bytes),
        Bytes(next),
        if program.len() == 2 {
            "GPU".to_owned()
        } else {
            format!("{} GPUs", program.len() - 1)
        },
    );
    let (why, command) = reason(program, *index, fullest);
    Some(GpuAdvice {
        kind: Trouble::Imbalance,
        gpus: program.keys().copied().collect(),
        text: format!("{what}: {why}"),
        command,
    })
}

fn reason(program: &Program<'_>, index: u32, fullest: &ProgramUse<'_>) -> (String, String) {
    let all: BTreeSet<u32> = program
        .values()
        .flat_map(|h| &h.processes)
        .map(|p| p.pid)
        .collect();
    let elsewhere = |pid: u32| {
        let mut others = program.iter().filter(|(other, _)| **other != index);
        others.any(|(_, held)| held.processes.iter().any(|p| p.pid == pid))
    };
    let strays = fullest
        .processes
        .iter()
        .filter(|p| elsewhere(p.pid))
        .count();
    match fullest.processes.as_slice() {
        [one] if all.len() == 1 => (
            format!(
                "{} serves all of them, as DataParallel does, which gathers outputs on the first",
                named(one)
            ),
            format!(
                "torchrun --nproc_per_node={} SCRIPT    # one written for DistributedDataParallel",
                program.len()
            ),
        ),
        _ if strays > 0 => (
            format!("{strays} processes of the other GPUs hold memory of this one too"),
            "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))    # before anything touches CUDA"
                .to_owned(),
        ),
        _ => (
            "its process does more than the others".to_owned(),
            "oomctl gpus --watch".to_owned(),
        ),
    }
}
