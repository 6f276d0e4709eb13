//! The same from a sampler beside the job, which knows no steps, where the log prints no memory.

use super::MemoryCourse;
use super::judge::judge;
use super::records::{FigureMetric, Records};
use crate::class::Class;
use crate::incident::Incident;
use oomctl_base::units::Bytes;

/// The course of a GPU's memory by its samples (seconds, most bytes in use), in the order of time; they are spread over the
/// steps that the attempt did.
pub fn of_samples(
    samples: &[(i64, Bytes)],
    steps: u64,
    incident: &Incident,
) -> Option<MemoryCourse> {
    if incident.class != Class::GpuOom {
        return None;
    }
    let most = samples.iter().map(|s| s.1.0).max()?;
    // What comes before is the program that loads.
    let first = samples.iter().position(|s| s.1.0 >= most / 2)?;
    let samples = &samples[first..];
    let (start, end) = (samples.first()?.0, samples.last()?.0);
    let seconds = u64::try_from(end - start).ok().filter(|s| *s > 0)?;
    let mut records = Records::default();
    for (at, bytes) in samples {
        let passed = u64::try_from(at - start).ok()?;
        let step = (passed.saturating_mul(steps) / seconds).saturating_add(1);
        records.take(step, FigureMetric::Reserved, bytes.0 as f64);
    }
    judge(&records, incident)
}
