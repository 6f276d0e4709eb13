//! The fastest configuration that still fits, from one that does.

use std::borrow::Cow;

use super::request::Request;
use super::trial::{Trial, TrialEnd};
use crate::core::ladder::{ClimbContext, Judgement, Observed, PastAttempt, Policy, Tuned, tune};
use crate::core::learn::{Elsewhere, JobFeatures, LearnedEntries};
use crate::core::measure::Measured;
use crate::core::recipe::{Layer, LayerKind};
use oomctl_base::{Refusal, Value};

/// Share of a GPU that a job may take by a bound that leaves nothing out.
const SAFE: f64 = 0.95;

/// Where tuning starts, and what is known of it.
#[derive(Debug, Clone)]
pub struct Basis {
    /// Layers of the rungs that the configuration has.
    pub rungs: Vec<Layer>,
    /// It is known to fit.
    pub fits: bool,
    /// What it was measured to need.
    pub measured: Measured,
    /// What else was tried in the same run.
    pub tried: Vec<PastAttempt>,
    /// What the project learned.
    pub memory: LearnedEntries,
    /// Probes on top of it, in the order in which they were made.
    pub trials: Vec<Trial>,
}

/// The configuration that was looked at last, and what it was measured to need.
struct LastMeasured<'a> {
    rungs: Vec<Layer>,
    fits: bool,
    measured: &'a Measured,
}

impl Basis {
    /// The latest probe that fitted and was measured; else the configuration that is started from.
    fn seen(&self) -> LastMeasured<'_> {
        let told = |m: &Measured| !(m.gpus.is_empty() && m.figures.is_empty());
        let mut latest = self.trials.iter().rev();
        let fitted = latest.find(|t| t.end == TrialEnd::Fitted && told(&t.measured));
        match fitted {
            Some(trial) => LastMeasured {
                rungs: self.with(trial),
                fits: true,
                measured: &trial.measured,
            },
            None => LastMeasured {
                rungs: self.rungs.clone(),
                fits: self.fits,
                measured: &self.measured,
            },
        }
    }

    /// Layers of the rungs and steps that a probe had.
    fn with(&self, trial: &Trial) -> Vec<Layer> {
        self.rungs.iter().chain(&trial.layers).cloned().collect()
    }
}

impl Request {
    /// The combination of steps of the preset's `tune` that saves most of the time and still fits with the
    /// probability that is asked for; those that change training only where that is allowed.
    ///
    /// # Errors
    /// The configuration is itself not legal.
    pub fn tune(&self, basis: &Basis, changes_training: bool) -> Result<Tuned, Refusal> {
        let judge = self.judges(basis)?;
        let context = self.tuning_context(basis, changes_training);
        tune(
            &context,
            &self.preset().tune,
            self.inputs().min_fit_probability,
            &judge,
        )
    }

