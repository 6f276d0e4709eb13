//! A knob: one named parameter of a training stack, as its preset declares it.

use std::collections::BTreeMap;

use oomctl_base::{Effect, Role, Value, ValueKind};
use schemars::JsonSchema;
use semver::{Version, VersionReq};
use serde::Deserialize;

use oomctl_scripts::{SettingsReader, Spelling};

/// What stands in a file of `oomctl init` where only the user knows the value.
pub const MARK: &str = "FILL_IN";

/// A scalar as written in a preset: parsed later as the knob's kind.
#[derive(Debug, Clone, PartialEq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Names to texts.
    Map(BTreeMap<String, String>),
}

/// What differs for some versions of the framework. The first entry whose range holds wins; a field
/// left out keeps the knob's own.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionedKnob {
    /// Range of versions, in semver's notation (`>=0.4.0, <0.6.0`).
    #[schemars(with = "String")]
    pub versions: VersionReq,
    /// Spelling in these versions.
    pub spelling: Option<Spelling>,
    /// Default in these versions.
    pub default: Option<Scalar>,
    /// True when the parameter does not exist in these versions: it is not rendered, and setting it is an error.
    #[serde(default)]
    pub absent: bool,
    /// Remark shown by `explain`.
    pub note: Option<String>,
}

/// What the framework takes where a command leaves a knob out; unset without `default` and `default_expr`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub struct FrameworkDefault {
    /// Range of versions; absent: all.
    #[schemars(with = "Option<String>")]
    pub versions: Option<VersionReq>,
    /// The value.
    pub default: Option<Scalar>,
    /// Expression for the value; wins over `default`.
    pub default_expr: Option<String>,
}

/// A knob, as declared in a preset or knob set.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// The framework's own name, shortened where it stays unique. Dots make groups in templates and expressions.
    pub name: String,
    /// What it means to ladder, rules and memory model.
    pub role: Option<Role>,
    /// How it is handed over.
    pub spelling: Option<Spelling>,
    /// Who reads it, where others have an option or a key of the same name.
    #[serde(default)]
    pub reader: SettingsReader,
    /// Kind of value.
    #[serde(rename = "type")]
    pub kind: ValueKind,
    /// `sequences`, `tokens`, `GPUs`, …
    pub unit: Option<String>,
    /// Least value.
    pub min: Option<f64>,
    /// Greatest value.
    pub max: Option<f64>,
    /// The only values allowed.
    #[serde(default)]
    pub choices: Vec<String>,
    /// What each of them means, in a line.
    #[serde(default)]
    pub choice_docs: BTreeMap<String, String>,
    /// For text that goes where no quoting exists (an `#SBATCH` line): a regular expression that
    /// the whole text must match.
    pub pattern: Option<String>,
    /// Value when no layer sets one; absent means null: nothing is rendered.
    pub default: Option<Scalar>,
    /// Expression for the value when no layer sets one; wins over `default`.
    pub default_expr: Option<String>,
    /// What the framework takes in a script or command that leaves the knob out, where the templates hand over another
    /// value. The first entry whose range holds counts.
    #[serde(default)]
    pub framework_default: Vec<FrameworkDefault>,
    /// What moving it does to the experiment.
    #[serde(default)]
    pub effect: Effect,
    /// True for a value that users must give.
    #[serde(default)]
    pub required: bool,
    /// Phases of an incident in which it changes how much GPU memory is needed (`backward`, `wake_up`); an empty list
    /// for a knob that frees none by itself. Absent where nobody has looked: then it may act in each.
    pub acts_on: Option<Vec<String>>,
    /// Expression; when it is false the knob is not handed over (`not use_dynamic_bsz`).
    pub render_when: Option<String>,
    /// One sentence for `explain` and the starter file.
    pub doc: String,
    /// Where the default and the meaning were read.
    pub source: Option<String>,
    /// Differences by version.
    #[serde(default)]
    pub by_version: Vec<VersionedKnob>,
}

