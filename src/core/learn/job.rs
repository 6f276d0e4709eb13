//! A configuration as far as it decides about the memory of a GPU, and when one says something about another.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::recipe::{Knob, Preset, Shape, expr, knobs_in};
use oomctl_base::{Effect, Origin, Role, Value};

/// The knob of Slurm's set that names a type of GPU.
const GPU_TYPE: &str = "gpu_type";

/// What decides about the memory of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct JobFeatures {
    /// What must be equal for two jobs to be compared, by name: model, stack, GPUs, and knobs of which it is
    /// not known which way they go.
    pub same: BTreeMap<String, String>,
    /// Sizes by knob; the larger, the more memory. A switch that saves memory is 0 when it is on. Where the
    /// preset has formulas, the bytes of each of their terms, by `phase: term`, in place of the knobs that they read.
    pub sizes: BTreeMap<String, f64>,
    /// What only somebody said of a script that says nothing of it itself (`--set gpu_memory=80GiB`): two jobs differ in it
    /// where both were described.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub described: BTreeMap<String, String>,
}

impl JobFeatures {
    /// The job that a shape describes, on a cluster (by the name of its profile) and a backend.
    pub fn of(preset: &Preset, shape: &Shape, cluster: Option<&str>, backend: &str) -> Self {
        let version = preset.version.as_ref().map(ToString::to_string);
        let mut same = BTreeMap::from([
            ("preset".to_owned(), preset.name.clone()),
            ("version".to_owned(), version.unwrap_or_default()),
            ("cluster".to_owned(), cluster.unwrap_or_default().to_owned()),
            ("backend".to_owned(), backend.to_owned()),
        ]);
        // Of what no knob describes it is not known which way it goes, unless the preset's own formulas say all.
        let unknown = shape.recipe().overrides.iter();
        for given in unknown.filter(|_| preset.formulas.is_none()) {
            same.insert(format!("override {}", given.key), given.value.clone());
        }
        let mut sizes = BTreeMap::new();
        formulas(preset, shape, &mut same, &mut sizes);
        let (read, counted) = (read_by_the_model(preset), read_by_formulas(preset));
        for knob in &preset.knobs {
            let value = shape.recipe().value(&knob.name);
            if !is_handed_over(preset, shape, knob) || counted.contains(&knob.name) {
                continue;
            }
            if let Some(size) = size(knob, value) {
                sizes.insert(knob.name.clone(), size);
            } else if is_given(shape, knob) && decides(preset, knob, &read) {
                same.insert(knob.name.clone(), value.to_string());
            }
        }
        Self {
            same,
            sizes,
            described: BTreeMap::new(),
        }
    }

    /// Does it ask for one type of GPU?
    pub fn names_gpu(&self) -> bool {
        let named = |of: &BTreeMap<String, String>| of.get(GPU_TYPE).is_some_and(|n| !n.is_empty());
        named(&self.same) || named(&self.described)
    }

    /// The script does not give this knob; somebody said it of the job.
    pub fn is_described(&mut self, knob: &str) {
        let size = self.sizes.remove(knob).map(|size| size.to_string());
        if let Some(value) = self.same.remove(knob).or(size) {
            self.described.insert(knob.to_owned(), value);
        }
    }

    /// What both were described with, and differ in: the name, its value there, its value here.
    pub fn described_otherwise(&self, there: &Self) -> Vec<(String, String, String)> {
        let both = self.described.iter();
        let both = both.filter_map(|(name, here)| Some((name, there.described.get(name)?, here)));
        both.filter(|(_, there, here)| there != here)
            .map(|(name, there, here)| (name.clone(), there.clone(), here.clone()))
            .collect()
    }

    /// Is this job surely no larger than the other? Then it fits where the other did, and the other
    /// fails where it did.
    pub fn within(&self, other: &Self) -> bool {
        self.same == other.same
            && self.described_otherwise(other).is_empty()
            && self.sizes.len() == other.sizes.len()
            && self.sizes.iter().zip(&other.sizes).all(
                |((name, size), (other_name, other_size))| name == other_name && size <= other_size,
            )
    }
}

/// The knobs that the memory model reads for a preset.
fn read_by_the_model(preset: &Preset) -> BTreeSet<String> {
    let fields = preset.memory.iter().flat_map(|m| m.fields.values());
    knobs_in(preset, fields.map(String::as_str))
}

