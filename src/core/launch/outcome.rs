//! From the end of an attempt to what comes next.

use serde::{Deserialize, Serialize};

use super::program::{EXCLUDED, Launch};
use crate::core::ladder::{Decision, Skipped, Step};
use crate::core::recipe::Layer;
use oomctl_base::Refusal;
use oomctl_base::job::ExitStatus;
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Exit code and signal of the program.
    pub exit: ExitStatus,
    /// What its output says of its end.
    pub incident: Incident,
    /// Somebody told it to end.
    pub told: bool,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextLaunch {
    /// The program succeeded, was told to end, or failed for a reason that another attempt cannot mend.
    Over,
    /// Another attempt, with these rungs.
    Again {
        /// At least one.
        steps: Vec<Step>,
    },
    /// It died of memory, and nothing is left to try.
    Exhausted {
        /// Every rung with its reason.
        skipped: Vec<Skipped>,
    },
}

impl Ended {
    /// The exit code that a shell gives: the program's own, or 128 and the signal.
    #[must_use]
    pub fn code(&self) -> u8 {
        let code = match self.exit.signal {
            0 => self.exit.code,
            signal => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(1)
    }

    /// Bytes that the same program needs at least: what it had on the GPU when an allocation failed, and that
    /// allocation. None where its output does not say so.
    #[must_use]
    pub fn needed(&self) -> Option<Bytes> {
        let said = &self.incident;
        let used = match (said.total_bytes, said.free_bytes) {
            (Some(total), Some(free)) => {
                let others = said.co_tenant_bytes.unwrap_or_default();
                total.0.checked_sub(free.0)?.checked_sub(others.0)
            }
            _ => said.reserved_bytes.or(said.allocated_bytes).map(|b| b.0),
        };
        let whole = used?.checked_add(said.requested_bytes?.0)?;
        (self.of_memory() && said.class == Class::GpuOom).then_some(Bytes(whole))
    }

    /// Did it die of memory?
    #[must_use]
    pub fn of_memory(&self) -> bool {
        self.exit != ExitStatus::default()
            && !self.told
            && self.incident.fatal
            && self.incident.class != Class::NotOom
    }
}

/// Whether rungs leave the program as it is and only choose another GPU for it.
#[must_use]
pub fn only_moves_away(steps: &[Step]) -> bool {
    let mut knobs = steps.iter().flat_map(|s| s.layer.settings.keys());
    knobs.all(|knob| knob == EXCLUDED)
}

impl Launch {
    /// What follows attempt `number`. `place` is the GPU that it had, and how many could be used.
    ///
    /// # Errors
    /// As `climb`.
    pub fn after(
        &self,
        ended: &Ended,
        rungs: &[Layer],
        number: u32,
        place: (Option<&str>, usize),
    ) -> Result<NextLaunch, Refusal> {
        if !ended.of_memory() {
            return Ok(NextLaunch::Over);
        }
        Ok(match self.climb(rungs, number, place, &ended.incident)? {
            Decision::Climb { steps, .. } => NextLaunch::Again { steps },
            Decision::Exhausted { skipped, .. } => NextLaunch::Exhausted { skipped },
        })
    }
}
