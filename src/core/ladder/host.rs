//! Memory of a node that a job needs beside its GPUs, and how much there is.

use crate::core::recipe::{ClusterFacts, Preset, Values};
use oomctl_base::units::{Bytes, GIB};
use oomctl_base::{Role, Value};
use oomctl_memory::logistic::within;
use oomctl_memory::{Profile, Spec, phases};

/// Bytes that each process of a job has besides what is offloaded: libraries, CUDA's host side, pinned
/// buffers, data. An assumption: no formula names it.
const PROCESS: f64 = 10.0 * GIB;
/// Relative standard deviation of that.
const PROCESS_SPREAD: f64 = 0.25;
/// Relative standard deviation of what is offloaded, which is counted.
const OFFLOAD_SPREAD: f64 = 0.05;

/// What a node must hold, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HostNeed {
    processes: f64,
    offloaded: f64,
}

impl HostNeed {
    /// Of a job with so many GPUs a node; what attempts killed by the host have taught is a factor on it.
    pub fn of(spec: &Spec, gpus_per_node: f64, profile: &Profile) -> Self {
        let of_gpu = phases(spec, profile).first().map_or(0.0, |p| p.host_bytes);
        Self::with(of_gpu, gpus_per_node)
    }

    /// Of a job that keeps so many bytes of the host for each GPU.
    pub fn with(of_gpu: f64, gpus_per_node: f64) -> Self {
        Self {
            processes: PROCESS * gpus_per_node,
            offloaded: of_gpu * gpus_per_node,
        }
    }

    /// Middle, in bytes.
    pub fn bytes(self) -> f64 {
        self.processes + self.offloaded
    }

    /// Probability that so many bytes are enough.
    pub fn fits(self, limit: f64, factor: f64) -> f64 {
        let own = self.processes * PROCESS_SPREAD;
        let sigma = own.hypot(self.offloaded * OFFLOAD_SPREAD) * factor;
        within(limit, self.bytes() * factor, sigma)
    }
}

/// What a preset's knobs and the cluster say about a node.
pub(super) struct NodeResources<'a> {
    gpus: Option<&'a str>,
    memory: Option<&'a str>,
    /// Memory of a node that a job may have, in bytes.
    pub most: Option<f64>,
}

impl<'a> NodeResources<'a> {
    /// The knobs by their roles.
    pub fn new(preset: &'a Preset, cluster: &ClusterFacts) -> Self {
        let knob = |role| preset.with_role(role).next().map(|k| k.name.as_str());
        let most = cluster.node_memory.as_deref();
        Self {
            gpus: knob(Role::GpusPerNode),
            memory: knob(Role::HostMemory),
            most: most.and_then(|t| Bytes::parse(t).ok()).map(Bytes::as_f64),
        }
    }

    /// GPUs of a node with these values.
    pub fn gpus<'v>(&self, value: impl Fn(&str) -> &'v Value) -> f64 {
        match self.gpus.map(value) {
            Some(Value::Int(n)) => n.unsigned_abs() as f64,
            _ => 1.0,
        }
    }

    /// Host memory that a job with these values has, in bytes: what it asks for, else what a node has; `None`
    /// where neither is known.
    pub fn limit<'v>(&self, value: impl Fn(&str) -> &'v Value) -> Option<f64> {
        let asked = match self.memory.map(value) {
            Some(Value::Text(text)) => Bytes::parse(text).ok().filter(|b| b.0 > 0),
            _ => None,
        };
        asked.map(Bytes::as_f64).or(self.most)
    }

    /// The knob that asks for host memory.
    pub fn knob(&self) -> Option<&'a str> {
        self.memory
    }
}

/// The values of knobs, null where there is none.
pub(super) fn in_values<'v>(values: &'v Values) -> impl Fn(&str) -> &'v Value {
    |name| values.get(name).unwrap_or(&Value::Null)
}
