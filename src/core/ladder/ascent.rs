//! Ladder and memory model together: what a configuration with more rungs is expected to need.

use std::rc::Rc;

use super::context::ClimbContext;
use super::cost::costs;
use super::decision::{Expectation, Step};
use super::evaluations::{Evaluation, EvaluationCache};
use super::evidence::is_of_missing_engine;
use super::host::{HostNeed, NodeResources};
use super::past::{Peak, Priors};
use super::posterior::Posterior;
use crate::core::recipe::Layer;
use oomctl_base::Refusal;
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::{Spec, phases};

/// How much more than its limit a job is taken to have needed when the host killed it.
const HOST_EXCESS: f64 = 1.15;
/// Probability from which on an attempt has a fair chance, where nothing reaches the one that is asked for.
pub(super) const FAIR: f64 = 0.2;

/// An attempt that died, as the memory model sees it.
pub(super) struct FailedAttempt<'a> {
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
pub(super) fn host_factor(failed: &[FailedAttempt<'_>]) -> f64 {
    let killed = failed.iter().filter(|t| t.incident.class == Class::HostOom);
    let factor = |t: &FailedAttempt<'_>| Some(t.host_limit? * HOST_EXCESS / t.host.max(1.0));
    killed.filter_map(factor).fold(1.0, f64::max)
}

/// Ladder and memory model together.
pub(super) struct Ascent<'a> {
    /// What a climb starts from.
    pub context: &'a ClimbContext<'a>,
    /// What is known for looking ahead.
    pub outlook: &'a Priors<'a>,
    /// What makes shapes and files of the preset.
    pub evaluations: EvaluationCache<'a>,
}

impl<'a> Ascent<'a> {
    /// Of a climb, with what is known.
    pub(super) fn new(
        context: &'a ClimbContext<'a>,
        outlook: &'a Priors<'a>,
        failure: Option<&Incident>,
    ) -> Self {
        Self {
            context,
            outlook,
            evaluations: EvaluationCache::new(context, Some(outlook.profile), failure),
        }
    }

    /// The configuration with these rungs.
    ///
    /// # Errors
    /// Where it is not legal.
    pub(super) fn look(&self, rungs: &[Layer]) -> Result<Rc<Evaluation>, Refusal> {
        self.evaluations.look(&rungs.iter().collect::<Vec<_>>())
    }

    pub(super) fn spec(&self, rungs: &[Layer]) -> Option<Spec> {
        let look = self.look(rungs).ok()?;
        self.spec_of(&look).cloned()
    }

    /// The job that a configuration describes.
    fn spec_of<'l>(&self, look: &'l Evaluation) -> Option<&'l Spec> {
        self.evaluations.spec(look)
    }

    /// The attempts so far, the last one included, as the memory model sees them.
    pub(super) fn failed_attempts(&self, failure: Option<&'a Incident>) -> Vec<FailedAttempt<'a>> {
        let past = &self.outlook.past;
        let before = past.earlier.iter();
        let before = before
            .filter_map(|t| Some((t.rungs.as_slice(), t.incident.as_ref()?, t.peaks.as_slice())));
        let last = failure.map(|i| (self.context.rungs, i, past.peaks));
        let node = NodeResources::new(self.context.preset, self.context.cluster);
        let judged = |(rungs, incident, peaks): (&'a [Layer], &'a Incident, &'a [Peak])| {
            let look = self.look(rungs).ok()?;
            let value = |name: &str| look.shape.recipe().value(name);
            let profile = self.outlook.profile;
            let spec = self.spec_of(&look)?;
            Some(FailedAttempt {
                rungs,
                host: HostNeed::of(spec, node.gpus(value), profile).bytes(),
                host_limit: node.limit(value),
                spec: spec.clone(),
                incident,
                peaks,
            })
        };
        before.chain(last).filter_map(judged).collect()
    }

    /// Host memory that a node is expected to need, and what it has, in bytes.
    pub(super) fn host(&self, rungs: &[Layer]) -> Option<(f64, Option<f64>)> {
        let node = NodeResources::new(self.context.preset, self.context.cluster);
        let look = self.look(rungs).ok()?;
        let value = |name: &str| look.shape.recipe().value(name);
        let need = HostNeed::of(self.spec_of(&look)?, node.gpus(value), self.outlook.profile);
        Some((need.bytes(), node.limit(value)))
    }

    /// Whether a node holds what it is expected to need, as far as that is known.
    pub(super) fn host_holds(&self, rungs: &[Layer], failed: &[FailedAttempt<'_>]) -> bool {
        let known = self.host(rungs);
        known.is_none_or(|(need, limit)| {
            limit.is_none_or(|limit| need * host_factor(failed) <= limit)
        })
    }

    pub(super) fn with(&self, steps: &[Step]) -> Vec<Layer> {
        let taken = self.context.rungs.iter().cloned();
        taken.chain(steps.iter().map(|s| s.layer.clone())).collect()
    }

    /// The posterior after all attempts so far; `None` where the model cannot be asked.
    pub(super) fn posterior(&self, failed: &[FailedAttempt<'_>]) -> Option<Posterior> {
        let profile = self.outlook.profile;
        let last = failed.last().filter(|t| t.rungs == self.context.rungs);
        let present = match last {
            Some(last) => last.spec.clone(),
            None => self.spec(self.context.rungs)?,
        };
        present.gpu_bytes?;
        let terms = phases(&present, profile);
        // The model holds that an engine sleeps while the models train.
        let is_other = |last: &FailedAttempt<'_>| {
            last.incident.engine_awake || is_of_missing_engine(last.incident, &terms)
        };
        if last.is_some_and(is_other) {
            return None;
        }
        let mut posterior = Posterior::new(&present, profile);
        let fitted = self.outlook.past.earlier.iter();
        for fitted in fitted.filter(|t| t.incident.is_none() && !t.peaks.is_empty()) {
            if let Some(spec) = self.spec(&fitted.rungs) {
                posterior.learn(&spec, None, &fitted.peaks, profile);
            }
        }
        for attempt in failed {
            posterior.learn(
                &attempt.spec,
                Some(attempt.incident),
                attempt.peaks,
                profile,
            );
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
