//! Arguments that several commands share.

use std::path::PathBuf;

use clap::Args;

use crate::core::adopt::is_array;
use crate::core::ladder::Policy;
use crate::io::scheduler::slurm::bad_option;

/// What to run: the configuration and what lies above it.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Configuration {
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Preset of the framework, such as trl (`oomctl presets` lists them)
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Dataset profile
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<String>,
    /// Cluster profile
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub cluster: Option<String>,
    /// Set a knob, such as save_freq=20 (repeatable)
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    pub set: Vec<String>,
    /// Pass on a key that no knob describes, value unchanged (repeatable)
    #[arg(long = "override", value_name = "KEY=VALUE", hide_short_help = true)]
    pub overrides: Vec<String>,
    /// How oomctl chooses the next attempt after an out-of-memory [default: ladder]
    #[arg(long, value_enum, value_name = "POLICY", hide_short_help = true)]
    pub policy: Option<PolicyName>,
    /// Take only rungs that do not change training
    #[arg(long, conflicts_with = "policy")]
    pub same_math: bool,
    /// Start unchanged: ignore what earlier runs needed
    #[arg(long)]
    pub fresh: bool,
    /// Climb one rung at a time, whatever the memory model expects
    #[arg(long, hide_short_help = true)]
    pub one_rung: bool,
    /// Least probability to fit that the next attempt should have [default: 0.9]
    #[arg(long, alias = "risk", value_name = "PROBABILITY", value_parser = probability, hide_short_help = true)]
    pub min_fit_probability: Option<f64>,
    /// Scheduler to use
    #[arg(
        long,
        value_enum,
        env = "OOMCTL_BACKEND",
        value_name = "BACKEND",
        hide_short_help = true
    )]
    pub backend: Option<Backend>,
}

impl Configuration {
    /// Whether an option says what to run or how to go on, beside the project file and the scheduler.
    pub fn says_what_to_run(&self) -> bool {
        let rest = Self {
            config: None,
            backend: None,
            ..self.clone()
        };
        rest != Self::default()
    }
}

/// `0.95`, and `95%`.
fn probability(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let given = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent).map(|p| p / 100.0),
        None => number(text),
    };
    given.ok_or_else(|| "write a probability such as 0.95 or 95%".to_owned())
}

/// How the next attempt is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PolicyName {
    /// Rungs in their order, as many as needed
    Ladder,
    /// Only rungs that do not change training
    SameMath,
    /// The cheapest values that are expected to fit
    Predict,
    /// More GPUs, another partition or the rungs without: what ends first by Slurm's queue and the job's speed
    Soonest,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Ladder => Self::Ladder,
            PolicyName::SameMath => Self::SameMath,
            PolicyName::Predict => Self::Predict,
            PolicyName::Soonest => Self::Soonest,
        }
    }
}

/// The scheduler to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// Slurm if sbatch is found, else this machine
    Auto,
    /// Slurm
    Slurm,
    /// Flux
    Flux,
    /// PBS
    Pbs,
    /// This machine
    Local,
}

/// An option that sbatch may be given beside ours. A script of the user's own may be an array.
pub fn sbatch_option(option: &str) -> Result<String, String> {
    match bad_option(option).filter(|_| !is_array(option)) {
        None => Ok(option.to_owned()),
        Some((reason, hint)) => Err(format!("{reason}: {hint}")),
    }
}

/// How something is submitted.
#[derive(Debug, clap::Args)]
pub struct SubmitOptions {
    /// Measure on phantom GPUs first, take rungs until it fits there
    #[arg(long)]
    pub measure: bool,
    /// Show what would be submitted, and submit nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Option for sbatch (repeatable): --sbatch=--qos=high
    #[arg(long, value_name = "OPT", allow_hyphen_values = true, value_parser = sbatch_option)]
    pub sbatch: Vec<String>,
    /// Attempts in all, the first included
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: Option<u32>,
    /// Start from a checkpoint: its folder, or the newest of a run
    #[arg(long, value_name = "FOLDER|RUN", hide_short_help = true)]
    pub resume_from: Option<PathBuf>,
    /// Do not ask before the job is submitted
    #[arg(short, long)]
    pub yes: bool,
    /// Print one JSON document
    #[arg(short, long)]
    pub json: bool,
}
