//! The rollout engine beside the trainer, and engines alone.

use super::activations::{layer, logits};
use super::critic::CriticView;
use super::loss::Loss;
use super::phase::Phase;
use super::profile::Profile;
use super::spec::{Rollout, Spec};
use super::states::gathered;
use super::step::{List, PhaseTerms, TrainingStep, load, save, update};
use super::terms::TermKind;
use oomctl_base::units::GIB;

/// Buffers through which new weights go to the engine: one that is sent, and its copy on the other side (verl 0.9.1,
/// `bucketed_weight_transfer.py`).
const SYNC_BUFFERS: f64 = 2.0;

/// Bytes of the KV cache for `tokens`, in 16 bits (Kwon 2023, section 2).
pub(super) fn cache_bytes(spec: &Spec, tokens: f64) -> f64 {
    let m = &spec.model;
    tokens * m.layers * 2.0 * m.kv_heads * m.head_dim * 2.0
}

/// An engine that has the GPU for itself takes its share whatever the model.
pub(super) fn serving(spec: &Spec, profile: &Profile) -> PhaseTerms {
    let share = spec.rollout.as_ref().map_or(0.9, |r| r.memory_fraction);
    let bytes = spec.gpu_bytes.unwrap_or(0.0) * share;
    let mut phase = List::new().phase(Phase::Rollout, spec, profile);
    phase.terms = vec![super::terms::Term {
        name: "rollout engine",
        kind: TermKind::Engine,
        bytes,
    }];
    phase
}

/// Reinforcement learning with trainer and engine on the same GPUs, in the order of a step.
pub(super) fn learning(spec: &Spec, rollout: &Rollout, profile: &Profile) -> Vec<PhaseTerms> {
    let step = TrainingStep::new(spec, profile);
    let view = EngineView {
        spec,
        rollout,
        profile,
        step: &step,
        critic: rollout
            .critic
            .as_deref()
            .map(|c| CriticView::new(c, profile)),
    };
    let mut phases = vec![
        load(&step, spec, profile),
        view.wake_up(),
        view.rollout(),
        view.old_logprob(),
    ];
    phases.extend(view.ref_logprob());
    phases.extend(view.critic_update());
    phases.extend(update(&step, || view.beside(), spec, profile));
    phases.push(save(&step, view.critic_beside(), spec, profile));
    let critic = view.critic.as_ref();
    let critic_host = critic.map_or(0.0, |c| c.step.host(c.spec));
    let host = step.host(spec) + view.reference_host() + critic_host;
    for phase in &mut phases {
        phase.host_bytes = host;
    }
    phases
}

struct EngineView<'a> {
    spec: &'a Spec,
    rollout: &'a Rollout,
    profile: &'a Profile,
    step: &'a TrainingStep,
    critic: Option<CriticView<'a>>,
}

