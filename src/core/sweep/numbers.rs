//! Values as numbers, and numbers as values.

use oomctl_base::units::GIB;
use oomctl_base::{Value, ValueKind};

/// The number of a value; `None` for text and the like.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.number(match value {
        Value::Int(_) => ValueKind::Int,
        _ => ValueKind::Float,
    })
}

/// Two digits, rounded down: a cap is no measurement.
pub(super) fn rounded(value: &Value) -> Value {
    match value {
        Value::Int(x) if *x >= 100 => {
            let unit = 10_i64.pow(x.ilog10() - 1);
            Value::Int(x / unit * unit)
        }
        Value::Float(x) if *x > 0.0 => {
            let unit = 10_f64.powf(x.log10().floor() - 1.0);
            Value::Float((x / unit).floor() * unit)
        }
        other => other.clone(),
    }
}

/// GiB with two digits.
pub(super) fn gib(bytes: f64) -> String {
    format!("{:.2}", bytes / GIB)
}
