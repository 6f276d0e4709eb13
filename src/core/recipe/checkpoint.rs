//! What is known of a framework's checkpoints: whether they are written, what they survive, how they lie on disk.

use std::collections::BTreeMap;

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::knob::{Scalar, default_value};
use super::stack::Preset;

/// The rung as whose doing the choice of a checkpoint is shown.
pub const CHOSEN: &str = "checkpoint";

/// What is known about a framework's checkpoints.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Expression: are checkpoints written at all?
    pub written_when: String,
    /// Expression: would a checkpoint of another number of GPUs load?
    #[serde(default)]
    pub survives_resharding: Option<String>,
    /// What is lost when it would not, for people.
    #[serde(default)]
    pub lost: Option<String>,
    /// What else a checkpoint is bound to: a change is no error, and is not without effect either.
    #[serde(default)]
    pub bound: Vec<Bound>,
    /// How they lie on disk.
    #[serde(default)]
    pub on_disk: Option<OnDisk>,
}

/// Knobs that a checkpoint was counted with.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The knobs.
    pub knobs: Vec<String>,
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
    #[serde(default)]
    pub newest: Option<String>,
    /// Pattern for the whole path of a shard in a checkpoint, with groups `world` and `rank`, and `kind` where there
    /// are several.
    #[serde(default)]
    pub shard: Option<String>,
    /// Files that each must have.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Expression: the number of shards that the present configuration loads.
    #[serde(default)]
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

    /// What is wrong with it on a preset.
    pub(super) fn faults(&self, preset: &Preset) -> Vec<String> {
        let known = |name: &&String| {
            preset.absent.contains_key(*name) || preset.knob(name.as_str()).is_some()
        };
        let bound = self.bound.iter().flat_map(|b| &b.knobs);
        let disk = self.on_disk.iter();
        let set = disk.clone().flat_map(|d| d.from.iter().chain(&d.afresh));
        let named = bound.chain(set.clone().map(|(name, _)| name));
        let mut faults: Vec<String> = named
            .filter(|name| !known(name))
            .map(|name| format!("checkpoint: there is no knob named {name}"))
            .collect();
        for (name, scalar) in set {
            let kind = preset.knob(name).map(|k| k.kind);
            let fault = kind.and_then(|kind| default_value(kind, scalar).err());
            faults.extend(fault.map(|what| format!("checkpoint: {name}: {what}")));
        }
        for disk in disk {
            let shard = disk.shard.iter().map(|p| (p, &["world", "rank"][..]));
            for (pattern, groups) in std::iter::once((&disk.step, &["step"][..])).chain(shard) {
                faults.extend(pattern_fault(pattern, groups));
            }
        }
        faults
    }
}

/// What is wrong with a pattern that must have these groups.
fn pattern_fault(pattern: &str, groups: &[&str]) -> Option<String> {
    let compiled = match Regex::new(pattern) {
        Ok(compiled) => compiled,
        Err(e) => return Some(format!("checkpoint: {e}")),
    };
    let missing = groups
        .iter()
        .find(|group| !compiled.capture_names().flatten().any(|n| n == **group))?;
    Some(format!("checkpoint: `{pattern}` has no group `{missing}`"))
}
