//! Where a run starts, after what earlier runs of the project taught.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::request::Request;
use crate::core::adopt;
use crate::core::ladder::{Change, Decision, Policy, Step};
use crate::core::learn::{
    AttemptEnd, JobFeatures, LearnedEntries, LearnedEntry, LearnedRung, Moved,
};
use crate::core::recipe::{Layer, LayerKind, RungSpec, strongest_effect};
use oomctl_base::{Effect, Refusal};
use oomctl_diagnose::{Class, Incident};

/// Ways to start that are looked at, the latest first.
const WAYS_MAX: usize = 32;
/// Rungs that are climbed in search of a start.
const RUNGS_MAX: u32 = 64;

/// The layers that describe a script; they change nothing in it.
const DESCRIBE: [LayerKind; 6] = [
    LayerKind::Site,
    LayerKind::User,
    LayerKind::Cluster,
    LayerKind::Project,
    LayerKind::Environment,
    LayerKind::Flags,
];

/// Why a run starts where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// What was asked for is known to fit; nothing is changed.
    FitsAsAsked,
    /// What was asked for is known to fail; the start is known to fit.
    Fits,
    /// What was asked for is known to fail; nothing is known of the start.
    Untried,
    /// What was asked for is known to fail, and the ladder leads to nothing else, or would change what the
    /// user set; nothing is changed.
    NoneKnown,
}

/// Where a run starts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Start {
    /// Why there.
    pub ground: Ground,
    /// The attempt that says so: the one that fitted, or else the one that failed.
    pub because: LearnedEntry,
    /// Names of the rungs that it starts with, in order.
    pub rungs: Vec<String>,
    /// What they change.
    pub changes: Vec<Change>,
    /// What this does to the experiment.
    pub effect: Effect,
    /// Their layers.
    #[serde(skip)]
    pub layers: Vec<Layer>,
}

impl Request {
    /// What decides about the memory of the configuration with these rungs.
    ///
    /// # Errors
    /// As `shape`; what is not known of a script of the user's own.
    pub fn job(&self, rungs: &[Layer]) -> Result<JobFeatures, Refusal> {
        let inputs = self.inputs();
        let shape = self.shape(rungs)?;
        let cluster = inputs.cluster.as_deref();
        let mut job = JobFeatures::of(self.preset(), &shape, cluster, &inputs.backend);
        // What is not known of a script teaches nothing about others.
        job.same.extend(self.own_facts()?);
        let said = |l: &&Layer| inputs.scripts.is_some() && DESCRIBE.contains(&l.kind);
        for layer in inputs.layers.iter().filter(said) {
            layer
                .settings
                .keys()
                .for_each(|knob| job.is_described(knob));
        }
        Ok(job)
    }

    /// Where to start after what was learned: as asked for, unless that is known to fail. Then from the
    /// rungs with which a job that is no smaller fitted; else from the first rungs that are not known to
    /// fail. `None` where nothing is known.
    ///
    /// # Errors
    /// As `shape`.
    pub fn start(&self, memory: &LearnedEntries) -> Result<Option<Start>, Refusal> {
        let asked = self.job(&[])?;
        let Some(failed) = memory.failed(&asked) else {
            let known = memory.fitted(&asked);
            return known
                .map(|e| self.started(Ground::FitsAsAsked, e, Vec::new()))
                .transpose();
        };
        let start = match self.proven(memory) {
            Some((proof, layers)) => self.started(Ground::Fits, proof, layers),
            None => match self.climbed(memory, failed)? {
                Some(layers) => match memory.fitted(&self.job(&layers)?) {
                    Some(proof) => self.started(Ground::Fits, proof, layers),
                    None => self.started(Ground::Untried, failed, layers),
                },
                None => self.started(Ground::NoneKnown, failed, Vec::new()),
            },
        };
        start.map(Some)
    }

    /// The same request with the layers of a start.
    pub fn starting(mut self, start: &Start) -> Self {
        self.inputs_mut()
            .layers
            .extend(start.layers.iter().cloned());
        self
    }

    /// The rungs of earlier runs that it starts with.
    pub fn learned(&self) -> Vec<LearnedRung> {
        let layers = &self.inputs().layers;
        if !layers.iter().any(|l| l.kind == LayerKind::Learned) {
            return Vec::new();
        }
        let recipe = self
            .with_layers_of(|kind| kind != LayerKind::Learned)
            .recipe(&[]);
        recipe.map_or_else(
            |_| Vec::new(),
            |recipe| LearnedRung::learned(layers, &recipe),
        )
    }

