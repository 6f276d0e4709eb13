//! The ladder's other direction: from a configuration that fits to the fastest one that still does.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::climb::climb;
use super::context::ClimbContext;
use super::decision::{Decision, Step};
use crate::core::recipe::{Layer, RungSpec, Tuning};
use oomctl_base::Refusal;
use oomctl_base::units::chance;

/// Configurations that are looked at, at most, and those that are kept for what fits on top of the best.
const LOOKS_MAX: u32 = 1_024;
const LOOKS_ON_TOP: u32 = 64;

/// What is expected of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Judgement {
    /// Probability that every phase fits the GPU.
    pub fits_probability: f64,
    /// Expected peak of the fullest GPU, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_gib: Option<f64>,
    /// Phase of the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Where that comes from, in words.
    pub ground: Cow<'static, str>,
}

/// A step that is taken.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Faster {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// Share of a step's time that it is expected to save.
    pub gain: f64,
    /// Where that comes from.
    pub because: String,
    /// What is expected with it and those before it, where anything is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Judgement>,
}

/// A step that is not taken, or not once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Untaken {
    /// Its name.
    pub rung: String,
    /// The lap that is not taken, from 1.
    pub lap: u32,
    /// Why, for people.
    pub reason: String,
}

/// A combination of steps that may be tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuneCandidate {
    /// The steps, in the order in which they are put on the stack.
    pub steps: Vec<Faster>,
    /// Share of a training step's time that is expected to be left.
    pub time: f64,
    /// Probability to fit, where anything is known.
    pub fits_probability: Option<f64>,
}

impl TuneCandidate {
    /// Names of its steps, a name for each lap.
    pub fn taken(&self) -> Vec<String> {
        self.steps.iter().map(|s| s.step.rung.clone()).collect()
    }
}

/// The fastest configuration that was found.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Tuned {
    /// The steps, in the order in which they are put on the stack.
    pub steps: Vec<Faster>,
    /// Steps that are not taken, or not once more, with reasons.
    pub skipped: Vec<Untaken>,
    /// Share of a training step's time that is expected to be left.
    pub time: f64,
}

impl Tuned {
    /// Takes the last step back, and says why.
    pub fn step_back(&mut self, why: &str) {
        let Some(last) = self.steps.pop() else {
            return;
        };
        self.time /= 1.0 - last.gain.clamp(0.0, 0.99);
        let rung = last.step.rung;
        let lap = self.steps.iter().filter(|s| s.step.rung == rung).count() + 1;
        // A later lap that is not taken follows from this one.
        self.skipped.retain(|s| s.rung != rung);
        self.skipped.push(Untaken {
            rung,
            lap: u32::try_from(lap).unwrap_or(u32::MAX),
            reason: why.to_owned(),
        });
    }
}

/// The combination of steps that saves most of the time and fits with a probability of at least `min_fit_probability`.
/// Nothing is judged twice as large: where a step does not fit, nothing on top of it is looked at, for every
/// step takes more memory. `judge` gives no answer where nothing is known; such a step is not taken.
///
/// # Errors
/// The configuration that is started from is itself not legal.
pub fn tune(
    context: &ClimbContext<'_>,
    tunings: &[Tuning],
    min_fit_probability: f64,
    judge: &dyn Fn(&[Layer]) -> Option<Judgement>,
) -> Result<Tuned, Refusal> {
    let mut search = TuneSearch::new(context, min_fit_probability, judge);
    search.descend(tunings, &mut Vec::new(), 1.0)?;
    let mut best = std::mem::take(&mut search.best);
    search.complete(tunings, &mut best)?;
    let layers = with(context, &best.steps);
    let taken = |t: &Tuning| {
        best.steps
            .iter()
            .filter(|s| s.step.rung == t.step.rung)
            .count()
    };
    let laps = tunings.iter().map(|t| (t, taken(t)));
    let open = laps.filter(|(t, taken)| *taken < t.step.laps as usize);
    for (tuning, taken) in open.collect::<Vec<_>>() {
        let reason = search.why_not(tuning, &layers)?;
        best.skipped.extend(reason.map(|reason| Untaken {
            rung: tuning.step.rung.clone(),
            lap: u32::try_from(taken + 1).unwrap_or(u32::MAX),
            reason,
        }));
    }
    Ok(best)
}

/// All combinations of steps that fit with a probability of at least `odds`, and those of which nothing is
/// known.
///
/// # Errors
/// As `tune`.
pub fn candidates(
    context: &ClimbContext<'_>,
    tunings: &[Tuning],
    odds: f64,
    judge: &dyn Fn(&[Layer]) -> Option<Judgement>,
) -> Result<Vec<TuneCandidate>, Refusal> {
    let mut search = TuneSearch {
        blind: true,
        ..TuneSearch::new(context, odds, judge)
    };
    search.descend(tunings, &mut Vec::new(), 1.0)?;
    let mut best = std::mem::take(&mut search.best);
    search.complete(tunings, &mut best)?;
    Ok(search.all)
}