/// The knobs that a preset's own formulas read.
fn read_by_formulas(preset: &Preset) -> BTreeSet<String> {
    let formulas = preset.formulas.iter();
    let texts = formulas.flat_map(|f| {
        let terms = f.phases.iter().flat_map(|p| &p.terms);
        let bytes = terms.map(|t| t.bytes.as_str());
        bytes.chain([f.gpu_bytes.as_str()])
    });
    knobs_in(preset, texts)
}

/// What a preset's own formulas say: the terms are sizes, the GPU must be the same. A term that is no number can
/// be compared with nothing but itself.
fn formulas(
    preset: &Preset,
    shape: &Shape,
    same: &mut BTreeMap<String, String>,
    sizes: &mut BTreeMap<String, f64>,
) {
    let Some(formulas) = &preset.formulas else {
        return;
    };
    let value = |text: &str| expr::evaluate(preset.env(), text, shape.scope());
    let number = |text: &str| f64::try_from(value(text).ok()?).ok();
    let gpu = value(&formulas.gpu_bytes).map(|v| v.to_string());
    same.insert("gpu_bytes".to_owned(), gpu.unwrap_or_default());
    for phase in &formulas.phases {
        for term in &phase.terms {
            let name = format!("{}: {}", phase.phase, term.term);
            match number(&term.bytes).filter(|bytes| bytes.is_finite()) {
                Some(bytes) => sizes.insert(name, bytes).map(|_| ()),
                None => same.insert(name, term.bytes.clone()).map(|_| ()),
            };
        }
    }
}

/// False for a knob without a value, and for one whose value follows from those of others.
fn is_given(shape: &Shape, knob: &Knob) -> bool {
    let resolved = shape.recipe().values.get(&knob.name);
    resolved.is_some_and(|r| !r.value.is_null() && !matches!(r.origin, Origin::Computed { .. }))
}

/// False for a knob that the program never sees with the others as they are.
fn is_handed_over(preset: &Preset, shape: &Shape, knob: &Knob) -> bool {
    let when = knob.render_when.as_deref();
    when.is_none_or(|text| expr::holds(preset.env(), text, shape.scope()).unwrap_or(true))
}

/// The size that a knob is, where more of it surely never takes less memory; `None` for another knob, or
/// one without a value.
fn size(knob: &Knob, value: &Value) -> Option<f64> {
    match knob.role? {
        Role::TrainBatch
        | Role::MiniBatch
        | Role::MicroBatch
        | Role::LogprobMicroBatch
        | Role::TokenBudget
        | Role::EvalBatch
        | Role::RolloutSamples
        | Role::RolloutContext
        | Role::PromptLength
        | Role::ResponseLength
        | Role::SequenceLength => value.number(knob.kind),
        // From the second forward on gradients wait; further ones take nothing more.
        Role::GradAccumulation => value.number(knob.kind).map(|n| n.min(2.0)),
        Role::ParamOffload
        | Role::OptimizerOffload
        | Role::ActivationOffload
        | Role::GradientCheckpointing => match value {
            Value::Bool(on) => Some(if *on { 0.0 } else { 1.0 }),
            _ => None,
        },
        _ => None,
    }
}

/// Does a knob that is no size decide about memory? What the memory model reads does, and what trades speed
/// for memory. Where nothing says what the model reads, or how a knob is handed over, whatever changes
/// training may, unless it acts on no phase.
fn decides(preset: &Preset, knob: &Knob, read: &BTreeSet<String>) -> bool {
    if read.contains(&knob.name) {
        return true;
    }
    match knob.role {
        Some(
            Role::HostMemory
            | Role::TimeLimit
            | Role::Cpus
            | Role::ExcludedNodes
            | Role::NumWorkers
            | Role::DataInMemory
            | Role::Resume
            | Role::FrameworkVersion,
        ) => false,
        Some(_) => true,
        None => match knob.effect {
            Effect::SameMath | Effect::Unknown => true,
            Effect::Resources => false,
            // A preset's own formulas say all.
            Effect::ChangesTraining if preset.formulas.is_some() => false,
            Effect::ChangesTraining => {
                let of_no_phase = knob.acts_on.as_ref().is_some_and(Vec::is_empty);
                preset.memory.is_none() || knob.spelling.is_none() && !of_no_phase
            }
        },
    }
}
