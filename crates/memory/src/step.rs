//! Lists of terms, and those of a training step.

use serde::Serialize;

use super::activations::{Activations, activations, fuller_stage, logits};
use super::deepspeed;
use super::phase::Phase;
use super::profile::Profile;
use super::spec::{Metric, Sharding, Spec};
use super::states::{Gathered, States, gathered, states};
use super::terms::{FRAGMENTS, PIECES, Term, TermKind};
use oomctl_base::units::GIB;

/// Memory of one GPU in one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseTerms {
    /// The phase.
    pub phase: Phase,
    /// What it consists of.
    pub terms: Vec<Term>,
    /// Blocks that the allocator keeps for reuse, in bytes: not part of the need, for it gives them back before a request
    /// fails (PyTorch, `CUDACachingAllocator`, `release_cached_blocks`).
    pub cache_bytes: f64,
    /// Memory of the host per GPU in bytes.
    pub host_bytes: f64,
}

impl PhaseTerms {
    /// All terms together, in bytes.
    pub(super) fn bytes(&self) -> f64 {
        self.terms.iter().map(|t| t.bytes).sum()
    }
}

/// A list of terms in the making; nothing that is zero gets in.
pub(super) struct List(Vec<Term>);

impl List {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(12))
    }

    pub(super) fn states(self, name: &'static str, bytes: f64) -> Self {
        self.add(name, TermKind::States, bytes)
    }

    pub(super) fn activations(self, name: &'static str, bytes: f64) -> Self {
        self.add(name, TermKind::Activations, bytes)
    }

    pub(super) fn logits(self, name: &'static str, bytes: f64) -> Self {
        self.add(name, TermKind::Logits, bytes)
    }

    pub(super) fn engine(self, name: &'static str, bytes: f64) -> Self {
        self.add(name, TermKind::Engine, bytes)
    }

    pub(super) fn outside(self, name: &'static str, bytes: f64) -> Self {
        self.add(name, TermKind::Outside, bytes)
    }

    fn add(mut self, name: &'static str, kind: TermKind, bytes: f64) -> Self {
        if bytes > 0.0 && bytes.is_finite() {
            self.0.push(Term { name, kind, bytes });
        }
        self
    }

    /// Both lists.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(super) fn bytes(&self) -> f64 {
        self.0.iter().map(|t| t.bytes).sum()
    }

    fn moving(&self) -> f64 {
        let moves = |t: &&Term| matches!(t.kind, TermKind::Activations | TermKind::Logits);
        self.0.iter().filter(moves).map(|t| t.bytes).sum()
    }

    /// The phase, with what the allocator and the driver add to the live tensors.
    pub(super) fn phase(self, phase: Phase, spec: &Spec, profile: &Profile) -> PhaseTerms {
        let slack = self.moving() * (profile.reserved - 1.0);
        let slack = slack.min(profile.reserved_most_gib * GIB);
        let mut list = self.outside("constant", profile.constant_gib * GIB);
        if spec.metric == Metric::Device {
            let communication = if spec.gpus <= 1.0 {
                0.0
            } else {
                let further = f64::from(spec.further_communicators());
                profile.communication_gib + further * profile.communicator_gib
            };
            list = list
                .outside("context", profile.context_gib * GIB)
                .outside("communication", communication * GIB);
        }
        let mut cache_bytes = 0.0;
        if spec.metric != Metric::Allocated {
            let fragments = (slack * FRAGMENTED).min(list.moving() * MOST_FRAGMENTS);
            list = list.activations(FRAGMENTS, fragments);
            cache_bytes = slack - fragments;
        }
        PhaseTerms {
            phase,
            terms: list.0,
            cache_bytes,
            host_bytes: 0.0,
        }
    }
}

/// Share of what the allocator wastes that lies in segments of which a part is in use, so that it cannot be given back,
/// and the most that this makes of what moves during a step.
const FRAGMENTED: f64 = 0.65;

const MOST_FRAGMENTS: f64 = 0.12;

/// What the phases of training share.
pub(super) struct TrainingStep {
    pub states: States,
    pub gathered: Gathered,
    pub activations: Activations,
    pub buckets: f64,
}

