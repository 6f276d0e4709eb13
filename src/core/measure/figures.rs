//! Figures of memory, and times of steps, that a program prints about itself. What they look like is data of
//! the preset.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use oomctl_base::units::Bytes;

/// Longest text that a pattern can match across two reads of a log, in bytes.
const SEAM: usize = 256;
/// Figures of this size or more are misprints: 64 TiB.
const ABSURD: u64 = 1 << 46;
/// Most steps whose times are kept: the first ones, so that two jobs can be compared step by step.
const STEPS_MAX: usize = 16;
/// A step of this many milliseconds or more is a misprint: more than a week.
const LONGEST_MS: f64 = 1e9;

/// What a figure is about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes of live tensors of one GPU at their peak, as the framework's allocator counts them.
    GpuAllocated,
    /// Bytes that the allocator had taken from one GPU at its peak: tensors, cache and fragments.
    GpuReserved,
    /// Host memory in use on a node, everybody's.
    HostUsed,
    /// Time that one training step took.
    StepTime,
}

impl Quantity {
    /// What follows the figure in a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::GpuAllocated => "allocated",
            Self::GpuReserved => "reserved",
            Self::HostUsed => "of host memory",
            Self::StepTime => "a step",
        }
    }
}

/// How a program prints a figure, as written in a preset.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// What it is about.
    pub measure: Quantity,
    /// Regular expression with the group `value`; what it matches is at most 256 bytes long.
    pub pattern: String,
    /// Unit of the value (`GiB`, `MiB`, `GB`; of a time `s` or `ms`), whatever the program calls it.
    pub unit: String,
    /// Project, file and version in which the unit was read.
    #[serde(default)]
    pub source: Option<String>,
}

/// The same, compiled.
#[derive(Debug, Clone)]
pub struct FigurePattern {
    measure: Quantity,
    /// Shared by all runs that look for it.
    regex: Arc<Regex>,
    unit: String,
}

impl FigurePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with pattern or unit, in words.
    pub fn new(spec: &FigureSpec) -> Result<Self, String> {
        let unit = &spec.unit;
        match spec.measure {
            Quantity::StepTime if unit != "s" && unit != "ms" => {
                return Err(format!("measures: `{unit}` is not a unit of time (s, ms)"));
            }
            Quantity::StepTime => {}
            _ => {
                Bytes::parse(&format!("1{unit}")).map_err(|_| {
                    format!("measures: `{unit}` is not a unit of memory (GiB, MiB, GB)")
                })?;
            }
        }
        let regex = RegexBuilder::new(&spec.pattern)
            .size_limit(1 << 20)
            .build()
            .map_err(|e| format!("measures: {e}"))?;
        if !regex.capture_names().flatten().any(|name| name == "value") {
            return Err(format!("measures: `{}` has no group `value`", spec.pattern));
        }
        Ok(Self {
            measure: spec.measure,
            regex: Arc::new(regex),
            unit: spec.unit.clone(),
        })
    }

    /// The largest figure in a text. One that ends with it may be cut off, and waits for what follows.
    fn largest(&self, text: &[u8]) -> Option<Bytes> {
        let values = self.regex.captures_iter(text).filter_map(|found| {
            let value = found.name("value").filter(|v| v.end() < text.len())?;
            let value = std::str::from_utf8(value.as_bytes()).ok()?;
            Bytes::parse(&format!("{value}{}", self.unit)).ok()
        });
        values.filter(|b| b.0 > 0 && b.0 < ABSURD).max()
    }

    /// Times in milliseconds, with where the match begins and where its value ends.
    fn times(&self, text: &[u8]) -> impl Iterator<Item = (usize, usize, u64)> {
        let factor = if self.unit == "ms" { 1.0 } else { 1_000.0 };
        self.regex.captures_iter(text).filter_map(move |found| {
            let value = found.name("value").filter(|v| v.end() < text.len())?;
            let number: f64 = std::str::from_utf8(value.as_bytes()).ok()?.parse().ok()?;
            let plausible = Some((number * factor).round());
            let ms = plausible.filter(|ms| (1.0..LONGEST_MS).contains(ms))? as u64;
            Some((found.get(0)?.start(), value.end(), ms))
        })
    }
}

