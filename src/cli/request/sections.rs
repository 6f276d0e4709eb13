//! Sections of configuration files with fixed fields.

use crate::core::config::ConfigDocument;
use crate::core::recipe::{ClusterFacts, LayerKind};
use crate::core::request::{Limits, Notices, Supervision};
use crate::view::CommandFailure;
use oomctl_base::word_list;

/// Fields of `limits` that are written as durations.
pub const LIMIT_DURATIONS: [&str; 1] = ["wall_time"];
/// Fields of `notices` that are written as durations.
pub const NOTICE_DURATIONS: [&str; 2] = ["time_limit", "pause"];
/// Fields of `supervision` that are written as durations.
pub const SUPERVISION_DURATIONS: [&str; 11] = word_list(
    "poll poll_max hang_grace settle drain late_logs stall refused_pause refused_pause_max
     refused_wait never_starts",
);

/// When a run is given up.
pub fn limits(doc: &ConfigDocument) -> Result<Limits, CommandFailure> {
    let limits: Limits = doc.section("limits", &["attempts", "gpu_hours"], &LIMIT_DURATIONS)?;
    match (limits.attempts, doc.get("limits")) {
        (0, Some(node)) => Err(doc
            .fault(node, "`attempts: 0` would submit nothing")
            .hint("write 1 or more: the first attempt counts")
            .into()),
        _ => Ok(limits),
    }
}

pub fn facts(doc: Option<&ConfigDocument>) -> Result<ClusterFacts, CommandFailure> {
    const FIELDS: [&str; 7] =
        word_list("offline gpus_per_node nodes node_memory cpus_per_node time_limit gpu_types");
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
pub fn supervision(doc: &ConfigDocument, backend: &str) -> Result<Supervision, CommandFailure> {
    const PLAIN: [&str; 12] = word_list(
        "node_failure_retries preemption_retries time_limit_retries co_tenant_retries
         late_oom_retries leak_retries resubmit move_dependents exclude_bad_nodes stall_cancel
         watch measure",
    );
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

/// Whom to tell of runs who does not watch: as the project says, or else the user's file, or else the site's.
pub fn notices(
    project: &ConfigDocument,
    outer: &[(LayerKind, ConfigDocument)],
) -> Result<Option<Notices>, CommandFailure> {
    const PLAIN: [&str; 3] = ["on", "command", "at_most"];
    // What the program of the examples does.
    const WAYS: [&str; 3] = ["slack", "ntfy", "mail"];
    let outer = outer.iter().rev().map(|(_, doc)| doc);
    let mut files = std::iter::once(project).chain(outer);
    let Some((doc, node)) = files.find_map(|doc| Some((doc, doc.get("notices")?))) else {
        return Ok(None);
    };
    if let Some((way, value)) = WAYS.iter().find_map(|way| Some((way, node.get(way)?))) {
        let file = "FILE]` (a file with the URL)";
        let to = if *way == "mail" { "ADDRESS]`" } else { file };
        let hint = format!(
            "copy examples/notices/tell.py here and write `command: [./tell.py, {way}, {to}, see docs/notices.md"
        );
        let what = format!("`{way}` is no key of `notices`: your own program sends them");
        return Err(doc.fault(value, what).hint(hint).into());
    }
    let notices: Notices = doc.section("notices", &PLAIN, &NOTICE_DURATIONS)?;
    if notices.on.is_empty() {
        return Ok(None);
    }
    if notices.command.is_empty() {
        let hint = "name a program, `command: [./tell.py, slack]` (docs/notices.md); `on: []` switches notices off";
        return Err(doc
            .fault(node, "`notices` has no `command`")
            .hint(hint)
            .into());
    }
    Ok(Some(notices))
}
