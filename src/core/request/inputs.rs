//! What a run was asked to do, as stored in its folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::{Limits, Supervision};
use super::notices::Notices;
use crate::core::adopt::{ProgramLog, Scripts};
use crate::core::ladder::{JobEnvironment, Policy};
use crate::core::launch::RunProgram;
use crate::core::recipe::copies::Original;
use crate::core::recipe::{ClusterFacts, Layer, LayerKind, RungSpec};
use oomctl_base::job::JobRef;
use oomctl_diagnose::{Bugs, UserSignature, Versions};

/// A text with the name that it was read under.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NamedText {
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
    /// Files into which its program prints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<ProgramLog>,
}

/// What a probe is of, in the inputs of its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeOf {
    /// The run, dataset or preset that is tuned.
    pub of: String,
    /// Training steps of the probe.
    pub steps: u32,
    /// Names of the steps of `tune` that it took, a name for each lap.
    pub taken: Vec<String>,
    /// Share of a training step's time that was expected to be left.
    pub time: f64,
    /// How many of its layers are those of the configuration that is tuned; the steps and what makes it short
    /// lie above.
    pub below: usize,
}

/// All that a run needs to decide and render, complete in itself: later edits of the project's files
/// change nothing about a run that was submitted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Inputs {
    /// Version of this format.
    pub schema_version: u32,
    /// Name of the run.
    pub run: String,
    /// The preset file.
    pub preset: Arc<NamedText>,
    /// Knob sets that it uses.
    pub knob_sets: Arc<Vec<NamedText>>,
    /// The project's own names for knobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spellings: BTreeMap<String, String>,
    /// Version of the framework, where the project names one.
    pub framework_version: Option<String>,
    /// The ladder, as the project changed it.
    pub ladder: Arc<Vec<RungSpec>>,
    /// How to climb.
    pub policy: Policy,
    /// Climb one rung at a time, whatever the memory model expects.
    #[serde(default)]
    pub one_rung: bool,
    /// Take the rungs in their declared order, each with all of its moves, whether they help here or not.
    #[serde(default)]
    pub whole_rungs: bool,
    /// Probability to fit that an attempt should have before it is submitted.
    #[serde(default = "min_fit_probability", alias = "risk")]
    pub min_fit_probability: f64,
    /// Templates by name.
    pub templates: Arc<BTreeMap<String, String>>,
    /// Files of the user's of which attempts get a copy, by their names in the preset.
    #[serde(default, skip_serializing_if = "is_none")]
    pub originals: Arc<BTreeMap<String, Original>>,
    /// The scripts, where attempts are patches of the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scripts: Option<Scripts>,
    /// The program, where attempts are its command with other values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<RunProgram>,
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
    pub memory_profile: Option<NamedText>,
    /// Facts about the cluster.
    pub cluster_facts: ClusterFacts,
    /// The nodes that they are of in words, where no profile says them but Slurm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Name of the dataset profile.
    pub dataset: Option<String>,
    /// Layers below the rungs.
    pub layers: Vec<Layer>,
    /// The checkpoint that it begins with, an absolute folder, where it was asked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<String>,
    /// Bounds of the run.
    pub limits: Limits,
    /// How it is supervised.
    pub supervision: Supervision,
    /// Whom to tell of it who does not watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notices: Option<Notices>,
    /// `slurm`, `local` or `program`.
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
    /// Bugs of the project's own tables.
    #[serde(default, skip_serializing_if = "Bugs::is_empty")]
    pub bugs: Bugs,
    /// Versions of packages that are installed where its jobs run, as far as they could be read.
    #[serde(default, skip_serializing_if = "Versions::is_empty")]
    pub installed: Versions,
    /// The Python environment where its jobs run, where all that is installed there could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<JobEnvironment>,
    /// The command line that made the run.
    pub command: Vec<String>,
    /// What it is a probe of, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeOf>,
}

/// Probability to fit that is asked for by default.
pub const MIN_FIT_PROBABILITY: f64 = 0.9;

fn is_none(originals: &Arc<BTreeMap<String, Original>>) -> bool {
    originals.is_empty()
}

fn min_fit_probability() -> f64 {
    MIN_FIT_PROBABILITY
}

/// The format of `Inputs` that this version writes.
const INPUTS_VERSION: u32 = 1;

impl Inputs {
    /// Whether the preset is that of the program which the scripts start; false of a job without scripts of the user's own.
    pub fn is_recognised(&self) -> bool {
        self.scripts.as_ref().is_some_and(|s| s.recognised)
    }

    /// Inputs in which all that is not given is as it is by default: no run's name, no ladder, no layers.
    pub fn bare(preset: NamedText, backend: &str, workdir: String, project: String) -> Self {
        Self {
            schema_version: INPUTS_VERSION,
            preset: preset.into(),
            policy: Policy::Ladder,
            one_rung: true,
            min_fit_probability: MIN_FIT_PROBABILITY,
            backend: backend.to_owned(),
            workdir,
            project,
            ..Self::default()
        }
    }

    /// Is what these are made ready to the same for both: preset, sets, version, ladder and texts? Scripts of the user's
    /// own are the same for the tasks of one array. Commands are each run's own.
    pub(super) fn is_same_stack(&self, other: &Self) -> bool {
        self.preset == other.preset
            && self.knob_sets == other.knob_sets
            && self.spellings == other.spellings
            && self.framework_version == other.framework_version
            && self.memory_profile == other.memory_profile
            && self.templates == other.templates
            && self.originals == other.originals
            && self.ladder == other.ladder
            && self.has_same_scripts(other)
            && self.program.is_none()
            && other.program.is_none()
    }

    /// What is read of scripts rests on the layers and the cluster too, but for the run's name and what was learned.
    fn has_same_scripts(&self, other: &Self) -> bool {
        let (Some(ours), Some(theirs)) = (&self.scripts, &other.scripts) else {
            return self.scripts.is_none() && other.scripts.is_none();
        };
        let is_read = |l: &&Layer| !matches!(l.kind, LayerKind::Run | LayerKind::Learned);
        ours.are_of_one_array(theirs)
            && self.cluster_facts == other.cluster_facts
            && (self.layers.iter().filter(is_read)).eq(other.layers.iter().filter(is_read))
    }
}
