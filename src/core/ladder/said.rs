//! What the figures and frames of one failure come to.

use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident};

/// Part that is taken of what an engine's sampler has room for.
const SAMPLER_MARGIN: f64 = 0.9;

/// Share of the GPU that lay idle beyond the request that failed, free or reserved.
pub(super) fn spare(incident: &Incident) -> Option<f64> {
    // A message of PyTorch 2.0 or older has the sum.
    let rest = || Some(incident.reserved_bytes?.as_f64() - incident.allocated_bytes?.as_f64());
    let unused = incident.reserved_unallocated_bytes.map(Bytes::as_f64);
    let unused = unused.or_else(|| rest().filter(|rest| *rest >= 0.0))?;
    let idle = incident.free_bytes?.as_f64() + unused;
    Some((idle - incident.requested_bytes?.as_f64()) / incident.total_bytes?.as_f64())
}

/// Whether an engine's sampler was tried with as many requests as it may have, by the engine's own words or by the frame.
pub(super) fn warms_up_sampler(incident: &Incident) -> bool {
    let mut said = incident.evidence.iter();
    let starts = ["init", "cuda_graph"].contains(&incident.phase.as_str());
    let in_sampler = incident.frame.as_ref().is_some_and(|frame| {
        frame.file.contains("vllm/")
            && (frame.file.contains("/sample/") || frame.function == "_dummy_sampler_run")
    });
    said.any(|e| e.signature == "vllm_sampler_warmup") || starts && in_sampler
}

/// Part of the requests for which an engine's sampler had room: the logits lie there before it asks for as much again.
pub(super) fn sampler(incident: &Incident) -> Option<f64> {
    let (free, requested) = (
        incident.free_bytes?.as_f64(),
        incident.requested_bytes?.as_f64(),
    );
    let part = (free + requested) / (2.0 * requested) * SAMPLER_MARGIN;
    (warms_up_sampler(incident) && part < 1.0).then_some(part)
}

/// The GPU's memory in bytes.
pub(super) fn total(incident: &Incident) -> Option<f64> {
    Some(incident.total_bytes?.as_f64())
}

/// Whether memory of the GPU ran out before a whole step of the training was made.
pub(super) fn is_first(incident: &Incident) -> bool {
    let trains = incident.class == Class::GpuOom && incident.phase != "eval";
    trains && incident.step.is_none_or(|step| step <= 1)
}

/// Part of its request which an evaluation had room for.
pub(super) fn evaluates(incident: &Incident) -> Option<f64> {
    let (free, requested) = (incident.free_bytes?, incident.requested_bytes?);
    let in_eval = incident.phase == "eval" && incident.class == Class::GpuOom;
    (in_eval && free < requested).then_some(free.as_f64() / requested.as_f64())
}

/// Share of the GPU that was free when an engine started and wanted more.
pub(super) fn free_share(incident: &Incident) -> Option<f64> {
    let (free, total) = (incident.free_bytes?, incident.total_bytes?);
    let share = free.as_f64() / total.as_f64();
    (incident.kind == "vllm_startup_memory" && share < 1.0).then_some(share)
}
