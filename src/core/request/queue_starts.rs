//! When the answers to a failure would start, as the scheduler says, and which of them is taken for it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queue::Alternative;
use super::request::Request;
use crate::core::ladder::{Policy, Prospect, Work, is_certain, soonest};
use oomctl_base::units::duration;

/// A wait below this is none, in seconds: the scheduler's own cycle takes as long.
const NOW_S: f64 = 60.0;

/// When a submission would start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartForecast {
    /// At this moment, as the scheduler estimates it.
    At(Timestamp),
    /// Never: the scheduler's own words.
    Refused(String),
}

/// What the scheduler said of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueStart {
    /// Its rungs.
    pub rungs: Vec<String>,
    /// GPUs of the whole job, 0 where unknown.
    pub gpus: u64,
    /// When it would start; `None` where the scheduler did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartForecast>,
}

/// Answers with when each would start.
pub struct QueueChoice<'a> {
    /// The answers, in the ladder's order.
    pub alternatives: &'a [Alternative],
    /// What the scheduler said, in any order.
    pub starts: &'a [QueueStart],
    /// When it said so.
    pub at: Timestamp,
    /// GPUs that the job had, 0 where unknown.
    pub gpus: u64,
    /// What is left to do.
    pub work: Work,
}

impl Request {
    /// The answer to take, with a note on its first rung that says what the queue said of all of them. The policy `soonest`
    /// takes what ends first; every other takes the ladder's.
    pub fn by_queue(&self, choice: &QueueChoice<'_>) -> Option<Alternative> {
        let prospects: Vec<Prospect> = choice.prospects();
        let by_end = self.inputs().policy == Policy::Soonest;
        let chosen = match by_end {
            true => soonest(&prospects, choice.work)?,
            false => 0,
        };
        let mut taken = choice.alternatives.get(chosen)?.clone();
        let note = choice.told(chosen, &prospects, by_end);
        if let Some(first) = taken.steps.first_mut() {
            first.notes.push(note);
        }
        Some(taken)
    }
}

impl QueueChoice<'_> {
    fn start(&self, of: &Alternative) -> Option<&StartForecast> {
        let rungs = of.rungs();
        let said = self
            .starts
            .iter()
            .find(|s| s.rungs == rungs && s.gpus == of.gpus);
        said?.start.as_ref()
    }

    fn prospects(&self) -> Vec<Prospect> {
        let prospect = |of: &Alternative| {
            let (least, most) = of.pace(self.gpus);
            let start = self.start(of);
            Prospect {
                wait_s: match start {
                    Some(StartForecast::At(at)) => Some(wait_s(*at, self.at)),
                    _ => None,
                },
                refused: matches!(start, Some(StartForecast::Refused(_))),
                least,
                most,
            }
        };
        self.alternatives.iter().map(prospect).collect()
    }

    /// When each would start, the chosen one first; with `by_end` when each would end, and what the choice is by.
    fn told(&self, chosen: usize, prospects: &[Prospect], by_end: bool) -> String {
        let mut order: Vec<usize> = (0..prospects.len()).collect();
        order.sort_by_key(|at| *at != chosen);
        let each = order.iter().map(|at| {
            let (of, prospect) = (&self.alternatives[*at], &prospects[*at]);
            let same = |a: &&Alternative| a.label(false) == of.label(false);
            let clash = self.alternatives.iter().filter(same).count() > 1;
            let start = started(self.start(of), self.at);
            let mut text = format!("{} {start}", of.label(clash));
            if by_end && !prospect.refused {
                text += &ends(prospect, self.work).unwrap_or_default();
            }
            text
        });
        let each = each.collect::<Vec<_>>().join("; ");
        if !by_end || prospects.len() < 2 {
            return format!("queue: {each}");
        }
        let certain = is_certain(prospects, chosen, self.work);
        let why = match certain {
            true => "the first ends soonest".to_owned(),
            false => format!(
                "which ends first is unknown ({}), so the ladder's order decides",
                self.unknown(prospects)
            ),
        };
        format!("queue: {each}; {why}")
    }

    /// What keeps the ends from being compared.
    fn unknown(&self, prospects: &[Prospect]) -> &'static str {
        if prospects.iter().any(|p| p.wait_s.is_none() && !p.refused) {
            return "Slurm gave no start time";
        }
        if self.work.most_s.is_none() {
            return "the log shows no steps from which to tell what is left";
        }
        "how much faster or slower each trains"
    }
}

/// Seconds until a start. What differs by less than the scheduler's own cycle starts at once.
fn wait_s(at: Timestamp, now: Timestamp) -> f64 {
    match at.duration_since(now).as_secs_f64() {
        wait if wait < NOW_S => 0.0,
        wait => wait,
    }
}

/// `starts now`, `starts in about 9h 04m`, and what is said where there is no start.
pub fn started(start: Option<&StartForecast>, now: Timestamp) -> String {
    match start {
        None => "has no known start".to_owned(),
        Some(StartForecast::Refused(why)) => format!("would be refused ({why})"),
        Some(StartForecast::At(at)) => match wait_s(*at, now) {
            0.0 => "starts now".to_owned(),
            wait => format!("starts in about {}", rounded(wait)),
        },
    }
}

/// `, ends in about 5h 20m`, or between two; none where nothing is known of it.
fn ends(prospect: &Prospect, work: Work) -> Option<String> {
    let earliest = prospect.earliest_s(work);
    let latest = prospect.latest_s(work)?;
    prospect.wait_s?;
    let (from, to) = (rounded(earliest), rounded(latest));
    Some(match from == to {
        true => format!(", ends in about {to}"),
        false if earliest < NOW_S => format!(", ends within {to}"),
        false => format!(", ends in {from} to {to}"),
    })
}

fn rounded(seconds: f64) -> String {
    duration(seconds.clamp(0.0, 1e12).round() as i64)
}

/// What a failed attempt had left to do, in seconds at its speed: from the time of its usual step and how many there are; else
/// from its time limit, where the run may not go on after one. All of it again at most: whether the next attempt
/// resumes is seen when it is prepared.
pub fn work_left(step_s: Option<f64>, steps: Option<(u64, u64)>, limit_s: Option<u64>) -> Work {
    let float = |n: u64| n as f64;
    let by_steps = step_s.zip(steps).map(|(step_s, (done, total))| Work {
        least_s: float(total.saturating_sub(done)) * step_s,
        most_s: Some(float(total) * step_s),
    });
    by_steps.unwrap_or(Work {
        least_s: 0.0,
        most_s: limit_s.map(float),
    })
}
