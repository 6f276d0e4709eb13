//! What an attempt was measured to need, in a few words.

use super::figures::{in_gib, of_gib};
use crate::core::measure::{Measured, Quantity};

/// `61.3 of 79.2 GiB`, of the GPU that was fullest; where no GPU was seen, what the program said of
/// itself: `61.3 GiB reserved`.
pub fn peak(measured: &Measured) -> Option<String> {
    if let Some(gpu) = measured.fullest() {
        return Some(of_gib(gpu.peak_bytes.gib(), gpu.total_bytes.gib()));
    }
    let said = [Quantity::GpuReserved, Quantity::GpuAllocated];
    let figure = said
        .iter()
        .find_map(|wanted| measured.figures.iter().find(|f| f.measure == *wanted))?;
    let (peak, what) = (figure.peak_bytes.gib(), figure.measure.describe());
    Some(format!("{} {what}", in_gib(peak)))
}

/// How much of its GPUs it used: `77% of GPU memory at the peak, GPU utilization 83%`. Nothing where no GPU was seen.
pub fn efficiency(measured: &Measured) -> Option<String> {
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

/// The same in GiB.
pub fn peak_gib(measured: &Measured) -> Option<f64> {
    let said = [Quantity::GpuReserved, Quantity::GpuAllocated];
    let figure = |wanted| measured.figures.iter().find(move |f| f.measure == wanted);
    let gpu = measured.fullest().map(|gpu| gpu.peak_bytes);
    let said = || said.into_iter().find_map(figure).map(|f| f.peak_bytes);
    gpu.or_else(said).map(|bytes| bytes.gib())
}

/// The GPU that was fullest, where there were several.
pub fn place(measured: &Measured) -> Option<String> {
    let gpu = measured.fullest().filter(|_| measured.gpus.len() > 1)?;
    Some(format!("GPU {} on {}", gpu.gpu, gpu.node))
}
