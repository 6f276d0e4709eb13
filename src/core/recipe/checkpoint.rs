//! What is known of a framework's checkpoints: whether they are written, what they survive, how they lie on disk.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::knob::Scalar;

/// The rung as whose doing the choice of a checkpoint is shown.
pub const CHOSEN: &str = "checkpoint";

/// What is known about a framework's checkpoints.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Expression: are checkpoints written at all?
    pub written_when: String,
    /// Expression: would a checkpoint of another number of GPUs load?
    pub survives_resharding: Option<String>,
    /// What is lost when it would not, for people.
    pub lost: Option<String>,
    /// What else a checkpoint is bound to: a change is no error, and is not without effect either.
    #[serde(default)]
    pub bound: Vec<BoundKnobs>,
    /// How they lie on disk.
    pub on_disk: Option<OnDisk>,
}

impl Checkpoint {
    /// The same for a version; nothing else where none was stated.
    pub(super) fn settled(
        mut self,
        stated: bool,
        here: impl Fn(Option<&semver::VersionReq>) -> bool,
    ) -> Self {
        if !stated {
            return self;
        }
        self.bound.retain(|b| here(b.versions.as_ref()));
        self
    }
}

/// Knobs that a checkpoint was counted with.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Bound")]
pub struct BoundKnobs {
    /// The knobs.
    pub knobs: Vec<String>,
    /// Versions of the framework of which that is so; every one by default. Counts where the version is known.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub versions: Option<semver::VersionReq>,
    /// What a change of one of them does to a run that goes on from a checkpoint, for people.
    pub text: String,
}

/// How checkpoints lie on disk.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnDisk {
    /// Expression: does the program look for the newest one by itself?
    pub used_when: String,
    /// Expression: the folder in which they lie.
    pub folder: String,
    /// Pattern for the whole name of one of them in that folder, with a group `step`.
    pub step: String,
    /// File in that folder that names the newest step; without it the program takes the largest step.
    pub newest: Option<String>,
    /// Pattern for the whole path of a shard in a checkpoint, with groups `world` and `rank`, and `kind` where there
    /// are several.
    pub shard: Option<String>,
    /// Files that each must have.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Expression: the number of shards that the present configuration loads.
    pub world: Option<String>,
    /// Knobs that name the checkpoint to go on from; `{path}` stands for it.
    #[serde(default)]
    pub from: BTreeMap<String, Scalar>,
    /// Knobs that let a run begin at its start.
    #[serde(default)]
    pub afresh: BTreeMap<String, Scalar>,
}

impl Checkpoint {
    /// The expressions in it.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &str> {
        let disk = self.on_disk.iter();
        let disk = disk.flat_map(|d| [&d.used_when, &d.folder].into_iter().chain(&d.world));
        std::iter::once(&self.written_when)
            .chain(&self.survives_resharding)
            .chain(disk)
            .map(String::as_str)
    }
}
