//! What a failure names as its remedy, against what the memory model prefers.

use super::ascent::{Ascent, FAIR, FailedAttempt};
use super::decision::Decision;
use super::enough::RemedyMatch;
use super::incident::FailureContext;
use super::posterior::Posterior;
use super::remedies::Remedies;
use oomctl_base::Refusal;
use oomctl_diagnose::{Class, Incident};

/// The ladder's decision, where the failure names its first rung.
pub(super) struct NamedRemedy {
    /// It should be enough alone.
    pub alone: bool,
    remedy: RemedyMatch,
    remedies: Remedies,
    of_gpu: bool,
    /// The remedy with what else is needed.
    pub climb: Decision,
}

impl NamedRemedy {
    /// Of the ladder's first rungs; `None` where the failure names none of them.
    ///
    /// # Errors
    /// As `climb`.
    pub fn of(
        view: &Ascent<'_>,
        failure: Option<&Incident>,
        first: Decision,
        failed: &[FailedAttempt<'_>],
        posterior: &Posterior,
    ) -> Result<Option<Self>, Refusal> {
        let Decision::Climb { steps, .. } = &first else {
            return Ok(None);
        };
        let remedy = view.remedy(failure, &steps[0], failed);
        if remedy == RemedyMatch::None {
            return Ok(None);
        }
        Ok(Some(Self {
            alone: remedy == RemedyMatch::Ample && view.has_chance(steps, posterior),
            remedy,
            remedies: FailureContext::of(failure).remedies,
            of_gpu: failure.is_none_or(|f| f.class != Class::HostOom),
            climb: view.ascended(first, posterior, failure, failed)?,
        }))
    }

    /// The model's decision, where it leaves the experiment as it is and is sure to fit by what is named, or has a fair
    /// chance that the ladder's has not; else the ladder's. A remedy that the model does not see goes before it.
    pub fn or(self, decision: Decision, view: &Ascent<'_>) -> Decision {
        let by_name =
            self.done_by(&decision, view) && fits(&decision, view.outlook.min_fit_probability);
        let fair = self.of_gpu && fits(&self.climb, FAIR);
        if !by_name && (fair || !fits(&decision, FAIR)) {
            return self.climb;
        }
        let mut decision = decision;
        if let (RemedyMatch::Thin, Decision::Climb { steps, .. }) = (self.remedy, &mut decision) {
            steps.splice(0..0, self.climb.first().cloned());
        }
        decision
    }

    fn done_by(&self, decision: &Decision, view: &Ascent<'_>) -> bool {
        let Decision::Climb { steps, .. } = decision else {
            return false;
        };
        let preset = view.context.preset;
        steps
            .iter()
            .any(|step| self.remedies.name(preset, &step.changes))
    }
}

/// Whether a decision fits with this probability and leaves the experiment as it is.
fn fits(decision: &Decision, probability: f64) -> bool {
    let Decision::Climb {
        expects: Some(expects),
        ..
    } = decision
    else {
        return false;
    };
    expects.fits_probability >= probability && !decision.changes_training()
}
