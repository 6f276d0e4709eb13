//! Rungs as a preset declares them: what each moves, when it answers, what it costs.

use schemars::JsonSchema;
use semver::VersionReq;
use serde::Deserialize;

use super::knob::{Knob, Scalar};
use super::when_text::WhenText;
use oomctl_base::{Effect, Role};

/// A rung, as declared. In a preset's ladder its name alone stands for a rung of a knob set.
#[derive(Debug, Clone, PartialEq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RungSpec {
    /// Name (`halve-batches`).
    pub rung: String,
    /// What it does, for people.
    #[serde(default)]
    pub title: String,
    /// Classes of incident that it answers, by their names (`gpu_oom`, `host_oom`).
    #[serde(default = "gpu_memory_classes")]
    pub answers: Vec<String>,
    /// Expression over knobs, derived values, `cluster` and `incident`; the rung is skipped where
    /// it is false, with `when_text` as the reason.
    pub when: Option<String>,
    /// Reason shown when `when` is false; or a list, one for each part that `and` joins, of which the first that does not hold is
    /// shown.
    pub when_text: Option<WhenText>,
    /// What the rung as a whole does to the experiment, where its moves make up for each other (the
    /// batch halved, the accumulation doubled); else the strongest effect of the knobs that it moves.
    pub effect: Option<Effect>,
    /// Why its effect on training is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// The moves, in the order of importance.
    #[serde(default)]
    pub moves: Vec<Move>,
    /// Roles whose knobs may be lowered further to keep the configuration legal, the last one first; with more GPUs they may
    /// also be raised by as much.
    #[serde(default)]
    pub adjust: Vec<Role>,
    /// Cases in which the rung is proven to be useless or harmful.
    #[serde(default)]
    pub useless: Vec<Useless>,
    /// How often it may be taken in one run.
    #[serde(default = "once")]
    pub laps: u32,
    /// Remarks printed when the rung is taken (templates).
    #[serde(default)]
    pub notes: Vec<String>,
    /// Packages that it needs beside the framework, by the names under which they are installed (`liger-kernel`). The rung is
    /// skipped where the job's environment is known to lack one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// True when the rung changes the number of GPUs or the sharding, so that checkpoints may no
    /// longer load.
    #[serde(default)]
    pub reshards: bool,
    /// Share of its speed that a job loses by one lap, from 0 (none) to below 1; unset where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower: Option<f64>,
}

/// A step that takes more memory and makes the job faster: the ladder's other direction.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Share of a training step's time that it saves, 0 to 1; each further lap saves half as much.
    pub gain: f64,
    /// Where the gain comes from: a measurement, or the arithmetic.
    pub because: String,
    /// The step, in the form of a rung.
    pub step: RungSpec,
}

/// One move of a rung. Exactly one of `role` and `knob`, exactly one of `times`, `plus`, `to` and
/// `to_expr`.
#[derive(Debug, Clone, PartialEq, Deserialize, serde::Serialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Move {
    /// All knobs of this role.
    pub role: Option<Role>,
    /// This knob.
    pub knob: Option<String>,
    /// Multiplied by.
    pub times: Option<f64>,
    /// Added.
    pub plus: Option<f64>,
    /// Set to.
    pub to: Option<Scalar>,
    /// Set to the value of this expression; null leaves the knob as it is.
    pub to_expr: Option<String>,
    /// Never below this number or expression.
    pub floor: Option<NumberOrExpr>,
    /// Never above this number or expression (`cluster.gpus_per_node`).
    pub ceiling: Option<NumberOrExpr>,
    /// Makes room for the others but is no reason to take the rung: when only such moves remain,
    /// the rung is skipped.
    pub along: bool,
}

/// A number, or an expression that gives one.
#[derive(Debug, Clone, PartialEq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NumberOrExpr {
    /// A number.
    Number(f64),
    /// An expression; null means no bound.
    Expr(String),
}

/// A case in which a rung is useless or harmful, with its proof.
#[derive(Debug, Clone, PartialEq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Useless {
    /// Expression over knobs, derived values, `cluster` and `incident` (`incident.phase`).
    pub when: String,
    /// Versions for which it is proven.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub versions: Option<VersionReq>,
    /// Why, shown to the user, with the source.
    pub because: String,
    /// The rung would change training there, so where this is unknown, that is unknown, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_training: bool,
}

fn once() -> u32 {
    1
}

impl RungSpec {
    /// Whether it moves a knob of this name and role.
    pub fn moves(&self, knob: &str, role: Option<Role>) -> bool {
        let named =
            |m: &Move| m.knob.as_deref() == Some(knob) || m.role.is_some() && m.role == role;
        self.moves.iter().any(named)
    }

    /// Its name beside a knob that it moves, with what it does as a whole where that is not what the knob does alone.
    pub fn beside(&self, alone: Effect) -> String {
        match self.effect.filter(|whole| *whole != alone) {
            Some(whole) => format!("{} ({} as a whole)", self.rung, whole.describe()),
            None => self.rung.clone(),
        }
    }

    /// Every expression of the rung.
    pub(super) fn expressions(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.when.iter().map(String::as_str).collect();
        all.extend(self.useless.iter().map(|u| u.when.as_str()));
        for step in &self.moves {
            all.extend(step.to_expr.iter().map(String::as_str));
            for bound in [&step.floor, &step.ceiling].into_iter().flatten() {
                if let NumberOrExpr::Expr(text) = bound {
                    all.push(text);
                }
            }
        }
        all
    }

    /// What is wrong with it by itself.
    pub fn faults(&self) -> impl Iterator<Item = &'static str> {
        let slower = self.slower.filter(|s| !(0.0..1.0).contains(s));
        let moves = self.moves.iter().filter_map(Move::fault);
        let nothing = self.moves.is_empty() || self.title.is_empty();
        let nothing = nothing
            .then_some("it needs moves and a title, because no knob set has a rung of this name");
        let slower = slower.map(|_| "slower is a share, at least 0 and below 1");
        let text = self.when_text.as_ref();
        let unequal =
            text.is_some_and(|text| !text.suits(self.when.as_deref().unwrap_or_default()));
        let unequal =
            unequal.then_some("when_text needs one reason, or one for each part that `and` joins");
        moves.chain(slower).chain(nothing).chain(unequal)
    }
}

impl Move {
    /// What is missing or given twice.
    fn fault(&self) -> Option<&'static str> {
        if self.role.is_some() == self.knob.is_some() {
            return Some("a move names either a role or a knob");
        }
        let forms = [
            self.times.is_some(),
            self.plus.is_some(),
            self.to.is_some(),
            self.to_expr.is_some(),
        ];
        let one = forms.iter().filter(|f| **f).count() == 1;
        (!one).then_some("a move has exactly one of times, plus, to and to_expr")
    }
}

fn gpu_memory_classes() -> Vec<String> {
    vec!["gpu_oom".to_owned(), "engine_memory".to_owned()]
}

/// The strongest effect of some knobs: what a rung that moves them does to the experiment.
pub fn strongest_effect<'a>(knobs: impl Iterator<Item = &'a Knob>) -> Effect {
    knobs.map(|k| k.effect).max().unwrap_or_default()
}