impl TrainingStep {
    pub(super) fn new(spec: &Spec, profile: &Profile) -> Self {
        let states = states(spec, profile);
        let copies = match spec.sharding {
            Sharding::Ddp => profile.ddp_copies * states.gradients,
            _ => 0.0,
        };
        Self {
            gathered: gathered(spec, profile),
            activations: activations(spec, profile),
            buckets: match spec.gpus > 1.0 {
                true => spec.bucket_bytes.unwrap_or(profile.buckets) + copies,
                false => 0.0,
            },
            states,
        }
    }

    /// States that are on the GPU while it does not compute.
    pub(super) fn idle(&self, spec: &Spec) -> List {
        List::new()
            .states("weights", on(self.states.weights, spec.offloads_params))
            .states("reference model", self.states.reference)
            .states("adapter", self.states.adapter)
            .states(
                "optimizer",
                on(self.states.optimizer, spec.offloads_optimizer),
            )
    }

    /// States that are on the GPU while it computes.
    fn resident(&self, spec: &Spec, gradients: f64) -> List {
        let away = spec.offloads_params && !spec.offload_returns;
        let optimizer_away = spec.offloads_optimizer && !spec.offload_returns;
        let optimizer = on(self.states.optimizer, optimizer_away);
        List::new()
            .states("weights", on(self.states.weights, away))
            .states("reference model", self.states.reference)
            .states("optimizer", optimizer)
            .states("adapter", self.states.adapter)
            .states("cast copy", self.states.cast_copy)
            .states("gradients", on(gradients, away))
    }

    /// Stages below 3 of `DeepSpeed` have them from the first gradient on, and give them back before the step (`setup_buckets`,
    /// `_release_ipg_buffers`).
    fn buckets(&self, spec: &Spec, phase: Phase) -> List {
        let lazy = deepspeed::is_known(spec) && !spec.sharding.gathers();
        List::new().states(
            "communication buffers",
            on(self.buckets, lazy && phase != Phase::Backward),
        )
    }

    fn forward(&self, spec: &Spec, profile: &Profile) -> List {
        let a = &self.activations;
        let all = logits(spec, spec.tokens(), spec.loss.bytes);
        let (share, logits) = fuller_stage(spec, profile, a.kept + a.checkpoints, all);
        // The scores of a layer are gone when the logits come.
        let in_layer = a.passing_scores > logits;
        self.resident(spec, self.states.waiting)
            .and(self.buckets(spec, Phase::Forward))
            .activations("gathered layers", self.gathered.layers / 2.0)
            .activations("gathered embeddings", self.gathered.embeddings)
            .states("weights for reuse", self.gathered.reused)
            .activations("activations", a.kept * share)
            .activations("checkpoints", a.checkpoints * share)
            .activations("attention scores", on(a.passing_scores, !in_layer))
            .logits("logits", on(logits, in_layer))
    }

    /// Gradients come as checkpoints go: the fuller end of the backward pass, unless those of earlier micro batches are
    /// there already.
    fn backward(&self, spec: &Spec) -> List {
        let a = &self.activations;
        let accumulated = spec.accumulation > 1.0;
        let late = accumulated || self.states.gradients > a.checkpoints;
        let checkpoints = if late && !accumulated {
            a.checkpoints / spec.model.layers.max(1.0)
        } else {
            a.checkpoints
        };
        let own = List::new()
            .activations("gathered layers", self.gathered.layers)
            .activations("gathered gradients", self.gathered.gradients)
            .activations("checkpoints", checkpoints)
            .activations("activations", a.kept / spec.model.layers.max(1.0))
            .activations("working set", a.working_set)
            .activations("dequantised matrix", dequantised(spec));
        // Of no sequence's length: the last that is reduced, when all layers are through.
        let last = List::new().states("gathered gradients", self.gathered.embedding_gradients);
        let last = last.activations(PIECES, self.gathered.pinned(a));
        let reduced = self.states.gradients;
        let there = if late {
            reduced.max(self.states.waiting)
        } else {
            0.0
        };
        let (parts, gradients) = match last.bytes() + reduced > own.bytes() + there {
            true => (last, reduced),
            false => (own, there),
        };
        self.resident(spec, gradients)
            .and(self.buckets(spec, Phase::Backward))
            .activations("gathered embeddings", self.gathered.embeddings)
            .and(parts)
    }

