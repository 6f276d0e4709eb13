//! Runs that belong together, the cells of a sweep: which may begin, and which need not, for what became of others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::observation::observation;
use super::outcome::Outcome;
use super::state::{History, Run, RunPhase};
use crate::core::learn::{AttemptEnd, LearnedEntries, LearnedEntry};
use crate::core::request::Request;
use oomctl_base::job::Stage;

/// Runs that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SweepGroup {
    /// Their names, in the order in which they are to begin.
    pub runs: Vec<String>,
    /// How many may be under way at a time; `None` where the scheduler sees to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<usize>,
    /// The scheduler sees to it for the first attempts, the tasks of a job array of the user's own: what is submitted
    /// again waits until fewer than that are left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_array: bool,
}

impl SweepGroup {
    /// The runs that must wait until others of them are over. `runs` has what is known of each; one that is not
    /// in it is left to whoever has it, and takes no place.
    pub fn held(&self, runs: &BTreeMap<&str, &History>) -> BTreeSet<String> {
        let Some(at_once) = self.at_once else {
            return BTreeSet::new();
        };
        let of = |name: &String| runs.get(name.as_str()).map(|history| history.phase());
        let mut waiting = Vec::new();
        let mut under_way = 0;
        for name in &self.runs {
            match of(name) {
                Some(RunPhase::Preparing(n)) if (n == 1) != self.is_array => waiting.push(name),
                None | Some(RunPhase::Finished) => {}
                Some(_) => under_way += 1,
            }
        }
        let free = at_once.max(1).saturating_sub(under_way);
        waiting.into_iter().skip(free).cloned().collect()
    }
}

impl History {
    /// Is it still before anything of it has run, as far as is known, and to be run?
    pub fn is_unstarted(&self) -> bool {
        let waits = match (self.phase(), self.attempt()) {
            (RunPhase::Preparing(1), _) => true,
            (
                RunPhase::Submitting | RunPhase::Searching | RunPhase::Refused | RunPhase::Live,
                Some(first),
            ) => {
                let stage = first.status.as_ref().map(|s| s.state.stage());
                first.number == 1
                    && first.restarts == 0
                    && stage.is_none_or(|s| s == Stage::Waiting)
            }
            _ => false,
        };
        waits && self.pruned.is_none() && self.cancel.is_none()
    }

    /// How a run ends that is not to be started.
    pub(super) fn pruned(&self) -> Option<Outcome> {
        let (by, reason) = self.pruned.clone()?;
        Some(Outcome::Pruned { by, reason })
    }
}

/// What the attempts of a run that are over taught.
pub fn observations(run: &Run) -> Vec<LearnedEntry> {
    let decided = run.history.attempts.iter().filter(|a| a.verdict.is_some());
    decided.filter_map(|a| observation(run, a.number)).collect()
}

/// Why a run need not be started: the run that says so, and how. `None` where it may well fit, or has begun.
pub fn prune(
    request: &Request,
    history: &History,
    memory: &LearnedEntries,
) -> Option<(String, String)> {
    if !history.is_unstarted() {
        return None;
    }
    let entry = request.infeasible(memory)?;
    let AttemptEnd::Failed { kind, phase } = &entry.end else {
        return None;
    };
    let place = match phase.as_str() {
        "" | "unknown" => String::new(),
        phase => format!(" in {phase}"),
    };
    let reason = format!(
        "needs at least as much memory as {}, which failed ({kind}{place}, attempt {}), and so does all that its ladder leads to",
        entry.run, entry.attempt
    );
    Some((entry.run.clone(), reason))
}
