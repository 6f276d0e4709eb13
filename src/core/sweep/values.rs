//! Values of a sweep as the knobs of a preset take them.

use crate::core::recipe::{Knob, bounds};
use oomctl_base::{Value, ValueKind};

/// Which values are within the bounds of a knob.
pub(super) fn within(values: &[Value], knob: Option<&Knob>) -> Vec<bool> {
    let inside = |v: &Value| knob.is_none_or(|k| bounds(k, v).is_none());
    values.iter().map(inside).collect()
}

/// A sweep's value as a knob takes it.
pub(super) fn of_kind(kind: ValueKind, value: &Value) -> Result<Value, String> {
    match (kind, value) {
        (_, Value::Null) => Ok(Value::Null),
        // Python writes whole numbers as 8.0 now and then.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number within the range of i64"
        )]
        (ValueKind::Int, Value::Float(x)) if x.fract() == 0.0 && x.abs() < 9e15 => {
            Ok(Value::Int(*x as i64))
        }
        _ => kind.parse(&value.to_string()),
    }
}
