//! What a run was asked to do, as stored in its folder, and what follows from it without a look at
//! the disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::probe::ProbeOf;
use super::request::{Limits, Supervision};
use super::scripts::Own;
use super::stacks::Made;
use crate::core::adopt::Scripts;
use crate::core::config::{parse_data, parse_knob_set, parse_preset};
use crate::core::diagnose::{Incident, UserSignature};
use crate::core::job::JobRef;
use crate::core::ladder::{
    Decision, Footing, Outlook, Past, Policy, ascend, check_answers, climb, predict,
};
use crate::core::memory::{Estimate, Profile, Spec, Unknown, estimate, spec_of};
use crate::core::patch::{Original, copies};
use crate::core::recipe::{
    ClusterFacts, Layer, LayerKind, Preset, Problem, Recipe, Refusal, Role, RungSpec, Shape, Value,
};
use crate::core::render::{AttemptPlace, RenderedFile, TemplateError, render};
use crate::core::units::parse_duration_s;

/// A text with the name that it was read under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// File, or `built-in preset NAME`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A job that was submitted without us, and is the first attempt of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopts {
    /// The job.
    pub job: JobRef,
    /// GPUs of the whole job, 0 where unknown.
    pub gpus: u64,
    /// Its logs.
    pub logs: Vec<PathBuf>,
}

/// All that a run needs to decide and render, complete in itself: later edits of the project's files
/// change nothing about a run that was submitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inputs {
    /// Version of this format.
    pub schema_version: u32,
    /// Name of the run.
    pub run: String,
    /// The preset file.
    pub preset: Arc<Source>,
    /// Knob sets that it uses.
    pub knob_sets: Arc<Vec<Source>>,
    /// Version of the framework, where the project names one.
    pub framework_version: Option<String>,
    /// The ladder, as the project changed it.
    pub ladder: Arc<Vec<RungSpec>>,
    /// How to climb.
    pub policy: Policy,
    /// Climb one rung at a time, whatever the memory model expects.
    #[serde(default)]
    pub one_rung: bool,
    /// Probability to fit that an attempt should have before it is submitted.
    #[serde(default = "risk")]
    pub risk: f64,
    /// Templates by name.
    pub templates: Arc<BTreeMap<String, String>>,
    /// Files of the user's of which attempts get a copy, by their names in the preset.
    #[serde(default, skip_serializing_if = "is_none")]
    pub originals: Arc<BTreeMap<String, Original>>,
    /// The scripts, where attempts are patches of the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scripts: Option<Scripts>,
    /// The job that is its first attempt, where that was submitted without us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopts: Option<Adopts>,
    /// The user who submits, where that is of use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Name of the cluster profile.
    pub cluster: Option<String>,
    /// The memory profile of the preset, where it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_profile: Option<Source>,
    /// Facts about the cluster.
    pub cluster_facts: ClusterFacts,
    /// Name of the dataset profile.
    pub dataset: Option<String>,
    /// Layers below the rungs.
    pub layers: Vec<Layer>,
    /// Bounds of the run.
    pub limits: Limits,
    /// How it is supervised.
    pub supervision: Supervision,
    /// `slurm` or `local`.
    pub backend: String,
    /// Working directory of the jobs, absolute.
    pub workdir: String,
    /// Folder of the project, absolute: where `.oomctl` and `logs` are.
    pub project: String,
    /// Options handed on to sbatch.
    pub sbatch: Vec<String>,
    /// Messages that only its program prints, and what they mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<UserSignature>,
    /// The command line that made the run.
    pub command: Vec<String>,
    /// What it is a probe of, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeOf>,
}

/// Probability to fit that is asked for by default.
pub const RISK: f64 = 0.9;

fn is_none(originals: &Arc<BTreeMap<String, Original>>) -> bool {
    originals.is_empty()
}

fn risk() -> f64 {
    RISK
}

/// The format of `Inputs` that this version writes.
pub const INPUTS_VERSION: u32 = 1;

/// What a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// GPUs of the whole job.
    pub gpus: u64,
    /// Nodes.
    pub nodes: u64,
    /// Wall-clock limit in seconds.
    pub time_limit_s: Option<u64>,
}

