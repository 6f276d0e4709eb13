//! Short jobs that try what `tune` could propose: which, what they are, and what came of them.

use serde::{Deserialize, Serialize};

use super::history::History;
use super::inputs::Inputs;
use super::outcome::Outcome;
use super::ready::Request;
use super::tune::Basis;
use super::verdict::{memory_incident, of_others};
use crate::core::diagnose::{Class, Incident};
use crate::core::ladder::probe::{ODDS_MIN, Tested};
use crate::core::ladder::{Candidate, candidates};
use crate::core::measure::Measured;
use crate::core::recipe::{Layer, Problem, Refusal, Value};

/// What a probe is of, in the inputs of its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeOf {
    /// The run, dataset or preset that is tuned.
    pub of: String,
    /// Training steps of the probe.
    pub steps: u32,
    /// Names of the steps of `tune` that it took, a name for each lap.
    pub taken: Vec<String>,
    /// Share of a training step's time that was expected to be left.
    pub time: f64,
    /// How many of its layers are those of the configuration that is tuned; the steps and what makes it short
    /// lie above.
    pub below: usize,
}

/// How a probe ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// It did its steps.
    Fitted,
    /// A GPU was too small for it.
    OutOfMemory(Box<Incident>),
    /// It failed for another reason, which says nothing of the configuration.
    Failed {
        /// Why, in one line.
        reason: String,
    },
    /// It is not over.
    Open,
}

/// A probe and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Its run.
    pub run: String,
    /// What it is of.
    pub probe: ProbeOf,
    /// Layers of the steps that it took.
    pub layers: Vec<Layer>,
    /// How it ended.
    pub end: TrialEnd,
    /// What it was measured to need.
    pub measured: Measured,
}

impl Trial {
    /// The probe that a run is, after its inputs and facts; `None` for a run that is none.
    #[must_use]
    pub fn of(inputs: &Inputs, history: &History) -> Option<Self> {
        let probe = inputs.probe.clone()?;
        let attempt = history.attempt();
        let above = inputs.layers.get(probe.below..).unwrap_or_default();
        let layers = above.iter().take(probe.taken.len());
        Some(Self {
            run: inputs.run.clone(),
            layers: layers.cloned().collect(),
            end: end(history),
            measured: attempt.map(|a| a.measured.clone()).unwrap_or_default(),
            probe,
        })
    }

    /// The same for the search; `None` where it says nothing.
    #[must_use]
    pub fn tested(&self) -> Option<Tested> {
        let fitted = match self.end {
            TrialEnd::Fitted => true,
            TrialEnd::OutOfMemory(_) => false,
            TrialEnd::Failed { .. } | TrialEnd::Open => return None,
        };
        let steps = usize::try_from(self.probe.steps).unwrap_or(usize::MAX);
        Some(Tested {
            taken: self.probe.taken.clone(),
            time: self.probe.time,
            fitted,
            step_s: self.measured.step_s(steps).filter(|_| fitted),
        })
    }
}

fn end(history: &History) -> TrialEnd {
    let Some(outcome) = &history.outcome else {
        return TrialEnd::Open;
    };
    if *outcome == Outcome::Succeeded {
        return TrialEnd::Fitted;
    }
    let attempt = history.attempt();
    let status = attempt.and_then(|a| a.status.as_ref());
    let incident = memory_incident(status, attempt.and_then(|a| a.incident.as_ref()));
    let too_small =
        |i: &Incident| matches!(i.class, Class::GpuOom | Class::EngineMemory) && !of_others(i);
    match (outcome, incident.filter(too_small)) {
        (Outcome::Exhausted { .. }, Some(incident)) => TrialEnd::OutOfMemory(Box::new(incident)),
        (Outcome::Failed { reason, .. } | Outcome::Refused { reason, .. }, _)
        | (Outcome::Configuration { reason }, _) => TrialEnd::Failed {
            reason: reason.clone(),
        },
        _ => TrialEnd::Failed {
            reason: outcome.word().replace('_', " "),
        },
    }
}

