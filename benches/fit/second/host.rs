//! Host memory of a node: processes, offloaded tensors, pinned ones, what data loading and rollouts hold.
//!
//! From knowledge, not checked against measurements: pinned memory comes in powers of two; verl's ranks but one
//! make their model without weights, except where embedding and output layer are one.

use super::super::setup::Program;
use super::engine::Engine;
use super::plan::Plan;

/// Bytes of one token of a rollout on the driver: ids, masks, positions, probabilities of two policies,
/// advantages and returns, in two copies.
const ROLLOUT_TOKEN: u64 = 96;
/// Workers of a data loader.
const WORKERS: u64 = 8;

/// When the node's memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Loading,
    Running,
}

/// Flat parameters one by one, each rounded up as pinned memory is.
fn pinned(plan: Plan<'_>, width: u64) -> u64 {
    let share = |elements: u64| {
        (elements * width / plan.shards())
            .max(512)
            .next_power_of_two()
    };
    plan.model.layers * share(plan.block()) + share(plan.root())
}

fn loading(plan: Plan<'_>) -> u64 {
    let s = plan.setup;
    let processes = s.gpus_per_node * plan.nature.process;
    let copies = match s.program {
        Program::Grpo if !plan.model.tied => 1,
        Program::Sharded => 1,
        _ => s.gpus_per_node,
    };
    // A file of weights is read while the model stands.
    let width = if plan.is_rl() { plan.width() } else { 2 };
    processes + copies * plan.all() * width
}

fn running(plan: Plan<'_>) -> u64 {
    let (s, n) = (plan.setup, plan.nature);
    let processes = s.gpus_per_node * n.process + WORKERS * n.worker;
    if !plan.is_rl() {
        return processes + (s.gpus_per_node - 1) * WORKERS * n.worker / 2;
    }
    let here = s.gpus_per_node * plan.all() / plan.shards();
    let of = |yes: bool, bytes: u64| if yes { bytes } else { 0 };
    let weights = of(s.param_offload, plan.width() * here);
    let states = of(s.optimizer_offload, 2 * plan.width() * here);
    let policy = of(
        s.offload_policy,
        s.gpus_per_node * 4 * pinned(plan, plan.width()),
    );
    let width = if s.ref_fp32 { 4 } else { 2 };
    let reference = of(s.reference, s.gpus_per_node * pinned(plan, width));
    let engine = Engine { plan, around: 0 };
    let asleep = of(
        n.sleeps_on_host && s.sleep,
        s.gpus_per_node * engine.weights(),
    );
    let rollouts = s.train_batch * s.samples * (s.prompt + s.response) * ROLLOUT_TOKEN;
    processes + weights + states + policy + reference + asleep + rollouts
}

/// When a node does not hold the job, if it does not.
pub fn exceeded(plan: Plan<'_>) -> Option<When> {
    let limit = plan.setup.host?;
    if loading(plan) > limit {
        return Some(When::Loading);
    }
    (running(plan) > limit).then_some(When::Running)
}
