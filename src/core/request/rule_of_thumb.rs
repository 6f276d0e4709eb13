//! A rule of thumb of a preset beside the memory model's answer to the same question.

use schemars::JsonSchema;
use serde::Serialize;

use super::request::Request;
use crate::core::recipe::{Layer, LayerKind, expr};
use oomctl_base::{Origin, Role, Value, ValueKind};

/// Largest batch that is tried.
const MOST: i64 = 1 << 16;

/// What a rule of thumb gives, and what the memory model does.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RuleComparison {
    /// The knob that both are about.
    pub knob: String,
    /// Its value.
    pub present: i64,
    /// The value by the rule.
    pub by_rule: i64,
    /// The rule in words.
    pub formula: String,
    /// Where it was read.
    pub source: String,
    /// The largest value that fits by the memory model with the probability asked for; 0 where none does, `None` where the
    /// model has no answer.
    pub by_model: Option<i64>,
}

impl Request {
    /// The rule of thumb of the preset for this configuration; `None` where it has none, or the rule none for this GPU.
    pub fn thumb(&self) -> Option<RuleComparison> {
        let rule = self.preset().memory.as_ref()?.rule_of_thumb.as_ref()?;
        let shape = self.shape(&[]).ok()?;
        let whole = |name: &String| match shape.recipe().value(name) {
            Value::Int(x) => Some((name.clone(), *x)),
            _ => None,
        };
        let (knob, present) = rule.knobs.iter().find_map(whole)?;
        let value = expr::evaluate(self.preset().env(), &rule.expr, shape.scope()).ok()?;
        let value = expr::from_jinja(&value)?.number(ValueKind::Float)?;
        let Value::Int(by_rule) = Value::from_number(ValueKind::Int, value) else {
            return None;
        };
        Some(RuleComparison {
            present,
            by_rule,
            formula: rule.formula.clone(),
            source: rule.source.clone(),
            by_model: self.largest(&knob),
            knob,
        })
    }

    /// The largest whole value of a knob with which the configuration fits by the memory model; 0 where none does, `None`
    /// where the model has no answer.
    pub fn largest(&self, knob: &str) -> Option<i64> {
        let fits = |value: i64| {
            let estimate = self.estimate(&[self.with(knob, value)])?.ok()?;
            Some(estimate.fits_probability? >= self.inputs().risk)
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
