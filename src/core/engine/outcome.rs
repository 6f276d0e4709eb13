//! What follows from an attempt, and how a run ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::exit::Exit;
use crate::core::ladder::{Expectation, Shortfall, Skipped, Step};
use crate::core::recipe::Layer;
use oomctl_base::job::JobState;
use oomctl_base::word_list;

/// Why the same configuration is submitted once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryCause {
    /// A node failed or did not boot.
    NodeFailure,
    /// The job had to make room and the scheduler did not requeue it.
    Preemption,
    /// The time limit was reached.
    TimeLimit,
    /// Somebody else's process held the GPU's memory.
    CoTenant,
    /// GPU memory ran out only after many steps, and there is a checkpoint to go on from.
    LateOom,
    /// Memory rises step by step, and there is a checkpoint to go on from.
    Leak,
    /// A disk was full or failed, and somebody says that it is mended.
    Disk,
    /// Somebody asked for it after the run was over.
    Asked,
}

impl RetryCause {
    /// The setting under `supervision:` that says how often; None where none does.
    pub fn setting(self) -> Option<&'static str> {
        match self {
            Self::NodeFailure => Some("node_failure_retries"),
            Self::Preemption => Some("preemption_retries"),
            Self::TimeLimit => Some("time_limit_retries"),
            Self::CoTenant => Some("co_tenant_retries"),
            Self::LateOom => Some("late_oom_retries"),
            Self::Leak => Some("leak_retries"),
            Self::Disk | Self::Asked => None,
        }
    }
}

impl std::fmt::Display for RetryCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NodeFailure => "node failure",
            Self::Preemption => "preemption",
            Self::TimeLimit => "time limit",
            Self::CoTenant => "GPU memory that was already in use",
            Self::LateOom => "an out-of-memory at a late step",
            Self::Leak => "memory that leaks",
            Self::Disk => "a disk that was full or failed",
            Self::Asked => "a retry that was asked for",
        })
    }
}

/// A bound of a run that was reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Attempts in all.
    Attempts {
        /// The bound.
        limit: u32,
    },
    /// Time since its first attempt was written down.
    WallTime {
        /// The bound in seconds.
        limit_s: u64,
    },
    /// GPU-hours over all attempts.
    GpuHours {
        /// The bound.
        limit: f64,
    },
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Attempts { limit: 1 } => f.write_str("1 attempt"),
            Self::Attempts { limit } => write!(f, "{limit} attempts"),
            Self::WallTime { limit_s } => write!(f, "{limit_s} s of wall time"),
            Self::GpuHours { limit } => write!(f, "{limit} GPU-hours"),
        }
    }
}

/// Rungs that are taken back: the program did not start with them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawn {
    /// The attempt whose configuration the next one is made from.
    pub to: u32,
    /// The rungs that are not taken again in this run.
    pub rungs: Vec<String>,
    /// What the program died of, in one line.
    pub because: String,
}

impl Withdrawn {
    /// As reasons to pass the rungs over, which this attempt's program refused.
    pub fn skipped(&self, attempt: u32) -> impl Iterator<Item = Skipped> {
        self.rungs.iter().map(move |rung| {
            Skipped::new(
                rung,
                format!("attempt {attempt} failed with it: {}", self.because),
            )
        })
    }
}

