//! Answers to a failure that differ in what they ask of the scheduler, and when each could start.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request::Request;
use crate::core::ladder::{
    Decision, Expectation, Past, Policy, Prospect, Skipped, Step, Work, costs, is_certain, soonest,
};
use crate::core::recipe::{Layer, RungSpec};
use oomctl_base::units::duration;
use oomctl_base::{Effect, Role};
use oomctl_diagnose::{Class, Incident};

/// Answers that are compared at most: one question to the scheduler each.
const MOST: usize = 6;
/// A wait below this is none, in seconds: the scheduler's own cycle takes as long.
const NOW_S: f64 = 60.0;
/// What a job asks of the queue.
const ASKED: [Role; 6] = [
    Role::GpusPerNode,
    Role::Nodes,
    Role::GpuType,
    Role::Partition,
    Role::Constraint,
    Role::HostMemory,
];
/// Another kind of GPU: of its speed nothing is known.
const OTHER_GPU: [Role; 3] = [Role::GpuType, Role::Partition, Role::Constraint];

/// When a submission would start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartForecast {
    /// At this moment, as the scheduler estimates it.
    At(Timestamp),
    /// Never: the scheduler's own words.
    Refused(String),
}

/// One answer to a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// Its rungs.
    pub steps: Vec<Step>,
    /// Rungs that were passed over.
    pub skipped: Vec<Skipped>,
    /// What the memory model expects of it.
    pub expects: Option<Expectation>,
    /// GPUs of the whole job, 0 where unknown.
    pub gpus: u64,
    /// Those of its rungs that ask for more.
    more: Vec<String>,
    /// Share of its speed that the job loses, as presets state it; `None` where one does not.
    slower: Option<f64>,
    /// It makes another experiment, whose work is another one.
    other_work: bool,
    /// It asks for another kind of GPU.
    other_gpu: bool,
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

impl Alternative {
    /// Its rungs by name.
    #[must_use]
    pub fn rungs(&self) -> Vec<String> {
        self.steps.iter().map(|s| s.rung.clone()).collect()
    }

    /// What it asks for beyond the others, and its GPUs, for people; with all of its rungs where that does not tell it from
    /// another one.
    fn label(&self, all: bool) -> String {
        let mut names = match all {
            true => self.rungs(),
            false => self.more.clone(),
        };
        names.dedup();
        let names = match names.is_empty() {
            true => "without more".to_owned(),
            false => names.join(", "),
        };
        match self.gpus {
            0 => names,
            1 => format!("{names} (1 GPU)"),
            n => format!("{names} ({n} GPUs)"),
        }
    }

    /// Time that a piece of work takes on it, of what it took before: at least and at most. More GPUs make a job faster by
    /// at most their number, and no slower.
    fn pace(&self, gpus: u64) -> (f64, Option<f64>) {
        if self.other_work || self.other_gpu || gpus == 0 || self.gpus == 0 {
            return (0.0, None);
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of GPUs are small")]
        let more = (self.gpus as f64 / gpus as f64).max(1.0);
        match self.slower {
            Some(slower) => (1.0 / (1.0 - slower) / more, Some(1.0 / (1.0 - slower))),
            None => (1.0 / more, None),
        }
    }
}

impl Request {
    /// Does any of these steps ask the scheduler for more, or for something else?
    #[must_use]
    pub fn asks_for_more(&self, steps: &[Step]) -> bool {
        let changes = steps.iter().flat_map(|s| &s.changes);
        self.touches(changes.map(|c| c.knob.as_str()), &ASKED)
    }

    fn touches<'k>(&self, mut knobs: impl Iterator<Item = &'k str>, roles: &[Role]) -> bool {
        let role = |name| self.preset().knob(name).and_then(|k| k.role);
        knobs.any(|name| role(name).is_some_and(|r| roles.contains(&r)))
    }

    fn rung_asks_for_more(&self, rung: &RungSpec) -> bool {
        let leading = || rung.moves.iter().filter(|m| !m.along);
        let roles = leading().filter_map(|m| m.role);
        let mut roles = roles.chain(leading().filter_map(|m| {
            let knob = self.preset().knob(m.knob.as_deref()?)?;
            knob.role
        }));
        roles.any(|r| ASKED.contains(&r))
    }