impl Inputs {
    /// Is what these are made ready to the same for both: preset, sets, version, ladder and texts? Scripts of the user's
    /// own are each run's own.
    pub(super) fn is_same_stack(&self, other: &Self) -> bool {
        self.preset == other.preset
            && self.knob_sets == other.knob_sets
            && self.framework_version == other.framework_version
            && self.memory_profile == other.memory_profile
            && self.templates == other.templates
            && self.originals == other.originals
            && self.ladder == other.ladder
            && self.scripts.is_none()
            && other.scripts.is_none()
    }
}

/// Inputs made ready: the preset assembled.
#[derive(Debug, Clone)]
pub struct Request {
    inputs: Inputs,
    made: Arc<Made>,
    pub(super) own: Option<Own>,
}

impl Request {
    /// Assembles the preset of `inputs`.
    ///
    /// # Errors
    /// Faults of preset, knob sets or version.
    pub fn new(inputs: Inputs) -> Result<Self, Refusal> {
        let fault = |e: crate::core::config::ConfigError| Problem::new(e.to_string());
        let file = parse_preset(&inputs.preset.path, &inputs.preset.text).map_err(fault)?;
        let sets = inputs
            .knob_sets
            .iter()
            .map(|s| parse_knob_set(&s.path, &s.text))
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        let (preset, own) = Own::new(&inputs, file, sets)?;
        let mut problems = check_answers(&inputs.ladder);
        problems.extend(preset.ladder_faults(inputs.ladder.iter()));
        if !problems.is_empty() {
            return Err(Refusal(problems));
        }
        // Where scripts compute a value, the memory model would be asked about another configuration.
        let unknown = |l: &Layer| l.kind == LayerKind::Command && !l.pins.is_empty();
        let computed = inputs.scripts.is_some() && inputs.layers.iter().any(unknown);
        let profile = inputs.memory_profile.as_ref().filter(|_| !computed);
        let profile = profile
            .map(|s| parse_data(&s.path, &s.text))
            .transpose()
            .map_err(fault)?;
        let made = Arc::new(Made::new(preset, profile));
        Ok(Self { inputs, made, own })
    }

    /// Inputs of the same stack made ready, holding what both hold once.
    pub(super) fn sibling(&self, inputs: Inputs) -> Self {
        let like = &self.inputs;
        Self {
            inputs: Inputs {
                preset: Arc::clone(&like.preset),
                knob_sets: Arc::clone(&like.knob_sets),
                ladder: Arc::clone(&like.ladder),
                templates: Arc::clone(&like.templates),
                originals: Arc::clone(&like.originals),
                ..inputs
            },
            made: Arc::clone(&self.made),
            own: None,
        }
    }

    pub(super) fn made(&self) -> &Made {
        &self.made
    }

    /// The inputs.
    #[must_use]
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The same request for a run of another name, with a further layer: a cell of a sweep.
    #[must_use]
    pub fn cell(&self, run: &str, layer: Layer) -> Self {
        let mut cell = self.clone();
        run.clone_into(&mut cell.inputs.run);
        cell.inputs.layers.push(layer);
        cell
    }