fn with(context: &ClimbContext<'_>, steps: &[Faster]) -> Vec<Layer> {
    let taken = steps.iter().map(|s| s.step.layer.clone());
    context.rungs.iter().cloned().chain(taken).collect()
}

struct TuneSearch<'a> {
    context: &'a ClimbContext<'a>,
    min_fit_probability: f64,
    judge: &'a dyn Fn(&[Layer]) -> Option<Judgement>,
    /// Steps of which nothing is known are looked at too.
    blind: bool,
    looks: u32,
    best: Tuned,
    all: Vec<TuneCandidate>,
}

impl<'a> TuneSearch<'a> {
    fn new(
        context: &'a ClimbContext<'a>,
        min_fit_probability: f64,
        judge: &'a dyn Fn(&[Layer]) -> Option<Judgement>,
    ) -> Self {
        Self {
            context,
            min_fit_probability,
            judge,
            blind: false,
            looks: LOOKS_MAX,
            best: Tuned {
                time: 1.0,
                ..Tuned::default()
            },
            all: Vec::new(),
        }
    }

    /// Tries each number of laps of the first tuning, and for each all combinations of the others.
    fn descend(
        &mut self,
        tunings: &[Tuning],
        taken: &mut Vec<Faster>,
        time: f64,
    ) -> Result<(), Refusal> {
        let Some((tuning, others)) = tunings.split_first() else {
            if time < self.best.time {
                self.best.time = time;
                self.best.steps.clone_from(taken);
            }
            self.note(taken, time);
            return Ok(());
        };
        let before = taken.len();
        let (mut time, mut gain) = (time, tuning.gain.clamp(0.0, 0.99));
        loop {
            self.descend(others, taken, time)?;
            let layers = with(self.context, taken);
            let Ok((step, then)) = self.attempt(&tuning.step, &layers)? else {
                break;
            };
            taken.push(Faster {
                step,
                gain,
                because: tuning.because.clone(),
                then,
            });
            time *= 1.0 - gain;
            gain /= 2.0;
        }
        taken.truncate(before);
        Ok(())
    }

    /// Keeps a combination as one that may be tried.
    fn note(&mut self, steps: &[Faster], time: f64) {
        if let Some(last) = steps.last().filter(|_| self.blind) {
            self.all.push(TuneCandidate {
                steps: steps.to_vec(),
                time,
                fits_probability: last.then.as_ref().map(|j| j.fits_probability),
            });
        }
    }

    /// Puts on top what fits there all the same: what is known of a larger configuration can allow a step that
    /// looked too large alone, and there can be too many combinations to try all.
    fn complete(&mut self, tunings: &[Tuning], best: &mut Tuned) -> Result<(), Refusal> {
        self.looks = self.looks.max(LOOKS_ON_TOP);
        for tuning in tunings {
            loop {
                let layers = with(self.context, &best.steps);
                let Ok((step, then)) = self.attempt(&tuning.step, &layers)? else {
                    break;
                };
                let laps = best.steps.iter().filter(|s| s.step.rung == step.rung);
                let gain = tuning.gain.clamp(0.0, 0.99) / 2_f64.powf(laps.map(|_| 1.0).sum());
                best.time *= 1.0 - gain;
                best.steps.push(Faster {
                    step,
                    gain,
                    because: tuning.because.clone(),
                    then,
                });
                self.note(&best.steps, best.time);
            }
        }
        Ok(())
    }

    /// One more step; the reason why not, where it cannot be taken or would not fit.
    fn attempt(
        &mut self,
        spec: &RungSpec,
        layers: &[Layer],
    ) -> Result<Result<(Step, Option<Judgement>), String>, Refusal> {
        if self.looks == 0 {
            return Ok(Err("too many combinations to try".to_owned()));
        }
        self.looks -= 1;
        let only = ClimbContext {
            ladder: std::slice::from_ref(spec),
            rungs: layers,
            ..*self.context
        };
        let step = match climb(&only, None)? {
            Decision::Climb { mut steps, .. } => steps.pop(),
            Decision::Exhausted { skipped, .. } => {
                let reason = skipped.into_iter().next().map(|s| s.reason);
                return Ok(Err(reason.unwrap_or_default()));
            }
        };
        let Some(step) = step else {
            return Ok(Err("nothing left to change".to_owned()));
        };
        let mut layers = layers.to_vec();
        layers.push(step.layer.clone());
        Ok(match (self.judge)(&layers) {
            None if self.blind => Ok((step, None)),
            None => Err("its memory use is unknown".to_owned()),
            Some(then) if then.fits_probability >= self.min_fit_probability => {
                Ok((step, Some(then)))
            }
            Some(then) => Err(format!(
                "would fit with a probability of {} ({})",
                chance(then.fits_probability),
                then.ground
            )),
        })
    }

    /// Why no more of a tuning is taken, on top of all that is.
    fn why_not(&mut self, tuning: &Tuning, layers: &[Layer]) -> Result<Option<String>, Refusal> {
        self.looks = self.looks.max(1);
        let more = self.attempt(&tuning.step, layers)?;
        Ok(more.err())
    }
}

#[cfg(test)]
mod tests;