    pub(super) fn tuning_context<'a>(
        &'a self,
        basis: &'a Basis,
        changes_training: bool,
    ) -> ClimbContext<'a> {
        ClimbContext {
            policy: match changes_training {
                true => Policy::Ladder,
                false => Policy::SameMath,
            },
            ..self.context(&basis.rungs, 0)
        }
    }

    /// What is expected of the configuration that is started from; `None` where nothing is known.
    ///
    /// # Errors
    /// As `tune`.
    pub fn judged(&self, basis: &Basis) -> Result<Option<Judgement>, Refusal> {
        Ok(self.judges(basis)?(&basis.rungs))
    }

    /// What fitted of the same preset and says nothing here, where nothing else is known to fit.
    pub fn elsewhere<'a>(&self, basis: &'a Basis) -> Option<Elsewhere<'a>> {
        let job = self.job(&basis.rungs).ok().filter(|_| !basis.fits)?;
        basis.memory.fitted_elsewhere(&job)
    }

    /// What says how likely a configuration is to fit: a probe or an earlier run, else measured peak and memory
    /// model, else, where there is no model, that memory grows no faster than the sizes.
    pub(super) fn judges<'a>(
        &'a self,
        basis: &'a Basis,
    ) -> Result<impl Fn(&[Layer]) -> Option<Judgement> + 'a, Refusal> {
        let seen = basis.seen();
        let asked = self.job(&seen.rungs)?;
        let observed = self.observed(basis, &seen);
        let probed = self.probed(basis);
        Ok(move |layers: &[Layer]| {
            let job = self.job(layers).ok()?;
            if probed.iter().any(|(fits, p)| !fits && p.within(&job)) {
                return Some(certain(0.0, "a probe died of it"));
            }
            if let Some(failed) = basis.memory.failed(&job) {
                let who = failed.told_by();
                return Some(certain(0.0, format!("ran out of GPU memory in {who}")));
            }
            let expected = match &observed {
                Some(observed) => Some(observed.judge(&self.spec(layers)?)),
                None => bound(seen.measured, &asked, &job),
            };
            let ground = match probed.iter().any(|(fits, p)| *fits && job.within(p)) {
                true => "a probe fitted",
                false if basis.memory.fitted(&job).is_some() => "fitted in an earlier run",
                false => return expected,
            };
            let known = certain(1.0, ground);
            Some(match expected {
                Some(expected) => Judgement {
                    fits_probability: known.fits_probability,
                    ground: known.ground,
                    ..expected
                },
                None => known,
            })
        })
    }

    /// What was measured, with what the attempts that died say of it.
    fn observed(&self, basis: &Basis, seen: &LastMeasured<'_>) -> Option<Observed<'_>> {
        let spec = self.spec(&seen.rungs)?;
        let mut observed = Observed::new(&spec, self.profile()?, seen.fits, seen.measured)?;
        let died = basis.tried.iter();
        let died = died.filter_map(|d| Some((d.rungs.clone(), d.incident.as_ref()?)));
        let probes = basis.trials.iter().filter_map(|t| match &t.end {
            TrialEnd::OutOfMemory(incident) => Some((basis.with(t), &**incident)),
            _ => None,
        });
        for (rungs, incident) in died.chain(probes) {
            if let Some(spec) = self.spec(&rungs) {
                observed.learn(&spec, incident);
            }
        }
        Some(observed)
    }

    /// The jobs of the probes, and whether they fitted.
    fn probed(&self, basis: &Basis) -> Vec<(bool, JobFeatures)> {
        let jobs = basis.trials.iter().filter_map(|trial| {
            let fits = trial.tested()?.fitted;
            Some((fits, self.job(&basis.with(trial)).ok()?))
        });
        jobs.collect()
    }

    /// The settings that lead from the project's files to a configuration, as `--set` takes them: what rungs,
    /// environment and command line gave, and what was learned.
    ///
    /// # Errors
    /// As `tune`.
    pub fn settings(&self, rungs: &[Layer]) -> Result<Vec<(String, Value)>, Refusal> {
        let files = self.with_layers_of(|kind| kind < LayerKind::Learned);
        let files = files.recipe(&[]).ok();
        let recipe = self.recipe(rungs)?;
        let given = self.preset().knobs.iter().filter_map(|knob| {
            let here = recipe.values.get(&knob.name)?;
            let there = files.as_ref().map(|f| f.value(&knob.name));
            (!here.origin.is_of_preset() && there != Some(&here.value))
                .then(|| (knob.name.clone(), here.value.clone()))
        });
        Ok(given.collect())
    }

    /// Free-form overrides of a configuration that the project's files do not give, as `--override` takes them.
    ///
    /// # Errors
    /// As `tune`.
    pub fn free_form(&self, rungs: &[Layer]) -> Result<Vec<String>, Refusal> {
        let files = self.with_layers_of(|kind| kind < LayerKind::Learned);
        let files = files
            .recipe(&[])
            .map_or_else(|_| Vec::new(), |r| r.overrides);
        let given = self.recipe(rungs)?.overrides.into_iter();
        let given = given.filter(|o| !files.contains(o));
        Ok(given.map(|o| format!("{}={}", o.key, o.value)).collect())
    }
}

/// What an earlier run says.
fn certain(fits_probability: f64, ground: impl Into<Cow<'static, str>>) -> Judgement {
    Judgement {
        fits_probability,
        peak_gib: None,
        phase: None,
        ground: ground.into(),
    }
}

/// Memory is a constant and what grows with the sizes, so twice the size takes no more than twice the memory.
fn bound(measured: &Measured, asked: &JobFeatures, job: &JobFeatures) -> Option<Judgement> {
    let gpu = measured.fullest()?;
    if asked.same != job.same {
        return None;
    }
    let mut factor = 1.0_f64;
    for (knob, size) in &job.sizes {
        let before = *asked.sizes.get(knob)?;
        match (before, *size) {
            (before, size) if size <= before => {}
            (before, size) if before >= 1.0 => factor *= size / before,
            // A switch: nothing says how much it takes.
            _ => return None,
        }
    }
    let most = gpu.peak_bytes.gib() * factor;
    let fits = most <= gpu.total_bytes.gib() * SAFE;
    fits.then_some(Judgement {
        fits_probability: 0.99,
        peak_gib: Some(most),
        phase: None,
        ground: "measured peak, times the growth of the batch".into(),
    })
}
