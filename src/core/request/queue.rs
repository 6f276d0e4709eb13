//! Answers to a failure that differ in what they ask of the scheduler.

use super::request::Request;
use crate::core::ladder::{Decision, Expectation, Past, Skipped, Step, costs};
use crate::core::recipe::{Layer, RungSpec};
use oomctl_base::{Effect, Role};
use oomctl_diagnose::{Class, Incident};

/// Answers that are compared at most: one question to the scheduler each.
const MOST: usize = 6;
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

impl Alternative {
    /// Its rungs by name.
    pub fn rungs(&self) -> Vec<String> {
        self.steps.iter().map(|s| s.rung.clone()).collect()
    }

    /// What it asks for beyond the others, and its GPUs, for people; with all of its rungs where that does not tell it from
    /// another one.
    pub(super) fn label(&self, all: bool) -> String {
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
    pub(super) fn pace(&self, gpus: u64) -> (f64, Option<f64>) {
        if self.other_work || self.other_gpu || gpus == 0 || self.gpus == 0 {
            return (0.0, None);
        }
        let more = (self.gpus as f64 / gpus as f64).max(1.0);
        match self.slower {
            Some(slower) => (1.0 / (1.0 - slower) / more, Some(1.0 / (1.0 - slower))),
            None => (1.0 / more, None),
        }
    }
}

impl Request {
    /// Does any of these steps ask the scheduler for more, or for something else?
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
}
