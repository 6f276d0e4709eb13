//! What is known of one training stack beyond formulas: a file of numbers, not code.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// A way through a stack's code from logits to a loss.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LossPath {
    /// How often it is met, against the other ways.
    pub chance: f64,
    /// Logits are copied to fp32.
    pub fp32: bool,
    /// Bytes per logit at the peak of training, by the name of the loss, as in the profile's `logits`.
    pub logits: BTreeMap<String, f64>,
    /// The same of a forward pass alone, as in `logits_forward`.
    pub logits_forward: BTreeMap<String, f64>,
}

/// Constants of one training stack. All have a default that suits an unknown one.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Name; equals the file's name without `.yaml`.
    pub profile: String,
    /// One line for people.
    pub summary: String,
    /// Names under which `framework` of a bare specification means this stack (case counts not; the
    /// longest that is contained wins).
    pub frameworks: Vec<String>,
    /// This stack's own words for formats, by the general word that means the same.
    pub precisions: BTreeMap<String, String>,
    /// This stack's own names of fields of a bare specification, with the general ones.
    pub fields: BTreeMap<String, String>,
    /// Bytes per logit, all copies alive at the peak of the forward pass, by the name of the loss; `other`
    /// for names that are not listed. `LOSS.PRECISION`, `LOSS.tp` (the vocabulary is split over GPUs) and `LOSS.one`
    /// (a single sequence, which is not padded and reaches its limit) go first.
    pub logits: BTreeMap<String, f64>,
    /// Bytes per logit of a forward pass alone (log-probabilities), by the name of the loss; `other` for names that are
    /// not listed.
    pub logits_forward: BTreeMap<String, f64>,
    /// Ways through the code from logits to a loss, with what each takes; without any, the usual ones.
    pub loss_paths: Vec<LossPath>,
    /// Factor on the activations of a layer that is not checkpointed.
    pub activations: f64,
    /// The same under `torch.compile` or fused kernels.
    pub activations_compiled: f64,
    /// Share of a layer's activations that selective checkpointing keeps (every second matrix product and the
    /// attention's output).
    pub selective: f64,
    /// Layers' worth of activations alive while one checkpointed layer is recomputed and goes back.
    pub working_set: f64,
    /// Bytes per number of the norms' activations per hidden unit (8 where they compute in fp32, 4 where
    /// fused).
    pub norm: f64,
    /// Bytes per score of eager attention that wait for the backward pass.
    pub scores: f64,
    /// Bytes per score of eager attention while a checkpointed layer is recomputed and goes back: in 16 bits, in
    /// fp32, their softmax and the gradients of each.
    pub scores_backward: f64,
    /// Bytes per parameter of embeddings beside a quantised base (4 where they are cast for training).
    pub quantised_embedding: f64,
    /// Copies of the inputs of quantised products that wait for the backward pass.
    pub quantised_inputs: f64,
    /// Embedding and output projection are two matrices in memory even where the model ties them.
    pub unties: bool,
    /// What the stack prints of allocated memory is the last pipeline stage's.
    pub prints_last_stage: bool,
    /// On one GPU a paged optimizer steps inside the backward pass, as in the low-memory recipe.
    pub steps_in_backward: bool,
    /// Keys and values are expanded to all heads.
    pub expands_kv: bool,
    /// Bytes per hidden unit and token and adapted layer that an adapter's own path keeps (dropout, casts).
    pub adapter: f64,
    /// Gathered layers alive at once.
    pub gathered_layers: f64,
    /// Of embedding and output projection, matrices that are gathered at once (2 where the root holds both).
    pub gathered_embeddings: f64,
    /// Communication buffers in bytes per GPU, beside the gathered layers.
    pub buckets: f64,
    /// Gathered gradients before they are reduced are in fp32 (else in the computation's format).
    pub reduces_in_fp32: bool,
    /// Bytes per number of gradients that wait whole on each GPU, where FSDP shards and micro batches but the last of a step
    /// run under its `no_sync`; 0 where none do.
    pub no_sync_bytes: f64,
    /// Embedding and output projection are one flat parameter, whose gradient is whole before it is reduced, at the end of
    /// the backward pass.
    pub reduces_embeddings: bool,
    /// Layers pass through the GPU whole at the start, beside the own shard: copies of all weights.
    pub load_copies: f64,
    /// A full state dict is gathered on one GPU for a checkpoint: copies of all weights.
    pub save_copies: f64,
    /// Copies of the gradients in DDP's buckets, from the start on: 1 in PyTorch, whose gradients are no views of them
    /// unless `gradient_as_bucket_view` says so.
    pub ddp_copies: f64,
    /// Memory reserved by the allocator over memory allocated, of what moves during a step.
    pub reserved: f64,
    /// Most that it wastes so, in GiB.
    pub reserved_most_gib: f64,
    /// GiB held outside the allocator: context and kernels.
    pub context_gib: f64,
    /// GiB that the first collective takes.
    pub communication_gib: f64,
    /// GiB of each further communicator: 544 MB between 2 GPUs, 688 MB between 4 (NVIDIA/nccl#964, A100 with NVLink).
    pub communicator_gib: f64,
    /// GiB of small tensors and buffers that no formula names, inside the allocator.
    pub constant_gib: f64,
    /// Tokens really in a full micro batch over those that the limit would allow.
    pub fill: f64,
    /// Standard deviation of ln(fill), where a specification does not say how full its micro batches are.
    pub fill_spread: f64,
    /// GiB that a sleeping rollout engine keeps.
    pub asleep_gib: f64,
    /// GiB of a rollout engine outside its share of the GPU.
    pub engine_outside_gib: f64,
    /// Standard deviation of ln(measured / estimated) for the static part.
    pub spread_static: f64,
    /// The same for activations.
    pub spread_activations: f64,
    /// The same for logits.
    pub spread_logits: f64,
    /// Standard deviation in GiB of what no factor explains.
    pub spread_gib: f64,
    /// Measured rows by which the constants were fitted, and how many of them were; 0 where that is not stated.
    pub rows: f64,
    /// Constants that those rows told.
    pub constants: f64,
    /// Factor on the spread of all where bitsandbytes quantises the base: its versions differ in what they keep.
    pub spread_quantised: f64,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            profile: "unknown".to_owned(),
            summary: String::new(),
            frameworks: Vec::new(),
            precisions: BTreeMap::new(),
            fields: BTreeMap::new(),
            logits: LOGITS.map(|(loss, bytes)| (loss.to_owned(), bytes)).into(),
            logits_forward: FORWARD_LOGITS
                .map(|(loss, bytes)| (loss.to_owned(), bytes))
                .into(),
            loss_paths: Vec::new(),
            activations: 1.0,
            activations_compiled: 0.7,
            selective: 0.35,
            working_set: 1.6,
            norm: 8.0,
            scores: 6.0,
            scores_backward: 16.0,
            quantised_embedding: 4.0,
            quantised_inputs: 1.0,
            unties: false,
            prints_last_stage: false,
            steps_in_backward: false,
            expands_kv: false,
            adapter: 4.0,
            gathered_layers: 2.0,
            gathered_embeddings: 2.0,
            buckets: 0.0,
            reduces_in_fp32: true,
            no_sync_bytes: 0.0,
            reduces_embeddings: false,
            load_copies: 0.0,
            save_copies: 0.0,
            ddp_copies: 1.0,
            reserved: 1.08,
            reserved_most_gib: 1000.0,
            context_gib: 0.6,
            communication_gib: 0.9,
            communicator_gib: 0.5,
            constant_gib: 0.2,
            fill: 1.0,
            fill_spread: 0.0,
            asleep_gib: 2.0,
            engine_outside_gib: 1.8,
            spread_static: 0.05,
            spread_activations: 0.25,
            spread_logits: 0.3,
            spread_gib: 0.6,
            rows: 0.0,
            constants: 0.0,
            spread_quantised: 1.5,
        }
    }
}

