//! What a failure names as its remedy, against what the memory model prefers.

use super::ascend::View;
use super::decision::{Decision, Expectation, Step};
use super::enough::Remedy;
use super::forecast::Forecast;
use super::incident::Failure;
use super::predict::FAIR;
use super::remedies::Remedies;
use crate::core::diagnose::Incident;
use crate::core::recipe::Effect;

/// The ladder's first rung, where the failure names it.
pub(super) struct Named {
    /// How much of what it does is known.
    pub remedy: Remedy,
    remedies: Remedies,
    step: Step,
    expects: Option<Expectation>,
}

impl Named {
    /// Of the ladder's decision; `None` where the failure names none of it.
    pub fn of(
        view: &View<'_>,
        failure: Option<&Incident>,
        first: &Decision,
        forecast: &Forecast,
    ) -> Option<Self> {
        let Decision::Climb { steps, .. } = first else {
            return None;
        };
        let remedy = view.remedy(failure, steps.first()?);
        (remedy != Remedy::None).then(|| Self {
            remedy,
            remedies: Failure::of(failure).remedies,
            step: steps[0].clone(),
            expects: view.expectation(steps, forecast),
        })
    }

    /// The model's decision, where it is sure, leaves the experiment as it is, and does what is named or the remedy has no
    /// fair chance; else the remedy alone. A remedy of which the model sees nothing goes before its decision.
    pub fn or(self, decision: Decision, first: Decision, view: &View<'_>) -> Decision {
        let fair = self
            .expects
            .as_ref()
            .is_some_and(|e| e.fits_probability >= FAIR);
        let keeps = self.is_sure(&decision, view) && (self.done_by(&decision, view) || !fair);
        match (keeps, decision) {
            (
                true,
                Decision::Climb {
                    mut steps,
                    skipped,
                    expects,
                },
            ) => {
                if self.remedy == Remedy::Thin {
                    steps.insert(0, self.step);
                }
                Decision::Climb {
                    steps,
                    skipped,
                    expects,
                }
            }
            _ => self.alone(first),
        }
    }

    fn alone(self, mut first: Decision) -> Decision {
        if let Decision::Climb { expects, .. } = &mut first {
            *expects = self.expects;
        }
        first
    }

    fn is_sure(&self, decision: &Decision, view: &View<'_>) -> bool {
        let Decision::Climb {
            steps,
            expects: Some(expects),
            ..
        } = decision
        else {
            return false;
        };
        let trains = |step: &Step| step.effect == Effect::ChangesTraining;
        expects.fits_probability >= view.outlook.risk && !steps.iter().any(trains)
    }

    fn done_by(&self, decision: &Decision, view: &View<'_>) -> bool {
        let Decision::Climb { steps, .. } = decision else {
            return false;
        };
        let preset = view.footing.preset;
        steps
            .iter()
            .any(|step| self.remedies.name(preset, &step.changes))
    }
}
