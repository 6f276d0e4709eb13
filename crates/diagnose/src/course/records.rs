//! What a program prints of itself step by step: its memory and the length of its responses, in few rows.

use serde::{Deserialize, Serialize};

use super::trend::{TrendPoint, median};
use oomctl_base::units::GIB;

/// Most rows that are kept; where there are more, two steps become one.
const ROWS_MAX: usize = 96;
/// Largest figure that is believed.
const ABSURD: f64 = 1e15;
/// Bytes between the name of a figure and its value: `': '`, `:np.float64(`.
const GAP: &[u8] = b"'\":= (";
const WRAPPED: &[u8] = b"np.float64";

/// What a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigureMetric {
    /// Bytes of live tensors, at their peak since the start.
    Allocated,
    /// Bytes that the allocator had taken.
    Reserved,
    /// Bytes of host memory in use on the node.
    Host,
    /// Mean length of a step's responses, in tokens.
    Length,
    /// Seconds of a step.
    Seconds,
}

const METERS: usize = 5;

/// A figure by its name in the log.
pub(crate) struct NamedFigure {
    /// What the prefilter looks for.
    pub name: &'static str,
    pub meter: FigureMetric,
    /// What one of its unit is.
    unit: f64,
}

const fn named(name: &'static str, meter: FigureMetric, unit: f64) -> NamedFigure {
    NamedFigure { name, meter, unit }
}

/// The names. verl 0.4.1, `workers/fsdp_workers.py` (its GB are GiB) and `trainer/ppo/metric_utils.py`; TRL's
/// `completions/mean_length`, as `Trainer` prints its dictionaries.
pub(crate) const NAMED: [NamedFigure; 6] = [
    named("perf/max_memory_allocated_gb", FigureMetric::Allocated, GIB),
    named("perf/max_memory_reserved_gb", FigureMetric::Reserved, GIB),
    named("perf/cpu_memory_used_gb", FigureMetric::Host, GIB),
    named("response_length/mean", FigureMetric::Length, 1.0),
    named("completions/mean_length", FigureMetric::Length, 1.0),
    named("timing_s/step", FigureMetric::Seconds, 1.0),
];

/// The figure whose name stands at a place of a text, with its number in [`NAMED`].
pub(crate) fn read(text: &[u8], at: usize, number: u8) -> Option<(FigureMetric, f64)> {
    let named = NAMED.get(usize::from(number))?;
    let before = text[..at].last().copied().unwrap_or(b' ');
    if before.is_ascii_alphanumeric() || before == b'_' {
        return None;
    }
    let rest = text.get(at + named.name.len()..)?;
    let gap = |text: &[u8]| text.iter().take_while(|b| GAP.contains(b)).count();
    let first = gap(rest);
    let rest = &rest[first..];
    let value = rest.strip_prefix(WRAPPED).map_or(rest, |r| &r[gap(r)..]);
    let digits = value.iter().take_while(|b| is_of_number(**b)).count();
    let value: f64 = std::str::from_utf8(&value[..digits]).ok()?.parse().ok()?;
    let value = value * named.unit;
    (first > 0 && value > 0.0 && value < ABSURD).then_some((named.meter, value))
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'-' | b'+')
}

/// One step; 0 stands for what was not printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StepRow {
    step: u64,
    values: [f64; METERS],
}

/// The figures of one log, step by step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Records {
    rows: Vec<StepRow>,
    /// How often two steps became one.
    halved: u32,
}

impl Records {
    /// Takes a figure that was printed when so many steps were done. Fewer than before: training began anew.
    pub(crate) fn take(&mut self, step: u64, meter: FigureMetric, value: f64) {
        let mut values = [0.0; METERS];
        values[meter as usize] = value;
        self.put(StepRow { step, values });
        while self.rows.len() > ROWS_MAX {
            self.halved += 1;
            for row in std::mem::take(&mut self.rows) {
                self.put(row);
            }
        }
    }

    fn put(&mut self, row: StepRow) {
        let stretch = |row: &StepRow| row.step >> self.halved.min(63);
        match self.rows.last_mut() {
            Some(last) if stretch(last) == stretch(&row) => {
                last.step = last.step.max(row.step);
                for (most, value) in last.values.iter_mut().zip(row.values) {
                    *most = most.max(value);
                }
            }
            Some(last) if last.step > row.step => {
                *self = Self::default();
                self.rows.push(row);
            }
            _ => self.rows.push(row),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// One figure over the steps, and others of the same steps. The first step warms up.
    pub(super) fn series(&self, meters: &[FigureMetric]) -> Vec<Vec<TrendPoint>> {
        let there = |row: &&StepRow| meters.iter().all(|m| row.values[*m as usize] > 0.0);
        let rows: Vec<&StepRow> = self.rows.iter().skip(1).filter(there).collect();
        let of = |meter: &FigureMetric| {
            let point = |row: &&StepRow| (row.step as f64, row.values[*meter as usize]);
            rows.iter().map(point).collect()
        };
        meters.iter().map(of).collect()
    }

    /// Seconds of a usual step, where the log tells them.
    pub(crate) fn step_s(&self) -> Option<f64> {
        let series = self.series(&[FigureMetric::Seconds]);
        median(series.first()?.iter().map(|p| p.1).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<(FigureMetric, f64)> {
        let find = |(number, named): (usize, &NamedFigure)| Some((text.find(named.name)?, number));
        let (at, number) = NAMED.iter().enumerate().find_map(find)?;
        read(text.as_bytes(), at, u8::try_from(number).ok()?)
    }

    #[test]
    fn figures_are_read_as_programs_print_them() {
        let gib = |n: f64| n * GIB;
        for (text, meter, expected) in [
            (
                "perf/max_memory_allocated_gb:42.5 - ",
                FigureMetric::Allocated,
                gib(42.5),
            ),
            (
                "actor/perf/cpu_memory_used_gb:np.float64(120.25) -",
                FigureMetric::Host,
                gib(120.25),
            ),
            (
                "{'completions/mean_length': 719.1, 'x': 1}",
                FigureMetric::Length,
                719.1,
            ),
            (
                "{'completions/mean_length': '719.1', 'x'",
                FigureMetric::Length,
                719.1,
            ),
            (
                "response_length/mean:1.2e3 - ",
                FigureMetric::Length,
                1200.0,
            ),
        ] {
            assert_eq!(value(text), Some((meter, expected)), "{text}");
        }
        for text in [
            "response_length/mean_of:7",
            "response_length/mean:nan -",
            "response_length/mean:-3 -",
            "response_length/mean",
            "'eval_completions/mean_length': 7.0",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn a_long_log_keeps_its_course_in_few_rows() {
        let mut records = Records::default();
        for step in 1..100_000_u64 {
            records.take(step, FigureMetric::Host, GIB * step as f64);
        }
        assert!((ROWS_MAX / 2 - 1..=ROWS_MAX).contains(&records.len()));
        let series = records.series(&[FigureMetric::Host]).remove(0);
        assert_eq!(series.last().map(|p| p.0), Some(99_999.0));
        assert!(series.windows(2).all(|two| two[0].0 < two[1].0));
    }
}
