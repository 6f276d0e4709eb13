//! What memory did over the steps of an attempt: a leak, responses that grow, one batch out of line, or a plain lack.
//!
//! Rule: a pure function of few rows; what is too short or disagrees stays unknown.

mod records;
mod sampled;
#[cfg(test)]
mod tests;
mod trend;

use serde::{Deserialize, Serialize};

pub(crate) use records::{NAMED, Records, read};
pub use sampled::of_samples;

use super::incident::{Class, Incident};
use oomctl_base::units::Bytes;
use records::Meter;
use trend::{Point, is_outlier, median, never_falls, partial, rising};

/// An attempt that dies in this step or before died of what every step needs.
const FIRST_STEPS: u64 = 2;
/// Least growth over the steps that were seen, as a share of what was there: of memory, and of lengths.
const GROWTH: f64 = 0.02;
const GROWTH_OF_LENGTHS: f64 = 0.2;
/// Partial rank correlation from which on memory goes with the responses.
const TOGETHER: f64 = 0.25;
/// How far a batch that is out of line stands above the highest step, as a share of that.
const ABOVE: f64 = 0.1;
/// Phases that run in the process whose allocator prints the figures; in the others an engine of its own may have failed.
const OF_TRAINER: [&str; 9] = [
    "old_logprob",
    "ref_logprob",
    "critic",
    "actor_update",
    "optimizer_step",
    "forward",
    "backward",
    "checkpoint",
    "unknown",
];

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Of a GPU.
    Gpu,
    /// Of a node.
    Host,
}

/// How memory came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// It rises step by step, and nothing that the log prints explains it.
    Leak,
    /// It rises with the length of the responses.
    GrowingResponses,
    /// One batch asked for far more than the steps before it.
    Outlier,
    /// It ran out in the first steps.
    Lack,
}

impl Pattern {
    /// Its name in files, and in the table of remedies.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Leak => "leak",
            Self::GrowingResponses => "growing_responses",
            Self::Outlier => "outlier",
            Self::Lack => "lack",
        }
    }
}

/// From where to where something went over the steps that were seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first step that counts.
    pub from_step: u64,
    /// The last one.
    pub to_step: u64,
    /// Middle value of the first steps, in bytes or tokens.
    pub from: u64,
    /// Middle value of the last steps.
    pub to: u64,
}

/// What memory did over the steps of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// How it came to its end, or is on the way there.
    pub pattern: Pattern,
    /// Which memory.
    pub memory: Pool,
    /// The Theil-Sen slope, where it rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_step: Option<Bytes>,
    /// The memory of the steps, in bytes, where the log prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Span>,
    /// The mean length of the responses, in tokens, where it rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Span>,
    /// What the fatal batch needed at least, where it is out of line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<Bytes>,
}

impl Course {
    fn new(pattern: Pattern, memory: Pool) -> Self {
        Self {
            pattern,
            memory,
            bytes_per_step: None,
            bytes: None,
            lengths: None,
            needed_bytes: None,
        }
    }

    /// Is it more than that memory ran out in the first steps?
    #[must_use]
    pub fn is_over_steps(&self) -> bool {
        self.pattern != Pattern::Lack
    }

    /// What rises, and how.
    #[must_use]
    pub fn rise(&self) -> Option<String> {
        let memory = match self.memory {
            Pool::Gpu => "GPU memory",
            Pool::Host => "host memory",
        };
        let (slope, span) = (self.bytes_per_step?, self.bytes.as_ref()?);
        Some(format!("{memory} rises by {slope} a step {}", span.steps()))
    }

    /// What it was, in one line.
    #[must_use]
    pub fn sentence(&self) -> String {
        let rise = self.rise();
        let lengths = self.lengths.as_ref().map(|l| {
            let steps = l.steps();
            format!("responses grow from {} to {} tokens {steps}", l.from, l.to)
        });
        match self.pattern {
            Pattern::Leak => format!("a leak: {}", rise.unwrap_or_default()),
            Pattern::GrowingResponses => {
                let all: Vec<String> = rise.into_iter().chain(lengths).collect();
                format!("growing responses: {}", all.join("; "))
            }
            Pattern::Outlier => {
                let usual = self.bytes.as_ref().map_or(0, |span| span.to);
                let needed = self.needed_bytes.unwrap_or_default();
                format!(
                    "one batch out of line: it needs {needed} and more, the steps before it {}",
                    Bytes(usual)
                )
            }
            Pattern::Lack => "a plain lack: it ran out in the first steps".to_owned(),
        }
    }
}

