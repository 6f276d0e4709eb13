//! What the values of numbers cost, given all the others.

use std::collections::BTreeMap;

use super::super::engine_room;
use super::super::numbers::{Batch, Number};
use super::Filler;
use crate::core::memory::Spec;
use crate::core::recipe::{Role, Value};

/// Probability with which a rollout engine must start with a smaller share.
const ENGINE_STARTS: f64 = 0.95;

/// What the values of an engine's share cost, by all else that this depends on.
pub(super) type Shares = Vec<(engine_room::Key, Vec<(Value, f64)>)>;

/// Passes of an update over its tokens, against one for log-probabilities (Chen 2016).
const PASSES: f64 = 3.0;

/// Share of a step that is the update: all of it, or of what a rollout and log-probabilities of both policies leave.
fn update_share(spec: &Spec) -> f64 {
    let trained = |_| (1.0 - engine_room::ROLLOUT) * PASSES / (PASSES + 2.0);
    spec.rollout.as_ref().map_or(1.0, trained)
}

impl Filler<'_> {
    /// Loss of speed from one micro batch to a smaller one, as a logarithm; `None` where the model cannot be asked.
    pub fn thinned(
        &mut self,
        before: &BTreeMap<String, Value>,
        after: &BTreeMap<String, Value>,
    ) -> Option<f64> {
        let (before, after) = (self.spec(before)?, self.spec(after)?);
        let batch = Batch {
            tokens: before.tokens(),
            share: update_share(&before),
        };
        Some(batch.loss(after.tokens()))
    }

    /// A number with what its values cost; of an engine's share those that are too small for it are left out.
    pub(super) fn priced(&mut self, number: &Number, values: &BTreeMap<String, Value>) -> Number {
        let knob = self.view.footing.preset.knob(&number.knob);
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

    fn for_engine(
        &mut self,
        mut number: Number,
        present: &Spec,
        values: &BTreeMap<String, Value>,
    ) -> Number {
        let key = engine_room::key(present, number.values.len());
        if let Some((_, own)) = self.shares.iter().find(|(known, _)| *known == key) {
            number.values.truncate(own.len().max(1));
            return number.priced(own.clone());
        }
        let mut trial = values.clone();
        let mut own = Vec::new();
        for value in &number.values {
            trial.insert(number.knob.clone(), value.clone());
            let Some(spec) = self.spec(&trial) else {
                break;
            };
            if !own.is_empty() && self.engine.fits(&spec) < ENGINE_STARTS {
                break;
            }
            own.push((value.clone(), engine_room::loss(present, &spec)));
        }
        self.shares.push((key, own.clone()));
        number.values.truncate(own.len().max(1));
        number.priced(own)
    }
}