impl EngineView<'_> {
    fn engine_weights(&self) -> f64 {
        self.spec.model.params * 2.0 / self.rollout.tensor_parallel
    }

    fn share(&self) -> f64 {
        self.spec.gpu_bytes.unwrap_or(0.0) * self.rollout.memory_fraction
    }

    /// The trainer's states while it does not compute.
    fn idle(&self) -> List {
        self.step.idle(self.spec)
    }

    /// The trainer's states while it computes without the optimizer: weights that were offloaded between phases
    /// are back.
    fn computing(&self) -> List {
        let (spec, states) = (self.spec, &self.step.states);
        let on = |bytes: f64, away: bool| if away { 0.0 } else { bytes };
        let away = spec.offloads_params && !spec.offload_returns;
        List::new()
            .states("weights", on(states.weights, away))
            .states("reference model", states.reference)
            .states("adapter", states.adapter)
            .states("optimizer", on(states.optimizer, spec.offloads_optimizer))
    }

    /// What engine and critic hold while the policy computes.
    fn beside(&self) -> List {
        self.engine_beside().and(self.critic_beside())
    }

    /// What the engine holds while a model computes.
    fn engine_beside(&self) -> List {
        if self.rollout.sleeps {
            let asleep = self.profile.asleep_gib * GIB + self.graphs();
            List::new().outside("sleeping engine", asleep)
        } else {
            self.awake()
        }
    }

    fn critic_beside(&self) -> List {
        self.critic
            .as_ref()
            .map_or_else(List::new, CriticView::idle)
    }

    fn critic_update(&self) -> Option<PhaseTerms> {
        let beside = || self.engine_beside().and(self.idle());
        self.critic.as_ref()?.updated(beside, self.profile)
    }

    /// CUDA graphs, which are captured beside the share and never go away.
    fn graphs(&self) -> f64 {
        if self.rollout.cuda_graphs { GIB } else { 0.0 }
    }

    /// An engine that is awake: its share, and what it takes beside it.
    fn awake(&self) -> List {
        List::new()
            .engine("rollout engine", self.share())
            .outside("constant", self.outside())
    }

    /// What an engine that is awake takes beside its share.
    fn outside(&self) -> f64 {
        self.profile.engine_outside_gib * GIB + self.graphs()
    }

    /// The engine takes its share; the trainer's states that are not offloaded stay.
    fn rollout(&self) -> PhaseTerms {
        self.idle()
            .and(self.critic_beside())
            .and(self.awake())
            .phase(Phase::Rollout, self.spec, self.profile)
    }

    /// The largest weight whole: as it is stored where it was gathered, and its copy in 16 bits (verl 0.9.1,
    /// `get_per_tensor_param`).
    fn gathered_weight(&self) -> f64 {
        let spec = self.spec;
        let m = &spec.model;
        let stored = match spec.sharding.gathers() && spec.data_parallel > 1.0 {
            true => spec.precision.weight,
            false => 0.0,
        };
        m.hidden * m.vocab.max(m.ffn) * (stored + 2.0)
    }

    /// Weight by weight goes to the engine's copy; its cache is not there yet, or never went away.
    fn wake_up(&self) -> PhaseTerms {
        let spec = self.spec;
        let woken = match self.rollout.sleeps {
            true => self.engine_weights(),
            false => 0.0,
        };
        self.computing()
            .and(self.beside())
            .engine("engine weights", woken)
            .engine("sync buffers", SYNC_BUFFERS * self.rollout.sync_buffer)
            .activations("gathered weight", self.gathered_weight())
            .phase(Phase::WakeUp, spec, self.profile)
    }

    fn forward_only(&self, list: List, tokens: f64, loss: &Loss) -> List {
        let spec = self.spec;
        let gathered = gathered(spec, self.profile);
        let share = tokens / spec.tokens().max(1.0);
        list.activations("gathered layers", gathered.layers)
            .activations("gathered embeddings", gathered.embeddings)
            .activations(
                "working set",
                layer(spec, self.profile).bytes() * share * 0.5,
            )
            .logits("logits", logits(spec, tokens, loss.bytes))
    }

    fn old_logprob(&self) -> PhaseTerms {
        let list = self.beside().and(self.computing());
        let Rollout {
            logprob_tokens,
            logprob_loss,
            ..
        } = self.rollout;
        self.forward_only(list, *logprob_tokens, logprob_loss)
            .phase(Phase::OldLogprob, self.spec, self.profile)
    }

    fn ref_logprob(&self) -> Option<PhaseTerms> {
        let tokens = self.rollout.ref_tokens;
        if tokens <= 0.0 {
            return None;
        }
        let list = self.beside().and(self.idle());
        // Its weights stay in host memory and come layer by layer.
        Some(
            self.forward_only(list, tokens, &self.rollout.ref_loss)
                .phase(Phase::RefLogprob, self.spec, self.profile),
        )
    }

    fn reference_host(&self) -> f64 {
        if self.rollout.ref_tokens > 0.0 {
            let shards = self.spec.data_parallel.max(1.0);
            self.spec.model.params * self.rollout.ref_weight / shards
        } else {
            0.0
        }
    }
}
