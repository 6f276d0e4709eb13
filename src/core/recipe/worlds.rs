//! The values that knobs of which nobody knows the value may have.

use std::collections::BTreeSet;

use super::knob::Knob;
use super::stack::Preset;
use oomctl_base::{Value, ValueKind};

/// Whole numbers that stand for all: small ones, since numbers of GPUs must divide batches, and powers of two.
const COUNTS: [i64; 20] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048, 4096,
];
/// Combinations of values that are asked for at most.
const MOST_WORLDS: usize = 512;

/// Values of all knobs that are not known, by name.
pub(super) type World = Vec<(String, Value)>;

/// The values that these knobs may have together; None where they cannot be counted.
pub(super) fn worlds(preset: &Preset, unknown: &BTreeSet<String>) -> Option<Vec<World>> {
    let mut all = vec![World::new()];
    for name in unknown {
        let values = may_be(preset.knobs.iter().find(|k| k.name == *name)?)?;
        if all.len() * values.len() > MOST_WORLDS {
            return None;
        }
        let with = |world: World| {
            let one = |value: &Value| {
                let mut world = world.clone();
                world.push((name.clone(), value.clone()));
                world
            };
            values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(with).collect();
    }
    Some(all)
}

/// The values that stand for all that a knob may have; None where nothing bounds them.
fn may_be(knob: &Knob) -> Option<Vec<Value>> {
    let number = |count: i64| Value::Int(count).number(ValueKind::Int);
    let bounds = (knob.min.or(Some(1.0)), knob.max.or(Some(f64::INFINITY)));
    let fits = |count: &i64| bounds.0 <= number(*count) && number(*count) <= bounds.1;
    let mut values: Vec<Value> = match knob.kind {
        ValueKind::Bool => vec![Value::Bool(false), Value::Bool(true)],
        ValueKind::Int => COUNTS.into_iter().filter(fits).map(Value::Int).collect(),
        ValueKind::Text if !knob.choices.is_empty() => {
            knob.choices.iter().cloned().map(Value::Text).collect()
        }
        _ => return None,
    };
    if knob.default.is_none() && knob.default_expr.is_none() {
        values.push(Value::Null);
    }
    Some(values)
}
