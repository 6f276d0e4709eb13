//! Single lines of the story of a run.

use super::style::{Paint, WARN};
use crate::core::diagnose::sanitize;
use crate::core::job::JobId;
use crate::io::scheduler::Dependent;

/// A job that is ended because it hangs, and what that saves.
pub fn hangs(attempt: u32, quiet_s: u64, saved_gpu_seconds: Option<u64>) -> String {
    #[expect(clippy::cast_precision_loss, reason = "hours for people")]
    let hours = saved_gpu_seconds.map(|s| s as f64 / 3_600.0);
    let saved = hours.map_or_else(String::new, |hours| {
        format!(": up to {hours:.1} GPU-hours until its time limit")
    });
    format!(
        "attempt {attempt}  {} nothing has moved for {quiet_s} s; cancelling the job so that it does \
         not hold the GPUs{saved}",
        Paint(WARN, "hangs:")
    )
}

/// A job that waits for an attempt which job `to` replaces.
pub fn dependent(job: &Dependent, moved: bool, to: &JobId) -> String {
    let waits_for = sanitize(job.waits_for.as_bytes());
    let id = &job.id;
    match moved {
        true => format!("job {id}, which waited for {waits_for}, waits for job {to} now"),
        false => format!(
            "job {id} waits for {waits_for}, which job {to} replaces: `scontrol update JobId={id} \
             Dependency=afterok:{to}`, or `supervision: {{ move_dependents: true }}`"
        ),
    }
}