/// The largest figure of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it is about.
    pub measure: Quantity,
    /// The largest value, in bytes.
    pub peak_bytes: Bytes,
}

/// The end of one log, in case a figure goes on in the next read.
#[derive(Debug, Clone, Default)]
pub struct Overlap(Vec<u8>);

impl Overlap {
    /// The log begins anew.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn keep(&mut self, data: &[u8]) {
        if data.len() < SEAM {
            let surplus = (self.0.len() + data.len()).saturating_sub(SEAM);
            self.0.drain(..surplus.min(self.0.len()));
        } else {
            self.0.clear();
        }
        self.0
            .extend_from_slice(&data[data.len().saturating_sub(SEAM)..]);
    }
}

/// The largest figures that the logs of an attempt showed, and the times of its first steps.
#[derive(Debug, Clone, Default)]
pub struct AttemptFigures {
    patterns: Vec<FigurePattern>,
    found: Vec<Figure>,
    steps_ms: Vec<u64>,
}

impl AttemptFigures {
    /// With the patterns of a preset.
    pub fn new(patterns: Vec<FigurePattern>) -> Self {
        Self {
            patterns,
            ..Self::default()
        }
    }

    /// With figures and times of steps that were found before, and no pattern yet.
    pub fn found(found: Vec<Figure>, steps_ms: Vec<u64>) -> Self {
        Self {
            patterns: Vec::new(),
            found,
            steps_ms,
        }
    }

    /// The same with these patterns.
    pub fn with(self, patterns: Vec<FigurePattern>) -> Self {
        Self { patterns, ..self }
    }

    /// Takes the next bytes of a log.
    pub fn feed(&mut self, overlap: &mut Overlap, data: &[u8]) {
        if self.patterns.is_empty() {
            return;
        }
        // What begins with the read may have begun before it.
        let whole = overlap.0.last().is_none_or(|last| *last == b'\n');
        if !overlap.0.is_empty() {
            let mut seam = overlap.0.clone();
            seam.extend_from_slice(&data[..data.len().min(SEAM)]);
            self.scan(&seam);
            // Of the rest each time was taken already, or will be.
            let before = overlap.0.len();
            let across = |start| start < before || start == before && !whole;
            self.scan_times(&seam, |start, end| across(start) && end >= before);
        }
        self.scan(data);
        self.scan_times(data, |start, _| start > 0 || whole);
        overlap.keep(data);
    }

    /// Takes the times of steps whose places count.
    fn scan_times(&mut self, text: &[u8], counts: impl Fn(usize, usize) -> bool) {
        let patterns = self.patterns.iter();
        for pattern in patterns.filter(|p| p.measure == Quantity::StepTime) {
            let room = STEPS_MAX.saturating_sub(self.steps_ms.len());
            if room > 0 {
                let times = pattern.times(text).filter(|(s, e, _)| counts(*s, *e));
                self.steps_ms.extend(times.map(|(_, _, ms)| ms).take(room));
            }
        }
    }

    fn scan(&mut self, text: &[u8]) {
        let patterns = self.patterns.iter();
        for pattern in patterns.filter(|p| p.measure != Quantity::StepTime) {
            let Some(peak_bytes) = pattern.largest(text) else {
                continue;
            };
            let measure = pattern.measure;
            match self.found.iter_mut().find(|f| f.measure == measure) {
                Some(known) => known.peak_bytes = known.peak_bytes.max(peak_bytes),
                None => self.found.push(Figure {
                    measure,
                    peak_bytes,
                }),
            }
        }
    }

    /// The largest of each kind, in the order of the kinds.
    pub fn peaks(&self) -> Vec<Figure> {
        let mut peaks = self.found.clone();
        peaks.sort_by_key(|f| f.measure);
        peaks
    }

