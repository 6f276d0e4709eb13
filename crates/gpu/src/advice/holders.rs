//! Memory that is held for nothing, and GPUs that several share.

use std::collections::BTreeMap;

use super::super::gpu::{DevicePlace, Gpu, Machine, Process, ProcessLife};
use super::{GpuAdvice, Trouble, about, named};
use oomctl_base::units::Bytes;

/// Memory without a holder that is worth a word. Contexts, and what old drivers count as used for themselves,
/// are less than this.
const UNEXPLAINED: Bytes = Bytes(2 << 30);
/// A process that does nothing is worth a word from this share of the memory on.
const IDLE_SHARE: u64 = 4;
/// Less than this is a context that computes nothing.
const TENANT: Bytes = Bytes(1 << 30);
/// Who has a GPU open, as root also those of others.
const OPENERS: &str = "fuser -v /dev/nvidia*";

pub(super) fn of(machine: &Machine, me: Option<&str>) -> Vec<GpuAdvice> {
    let mut all = Vec::new();
    for gpu in &machine.gpus {
        all.extend(gpu.all_processes().filter_map(|p| dead(gpu, p, me)));
        all.extend(unexplained(gpu));
        all.extend(idle(gpu, me));
        all.extend(gpu.places().filter_map(|place| shared(gpu, &place)));
    }
    all
}

/// What ends a process, or who can.
fn end(process: &Process, signal: &str, me: Option<&str>) -> String {
    match (&process.user, me) {
        (Some(user), Some(me)) if user != me => format!("ps -fp {}    # ask {user}", process.pid),
        _ => format!("kill {signal}{}", process.pid),
    }
}

fn dead(gpu: &Gpu, process: &Process, me: Option<&str>) -> Option<GpuAdvice> {
    let (index, held) = (gpu.index, held(process));
    let (kind, text, command) = match process.life {
        ProcessLife::Gone => (
            Trouble::Zombie,
            format!(
                "GPU {index}: {held} held by process {}, which no longer exists",
                process.pid
            ),
            OPENERS.to_owned(),
        ),
        ProcessLife::Ending => (
            Trouble::Stopped,
            format!(
                "GPU {index}: {held} held by {}, which has ended but still holds memory",
                named(process)
            ),
            format!("ps -o pid,ppid,stat,wchan:32,cmd -p {}", process.pid),
        ),
        ProcessLife::Stopped => (
            Trouble::Stopped,
            format!(
                "GPU {index}: {held} held by {}, which is stopped",
                named(process)
            ),
            end(process, "-CONT ", me),
        ),
        ProcessLife::Runs | ProcessLife::Unknown => return None,
    };
    Some(about(gpu, kind, text, command))
}

/// Memory in use that no process accounts for.
fn unexplained(gpu: &Gpu) -> Option<GpuAdvice> {
    if gpu.mig.is_some() || !gpu.processes_known {
        return None;
    }
    let told: Option<u64> = gpu
        .processes
        .iter()
        .map(|p| p.used_bytes.map(|b| b.0))
        .sum();
    let rest = Bytes(gpu.memory.used.0.saturating_sub(told?));
    let text = format!(
        "GPU {}: {rest} held by no process that can be seen: it is in another container, or hangs",
        gpu.index
    );
    (rest > UNEXPLAINED).then(|| about(gpu, Trouble::Zombie, text, OPENERS.to_owned()))
}

/// A program that keeps much memory while nothing runs: the one that holds most is named.
fn idle(gpu: &Gpu, me: Option<&str>) -> Option<GpuAdvice> {
    if gpu.utilization_percent != Some(0) {
        return None;
    }
    let running = gpu.processes.iter().filter(|p| p.life == ProcessLife::Runs);
    let most = running.max_by_key(|p| p.used_bytes)?;
    let used = most.used_bytes?;
    if used.0 < gpu.memory.total.0 / IDLE_SHARE {
        return None;
    }
    let orphan = most.parent == Some(1) && most.job.is_none();
    let (after, command) = if orphan {
        (
            ", and the process that started it is gone",
            end(most, "", me),
        )
    } else {
        ("", "oomctl gpus --watch".to_owned())
    };
    let text = format!(
        "GPU {}: nothing runs, and {used} are held by {}{after}",
        gpu.index,
        named(most)
    );
    Some(about(gpu, Trouble::Idle, text, command))
}

/// Jobs or users beside each other in one memory.
fn shared(gpu: &Gpu, place: &DevicePlace<'_>) -> Option<GpuAdvice> {
    let mut tenants: BTreeMap<String, u64> = BTreeMap::new();
    for process in place.processes {
        let tenant = match (&process.job, &process.user) {
            (Some(job), Some(user)) => format!("job {job} of {user}"),
            (Some(job), None) => format!("job {job}"),
            (None, Some(user)) => user.clone(),
            (None, None) => continue,
        };
        *tenants.entry(tenant).or_default() += process.used_bytes.unwrap_or_default().0;
    }
    tenants.retain(|_, used| *used >= TENANT.0);
    let least = *tenants.values().min()?;
    if tenants.len() < 2 {
        return None;
    }
    let said = tenants
        .iter()
        .map(|(who, used)| format!("{who} with {}", Bytes(*used)));
    let said = said.collect::<Vec<_>>().join(", ");
    let text = format!("GPU {} is shared: {said}", gpu.index);
    let command = format!("oomctl gpus --wait {}", least.div_ceil(1 << 20));
    Some(about(gpu, Trouble::CoTenant, text, command))
}

fn held(process: &Process) -> String {
    match process.used_bytes {
        Some(bytes) => format!("{bytes} are"),
        None => "memory is".to_owned(),
    }
}
