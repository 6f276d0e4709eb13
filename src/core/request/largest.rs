//! The largest batch that fits by the memory model.

use super::request::Request;
use crate::core::recipe::{Layer, LayerKind};
use oomctl_base::{Origin, Role, Value, ValueKind};

/// Largest batch that is tried.
const MOST: i64 = 1 << 16;

impl Request {
    /// The largest whole value of a knob with which the configuration fits by the memory model; 0 where none does, `None`
    /// where the model has no answer.
    pub fn largest(&self, knob: &str) -> Option<i64> {
        let fits = |value: i64| {
            let estimate = self.estimate(&[self.with(knob, value)])?.ok()?;
            Some(estimate.fits_probability? >= self.inputs().min_fit_probability)
        };
        let least = self.preset().knob(knob)?.min.unwrap_or(1.0);
        let least = match Value::from_number(ValueKind::Int, least) {
            Value::Int(least) => least.max(1),
            _ => 1,
        };
        if !fits(least)? {
            return Some(0);
        }
        let (mut good, mut bad) = (least, least.saturating_mul(2));
        while bad <= MOST && fits(bad)? {
            (good, bad) = (bad, bad * 2);
        }
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match fits(middle)? {
                true => good = middle,
                false => bad = middle,
            }
        }
        Some(good)
    }

    /// A layer that tries a whole value for a knob.
    pub fn trial(knob: &str, value: i64) -> Layer {
        let origin = Origin::Computed {
            expr: "a value that is tried".to_owned(),
        };
        let mut layer = Layer::new(LayerKind::Rung);
        layer.set(knob, Value::Int(value), origin);
        layer
    }

    /// The same for a batch; how often gradients are accumulated bears on rules and not on memory.
    fn with(&self, knob: &str, value: i64) -> Layer {
        let mut layer = Self::trial(knob, value);
        let recipe = self.recipe(&[]);
        for other in self.preset().with_role(Role::GradAccumulation) {
            if recipe
                .as_ref()
                .is_ok_and(|r| !r.value(&other.name).is_null())
            {
                layer.settings.extend(Self::trial(&other.name, 1).settings);
            }
        }
        layer
    }
}