    /// The same request with other bounds.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.inputs.limits = limits;
        self
    }

    /// The same request with another probability to fit that an attempt should have.
    #[must_use]
    pub fn with_risk(mut self, risk: f64) -> Self {
        self.inputs.risk = risk;
        self
    }

    /// The layers below the rungs.
    pub(super) fn layers_mut(&mut self) -> &mut Vec<Layer> {
        &mut self.inputs.layers
    }

    /// The preset, for the framework's version.
    #[must_use]
    pub fn preset(&self) -> &Preset {
        &self.made.preset
    }

    /// The configuration with the rungs taken so far.
    ///
    /// # Errors
    /// Values outside their bounds and rules that are broken.
    pub fn shape(&self, rungs: &[Layer]) -> Result<Shape, Refusal> {
        let layers: Vec<Layer> = self.inputs.layers.iter().chain(rungs).cloned().collect();
        Shape::new(
            &self.made.preset,
            &layers,
            &self.inputs.cluster_facts,
            self.inputs.cluster.as_deref(),
        )
    }

    /// Memory of the configuration with these rungs, by phase; `None` where the preset has no bridge to the
    /// memory model, or a rule is broken.
    #[must_use]
    pub fn estimate(&self, rungs: &[Layer]) -> Option<Result<Estimate, Unknown>> {
        let profile = self.made.profile.as_ref()?;
        let shape = self.shape(rungs).ok()?;
        let spec = spec_of(&self.made.preset, &shape, profile)?;
        Some(spec.map(|spec| estimate(&spec, profile)))
    }

    /// Constants of the training stack, where the preset has a bridge to the memory model.
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.made.profile.as_ref()
    }

    /// What the memory model knows of the configuration with these rungs.
    pub(super) fn spec(&self, rungs: &[Layer]) -> Option<Spec> {
        let shape = self.shape(rungs).ok()?;
        spec_of(&self.made.preset, &shape, self.made.profile.as_ref()?)?.ok()
    }

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
        self.reachable(rungs, |layers| {
            let footing = Footing {
                layers,
                ..self.footing(rungs, attempt)
            };
            climb(&footing, incident)
        })
    }

    pub(super) fn footing<'a>(&'a self, rungs: &'a [Layer], attempt: u32) -> Footing<'a> {
        Footing {
            preset: &self.made.preset,
            ladder: &self.inputs.ladder,
            policy: self.inputs.policy,
            cluster: &self.inputs.cluster_facts,
            cluster_name: self.inputs.cluster.as_deref(),
            templates: &self.inputs.templates,
            layers: &self.inputs.layers,
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
        self.reachable(rungs, |layers| {
            let footing = Footing {
                layers,
                ..self.footing(rungs, attempt)
            };
            self.answer(&footing, past, incident)
        })
    }

    fn answer(
        &self,
        footing: &Footing<'_>,
        past: Past<'_>,
        incident: Option<&Incident>,
    ) -> Result<Decision, Refusal> {
        match self.made.profile.as_ref().filter(|_| !self.inputs.one_rung) {
            None => climb(footing, incident),
            Some(profile) => {
                let outlook = Outlook {
                    profile,
                    risk: self.inputs.risk,
                    past,
                };
                if self.inputs.policy == Policy::Predict
                    && let Some(decision) = predict(footing, &outlook, incident)?
                {
                    return Ok(decision);
                }
                ascend(footing, &outlook, incident)
            }
        }
    }

    /// What the job takes, from the knobs with the roles for it.
    ///
    /// # Errors
    /// As `shape`.
    pub fn resources(&self, rungs: &[Layer]) -> Result<Resources, Refusal> {
        if let Some(asked) = self.own_resources(rungs) {
            return Ok(asked);
        }
        let shape = self.shape(rungs)?;
        let first = |role| self.made.preset.with_role(role).next();
        let count = |role, none| {
            let value = first(role).map(|k| shape.recipe().value(&k.name));
            match value {
                Some(Value::Int(n)) => u64::try_from(*n).unwrap_or(none),
                _ => none,
            }
        };
        let limit = first(Role::TimeLimit).map(|k| shape.recipe().value(&k.name).to_string());
        let nodes = count(Role::Nodes, 1);
        Ok(Resources {
            gpus: nodes * count(Role::GpusPerNode, 0),
            nodes,
            time_limit_s: limit.and_then(|t| parse_duration_s(&t).ok()),
        })
    }

    /// The files of an attempt.
    ///
    /// # Errors
    /// As `shape`, templates that cannot be rendered, and values that cannot be written into a copy.
    pub fn render(
        &self,
        rungs: &[Layer],
        place: &AttemptPlace,
    ) -> Result<Vec<RenderedFile>, Refusal> {
        if let Some(files) = self.own_files(rungs, place)? {
            return Ok(files);
        }
        let shape = self.shape(rungs)?;
        let mut files = render(&self.made.preset, &shape, &self.inputs.templates, place)
            .map_err(|e: TemplateError| Problem::new(e.to_string()))?;
        let copies = copies(&self.made.preset, &shape, &self.inputs.originals)?;
        files.extend(copies.into_iter().map(|(name, text)| RenderedFile {
            name,
            text,
            entry: false,
        }));
        Ok(files)
    }

    /// The resolved recipe.
    ///
    /// # Errors
    /// As `shape`.
    pub fn recipe(&self, rungs: &[Layer]) -> Result<Recipe, Refusal> {
        self.shape(rungs).map(|s| s.recipe().clone())
    }
}
