//! Several rungs at once: as many as the memory model says are needed.

use std::rc::Rc;

use super::climb::{ClimbContext, Policy, climb_in};
use super::cost::costs;
use super::decision::{Decision, Expectation, Skipped, Step};
use super::enough::Remedy;
use super::evaluations::{EvaluationCache, Look};
use super::host::{HostNeed, Node};
use super::posterior::{Peak, Posterior};
use crate::core::diagnose::{Class, Incident};
use crate::core::memory::{Profile, Spec};
use crate::core::recipe::{Layer, Refusal};
use crate::core::units::GIB;

/// How much more than its limit a job is taken to have needed when the host killed it.
const HOST_EXCESS: f64 = 1.15;

/// An attempt that died.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Layers of the rungs that it had.
    pub rungs: Vec<Layer>,
    /// Why it died.
    pub incident: Incident,
    /// What was measured until then.
    pub peaks: Vec<Peak>,
}

impl Tried {
    /// An attempt with these rungs that died so.
    #[must_use]
    pub fn new(rungs: Vec<Layer>, incident: Incident, peaks: Vec<Peak>) -> Self {
        Self {
            rungs,
            incident,
            peaks,
        }
    }
}

/// What is known of the attempts so far, besides why the last one died.
#[derive(Debug, Clone, Copy, Default)]
pub struct Past<'a> {
    /// Attempts that died before the last one, in order.
    pub earlier: &'a [Tried],
    /// What was measured in the last one.
    pub peaks: &'a [Peak],
    /// Rungs that are not to be taken this time, because somebody asked for that.
    pub left_out: &'a [String],
}

/// What is known for looking ahead.
#[derive(Debug, Clone, Copy)]
pub struct Outlook<'a> {
    /// Constants of the training stack.
    pub profile: &'a Profile,
    /// Probability to fit that the next attempt should have.
    pub risk: f64,
    /// The attempts so far.
    pub past: Past<'a>,
}

/// The answer to `failure`: the rungs, in the declared order, after which the next attempt fits with the
/// probability that is asked for. One rung alone where the memory model cannot tell.
///
/// # Errors
/// As `climb`.
pub fn ascend(
    context: &ClimbContext<'_>,
    outlook: &Outlook<'_>,
    failure: Option<&Incident>,
) -> Result<Decision, Refusal> {
    let view = View::new(context, outlook);
    let told = view.told(failure);
    let Some(posterior) = view.posterior(&told) else {
        return climb_in(&view.evaluations, context, failure);
    };
    let first = view.first(failure, &told)?;
    view.ascended(first, &posterior, failure, &told)
}

/// An attempt that died, as the memory model sees it.
pub(super) struct Told<'a> {
    /// Layers of the rungs that it had.
    pub rungs: &'a [Layer],
    /// The job.
    pub spec: Spec,
    /// Why it died.
    pub incident: &'a Incident,
    peaks: &'a [Peak],
    /// Host memory that a node was expected to need, and what it had, in bytes.
    host: f64,
    host_limit: Option<f64>,
}

/// What attempts that the host killed needed at least, over what they were expected to need.
pub(super) fn host_factor(told: &[Told<'_>]) -> f64 {
    let killed = told.iter().filter(|t| t.incident.class == Class::HostOom);
    let factor = |t: &Told<'_>| Some(t.host_limit? * HOST_EXCESS / t.host.max(1.0));
    killed.filter_map(factor).fold(1.0, f64::max)
}

/// Ladder and memory model together.
pub(super) struct View<'a> {
    /// What a climb starts from.
    pub context: &'a ClimbContext<'a>,
    /// What is known for looking ahead.
    pub outlook: &'a Outlook<'a>,
    /// What makes shapes and files of the preset.
    pub evaluations: EvaluationCache<'a>,
}

impl<'a> View<'a> {
    /// Of a climb, with what is known.
    pub(super) fn new(context: &'a ClimbContext<'a>, outlook: &'a Outlook<'a>) -> Self {
        Self {
            context,
            outlook,
            evaluations: EvaluationCache::new(context, Some(outlook.profile)),
        }
    }

