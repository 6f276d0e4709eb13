//! What `DeepSpeed`'s ZeRO takes beside sharded states, where its file is known (0.17 to 0.19, `runtime/zero`).

use super::spec::{Sharding, Spec};

/// Numbers that stage 3 steps over at a time (`sub_group_size`).
const SUB_GROUP: f64 = 1e9;

/// Numbers of weights that stage 3 keeps gathered where they are needed again before as many others
/// (`stage3_max_reuse_distance`, `stage3_max_live_parameters`): between the forward and the backward pass, the last layers.
const REUSED: f64 = 1e9;

/// What an optimizer step takes beside weights and states, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepNeeds {
    /// Gradients as the backward pass left them.
    pub gradients: f64,
    /// Their copy in the masters' format.
    pub fp32_gradients: f64,
    /// What the optimizer makes on its way.
    pub temporary: f64,
}

/// Whether the file of `DeepSpeed` is known, which tells how large its buckets are.
pub(super) fn is_known(spec: &Spec) -> bool {
    spec.sharding.is_zero() && spec.bucket_bytes.is_some()
}

/// The needs of a step, with these bytes of gradients when all exist and so many trained numbers on this GPU.
pub(super) fn step_needs(spec: &Spec, gradients: f64, trained: f64) -> StepNeeds {
    let p = &spec.precision;
    let temporary = |numbers: f64| numbers * spec.optimizer.temporary * p.moments / 2.0;
    if !is_known(spec) {
        return StepNeeds {
            gradients,
            fp32_gradients: 0.0,
            temporary: temporary(trained),
        };
    }
    let numbers = match spec.sharding {
        Sharding::Zero3 => trained.min(SUB_GROUP),
        _ => trained,
    };
    // Stages 1 and 2 flatten the gradients of their own part (`averaged_gradients`), make that fp32, and give both others back.
    let flat = match spec.sharding {
        Sharding::Zero1 | Sharding::Zero2 => numbers * p.gradient,
        _ => 0.0,
    };
    StepNeeds {
        gradients: match spec.sharding {
            Sharding::Zero1 => gradients / spec.data_parallel,
            _ => gradients,
        },
        fp32_gradients: match p.master > p.gradient {
            true => numbers * p.master,
            false => 0.0,
        },
        temporary: temporary(numbers).max(flat),
    }
}

/// Bytes of weights that wait for the backward pass.
pub(super) fn reused(spec: &Spec, bytes_of_weight: f64) -> f64 {
    match spec.sharding == Sharding::Zero3 && spec.data_parallel > 1.0 {
        true => spec.model.params.min(REUSED) * bytes_of_weight,
        false => 0.0,
    }
}
