//! What memory did over the steps of an attempt: a leak, responses that grow, one batch out of line, or a plain lack.
//!
//! Rule: a pure function of few rows; what is too short or disagrees stays unknown.

mod judge;
mod records;
mod sampled;
#[cfg(test)]
mod tests;
mod trend;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use judge::{ahead, growth, judge};
pub(crate) use records::{NAMED, Records, read};
pub use sampled::of_samples;

use oomctl_base::units::Bytes;
use trend::{TrendPoint, median};

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Of a GPU.
    Gpu,
    /// Of a node.
    Host,
}

/// How memory came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoursePattern {
    /// It rises step by step, and nothing that the log prints explains it.
    Leak,
    /// It rises with the length of the responses.
    GrowingResponses,
    /// One batch asked for far more than the steps before it.
    Outlier,
    /// It ran out in the first steps.
    Lack,
    /// Many steps went well, and what was asked for last is small: it may have grown.
    Growth,
}

impl CoursePattern {
    /// Its name in files, and in the table of remedies.
    pub fn word(self) -> &'static str {
        match self {
            Self::Leak => "leak",
            Self::GrowingResponses => "growing_responses",
            Self::Outlier => "outlier",
            Self::Lack => "lack",
            Self::Growth => "growth",
        }
    }
}

/// From where to where something went over the steps that were seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepSpan {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCourse {
    /// How it came to its end, or is on the way there.
    pub pattern: CoursePattern,
    /// Which memory.
    pub memory: Pool,
    /// The Theil-Sen slope, where it rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_step: Option<Bytes>,
    /// The memory of the steps, in bytes, where the log prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<StepSpan>,
    /// The mean length of the responses, in tokens, where it rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<StepSpan>,
    /// What the fatal batch needed at least, where it is out of line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<Bytes>,
    /// Steps that went well before, where no figures of them say more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_before: Option<u64>,
}

impl MemoryCourse {
    fn new(pattern: CoursePattern, memory: Pool) -> Self {
        Self {
            pattern,
            memory,
            bytes_per_step: None,
            bytes: None,
            lengths: None,
            needed_bytes: None,
            steps_before: None,
        }
    }

    /// The name of its remedies.
    pub(crate) fn row(&self) -> &'static str {
        match (self.pattern, self.memory) {
            (CoursePattern::Growth, Pool::Host) => "growth_of_host",
            (pattern, _) => pattern.word(),
        }
    }

    /// Is it more than that memory ran out in the first steps?
    pub fn is_over_steps(&self) -> bool {
        self.pattern != CoursePattern::Lack
    }

    /// What rises, and how.
    pub fn rise(&self) -> Option<String> {
        let memory = match self.memory {
            Pool::Gpu => "GPU memory",
            Pool::Host => "host memory",
        };
        let (slope, span) = (self.bytes_per_step?, self.bytes.as_ref()?);
        Some(format!("{memory} rises by {slope} a step {}", span.steps()))
    }

    /// What it was, in one line.
    pub fn sentence(&self) -> String {
        let rise = self.rise();
        let lengths = self.lengths.as_ref().map(|l| {
            let steps = l.steps();
            format!("responses grow from {} to {} tokens {steps}", l.from, l.to)
        });
        match self.pattern {
            CoursePattern::Leak => format!("a leak: {}", rise.unwrap_or_default()),
            CoursePattern::GrowingResponses => {
                let all: Vec<String> = rise.into_iter().chain(lengths).collect();
                format!("growing responses: {}", all.join("; "))
            }
            CoursePattern::Outlier => {
                let usual = self.bytes.as_ref().map_or(0, |span| span.to);
                let needed = self.needed_bytes.unwrap_or_default();
                format!(
                    "one unusual batch: it needs at least {needed}, the steps before it {}",
                    Bytes(usual)
                )
            }
            CoursePattern::Lack => {
                "memory ran out in the first steps, where a leak does not show yet".to_owned()
            }
            CoursePattern::Growth => self.grown(),
        }
    }
}

impl MemoryCourse {
    /// What speaks for it that something is kept from step to step.
    fn grown(&self) -> String {
        let before = self.steps_before.unwrap_or_default();
        let small = self.needed_bytes.map_or_else(String::new, |needed| {
            format!(", and the request that failed is small ({needed})")
        });
        let other = match self.memory {
            Pool::Gpu => "this batch was larger",
            Pool::Host => "the process did something else here, as saving a checkpoint",
        };
        format!("perhaps memory grows: {before} steps went well before{small}. Else {other}")
    }
}

impl StepSpan {
    fn of(points: &[TrendPoint]) -> Option<Self> {
        /// Points at either end that give its level.
        const END: usize = 3;
        let level = |part: &[TrendPoint]| median(part.iter().map(|p| p.1).collect());
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
    fn grew(&self, share: f64) -> bool {
        self.to as f64 >= self.from as f64 * (1.0 + share)
    }
}
