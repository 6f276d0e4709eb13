//! The value of a knob.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, parse_duration_s, slurm_mem, slurm_time, with_mib};

/// A value. Its kind is fixed by the knob's declaration, never guessed from the text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Not set: the framework's own default applies and nothing is rendered.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A finite number.
    Float(f64),
    /// Text, verbatim.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Names to texts.
    Map(BTreeMap<String, String>),
}

/// Some values in their order, as bytes that are compared sooner than values.
pub type ValueKey = Vec<u8>;

/// The key of some values: two have the same only where all values are equal.
pub fn key<'v>(values: impl Iterator<Item = &'v Value>) -> ValueKey {
    let mut key = ValueKey::with_capacity(16 * values.size_hint().0);
    // No text has the last of these bytes, for it is UTF-8.
    let text = |key: &mut ValueKey, kind: u8, text: &str| {
        key.push(kind);
        key.extend_from_slice(text.as_bytes());
        key.push(u8::MAX);
    };
    for value in values {
        match value {
            Value::Null => key.push(0),
            Value::Bool(yes) => key.extend_from_slice(&[1, u8::from(*yes)]),
            Value::Int(number) => {
                key.push(2);
                key.extend_from_slice(&number.to_le_bytes());
            }
            Value::Float(number) => {
                key.push(3);
                key.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Value::Text(own) => text(&mut key, 4, own),
            Value::List(_) | Value::Map(_) => text(&mut key, 5, &format!("{value:?}")),
        }
    }
    key
}

/// The kind of value that a knob takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Kind")]
pub enum ValueKind {
    /// Whole number.
    Int,
    /// Number.
    Float,
    /// `true` or `false`.
    Bool,
    /// Text.
    Text,
    /// An amount of memory (`64000M`, `80GiB`), kept as text, compared as bytes. A number alone is refused.
    Size,
    /// An amount of memory as sbatch reads it: as `size`, and a number alone is MiB.
    SlurmSize,
    /// A duration as Slurm writes it (`2-00:00:00`, `90m`), kept in Slurm's form.
    Duration,
    /// A list of texts.
    List,
    /// Names to texts.
    Map,
}

impl ValueKind {
    /// How the kind is called in a message.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Int => "a whole number",
            Self::Float => "a number",
            Self::Bool => "true or false",
            Self::Text => "text",
            Self::Size | Self::SlurmSize => "an amount of memory (64000M, 80GiB)",
            Self::Duration => "a duration (2-00:00:00, 90m)",
            Self::List => "a list",
            Self::Map => "a map of names to texts",
        }
    }

    /// Reads the text of one scalar as this kind; `null` and `~` unset any knob.
    ///
    /// # Errors
    /// What was expected, without the place.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        if matches!(text, "null" | "~") {
            return Ok(Value::Null);
        }
        let expected = || format!("expected {}, got `{text}`", self.noun());
        match self {
            Self::Int => text.parse().map(Value::Int).map_err(|_| expected()),
            Self::Float => match text.parse::<f64>() {
                Ok(x) if x.is_finite() => Ok(Value::Float(x)),
                _ => Err(expected()),
            },
            Self::Bool => match text {
                "true" | "True" => Ok(Value::Bool(true)),
                "false" | "False" => Ok(Value::Bool(false)),
                _ => Err(expected()),
            },
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Size => Bytes::parse(text)
                .map(|_| Value::Text(text.to_owned()))
                .map_err(|_| match text.parse::<f64>() {
                    Ok(_) => format!("{} without a unit: {text}GiB?", expected()),
                    Err(_) => expected(),
                }),
            Self::SlurmSize => Self::Size.parse(&with_mib(text)),
            Self::Duration => parse_duration_s(text)
                .map(|s| Value::Text(slurm_time(s)))
                .map_err(|_| expected()),
            Self::List => serde_yaml::from_str(text)
                .map(Value::List)
                .map_err(|_| format!("{} (write it as [a, b])", expected())),
            Self::Map => serde_yaml::from_str(text)
                .map(Value::Map)
                .map_err(|_| format!("{} (write it as {{a: b}})", expected())),
        }
    }
}

impl Value {
    /// The number that bounds and rungs compare: numbers as they are, sizes in bytes, durations in
    /// seconds.
    pub fn number(&self, kind: ValueKind) -> Option<f64> {
        match (self, kind) {
            (Self::Int(x), _) => Some(*x as f64),
            (Self::Float(x), _) => Some(*x),
            (Self::Text(t), ValueKind::Size | ValueKind::SlurmSize) => {
                Bytes::parse(t).ok().map(Bytes::as_f64)
            }
            (Self::Text(t), ValueKind::Duration) => parse_duration_s(t).ok().map(|s| s as f64),
            _ => None,
        }
    }

    /// The value of `kind` nearest below the number `x` (whole numbers, MiB or GiB and seconds are
    /// rounded down; floats to 4 digits).
    pub fn from_number(kind: ValueKind, x: f64) -> Self {
        match kind {
            ValueKind::Int => Self::Int((x + 1e-9).floor() as i64),
            // Whole GiB where that costs less than a sixty-fourth.
            ValueKind::Size | ValueKind::SlurmSize => {
                match (x.max(0.0) / 1_048_576.0).floor() as u64 {
                    mib if mib >= 65_536 => Self::Text(format!("{}G", mib / 1_024)),
                    _ => Self::Text(slurm_mem(x)),
                }
            }
            ValueKind::Duration => Self::Text(slurm_time(x.max(0.0).round() as u64)),
            _ => Self::Float((x * 1e4).round() / 1e4),
        }
    }

    /// The value for people: `unset` where there is none.
    pub fn shown(&self) -> String {
        match self {
            Self::Null => "unset".to_owned(),
            value => value.to_string(),
        }
    }

    /// True for `Null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(i) => write!(f, "{i}"),
            Self::Float(x) => write!(f, "{x}"),
            Self::Text(t) => f.write_str(t),
            Self::List(items) => write!(f, "[{}]", items.join(", ")),
            Self::Map(map) => {
                let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                write!(f, "{{{}}}", items.join(", "))
            }
        }
    }
}
