//! Advice about the GPUs that only the project of this folder can give.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::cli::args::Configuration;
use crate::cli::request::load;
use crate::cli::session::{PROJECT_FILE, Session};
use crate::view::print;
use oomctl_base::units::{Bytes, GIB};
use oomctl_gpu::{GpuAdvice, Machine, fragmented, too_small};

/// Advice for who stands in a project. A project that cannot be read, or whose memory is not known, has none: the
/// GPUs are shown all the same.
pub fn advice(machine: &Machine) -> Vec<GpuAdvice> {
    let in_project = std::env::current_dir()
        .is_ok_and(|here| here.ancestors().any(|dir| dir.join(PROJECT_FILE).is_file()));
    if !in_project || machine.gpus.is_empty() {
        return Vec::new();
    }
    let Ok(session) = Session::open(None) else {
        return Vec::new();
    };
    let all = [
        job_too_large(&session, machine),
        last_out_of_memory(&session),
    ];
    all.into_iter().flatten().collect()
}

/// Says that the kernel's log cannot be read, where that is so: mostly it takes root.
pub fn no_xids(machine: &Machine) {
    if let Some(why) = &machine.kernel_log_error {
        print::talk(&format!(
            "no Xids: cannot read the kernel's log ({why}); give a copy with --kernel-log FILE"
        ));
    }
}

/// The job as it would be submitted from here needs more than a GPU of this machine has.
fn job_too_large(session: &Session, machine: &Machine) -> Option<GpuAdvice> {
    let flags = Configuration::default();
    let request = load::request(session, &flags, "gpus", &[]).ok()?;
    let estimate = request.estimate(&[])?.ok()?;
    too_small(machine, Bytes::from_gib(estimate.low_bytes / GIB))
}

/// The last run died of an out-of-memory while the allocator held enough that it did not use.
fn last_out_of_memory(session: &Session) -> Option<GpuAdvice> {
    let folder = session.runs.dir();
    let changed = |name: &String| -> Option<SystemTime> {
        let ledger: PathBuf = folder.join(name).join("ledger.jsonl");
        std::fs::metadata(ledger).ok()?.modified().ok()
    };
    let name = session.runs.names().ok()?.into_iter().max_by_key(changed)?;
    let stored = session.runs.open(&name).ok()?;
    let incident = stored.history.attempts.last()?.incident.as_ref()?;
    fragmented(
        &name,
        incident.requested_bytes?,
        incident.reserved_unallocated_bytes?,
    )
}