impl Request {
    /// The configurations that a probe may try: those that are as likely to fit as not, and those of which
    /// nothing is known.
    ///
    /// # Errors
    /// As `tune`.
    pub fn candidates(
        &self,
        basis: &Basis,
        changes_training: bool,
    ) -> Result<Vec<Candidate>, Refusal> {
        let judge = self.judges(basis)?;
        let footing = self.tuning_footing(basis, changes_training);
        candidates(&footing, &self.preset().tune, ODDS_MIN, &judge)
    }

    /// The request of a run that tries a candidate: of a few steps, and without a ladder, for that it does not
    /// fit is an answer.
    ///
    /// # Errors
    /// The preset does not say what makes a job short, or the configuration is not legal.
    pub fn probe(
        &self,
        basis: &Basis,
        candidate: &Candidate,
        short: &Short<'_>,
        run: &str,
    ) -> Result<Self, Refusal> {
        let preset = self.preset();
        let Some(spec) = &preset.probe else {
            let what = format!("preset {} does not say what makes a job short", preset.name);
            return Err(Problem::new(what)
                .hint("it names the knob under `probe: { steps: KNOB }`; a run keeps the preset that it was submitted with")
                .into());
        };
        let mut inputs = self.inputs().clone();
        inputs.layers.extend(basis.rungs.iter().cloned());
        let below = inputs.layers.len();
        let steps = candidate.steps.iter().map(|s| s.step.layer.clone());
        inputs.layers.extend(steps);
        inputs.layers.push(spec.layer(preset, short.steps));
        inputs.probe = Some(ProbeOf {
            of: short.of.to_owned(),
            steps: short.steps,
            taken: candidate.taken(),
            time: candidate.time,
            below,
        });
        run.clone_into(&mut inputs.run);
        inputs.command = short.command.to_vec();
        inputs.ladder = Vec::new().into();
        inputs.one_rung = true;
        Self::new(inputs)?.with_set(short.set)
    }

    /// A probe in which something else is set.
    fn with_set(self, set: &[Layer]) -> Result<Self, Refusal> {
        let job = self.job(&[])?;
        let mut probe = self;
        probe.inputs_mut().layers.extend(set.iter().cloned());
        if probe.job(&[])? == job {
            return Ok(probe);
        }
        let given = set.iter().flat_map(|l| &l.settings);
        let given: Vec<String> = given.map(|(k, s)| format!("{k}={}", s.value)).collect();
        let what = format!(
            "with {} a short job takes other memory than the job that it is about, and would say nothing of it",
            given.join(" ")
        );
        Err(Problem::new(what)
            .hint("set there what ends or places the job: time_limit, partition")
            .into())
    }

    /// Is a run a probe of this configuration, with as many steps?
    #[must_use]
    pub fn is_probed_by(&self, basis: &Basis, short: &Short<'_>, other: &Self) -> bool {
        let Some(probe) = &other.inputs().probe else {
            return false;
        };
        let mut below = other.clone();
        below.inputs_mut().layers.truncate(probe.below);
        let values = |request: &Self, rungs: &[Layer]| -> Option<Vec<(String, Value)>> {
            let recipe = request.recipe(rungs).ok()?;
            Some(
                recipe
                    .values
                    .into_iter()
                    .map(|(k, r)| (k, r.value))
                    .collect(),
            )
        };
        probe.of == short.of
            && probe.steps == short.steps
            && other.inputs().backend == self.inputs().backend
            && other.inputs().cluster == self.inputs().cluster
            && values(&below, &[]) == values(self, &basis.rungs)
    }
}

/// What is alike in all probes of a search.
#[derive(Debug, Clone, Copy)]
pub struct Short<'a> {
    /// The run, dataset or preset that is tuned.
    pub of: &'a str,
    /// Training steps of each probe.
    pub steps: u32,
    /// What else is set in them.
    pub set: &'a [Layer],
    /// The command line that makes them.
    pub command: &'a [String],
}
