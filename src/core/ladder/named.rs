//! What a failure names as its remedy, against what the memory model prefers.

use super::ascend::{Told, View};
use super::decision::{Decision, Expectation, Step};
use super::enough::Remedy;
use super::forecast::Forecast;
use super::incident::Failure;
use super::predict::FAIR;
use super::remedies::Remedies;
use crate::core::diagnose::{Class, Incident};
use crate::core::recipe::Effect;

/// The ladder's first rung, where the failure names it.
pub(super) struct Named {
    /// How much of what it does is known.
    pub remedy: Remedy,
    remedies: Remedies,
    step: Step,
    /// Whether it has a fair chance by itself.
    fair: bool,
    expects: Option<Expectation>,
}

impl Named {
    /// Of the ladder's decision; `None` where the failure names none of it.
    pub fn of(
        view: &View<'_>,
        failure: Option<&Incident>,
        first: &Decision,
        told: &[Told<'_>],
        forecast: &Forecast,
    ) -> Option<Self> {
        let Decision::Climb { steps, .. } = first else {
            return None;
        };
        let remedy = view.remedy(failure, steps.first()?, told);
        let expects = view.expectation(steps, forecast);
        let of_gpu = failure.is_none_or(|f| f.class != Class::HostOom);
        let fits = expects.as_ref().map_or(0.0, |e| e.fits_probability);
        (remedy != Remedy::None).then(|| Self {
            remedy,
            remedies: Failure::of(failure).remedies,
            step: steps[0].clone(),
            fair: of_gpu && fits >= FAIR,
            expects,
        })
    }

    /// The model's decision, where it leaves the experiment as it is and is sure to fit by what is named, or has a fair
    /// chance that the remedy alone has not; else the remedy alone. A remedy that the model does not see goes before it.
    pub fn or(self, decision: Decision, first: Decision, view: &View<'_>) -> Decision {
        let by_name = self.done_by(&decision, view) && fits(&decision, view.outlook.risk);
        let keeps = by_name || (!self.fair && fits(&decision, FAIR));
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

/// Whether a decision fits with this probability and leaves the experiment as it is.
fn fits(decision: &Decision, probability: f64) -> bool {
    let Decision::Climb {
        steps,
        expects: Some(expects),
        ..
    } = decision
    else {
        return false;
    };
    let trains = |step: &Step| step.effect == Effect::ChangesTraining;
    expects.fits_probability >= probability && !steps.iter().any(trains)
}
