//! The ladder from here, as data: what each step changes, frees and costs, before anything has died.

use super::memory::Freed;
use super::request::Request;
use crate::core::ladder::{
    Change, ClimbContext, Decision, Past, PastAttempt, Skipped, Step, climb, costs, frees_nothing,
    on_host,
};
use crate::core::recipe::Layer;
use oomctl_base::units::GIB;
use oomctl_base::{Effect, Refusal, Role, Value};
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::{Estimate, SAFE};

/// Attempts of a plan at most.
pub(super) const MOST_ATTEMPTS: u32 = 64;
/// Attempts that are tried for the first steps that fit.
const MOST_TRIED: u32 = 24;

/// A step with what is expected of it.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// What it changes.
    pub step: Step,
    /// Memory after it and those before it; `None` where the model cannot be asked.
    pub memory: Option<Estimate>,
    /// What it frees of the GPU's memory; `None` where the model does not see that.
    pub frees: Option<Freed>,
    /// Share of its speed that the job loses by it; `None` where the preset does not say.
    pub slower: Option<f64>,
}

/// The ladder from here.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Memory as it is; `None` where the model cannot be asked.
    pub now: Option<Estimate>,
    /// The steps, each on top of those before it.
    pub steps: Vec<PlannedStep>,
    /// For each step the attempt that takes it.
    pub attempts: Vec<u32>,
    /// Rungs of which no step is taken, and why.
    pub not_used: Vec<Skipped>,
    /// What is changed first where host memory runs out instead.
    pub after_host_oom: Vec<Change>,
}

/// The first steps of the ladder after which a job fits.
#[derive(Debug, Clone)]
pub struct FittingSteps {
    /// What each of them changes.
    pub steps: Vec<Step>,
    /// Memory after them.
    pub estimate: Estimate,
}

impl Request {
    /// Climbs as if every attempt died of a GPU OOM where its memory is fullest: a decision for each, the last of which
    /// is that nothing is left, for at most so many attempts.
    pub fn decisions(&self, most: u32) -> impl Iterator<Item = Result<Decision, Refusal>> {
        let (mut taken, mut is_over): (Vec<Layer>, bool) = (Vec::new(), false);
        let mut earlier: Vec<PastAttempt> = self.counted_attempts();
        let mut attempts = 1..=most;
        std::iter::from_fn(move || {
            let attempt = attempts.next().filter(|_| !is_over)?;
            let foreseen = self.foreseen(&taken);
            let decision = match &foreseen {
                Some((incident, true)) => {
                    let past = Past {
                        earlier: &earlier,
                        ..Past::default()
                    };
                    let decision = self.ascend(&taken, past, Some(incident), attempt);
                    earlier.push(PastAttempt::new(
                        taken.clone(),
                        incident.clone(),
                        Vec::new(),
                    ));
                    decision
                }
                other => {
                    let incident = other.as_ref().map(|(incident, _)| incident);
                    self.climb_down(&taken, attempt, incident)
                }
            };
            match &decision {
                Ok(Decision::Climb { steps, .. }) => {
                    taken.extend(steps.iter().map(|s| s.layer.clone()));
                }
                _ => is_over = true,
            }
            Some(decision)
        })
    }

    /// The failure that is to be expected with these rungs, and whether the memory model decides what answers it. Where it
    /// expects them to fit and they do not, it is wrong: what is left of the ladder is shown singly. `None` where the model
    /// cannot be asked.
    pub(super) fn foreseen(&self, taken: &[Layer]) -> Option<(Incident, bool)> {
        let estimate = self.memory(taken)?;
        let incident = Incident {
            phase: estimate.phase.word(),
            ..Incident::bare("cuda_oom", Class::GpuOom)
        };
        let open = |fits: f64| fits < self.inputs().min_fit_probability;
        let decides = estimate.fits_probability.is_some_and(open) && !self.inputs().one_rung;
        Some((incident, decides))
    }

    /// The next rung, past those after which no phase needs less, and those that need more host memory than there is: the
    /// supervisor passes them over, too.
    pub(super) fn climb_down(
        &self,
        taken: &[Layer],
        attempt: u32,
        incident: Option<&Incident>,
    ) -> Result<Decision, Refusal> {
        let mut ladder = self.inputs().ladder.to_vec();
        let mut in_vain: Vec<Skipped> = Vec::new();
        loop {
            let mut decision = self.decided(taken, attempt, |context| {
                let ladder = &ladder;
                climb(&ClimbContext { ladder, ..*context }, incident)
            })?;
            let placed = decision
                .first()
                .map(|step| match self.in_vain(taken, step) {
                    Some(skipped) => Err(skipped),
                    None => self.on_host(taken, attempt, step),
                });
            match (placed, &mut decision) {
                (Some(Err(skipped)), _) => {
                    ladder.retain(|rung| rung.rung != skipped.rung);
                    in_vain.push(skipped);
                    continue;
                }
                (Some(Ok(step)), Decision::Climb { steps, .. }) => steps[0] = step,
                _ => {}
            }
            decision.skipped_mut().extend(in_vain);
            return Ok(decision);
        }
    }

