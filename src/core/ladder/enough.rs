//! How many rungs at once: what the failure names by itself, or as few as the memory model says are enough.

use super::ascent::FAIR;
use super::ascent::{Ascent, FailedAttempt};
use super::context::Policy;
use super::decision::{Change, Decision, Skipped, Step};
use super::evaluations::Evaluation;
use super::incident::FailureContext;
use super::posterior::Posterior;
use crate::core::recipe::{Layer, Preset};
use oomctl_base::units::GIB;
use oomctl_base::{Effect, Refusal, Role, Value};
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::{Phase, PhaseEstimate, estimate};

/// Rungs that are taken for one attempt at most.
const MOST_RUNGS: usize = 16;

/// A change of a share below which a step alone is not worth an attempt that does not fit.
const TRIFLE: f64 = 0.025;
/// Probability to fit from which an attempt that trains the same is tried before one that does not.
const LIKELY: f64 = 0.5;
/// Probability that is shown as 0.00.
const NO_CHANCE: f64 = 0.005;

/// Why a step is taken in vain, where a GPU needs so many GiB before and after it.
pub fn frees_nothing(before: f64, after: f64) -> String {
    format!("it frees no GPU memory: about {before:.0} GiB needed before, {after:.0} after")
}

/// Share of a GPU that must lie idle beyond the request for a remedy that brings it back to be tried alone.
const AMPLE: f64 = 0.1;

/// Whether a step only brings back what lies idle, and by the message's figures that is little more than what was asked for.
pub(super) fn brings_little(failure: &FailureContext, preset: &Preset, step: &Step) -> bool {
    let role = |c: &Change| preset.knob(&c.knob).and_then(|k| k.role);
    let mut changes = step.changes.iter();
    changes.all(|c| role(c) == Some(Role::AllocatorConf))
        && failure.spare.is_some_and(|spare| spare < AMPLE)
}

/// Whether a step is what the failure names as its remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemedyMatch {
    /// It is not.
    None,
    /// It is, and the memory model sees what it does.
    Seen,
    /// It is, the model does not see it, and by the message's figures it gains little more than was asked for.
    Thin,
    /// It is, and should be enough by itself.
    Ample,
}

