//! Several rungs at once: as many as the memory model says are needed.

use super::ascent::{Ascent, FailedAttempt, host_factor};
use super::climb::climb_in;
use super::context::{ClimbContext, Policy};
use super::decision::{Decision, Expectation, Skipped, Step};
use super::enough::{RemedyMatch, brings_little};
use super::evaluations::EvaluationCache;
use super::host::NodeResources;
use super::incident::FailureContext;
use super::past::Priors;
use super::posterior::Posterior;
use super::predict::predict;
use crate::core::recipe::Layer;
use oomctl_base::units::GIB;
use oomctl_base::{Effect, Refusal};
use oomctl_diagnose::{Class, Incident};

/// The answer to `failure`: the rungs, in the declared order, after which the next attempt fits with the
/// probability that is asked for. One rung alone where the memory model cannot tell. Where no rung is left, values between the
/// rungs may still fit: what `predict` finds.
///
/// # Errors
/// As `climb`.
pub fn ascend(
    context: &ClimbContext<'_>,
    outlook: &Priors<'_>,
    failure: Option<&Incident>,
) -> Result<Decision, Refusal> {
    let view = Ascent::new(context, outlook, failure);
    let failed = view.failed_attempts(failure);
    let Some(posterior) = view.posterior(&failed) else {
        return unmodelled(&view.evaluations, context, failure);
    };
    let first = view.first(failure, &failed)?;
    let decision = view.ascended(first, &posterior, failure, &failed)?;
    let skipped = match &decision {
        Decision::Exhausted { skipped, .. } if !context.whole_rungs => skipped,
        _ => return Ok(decision),
    };
    let finer = predict(context, outlook, failure)?;
    let Some(mut finer) = finer.filter(|finer| !finer.is_forbidden(context.policy)) else {
        return Ok(decision);
    };
    finer.skipped_mut().clone_from(skipped);
    Ok(finer)
}

/// What `predict` finds; where that may change training and rungs that keep it are as likely to fit, or as likely as is asked for, those.
/// `None` where the memory model cannot be asked.
///
/// # Errors
/// As `climb`.
pub fn predicted(
    context: &ClimbContext<'_>,
    outlook: &Priors<'_>,
    failure: Option<&Incident>,
) -> Result<Option<Decision>, Refusal> {
    let found = predict(context, outlook, failure)?;
    let policy = Policy::SameMath;
    let Some(changed) = found.as_ref().filter(|d| d.is_forbidden(policy)) else {
        return Ok(found);
    };
    let kept = ascend(&ClimbContext { policy, ..*context }, outlook, failure)?;
    let asked = outlook.min_fit_probability;
    let fits = |decision: &Decision| decision.fits().unwrap_or(0.0).min(asked);
    let is_enough = fits(&kept) > 0.0 && fits(&kept) >= fits(changed);
    Ok(if is_enough { Some(kept) } else { found })
}

/// The same where nothing is known of memory: the next rung, with one more that is not known to change training where the first brings
/// back what lies idle and that is little more than was asked for.
///
/// # Errors
/// As `climb`.
pub fn ascend_unmodelled(
    context: &ClimbContext<'_>,
    failure: Option<&Incident>,
) -> Result<Decision, Refusal> {
    let evaluations = EvaluationCache::new(context, None, failure);
    unmodelled(&evaluations, context, failure)
}

fn unmodelled(
    evaluations: &EvaluationCache<'_>,
    context: &ClimbContext<'_>,
    failure: Option<&Incident>,
) -> Result<Decision, Refusal> {
    let mut decision = climb_in(evaluations, context, failure)?;
    let known = FailureContext::of(failure);
    if let Decision::Climb { steps, .. } = &mut decision
        && failure.is_some_and(|f| f.fragmentation)
        && brings_little(&known, context.preset, &steps[0])
        && known.remedies.name(context.preset, &steps[0].changes)
        && !context.whole_rungs
    {
        let rungs = [context.rungs, &[steps[0].layer.clone()]].concat();
        // What lies idle is brought back once.
        let rest = failure.map(|failure| Incident {
            fragmentation: false,
            ..failure.clone()
        });
        for policy in [Policy::SameMath, context.policy] {
            let context = ClimbContext {
                rungs: &rungs,
                policy,
                ..*context
            };
            let next = climb_in(evaluations, &context, rest.as_ref())?;
            let next = next.first().filter(|s| s.effect != Effect::ChangesTraining);
            if let Some(next) = next {
                steps.push(next.clone());
                break;
            }
        }
    }
    Ok(decision)
}

