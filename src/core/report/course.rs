//! The attempts of a run on one line of time: how long each waited, and how long it ran.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::scale::{Scale, Tick, tenth};
use crate::core::engine::{Attempt, History};

/// Width of the picture in user units.
const WIDTH: f64 = 760.0;
/// Room for the names of the attempts.
const LEFT: f64 = 90.0;
/// Room on the right.
const RIGHT: f64 = 10.0;
/// Height of a row.
const ROW: f64 = 26.0;
/// Room for the labels below.
const BOTTOM: f64 = 24.0;
/// Narrowest stretch that can be seen.
const NARROWEST: f64 = 1.5;

/// What happened in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// It waited for the scheduler.
    Waited,
    /// It ran, and ended well.
    Worked,
    /// It ran, and failed.
    Failed,
    /// It runs.
    Runs,
}

/// A stretch of time of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimeSpan {
    /// What happened.
    pub kind: SpanKind,
    /// Left edge.
    pub x: f64,
    /// Width.
    pub width: f64,
    /// How long it was, in seconds.
    pub seconds: i64,
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttemptRow {
    /// Its number.
    pub attempt: u32,
    /// Upper edge of its row.
    pub y: f64,
    /// Its stretches, in the order of time.
    pub spans: Vec<TimeSpan>,
}

/// The time line, in user units of its own.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Left edge of the field.
    pub left: f64,
    /// Lower edge of the field.
    pub bottom: f64,
    /// Height of a row.
    pub row: f64,
    /// Marks of the time since the run was made.
    pub ticks: Vec<Tick>,
    /// The attempts.
    pub rows: Vec<AttemptRow>,
}

/// The time line of a run. `None` before its first attempt.
pub fn course(history: &History, now: Timestamp) -> Option<Timeline> {
    let first = history.attempts.first()?.intended_at;
    let start = history.created.unwrap_or(first).min(first);
    let stretches: Vec<_> = history.attempts.iter().map(|a| stretches(a, now)).collect();
    let ends = stretches.iter().flatten().map(|(_, _, end)| *end);
    let since = |at: Timestamp| at.duration_since(start).as_secs_f64();
    let end = ends.max().unwrap_or(now);
    let scale = Scale::new(0.0, since(end), LEFT, WIDTH - RIGHT);
    let mut y = -ROW;
    let rows = history.attempts.iter().zip(&stretches);
    let rows = rows.map(|(attempt, stretches)| {
        y += ROW;
        let span = |(kind, from, to): &(SpanKind, Timestamp, Timestamp)| {
            let (x, end) = (scale.at(since(*from)), scale.at(since(*to)));
            TimeSpan {
                kind: *kind,
                x: x.min(WIDTH - RIGHT - NARROWEST),
                width: tenth((end - x).max(NARROWEST)),
                seconds: to.duration_since(*from).as_secs(),
            }
        };
        AttemptRow {
            attempt: attempt.number,
            y,
            spans: stretches.iter().map(span).collect(),
        }
    });
    let rows: Vec<AttemptRow> = rows.collect();
    let bottom = y + ROW;
    Some(Timeline {
        width: WIDTH,
        height: bottom + BOTTOM,
        left: LEFT,
        bottom,
        row: ROW,
        ticks: scale.time_ticks(),
        rows,
    })
}

/// What an attempt did from when to when. Clocks may differ: nothing ends before it began.
pub(super) fn stretches(
    attempt: &Attempt,
    now: Timestamp,
) -> Vec<(SpanKind, Timestamp, Timestamp)> {
    let status = attempt.status.as_ref();
    let over = attempt.ended_at.is_some();
    let ended = status.and_then(|s| s.ended).or(attempt.ended_at);
    let until = ended.unwrap_or(now).max(attempt.intended_at);
    let Some(started) = status.and_then(|s| s.started) else {
        return vec![(SpanKind::Waited, attempt.intended_at, until)];
    };
    let started = started.clamp(attempt.intended_at, until);
    let failed = attempt.incident.as_ref().is_some_and(|i| i.fatal);
    let kind = match (over, failed) {
        (false, _) => SpanKind::Runs,
        (true, false) => SpanKind::Worked,
        (true, true) => SpanKind::Failed,
    };
    vec![
        (SpanKind::Waited, attempt.intended_at, started),
        (kind, started, until),
    ]
}

#[cfg(test)]
mod tests {
    use super::SpanKind::{Failed, Waited, Worked};
    use super::*;
    use crate::core::report::tests::history;

    #[test]
    fn each_attempt_is_a_row_from_its_submission_to_its_end() {
        let history = history(&[(0, 600, 1_200, false), (1_200, 1_800, 3_600, true)]);
        let course = course(&history, Timestamp::from_second(9_000).unwrap()).unwrap();

        let spans = course.rows.iter().flat_map(|row| &row.spans);
        assert_eq!(
            spans.map(|s| (s.kind, s.x, s.width)).collect::<Vec<_>>(),
            [
                (Waited, 90.0, 110.0),
                (Failed, 200.0, 110.0),
                (Waited, 310.0, 110.0),
                (Worked, 420.0, 330.0),
            ]
        );
        assert_eq!((course.rows.len(), course.rows[1].y), (2, 26.0));
        assert_eq!(course.ticks.last().unwrap().label, "60 min");
    }

    #[test]
    fn a_node_whose_clock_is_behind_draws_nothing_backwards() {
        let history = history(&[(1_000, 400, 500, false)]);
        let course = course(&history, Timestamp::from_second(2_000).unwrap()).unwrap();
        assert!(
            course.rows[0]
                .spans
                .iter()
                .all(|s| s.seconds >= 0 && s.width > 0.0)
        );
    }

    #[test]
    fn before_the_first_attempt_there_is_nothing_to_draw() {
        assert_eq!(course(&History::default(), Timestamp::UNIX_EPOCH), None);
    }
}
