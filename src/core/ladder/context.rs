//! What a climb starts from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::packages::JobEnvironment;
use crate::core::recipe::{ClusterFacts, Layer, Preset, RungSpec, VersionSpan};
use oomctl_base::Effect;

/// How to climb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The declared order, one rung at a time.
    #[default]
    Ladder,
    /// The declared order without rungs that change training.
    SameMath,
    /// Whatever the rungs can move, to the values that cost least and fit with the probability asked for.
    Predict,
    /// Of the answers that ask for more and those that do not, what ends first by queue and speed.
    Soonest,
}

impl Policy {
    /// Whether it takes no rung with this effect.
    pub fn forbids(self, effect: Effect) -> bool {
        self == Self::SameMath && effect.is_other()
    }
}

/// What a climb starts from.
#[derive(Clone, Copy)]
pub struct ClimbContext<'a> {
    /// The preset.
    pub preset: &'a Preset,
    /// The ladder, which a project may have changed.
    pub ladder: &'a [RungSpec],
    /// How to climb.
    pub policy: Policy,
    /// Take the rungs in their declared order, each with all of its moves, whether they help here or not.
    pub whole_rungs: bool,
    /// Facts about the cluster.
    pub cluster: &'a ClusterFacts,
    /// The Python environment of the jobs, where it could be read.
    pub environment: Option<&'a JobEnvironment>,
    /// The versions that the framework can be, where it may be older than that of the preset.
    pub versions: Option<&'a VersionSpan>,
    /// Name of the cluster profile.
    pub cluster_name: Option<&'a str>,
    /// Templates by name.
    pub templates: &'a BTreeMap<String, String>,
    /// Layers below the rungs.
    pub layers: &'a [Layer],
    /// Layers of the rungs taken so far, in order.
    pub rungs: &'a [Layer],
    /// The attempt that failed, from 1.
    pub attempt: u32,
}

impl<'a> ClimbContext<'a> {
    /// The preset's own ladder, rung by rung, after the first attempt.
    pub fn new(
        preset: &'a Preset,
        cluster: &'a ClusterFacts,
        templates: &'a BTreeMap<String, String>,
        layers: &'a [Layer],
        rungs: &'a [Layer],
    ) -> Self {
        Self {
            preset,
            ladder: &preset.ladder,
            policy: Policy::Ladder,
            whole_rungs: false,
            cluster,
            environment: None,
            versions: None,
            cluster_name: None,
            templates,
            layers,
            rungs,
            attempt: 1,
        }
    }
}
