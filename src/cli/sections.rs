//! Sections of configuration files with fixed fields.

use super::print::Failure;
use crate::core::config::Document;
use crate::core::recipe::ClusterFacts;
use crate::core::supervise::{Limits, Supervision};

/// Fields of `limits` that are written as durations.
pub const LIMIT_DURATIONS: [&str; 1] = ["wall_time"];
/// Fields of `supervision` that are written as durations.
pub const SUPERVISION_DURATIONS: [&str; 7] = [
    "poll",
    "poll_max",
    "hang_grace",
    "settle",
    "drain",
    "late_logs",
    "stall",
];

/// When a run is given up.
pub fn limits(doc: &Document) -> Result<Limits, Failure> {
    Ok(doc.section("limits", &["attempts", "gpu_hours"], &LIMIT_DURATIONS)?)
}

pub fn facts(doc: Option<&Document>) -> Result<ClusterFacts, Failure> {
    const FIELDS: [&str; 7] = [
        "offline",
        "gpus_per_node",
        "nodes",
        "node_memory",
        "cpus_per_node",
        "time_limit",
        "gpu_types",
    ];
    let Some(doc) = doc else {
        return Ok(ClusterFacts::default());
    };
    let facts: ClusterFacts = doc.section("facts", &FIELDS, &[])?;
    match (facts.check(), doc.get("facts")) {
        (Err(what), Some(node)) => Err(doc.fault(node, format!("facts: {what}")).into()),
        _ => Ok(facts),
    }
}

/// How the run is supervised. This machine's own jobs cost nothing to ask about, and their logs are
/// on its own disk.
pub fn supervision(doc: &Document, backend: &str) -> Result<Supervision, Failure> {
    const PLAIN: [&str; 8] = [
        "node_failure_retries",
        "preemption_retries",
        "time_limit_retries",
        "co_tenant_retries",
        "late_oom_retries",
        "resubmit",
        "move_dependents",
        "stall_cancel",
    ];
    let mut supervision: Supervision =
        doc.section("supervision", &PLAIN, &SUPERVISION_DURATIONS)?;
    let asked = |key: &str| doc.get("supervision").is_some_and(|n| n.has(key));
    if backend == "local" {
        if !asked("poll") {
            supervision.poll_s = 1;
        }
        if !asked("drain") {
            supervision.drain_s = 0;
        }
    }
    Ok(supervision)
}
