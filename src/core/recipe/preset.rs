//! A preset: a framework's knobs, the rules between them, its ladder, its templates.
//!
//! Plain YAML, embedded in the binary, overridable by a file of the same name in the project. A new
//! framework is a preset and templates, no Rust.

use oomctl_scripts::Recognise;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use semver::{Version, VersionReq};
use serde::Deserialize;

use super::checkpoint::Checkpoint;
use super::formulas::Formulas;
use super::knob::{Knob, Scalar};
use super::rung::{RungSpec, Tuning};
use crate::core::measure::FigureSpec;

/// A preset file, as written.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PresetFile {
    /// Name; equals the file's name without `.yaml`.
    pub preset: String,
    /// One line for `oomctl presets`.
    pub summary: String,
    /// Versions of the framework that the preset knows.
    pub framework: Option<Framework>,
    /// Names of knob sets (`presets/sets/NAME.yaml`) that are included: what the preset says itself wins.
    #[serde(default)]
    pub uses: Vec<String>,
    /// Files of an attempt; none for a preset that is only there for scripts that people have.
    #[serde(default)]
    pub files: Vec<FileSpec>,
    /// Knobs, in the order in which they are rendered.
    pub knobs: Vec<Knob>,
    /// Named values computed from knobs, each usable by those after it, by rules and by templates.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// What must hold between knobs.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// The ladder, first rung first.
    #[serde(default)]
    pub ladder: Vec<RungSpec>,
    /// What makes a job that fits faster, for more memory.
    #[serde(default)]
    pub tune: Vec<Tuning>,
    /// What makes a job short, so that it can try a configuration.
    pub probe: Option<ProbeSpec>,
    /// Regular expressions with a group `step` and perhaps `total`, which find training progress.
    #[serde(default)]
    pub progress: Vec<String>,
    /// Figures of memory and times of steps that the framework prints about itself.
    #[serde(default)]
    pub measures: Vec<FigureSpec>,
    /// What is known about checkpoints.
    pub checkpoint: Option<Checkpoint>,
    /// How its knobs tell the memory model what it needs to know.
    pub memory: Option<MemoryFields>,
    /// Memory by formulas of its own, for programs that the memory model does not describe.
    pub formulas: Option<Formulas>,
    /// How programs spell its knobs, for those whose command is given: one map (knob to `key`, `--flag` or
    /// `env:NAME`) for each way.
    #[serde(default)]
    pub spellings: Vec<BTreeMap<String, String>>,
    /// By what a program of the framework is known in a script of the user's own.
    #[serde(default)]
    pub recognise: Recognise,
}

/// How a preset makes a job short, as written.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeSpec {
    /// The knob that ends the job after so many training steps.
    pub steps: String,
    /// What else is set in such a job: no checkpoints, no validation, no resuming. Knobs that the version lacks
    /// are passed over.
    #[serde(default)]
    pub set: BTreeMap<String, Scalar>,
}

/// A bridge from knobs to the memory model: the fields of a bare specification as expressions.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryFields {
    /// Name of the memory profile (`presets/memory/NAME.yaml`).
    pub profile: String,
    /// Expression over knobs and derived values, by field; `none` where the value is unknown.
    pub fields: BTreeMap<String, String>,
    /// Fields that a job script may leave open, each with the knob that says it: no default stands in for them, the user
    /// is asked (`--set KNOB=VALUE`).
    #[serde(default)]
    pub asks: BTreeMap<String, String>,
    /// Programs that the model does not describe: nothing is asked of them. An expression and the reason, each.
    #[serde(default)]
    pub not_for: Vec<Reason>,
}

/// An expression, and what is said where it holds.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Expression over knobs and derived values.
    pub when: String,
    /// What it means, as a sentence.
    pub because: String,
}

/// The framework behind a preset.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    /// Its name, as in messages.
    pub name: String,
    /// Names of its package, as pip and modules have them.
    #[serde(default)]
    pub packages: Vec<String>,
    /// True for one that others build on: its frames stand in their tracebacks too, and tell nothing beside theirs.
    #[serde(default)]
    pub library: bool,
    /// The top-level key of `oomctl.yaml` that picks the version (`verl_version`).
    pub version_key: String,
    /// Version when the project names none.
    #[schemars(with = "String")]
    pub default_version: Version,
    /// Versions that the preset describes.
    #[schemars(with = "String")]
    pub supported: VersionReq,
    /// The release from which it leaves it to models to divide their loss by the accumulation.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub models_divide_since: Option<Version>,
}

/// One file that an attempt consists of.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Name in the attempt's folder.
    pub name: String,
    /// Template, below `templates/`.
    pub template: Option<String>,
    /// Instead of a template: the knob that holds the path of a YAML file of the user's. The attempt gets a copy, with the values of the
    /// knobs that stand in it.
    pub copy: Option<String>,
    /// The one that is handed to the scheduler.
    #[serde(default)]
    pub entry: bool,
}

impl FileSpec {
    /// The file that stands for all that a job is made of, where the ladder compares two configurations.
    pub fn stand_in(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            template: Some(name.to_owned()),
            copy: None,
            entry: true,
        }
    }
}

/// A named value computed from knobs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// Name in expressions and templates.
    pub name: String,
    /// Expression.
    pub expr: String,
    /// Range of framework versions; others skip the entry. Several entries of one name: the first
    /// whose range holds.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub versions: Option<VersionReq>,
    /// What it is, with unit.
    pub doc: Option<String>,
}

/// When the framework itself would notice that a rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleStage {
    /// Composing the configuration.
    Compose,
    /// In the driver, before any worker starts.
    Driver,
    /// While workers start, after the model is loaded.
    Init,
    /// In the first training step.
    Step,
    /// In the job script or the scheduler.
    Job,
}

/// What must hold between knobs, in the framework's own arithmetic.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Short name (`train-batch-divisible`).
    pub name: String,
    /// Range of framework versions to which it applies.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub versions: Option<VersionReq>,
    /// Expression; the rule applies where it is true.
    pub when: Option<String>,
    /// Expression that must be true.
    pub must: String,
    /// Message when it is not, a template over knobs and derived values:
    /// `{{ samples }} samples (train_batch_size × rollout.n) cannot be split over {{ world }} GPUs`.
    pub message: String,
    /// What would help, a template.
    pub hint: Option<String>,
    /// When the framework would notice.
    pub stage: RuleStage,
    /// Project, file and version in which the rule was read.
    pub source: String,
}
