//! A run whose files are the user's own scripts: an attempt is a patch of them.
//!
//! Rule: the first attempt is the script as it is, whatever is or is not understood of it; a rung that cannot be put
//! into the scripts is not taken.

use std::collections::BTreeMap;

use super::handed::{Handed, LogLinks};
use super::inputs::Adopts;
use super::request::Request;
use super::source::{RequestScripts, Source};
use crate::core::adopt::{self, Resources, TaskList, is_array};
use crate::core::ladder::{Decision, IN_SCRIPTS, Skipped, Step};
use crate::core::recipe::{Layer, LayerKind};
use crate::core::render::{AttemptPlace, RenderedFile};
use oomctl_base::{Origin, Problem, Refusal, Role, Value};
use oomctl_scripts::{Adoption, OutputFile, Patch, PatchError};

/// The knob that says whether the GPUs' memory is sampled beside a job.
const SAMPLER: &str = "sampler";

impl Request {
    /// What is understood of the scripts, where the run's files are the user's own.
    pub fn adoption(&self) -> Option<Adoption<'_>> {
        let scripts = self.inputs().scripts.as_ref()?;
        let own = self.own_scripts()?;
        Some(scripts.read(&own.submission, &own.stacks))
    }

    /// Whether exit code 0 of the scripts may hide that the program failed.
    pub fn may_hide_exit(&self) -> bool {
        let adoption = self.adoption();
        adoption.is_some_and(|adoption| adopt::hidden(&adoption).is_some())
    }

    /// Whether the scripts start another program behind theirs, even where that has failed.
    pub fn goes_on_after_failure(&self) -> bool {
        let adoption = self.adoption();
        adoption.is_some_and(|adoption| adopt::goes_on(&adoption))
    }

    /// The job array that the scripts ask for: a run for each of its tasks. `None` where they are one job, or one task.
    ///
    /// # Errors
    /// A list of tasks that cannot be read.
    pub fn array(&self) -> Result<Option<TaskList>, Refusal> {
        let list = self.adoption().map(|a| TaskList::of(&a.reading));
        let list = list.transpose().map(Option::flatten);
        list.map_err(|why| Problem::new(why).into())
    }

    /// The same request for one task of that array: a run of its own, whose attempts all carry the index.
    pub fn task(&self, run: &str, index: u32, array: Option<&TaskList>) -> Self {
        let mut task = self.clone().named(run);
        let alone = |options: &mut Vec<String>| {
            options.retain(|o| !is_array(o));
            options.push(format!("--array={index}"));
        };
        let inputs = task.inputs_mut();
        alone(&mut inputs.sbatch);
        if let Some(scripts) = &mut inputs.scripts {
            alone(&mut scripts.options);
            scripts.array = array.map(|list| list.text.clone());
        }
        let mut task = task.with_submission();
        // What the scripts compute may be known of a task.
        let open = |l: &Layer| l.kind == LayerKind::Program && !l.pins.is_empty();
        let at = task.inputs().layers.iter().position(open);
        let read = task.adoption();
        let read = read.map(|adoption| adopt::layer(task.preset(), &adoption));
        if let Some((at, layer)) = at.zip(read) {
            task.inputs_mut().layers[at] = layer;
        }
        task
    }

    /// The first task of the job array that the scripts ask for, or the request itself.
    ///
    /// # Errors
    /// As [`Request::array`].
    pub fn first_task(&self) -> Result<Self, Refusal> {
        let list = self.array()?;
        let first = list.as_ref().and_then(|list| list.indices.first());
        let task = first.map(|index| self.task(self.run(), *index, list.as_ref()));
        Ok(task.unwrap_or_else(|| self.clone()))
    }

    /// The same request for a run whose first attempt is a job that was submitted without us.
    pub fn adopting(mut self, adopts: Adopts) -> Self {
        self.inputs_mut().adopts = Some(adopts);
        self
    }

    pub(super) fn own_scripts(&self) -> Option<&RequestScripts> {
        match &self.source {
            Source::Scripts(scripts) => Some(scripts),
            _ => None,
        }
    }

    /// What has to be said of the scripts: where they go against the preset, it is the preset which is not believed.
    pub fn doubts(&self) -> &[String] {
        self.own_scripts().map_or(&[], |own| &own.doubts)
    }

    /// The scripts with the values of these rungs; None where the run's files come from templates.
    ///
    /// # Errors
    /// Values that break a rule, or cannot be put into the scripts.
    pub fn patch(&self, rungs: &[Layer]) -> Result<Option<Patch>, Refusal> {
        let Some(adoption) = self.adoption() else {
            return Ok(None);
        };
        let patch = self.patch_of(&adoption, rungs)?;
        patch.map(Some).map_err(|refused| told(&refused))
    }

    /// The outer result: are the values legal? The inner: can they be put into the scripts?
    fn patch_of(
        &self,
        adoption: &Adoption<'_>,
        rungs: &[Layer],
    ) -> Result<Result<Patch, Vec<PatchError>>, Refusal> {
        let learned = |l: &Layer| l.kind == LayerKind::Learned;
        if rungs.is_empty() && !self.inputs().layers.iter().any(learned) {
            return Ok(Ok(adoption.unchanged()));
        }
        let mut changes = self.changes(rungs)?;
        if let Some(knob) = self.preset().with_role(Role::ExcludedNodes).next() {
            changes.remove(&knob.name);
        }
        Ok(adopt::patched(self.preset(), adoption, &changes))
    }

    /// The knobs to which what was learned and these rungs give other values than the scripts. What the preset would
    /// only compute of those is the program's own affair, and is not written.
    fn changes(&self, rungs: &[Layer]) -> Result<BTreeMap<String, Value>, Refusal> {
        let asked = self.with_layers_of(|kind| kind != LayerKind::Learned);
        let (before, after) = (asked.shape(&[])?, self.shape(rungs)?);
        let learned = self.inputs().layers.iter();
        let learned = learned.filter(|l| l.kind == LayerKind::Learned);
        let declared = learned.chain(rungs).flat_map(|l| l.settings.keys());
        let changed = declared.filter_map(|name| {
            let value = after.recipe().value(name);
            let moved = value != before.recipe().value(name) && *value != Value::Null;
            moved.then(|| (name.clone(), value.clone()))
        });
        Ok(changed.collect())
    }

    /// The files of an attempt; None where they come from templates.
    pub(super) fn own_files(
        &self,
        rungs: &[Layer],
        at: &AttemptPlace,
    ) -> Result<Option<Vec<RenderedFile>>, Refusal> {
        let Some(adoption) = self.adoption() else {
            return Ok(None);
        };
        let patch = self.patch_of(&adoption, rungs)?;
        let name = adopt::job_name(&adoption.reading);
        let sampled = self.sampled();
        let array = self.inputs().scripts.as_ref();
        let named = (name.as_str(), array.and_then(|s| s.array.as_deref()));
        let files = patch.and_then(|patch| adopt::files(&adoption, &patch, at, named, sampled));
        files.map(Some).map_err(|refused| told(&refused))
    }

    /// What two jobs must have in common beside knobs to be compared.
    ///
    /// # Errors
    /// What is not known of the scripts.
    pub fn own_facts(&self) -> Result<BTreeMap<String, String>, Refusal> {
        if let Some(command) = self.command() {
            return Ok(self.command_facts(command));
        }
        let inputs = self.inputs();
        if inputs.scripts.is_some() && !inputs.is_recognised() {
            return Err(Problem::new("its program is unknown").into());
        }
        let facts = self.adoption().map(|adoption| adopt::comparable(&adoption));
        facts
            .transpose()
            .map(Option::unwrap_or_default)
            .map_err(|why| Problem::new(why).into())
    }

    /// Whether the memory of the job's GPUs is sampled beside the script.
    fn sampled(&self) -> bool {
        let layers = self.inputs().layers.iter().rev();
        let mut given = layers.filter_map(|l| l.settings.get(SAMPLER));
        given.next().is_none_or(|s| s.value != Value::Bool(false))
    }

    /// What the scheduler is handed beside the files.
    pub(super) fn own_handed(&self, rungs: &[Layer]) -> Result<Option<Handed>, Refusal> {
        let Some(adoption) = self.adoption() else {
            return Ok(None);
        };
        let patch = self.patch_of(&adoption, rungs)?.map_err(|r| told(&r))?;
        let (submission, _) = adoption.resubmitted(&patch);
        let before = &self.inputs().scripts.as_ref().map(|s| &s.variables);
        let known = |name: &String| before.and_then(|v| v.get(name));
        let variables = submission.variables.into_iter();
        let mut options = submission.options;
        options.extend(self.excluded(rungs));
        Ok(Some(Handed {
            options,
            arguments: submission.args,
            export: adopt::export(&adoption.reading),
            one_log: !adopt::has_error_log(&adoption.reading),
            variables: variables.filter(|(n, v)| known(n) != Some(v)).collect(),
            gpu: None,
        }))
    }

    /// The option that keeps an attempt away from nodes, where a rung says so.
    fn excluded(&self, rungs: &[Layer]) -> Option<String> {
        let knob = self.preset().with_role(Role::ExcludedNodes).next()?;
        let layer = rungs
            .iter()
            .rev()
            .find(|l| l.settings.contains_key(&knob.name))?;
        let value = &layer.settings.get(&knob.name)?.value;
        Some(format!("--exclude={value}"))
    }

    /// What the job takes, as the scripts ask for it.
    pub(super) fn own_resources(&self, rungs: &[Layer]) -> Option<Resources> {
        let adoption = self.adoption()?;
        let patch = self.patch_of(&adoption, rungs).ok()?.ok();
        Some(match patch.filter(|p| !p.edits.is_empty()) {
            None => adopt::resources(&adoption.reading),
            Some(patch) => {
                let (scripts, own) = (self.inputs().scripts.as_ref()?, self.own_scripts()?);
                let (submission, files) = adoption.resubmitted(&patch);
                let after = adopt::Scripts {
                    files: files.into(),
                    ..scripts.clone()
                };
                adopt::resources(&after.read(&submission, &own.stacks).reading)
            }
        })
    }

    /// The files into which the scripts send what their program prints, where those are files of one job.
    pub fn outputs(&self) -> Vec<OutputFile> {
        let (Some(own), Some(scripts)) = (self.own_scripts(), &self.inputs().scripts) else {
            return Vec::new();
        };
        let mut submission = own.submission.clone();
        // Of a task, too, only those which no other task writes.
        if let Some(list) = &scripts.array {
            submission.options.retain(|o| !is_array(o));
            submission.options.push(format!("--array={list}"));
        }
        adopt::readable_outputs(&scripts.read(&submission, &own.stacks))
    }

    /// Where else the user looks for the logs of the job with this id than in the project's folder for them.
    pub fn log_links(&self, id: &str) -> Option<LogLinks> {
        let adoption = self.adoption()?;
        let user = self.inputs().user.as_deref().unwrap_or_default();
        let task = adopt::array(&adoption.reading);
        let (array, _) = id.split_once('_').unwrap_or((id, ""));
        let ids = adopt::JobIds {
            job: id,
            array,
            task: task.as_deref(),
        };
        let (out, err) = adopt::logs(&adoption.reading, &self.inputs().workdir, user);
        Some(LogLinks {
            stdout: out.map(|p| p.path(&ids)),
            stderr: err.map(|p| p.path(&ids)),
            one_log: !adopt::has_error_log(&adoption.reading),
        })
    }

    /// The same request, whose scripts the user changes.
    pub fn by_hand(&self) -> Self {
        let mut request = self.clone();
        request.by_hand = true;
        request
    }

    /// Asks for the next rungs until there are some that can be put into the scripts.
    pub(super) fn reachable(
        &self,
        rungs: &[Layer],
        mut ask: impl FnMut(&[Layer]) -> Result<Decision, Refusal>,
    ) -> Result<Decision, Refusal> {
        let mut layers = self.inputs().layers.clone();
        let Some(adoption) = self.adoption() else {
            return ask(&layers);
        };
        let mut passed: Vec<Skipped> = Vec::new();
        // Each turn pins at least one more knob.
        for _ in 0..=self.preset().knobs.len() {
            let mut decision = ask(&layers)?;
            let steps = match &mut decision {
                Decision::Climb { steps, .. } => steps,
                Decision::Exhausted { skipped, shortfall } => {
                    passed.retain(|p| !p.by_hand.is_empty());
                    // It counts only what oomctl can edit.
                    if !passed.is_empty() {
                        *shortfall = None;
                    }
                    skipped.retain(|s| passed.iter().all(|p| !s.reason.contains(&p.reason)));
                    skipped.splice(0..0, passed);
                    return Ok(decision);
                }
            };
            let next = rungs.iter().chain(steps.iter().map(|s| &s.layer));
            let next: Vec<Layer> = next.cloned().collect();
            let place = AttemptPlace::anywhere(&self.inputs().workdir, &self.inputs().backend);
            let patch = self.patch_of(&adoption, &next)?;
            let (refused, by_hand) = match patch {
                Ok(patch) => {
                    let changes = steps.iter_mut().flat_map(|s| &mut s.changes);
                    adopt::called(changes, &adoption, &patch);
                    let copied = adopt::files(&adoption, &patch, &place, ("job", None), false);
                    match copied {
                        Err(refused) if !self.by_hand => (refused, true),
                        _ => return Ok(decision),
                    }
                }
                Err(refused) => (refused, false),
            };
            let why = refused.first().map_or("", |r| r.why.as_str());
            passed.extend(steps.iter().map(|step| Skipped {
                by_hand: if by_hand {
                    step.changes.clone()
                } else {
                    Vec::new()
                },
                ..Skipped::new(&step.rung, why)
            }));
            layers.push(self.pinned(steps, &refused));
        }
        Ok(Decision::Exhausted {
            skipped: passed,
            shortfall: None,
        })
    }

    /// The layer that keeps the ladder away from knobs which cannot be changed.
    fn pinned(&self, steps: &[Step], refused: &[PatchError]) -> Layer {
        let mut layer = Layer::new(LayerKind::Flags);
        for one in refused {
            let known = self.preset().knobs.iter().any(|k| k.name == one.knob);
            let knob = match known {
                true => Some(one.knob.as_str()),
                false => adopt::knob_of(self.preset(), &one.knob),
            };
            let moved = |k: &&str| steps.iter().flat_map(|s| &s.changes).any(|c| c.knob == **k);
            if let Some(knob) = knob.filter(moved) {
                layer.pins.insert(knob.to_owned(), said(&one.why));
            }
        }
        let why = refused.first().map_or("", |r| r.why.as_str());
        if layer.pins.is_empty() {
            for change in steps.iter().flat_map(|s| &s.changes) {
                layer.pins.insert(change.knob.clone(), said(why));
            }
        }
        layer
    }
}

fn said(why: &str) -> Origin {
    Origin::Flag {
        text: format!("{IN_SCRIPTS}{why}"),
    }
}

/// What stands in the way of a patch, as problems.
fn told(refused: &[PatchError]) -> Refusal {
    let problem = |r: &PatchError| match r.knob.is_empty() {
        true => Problem::new(r.why.clone()),
        false => Problem::new(format!("{}: {}", r.knob, r.why)),
    };
    Refusal(refused.iter().map(problem).collect())
}