    /// The first rungs with as many others as are needed.
    pub(super) fn ascended(
        &self,
        first: Decision,
        posterior: &Posterior,
        failure: Option<&Incident>,
        told: &[Told<'_>],
    ) -> Result<Decision, Refusal> {
        let Decision::Climb {
            mut steps,
            mut skipped,
            ..
        } = first
        else {
            return Ok(first);
        };
        let of_host = failure.is_some_and(|f| f.class == Class::HostOom);
        let whole = of_host && !self.context.whole_rungs;
        if !whole && self.remedy(failure, &steps[0], told) != Remedy::Ample {
            let enough = self.enough(steps, posterior, failure, told)?;
            steps = enough.steps;
            if let Some(p) = enough.probability {
                let wanted = p.min(self.outlook.risk);
                steps = self.fewest(steps, wanted, posterior, failure, &mut skipped)?;
            }
        }
        let expects = self.expectation(&steps, posterior);
        Ok(Decision::Climb {
            steps,
            skipped,
            expects,
        })
    }

    /// The configuration with these rungs.
    ///
    /// # Errors
    /// Where it is not legal.
    pub(super) fn look(&self, rungs: &[Layer]) -> Result<Rc<Look>, Refusal> {
        self.evaluations.look(&rungs.iter().collect::<Vec<_>>())
    }

    pub(super) fn spec(&self, rungs: &[Layer]) -> Option<Spec> {
        let look = self.look(rungs).ok()?;
        self.spec_of(&look).cloned()
    }

    /// The job that a configuration describes.
    fn spec_of<'l>(&self, look: &'l Look) -> Option<&'l Spec> {
        self.evaluations.spec(look)
    }

    /// The attempts so far, the last one included, as the memory model sees them.
    pub(super) fn told(&self, failure: Option<&'a Incident>) -> Vec<Told<'a>> {
        let past = &self.outlook.past;
        let before = past.earlier.iter();
        let before = before.map(|t| (t.rungs.as_slice(), &t.incident, t.peaks.as_slice()));
        let last = failure.map(|i| (self.context.rungs, i, past.peaks));
        let node = Node::new(self.context.preset, self.context.cluster);
        let told = |(rungs, incident, peaks): (&'a [Layer], &'a Incident, &'a [Peak])| {
            let look = self.look(rungs).ok()?;
            let value = |name: &str| look.shape.recipe().value(name);
            let profile = self.outlook.profile;
            let spec = self.spec_of(&look)?;
            Some(Told {
                rungs,
                host: HostNeed::of(spec, node.gpus(value), profile).bytes(),
                host_limit: node.limit(value),
                spec: spec.clone(),
                incident,
                peaks,
            })
        };
        before.chain(last).filter_map(told).collect()
    }

    /// The next rung, passing over those that need more host memory than a node has, and those that free none of the
    /// GPU's.
    pub(super) fn next(
        &self,
        rungs: &[Layer],
        failure: Option<&Incident>,
        told: &[Told<'_>],
        policy: Policy,
    ) -> Result<Decision, Refusal> {
        let mut ladder = self.context.ladder.to_vec();
        let mut refused = Vec::new();
        loop {
            let context = ClimbContext {
                ladder: &ladder,
                rungs,
                policy,
                ..*self.context
            };
            let mut decision = climb_in(&self.evaluations, &context, failure)?;
            let step = match &decision {
                Decision::Climb { steps, .. } => steps.first(),
                Decision::Exhausted { .. } => None,
            };
            let refusal = step.and_then(|step| {
                let short = self.short_of_host(rungs, step, told);
                short.or_else(|| self.in_vain(rungs, step, failure))
            });
            let Some(passed_over) = refusal else {
                let (Decision::Climb { skipped, .. } | Decision::Exhausted { skipped, .. }) =
                    &mut decision;
                skipped.extend(refused);
                return Ok(decision);
            };
            ladder.retain(|rung| rung.rung != passed_over.rung);
            refused.push(passed_over);
        }
    }

    /// Why a rung cannot be taken: what it moves to the host has no room there.
    fn short_of_host(&self, rungs: &[Layer], step: &Step, told: &[Told<'_>]) -> Option<Skipped> {
        let node = Node::new(self.context.preset, self.context.cluster);
        let then: Vec<Layer> = rungs.iter().chain([&step.layer]).cloned().collect();
        let (before, _) = self.host(rungs)?;
        let (after, limit) = self.host(&then)?;
        // The rung, or the person, can ask for all that a node has.
        let (bytes, limit) = (after * host_factor(told), node.most.or(limit)?);
        (after > before && bytes > limit).then(|| Skipped {
            rung: step.rung.clone(),
            reason: format!(
                "a node would need about {:.0} GiB of host memory, and has {:.0}",
                bytes / GIB,
                limit / GIB
            ),
        })
    }

    /// Host memory that a node is expected to need, and what it has, in bytes.
    fn host(&self, rungs: &[Layer]) -> Option<(f64, Option<f64>)> {
        let node = Node::new(self.context.preset, self.context.cluster);
        let look = self.look(rungs).ok()?;
        let value = |name: &str| look.shape.recipe().value(name);
        let need = HostNeed::of(self.spec_of(&look)?, node.gpus(value), self.outlook.profile);
        Some((need.bytes(), node.limit(value)))
    }

    /// Whether a node holds what it is expected to need, as far as that is known.
    pub(super) fn host_holds(&self, rungs: &[Layer], told: &[Told<'_>]) -> bool {
        let known = self.host(rungs);
        known
            .is_none_or(|(need, limit)| limit.is_none_or(|limit| need * host_factor(told) <= limit))
    }

    pub(super) fn with(&self, steps: &[Step]) -> Vec<Layer> {
        let taken = self.context.rungs.iter().cloned();
        taken.chain(steps.iter().map(|s| s.layer.clone())).collect()
    }

    /// The posterior after all attempts so far; `None` where the model cannot be asked.
    pub(super) fn posterior(&self, told: &[Told<'_>]) -> Option<Posterior> {
        let profile = self.outlook.profile;
        let last = told.last().filter(|t| t.rungs == self.context.rungs);
        let present = match last {
            Some(last) => last.spec.clone(),
            None => self.spec(self.context.rungs)?,
        };
        present.gpu_bytes?;
        let mut posterior = Posterior::new(&present, profile);
        for attempt in told {
            posterior.learn(&attempt.spec, attempt.incident, attempt.peaks, profile);
        }
        Some(posterior.resampled())
    }

    pub(super) fn fits(&self, steps: &[Step], posterior: &Posterior) -> Option<f64> {
        let spec = self.spec(&self.with(steps))?;
        posterior.fits(&spec, self.outlook.profile)
    }

    pub(super) fn expectation(&self, steps: &[Step], posterior: &Posterior) -> Option<Expectation> {
        let profile = self.outlook.profile;
        let spec = self.spec(&self.with(steps))?;
        let fits = posterior.fits(&spec, profile)?;
        let steps: Vec<&Step> = steps.iter().collect();
        let costs = costs(self.context.preset, self.context.ladder, &steps);
        // Nothing is said where a rung does not say it.
        let left = costs.into_iter().map(|cost| Some(1.0 - cost?));
        let left: Option<f64> = left.product();
        posterior.expectation(&spec, profile, fits, left.map(|left| 1.0 - left))
    }
}
