//! Advice about the GPUs that only the project of this folder can give.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::cli::args::Configuration;
use crate::cli::request::load::{self, PROJECT_FILE, Project};
use crate::cli::runs;
use crate::core::device::{Advice, Machine, fragmented, too_small};
use crate::core::units::{Bytes, GIB};
use crate::view::print;

/// Advice for who stands in a project. A project that cannot be read, or whose memory is not known, has none: the
/// GPUs are shown all the same.
pub fn advice(machine: &Machine) -> Vec<Advice> {
    let in_project = std::env::current_dir()
        .is_ok_and(|here| here.ancestors().any(|dir| dir.join(PROJECT_FILE).is_file()));
    if !in_project || machine.gpus.is_empty() {
        return Vec::new();
    }
    let Ok(project) = load::project(None) else {
        return Vec::new();
    };
    let all = [
        job_too_large(&project, machine),
        last_out_of_memory(&project),
    ];
    all.into_iter().flatten().collect()
}

/// Says that the kernel's log cannot be read, where that is so: mostly it takes root.
pub fn no_xids(machine: &Machine) {
    if let Some(why) = &machine.kernel_log_error {
        print::talk(&format!(
            "Xids are not shown, for the kernel's log cannot be read ({why}); with a copy of it: --kernel-log FILE"
        ));
    }
}

/// The job as it would be submitted from here needs more than a GPU of this machine has.
fn job_too_large(project: &Project, machine: &Machine) -> Option<Advice> {
    let flags = Configuration::default();
    let request = load::request_in(project, &flags, "gpus", &[]).ok()?;
    let estimate = request.estimate(&[])?.ok()?;
    too_small(machine, Bytes::from_gib(estimate.low_bytes / GIB))
}

/// The last run died of an out-of-memory while the allocator held enough that it did not use.
fn last_out_of_memory(project: &Project) -> Option<Advice> {
    let folder = runs::runs_dir(&project.folder);
    let changed = |name: &String| -> Option<SystemTime> {
        let ledger: PathBuf = folder.join(name).join("ledger.jsonl");
        std::fs::metadata(ledger).ok()?.modified().ok()
    };
    let name = runs::names(&project.folder)
        .ok()?
        .into_iter()
        .max_by_key(changed)?;
    let stored = runs::open(&project.folder, &name).ok()?;
    let incident = stored.history.attempts.last()?.incident.as_ref()?;
    fragmented(
        &name,
        incident.requested_bytes?,
        incident.reserved_unallocated_bytes?,
    )
}