/// What follows from an attempt that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Another attempt with further rungs.
    Climb {
        /// The rungs with the values that they give, in the order in which they are put on the stack.
        steps: Vec<Step>,
        /// Rungs passed over, with reasons.
        skipped: Vec<Skipped>,
        /// What the memory model expects of the result, where it could be asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expects: Option<Expectation>,
        /// Rungs that are taken back first, where the program refused them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withdrawn: Option<Withdrawn>,
    },
    /// Another attempt with the same configuration.
    Again {
        /// Why.
        cause: RetryCause,
        /// Nodes to stay away from.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        exclude: Vec<String>,
        /// The layer that says so, where the stack has a knob for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        layer: Option<Box<Layer>>,
    },
    /// The run ends.
    End {
        /// How.
        outcome: Outcome,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The job did its work.
    Succeeded,
    /// It failed for a reason that resubmission cannot mend.
    Failed {
        /// What happened, in one line.
        reason: String,
        /// Rungs that were looked at and why none of them helps.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<Skipped>,
    },
    /// Still out of GPU memory, and no rung is left.
    Exhausted {
        /// Every rung with its reason.
        skipped: Vec<Skipped>,
        /// What would fit, where the memory model says that nothing within reach does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortfall: Option<Shortfall>,
    },
    /// The scheduler refused the submission.
    Refused {
        /// The scheduler's own words.
        reason: String,
        /// What the user can do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// The rung whose configuration was refused; `None` for the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rung: Option<String>,
        /// True for a program of `oomctl run`, which no scheduler refuses: it could not be started.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        program: bool,
    },
    /// The attempt could not be configured or rendered.
    Configuration {
        /// What is wrong.
        reason: String,
    },
    /// A time limit, preemption or node failure, with the retries used up.
    RetriesSpent {
        /// Why the last attempt ended.
        cause: RetryCause,
        /// The scheduler's word for it.
        state: JobState,
        /// How many retries there were.
        retries: u32,
        /// The setting under `supervision:` that allows none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        setting: Option<String>,
    },
    /// A bound of the run was reached.
    BudgetSpent {
        /// Which.
        budget: Budget,
    },
    /// It was not run: its memory is surely no smaller than that of another one, which failed.
    Pruned {
        /// The run that failed.
        by: String,
        /// Why that says it, in one line.
        reason: String,
    },
    /// Somebody cancelled it.
    Cancelled {
        /// Who, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

impl Outcome {
    /// How a command ends that waited for this end.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Succeeded => Exit::Success,
            Self::Failed { .. } => Exit::Failed,
            Self::Exhausted { .. } | Self::Pruned { .. } => Exit::StillOutOfMemory,
            Self::Refused { .. } => Exit::Refused,
            Self::Configuration { .. } => Exit::Configuration,
            Self::RetriesSpent { .. } => Exit::RetriesSpent,
            Self::BudgetSpent { .. } => Exit::BudgetSpent,
            Self::Cancelled { .. } => Exit::Cancelled,
        }
    }

    /// Its exit code.
    pub fn exit_code(&self) -> u8 {
        self.exit().code()
    }

    /// The gravest of several: the one that wants somebody first. What no further attempt can mend stands before
    /// memory that does not suffice, that before bad luck, and that before an end that was asked for.
    pub fn gravest<'a>(outcomes: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        outcomes.into_iter().min_by_key(|outcome| match outcome {
            Self::Configuration { .. } => 0,
            Self::Refused { .. } => 1,
            Self::Failed { .. } => 2,
            Self::Exhausted { .. } => 3,
            Self::Pruned { .. } => 4,
            Self::RetriesSpent { .. } => 5,
            Self::BudgetSpent { .. } => 6,
            Self::Cancelled { .. } => 7,
            Self::Succeeded => 8,
        })
    }

    /// All the words.
    pub const WORDS: [&str; 9] = word_list(
        "succeeded failed exhausted refused configuration retries_spent budget_spent pruned cancelled",
    );

    /// One word for tables and JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Exhausted { .. } => "exhausted",
            Self::Refused { .. } => "refused",
            Self::Configuration { .. } => "configuration",
            Self::RetriesSpent { .. } => "retries_spent",
            Self::BudgetSpent { .. } => "budget_spent",
            Self::Pruned { .. } => "pruned",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_of_several_does_not_depend_on_their_order() {
        let failed = Outcome::Failed {
            reason: "NameError".to_owned(),
            skipped: Vec::new(),
        };
        let refused = Outcome::Refused {
            reason: "Invalid account".to_owned(),
            hint: None,
            rung: None,
            program: false,
        };
        let cancelled = Outcome::Cancelled { by: None };
        let mut all = [&Outcome::Succeeded, &cancelled, &failed, &refused];
        assert_eq!(Outcome::gravest(all), Some(&refused));
        all.reverse();
        assert_eq!(Outcome::gravest(all), Some(&refused));
        assert_eq!(
            Outcome::gravest([&cancelled, &Outcome::Succeeded]),
            Some(&cancelled)
        );
        assert_eq!(Outcome::gravest([]), None);
    }
}