/// Bytes per logit by the name of the loss, for stacks whose profile names none: logits in 16 bits, in fp32,
/// their softmax and gradient, each as often as the path keeps them. `other` is a loss of which nothing is
/// known; `tiled` never holds all logits, and no other kernel of the model is fused.
const LOGITS: [(&str, f64); 7] = [
    ("other", 14.0),
    ("hf", 16.0),
    ("ce", 14.0),
    ("megatron", 6.5),
    ("chunked", 4.0),
    ("fused", 0.4),
    ("tiled", 0.4),
];

/// The same of a forward pass alone.
const FORWARD_LOGITS: [(&str, f64); 4] = [
    ("other", 6.0),
    ("chunked", 3.0),
    ("fused", 0.4),
    ("tiled", 0.4),
];

impl Profile {
    /// Bytes per logit for a loss: the profile's own under one of these circumstances (`LOSS.MARK`), or in all, else
    /// what the path takes elsewhere.
    pub fn logit_bytes(&self, loss: &str, marks: &[&str]) -> f64 {
        let marked = marks.iter().map(|mark| format!("{loss}.{mark}"));
        if let Some(bytes) = marked.filter_map(|key| self.logits.get(&key)).next() {
            return *bytes;
        }
        named(&self.logits, &LOGITS, loss)
    }

    /// The same of a forward pass alone.
    pub fn forward_logit_bytes(&self, loss: &str) -> f64 {
        named(&self.logits_forward, &FORWARD_LOGITS, loss)
    }
}

/// What a profile says of a loss, else what that takes elsewhere, else what the profile says of any other.
fn named(own: &BTreeMap<String, f64>, general: &[(&str, f64)], loss: &str) -> f64 {
    let elsewhere = |loss: &str| general.iter().find(|(name, _)| *name == loss);
    let of = |loss: &str| {
        let own = own.get(loss).copied();
        own.or_else(|| elsewhere(loss).map(|(_, bytes)| *bytes))
    };
    of(loss).or_else(|| of("other")).unwrap_or_default()
}

/// The stacks that are known.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    known: Vec<Profile>,
    unknown: Profile,
}

impl Profiles {
    /// From the profiles' own files.
    pub fn new(mut profiles: Vec<Profile>) -> Self {
        let at = profiles.iter().position(|p| p.profile == "unknown");
        let unknown = at.map_or_else(Profile::default, |i| profiles.remove(i));
        Self {
            known: profiles,
            unknown,
        }
    }

    /// The profile of this name.
    pub fn named(&self, name: &str) -> Option<&Profile> {
        let mut all = self.known.iter().chain([&self.unknown]);
        all.find(|p| p.profile == name)
    }

    /// The profile for a framework's name, as people write it; the one for unknown stacks otherwise.
    pub fn of_framework(&self, framework: &str) -> &Profile {
        let wanted = framework.to_lowercase();
        let names = self
            .known
            .iter()
            .flat_map(|p| p.frameworks.iter().map(move |name| (p, name)));
        names
            .filter(|(_, name)| wanted.contains(&name.to_lowercase()))
            .max_by_key(|(_, name)| name.len())
            .map_or(&self.unknown, |(profile, _)| profile)
    }
}
