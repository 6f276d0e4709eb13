//! How something is measured: the card, the ranks, the limits.

use std::time::Duration;

use clap::{Args, Command, FromArgMatches};

use super::card::card;
use super::job::JobMeasure;
use crate::cli::request::known::LookupTables;
use crate::cli::session::Session;
use crate::core::measure::PhantomContext;
use crate::io::phantom::PhantomRun;
use crate::view::CommandFailure;
use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_phantom::Phantom;

/// The card, the ranks, the limits.
#[derive(Debug, Args)]
pub struct MeasureOptions {
    /// Type of GPU, such as a100-40gb [default: the job's; h100 for a command]
    #[arg(long, value_name = "TYPE")]
    pub gpu_type: Option<String>,
    /// Memory of each GPU, if the type has another
    #[arg(long, value_name = "SIZE", hide_short_help = true, value_parser = Bytes::parse)]
    pub gpu_memory: Option<Bytes>,
    /// Number of GPUs and ranks [default: the job's; 1 for a command]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub gpus: Option<u16>,
    /// Number of ranks to simulate, instead of the job's
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub world: Option<u32>,
    /// Optimizer steps to measure; 0: all
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub steps: u32,
    /// Memory of CUDA's context on each GPU [default: as published for the type; else 0]
    #[arg(long, value_name = "SIZE", hide_short_help = true, value_parser = Bytes::parse)]
    pub context: Option<Bytes>,
    /// Results that the program reads are one instead of zero
    #[arg(long, hide_short_help = true)]
    pub ones: bool,
    /// Longest time that the program may run
    #[arg(long, value_name = "TIME", hide_short_help = true, default_value = "10m", value_parser = parse_duration_s)]
    pub time_limit: u64,
    /// Most memory of this machine that the program may take
    #[arg(long, value_name = "SIZE", hide_short_help = true, default_value = "16GiB", value_parser = Bytes::parse)]
    pub host_memory: Bytes,
}

impl Default for MeasureOptions {
    /// What they are where no option is given.
    fn default() -> Self {
        let none = Self::augment_args(Command::new("measure").no_binary_name(true));
        let none = none.try_get_matches_from([""; 0]);
        none.and_then(|none| Self::from_arg_matches(&none))
            .expect("every option has a default")
    }
}

impl MeasureOptions {
    /// The options as they are written: `--steps`.
    pub fn names() -> Vec<String> {
        let all = Self::augment_args(Command::new("measure"));
        let names = all.get_arguments().filter_map(|a| a.get_long());
        names.map(|name| format!("--{name}")).collect()
    }

    /// Do the options say another number of ranks than these?
    pub fn moves_ranks(&self, gpus: u64) -> bool {
        let other = |given: u64| given != gpus;
        self.gpus.is_some_and(|n| other(n.into())) || self.world.is_some_and(|n| other(n.into()))
    }

    /// How a job is measured.
    pub fn asked(&self, session: &Session, job: &JobMeasure) -> Result<PhantomRun, CommandFailure> {
        let gpu_type = self.gpu_type.as_ref().or(job.gpu_type.as_ref());
        let gpu_type = gpu_type.ok_or_else(|| {
            CommandFailure::usage("the job does not say which type of GPU it runs on")
                .hint("`--set gpu_type=h100`; a measurement also takes `--gpu-type h100`")
        })?;
        let known = LookupTables::new(&session.library, &session.folder);
        let memory = self
            .gpu_memory
            .or(job.gpu_memory.filter(|_| self.gpu_type.is_none()));
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let gpus = self.gpus.map_or(job.gpus, u64::from);
        let given = |of_job: u64| match self.gpus {
            Some(gpus) if of_job > 0 => u32::from(gpus),
            _ => count(of_job),
        };
        let (published, of_any) = known.context(gpu_type)?;
        let context = match (self.context, published) {
            (Some(given), _) => PhantomContext::given(given.0),
            (None, Some(size)) => PhantomContext::published(&size),
            (None, None) => PhantomContext::unknown(of_any.as_ref()),
        };
        Ok(PhantomRun {
            program: job.program.clone(),
            phantom: Phantom {
                card: card(&known, gpu_type, memory, context.bytes)?,
                devices: u16::try_from(gpus.clamp(1, 64)).unwrap_or(1),
                ones: self.ones,
            },
            context,
            steps: self.steps,
            world: self.world.unwrap_or_else(|| given(job.world)),
            ranks: self.gpus.map_or(count(job.ranks), u32::from),
            time_limit: Duration::from_secs(self.time_limit),
            host_bytes: self.host_memory.0,
        })
    }
}
