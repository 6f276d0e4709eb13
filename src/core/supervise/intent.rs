//! What a supervisor asks of a run's intent. It knows neither templates nor the user's own scripts:
//! both end in the files of an attempt.

use std::collections::BTreeMap;
use std::path::Path;

use super::checkpoint::{Listing, Resumption, Shelf};
use super::news::Notices;
use super::ready::{Request, Resources};
use super::request::{Limits, Supervision};
use crate::core::diagnose::{Bugs, Incident, Pool, ProgressPattern, UserSignature, Versions};
use crate::core::ladder::{Decision, Past, settle};
use crate::core::learn::{Entry, Job, Memory, Rung};
use crate::core::measure::FigurePattern;
use crate::core::memory::Replicas;
use crate::core::recipe::{Layer, LayerKind, Origin, Problem, Refusal, Role, Value};
use crate::core::recipe::{Shape, expr};
use crate::core::render::{AttemptPlace, RenderedFile};
use crate::core::units::Bytes;

/// Exit code of a script that stopped its program before the time limit, as timeout(1) has it.
const STOPPED_EARLY: i32 = 124;

/// What the scheduler is handed with an attempt's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handed {
    /// Further options for the scheduler, one argv word each.
    pub options: Vec<String>,
    /// Arguments of the script.
    pub arguments: Vec<String>,
    /// Which of the environment the job gets, where that is not all of it.
    pub export: Option<String>,
    /// Standard error goes with standard output.
    pub one_log: bool,
    /// Variables of the environment that are other than those of the submission.
    pub variables: BTreeMap<String, String>,
}

/// Where the user looks for the logs of a job. None where that cannot be told, or both go together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogLinks {
    /// Path of standard output.
    pub stdout: Option<String>,
    /// Path of standard error.
    pub stderr: Option<String>,
    /// Standard error goes with standard output.
    pub one_log: bool,
}

/// What a run was asked to do.
pub trait Intent {
    /// Name of the run.
    fn run(&self) -> &str;
    /// Bounds of the run.
    fn limits(&self) -> &Limits;
    /// How it is supervised.
    fn supervision(&self) -> &Supervision;
    /// Whom to tell of it who does not watch.
    fn notices(&self) -> Option<&Notices> {
        None
    }
    /// Working directory of its jobs, absolute.
    fn workdir(&self) -> &Path;
    /// What the scheduler is handed beside the files.
    ///
    /// # Errors
    /// When it is no legal configuration.
    fn handed(&self, rungs: &[Layer]) -> Result<Handed, Refusal>;

    /// Where else the user looks for the logs of the job with this id than in the project's folder for them.
    fn log_links(&self, _id: &str) -> Option<LogLinks> {
        None
    }

    /// How its program prints progress, besides what is known of common trainers.
    fn progress(&self) -> Vec<ProgressPattern> {
        Vec::new()
    }

    /// How its program prints figures of memory.
    fn measures(&self) -> Vec<FigurePattern> {
        Vec::new()
    }

    /// Messages that only its program prints.
    fn signatures(&self) -> &[UserSignature] {
        &[]
    }

    /// Bugs of the project's own tables.
    fn own_bugs(&self) -> Bugs {
        Bugs::default()
    }

    /// Versions of packages that are installed where its jobs run, as far as they could be read.
    fn installed(&self) -> Versions {
        Versions::default()
    }

    /// Asks the configuration with these rungs which of an incident's bugs it can have.
    fn settle(&self, _rungs: &[Layer], _incident: &mut Incident) {}

    /// What answers an incident of attempt number `attempt`, after what is known of it and of those before.
    ///
    /// # Errors
    /// When the configuration cannot be judged at all.
    fn climb(
        &self,
        rungs: &[Layer],
        past: Past<'_>,
        incident: &Incident,
        attempt: u32,
    ) -> Result<Decision, Refusal>;

    /// The layer that keeps attempt number `attempt` away from these nodes; `None` where the stack has no knob for that.
    fn exclude(&self, _rungs: &[Layer], _nodes: &[String], _attempt: u32) -> Option<Layer> {
        None
    }

