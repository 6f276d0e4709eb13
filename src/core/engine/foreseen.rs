//! An end of memory that is seen coming: what rises, and the step at which it is full at this rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use oomctl_base::units::Bytes;
use oomctl_diagnose::{MemoryCourse, Pool};

/// How many times as many steps as were seen a line is drawn on.
const REACH: u64 = 4;

/// Memory that rises in a log, over the steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rising {
    /// What rises, and how.
    pub courses: Vec<MemoryCourse>,
    /// Seconds of a usual step, where the log tells them.
    pub step_s: Option<f64>,
}

impl Rising {
    /// The first end of memory that is seen coming, where `limit` is what there is of a memory and `total` the steps in all.
    pub(super) fn foreseen(
        &self,
        limit: impl Fn(Pool) -> Option<Bytes>,
        total: Option<u64>,
    ) -> Option<Foreseen> {
        self.courses
            .iter()
            .find_map(|course| Foreseen::of(course, limit(course.memory)?, total, self.step_s))
    }
}

/// Memory that is full before the work is done, if it goes on as it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Foreseen {
    /// What rises, and how.
    pub course: MemoryCourse,
    /// What there is of it: of a GPU its capacity, of a node what the job asked for.
    pub limit_bytes: Bytes,
    /// The step at which it is full, at the latest.
    pub full_step: u64,
    /// Steps in all, where the log says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Seconds until then, where the log tells what a step takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_s: Option<u64>,
}

impl Foreseen {
    /// Where the line meets the limit; `None` where that is too far away, behind the last step, or behind us.
    fn of(
        course: &MemoryCourse,
        limit: Bytes,
        total: Option<u64>,
        step_s: Option<f64>,
    ) -> Option<Self> {
        let (slope, span) = (course.bytes_per_step?.0, course.bytes.as_ref()?);
        let left = limit.0.checked_sub(span.to).filter(|_| slope > 0)?;
        let steps = left.div_ceil(slope);
        let seen = span.to_step - span.from_step;
        let full_step = span.to_step.checked_add(steps)?;
        let matters = steps <= seen.saturating_mul(REACH) && total.is_none_or(|t| full_step <= t);
        let seconds = |step_s: f64| (steps as f64 * step_s).round() as u64;
        matters.then(|| Self {
            course: course.clone(),
            limit_bytes: limit,
            full_step,
            total,
            in_s: step_s.map(seconds),
        })
    }

    /// What is coming, in one line.
    pub fn sentence(&self) -> String {
        let rise = self.course.rise().unwrap_or_default();
        let total = self.total.map_or_else(String::new, |t| format!(" of {t}"));
        let minutes = |s: u64| format!(", in about {} min", s.div_ceil(60));
        let after = self.in_s.map_or_else(String::new, minutes);
        format!(
            "{rise}; at this rate {} are full at step {}{total}{after}",
            self.limit_bytes, self.full_step
        )
    }
}
