//! Which rungs answer a failure of the configuration with those taken so far.

use super::request::Request;
use super::{evaluated, in_program, own_code};
use crate::core::ladder::{
    ClimbContext, Decision, Expectation, Past, Policy, Priors, Skipped, Step, ascend,
    ascend_unmodelled, climb, expected_after, own_engine, predicted, settle, too_large_states,
};
use crate::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, RungSpec};
use oomctl_base::{Origin, Refusal, Role, Value, ValueKind};
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::GPU_MEMORY;

/// What is said of a rung that one task of a job array takes, and others perhaps do not.
pub const UNEQUAL_TASKS: &str = "a task that needs this change trains differently from the tasks that do not; --same-math stops before it";

impl Request {
    /// The next rung after an incident of attempt number `attempt`.
    ///
    /// # Errors
    /// As `climb`.
    pub fn climb(
        &self,
        rungs: &[Layer],
        incident: Option<&Incident>,
        attempt: u32,
    ) -> Result<Decision, Refusal> {
        self.decided(rungs, attempt, |context| climb(context, incident))
    }

    /// A decision from here, past what the user's own scripts cannot be given.
    pub(super) fn decided(
        &self,
        rungs: &[Layer],
        attempt: u32,
        decide: impl Fn(&ClimbContext<'_>) -> Result<Decision, Refusal>,
    ) -> Result<Decision, Refusal> {
        let mut decision = self.reachable(rungs, |layers| {
            decide(&ClimbContext {
                layers,
                ..self.context(rungs, attempt)
            })
        })?;
        match &mut decision {
            Decision::Exhausted { skipped, .. } => self.set_aside(rungs, skipped),
            Decision::Climb { steps, .. } => {
                self.without_checkpoints(steps);
                let unequal = steps.iter_mut().filter(|step| step.effect.is_other());
                for step in unequal.filter(|_| self.is_task()) {
                    step.notes.push(UNEQUAL_TASKS.to_owned());
                }
            }
        }
        Ok(decision)
    }

    /// Is it a task of a job array?
    pub fn is_task(&self) -> bool {
        let scripts = self.inputs().scripts.as_ref();
        scripts.is_some_and(|scripts| scripts.array.is_some())
    }

    pub(super) fn context<'a>(&'a self, rungs: &'a [Layer], attempt: u32) -> ClimbContext<'a> {
        ClimbContext {
            preset: self.preset(),
            ladder: &self.inputs().ladder,
            policy: self.inputs().policy,
            whole_rungs: self.inputs().whole_rungs,
            cluster: &self.inputs().cluster_facts,
            environment: self.inputs().environment.as_ref(),
            versions: self
                .inputs()
                .scripts
                .as_ref()
                .and_then(|s| s.version_span.as_ref()),
            cluster_name: self.inputs().cluster.as_deref(),
            templates: &self.inputs().templates,
            layers: &self.inputs().layers,
            rungs,
            attempt,
        }
    }

    /// What answers an incident: one rung, as many as the memory model says are needed, or what it prefers
    /// of all that they can move.
    ///
    /// # Errors
    /// As `climb`.
    pub fn ascend(
        &self,
        rungs: &[Layer],
        past: Past<'_>,
        incident: Option<&Incident>,
        attempt: u32,
    ) -> Result<Decision, Refusal> {
        let ladder = self.ladder_without(past.left_out);
        let mut decision = self.ascend_over(&ladder, rungs, past, incident, attempt)?;
        decision.skipped_mut().extend(past.left_out.iter().cloned());
        Ok(decision)
    }

    pub(super) fn ladder_without(&self, left_out: &[Skipped]) -> Vec<RungSpec> {
        let is_left_out = |rung: &RungSpec| left_out.iter().any(|l| l.rung == rung.rung);
        let all = self.inputs().ladder.iter();
        all.filter(|rung| !is_left_out(rung)).cloned().collect()
    }

    /// The same over this ladder.
    pub(super) fn ascend_over(
        &self,
        ladder: &[RungSpec],
        rungs: &[Layer],
        past: Past<'_>,
        incident: Option<&Incident>,
        attempt: u32,
    ) -> Result<Decision, Refusal> {
        let ran_on = self.where_it_ran(rungs, past, incident)?;
        self.decided(rungs, attempt, |context| {
            let context = ClimbContext { ladder, ..*context };
            ran_on.within(&context, |context| self.answer(context, past, incident))
        })
    }

    /// What is expected of the configuration that died, then after each of `steps`, given how all attempts ended. Empty
    /// where the memory model cannot be asked, and where the failure was not one of GPU memory.
    ///
    /// # Errors
    /// As `ascend`.
    pub fn expected_after(
        &self,
        rungs: &[Layer],
        past: Past<'_>,
        incident: &Incident,
        steps: &[Step],
    ) -> Result<Vec<Expectation>, Refusal> {
        let of_gpu = matches!(incident.class, Class::GpuOom | Class::EngineMemory);
        let Some(priors) = self.priors(past).filter(|_| of_gpu) else {
            return Ok(Vec::new());
        };
        let ran_on = self.where_it_ran(rungs, past, Some(incident))?;
        Ok(ran_on.within(&self.context(rungs, 1), |context| {
            expected_after(context, &priors, incident, steps)
        }))
    }

    /// Where the attempt ran: the machine that was seen, or the GPU that the message of the failure tells.
    fn where_it_ran(
        &self,
        rungs: &[Layer],
        past: Past<'_>,
        incident: Option<&Incident>,
    ) -> Result<RanOn, Refusal> {
        Ok(match past.machine {
            Some(machine) => {
                let (facts, gpu) = self.on_machine(rungs, machine, incident)?;
                RanOn {
                    facts: Some(facts),
                    layers: Vec::from_iter(gpu),
                }
            }
            None => RanOn {
                facts: None,
                layers: incident
                    .and_then(|incident| self.gpu_of(incident))
                    .into_iter()
                    .collect(),
            },
        })
    }

    /// The same request, which knows the memory of the GPU that ran out, by its message.
    ///
    /// # Errors
    /// As [`Request::new`].
    pub fn on_gpu_of(self, incident: &Incident) -> Result<Self, Refusal> {
        let Some(said) = self.gpu_of(incident) else {
            return Ok(self);
        };
        let mut inputs = self.inputs().clone();
        inputs.layers.push(said);
        Self::new(inputs)
    }

    fn gpu_of(&self, incident: &Incident) -> Option<Layer> {
        let total = incident.total_bytes?;
        let unknown = self.preset().knob(GPU_MEMORY).is_some() && self.gpu_memory().is_none();
        let mut layer = Layer::new(LayerKind::Cluster);
        let value = ValueKind::Size.parse(&format!("{}K", total.0 >> 10)).ok()?;
        let text = "the message of the failure".to_owned();
        layer.set(GPU_MEMORY, value, Origin::Flag { text });
        unknown.then_some(layer)
    }

    /// What the memory model knows beforehand; `None` where it cannot be asked.
    pub(super) fn priors<'a>(&'a self, past: Past<'a>) -> Option<Priors<'a>> {
        Some(Priors {
            profile: self.profile()?,
            min_fit_probability: self.inputs().min_fit_probability,
            past,
        })
    }

    fn answer(
        &self,
        context: &ClimbContext<'_>,
        past: Past<'_>,
        incident: Option<&Incident>,
    ) -> Result<Decision, Refusal> {
        // The memory model has nothing to say of another failure.
        let of_memory = incident.is_none_or(|i| i.class != Class::NotOom);
        let modelled = of_memory && !self.inputs().one_rung;
        match self.priors(past).filter(|_| modelled) {
            None if self.inputs().one_rung => climb(context, incident),
            None => ascend_unmodelled(context, incident),
            Some(outlook) => {
                if self.inputs().policy == Policy::Predict
                    && let Some(decision) = predicted(context, &outlook, incident)?
                {
                    return Ok(decision);
                }
                ascend(context, &outlook, incident)
            }
        }
    }

    /// Asks the configuration with these rungs which of an incident's bugs it can have, whether it has an engine of its own
    /// beside the training, whether its states fit a GPU, and which places of the user's own code hold the memory.
    pub fn settle(&self, rungs: &[Layer], incident: &mut Incident) {
        let context = self.context(rungs, 1);
        settle(&context, incident);
        own_engine(&context, incident);
        too_large_states(&context, incident);
        let job = self.resources(rungs).ok();
        if let (Some(scripts), Some(own)) = (&self.inputs().scripts, self.adoption()) {
            evaluated::place(incident, &scripts.evaluations);
            own_code::blame(incident, &scripts.kept, &own, job.as_ref());
            if !scripts.recognised || scripts.in_program.no_options {
                in_program::name(incident, &scripts.in_program);
            }
        }
        if incident.data_parallel && job.is_some_and(|job| job.gpus == 1) {
            incident.has_one_gpu();
        }
        if self.recomputes(context.preset, rungs) {
            incident.recomputes_already();
        }
    }

    /// Whether the job recomputes activations, by a knob or a word of its command.
    fn recomputes(&self, preset: &Preset, rungs: &[Layer]) -> bool {
        const WORDS: [&str; 4] = [
            "gradient-checkpointing",
            "activation-checkpointing",
            "checkpoint-activations",
            "recompute-activations",
        ];
        let knob = preset.with_role(Role::GradientCheckpointing).next();
        let shape = self.shape(rungs).ok();
        let value = knob.zip(shape.as_ref());
        let value =
            value.map(|(knob, shape)| shape.recipe().value(&knob.name) == &Value::Bool(true));
        let own = self.adoption();
        let mut words = own
            .iter()
            .flat_map(|own| own.calls())
            .flat_map(|call| call.own_texts());
        let on = |word: &str| {
            let word = word.trim_start_matches('-').replace('_', "-");
            WORDS
                .iter()
                .any(|of| word == *of || word == format!("{of}=true"))
        };
        value == Some(true) || words.any(|word| on(&word.to_lowercase()))
    }
}

/// Where an attempt ran, as far as that is known.
struct RanOn {
    /// What is left of the machine that it was seen on.
    facts: Option<ClusterFacts>,
    /// What is known of its GPU.
    layers: Vec<Layer>,
}

impl RanOn {
    fn within<T>(&self, context: &ClimbContext<'_>, ask: impl FnOnce(&ClimbContext<'_>) -> T) -> T {
        let layers: Vec<Layer> = context.layers.iter().chain(&self.layers).cloned().collect();
        ask(&ClimbContext {
            cluster: self.facts.as_ref().unwrap_or(context.cluster),
            layers: &layers,
            ..*context
        })
    }
}