    fn optimizer_step(&self, spec: &Spec) -> List {
        let needs = deepspeed::step_needs(spec, self.states.gradients, self.states.trained);
        let away = spec.offloads_optimizer && !spec.offload_returns;
        self.resident(spec, needs.gradients)
            .and(self.buckets(spec, Phase::OptimizerStep))
            .states("gradients in fp32", on(needs.fp32_gradients, away))
            .states("optimizer temporaries", on(needs.temporary, away))
    }

    /// Memory of the host per GPU: what is offloaded, pinned once.
    pub(super) fn host(&self, spec: &Spec) -> f64 {
        let params = if spec.offloads_params {
            self.states.weights + self.states.gradients
        } else {
            0.0
        };
        let optimizer = if spec.offloads_optimizer {
            self.states.optimizer
        } else {
            0.0
        };
        params + optimizer
    }
}

fn on(bytes: f64, away: bool) -> f64 {
    if away { 0.0 } else { bytes }
}

/// Forward, backward and step, with what else is on the GPU meanwhile.
pub(super) fn update(
    step: &TrainingStep,
    beside: impl Fn() -> List,
    spec: &Spec,
    profile: &Profile,
) -> Vec<PhaseTerms> {
    let parts = [
        (Phase::Forward, step.forward(spec, profile)),
        (Phase::Backward, step.backward(spec)),
        (Phase::OptimizerStep, step.optimizer_step(spec)),
    ];
    let mut phases: Vec<PhaseTerms> = parts
        .into_iter()
        .map(|(phase, list)| beside().and(list).phase(phase, spec, profile))
        .collect();
    if spec.sharding == Sharding::DataParallel {
        replica_outputs(&mut phases, spec);
    }
    phases
}

/// `nn.DataParallel` gathers the outputs of all replicas on GPU 0, in fp32, and keeps its loss there.
fn replica_outputs(phases: &mut [PhaseTerms], spec: &Spec) {
    let outputs = spec.tokens() * spec.gpus * spec.model.vocab * 4.0;
    for phase in phases.iter_mut().filter(|p| p.phase == Phase::Forward) {
        phase.terms.push(Term {
            name: "replica outputs",
            kind: TermKind::Logits,
            bytes: outputs,
        });
    }
}

pub(super) fn load(step: &TrainingStep, spec: &Spec, profile: &Profile) -> PhaseTerms {
    let copies = if spec.sharding.gathers() {
        profile.load_copies
    } else {
        0.0
    };
    let whole = spec.model.params * spec.precision.weight * copies;
    // What never comes back to the GPU is loaded into host memory.
    let away = spec.offloads_params && !spec.offload_returns;
    List::new()
        .states("weights", on(step.states.weights, away))
        .states("whole copies", whole)
        .phase(Phase::Load, spec, profile)
}

/// A checkpoint is written, with what else is on the GPU meanwhile.
pub(super) fn save(
    step: &TrainingStep,
    beside: List,
    spec: &Spec,
    profile: &Profile,
) -> PhaseTerms {
    // An adapter is saved alone.
    let copies = if spec.sharding.gathers() && spec.lora.is_none() {
        profile.save_copies
    } else {
        0.0
    };
    let whole = spec.model.params * spec.precision.weight * copies;
    step.resident(spec, 0.0)
        .and(beside)
        .and(step.buckets(spec, Phase::Checkpoint))
        .states("whole copies", whole)
        .phase(Phase::Checkpoint, spec, profile)
}

/// A quantised matrix is made whole in the computation's format before each product (bitsandbytes, `MatMul4Bit`): the
/// largest of a layer, in bytes.
pub(super) fn dequantised(spec: &Spec) -> f64 {
    let m = &spec.model;
    let largest = m.hidden * m.ffn / spec.tensor_parallel;
    spec.quantised
        .map_or(0.0, |_| largest * spec.precision.compute)
}