    /// Does a later attempt go on from a checkpoint of one with these rungs?
    fn resumes(&self, _rungs: &[Layer]) -> bool {
        false
    }

    /// What the configuration with these rungs has of a memory, for each GPU or node.
    fn memory_limit(&self, _rungs: &[Layer], _pool: Pool) -> Option<Bytes> {
        None
    }

    /// Where the checkpoints lie that the configuration with these rungs would go on from.
    fn shelf(&self, _rungs: &[Layer]) -> Option<Shelf> {
        None
    }

    /// How attempt number `attempt` goes on from what lies there.
    fn resumption(
        &self,
        _rungs: &[Layer],
        _listing: Option<&Listing>,
        _attempt: u32,
    ) -> Option<Resumption> {
        None
    }

    /// Does this exit code say that the script stopped the program before its time limit?
    fn is_early_stop(&self, _rungs: &[Layer], _code: i32) -> bool {
        false
    }

    /// What decides about the memory of the configuration with these rungs, where that can be told.
    fn job(&self, _rungs: &[Layer]) -> Option<Job> {
        None
    }

    /// What says that neither it nor anything that its ladder leads to can fit; `None` where that is not known.
    fn doomed(&self, _memory: &Memory) -> Option<Entry> {
        None
    }

    /// The rungs of earlier runs that it started with.
    fn learned(&self) -> Vec<Rung> {
        Vec::new()
    }

    /// Is it a short job that only tries a configuration?
    fn is_probe(&self) -> bool {
        false
    }

    /// What the configuration with these rungs costs.
    ///
    /// # Errors
    /// When it is no legal configuration.
    fn resources(&self, rungs: &[Layer]) -> Result<Resources, Refusal>;

    /// What one process that drives several GPUs takes of the first and of the others, where that can be told.
    fn replicas(&self, _rungs: &[Layer]) -> Option<Replicas> {
        None
    }

    /// Python files that the configuration with these rungs names, relative to the working directory.
    fn scripts(&self, _rungs: &[Layer]) -> Vec<String> {
        Vec::new()
    }

    /// The files of an attempt.
    ///
    /// # Errors
    /// When it is no legal configuration, or a template fails.
    fn render(&self, rungs: &[Layer], at: &AttemptPlace) -> Result<Vec<RenderedFile>, Refusal>;

    /// The resolved recipe, for `recipe.json`.
    ///
    /// # Errors
    /// When it is no legal configuration.
    fn recipe(&self, rungs: &[Layer]) -> Result<serde_json::Value, Refusal>;
}

impl Intent for Request {
    fn run(&self) -> &str {
        &self.inputs().run
    }

    fn limits(&self) -> &Limits {
        &self.inputs().limits
    }

    fn supervision(&self) -> &Supervision {
        &self.inputs().supervision
    }

    fn notices(&self) -> Option<&Notices> {
        let notices = &self.inputs().notices;
        notices.as_ref().filter(|n| !n.reach_nobody())
    }

    fn workdir(&self) -> &Path {
        Path::new(&self.inputs().workdir)
    }

    fn handed(&self, rungs: &[Layer]) -> Result<Handed, Refusal> {
        let own = self.own_handed(rungs)?;
        Ok(own.unwrap_or_else(|| Handed {
            options: self.inputs().sbatch.clone(),
            ..Handed::default()
        }))
    }

    fn log_links(&self, id: &str) -> Option<LogLinks> {
        self.own_links(id)
    }

    fn progress(&self) -> Vec<ProgressPattern> {
        self.made().progress.clone()
    }

    fn measures(&self) -> Vec<FigurePattern> {
        self.made().measures.clone()
    }

    fn signatures(&self) -> &[UserSignature] {
        &self.inputs().signatures
    }

    fn own_bugs(&self) -> Bugs {
        self.inputs().bugs.clone()
    }

    fn settle(&self, rungs: &[Layer], incident: &mut Incident) {
        settle(&self.footing(rungs, 1), incident);
    }

    fn installed(&self) -> Versions {
        self.inputs().installed.clone()
    }

