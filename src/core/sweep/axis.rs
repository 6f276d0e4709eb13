//! A sweep as axes: named parameters with the values that they take.

use super::span::DrawRange;
use crate::core::config::ConfigError;
use crate::core::recipe::{Knob, bounds};
use oomctl_base::units::GIB;
use oomctl_base::{Value, ValueKind};

/// How cells are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every combination.
    Grid,
    /// Drawn at random.
    Random,
    /// Drawn by a model of earlier results.
    Bayes,
}

/// Where a value stands in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisPlace {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// A parameter of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name; nested parameters are joined by dots.
    pub name: String,
    /// Values in the order of the file; of a range its ends and values between them.
    pub values: Vec<Value>,
    /// Where each value stands; empty for a range or for overrides.
    pub places: Vec<AxisPlace>,
    /// Where the upper end of a range stands, and how it is written.
    pub upper: Option<Upper>,
    /// True when the values only stand for a range of others.
    pub sampled: bool,
    /// The range that they are of, from which cells are drawn.
    pub(super) span: Option<DrawRange>,
    /// How often each value is drawn, where not all are drawn alike.
    pub(super) weights: Vec<f64>,
}

/// The upper end of a range in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper {
    /// Where it stands.
    pub place: AxisPlace,
    /// True when the file has the exponent of e, not the value.
    pub exponent: bool,
}

impl Axis {
    /// A parameter with values and nothing else.
    pub(super) fn listed(name: String, values: Vec<Value>, places: Vec<AxisPlace>) -> Self {
        Self {
            name,
            values,
            places,
            upper: None,
            sampled: false,
            span: None,
            weights: Vec::new(),
        }
    }

    /// Gives it this value and no other; `place` is kept where it has one.
    pub fn fix(&mut self, value: Value) {
        self.values = vec![value];
        self.places.truncate(1);
        self.sampled = false;
        self.span = None;
        self.weights.clear();
    }
}

/// How a parameter that no knob describes is written for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterStyle {
    /// `--name=value`, as an agent of W&B does with `${args}`.
    Dashed,
    /// `name=value`, as Hydra does, and W&B with `${args_no_hyphens}`.
    Bare,
}

/// A sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// How cells are chosen.
    pub method: Method,
    /// How parameters are written for the program.
    pub words: ParameterStyle,
    /// Parameters in the order of the file, none of them empty.
    pub axes: Vec<Axis>,
    /// How many cells are run at most, where the file says so (`run_cap`).
    pub cap: Option<u64>,
    /// The command that each cell runs, where the file says so; `${args}` and its like stand for the parameters.
    pub command: Vec<String>,
}

/// What is wrong with a sweep file.
pub type SweepFault = ConfigError;

/// A file that is being read.
pub(super) struct SweepFile<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

impl SweepFile<'_> {
    pub(super) fn fault(&self, line: u32, column: u32, what: impl Into<String>) -> SweepFault {
        ConfigError::at(self.path, self.text, line, column, what)
    }
}

/// Parameters that one sweep may have.
const MOST_AXES: usize = 256;
/// Values of one parameter.
pub(super) const MOST_VALUES: u32 = 100_000;

impl Sweep {
    /// A sweep of these axes.
    pub(super) fn new(
        method: Method,
        words: ParameterStyle,
        axes: Vec<Axis>,
    ) -> Result<Self, String> {
        match axes.len() {
            0..=MOST_AXES => Ok(Self {
                method,
                words,
                axes,
                cap: None,
                command: Vec::new(),
            }),
            n => Err(format!(
                "the sweep has {n} parameters; the limit is {MOST_AXES}"
            )),
        }
    }

    /// Cells of the whole sweep, of ranges only the values that stand for them; saturates.
    pub fn cells(&self) -> u64 {
        let sizes = self.axes.iter().map(|a| a.values.len() as u64);
        sizes.fold(1, u64::saturating_mul)
    }

    /// The same sweep with every value of the ranges that a grid goes through. The others stay as they are.
    pub fn listed(mut self) -> Self {
        for axis in self.axes.iter_mut().filter(|a| a.sampled) {
            if let Some(all) = axis.span.and_then(|s| s.listed(MOST_VALUES)) {
                axis.values = all;
                axis.sampled = false;
            }
        }
        self
    }

    /// The words of the command of the first cell; none where the file names no program.
    pub fn first_words(&self) -> Vec<String> {
        let arguments = |dashes: &str| {
            let firsts = self
                .axes
                .iter()
                .filter_map(|a| Some((a, a.values.first()?)));
            let words = firsts.map(|(axis, value)| format!("{dashes}{}={value}", axis.name));
            words.collect::<Vec<String>>()
        };
        let words = self.command.iter().flat_map(|word| match word.as_str() {
            "${args_no_hyphens}" => arguments(""),
            word if word.starts_with("${args") => arguments("--"),
            word => vec![word.to_owned()],
        });
        words.collect()
    }

    /// The axis of this name.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|a| a.name == name)
    }
}

/// A scalar as YAML 1.2 or Hydra reads it: whole number, number, true or false, null, else text.
pub(super) fn scalar(text: &str) -> Value {
    match text {
        "null" | "~" | "None" => return Value::Null,
        "true" | "True" => return Value::Bool(true),
        "false" | "False" => return Value::Bool(false),
        _ => {}
    }
    let plain = text.replace('_', "");
    let digits = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    if let Some(whole) = digits.then(|| plain.parse().ok()).flatten() {
        return Value::Int(whole);
    }
    match plain.parse::<f64>() {
        Ok(x) if digits && x.is_finite() => Value::Float(x),
        _ => Value::Text(text.to_owned()),
    }
}

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
        (ValueKind::Int, Value::Float(x)) if x.fract() == 0.0 && x.abs() < 9e15 => {
            Ok(Value::Int(*x as i64))
        }
        _ => kind.parse(&value.to_string()),
    }
}

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
