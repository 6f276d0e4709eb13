//! What a run cost, and what its supervision saved.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::course::{SpanKind, stretches};
use crate::core::engine::{History, Outcome};

/// What a run cost. Times in seconds, over all attempts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Cost {
    /// GPU-seconds of all attempts.
    pub gpu_seconds: f64,
    /// GPU-seconds of the attempts that failed.
    pub failed_gpu_seconds: f64,
    /// Time in the queue.
    pub waited_s: i64,
    /// Attempts that failed.
    pub failures: u32,
    /// Times that the configuration was changed and submitted again.
    pub escalations: u32,
    /// Rungs that were taken in these.
    pub rungs: u32,
    /// GPU-seconds that jobs which hung would have held until their time limits.
    pub hang_saved_gpu_seconds: u64,
    /// GPU-seconds of the attempts that one rung at a time would have failed besides, each at the mean of those
    /// that failed: of a run that succeeded and at some time took several rungs at once. An estimate.
    pub rungs_saved_gpu_seconds: Option<f64>,
}

/// What a run has cost until `now`.
pub fn cost(history: &History, now: Timestamp) -> Cost {
    let mut cost = Cost {
        gpu_seconds: history.gpu_seconds(now),
        ..Cost::default()
    };
    for attempt in &history.attempts {
        let waited = stretches(attempt, now).into_iter();
        let waited = waited.filter(|(kind, ..)| *kind == SpanKind::Waited);
        cost.waited_s += waited
            .map(|(_, from, to)| to.duration_since(from).as_secs())
            .sum::<i64>();
        cost.hang_saved_gpu_seconds += attempt.saved_gpu_seconds.unwrap_or(0);
        if attempt.incident.as_ref().is_some_and(|i| i.fatal) {
            cost.failures += 1;
            cost.failed_gpu_seconds += attempt.gpu_seconds;
        }
        let rungs = u32::try_from(attempt.steps().len()).unwrap_or(u32::MAX);
        cost.rungs = cost.rungs.saturating_add(rungs);
        cost.escalations += u32::from(rungs > 0);
    }
    let spared = cost.rungs - cost.escalations.min(cost.rungs);
    if history.outcome == Some(Outcome::Succeeded) && spared > 0 && cost.failures > 0 {
        let mean = cost.failed_gpu_seconds / f64::from(cost.failures);
        cost.rungs_saved_gpu_seconds = Some(mean * f64::from(spared));
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::report::tests::{history, with_rungs};

    #[test]
    fn failed_attempts_and_the_queue_are_counted_apart() {
        let history = history(&[(0, 600, 1_200, false), (1_200, 1_800, 3_600, true)]);
        let cost = cost(&history, Timestamp::from_second(9_000).unwrap());
        assert_eq!((cost.waited_s, cost.failures), (1_200, 1));
        assert_eq!(
            (cost.failed_gpu_seconds, cost.gpu_seconds),
            (2_400.0, 9_600.0)
        );
        assert_eq!(cost.rungs_saved_gpu_seconds, None);
    }

    #[test]
    fn rungs_taken_at_once_saved_the_attempts_between_them_if_the_run_succeeded() {
        let mut history = history(&[(0, 0, 100, false), (100, 100, 900, true)]);
        with_rungs(&mut history, 0, 3);
        let now = Timestamp::from_second(9_000).unwrap();
        assert_eq!(
            cost(&history, now).rungs_saved_gpu_seconds,
            None,
            "not over"
        );
        history.outcome = Some(Outcome::Succeeded);
        let cost = cost(&history, now);
        assert_eq!((cost.rungs, cost.escalations), (3, 1));
        assert_eq!(cost.rungs_saved_gpu_seconds, Some(800.0));
    }
}