    fn climb(
        &self,
        rungs: &[Layer],
        past: Past<'_>,
        incident: &Incident,
        attempt: u32,
    ) -> Result<Decision, Refusal> {
        self.ascend(rungs, past, Some(incident), attempt)
    }

    fn exclude(&self, rungs: &[Layer], nodes: &[String], attempt: u32) -> Option<Layer> {
        let knob = self.preset().with_role(Role::ExcludedNodes).next()?;
        let shape = self.shape(rungs).ok()?;
        let value = excluded(shape.recipe().value(&knob.name), nodes)?;
        let mut layer = Layer::new(LayerKind::Rung);
        let origin = Origin::Rung {
            rung: "another node".to_owned(),
            attempt,
        };
        layer.set(&knob.name, value, origin);
        Some(layer)
    }

    fn resumes(&self, rungs: &[Layer]) -> bool {
        let Some(checkpoint) = &self.preset().checkpoint else {
            return false;
        };
        let written = |shape: &Shape| {
            let env = self.preset().env();
            expr::holds(env, &checkpoint.written_when, shape.scope()).unwrap_or(false)
        };
        self.shape(rungs).is_ok_and(|shape| written(&shape))
    }

    fn memory_limit(&self, rungs: &[Layer], pool: Pool) -> Option<Bytes> {
        self.limit_of(rungs, pool)
    }

    fn shelf(&self, rungs: &[Layer]) -> Option<Shelf> {
        Request::shelf(self, rungs)
    }

    fn resumption(
        &self,
        rungs: &[Layer],
        listing: Option<&Listing>,
        attempt: u32,
    ) -> Option<Resumption> {
        Request::resumption(self, rungs, listing, attempt)
    }

    fn is_early_stop(&self, rungs: &[Layer], code: i32) -> bool {
        code == STOPPED_EARLY && Request::stops_early(self, rungs)
    }

    fn job(&self, rungs: &[Layer]) -> Option<Job> {
        Request::job(self, rungs).ok()
    }

    fn doomed(&self, memory: &Memory) -> Option<Entry> {
        let known = self.inputs().scripts.is_none();
        known.then(|| Request::doomed(self, memory))?
    }

    fn learned(&self) -> Vec<Rung> {
        self.learned_rungs()
    }

    fn is_probe(&self) -> bool {
        self.inputs().probe.is_some()
    }

    fn resources(&self, rungs: &[Layer]) -> Result<Resources, Refusal> {
        Request::resources(self, rungs)
    }

    fn replicas(&self, rungs: &[Layer]) -> Option<Replicas> {
        Request::replicas(self, rungs)
    }

    fn scripts(&self, rungs: &[Layer]) -> Vec<String> {
        Request::scripts(self, rungs)
    }

    fn render(&self, rungs: &[Layer], at: &AttemptPlace) -> Result<Vec<RenderedFile>, Refusal> {
        Request::render(self, rungs, at)
    }

    fn recipe(&self, rungs: &[Layer]) -> Result<serde_json::Value, Refusal> {
        let recipe = match Request::recipe(self, rungs) {
            // The user's own script is submitted as it is, whatever the preset's rules say of it.
            Err(_) if self.inputs().scripts.is_some() && rungs.is_empty() => {
                return Ok(serde_json::Value::Null);
            }
            other => other?,
        };
        serde_json::to_value(&recipe).map_err(|e| Problem::new(e.to_string()).into())
    }
}

/// The nodes that were excluded before, and these, in the form that the knob has; `None` when they
/// are all in it.
fn excluded(before: &Value, nodes: &[String]) -> Option<Value> {
    let mut names: Vec<String> = match before {
        Value::Text(text) => text.split(',').map(str::to_owned).collect(),
        Value::List(list) => list.clone(),
        _ => Vec::new(),
    };
    let known = names.len();
    for node in nodes {
        if !names.contains(node) {
            names.push(node.clone());
        }
    }
    names.retain(|n| !n.is_empty());
    let grown = names.len() > known;
    grown.then(|| match before {
        Value::List(_) => Value::List(names),
        _ => Value::Text(names.join(",")),
    })
}
