//! A critic that is trained beside the policy, on the same GPUs (verl 0.9.1, `workers/engine_workers.py`).

use super::phase::Phase;
use super::profile::Profile;
use super::row::{MeasurementRow, Unknown};
use super::spec::Spec;
use super::step::{List, PhaseTerms, TrainingStep, update};
use super::words;

/// The loss of a critic: one number for each token in place of logits.
const VALUES: &str = "values";

impl MeasurementRow {
    /// The critic's own job, of a model as large as the policy's; none where the row names no critic.
    ///
    /// # Errors
    /// As `spec`.
    pub(super) fn critic(&self, profile: &Profile) -> Result<Option<Box<Spec>>, Unknown> {
        if self.critic != Some(true) {
            return Ok(None);
        }
        let row = Self {
            micro_batch: self.critic_micro_batch,
            seq_len: self.critic_seq_len.or(self.seq_len),
            grad_accum: self.critic_grad_accum,
            offload: self.critic_offload.clone(),
            grad_checkpointing: self.critic_grad_checkpointing.clone(),
            dp: None,
            cp: self.critic_cp,
            lora_r: None,
            loss_impl: Some(VALUES.to_owned()),
            reference: None,
            engine_share: None,
            critic: None,
            ..self.clone()
        };
        let (.., stays) = words::offload(row.offload.as_deref())?;
        let own = |e: Unknown| Unknown::new(&format!("critic_{}", e.field), e.why);
        let mut spec = row.spec(profile).map_err(own)?;
        spec.offload_returns = !stays;
        spec.loss.bytes = 0.0;
        let model = &mut spec.model;
        if !model.tied {
            model.params -= model.vocab * model.hidden;
            model.tied = true;
        }
        Ok(Some(Box::new(spec)))
    }
}

/// A critic beside the policy.
pub(super) struct CriticView<'a> {
    pub spec: &'a Spec,
    pub step: TrainingStep,
}

impl<'a> CriticView<'a> {
    pub(super) fn new(spec: &'a Spec, profile: &Profile) -> Self {
        let step = TrainingStep::new(spec, profile);
        Self { spec, step }
    }

    /// What it holds while the policy generates and computes.
    pub(super) fn idle(&self) -> List {
        List::new().states("critic", self.step.idle(self.spec).bytes())
    }

    /// The fullest moment of its update.
    pub(super) fn updated(
        &self,
        beside: impl Fn() -> List,
        profile: &Profile,
    ) -> Option<PhaseTerms> {
        let phases = update(&self.step, beside, self.spec, profile).into_iter();
        let fullest = phases.max_by(|a, b| a.bytes().total_cmp(&b.bytes()))?;
        Some(PhaseTerms {
            phase: Phase::Critic,
            ..fullest
        })
    }
}