    /// Milliseconds that each of the first steps took, in the order in which they were printed.
    pub fn steps_ms(&self) -> &[u64] {
        &self.steps_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(measure: Quantity, pattern: &str, unit: &str) -> Result<FigurePattern, String> {
        FigurePattern::new(&FigureSpec {
            measure,
            pattern: pattern.to_owned(),
            unit: unit.to_owned(),
            source: None,
        })
    }

    fn figures() -> AttemptFigures {
        let allocated = pattern(
            Quantity::GpuAllocated,
            r"max allocated: (?P<value>[\d.]+)",
            "MiB",
        );
        let reserved = pattern(
            Quantity::GpuReserved,
            r"max reserved: (?P<value>[\d.]+)",
            "MiB",
        );
        AttemptFigures::new(vec![allocated.unwrap(), reserved.unwrap()])
    }

    const LOG: &str = "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1024.0 | \
        max allocated: 40960.5 | reserved: 43008.0 | max reserved: 45056.0\n\
        iteration 3 | max allocated: 1.0 | max reserved: nan | max allocated: 99999999999\n";

    #[test]
    fn the_largest_plausible_figure_of_each_kind_counts() {
        let mut figures = figures();
        figures.feed(&mut Overlap::default(), LOG.as_bytes());
        let peaks: Vec<(Quantity, u64)> = figures
            .peaks()
            .iter()
            .map(|f| (f.measure, f.peak_bytes.0))
            .collect();
        assert_eq!(
            peaks,
            [
                (Quantity::GpuAllocated, 81_921 << 19),
                (Quantity::GpuReserved, 44 << 30)
            ]
        );
    }

    #[test]
    fn wherever_a_log_is_cut_the_figures_are_the_same() {
        let mut whole = figures();
        whole.feed(&mut Overlap::default(), LOG.as_bytes());
        for cut in 0..LOG.len() {
            for second in [cut, (cut + 3).min(LOG.len()), (cut + 90).min(LOG.len())] {
                let (mut figures, mut overlap) = (figures(), Overlap::default());
                for part in [&LOG[..cut], &LOG[cut..second], &LOG[second..]] {
                    figures.feed(&mut overlap, part.as_bytes());
                }
                assert_eq!(figures.peaks(), whole.peaks(), "cut at {cut} and {second}");
                assert!(overlap.0.len() <= SEAM);
            }
        }
    }

    const STEPS: &str = "step:1 - timing_s/step:61.5 - a:1\nstep:2 - timing_s/step:40.25\n\
        step:3 - timing_s/step:0 - timing_s/step:nan\nstep:4 - timing_s/step:40.25\n";

    #[test]
    fn each_step_counts_once_wherever_a_log_is_cut() {
        let of = || {
            let time = pattern(Quantity::StepTime, r"timing_s/step:(?P<value>[\d.]+)", "s");
            AttemptFigures::new(vec![time.unwrap()])
        };
        for first in 0..STEPS.len() {
            for second in first..STEPS.len() {
                let (mut figures, mut overlap) = (of(), Overlap::default());
                for part in [&STEPS[..first], &STEPS[first..second], &STEPS[second..]] {
                    figures.feed(&mut overlap, part.as_bytes());
                }
                let cut = format!("cut at {first} and {second}");
                assert_eq!(figures.steps_ms(), [61_500, 40_250, 40_250], "{cut}");
                assert_eq!(figures.peaks(), [], "{cut}");
            }
        }
        let mut long = of();
        for _ in 0..100 {
            long.feed(&mut Overlap::default(), STEPS.as_bytes());
        }
        assert_eq!(long.steps_ms().len(), STEPS_MAX);
    }

    #[test]
    fn a_pattern_without_a_value_or_with_no_unit_of_memory_is_refused() {
        let of = |text: &str, unit: &str| pattern(Quantity::HostUsed, text, unit).unwrap_err();
        assert!(of("used (", "GiB").contains("unclosed group"));
        assert!(of(r"used (\d+)", "GiB").contains("no group `value`"));
        assert!(of(r"used (?P<value>\d+)", "steps").contains("not a unit of memory"));
        let time = pattern(Quantity::StepTime, r"took (?P<value>\d+)", "GiB");
        assert!(time.unwrap_err().contains("not a unit of time"));
    }
}
