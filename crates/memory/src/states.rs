//! What stays between steps: weights, gradients, optimizer states, and what gathering them takes.

use super::activations::Activations;
use super::deepspeed;
use super::profile::Profile;
use super::spec::{Model, Sharding, Spec, Task};

/// Bytes per parameter of an embedding or output projection that is trained beside an adapter: weight and
/// gradient in 16 bits, moments in fp32 (PEFT `modules_to_save`).
const TRAINED_EMBEDDING: f64 = 12.0;

/// Bytes of the states of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct States {
    /// Weights at rest.
    pub weights: f64,
    /// Weights of the frozen copy.
    pub reference: f64,
    /// Gradients when all of them exist.
    pub gradients: f64,
    /// Gradients that wait for those of the next micro batch.
    pub waiting: f64,
    /// Moments and master copies.
    pub optimizer: f64,
    /// Everything of the adapter.
    pub adapter: f64,
    /// Weights in the computation's format beside those at rest.
    pub cast_copy: f64,
    /// Trained parameters on this GPU.
    pub trained: f64,
}

/// Parameters of the fullest pipeline stage on one tensor parallel GPU: its layers and, on the first or
/// last stage, one matrix of embeddings.
pub(super) fn local_params(spec: &Spec) -> (f64, f64) {
    let model = &spec.model;
    let stages = spec.pipeline_parallel;
    let layers = model.layers * model.layer_params() / stages / spec.tensor_parallel;
    let embeddings = if stages > 1.0 {
        model.vocab * model.hidden
    } else {
        model.embedding_params()
    };
    (layers, embeddings / spec.tensor_parallel)
}

/// Over how many GPUs something is spread: where weights are, and in these stages of `ZeRO`.
fn shards(spec: &Spec, stages: &[Sharding]) -> f64 {
    if spec.sharding.gathers() || stages.contains(&spec.sharding) {
        spec.data_parallel.max(1.0)
    } else {
        1.0
    }
}

/// Parameters of an adapter.
pub(super) fn adapter_params(spec: &Spec) -> f64 {
    let per_layer = spec.lora.as_ref().map_or(0.0, |l| l.rank * l.widths);
    per_layer * spec.model.layers / spec.pipeline_parallel / spec.tensor_parallel
}

/// Bytes of all weights of one tensor and pipeline parallel GPU. Embeddings are never quantised.
fn base_bytes(spec: &Spec, profile: &Profile) -> f64 {
    let (layers, embeddings) = local_params(spec);
    let Some(quantised) = spec.quantised else {
        return (layers + embeddings) * spec.precision.weight;
    };
    let rest = if quantised.casts_rest && spec.task == Task::Train {
        profile.quantised_embedding
    } else {
        2.0
    };
    layers * quantised.bytes + embeddings * rest
}

/// The states of one GPU as if nothing were offloaded.
pub(super) fn states(spec: &Spec, profile: &Profile) -> States {
    use Sharding::{Zero1, Zero2};
    let (layers, embeddings) = local_params(spec);
    let all = layers + embeddings;
    let p = &spec.precision;
    let weight_shards = shards(spec, &[]);
    let optimizer_shards = shards(spec, &[Zero1, Zero2]);
    let cast_copy = if p.cast_copy { all * 2.0 } else { 0.0 };
    if let Some(lora) = &spec.lora {
        let trained = adapter_params(spec) / optimizer_shards;
        let heads = if lora.embeddings {
            embeddings * TRAINED_EMBEDDING / optimizer_shards
        } else {
            0.0
        };
        let base = base_bytes(spec, profile);
        return States {
            weights: base / weight_shards,
            adapter: trained * p.adapter + heads,
            cast_copy,
            trained,
            ..States::default()
        };
    }
    let gradient_shards = shards(spec, &[Zero2]);
    let low_memory = profile.steps_in_backward && spec.optimizer.paged && spec.gpus <= 1.0;
    let in_backward = spec.optimizer.in_backward || low_memory;
    let gradients = if in_backward {
        spec.model.layer_params() * p.gradient
    } else {
        all * p.gradient / gradient_shards
    };
    let moments = if spec.optimizer.paged {
        0.0
    } else {
        p.moments * spec.optimizer.moments
    };
    let weights = base_bytes(spec, profile) / weight_shards;
    // In the format of the computation (FSDP), or of the reduction (FSDP2, `to_accumulated_grad_if_needed`). ZeRO-3 has one tensor
    // for the gradients of its shard from the start on (DeepSpeed, `grad_partitions_flat_buffer`).
    let waiting = match spec.accumulation > 1.0 {
        true => gradients.max(all * spec.no_sync_bytes),
        false if spec.sharding == Sharding::Zero3 && deepspeed::is_known(spec) => gradients,
        false => 0.0,
    };
    States {
        weights,
        waiting,
        reference: if spec.reference { weights } else { 0.0 },
        gradients,
        optimizer: all * (moments + p.master) / optimizer_shards,
        adapter: 0.0,
        cast_copy,
        trained: all / optimizer_shards,
    }
}

