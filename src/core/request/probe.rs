//! Short jobs that try what `tune` could propose: which, and what they are.

use super::inputs::ProbeOf;
use super::request::Request;
use super::tune::Basis;
use crate::core::ladder::probe::ODDS_MIN;
use crate::core::ladder::{TuneCandidate, candidates};
use crate::core::recipe::Layer;
use oomctl_base::{Problem, Refusal, Value};

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
    ) -> Result<Vec<TuneCandidate>, Refusal> {
        let judge = self.judges(basis)?;
        let context = self.tuning_context(basis, changes_training);
        candidates(&context, &self.preset().tune, ODDS_MIN, &judge)
    }

    /// The request of a run that tries a candidate: of a few steps, and without a ladder, for that it does not
    /// fit is an answer.
    ///
    /// # Errors
    /// The preset does not say what makes a job short, or the configuration is not legal.
    pub fn probe(
        &self,
        basis: &Basis,
        candidate: &TuneCandidate,
        short: &ProbeSeries<'_>,
        run: &str,
    ) -> Result<Self, Refusal> {
        let preset = self.preset();
        let Some(spec) = &preset.probe else {
            let what = format!("preset {} does not say what makes a job short", preset.name);
            return Err(Problem::new(what)
                .hint("add `probe: { steps: KNOB }` to the preset; a run keeps the preset that it was submitted with")
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
            "with {}, a short job needs different memory from the full job, so a probe would prove nothing",
            given.join(" ")
        );
        Err(Problem::new(what)
            .hint("set what ends or places the job there: time_limit, partition")
            .into())
    }

    /// Is a run a probe of this configuration, with as many steps?
    pub fn is_probed_by(&self, basis: &Basis, short: &ProbeSeries<'_>, other: &Self) -> bool {
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
pub struct ProbeSeries<'a> {
    /// The run, dataset or preset that is tuned.
    pub of: &'a str,
    /// Training steps of each probe.
    pub steps: u32,
    /// What else is set in them.
    pub set: &'a [Layer],
    /// The command line that makes them.
    pub command: &'a [String],
}