    /// What rungs that do not keep the training made of its values: those of earlier runs that it starts with, then those
    /// that were taken since.
    pub fn other_training<'a>(&self, since: impl Iterator<Item = &'a Step>) -> Vec<Change> {
        let learned = self.learned().into_iter().flat_map(|rung| {
            let effect = self.effect(&rung.rung, |knob| rung.moves.contains_key(knob));
            let moves = rung.moves.into_iter().filter(move |_| effect.is_other());
            moves.map(move |(knob, Moved { from, to })| Change {
                knob,
                from,
                to,
                effect,
                called: None,
            })
        });
        let since = since.filter(|step| step.effect.is_other());
        let all: Vec<Change> = learned
            .chain(since.flat_map(|step| {
                let of = |c: &Change| Change {
                    effect: step.effect,
                    ..c.clone()
                };
                step.changes.iter().map(of).collect::<Vec<_>>()
            }))
            .collect();
        Change::joined(all.iter())
    }

    /// The attempt that says that neither this configuration nor anything that its ladder leads to can fit: each of
    /// them is surely no smaller than one that failed. `None` where one of them is not known to fail, and for scripts
    /// of the user's own, of which not all is known.
    ///
    /// Rungs are climbed one at a time, so that what several at once would lead to is among them. The policy
    /// `predict` is bound to no rung's steps, so that under it only a ladder without any is at its end.
    pub fn infeasible(&self, memory: &LearnedEntries) -> Option<LearnedEntry> {
        if self.inputs().scripts.is_some() {
            return None;
        }
        let first = memory.failed(&self.job(&[]).ok()?)?;
        let incident = incident(&first.end);
        let mut layers: Vec<Layer> = Vec::new();
        for attempt in 1..=self.inputs().limits.attempts.min(RUNGS_MAX) {
            memory.failed(&self.job(&layers).ok()?)?;
            match self.climb(&layers, Some(&incident), attempt).ok()? {
                Decision::Exhausted { .. } => return Some(first.clone()),
                Decision::Climb { .. } if self.inputs().policy == Policy::Predict => return None,
                Decision::Climb { steps, .. } => layers.extend(steps.into_iter().map(|s| s.layer)),
            }
        }
        None
    }

    /// The fewest rungs of an attempt that fitted with which this job is proven to fit: of the latest such
    /// attempt, or of another one whose configuration is larger.
    fn proven<'m>(&self, memory: &'m LearnedEntries) -> Option<(&'m LearnedEntry, Vec<Layer>)> {
        let mut ways: Vec<&LearnedEntry> = Vec::new();
        let fitted = memory.all().rev().filter(|e| e.fitted());
        for entry in fitted.filter(|e| !e.rungs.is_empty()) {
            if ways.len() < WAYS_MAX && !ways.iter().any(|w| w.rungs == entry.rungs) {
                ways.push(entry);
            }
        }
        let mut best: Option<(JobFeatures, &LearnedEntry, Vec<Layer>)> = None;
        for (job, proof, layers) in ways.into_iter().filter_map(|w| self.along(w, memory)) {
            let larger = |known: &JobFeatures| *known != job && known.within(&job);
            if best.as_ref().is_none_or(|(known, ..)| larger(known)) {
                best = Some((job, proof, layers));
            }
        }
        best.map(|(_, proof, layers)| (proof, layers))
    }

    /// The fewest rungs of one attempt with which the job is legal and proven to fit. A rung is taken where
    /// everything that it moved is as it was then, and nobody holds it.
    fn along<'m>(
        &self,
        way: &LearnedEntry,
        memory: &'m LearnedEntries,
    ) -> Option<(JobFeatures, &'m LearnedEntry, Vec<Layer>)> {
        let held = self.held();
        let mut recipe = self.recipe(&[]).ok()?;
        let mut layers = Vec::new();
        for rung in &way.rungs {
            let as_then = |(knob, moved): (&String, &Moved)| {
                recipe.value(knob) == &moved.from && !held.contains(knob)
            };
            if self.is_forbidden(rung) || !rung.moves.iter().all(as_then) {
                return None;
            }
            layers.push(rung.layer(&way.run, way.attempt));
            recipe = self.recipe(&layers).ok()?;
            let job = self.job(&layers).ok()?;
            if let Some(proof) = memory.fitted(&job) {
                return Some((job, proof, layers));
            }
        }
        None
    }

    /// The first rungs of the ladder with which the job is not known to fail, as if it had just failed as it
    /// did then. None where a rung would move what the user set: which of the others to take is not to be
    /// guessed.
    fn climbed(
        &self,
        memory: &LearnedEntries,
        failed: &LearnedEntry,
    ) -> Result<Option<Vec<Layer>>, Refusal> {
        let incident = incident(&failed.end);
        let held = self.held();
        let mut layers: Vec<Layer> = Vec::new();
        for attempt in 1..=RUNGS_MAX {
            let decision = self.climb_down(&layers, attempt, Some(&incident))?;
            let Decision::Climb { steps, .. } = decision else {
                return Ok(None);
            };
            let mut changes = steps.iter().flat_map(|s| &s.changes);
            if changes.any(|c| held.contains(&c.knob)) {
                return Ok(None);
            }
            let rungs = steps.iter().map(LearnedRung::of);
            layers.extend(rungs.map(|r| r.layer(&failed.run, failed.attempt)));
            if memory.failed(&self.job(&layers)?).is_none() {
                return Ok(Some(layers));
            }
        }
        Ok(None)
    }

    /// Knobs that nothing that was learned may move: pinned, or set above it.
    fn held(&self) -> BTreeSet<String> {
        let layers = self.inputs().layers.iter();
        let names = layers.flat_map(|layer| {
            let set = layer.settings.keys();
            let above = set.filter(|_| layer.kind > LayerKind::Learned);
            above.chain(layer.pins.keys())
        });
        let knobs = names.filter_map(|name| self.preset().knob(name));
        knobs.map(|k| k.name.clone()).collect()
    }

    /// May the rung not be taken under the policy?
    fn is_forbidden(&self, rung: &LearnedRung) -> bool {
        let effect = self.effect(&rung.rung, |knob| rung.moves.contains_key(knob));
        self.inputs().policy.forbids(effect)
    }

    /// What a rung that moved some knobs does to the experiment.
    fn effect(&self, rung: &str, moved: impl Fn(&str) -> bool) -> Effect {
        let named = |spec: &&RungSpec| spec.rung == rung;
        let spec = self.inputs().ladder.iter().find(named);
        let knobs = self.preset().knobs.iter();
        spec.and_then(|s| s.effect)
            .unwrap_or_else(|| strongest_effect(knobs.filter(|k| moved(&k.name))))
    }

    fn started(
        &self,
        ground: Ground,
        because: &LearnedEntry,
        layers: Vec<Layer>,
    ) -> Result<Start, Refusal> {
        let (before, after) = (self.recipe(&[])?, self.recipe(&layers)?);
        let changed = self.preset().knobs.iter().filter_map(|knob| {
            let (from, to) = (before.value(&knob.name), after.value(&knob.name));
            let moved = layers.iter().any(|l| l.settings.contains_key(&knob.name));
            (moved && from != to).then(|| Change {
                knob: knob.name.clone(),
                from: from.clone(),
                to: to.clone(),
                effect: knob.effect,
                called: None,
            })
        });
        let effects = layers
            .iter()
            .map(|l| self.effect(&rung_of(l), |knob| l.settings.contains_key(knob)));
        let mut changed: Vec<Change> = changed.collect();
        if let (Some(adoption), Ok(Some(patch))) = (self.adoption(), self.patch(&layers)) {
            adopt::called(changed.iter_mut(), &adoption, &patch);
        }
        Ok(Start {
            ground,
            because: because.clone(),
            effect: effects.max().unwrap_or_default(),
            rungs: layers.iter().map(rung_of).collect(),
            changes: changed,
            layers,
        })
    }
}

fn rung_of(layer: &Layer) -> String {
    let mut rungs = layer.settings.values().filter_map(|s| s.origin.rung());
    rungs.next().unwrap_or_default().to_owned()
}

fn incident(end: &AttemptEnd) -> Incident {
    match end {
        AttemptEnd::Failed { kind, phase } => Incident {
            phase: phase.clone(),
            ..Incident::bare(kind, Class::GpuOom)
        },
        AttemptEnd::Fitted => Incident::bare("cuda_oom", Class::GpuOom),
    }
}