/// As many rungs as are tried where the model holds that no number is enough: one, and twice as many after each other attempt
/// that died (exponential search).
fn doubled(failed: &[FailedAttempt<'_>]) -> usize {
    let earlier = failed.iter().skip(1);
    earlier.fold(1, |rungs: usize, _| rungs.saturating_mul(2))
}

/// Rungs for one attempt.
pub(super) struct Enough {
    pub steps: Vec<Step>,
    /// Probability to fit with them; `None` where the model holds that nothing fits.
    pub probability: Option<f64>,
}

impl Ascent<'_> {
    /// Why a rung would be taken in vain: neither where the job died nor where it is fullest does it need less GPU
    /// memory afterwards. Of a rung that changes nothing that the model knows nothing is said, nor where the job held more than
    /// the model can explain.
    pub(super) fn in_vain(
        &self,
        rungs: &[Layer],
        step: &Step,
        failure: Option<&Incident>,
    ) -> Option<Skipped> {
        let held =
            failure.and_then(|f| Some(f.allocated_bytes?.as_f64() + f.requested_bytes?.as_f64()));
        let failure = FailureContext::of(failure);
        if failure.class != Class::GpuOom || self.named(&failure, step) {
            return None;
        }
        let fatal = failure.fatal;
        let profile = self.outlook.profile;
        let then = step.on(rungs);
        let (before, after) = (self.spec(rungs)?, self.spec(&then)?);
        if before == after || after.gpu_bytes > before.gpu_bytes {
            return None;
        }
        // As `estimate` tells it: what is likely to be in a batch counts, too.
        let [before, after] = [before, after].map(|spec| estimate(&spec, profile).phases);
        let need = |all: &[PhaseEstimate], asked: &[Phase]| {
            let asked = all
                .iter()
                .filter(|p| asked.is_empty() || asked.contains(&p.phase));
            asked.map(|p| p.bytes).reduce(f64::max)
        };
        let falls = |asked: &[Phase]| {
            let (before, after) = (need(&before, asked), need(&after, asked));
            before
                .zip(after)
                .is_none_or(|(before, after)| after < before)
        };
        if falls(&[]) || falls(fatal) {
            return None;
        }
        let most = before.iter().filter(|p| fatal.contains(&p.phase));
        let most = most.map(|p| p.high_bytes).reduce(f64::max);
        if held.zip(most).is_some_and(|(held, most)| held > most) {
            return None;
        }
        let (before, after) = (need(&before, fatal)?, need(&after, fatal)?);
        Some(Skipped::new(
            &step.rung,
            frees_nothing(before / GIB, after / GIB),
        ))
    }

    /// That a step cuts a share by next to nothing, and the next attempt is not expected to fit: it would be wasted.
    pub(super) fn trifle(
        &self,
        rungs: &[Layer],
        step: &Step,
        failure: Option<&Incident>,
        failed: &[FailedAttempt<'_>],
    ) -> Option<Skipped> {
        if FailureContext::of(failure).class != Class::GpuOom {
            return None;
        }
        let share = |value: &Value| match value {
            Value::Float(share) => Some(*share),
            _ => None,
        };
        let cut = |c: &Change| Some(share(&c.from)? - share(&c.to)?);
        let little = |c: &Change| cut(c).is_some_and(|by| (0.0..TRIFLE).contains(&by));
        if step.changes.is_empty() || !step.changes.iter().all(little) {
            return None;
        }
        let then = step.on(rungs);
        let fits = self
            .posterior(failed)?
            .fits(&self.spec(&then)?, self.outlook.profile)?;
        let change = step.changes.first()?;
        (fits < NO_CHANCE).then(|| Skipped::new(&step.rung, format!(
                "{} {} -> {} is too little: the next attempt would fit with probability {fits:.2}",
                change.knob, change.from, change.to
            )))
    }

    /// Whether the model leaves an attempt with these steps a chance, or does not know.
    pub(super) fn has_chance(&self, steps: &[Step], posterior: &Posterior) -> bool {
        let fits = self.fits(steps, posterior);
        fits.is_none_or(|fits| fits >= NO_CHANCE)
    }

    /// Whether the failure names what a step does as its remedy.
    fn named(&self, failure: &FailureContext, step: &Step) -> bool {
        let preset = self.context.preset;
        failure.remedies.name(preset, &step.changes)
    }

    /// Whether the failure itself names a step, and how much of what it does is known.
    pub(super) fn remedy(
        &self,
        failure: Option<&Incident>,
        step: &Step,
        failed: &[FailedAttempt<'_>],
    ) -> RemedyMatch {
        let rungs = self.context.rungs;
        let then = step.on(rungs);
        let failure = FailureContext::of(failure);
        match self.named(&failure, step) && !self.context.whole_rungs {
            false => RemedyMatch::None,
            // The message has the figure with which the engine would have started; what held the rest may be gone by then.
            true if failure.share().is_some() || failure.sampler.is_some() => RemedyMatch::Ample,
            true if self.spec(rungs) != self.spec(&then) => RemedyMatch::Seen,
            true if brings_little(&failure, self.context.preset, step) => RemedyMatch::Thin,
            true if failure.class == Class::HostOom && !self.host_holds(&then, failed) => {
                RemedyMatch::Seen
            }
            true => RemedyMatch::Ample,
        }
    }

    /// Further rungs until the result fits, each for the phase that is expected to be the fullest by then; those that change
    /// training only where the others leave it unlikely. Where no number of them is enough, as many as fit best, if that is a
    /// fair chance; else `doubled`.
    pub(super) fn enough(
        &self,
        first: Vec<Step>,
        posterior: &Posterior,
        failure: Option<&Incident>,
        failed: &[FailedAttempt<'_>],
    ) -> Result<Enough, Refusal> {
        // What the failure names is not made another experiment of.
        let policy = match self.remedy(failure, &first[0], failed) {
            RemedyMatch::None => self.context.policy,
            _ => Policy::SameMath,
        };
        let mut steps = first;
        let mut best = (0.0, steps.len());
        let other = (policy != Policy::SameMath).then_some(policy);
        for policy in std::iter::once(Policy::SameMath).chain(other) {
            while steps.len() <= MOST_RUNGS {
                let fits = self.fits(&steps, posterior).unwrap_or(0.0);
                if fits > best.0 {
                    best = (fits, steps.len());
                }
                if fits >= self.outlook.min_fit_probability {
                    break;
                }
                let next =
                    failure.and_then(|failure| self.foreseen(failure, &steps, posterior, failed));
                let next = next.as_ref().or(failure);
                match self.next_or_any(&self.with(&steps), next, failed, policy)? {
                    Decision::Climb { steps: more, .. } => steps.extend(more),
                    Decision::Exhausted { .. } => break,
                }
            }
            if best.0 >= LIKELY {
                break;
            }
        }
        let (probability, most) = best;
        let fair = probability >= FAIR;
        steps.truncate(if fair { most } else { doubled(failed) });
        Ok(Enough {
            steps,
            probability: fair.then_some(probability),
        })
    }

    /// The first rungs after a failure: one, and after one of the host as many as its memory needs.
    pub(super) fn first(
        &self,
        failure: Option<&Incident>,
        failed: &[FailedAttempt<'_>],
    ) -> Result<Decision, Refusal> {
        let context = self.context;
        let mut first = self.next_or_any(context.rungs, failure, failed, context.policy)?;
        let of_host = failure.is_some_and(|f| f.class == Class::HostOom) && !context.whole_rungs;
        let Decision::Climb { steps, .. } = &mut first else {
            return Ok(first);
        };
        while of_host && !self.host_holds(&self.with(steps), failed) {
            match self.next(&self.with(steps), failure, failed, Policy::SameMath)? {
                Decision::Climb { steps: more, .. } if steps.len() < MOST_RUNGS => {
                    steps.extend(more);
                }
                _ => {
                    steps.truncate(doubled(failed));
                    break;
                }
            }
        }
        Ok(first)
    }

    /// The next rung; where none acts on the phase that failed, one that frees memory in another.
    pub(super) fn next_or_any(
        &self,
        rungs: &[Layer],
        failure: Option<&Incident>,
        failed: &[FailedAttempt<'_>],
        policy: Policy,
    ) -> Result<Decision, Refusal> {
        let first = self.next(rungs, failure, failed, policy)?;
        // Before anything was computed nothing else can be the cause.
        let elsewhere = failure.is_some_and(|f| {
            f.class == Class::GpuOom && FailureContext::of(Some(f)).fatal != [Phase::Load]
        });
        if !elsewhere || self.context.whole_rungs || matches!(first, Decision::Climb { .. }) {
            return Ok(first);
        }
        let anywhere = Incident::bare("cuda_oom", Class::GpuOom);
        match self.next(rungs, Some(&anywhere), failed, policy)? {
            Decision::Exhausted { .. } => Ok(first),
            other => Ok(other),
        }
    }

    /// The failure that is to be expected after some steps: of the phase that needs most.
    fn foreseen(
        &self,
        failure: &Incident,
        steps: &[Step],
        posterior: &Posterior,
        failed: &[FailedAttempt<'_>],
    ) -> Option<Incident> {
        let rungs = self.with(steps);
        let spec = self.spec(&rungs)?;
        let (phase, bytes) = posterior.expected(&spec, self.outlook.profile)?;
        let of_gpu = match failure.class {
            Class::GpuOom | Class::EngineMemory => true,
            Class::HostOom => self.host_holds(&rungs, failed),
            _ => false,
        };
        let (phase, expected) = match bytes <= spec.gpu_bytes?
            && posterior.engine.fits(&spec) < self.outlook.min_fit_probability
        {
            true => (
                "kv_cache".to_owned(),
                Incident::bare("vllm_kv_cache", Class::EngineMemory),
            ),
            false => (phase.word(), Incident::bare("cuda_oom", Class::GpuOom)),
        };
        of_gpu.then_some(Incident { phase, ..expected })
    }

    /// Those of the steps without which the result does not fit with this probability, those that change training left out
    /// first. What the failure names stays.
    pub(super) fn fewest(
        &self,
        mut steps: Vec<Step>,
        probability: f64,
        posterior: &Posterior,
        failure: Option<&Incident>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<Step>, Refusal> {
        self.drop_what_cancels_out(&mut steps);
        let of_failure = FailureContext::of(failure);
        let named = |at: &usize| self.named(&of_failure, &steps[*at]);
        let free = |at: &usize| !named(at) && !self.context.whole_rungs;
        let mut order: Vec<usize> = (0..steps.len()).filter(free).collect();
        order.sort_by_key(|at| steps[*at].effect != Effect::ChangesTraining);
        let mut left_out: Vec<usize> = Vec::new();
        for at in order {
            let rest = |kept: &dyn Fn(usize) -> bool| -> Vec<Step> {
                let kept = steps.iter().enumerate().filter(|(i, _)| kept(*i));
                kept.map(|(_, step)| step.clone()).collect()
            };
            let before = rest(&|i| !left_out.contains(&i));
            let after = rest(&|i| i != at && !left_out.contains(&i));
            if after.is_empty() || !self.differ(&before, &after, &steps[at]) {
                continue;
            }
            let fits = self.fits(&after, posterior);
            if let Some(fits) = fits.filter(|fits| *fits >= probability) {
                let without =
                    format!("without it the next attempt fits with probability {fits:.2}");
                skipped.push(Skipped::new(
                    &steps[at].rung,
                    format!("not needed: {without}"),
                ));
                left_out.push(at);
            }
        }
        let mut places = 0..;
        steps.retain(|_| places.next().is_none_or(|at| !left_out.contains(&at)));
        Ok(self.rebased(steps))
    }

    /// Whether it makes a difference that a step is left out, and what is left is legal.
    pub(super) fn differ(&self, before: &[Step], after: &[Step], step: &Step) -> bool {
        let looks = [before, after].map(|steps| self.look(&self.with(steps)));
        let [Ok(before), Ok(after)] = looks else {
            return false;
        };
        let value = |look: &Evaluation, knob: &str| look.shape.recipe().value(knob).clone();
        let mut knobs = step.changes.iter().map(|c| c.knob.as_str());
        knobs.any(|knob| value(&before, knob) != value(&after, knob))
    }

    /// The steps with what each changes after those before it, which need not be legal by themselves.
    pub(super) fn rebased(&self, mut steps: Vec<Step>) -> Vec<Step> {
        for at in 0..steps.len() {
            let Ok(before) = self.look(&self.with(&steps[..at])) else {
                continue;
            };
            let value = |knob: &str| before.shape.recipe().value(knob).clone();
            for change in &mut steps[at].changes {
                change.from = value(&change.knob);
            }
        }
        steps
    }
}