    /// A step with as much host memory as it needs, or why a node has not as much.
    fn on_host(&self, taken: &[Layer], attempt: u32, step: &Step) -> Result<Step, Skipped> {
        match self.priors(Past::default()) {
            Some(priors) => on_host(&self.context(taken, attempt), &priors, step),
            None => Ok(step.clone()),
        }
    }

    /// That a step frees nothing, by the memory model.
    fn in_vain(&self, taken: &[Layer], step: &Step) -> Option<Skipped> {
        let then = step.on(taken);
        let freed = self.freed(&then)?;
        if freed.fullest || !freed.phases.is_empty() {
            return None;
        }
        let gib = |rungs| Some(self.memory(rungs)?.peak_bytes / GIB);
        Some(Skipped::new(
            &step.rung,
            frees_nothing(gib(taken)?, gib(&then)?),
        ))
    }

    /// The ladder from here.
    ///
    /// # Errors
    /// The configuration breaks a rule.
    pub fn plan(&self) -> Result<Plan, Refusal> {
        let (mut steps, mut attempts, mut not_used) = (Vec::new(), Vec::new(), Vec::new());
        for (attempt, decision) in (2..).zip(self.decisions(MOST_ATTEMPTS)) {
            match decision? {
                Decision::Climb { steps: next, .. } => {
                    attempts.extend(next.iter().map(|_| attempt));
                    steps.extend(next);
                }
                Decision::Exhausted { skipped, .. } => not_used = skipped,
            }
        }
        not_used.retain(|skipped| steps.iter().all(|s| s.rung != skipped.rung));
        Ok(Plan {
            now: self.memory(&[]),
            steps: self.planned(&[], steps),
            attempts,
            not_used,
            after_host_oom: self.after_host_oom(),
        })
    }

    /// What the answer to a lack of host memory changes of the request or of training, where nothing was measured of it.
    pub(super) fn after_host_oom(&self) -> Vec<Change> {
        let incident = Incident::bare("host_oom", Class::HostOom);
        match self.ascend(&[], Past::default(), Some(&incident), 1) {
            Ok(Decision::Climb { steps, .. }) => {
                let changes = steps.into_iter().flat_map(|step| step.changes);
                changes.filter(|c| c.effect != Effect::SameMath).collect()
            }
            Ok(Decision::Exhausted { .. }) | Err(_) => Vec::new(),
        }
    }

    /// Steps with what is expected of each, on top of these rungs.
    pub fn planned(&self, before: &[Layer], steps: Vec<Step>) -> Vec<PlannedStep> {
        let slower = costs(
            self.preset(),
            &self.inputs().ladder,
            &steps.iter().collect::<Vec<_>>(),
        );
        let mut taken = before.to_vec();
        let expected = |(step, slower): (Step, Option<f64>)| {
            taken.push(step.layer.clone());
            PlannedStep {
                step,
                memory: self.memory(&taken),
                frees: self.freed(&taken),
                slower,
            }
        };
        steps.into_iter().zip(slower).map(expected).collect()
    }

    /// The first steps of the ladder that make a job fit which does not, as it stands; `None` where it does, or
    /// nothing makes it.
    ///
    /// # Errors
    /// The configuration breaks a rule.
    pub fn remedy(&self) -> Result<Option<FittingSteps>, Refusal> {
        let fits = |e: &Estimate| e.fits_probability.map(|p| p >= SAFE);
        if self.memory(&[]).as_ref().and_then(fits) != Some(false) {
            return Ok(None);
        }
        let (mut all, mut layers) = (Vec::new(), Vec::new());
        for decision in self.decisions(MOST_TRIED) {
            let Decision::Climb { steps, .. } = decision? else {
                return Ok(None);
            };
            layers.extend(steps.iter().map(|s| s.layer.clone()));
            all.extend(steps);
            let Some(estimate) = self.memory(&layers) else {
                return Ok(None);
            };
            if fits(&estimate) == Some(true) {
                return Ok(Some(FittingSteps {
                    steps: all,
                    estimate,
                }));
            }
        }
        Ok(None)
    }

    /// Memory of the configuration with these rungs, where the model can be asked and knows enough.
    pub fn memory(&self, rungs: &[Layer]) -> Option<Estimate> {
        self.estimate(rungs)?.ok()
    }

    /// The host memory that the job asks for, in the words of its knob.
    ///
    /// # Errors
    /// The configuration breaks a rule.
    pub fn host_memory(&self) -> Result<Option<String>, Refusal> {
        let shape = self.shape(&[])?;
        let knob = self.preset().with_role(Role::HostMemory).next();
        let value = knob.map(|k| shape.recipe().value(&k.name).clone());
        Ok(value.filter(|v| *v != Value::Null).map(|v| v.to_string()))
    }
}
