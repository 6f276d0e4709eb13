//! Scales of pictures: from values to coordinates, with ticks at round values.

use schemars::JsonSchema;
use serde::Serialize;

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Tick {
    /// Coordinate in user units of the picture.
    pub at: f64,
    /// What stands there.
    pub label: String,
}

/// A straight way from values to coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// Value at the start.
    from: f64,
    /// Value at the end.
    to: f64,
    /// Coordinate of the start.
    start: f64,
    /// Coordinate of the end.
    end: f64,
}

impl Scale {
    /// A scale; one without length is given some.
    pub(super) fn new(from: f64, to: f64, start: f64, end: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self {
            from,
            to,
            start,
            end,
        }
    }

    /// The coordinate of a value, to a tenth.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value - self.from) / (self.to - self.from);
        tenth(self.start + share.clamp(0.0, 1.0) * (self.end - self.start))
    }

    fn ticks(&self, step: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let first = (self.from / step).ceil();
        let places = (0..=MOST_TICKS).map(|n| (first + f64::from(n)) * step);
        let within = places.take_while(|value| *value <= self.to);
        let tick = |value| Tick {
            at: self.at(value),
            label: label(value),
        };
        within.map(tick).collect()
    }

    /// Ticks of an axis in GiB.
    pub(super) fn gib_ticks(&self) -> Vec<Tick> {
        let step = round_step((self.to - self.from) / 5.0).max(1.0);
        self.ticks(step, |gib| format!("{gib:.0}"))
    }

    /// Ticks of an axis in seconds.
    pub(super) fn time_ticks(&self) -> Vec<Tick> {
        let wanted = (self.to - self.from) / 6.0;
        let step = STEPS_S.iter().find(|step| **step >= wanted);
        let day = 86_400.0;
        let step = step.copied();
        let step = step.unwrap_or_else(|| round_step(wanted / day).max(1.0) * day);
        self.ticks(step, |s| time_label(s, step))
    }
}

/// Most marks on an axis.
const MOST_TICKS: u32 = 16;

/// Round lengths of time in seconds, below a day.
const STEPS_S: [f64; 15] = [
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0,
    21_600.0, 43_200.0,
];

/// The next of 1, 2, 5, 10, 20, …
fn round_step(wanted: f64) -> f64 {
    let unit = 10_f64.powf(wanted.max(1e-9).log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * unit >= wanted);
    factor.unwrap_or(10.0) * unit
}

fn time_label(seconds: f64, step: f64) -> String {
    if seconds == 0.0 {
        "0".to_owned()
    } else if step < 60.0 {
        format!("{seconds:.0} s")
    } else if step < 3_600.0 {
        format!("{:.0} min", seconds / 60.0)
    } else if step < 86_400.0 {
        format!("{:.0} h", seconds / 3_600.0)
    } else {
        format!("{:.0} d", seconds / 86_400.0)
    }
}

/// A coordinate that is short to write.
pub(super) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|t| t.label.as_str()).collect()
    }

    #[test]
    fn memory_has_round_marks() {
        let of = |gib: f64| Scale::new(0.0, gib, 0.0, 100.0).gib_ticks();
        assert_eq!(labels(&of(84.0)), ["0", "20", "40", "60", "80"]);
        assert_eq!(labels(&of(150.0)), ["0", "50", "100", "150"]);
        assert_eq!(labels(&of(0.5)), ["0"]);
    }

    #[test]
    fn time_has_the_marks_that_people_use() {
        let of = |seconds: f64| Scale::new(0.0, seconds, 0.0, 100.0).time_ticks();
        assert_eq!(
            labels(&of(25.0)),
            ["0", "5 s", "10 s", "15 s", "20 s", "25 s"]
        );
        assert_eq!(
            labels(&of(3_600.0)),
            [
                "0", "10 min", "20 min", "30 min", "40 min", "50 min", "60 min"
            ]
        );
        assert_eq!(
            labels(&of(40_000.0)),
            ["0", "2 h", "4 h", "6 h", "8 h", "10 h"]
        );
        assert_eq!(
            labels(&of(1_000_000.0)),
            ["0", "2 d", "4 d", "6 d", "8 d", "10 d"]
        );
    }

    #[test]
    fn nothing_is_drawn_outside_or_divided_by_nothing() {
        let scale = Scale::new(5.0, 5.0, 10.0, 20.0);
        assert_eq!(
            (scale.at(5.0), scale.at(-1.0), scale.at(1e300)),
            (10.0, 10.0, 20.0)
        );
    }
}
