//! What is known about a cluster: the facts of its profile.

use std::collections::BTreeMap;

use minijinja::Value as Jinja;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::knob::Scalar;
use oomctl_base::units::{Bytes, parse_duration_s};

/// Facts of a cluster profile. A fact that is not given is unknown, and nothing is assumed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterFacts {
    /// True where compute nodes reach no network.
    pub offline: bool,
    /// GPUs of a node.
    pub gpus_per_node: Option<u32>,
    /// Nodes that one job may have.
    pub nodes: Option<u32>,
    /// Host memory that a job may ask for on a node.
    pub node_memory: Option<String>,
    /// CPUs of a node.
    pub cpus_per_node: Option<u32>,
    /// Longest time limit.
    pub time_limit: Option<String>,
    /// Types of GPU, smallest memory first.
    pub gpu_types: Vec<GpuType>,
}

/// A type of GPU on a cluster, and how a job asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuType {
    /// Name, for people.
    pub name: String,
    /// Memory of one GPU, as PyTorch reports its total.
    pub memory: String,
    /// Knobs to set for it (`gpu_type: h100`, `partition: big`, `constraint: a100-80`).
    #[serde(default)]
    pub set: BTreeMap<String, Scalar>,
}

impl ClusterFacts {
    /// Checks that sizes and durations can be read.
    ///
    /// # Errors
    /// The first fact that cannot, by name.
    pub fn check(&self) -> Result<(), String> {
        let size = |name: &str, text: &String| {
            Bytes::parse(text)
                .map(drop)
                .map_err(|e| format!("{name}: {e}"))
        };
        if let Some(text) = &self.node_memory {
            size("node_memory", text)?;
        }
        if let Some(text) = &self.time_limit {
            parse_duration_s(text).map_err(|e| format!("time_limit: {e}"))?;
        }
        self.gpu_types
            .iter()
            .try_for_each(|t| size(&format!("gpu_types, {}", t.name), &t.memory))
    }

    /// The facts as `cluster` in expressions and templates; unknown facts are `none`.
    pub fn to_jinja(&self, name: Option<&str>) -> Jinja {
        let bytes = |t: &String| Bytes::parse(t).ok().map(|b| b.0);
        let types: Vec<Jinja> = self
            .gpu_types
            .iter()
            .map(|t| {
                Jinja::from(BTreeMap::from([
                    ("name", Jinja::from(t.name.as_str())),
                    ("memory", Jinja::from(bytes(&t.memory))),
                    ("set", Jinja::from(minijinja::value::Serde(&t.set))),
                ]))
            })
            .collect();
        Jinja::from(BTreeMap::from([
            ("name", Jinja::from(name)),
            ("offline", Jinja::from(self.offline)),
            ("gpus_per_node", Jinja::from(self.gpus_per_node)),
            ("nodes", Jinja::from(self.nodes)),
            (
                "node_memory",
                Jinja::from(self.node_memory.as_ref().and_then(bytes)),
            ),
            ("cpus_per_node", Jinja::from(self.cpus_per_node)),
            (
                "time_limit",
                Jinja::from(
                    self.time_limit
                        .as_ref()
                        .and_then(|t| parse_duration_s(t).ok()),
                ),
            ),
            ("gpu_types", Jinja::from(types)),
        ]))
    }
}
