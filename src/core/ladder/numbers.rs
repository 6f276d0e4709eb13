//! Numbers that may go down for memory, and what that costs.

use oomctl_base::{Value, ValueKind};

/// Tokens that a GPU computes while it gathers the weights for a micro batch: 6 bytes a parameter at 60 GB/s, against
/// 8 floating point operations a parameter and token at 125 TFLOP/s.
const STARTING: f64 = 1_600.0;
/// Whole numbers up to this many are all tried.
const EVERY: i64 = 96;
/// Values tried of a longer range.
const GRID: i32 = 32;

/// A number that costs speed only, with its legal and illegal values from the user's own one downwards.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpeedKnob {
    /// The knob.
    pub knob: String,
    /// The largest first.
    pub values: Vec<Value>,
    /// The one that it has.
    present: Value,
    /// Place of the largest that is within reach.
    largest: usize,
    /// What a lap of the rung does to it.
    lap: StepOperation,
    /// Loss by one lap, as a logarithm.
    loss: f64,
    /// Where it is a batch: what it costs.
    batch: Option<Batch>,
    /// Losses of single values, where they are known better than by laps.
    own: Vec<(Value, f64)>,
}

/// A batch of so many tokens, on which a share of a step's time hangs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Batch {
    /// Tokens.
    pub tokens: f64,
    /// Share of a step.
    pub share: f64,
}

impl Batch {
    /// Loss of speed with fewer tokens, as a logarithm: each batch takes as long to start as some tokens to compute.
    pub fn loss(self, tokens: f64) -> f64 {
        let time = |tokens: f64| 1.0 + STARTING / tokens.max(1.0);
        let slower = time(tokens) / time(self.tokens);
        (1.0 + self.share * (slower - 1.0)).ln()
    }
}

/// What a lap does to a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum StepOperation {
    /// Multiplied by this.
    Times(f64),
    /// This is added.
    Plus(f64),
}

/// The values of a number from `most` over the present one down to its floor.
pub(super) fn number(
    knob: &str,
    most: &Value,
    present: &Value,
    floor: f64,
    lap: StepOperation,
    loss: f64,
) -> Option<SpeedKnob> {
    let mut values = match most {
        Value::Int(now) => {
            let least = match Value::from_number(ValueKind::Int, floor.max(0.0)) {
                Value::Int(least) => least.min(*now),
                _ => return None,
            };
            whole_numbers(*now, least)
        }
        Value::Float(now) if floor.is_finite() => {
            let steps = ((now - floor) / 0.01).round();
            let at = |k: i32| ((now - 0.01 * f64::from(k)) * 1e4).round() / 1e4;
            let steps = (0..200).take_while(|k| f64::from(*k) <= steps);
            steps.map(|k| Value::Float(at(k))).collect()
        }
        _ => return None,
    };
    if !values.contains(present) {
        let above = |v: &Value| v.number(ValueKind::Float) > present.number(ValueKind::Float);
        let at = values.partition_point(above);
        values.insert(at, present.clone());
    }
    Some(SpeedKnob {
        knob: knob.to_owned(),
        values,
        present: present.clone(),
        largest: 0,
        lap,
        loss,
        batch: None,
        own: Vec::new(),
    })
}

/// All numbers of a short range; of a long one a grid that grows finer downwards, both ends in it.
fn whole_numbers(now: i64, least: i64) -> Vec<Value> {
    if now - least <= EVERY {
        return (least..=now).rev().map(Value::Int).collect();
    }
    let at = |k: i32| {
        let ratio = least.max(1) as f64 / now as f64;
        (now as f64 * ratio.powf(f64::from(k) / f64::from(GRID))) as i64
    };
    let mut values: Vec<i64> = (0..=GRID).map(at).chain([now, least]).collect();
    values.retain(|v| (least..=now).contains(v));
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.dedup();
    values.into_iter().map(Value::Int).collect()
}

impl SpeedKnob {
    /// Takes over what another rung says of the same knob: the longest way down, the least loss.
    pub fn widen(&mut self, other: Self) {
        self.loss = self.loss.min(other.loss);
        if other.values.len() > self.values.len() {
            self.values = other.values;
        }
    }

    /// The same as a batch of so many tokens, on which a share of a step's time hangs.
    pub fn of_tokens(self, tokens: f64, share: f64) -> Self {
        Self {
            batch: Some(Batch { tokens, share }),
            ..self
        }
    }

    /// The same with these values alone.
    pub fn of(self, values: Vec<Value>) -> Self {
        Self { values, ..self }
    }

    /// The same with these losses.
    pub fn priced(self, own: Vec<(Value, f64)>) -> Self {
        Self { own, ..self }
    }

    /// Values above this one are out of reach from now on.
    pub fn up_to(&mut self, value: &Value) {
        let largest = self.values.iter().position(|v| v == value);
        self.largest = largest.unwrap_or(self.largest);
    }

    /// Place of the largest value within reach.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Loss of speed with that; a gain where it was larger once.
    pub fn least_loss(&self) -> f64 {
        let largest = self.values.get(self.largest);
        largest.map_or(0.0, |v| self.loss(v))
    }

    /// Whether it was larger once.
    pub fn grows(&self) -> bool {
        self.values.first() != Some(&self.present)
    }

    /// Loss of speed with a value against the present one, as a logarithm.
    pub fn loss(&self, value: &Value) -> f64 {
        if let Some((_, loss)) = self.own.iter().find(|(v, _)| v == value) {
            return *loss;
        }
        let number = |value: &Value| value.number(ValueKind::Float);
        let (Some(now), Some(then)) = (number(&self.present), number(value)) else {
            return 0.0;
        };
        let laps = match (self.lap, self.batch) {
            (StepOperation::Times(_), Some(batch)) => {
                return batch.loss(batch.tokens * then / now.max(1e-9));
            }
            (StepOperation::Times(times), None) => (now / then.max(1e-9)).ln() / -times.ln(),
            (StepOperation::Plus(plus), _) => (then - now) / plus,
        };
        laps * self.loss
    }
}
