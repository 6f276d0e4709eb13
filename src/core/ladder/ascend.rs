//! Several rungs at once: as many as the memory model says are needed.

use super::climb::{Footing, climb};
use super::decision::{Decision, Expectation, Step};
use super::forecast::Forecast;
use crate::core::diagnose::Incident;
use crate::core::memory::{Phase, Profile, Spec, spec_of};
use crate::core::recipe::{Layer, Refusal, Shape};
use crate::core::units::Bytes;

/// Rungs that are taken for one attempt at most.
const MOST_RUNGS: usize = 16;

/// An attempt that died.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Layers of the rungs that it had.
    pub rungs: Vec<Layer>,
    /// Why it died.
    pub incident: Incident,
}

impl Tried {
    /// An attempt with these rungs that died so.
    #[must_use]
    pub fn new(rungs: Vec<Layer>, incident: Incident) -> Self {
        Self { rungs, incident }
    }
}

/// What is known for looking ahead.
#[derive(Debug, Clone, Copy)]
pub struct Outlook<'a> {
    /// Constants of the training stack.
    pub profile: &'a Profile,
    /// Probability to fit that the next attempt should have.
    pub risk: f64,
    /// Attempts that died before the present one, in order.
    pub earlier: &'a [Tried],
}

/// The answer to `failure`: the rungs, in the declared order, after which the next attempt fits with the
/// probability that is asked for. One rung alone where the memory model cannot tell, or where no number
/// of rungs is enough for it: then each attempt teaches more than another guess.
///
/// # Errors
/// As `climb`.
pub fn ascend(
    footing: &Footing<'_>,
    outlook: &Outlook<'_>,
    failure: Option<&Incident>,
) -> Result<Decision, Refusal> {
    let first = climb(footing, failure)?;
    let Decision::Climb { steps, skipped, .. } = first else {
        return Ok(first);
    };
    let view = View { footing, outlook };
    let Some(forecast) = view.forecast(failure) else {
        return Ok(Decision::Climb {
            steps,
            skipped,
            expects: None,
        });
    };
    let single = steps.clone();
    let steps = view.enough(steps, &forecast, failure)?.unwrap_or(single);
    let expects = view.expectation(&steps, &forecast);
    Ok(Decision::Climb {
        steps,
        skipped,
        expects,
    })
}

struct View<'a> {
    footing: &'a Footing<'a>,
    outlook: &'a Outlook<'a>,
}

impl View<'_> {
    fn spec(&self, rungs: &[Layer]) -> Option<Spec> {
        let footing = self.footing;
        let layers: Vec<Layer> = footing.layers.iter().chain(rungs).cloned().collect();
        let name = footing.cluster_name;
        let shape = Shape::new(footing.preset, &layers, footing.cluster, name).ok()?;
        spec_of(footing.preset, &shape, self.outlook.profile)?.ok()
    }

    fn with(&self, steps: &[Step]) -> Vec<Layer> {
        let taken = self.footing.rungs.iter().cloned();
        taken.chain(steps.iter().map(|s| s.layer.clone())).collect()
    }

    /// The forecast after all attempts so far; `None` where the model cannot be asked.
    fn forecast(&self, failure: Option<&Incident>) -> Option<Forecast> {
        let profile = self.outlook.profile;
        let present = self.spec(self.footing.rungs)?;
        present.gpu_bytes?;
        let mut forecast = Forecast::new(&present, profile);
        for tried in self.outlook.earlier {
            if let Some(spec) = self.spec(&tried.rungs) {
                forecast.learn(&spec, &tried.incident, profile);
            }
        }
        if let Some(incident) = failure {
            forecast.learn(&present, incident, profile);
        }
        Some(forecast)
    }

    fn fits(&self, steps: &[Step], forecast: &Forecast) -> Option<f64> {
        let spec = self.spec(&self.with(steps))?;
        forecast.fits(&spec, self.outlook.profile)
    }

    /// Further rungs until the result fits; `None` when no number of them is enough.
    fn enough(
        &self,
        mut steps: Vec<Step>,
        forecast: &Forecast,
        failure: Option<&Incident>,
    ) -> Result<Option<Vec<Step>>, Refusal> {
        while steps.len() <= MOST_RUNGS {
            match self.fits(&steps, forecast) {
                None => return Ok(None),
                Some(p) if p >= self.outlook.risk => return Ok(Some(steps)),
                Some(_) => {}
            }
            let rungs = self.with(&steps);
            let next = Footing {
                rungs: &rungs,
                ..*self.footing
            };
            match climb(&next, failure)? {
                Decision::Climb { steps: more, .. } => steps.extend(more),
                Decision::Exhausted { .. } => return Ok(None),
            }
        }
        Ok(None)
    }

    fn expectation(&self, steps: &[Step], forecast: &Forecast) -> Option<Expectation> {
        let profile = self.outlook.profile;
        let spec = self.spec(&self.with(steps))?;
        let (phase, bytes) = forecast.expected(&spec, profile)?;
        Some(Expectation {
            fits_probability: forecast.fits(&spec, profile)?,
            peak_bytes: Bytes::from_gib(bytes / f64::from(1 << 30)),
            phase: word(phase),
        })
    }
}

/// The word of a phase in JSON.
fn word(phase: Phase) -> String {
    let value = serde_json::to_value(phase).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
