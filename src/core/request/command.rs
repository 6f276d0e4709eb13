//! A run whose attempts are the command of a program, started on this machine.

use std::collections::BTreeMap;

use super::handed::Handed;
use super::request::Request;
use super::source::Source;
use crate::core::adopt::Resources;
use crate::core::ladder::{ClimbContext, Decision, OnMachine, Step, climb};
use crate::core::launch::{Command, GpuWish, chosen, needed};
use crate::core::recipe::{ClusterFacts, Layer, RungSpec};
use crate::core::render::{AttemptPlace, RenderedFile, shell_word};
use oomctl_base::job::RunMachine;
use oomctl_base::{Problem, Refusal};
use oomctl_diagnose::Incident;

/// The file that holds the command of an attempt, for people and for a comparison with the attempt before.
const SCRIPT: &str = "command.sh";
/// The name under which the model of the GPU stands among what two jobs must have in common.
const GPU: &str = "gpu";

impl Request {
    pub(super) fn command(&self) -> Option<&Command> {
        match &self.source {
            Source::Command(command) => Some(command),
            _ => None,
        }
    }

    /// Are its attempts the command of a program?
    pub fn is_program(&self) -> bool {
        self.command().is_some()
    }

    /// The program and its arguments with these rungs; its copies lie in the folder `dir`. None where the run is not
    /// that of a command.
    ///
    /// # Errors
    /// Values outside their bounds, rules that are broken, places in the command for which there is no value.
    pub fn words(&self, rungs: &[Layer], dir: &str) -> Result<Option<Vec<String>>, Refusal> {
        let Some(command) = self.command() else {
            return Ok(None);
        };
        let (words, _) = command.filled(self.preset(), &self.shape(rungs)?, dir)?;
        Ok(Some(words))
    }

    /// What an attempt with these rungs asks of the GPUs of this machine.
    ///
    /// # Errors
    /// As `shape`.
    pub fn gpu_wish(&self, rungs: &[Layer]) -> Result<GpuWish, Refusal> {
        Ok(GpuWish::of(self.shape(rungs)?.recipe()))
    }

    /// The same request for a program whose first attempt runs on this model of a GPU.
    pub fn on_gpu(mut self, machine: &RunMachine) -> Self {
        if let Some(program) = &mut self.inputs_mut().program {
            program.gpu = machine.model();
        }
        self
    }

    /// The same request with these rungs taken before its first attempt.
    pub fn with_steps(mut self, steps: &[Step]) -> Self {
        let layers = steps.iter().map(|s| s.layer.clone());
        self.inputs_mut().layers.extend(layers);
        self
    }

    /// The rungs that leave the GPU for the CPU, for want of a GPU. `None` where none is allowed.
    ///
    /// # Errors
    /// As `climb`.
    pub fn without_gpu(&self, rungs: &[Layer], attempt: u32) -> Result<Option<Vec<Step>>, Refusal> {
        let leaves = |rung: &&RungSpec| {
            let mut moves = rung.moves.iter();
            moves.any(|m| m.knob.as_deref() == Some("device"))
        };
        if self.command().is_none() {
            return Ok(None);
        }
        let ladder: Vec<RungSpec> = self
            .inputs()
            .ladder
            .iter()
            .filter(leaves)
            .cloned()
            .collect();
        let context = ClimbContext {
            ladder: &ladder,
            ..self.context(rungs, attempt)
        };
        Ok(match climb(&context, None)? {
            Decision::Climb { steps, .. } => Some(steps),
            Decision::Exhausted { .. } => None,
        })
    }

    pub(super) fn command_file(
        &self,
        rungs: &[Layer],
        place: &AttemptPlace,
    ) -> Result<RenderedFile, Refusal> {
        let words = self.words(rungs, &place.dir)?.unwrap_or_default();
        let words = words.iter().map(|word| shell_word(word));
        let words: Vec<String> = words.collect::<Result<_, _>>().map_err(Problem::new)?;
        Ok(RenderedFile {
            name: SCRIPT.to_owned(),
            text: format!("#!/bin/sh\nexec {}\n", words.join(" ")),
            entry: true,
            original: None,
        })
    }

    pub(super) fn command_handed(
        &self,
        command: &Command,
        rungs: &[Layer],
        dir: &str,
    ) -> Result<Handed, Refusal> {
        let shape = self.shape(rungs)?;
        let (arguments, variables) = command.filled(self.preset(), &shape, dir)?;
        Ok(Handed {
            arguments,
            variables,
            gpu: Some(GpuWish::of(shape.recipe())),
            ..Handed::default()
        })
    }

    pub(super) fn command_resources(&self, rungs: &[Layer]) -> Result<Resources, Refusal> {
        Ok(Resources {
            gpus: u64::from(!self.gpu_wish(rungs)?.cpu),
            nodes: 1,
            time_limit_s: None,
        })
    }

    /// What two commands must have in common beside knobs to be compared.
    pub(super) fn command_facts(&self, command: &Command) -> BTreeMap<String, String> {
        let program = self.inputs().program.as_ref();
        BTreeMap::from([
            ("command".to_owned(), command.features().to_owned()),
            ("workdir".to_owned(), self.inputs().workdir.clone()),
            (
                GPU.to_owned(),
                program.map(|p| p.gpu.clone()).unwrap_or_default(),
            ),
        ])
    }

    /// The facts of a machine for the ladder, and the layer that says which GPU the attempt had. GPUs count that
    /// the attempts have left, and others that are large enough, whoever uses them now.
    pub(super) fn on_machine(
        &self,
        rungs: &[Layer],
        here: OnMachine<'_>,
        incident: Option<&Incident>,
    ) -> Result<(ClusterFacts, Option<Layer>), Refusal> {
        let wish = self.gpu_wish(rungs)?;
        let gpu = here.machine.gpu.as_ref().map(|gpu| &gpu.uuid);
        let mut left: Vec<&String> = wish.excluded.iter().chain(gpu).collect();
        left.dedup();
        let need = [incident.and_then(needed), here.needed];
        let need = need.into_iter().flatten().fold(wish.need, Ord::max);
        let capacities = here.machine.capacities.iter();
        let others = capacities.filter(|(uuid, total)| **total >= need && !left.contains(uuid));
        let facts = ClusterFacts {
            gpus_per_node: u32::try_from(left.len() + others.count()).ok(),
            ..self.inputs().cluster_facts.clone()
        };
        Ok((facts, gpu.map(|uuid| chosen(uuid))))
    }

    /// Says on which model of a GPU an attempt ran, among what two jobs must have in common.
    pub fn ran_on(machine: &RunMachine, same: &mut BTreeMap<String, String>) {
        same.insert(GPU.to_owned(), machine.model());
    }
}