    /// The answers to a failure that differ in what they ask of the scheduler: `first`, which is what the ladder says, then
    /// what does without more, then for each rung that asks for more what begins with it.
    #[must_use]
    pub fn alternatives(
        &self,
        first: &Decision,
        rungs: &[Layer],
        past: Past<'_>,
        incident: Option<&Incident>,
        attempt: u32,
    ) -> Vec<Alternative> {
        let ladder = self.ladder_without(past.left_out).into_iter();
        let (more, rest): (Vec<RungSpec>, Vec<RungSpec>) =
            ladder.partition(|r| self.rung_asks_for_more(r));
        let mut found: Vec<Alternative> = Vec::new();
        let mut take = |decision: Decision| {
            let alternative = self.alternative(rungs, decision);
            let new = alternative.filter(|a| found.iter().all(|f| f.steps != a.steps));
            found.extend(new);
            found.len() < MOST
        };
        take(first.clone());
        let leading = more.iter().map(std::slice::from_ref);
        for leading in std::iter::once(&[][..]).chain(leading) {
            let ladder = [leading, &rest].concat();
            let decision = self.ascend_over(&ladder, rungs, past, incident, attempt);
            if decision.is_ok_and(|decision| !take(decision)) {
                break;
            }
        }
        found
    }

    /// The answers to the first failure that is to be expected, out of memory on a GPU.
    #[must_use]
    pub fn first_alternatives(&self) -> Vec<Alternative> {
        let foreseen = self.foreseen(&[]).map(|(incident, _)| incident);
        let incident = foreseen.unwrap_or_else(|| Incident::bare("cuda_oom", Class::GpuOom));
        let (past, incident) = (Past::default(), Some(&incident));
        let first = self.ascend(&[], past, incident, 1);
        first.map_or_else(
            |_| Vec::new(),
            |first| self.alternatives(&first, &[], past, incident, 1),
        )
    }

    /// The job as it is, and these answers; as many as are compared.
    #[must_use]
    pub fn unchanged_and(&self, answers: Vec<Alternative>) -> Vec<Alternative> {
        let unchanged = Decision::Climb {
            steps: Vec::new(),
            skipped: Vec::new(),
            expects: None,
        };
        let all = self.alternative(&[], unchanged).into_iter().chain(answers);
        all.take(MOST).collect()
    }

    fn alternative(&self, rungs: &[Layer], decision: Decision) -> Option<Alternative> {
        let Decision::Climb {
            steps,
            skipped,
            expects,
        } = decision
        else {
            return None;
        };
        let then: Vec<Layer> = rungs
            .iter()
            .chain(steps.iter().map(|s| &s.layer))
            .cloned()
            .collect();
        let all: Vec<&Step> = steps.iter().collect();
        let each = costs(self.preset(), &self.inputs().ladder, &all);
        // More of everything makes nothing slower.
        let costs = steps.iter().zip(each).map(|(step, cost)| {
            let asks = self.asks_for_more(std::slice::from_ref(step));
            cost.or_else(|| asks.then_some(0.0))
        });
        let left = costs.map(|cost| Some(1.0 - cost?)).product::<Option<f64>>();
        let changes = || steps.iter().flat_map(|s| &s.changes);
        let more = steps
            .iter()
            .filter(|s| self.asks_for_more(std::slice::from_ref(s)));
        Some(Alternative {
            more: more.map(|s| s.rung.clone()).collect(),
            gpus: self.resources(&then).map_or(0, |r| r.gpus),
            slower: left.filter(|l| *l > 0.0).map(|l| 1.0 - l),
            other_work: steps.iter().any(|s| s.effect == Effect::ChangesTraining),
            other_gpu: self.touches(changes().map(|c| c.knob.as_str()), &OTHER_GPU),
            steps,
            skipped,
            expects,
        })
    }

    /// The answer to take, with a note on its first rung that says what the queue said of all of them. The policy `soonest`
    /// takes what ends first; every other takes the ladder's.
    #[must_use]
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
#[must_use]
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

#[expect(
    clippy::cast_possible_truncation,
    reason = "clamped to a range that fits"
)]
fn rounded(seconds: f64) -> String {
    duration(seconds.clamp(0.0, 1e12).round() as i64)
}

/// What a failed attempt had left to do, in seconds at its speed: from the time of its usual step and how many there are; else
/// from its time limit, where the run may not go on after one. All of it again at most: whether the next attempt
/// resumes is seen when it is prepared.
#[must_use]
pub fn work_left(step_s: Option<f64>, steps: Option<(u64, u64)>, limit_s: Option<u64>) -> Work {
    #[expect(clippy::cast_precision_loss, reason = "seconds and steps of a job")]
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
