//! Sweeps that were submitted: their runs, by the name of the sweep.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use super::Runs;
use crate::core::engine::RunPhase;
use crate::drive::{Handle, Supervisor, SweepRecord};
use crate::io::scheduler::tasks_named;
use crate::view::CommandFailure;
use oomctl_base::job::JobId;

impl Runs {
    /// What is meant, each once: names of sweeps and ids of job arrays are replaced by the names of their runs. And the sweeps.
    pub fn expand(
        &self,
        wanted: &[String],
    ) -> Result<(Vec<String>, Vec<SweepRecord>), CommandFailure> {
        let (mut names, mut sweeps) = (Vec::new(), Vec::new());
        let jobs = LazyCell::new(|| self.jobs());
        for name in wanted {
            if let Some(record) = SweepRecord::read(self.project(), name)? {
                // Some may have been pruned.
                let there = |name: &&String| self.dir().join(name.as_str()).exists();
                names.extend(record.sweep_group.runs.iter().filter(there).cloned());
                sweeps.push(record);
                continue;
            }
            let before = names.len();
            // The runs whose jobs are tasks of the array that is meant by its id, or by a list of its tasks.
            if let Some(is_meant) = tasks_named(name) {
                let meant = jobs.iter().filter(|(_, jobs)| jobs.iter().any(&is_meant));
                names.extend(meant.map(|(run, _)| run.clone()));
                let sweep = names.get(before).and_then(|run| self.sweep_of(run));
                sweeps.extend(sweep.filter(|sweep| !sweeps.contains(sweep)));
            }
            if names.len() == before {
                names.push(name.clone());
            }
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Ok((names, sweeps))
    }

    /// The sweep of which a run is.
    fn sweep_of(&self, run: &str) -> Option<SweepRecord> {
        let (sweep, _) = run.rsplit_once(['_', '.'])?;
        let record = SweepRecord::read(self.project(), sweep).ok().flatten()?;
        record
            .sweep_group
            .runs
            .iter()
            .any(|r| r == run)
            .then_some(record)
    }

    /// Is there a sweep or a run of this name?
    pub fn is_taken(&self, name: &str) -> bool {
        let folder = SweepRecord::folder(self.project(), name);
        folder.is_ok_and(|f| f.exists()) || self.dir().join(name).exists()
    }

    /// Every run with its jobs; one that cannot be read has none.
    fn jobs(&self) -> Vec<(String, Vec<JobId>)> {
        let of = |name: String| {
            let stored = self.open(&name).ok()?;
            let attempts = stored.history.attempts.into_iter();
            Some((name, attempts.filter_map(|a| Some(a.job?.id)).collect()))
        };
        let names = self.names().unwrap_or_default();
        names.into_iter().filter_map(of).collect()
    }
}

/// The next command after a sweep was submitted.
pub fn next_step(supervisor: &Supervisor, record: &SweepRecord) -> String {
    let sweep = &record.sweep;
    if record.sweep_group.is_array {
        return format!("array {sweep}; next: oomctl watch {sweep}");
    }
    let waiting = |h: &&Handle| h.history().phase() == RunPhase::Preparing(1);
    match supervisor.runs().filter(waiting).count() {
        0 => format!("sweep {sweep}; next: oomctl watch {sweep}"),
        n => format!(
            "sweep {sweep}; {n} of its runs wait for others to end; keep `oomctl watch {sweep}` running"
        ),
    }
}