impl Knob {
    /// What it takes, for somebody who gave it something else.
    pub fn takes(&self) -> String {
        let end = |end: f64| Value::from_number(self.kind, end);
        let range = match (self.min.map(end), self.max.map(end)) {
            (Some(min), Some(max)) => format!(" from {min} to {max}"),
            (Some(min), None) => format!(" from {min} up"),
            (None, Some(max)) => format!(" up to {max}"),
            (None, None) => String::new(),
        };
        let what = match (&self.pattern, &self.choices[..]) {
            (_, choices @ [_, ..]) => format!("one of {}", choices.join(", ")),
            (Some(pattern), []) => format!("{} of the form {pattern}", self.kind.noun()),
            (None, []) => format!("{}{range}", self.kind.noun()),
        };
        format!("{} takes {what}: {}", self.name, self.doc)
    }
}

/// A default as written in YAML, as a value of the knob's kind.
///
/// # Errors
/// What was expected.
pub fn default_value(kind: ValueKind, scalar: &Scalar) -> Result<Value, String> {
    match (kind, scalar) {
        (ValueKind::List, Scalar::List(items)) => Ok(Value::List(items.clone())),
        (ValueKind::List, Scalar::Map(map)) if map.is_empty() => Ok(Value::List(Vec::new())),
        (ValueKind::Map, Scalar::Map(map)) => Ok(Value::Map(map.clone())),
        (ValueKind::List | ValueKind::Map, _) | (_, Scalar::List(_) | Scalar::Map(_)) => {
            Err(format!("expected {}", kind.noun()))
        }
        (_, Scalar::Bool(b)) => kind.parse(if *b { "true" } else { "false" }),
        (_, Scalar::Int(i)) => kind.parse(&i.to_string()),
        (_, Scalar::Float(x)) => kind.parse(&x.to_string()),
        (_, Scalar::Text(t)) => kind.parse(t),
    }
}

/// The knob as the framework takes it where a command leaves it out.
pub(super) fn left_out(mut knob: Knob, version: Option<&Version>) -> Knob {
    let holds = |range: &VersionReq| version.is_none_or(|v| range.matches(v));
    let mut entries = knob.framework_default.drain(..);
    let entry = entries.find(|d| d.versions.as_ref().is_none_or(holds));
    drop(entries);
    if let Some(FrameworkDefault {
        default,
        default_expr,
        ..
    }) = entry
    {
        (knob.default, knob.default_expr) = (default, default_expr);
        knob.by_version.iter_mut().for_each(|v| v.default = None);
    }
    knob
}

/// The knob where the version is not known: without a default that other versions have the other way round. A number keeps
/// its own, for a rung needs one to begin with.
pub(super) fn of_any_version(mut knob: Knob) -> Knob {
    let other = |v: &VersionedKnob| {
        v.default
            .as_ref()
            .is_some_and(|d| Some(d) != knob.default.as_ref())
    };
    if knob.kind == ValueKind::Bool && knob.default.is_some() && knob.by_version.iter().any(other) {
        knob.default = None;
        knob.by_version.iter_mut().for_each(|v| v.default = None);
    }
    knob
}

/// The knob as it is in `version`, or its name and remark when it does not exist there.
pub(super) fn at_version(
    mut knob: Knob,
    version: Option<&Version>,
) -> Result<Knob, (String, Option<String>)> {
    let Some(version) = version else {
        return Ok(knob);
    };
    let Some(entry) = knob
        .by_version
        .iter()
        .find(|v| v.versions.matches(version))
        .cloned()
    else {
        return Ok(knob);
    };
    if entry.absent {
        return Err((knob.name, entry.note));
    }
    knob.spelling = entry.spelling.or(knob.spelling);
    if entry.default.is_some() {
        knob.default = entry.default;
        knob.default_expr = None;
    }
    Ok(knob)
}
