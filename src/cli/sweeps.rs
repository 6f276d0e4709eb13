//! Sweeps that were submitted: their runs, by the name of the sweep.

use std::path::Path;

use super::print::Failure;
use super::runs;
use crate::core::supervise::Phase;
use crate::drive::{Handle, Supervisor, SweepRecord};

/// Names with those of sweeps replaced by the names of their runs, and the sweeps.
pub fn expand(
    project: &Path,
    wanted: &[String],
) -> Result<(Vec<String>, Vec<SweepRecord>), Failure> {
    let (mut names, mut sweeps) = (Vec::new(), Vec::new());
    for name in wanted {
        match SweepRecord::read(project, name)? {
            Some(record) => {
                names.extend(record.flock.runs.iter().cloned());
                sweeps.push(record);
            }
            None => names.push(name.clone()),
        }
    }
    Ok((names, sweeps))
}

/// The next command after a sweep was submitted.
pub fn next_step(supervisor: &Supervisor, sweep: &str) -> String {
    let waiting = |h: &&Handle| h.history().phase() == Phase::Preparing(1);
    match supervisor.runs().filter(waiting).count() {
        0 => format!("sweep {sweep}; next: oomctl watch {sweep}"),
        n => format!(
            "sweep {sweep}; {n} of its runs begin as others end, while `oomctl watch {sweep}` runs"
        ),
    }
}

/// Is there a sweep or a run of this name?
pub fn is_taken(project: &Path, name: &str) -> bool {
    let folder = SweepRecord::folder(project, name);
    folder.is_ok_and(|f| f.exists()) || runs::runs_dir(project).join(name).exists()
}
