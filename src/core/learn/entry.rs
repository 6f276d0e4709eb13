//! One thing that was learned: a configuration, and whether it fitted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::job::JobFeatures;
use crate::core::ladder::{Change, Step};
use crate::core::measure::Measured;
use crate::core::recipe::{Layer, LayerKind, Recipe, Setting};
use oomctl_base::{Origin, Value};

/// Version of the entries that this program writes.
pub const ENTRY_VERSION: u32 = 1;

/// One value that a rung changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Value before.
    pub from: Value,
    /// Value after.
    pub to: Value,
}

/// A rung that a configuration was reached by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LearnedRung {
    /// Its name.
    pub rung: String,
    /// What it changed, by knob.
    pub moves: BTreeMap<String, Moved>,
}

impl LearnedRung {
    /// A rung that was taken.
    pub fn of(step: &Step) -> Self {
        let moved = |c: &Change| Moved {
            from: c.from.clone(),
            to: c.to.clone(),
        };
        let moves = step.changes.iter().map(|c| (c.knob.clone(), moved(c)));
        Self {
            rung: step.rung.clone(),
            moves: moves.collect(),
        }
    }

    /// The rungs that learned layers came from, over a recipe without them.
    pub fn learned(layers: &[Layer], asked: &Recipe) -> Vec<Self> {
        let mut now: BTreeMap<&str, &Value> = BTreeMap::new();
        let learned = layers.iter().filter(|l| l.kind == LayerKind::Learned);
        let rungs = learned.filter_map(|layer| {
            let rung = layer.settings.values().find_map(|s| s.origin.rung())?;
            let moves = layer.settings.iter().map(|(knob, setting)| {
                let to = &setting.value;
                let from = now.insert(knob, to).unwrap_or_else(|| asked.value(knob));
                let (from, to) = (from.clone(), to.clone());
                (knob.clone(), Moved { from, to })
            });
            Some(Self {
                moves: moves.collect(),
                rung: rung.to_owned(),
            })
        });
        rungs.collect()
    }

    /// The same as a learned layer, from an attempt of a run.
    pub fn layer(&self, run: &str, attempt: u32) -> Layer {
        let mut layer = Layer::new(LayerKind::Learned);
        let origin = Origin::Learned {
            rung: self.rung.clone(),
            run: run.to_owned(),
            attempt,
        };
        let setting = |moved: &Moved| Setting {
            value: moved.to.clone(),
            origin: origin.clone(),
        };
        let settings = self.moves.iter().map(|(k, m)| (k.clone(), setting(m)));
        layer.settings = settings.collect();
        layer
    }
}

/// How an attempt ended, as far as memory goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It did its work, or trained for long enough.
    Fitted,
    /// It died because a GPU's memory was too small for it.
    Failed {
        /// Kind of the incident.
        kind: String,
        /// Phase of the incident.
        phase: String,
    },
}

/// What one attempt taught.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LearnedEntry {
    /// Token of the attempt; entries of one token are one.
    pub id: String,
    /// The run.
    pub run: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// When it ended.
    pub at: Timestamp,
    /// How it ended.
    #[serde(flatten)]
    pub end: AttemptEnd,
    /// Its configuration, as far as it decides about memory.
    pub job: JobFeatures,
    /// The rungs that led there from what the user asked for, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<LearnedRung>,
    /// What it was measured to need: the fullest GPU alone, and the figures of its logs.
    #[serde(default, skip_serializing_if = "Measured::is_empty")]
    pub measured: Measured,
}

impl LearnedEntry {
    /// Did it fit?
    pub fn fitted(&self) -> bool {
        self.end == AttemptEnd::Fitted
    }
}
