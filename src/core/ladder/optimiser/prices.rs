//! What the values of numbers cost, given all the others.

use super::super::bounds::SearchBounds;
use super::super::engine_room;
use super::super::numbers::{Batch, SpeedKnob};
use super::super::remedies::is_off;
use super::Optimiser;
use crate::core::recipe::Values;
use oomctl_base::{Role, Value, ValueKind};
use oomctl_memory::{Rollout, Spec};

/// Probability with which a rollout engine must start with a smaller share.
const ENGINE_STARTS: f64 = 0.95;

/// What the values of an engine's share cost, by all else that this depends on.
pub(super) type Shares = Vec<(engine_room::EngineKey, Vec<(Value, f64)>)>;

/// Passes of an update over its tokens, against one for log-probabilities (Chen 2016).
const PASSES: f64 = 3.0;

/// Share of a step that is the update: all of it, or of what a rollout and log-probabilities of both policies leave.
fn update_share(spec: &Spec) -> f64 {
    let trained = |_| (1.0 - engine_room::ROLLOUT) * PASSES / (PASSES + 2.0);
    spec.rollout.as_ref().map_or(1.0, trained)
}

/// What one rank moves between GPU and host in a second, in bytes, and floating point operations of a GPU in the same
/// time: both grow from one generation of GPUs to the next.
const TO_HOST: f64 = 10e9;
const OPERATIONS: f64 = 125e12;
/// Operations for a parameter and token of an update with recomputed activations (Chen 2016).
const UPDATE: f64 = 8.0;

/// Loss of speed, as a logarithm, of keeping states in host memory of which so many bytes go to the GPU and back for an update.
fn offload_loss(spec: &Spec, bytes_per_parameter: f64) -> f64 {
    let parameters = spec.model.params / spec.data_parallel.max(1.0);
    let moved = 2.0 * bytes_per_parameter * parameters / TO_HOST;
    let tokens = spec.tokens() * spec.accumulation.max(1.0);
    let computed = UPDATE * tokens * spec.model.params / OPERATIONS;
    (update_share(spec) * moved / computed.max(f64::MIN_POSITIVE)).ln_1p()
}

impl Optimiser<'_> {
    /// The switches of a reach with what offload costs this job.
    pub fn price_switches(&mut self, reach: &mut SearchBounds, values: &Values) {
        let Some(spec) = self.spec(values) else {
            return;
        };
        // Weights are needed for old log-probabilities, the update, and the engine's copy.
        let trips = if spec.rollout.is_some() { 3.0 } else { 1.0 };
        for switch in &mut reach.switches {
            let knob = self.view.context.preset.knob(&switch.knob);
            let bytes = match knob.and_then(|k| k.role) {
                Some(Role::ParamOffload) => trips * spec.precision.weight,
                Some(Role::OptimizerOffload) => spec.precision.moments + spec.precision.master,
                _ => continue,
            };
            let loss = offload_loss(&spec, bytes);
            switch.loss = if is_off(&switch.to) { -loss } else { loss };
        }
    }

    /// Loss of speed from one micro batch to a smaller one, as a logarithm; `None` where the model cannot be asked.
    pub fn thinned(&mut self, before: &Values, after: &Values) -> Option<f64> {
        let (before, after) = (self.spec(before)?, self.spec(after)?);
        let batch = Batch {
            tokens: before.tokens(),
            share: update_share(&before),
        };
        Some(batch.loss(after.tokens()))
    }

    /// Whether a number is a rollout engine's share of the GPU.
    pub(super) fn is_share(&self, number: &SpeedKnob) -> bool {
        let knob = self.view.context.preset.knob(&number.knob);
        knob.and_then(|k| k.role) == Some(Role::RolloutMemoryFraction)
    }

    /// A number with what its values cost; of an engine's share those that are too small for it are left out.
    pub(super) fn priced(&mut self, number: &SpeedKnob, values: &Values) -> SpeedKnob {
        let knob = self.view.context.preset.knob(&number.knob);
        let number = number.clone();
        let spec = self.spec(values);
        let (Some(role), Some(spec)) = (knob.and_then(|k| k.role), spec) else {
            return number;
        };
        let rollout = spec.rollout.as_ref();
        match role {
            Role::RolloutMemoryFraction => self.for_engine(number, &spec, values),
            Role::MicroBatch | Role::TokenBudget => {
                number.of_tokens(spec.tokens(), update_share(&spec))
            }
            Role::LogprobMicroBatch => {
                let tokens = rollout.map_or(spec.tokens(), |r| r.logprob_tokens);
                number.of_tokens(tokens, update_share(&spec) / PASSES)
            }
            _ => number,
        }
    }

    fn for_engine(&mut self, mut number: SpeedKnob, present: &Spec, values: &Values) -> SpeedKnob {
        let key = engine_room::key(present, number.values.len());
        if let Some((_, own)) = self.shares.iter().find(|(known, _)| *known == key) {
            number.values.truncate(own.len().max(1));
            return number.priced(own.clone());
        }
        let shares = self.shares_of(&number, values);
        // The smaller a share, the less surely the engine starts.
        let starts = |share: &f64| self.engine.fits(&with_share(present, *share)) >= ENGINE_STARTS;
        let enough = shares.partition_point(starts).max(1);
        let loss = |share: f64| engine_room::loss(present, &with_share(present, share));
        let values = number.values.iter().cloned();
        let own = values.zip(shares.into_iter().map(loss)).take(enough);
        let own: Vec<(Value, f64)> = own.collect();
        self.shares.push((key, own.clone()));
        number.values.truncate(own.len().max(1));
        number.priced(own)
    }
    /// The shares of the GPU that an engine gets by the values of its knob, to which they are proportional.
    fn shares_of(&mut self, number: &SpeedKnob, values: &Values) -> Vec<f64> {
        let ends = (number.values.first(), number.values.last());
        let mut end = |value: Option<&Value>| {
            let mut trial = values.clone();
            trial.set(&number.knob, value?.clone());
            let share = self.spec(&trial)?.rollout?.memory_fraction;
            Some((value?.number(ValueKind::Float)?, share))
        };
        let (Some((most, first)), Some((least, last))) = (end(ends.0), end(ends.1)) else {
            return Vec::new();
        };
        let steepness = (last - first) / (least - most).min(-f64::EPSILON);
        let numbers = number
            .values
            .iter()
            .filter_map(|v| v.number(ValueKind::Float));
        numbers.map(|n| first + (n - most) * steepness).collect()
    }
}

/// The job with another share of the GPU for its engine.
fn with_share(spec: &Spec, share: f64) -> Spec {
    let rollout = spec.rollout.as_ref();
    Spec {
        rollout: rollout.map(|r| Rollout {
            memory_fraction: share,
            ..r.clone()
        }),
        ..spec.clone()
    }
}
