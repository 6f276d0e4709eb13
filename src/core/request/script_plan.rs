//! What a script of the user's own would be run as: the first attempt, and each rung, as a diff of the user's files.

use std::collections::BTreeMap;

use super::plan::{MOST_ATTEMPTS, PlannedStep};
use super::request::Request;
use crate::core::adopt::{PATCH, since};
use crate::core::ladder::{Change, Decision, Skipped, Step, cannot_edit};
use crate::core::recipe::{Layer, Resolved};
use crate::core::render::AttemptPlace;
use oomctl_base::Effect;
use oomctl_memory::{Estimate, GPU_MEMORY};
use oomctl_scripts::{Patch, Submission};

/// The random part of a token that does not exist yet.
const NO_TOKEN: &str = "????????";

/// The attempts that may come.
#[derive(Debug, Default)]
pub struct ScriptPlan {
    /// Memory as it is; `None` where it is unknown.
    pub now: Option<Estimate>,
    /// In order.
    pub attempts: Vec<ScriptAttempt>,
    /// Rungs of which none is taken, and why.
    pub not_used: Vec<Skipped>,
    /// Rungs that were passed over for the first step that changes training, and why.
    pub before_training_changes: Vec<Skipped>,
    /// What is changed first where host memory runs out instead.
    pub after_host_oom: Vec<Change>,
    /// Why no rung can be taken.
    pub problem: Option<String>,
    /// What the user may change instead, where oomctl cannot edit the scripts, and why.
    pub by_hand: Option<(String, Vec<ScriptAttempt>)>,
}

/// An attempt that may come.
#[derive(Debug)]
pub struct ScriptAttempt {
    /// Its number.
    pub attempt: u32,
    /// The rungs that are taken for it.
    pub rungs: Vec<PlannedStep>,
    /// Values that are given behind all others, because they are not changed where they stand.
    pub appended: Vec<String>,
    /// Where each knob is changed.
    pub places: BTreeMap<String, String>,
    /// What differs from the user's files.
    pub diff: String,
    /// What differs from the attempt before, of the user's own lines.
    pub since: String,
}

/// A submission and its files.
type Submitted = (Submission, BTreeMap<String, String>);

impl Request {
    /// Climbs as if every attempt died of a GPU OOM of which nothing is known, from attempt `first` on; `program` is this
    /// program on the job's nodes.
    pub fn script_plan(&self, first: u32, program: Option<&str>) -> ScriptPlan {
        let mut plan = ScriptPlan {
            now: self.memory(&[]),
            after_host_oom: self.after_host_oom(),
            ..ScriptPlan::default()
        };
        let mut climbs: Vec<Vec<Step>> = Vec::new();
        plan.problem = self.fill(&mut plan, &mut climbs, (first, program)).err();
        let mut planned = self.planned(&[], climbs.concat()).into_iter();
        for (attempt, steps) in plan.attempts.iter_mut().zip(&climbs) {
            attempt.rungs = planned.by_ref().take(steps.len()).collect();
        }
        let refused = cannot_edit(&plan.not_used).filter(|_| climbs.concat().is_empty());
        plan.by_hand = refused.map(|s| (s.reason.clone(), self.by_hand().changed_by_hand()));
        plan
    }

    /// What each attempt changes, where the user makes the changes.
    fn changed_by_hand(&self) -> Vec<ScriptAttempt> {
        let (mut taken, mut all): (Vec<Layer>, Vec<ScriptAttempt>) = (Vec::new(), Vec::new());
        for (attempt, decision) in (2..).zip(self.decisions(MOST_ATTEMPTS)) {
            let Ok(Decision::Climb { steps, .. }) = decision else {
                break;
            };
            let before = taken.clone();
            taken.extend(steps.iter().map(|s| s.layer.clone()));
            let patch = self.patch(&taken).ok().flatten();
            all.push(ScriptAttempt {
                attempt,
                rungs: self.planned(&before, steps),
                appended: Vec::new(),
                places: patch.as_ref().map_or_else(BTreeMap::new, Patch::places),
                diff: String::new(),
                since: String::new(),
            });
        }
        all
    }

    /// The attempts, and in `climbs` the rungs of each.
    fn fill(
        &self,
        plan: &mut ScriptPlan,
        climbs: &mut Vec<Vec<Step>>,
        (first, program): (u32, Option<&str>),
    ) -> Result<(), String> {
        let (mut taken, mut rungs): (Vec<Layer>, Vec<Step>) = (Vec::new(), Vec::new());
        let mut last: Option<Submitted> = None;
        let mut decisions = self.decisions(MOST_ATTEMPTS);
        for number in 1..=MOST_ATTEMPTS {
            let (mut attempt, now) = self.script_attempt(number, &taken, program)?;
            if let (Some(last), Some(now)) = (&last, &now) {
                attempt.since = since(last, now);
            }
            last = now;
            if number >= first {
                plan.attempts.push(attempt);
                climbs.push(rungs);
            }
            let Some(decision) = decisions.next() else {
                return Ok(());
            };
            match decision.map_err(|e| e.to_string())? {
                Decision::Climb { steps, skipped, .. } => {
                    let changes = steps.iter().any(|s| s.effect == Effect::ChangesTraining);
                    if changes && plan.before_training_changes.is_empty() {
                        plan.before_training_changes = skipped;
                    }
                    taken.extend(steps.iter().map(|s: &Step| s.layer.clone()));
                    rungs = steps;
                }
                Decision::Exhausted { mut skipped, .. } => {
                    let used = climbs.iter().flatten();
                    skipped.retain(|s| used.clone().all(|step| step.rung != s.rung));
                    plan.not_used = skipped;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// An attempt, and what it submits.
    fn script_attempt(
        &self,
        number: u32,
        taken: &[Layer],
        program: Option<&str>,
    ) -> Result<(ScriptAttempt, Option<Submitted>), String> {
        let inputs = self.inputs();
        let run = &inputs.run;
        let place = AttemptPlace {
            run: run.clone(),
            number,
            token: format!("oomctl-{run}-{number}-{NO_TOKEN}"),
            dir: format!("{}/.oomctl/runs/{run}/attempt-{number}", inputs.project),
            workdir: inputs.workdir.clone(),
            program: program.map(str::to_owned),
            ..AttemptPlace::anywhere(&inputs.project, &inputs.backend)
        };
        let files = self.render(taken, &place).map_err(|e| e.to_string())?;
        let diff = files.into_iter().find(|f| f.name == PATCH);
        let diff = diff.map(|f| f.text).unwrap_or_default();
        let patch = self.patch(taken).map_err(|e| e.to_string())?;
        let adoption = self.adoption();
        let submitted = adoption.zip(patch.as_ref());
        let submitted = submitted.map(|(adoption, patch)| adoption.resubmitted(patch));
        let patch = patch.as_ref();
        let attempt = ScriptAttempt {
            attempt: number,
            rungs: Vec::new(),
            appended: patch.map_or_else(Vec::new, |p| p.appended().map(str::to_owned).collect()),
            places: patch.map_or_else(BTreeMap::new, Patch::places),
            since: diff.clone(),
            diff,
        };
        Ok((attempt, submitted))
    }

    /// The memory of one GPU of the first attempt with its origin, where it is known.
    pub fn gpu_memory(&self) -> Option<Resolved> {
        let shape = self.shape(&[]).ok()?;
        let known = shape.recipe().values.get(GPU_MEMORY)?;
        (!known.value.is_null()).then(|| known.clone())
    }
}
