//! A layer: values with one kind of origin. Layers lie on one stack; a rung is a layer too.

use oomctl_base::{Origin, Value};
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which layer of the stack; the order is the order of precedence, lowest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// What follows from the run itself: its name.
    Run,
    /// The program's own configuration file, of which attempts get a copy.
    Program,
    /// Site file (`$OOMCTL_SITE_CONFIG`).
    Site,
    /// User file.
    User,
    /// Cluster profile.
    Cluster,
    /// Dataset profile.
    Dataset,
    /// Project file.
    Project,
    /// Words of the command of a program that `oomctl run` starts.
    Command,
    /// Learned from earlier runs.
    Learned,
    /// `OOMCTL_*` variables.
    Environment,
    /// Point of a sweep.
    Sweep,
    /// `--set`.
    Flags,
    /// An escalation rung.
    Rung,
}

/// One value in a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The value, of the knob's kind.
    pub value: Value,
    /// Where it was given.
    pub origin: Origin,
}

/// A layer: results (`16 → 8` is stored as 8, never as "halve"), by knob name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// Place on the stack.
    pub kind: LayerKind,
    /// Values by knob name.
    pub settings: BTreeMap<String, Setting>,
    /// Knobs that nobody may move, with where that was said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<String, Origin>,
    /// Free-form words handed to the program after the knobs, key to raw text, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// A free-form override that no knob describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
    /// Key as written, with `+`, `++` or `~` where given.
    pub key: String,
    /// Raw text of the value.
    pub value: String,
    /// Where it was given.
    pub origin: Origin,
}

impl Layer {
    /// An empty layer.
    pub fn new(kind: LayerKind) -> Self {
        Self {
            kind,
            settings: BTreeMap::new(),
            pins: BTreeMap::new(),
            overrides: Vec::new(),
        }
    }

    /// Knobs that the program is given a value of which nobody knows.
    pub fn unknown(&self) -> impl Iterator<Item = &String> {
        let says = [LayerKind::Program, LayerKind::Command].contains(&self.kind);
        let pins = self.pins.keys().filter(move |_| says);
        pins.filter(|knob| !self.settings.contains_key(*knob))
    }

    /// Whether it says anything of a knob.
    pub fn gives(&self, knob: &str) -> bool {
        self.settings.contains_key(knob) || self.pins.contains_key(knob)
    }

    /// Whether a value of the program's own is one that the preset has no place for, so that nobody moves it.
    pub fn is_beyond(&self, knob: &str) -> bool {
        let given = self.pins.contains_key(knob) && self.settings.contains_key(knob);
        self.kind == LayerKind::Program && given
    }

    /// Gives a knob a value, whatever it had here before.
    pub fn set(&mut self, knob: impl Into<String>, value: Value, origin: Origin) {
        self.settings.insert(knob.into(), Setting { value, origin });
    }
}
