//! What a script of the user's own would be run as: the first attempt, and each rung, as a diff of the user's files.

use schemars::JsonSchema;
use serde::Serialize;

use super::request::Request;
use crate::core::adopt::PATCH;
use crate::core::ladder::{Decision, Skipped, Step};
use crate::core::recipe::{Layer, Resolved};
use crate::core::render::AttemptPlace;
use oomctl_memory::GPU_MEMORY;

/// Attempts that are shown at most.
const MOST_ATTEMPTS: u32 = 64;
/// The random part of a token that does not exist yet.
const NO_TOKEN: &str = "????????";

/// The attempts that may come.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ScriptPlan {
    /// In order.
    pub attempts: Vec<ScriptAttempt>,
    /// Rungs of which none is taken, and why.
    pub not_used: Vec<Skipped>,
    /// Why no rung can be taken.
    pub problem: Option<String>,
}

/// An attempt that may come.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptAttempt {
    /// Its number.
    pub attempt: u32,
    /// The rungs that are taken for it.
    pub rungs: Vec<Step>,
    /// Values that are given behind all others, because they are not changed where they stand.
    pub appended: Vec<String>,
    /// The change of the user's files.
    pub diff: String,
}

impl Request {
    /// Climbs as if every attempt died of a GPU OOM of which nothing is known, from attempt `first` on; `program` is this
    /// program on the job's nodes.
    #[must_use]
    pub fn script_plan(&self, first: u32, program: Option<&str>) -> ScriptPlan {
        let mut plan = ScriptPlan::default();
        if let Err(problem) = self.fill(&mut plan, first, program) {
            plan.problem = Some(problem);
        }
        plan
    }

    fn fill(&self, plan: &mut ScriptPlan, first: u32, program: Option<&str>) -> Result<(), String> {
        let (mut taken, mut rungs) = (Vec::new(), Vec::new());
        let mut decisions = self.decisions(MOST_ATTEMPTS);
        for number in 1..=MOST_ATTEMPTS {
            if number >= first {
                let attempt = self.script_attempt(number, &taken, rungs, program)?;
                plan.attempts.push(attempt);
            }
            let Some(decision) = decisions.next() else {
                return Ok(());
            };
            match decision.map_err(|e| e.to_string())? {
                Decision::Climb { steps, .. } => {
                    taken.extend(steps.iter().map(|s: &Step| s.layer.clone()));
                    rungs = steps;
                }
                Decision::Exhausted { mut skipped, .. } => {
                    let used = plan.attempts.iter().flat_map(|a| &a.rungs);
                    skipped.retain(|s| used.clone().all(|step| step.rung != s.rung));
                    plan.not_used = skipped;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn script_attempt(
        &self,
        number: u32,
        taken: &[Layer],
        rungs: Vec<Step>,
        program: Option<&str>,
    ) -> Result<ScriptAttempt, String> {
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
        let patch = self.patch(taken).map_err(|e| e.to_string())?;
        Ok(ScriptAttempt {
            attempt: number,
            rungs,
            appended: patch.map_or_else(Vec::new, |p| p.appended.into_iter().collect()),
            diff: diff.map(|f| f.text).unwrap_or_default(),
        })
    }

    /// The memory of one GPU of the first attempt with its origin, where it is known.
    #[must_use]
    pub fn gpu_memory(&self) -> Option<Resolved> {
        let shape = self.shape(&[]).ok()?;
        let known = shape.recipe().values.get(GPU_MEMORY)?;
        (!known.value.is_null()).then(|| known.clone())
    }
}