/// What is expected of the configuration that died, then after each of `steps`, given how all attempts ended; empty where
/// the memory model cannot be asked.
pub fn expected_after(
    context: &ClimbContext<'_>,
    priors: &Priors<'_>,
    failure: &Incident,
    steps: &[Step],
) -> Vec<Expectation> {
    let view = Ascent::new(context, priors, Some(failure));
    let failed = view.failed_attempts(Some(failure));
    let Some(posterior) = view.posterior(&failed) else {
        return Vec::new();
    };
    let expected = (0..=steps.len()).map(|taken| view.expectation(&steps[..taken], &posterior));
    expected.collect::<Option<_>>().unwrap_or_default()
}

/// A step of a climb from here with as much host memory as it needs.
///
/// # Errors
/// Why it cannot be taken: what it moves to the host has no room there.
pub fn on_host(
    context: &ClimbContext<'_>,
    priors: &Priors<'_>,
    step: &Step,
) -> Result<Step, Skipped> {
    let view = Ascent::new(context, priors, None);
    match view.short_of_host(context.rungs, step, &[]) {
        Some(short) => Err(short),
        None => Ok(view.with_host(context.rungs, step.clone(), &[])),
    }
}

/// What a step must add to the probability to fit to be taken beside others, where all together reach less than what is asked for.
const LITTLE: f64 = 0.02;

impl Ascent<'_> {
    /// The first rungs with as many others as are needed.
    pub(super) fn ascended(
        &self,
        first: Decision,
        posterior: &Posterior,
        failure: Option<&Incident>,
        failed: &[FailedAttempt<'_>],
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
        let alone = whole || self.remedy(failure, &steps[0], failed) == RemedyMatch::Ample;
        let mut wanted = Some(self.outlook.min_fit_probability);
        // What answers the failure is no answer alone where the model is sure that the GPU runs out next.
        if !alone || !self.has_chance(&steps, posterior) {
            let enough = self.enough(steps, posterior, failure, failed)?;
            steps = enough.steps;
            let most = self.outlook.min_fit_probability;
            wanted = enough
                .probability
                .map(|p| if p < most { p - LITTLE } else { most });
            if let Some(wanted) = wanted {
                steps = self.fewest(steps, wanted, posterior, failure, &mut skipped)?;
            }
        }
        if let Some(wanted) = wanted {
            steps = self.sparing_training(steps, wanted, posterior);
        }
        // The model of a GPU says nothing of what died on the host.
        let expects = self.expectation(&steps, posterior).filter(|_| !of_host);
        Ok(Decision::Climb {
            steps,
            skipped,
            expects,
        })
    }

    /// The next rung, passing over those that need more host memory than a node has, and those that free none of the
    /// GPU's.
    pub(super) fn next(
        &self,
        rungs: &[Layer],
        failure: Option<&Incident>,
        failed: &[FailedAttempt<'_>],
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
            let refusal = decision.first().and_then(|step| {
                let short = self.short_of_host(rungs, step, failed);
                let short = short.or_else(|| self.in_vain(rungs, step, failure));
                short.or_else(|| self.trifle(rungs, step, failure, failed))
            });
            let Some(passed_over) = refusal else {
                let (Decision::Climb { skipped, .. } | Decision::Exhausted { skipped, .. }) =
                    &mut decision;
                skipped.extend(refused);
                if let Decision::Climb { steps, .. } = &mut decision {
                    let raised = steps
                        .drain(..)
                        .map(|step| self.with_host(rungs, step, failed));
                    *steps = raised.collect();
                }
                return Ok(decision);
            };
            ladder.retain(|rung| rung.rung != passed_over.rung);
            refused.push(passed_over);
        }
    }

    /// Why a rung cannot be taken: what it moves to the host has no room there.
    fn short_of_host(
        &self,
        rungs: &[Layer],
        step: &Step,
        failed: &[FailedAttempt<'_>],
    ) -> Option<Skipped> {
        let node = NodeResources::new(self.context.preset, self.context.cluster);
        let then = step.on(rungs);
        let (before, _) = self.host(rungs)?;
        let (after, limit) = self.host(&then)?;
        // The rung, or the person, can ask for all that a node has.
        let (bytes, limit) = (after * host_factor(failed), node.most.or(limit)?);
        (after > before && bytes > limit).then(|| {
            Skipped::new(
                &step.rung,
                format!(
                    "a node would need about {:.0} GiB of host memory, and {} {:.0}",
                    bytes / GIB,
                    match node.most {
                        Some(_) => "has",
                        None => "the job asks for",
                    },
                    limit / GIB
                ),
            )
        })
    }
}
