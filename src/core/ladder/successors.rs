//! Whole rungs: from one configuration of experiment and hardware to the next, with what that costs.

use std::collections::BTreeMap;

use super::ascent::Ascent;
use super::climb::lap;
use super::context::ClimbContext;
use super::decision::{Skipped, Step};
use super::host::NodeResources;
use super::incident::{self, FailureContext};
use super::{bounds, older, packages, remedies};
use crate::core::recipe::{Knob, Layer, RungSpec, Shape};
use oomctl_base::{Effect, Role};
use oomctl_diagnose::{Class, Incident};

/// Cost of a lap that makes another experiment of it: more than any loss of speed.
const EXPERIMENT: f64 = 16.0;
/// Cost of twice as many GPUs.
const TWICE_THE_GPUS: f64 = 4.0;
/// Cost of other hardware of the same number.
const OTHER_HARDWARE: f64 = 3.0;
/// Cost of more host memory.
const HOST_MEMORY: f64 = 0.01;

/// A configuration of experiment and hardware, reached by whole rungs.
pub(super) struct SearchState {
    /// Layers of all rungs.
    pub rungs: Vec<Layer>,
    /// Those of them that this decision takes.
    pub steps: Vec<Step>,
    /// The configuration.
    pub shape: Shape,
    /// How often each rung is taken by them.
    pub laps: BTreeMap<String, u32>,
    /// What they cost.
    pub cost: f64,
    /// Of it the loss of speed, as a logarithm.
    pub loss: f64,
}

impl SearchState {
    /// How often each rung is taken with one more lap of this one.
    pub fn after(&self, rung: &RungSpec) -> BTreeMap<String, u32> {
        let mut laps = self.laps.clone();
        *laps.entry(rung.rung.clone()).or_default() += 1;
        laps
    }
}

/// The rungs of a ladder for one decision.
pub(super) struct Usable<'a> {
    /// Those that may be taken.
    pub rungs: Vec<&'a RungSpec>,
    /// These and those that answer what may come next, where the first are not enough.
    pub all: Vec<&'a RungSpec>,
    /// The others with reasons.
    pub skipped: Vec<Skipped>,
}

impl<'a> Usable<'a> {
    /// The rungs to try, and where they are not enough, more of them.
    pub fn ways(&self) -> impl Iterator<Item = &[&'a RungSpec]> {
        let more = Some(self.all.as_slice()).filter(|all| all.len() > self.rungs.len());
        std::iter::once(self.rungs.as_slice()).chain(more)
    }
}

/// Takes rungs, and says what they cost.
pub(super) struct Successors<'a> {
    view: &'a Ascent<'a>,
    failure: FailureContext,
    /// The same as a failure of the GPU in a phase that nothing is known of.
    foreseen: Option<FailureContext>,
    /// What else may come.
    further: Vec<FailureContext>,
    node: &'a NodeResources<'a>,
}

/// A failure of memory as one of the GPU in a phase that nothing is known of.
fn foresee(failure: &Incident) -> Option<Incident> {
    incident::of_memory(failure.class).then(|| Incident {
        phase: "unknown".to_owned(),
        class: Class::GpuOom,
        ..failure.clone()
    })
}

/// What else may come: that the engine finds its own share too small, that its graphs do not fit, that memory is there but in
/// pieces. What answers these takes little from a job that has not failed so.
fn further(failure: &Incident) -> [Incident; 3] {
    let of = |class, phase: &str| Incident {
        class,
        phase: phase.to_owned(),
        ..failure.clone()
    };
    [
        of(Class::EngineMemory, "kv_cache"),
        of(Class::GpuOom, "cuda_graph"),
        Incident {
            fragmentation: true,
            ..of(Class::GpuOom, "unknown")
        },
    ]
}

impl<'a> Successors<'a> {
    /// After a failure.
    pub fn new(
        view: &'a Ascent<'a>,
        failure: Option<&'a Incident>,
        node: &'a NodeResources<'a>,
    ) -> Self {
        let foreseen = failure.and_then(foresee);
        let of = |incident: &Incident| FailureContext::of(Some(incident));
        let further = foreseen.iter().flat_map(further);
        Self {
            view,
            failure: FailureContext::of(failure),
            further: further.map(|next| of(&next)).collect(),
            foreseen: foreseen.as_ref().map(of),
            node,
        }
    }

