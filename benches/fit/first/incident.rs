//! What the log of a failed attempt says, as the product's incident.

use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident};

use super::super::units::GIB;
use super::allocator::OutOfMemory;
use super::engine::Refused;
use super::phases::{Cause, Failure};
use super::trainer::Job;

/// Bytes as a message prints them: MiB or GiB with two decimals.
fn printed(bytes: u64) -> Bytes {
    let unit = if bytes < 1 << 30 {
        (1_u64 << 20) as f64
    } else {
        GIB
    };
    Bytes(((bytes as f64 / unit * 100.0).round() / 100.0 * unit).round() as u64)
}

/// What the log of the failure says.
pub fn incident(job: Job<'_>, failure: &Failure, step: u64) -> Incident {
    let mut incident = match failure.cause {
        Cause::Host => Incident::bare("host_oom", Class::HostOom),
        Cause::Engine(Refused::Startup) => {
            Incident::bare("vllm_startup_memory", Class::EngineMemory)
        }
        Cause::Engine(Refused::Cache) => Incident::bare("vllm_kv_cache", Class::EngineMemory),
        Cause::Engine(_) => Incident::bare("cuda_driver_oom", Class::GpuOom),
        Cause::Torch { oom, others } => torch(job, oom, others),
    };
    failure.phase.word().clone_into(&mut incident.phase);
    incident.retryable_unchanged = Some(false);
    if step > 0 {
        incident.step = Some(step);
        incident.first_step = Some(step == 1);
    }
    incident
}

/// PyTorch's message: requested, total, free, allocated, reserved but unallocated.
fn torch(job: Job<'_>, oom: OutOfMemory, others: u64) -> Incident {
    let total = job.setup.card;
    let unallocated = oom.reserved.saturating_sub(oom.allocated);
    Incident {
        requested_bytes: Some(printed(oom.requested)),
        total_bytes: Some(printed(total)),
        free_bytes: Some(printed(total.saturating_sub(others + oom.reserved))),
        allocated_bytes: Some(printed(oom.allocated)),
        reserved_bytes: Some(printed(oom.reserved)),
        reserved_unallocated_bytes: Some(printed(unallocated)),
        fragmentation: unallocated >= oom.requested,
        ..Incident::bare("cuda_oom", Class::GpuOom)
    }
}