impl Span {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "values that were read as positive numbers below 10^15"
    )]
    fn of(points: &[Point]) -> Option<Self> {
        /// Points at either end that give its level.
        const END: usize = 3;
        let level = |part: &[Point]| median(part.iter().map(|p| p.1).collect());
        let end = END.min(points.len());
        Some(Self {
            from_step: points.first()?.0 as u64,
            to_step: points.last()?.0 as u64,
            from: level(&points[..end])?.round() as u64,
            to: level(&points[points.len() - end..])?.round() as u64,
        })
    }

    fn steps(&self) -> String {
        format!("(steps {} to {})", self.from_step, self.to_step)
    }

    /// Did it grow by this share?
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn grew(&self, share: f64) -> bool {
        self.to as f64 >= self.from as f64 * (1.0 + share)
    }
}

/// The course of an attempt that died of memory.
pub(super) fn judge(records: &Records, incident: &Incident) -> Option<Course> {
    let pool = match incident.class {
        Class::GpuOom | Class::EngineMemory => Pool::Gpu,
        Class::HostOom => Pool::Host,
        Class::Shm | Class::NotOom => return None,
    };
    if !incident.fatal {
        return None;
    }
    let early = incident.step.is_some_and(|step| step <= FIRST_STEPS);
    if incident.first_step == Some(true) || early {
        return Some(Course::new(Pattern::Lack, pool));
    }
    if pool == Pool::Gpu && !is_of_trainer(incident) {
        return None;
    }
    of_rise(records, pool).or_else(|| match pool {
        Pool::Gpu => of_lengths(records).or_else(|| of_outlier(records, incident)),
        Pool::Host => None,
    })
}

fn is_of_trainer(incident: &Incident) -> bool {
    incident.class == Class::GpuOom && OF_TRAINER.contains(&incident.phase.as_str())
}

/// What rises while an attempt is alive.
pub(super) fn ahead(records: &Records) -> Vec<Course> {
    let pools = [Pool::Host, Pool::Gpu];
    pools.iter().filter_map(|p| of_rise(records, *p)).collect()
}

/// Memory that rises: with the responses, or by itself.
fn of_rise(records: &Records, pool: Pool) -> Option<Course> {
    let meters: &[Meter] = match pool {
        Pool::Gpu => &[Meter::Allocated, Meter::Reserved],
        Pool::Host => &[Meter::Host],
    };
    // Where tensors are counted, what the allocator holds beyond them is fragments.
    let series = |meter: &Meter| records.series(&[*meter]).remove(0);
    let mut all = meters.iter().map(|meter| (*meter, series(meter)));
    let (meter, points) = all.find(|(_, points)| !points.is_empty())?;
    let slope = rising(&points)?;
    let span = Span::of(&points).filter(|span| span.grew(GROWTH))?;
    let lengths = with_responses(records, meter);
    let pattern = match lengths {
        Some(_) => Pattern::GrowingResponses,
        None => Pattern::Leak,
    };
    Some(Course {
        bytes_per_step: Some(whole(slope)),
        bytes: Some(span),
        lengths,
        ..Course::new(pattern, pool)
    })
}

/// The lengths of the responses, where they grow and the memory goes with them.
fn with_responses(records: &Records, meter: Meter) -> Option<Span> {
    let both = records.series(&[meter, Meter::Length]);
    let [memory, lengths] = both.as_slice() else {
        return None;
    };
    let grown = grown(lengths)?;
    // A running maximum follows only the longest, so it says little of the steps between.
    let together = never_falls(memory) || partial(memory, lengths) >= TOGETHER;
    together.then_some(grown)
}

fn grown(lengths: &[Point]) -> Option<Span> {
    rising(lengths)?;
    Span::of(lengths).filter(|span| span.grew(GROWTH_OF_LENGTHS))
}

/// Responses that grow where the log prints no memory.
fn of_lengths(records: &Records) -> Option<Course> {
    let silent = |meter| records.series(&[meter]).iter().all(Vec::is_empty);
    if !silent(Meter::Allocated) || !silent(Meter::Reserved) {
        return None;
    }
    let lengths = grown(&records.series(&[Meter::Length]).remove(0))?;
    Some(Course {
        lengths: Some(lengths),
        ..Course::new(Pattern::GrowingResponses, Pool::Gpu)
    })
}

/// One batch that asked for far more than any before it.
fn of_outlier(records: &Records, incident: &Incident) -> Option<Course> {
    let needed = incident
        .allocated_bytes?
        .0
        .checked_add(incident.requested_bytes?.0)?;
    let points = records.series(&[Meter::Allocated]).remove(0);
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "bytes of a GPU")]
    let value = needed as f64;
    let out = is_outlier(&points, value) && value > most * (1.0 + ABOVE);
    out.then(|| Course {
        bytes: Span::of(&points),
        needed_bytes: Some(Bytes(needed)),
        ..Course::new(Pattern::Outlier, Pool::Gpu)
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a slope that is positive, of figures below 10^15"
)]
fn whole(bytes: f64) -> Bytes {
    Bytes(bytes.round() as u64)
}
