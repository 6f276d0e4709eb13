//! What an attempt was measured to need, in a few words.

use super::figures::{in_gib, of_gib};
use crate::core::measure::{Figure, Measured, Quantity};
use oomctl_base::job::HostUse;
use oomctl_base::units::Bytes;

/// `61.3 of 79.2 GiB`, of the GPU that was fullest; where no GPU was seen, what the program said of
/// itself: `61.3 GiB reserved`.
pub fn peak(measured: &Measured) -> Option<String> {
    if let Some(gpu) = measured.fullest() {
        return Some(of_gib(gpu.peak_bytes.gib(), gpu.total_bytes.gib()));
    }
    let figure = said(measured)?;
    let (peak, what) = (figure.peak_bytes.gib(), figure.measure.describe());
    Some(format!("{} {what}", in_gib(peak)))
}

/// How much it used of what it held: `77% of GPU memory at the peak, GPU utilization 83%, 39% of host memory (25.0 of 64.0
/// GiB), 6% of CPU time`. Of what nobody measured it says nothing.
pub fn efficiency(measured: Option<&Measured>, host: Option<&HostUse>) -> Option<String> {
    let parts = [measured.and_then(of_gpus), host.and_then(of_host_memory)];
    let cpu = host
        .and_then(HostUse::cpu_share)
        .filter(|share| is_some(*share));
    let cpu = cpu.map(|share| format!("{:.0}% of CPU time", share * 100.0));
    let parts: Vec<String> = parts.into_iter().chain([cpu]).flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn of_gpus(measured: &Measured) -> Option<String> {
    let share = measured.fullest()?.share()?;
    let busy = match measured.utilization_percent() {
        Some(percent) => format!("{percent}%"),
        None => "unknown".to_owned(),
    };
    Some(format!(
        "{:.0}% of GPU memory at the peak, GPU utilization {busy}",
        share * 100.0
    ))
}

/// Whether a share is more than nothing: of a job of seconds Slurm took no sample.
fn is_some(share: f64) -> bool {
    share >= 0.005
}

/// Where nobody says how much it was given, its peak alone.
fn of_host_memory(host: &HostUse) -> Option<String> {
    let peak = host.memory_peak?.gib();
    Some(match (host.memory_share(), host.memory_given) {
        (Some(share), Some(_)) if !is_some(share) => return None,
        (Some(share), Some(given)) => {
            let sizes = of_gib(peak, given.gib());
            format!("{:.0}% of host memory ({sizes})", share * 100.0)
        }
        _ => format!("{} of host memory", in_gib(peak)),
    })
}

/// The same in GiB.
pub fn peak_gib(measured: &Measured) -> Option<f64> {
    peak_bytes(measured).map(|peak| peak.gib())
}

/// The same in bytes.
pub fn peak_bytes(measured: &Measured) -> Option<Bytes> {
    let gpu = measured.fullest().map(|gpu| gpu.peak_bytes);
    gpu.or_else(|| said(measured).map(|figure| figure.peak_bytes))
}

/// What the program said of the memory of its GPU.
fn said(measured: &Measured) -> Option<&Figure> {
    let wanted = [Quantity::GpuReserved, Quantity::GpuAllocated];
    let mut all = wanted.iter();
    all.find_map(|wanted| measured.figures.iter().find(|f| f.measure == *wanted))
}

/// The GPU that was fullest, where there were several.
pub fn place(measured: &Measured) -> Option<String> {
    let gpu = measured.fullest().filter(|_| measured.gpus.len() > 1)?;
    Some(format!("GPU {} on {}", gpu.gpu, gpu.node))
}