    /// The rungs that may be used, and the others with reasons. What is known to be useless for the phase that failed may
    /// be needed for the next one; the posterior sees for itself what helps.
    pub fn usable(&self, shape: &Shape) -> Usable<'a> {
        let context = self.view.context;
        let mut usable = Usable {
            rungs: Vec::new(),
            all: Vec::new(),
            skipped: Vec::new(),
        };
        for rung in context.ladder {
            let lacking = packages::objection(context.environment, rung)
                .or_else(|| older::objection(context, rung));
            if let Some(reason) = lacking {
                let rung = rung.rung.clone();
                usable.skipped.push(Skipped::new(rung, reason));
                continue;
            }
            let Some(reason) = self.objection(shape, rung) else {
                usable.rungs.push(rung);
                usable.all.push(rung);
                continue;
            };
            let answers = |next: &FailureContext| {
                let scope = shape.scope();
                remedies::answers(rung, next.class)
                    && incident::objection(&self.view.evaluations.shaper, scope, rung, next, next)
                        .is_none()
            };
            // An engine's share is a number within reach already, and more of it takes from the trainer.
            let share = |knob: &Knob| knob.role == Some(Role::RolloutMemoryFraction);
            let others =
                !bounds::whole(context, rung) && !bounds::leading(context, rung).any(share);
            let worse = self.failure.remedies.worsened_by(context.preset, rung);
            if others && !worse && self.further.iter().any(answers) {
                usable.all.push(rung);
            }
            usable.skipped.push(Skipped::new(&rung.rung, reason));
        }
        usable
    }

    /// Why a rung is not for this failure.
    fn objection(&self, shape: &Shape, rung: &RungSpec) -> Option<String> {
        if !remedies::answers(rung, self.failure.class) {
            return Some(Skipped::OTHER_CLASS.to_owned());
        }
        incident::objection(
            &self.view.evaluations.shaper,
            shape.scope(),
            rung,
            &self.failure,
            self.foreseen.as_ref().unwrap_or(&self.failure),
        )
    }

    /// The state after one more lap of a rung, with what that costs.
    pub fn lap(&self, from: &SearchState, rung: &RungSpec) -> Result<SearchState, String> {
        let context = ClimbContext {
            rungs: &from.rungs,
            ..*self.view.context
        };
        // A rung that does not answer this failure may answer the next one.
        let take = |failure| lap(&self.view.evaluations, &context, &from.shape, failure, rung);
        let (step, shape) = take(&self.failure).or_else(|why| match &self.foreseen {
            Some(foreseen) => take(foreseen),
            None => Err(why),
        })?;
        let mut rungs = from.rungs.clone();
        rungs.push(step.layer.clone());
        let laps = from.after(rung);
        let loss = bounds::loss(rung);
        let cost = from.cost + loss + self.price(&step, &from.shape, &shape);
        let mut steps = from.steps.clone();
        steps.push(step);
        Ok(SearchState {
            rungs,
            steps,
            shape,
            laps,
            cost,
            loss: from.loss + loss,
        })
    }

    /// The least that a lap of a rung costs.
    pub fn least(&self, from: &Shape, rung: &RungSpec) -> f64 {
        let context = self.view.context;
        let loss = match bounds::thins(context, rung) {
            true => 0.0,
            false => bounds::loss(rung),
        };
        loss + match bounds::effect(context, rung) {
            Effect::ChangesTraining => EXPERIMENT,
            Effect::Resources => self.least_hardware(from, rung),
            Effect::SameMath | Effect::Unknown => 0.0,
        }
    }

    /// The least that a lap costs besides speed which asks for more: of host memory alone, of GPUs one.
    fn least_hardware(&self, from: &Shape, rung: &RungSpec) -> f64 {
        let leading: Vec<&Knob> = bounds::leading(self.view.context, rung).collect();
        let counts = |k: &&Knob| k.role.is_some_and(Role::counts_gpus);
        let memory = |k: &&Knob| Some(k.name.as_str()) == self.node.knob();
        if leading.iter().any(counts) {
            let now = self.gpus(from);
            return OTHER_HARDWARE.min(TWICE_THE_GPUS * ((now + 1.0) / now).log2());
        }
        match leading.iter().all(memory) {
            true => HOST_MEMORY,
            false => OTHER_HARDWARE,
        }
    }

    /// What a lap costs besides speed.
    fn price(&self, step: &Step, before: &Shape, after: &Shape) -> f64 {
        let (now, then) = (self.gpus(before), self.gpus(after));
        let memory_alone = step
            .changes
            .iter()
            .all(|c| Some(c.knob.as_str()) == self.node.knob());
        match step.effect {
            Effect::ChangesTraining => EXPERIMENT,
            Effect::Resources if then > now => TWICE_THE_GPUS * (then / now).log2(),
            Effect::Resources if memory_alone => HOST_MEMORY,
            Effect::Resources => OTHER_HARDWARE,
            Effect::SameMath | Effect::Unknown => 0.0,
        }
    }

    /// GPUs of the whole job.
    pub fn gpus(&self, shape: &Shape) -> f64 {
        let preset = self.view.context.preset;
        let roles = [Role::GpusPerNode, Role::Nodes].into_iter();
        let knobs = roles.filter_map(|role| preset.with_role(role).next());
        let counts = knobs.filter_map(|k| shape.recipe().value(&k.name).number(k.kind));
        counts.product::<f64>().max(1.0)
    }
}
