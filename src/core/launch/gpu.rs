//! What an attempt asks of the GPUs of this machine, and what it showed that it needs.

use crate::core::ladder::Step;
use crate::core::recipe::{Layer, LayerKind, Recipe};
use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_base::{Origin, Value};
use oomctl_diagnose::{Class, Incident};

/// The knob that keeps an attempt away from GPUs.
const EXCLUDED: &str = "excluded_gpus";
/// Longest time, in seconds, for a setting that is a duration: ten years.
const LONGEST_S: u64 = 10 * 366 * 86_400;

/// What an attempt asks of the GPUs of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuWish {
    /// It runs without a GPU.
    pub cpu: bool,
    /// UUIDs of GPUs that it must not have.
    pub excluded: Vec<String>,
    /// Memory that must be available on its GPU.
    pub need: Bytes,
    /// Memory that is promised to it; the whole GPU where it is not known.
    pub claim: Option<Bytes>,
    /// How long a GPU is waited for, in seconds.
    pub wait_s: u64,
    /// Seconds between two looks.
    pub check_every_s: u64,
}

impl GpuWish {
    /// What a recipe asks for.
    pub fn of(recipe: &Recipe) -> Self {
        let claim = bytes(recipe, "claim");
        let excluded = match recipe.value(EXCLUDED) {
            Value::List(uuids) => uuids.clone(),
            _ => Vec::new(),
        };
        Self {
            cpu: matches!(recipe.value("device"), Value::Text(t) if t == "cpu"),
            excluded,
            need: bytes(recipe, "min_gpu_memory")
                .max(claim)
                .unwrap_or_default(),
            claim,
            wait_s: seconds(recipe, "wait"),
            check_every_s: seconds(recipe, "check_every").max(1),
        }
    }
}

/// Seconds without output after which a program that says that it ran out of memory is ended.
pub fn hang_grace_s(recipe: &Recipe) -> u64 {
    seconds(recipe, "hang_grace").max(1)
}

/// Bytes that the same program needs at least: what it had on the GPU when an allocation failed, and that
/// allocation. None where its output does not say so.
pub fn needed(said: &Incident) -> Option<Bytes> {
    let used = match (said.total_bytes, said.free_bytes) {
        (Some(total), Some(free)) => {
            let others = said.co_tenant_bytes.unwrap_or_default();
            total.0.checked_sub(free.0)?.checked_sub(others.0)
        }
        _ => said.reserved_bytes.or(said.allocated_bytes).map(|b| b.0),
    };
    let whole = used?.checked_add(said.requested_bytes?.0)?;
    (said.fatal && said.class == Class::GpuOom).then_some(Bytes(whole))
}

/// Whether rungs leave the program as it is and only choose another GPU for it.
pub fn only_moves_away(steps: &[Step]) -> bool {
    let mut knobs = steps.iter().flat_map(|s| s.layer.settings.keys());
    knobs.all(|knob| knob == EXCLUDED)
}

/// The layer that says which GPU the attempt had.
pub fn chosen(gpu: &str) -> Layer {
    let mut layer = Layer::new(LayerKind::Command);
    let origin = Origin::Computed {
        expr: "the GPU with the most available memory".to_owned(),
    };
    layer.set("gpu", Value::Text(gpu.to_owned()), origin);
    layer
}

fn bytes(recipe: &Recipe, name: &str) -> Option<Bytes> {
    match recipe.value(name) {
        Value::Text(text) => Bytes::parse(text).ok(),
        _ => None,
    }
}

fn seconds(recipe: &Recipe, name: &str) -> u64 {
    let parsed = match recipe.value(name) {
        Value::Text(text) => parse_duration_s(text).ok(),
        _ => None,
    };
    parsed.unwrap_or(0).min(LONGEST_S)
}