/// What gathering the sharded weights takes while layers are computed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Gathered {
    /// Layers.
    pub layers: f64,
    /// Embedding and output projection.
    pub embeddings: f64,
    /// Further weights that stay gathered until the backward pass needs them.
    pub reused: f64,
    /// Whole gradients of a layer before they are reduced.
    pub gradients: f64,
    /// The same of embedding and output projection, at the very end of the backward pass.
    pub embedding_gradients: f64,
}

/// Of what was gathered for layers, and of activations, what cannot be given back at the end of the backward pass, for
/// shards of gradients lie between (PyTorch, `release_cached_blocks`, gives back whole segments only; FSDP allocates a
/// layer's shard while its whole gradient is there).
const PINNED_LAYERS: f64 = 2.0;
const PINNED_ACTIVATIONS: f64 = 0.15;

impl Gathered {
    /// Bytes of segments that hold gradients between blocks that are free by the end of the backward pass, where a whole
    /// gradient is still to come.
    pub(super) fn pinned(&self, activations: &Activations) -> f64 {
        if self.embedding_gradients <= 0.0 {
            return 0.0;
        }
        PINNED_LAYERS * self.layers
            + PINNED_ACTIVATIONS * (activations.kept + activations.checkpoints)
    }
}

/// Layers, and matrices of embedding and output projection, that FSDP2 and `DeepSpeed` gather at once where memory is fullest:
/// they free a weight by itself (phantom rows of `benches/phantom/rows`, transformers 5.23).
const GATHERED_ALONE: f64 = 1.0;

/// Gathering, for stacks that shard weights.
pub(super) fn gathered(spec: &Spec, profile: &Profile) -> Gathered {
    if !spec.sharding.gathers() || spec.data_parallel <= 1.0 {
        return Gathered::default();
    }
    let p = &spec.precision;
    let Model { vocab, hidden, .. } = spec.model;
    let layer = spec.model.layer_params() / spec.tensor_parallel;
    let stored = spec.quantised.map_or(p.compute, |q| q.bytes);
    let zero = deepspeed::is_known(spec);
    let at_once = |usual: f64| match zero || spec.sharding == Sharding::Fsdp2 {
        true => usual.min(GATHERED_ALONE),
        false => usual,
    };
    let alive = match spec.sharding {
        Sharding::FsdpGradOp => spec.model.layers / spec.pipeline_parallel,
        _ => at_once(profile.gathered_layers),
    };
    // What does not fit DeepSpeed's bucket is reduced where it lies.
    let reduced = match profile.reduces_in_fp32 {
        _ if zero => 0.0,
        true => 4.0,
        false => p.compute,
    };
    let full = spec.lora.is_none();
    let copies = if spec.model.tied {
        1.0
    } else {
        at_once(profile.gathered_embeddings)
    };
    let embeddings = copies * vocab * hidden / spec.tensor_parallel;
    let whole = |params: f64, yes: bool| match yes {
        true => params * (p.compute + reduced),
        false => 0.0,
    };
    let (layers, embedding_bytes) = (alive * layer * stored, embeddings * p.compute);
    Gathered {
        layers,
        embeddings: embedding_bytes,
        reused: (deepspeed::reused(spec, stored) - layers / 2.0 - embedding_bytes).max(0.0),
        gradients: whole(layer, full),
        embedding_gradients: whole(embeddings, full && profile.reduces_embeddings),
    }
}
