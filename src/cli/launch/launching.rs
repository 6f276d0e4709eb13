//! From the options of `run` to a program with its knobs and its ladder.

use std::path::Path;

use crate::cli::request::copied;
use crate::cli::script::{self, Shelves};
use crate::cli::session::Session;
use crate::core::config::{from_environment, from_flags};
use crate::core::launch::{Copied, Launch, RunArguments};
use crate::io::environment::variables;
use crate::io::program::Ears;
use crate::view::CommandFailure;
use oomctl_base::units::{Bytes, parse_duration_s};

/// The knob set that says how a GPU is waited for; it comes with every preset here.
pub const SET: &str = "run";
/// The preset when none is named.
pub const PRESET: &str = "robust";

/// Options that say what is run and how.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Preset: the knobs of the program, and its ladder
    #[arg(long, value_name = "NAME", default_value = PRESET)]
    preset: String,
    /// How the program spells a knob (repeatable): batch=training.batch_size, batch=--bs, batch=env:BATCH; batch= for none
    #[arg(long = "knob", value_name = "NAME=SPELLING")]
    spellings: Vec<String>,
    /// Set a knob (repeatable): its first value, where the command does not give it
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Memory that must be available on a GPU [default: 4000MiB]
    #[arg(long, value_name = "SIZE")]
    min_gpu_memory: Option<String>,
    /// Memory that the program takes; others may have the rest of the GPU [default: all of it]
    #[arg(long, value_name = "SIZE")]
    claim: Option<String>,
    /// Longest time that a GPU is waited for [default: 60m]
    #[arg(long, value_name = "DURATION", value_parser = time)]
    wait: Option<String>,
    /// Time between two looks while waiting [default: 30s]
    #[arg(long, value_name = "DURATION")]
    check_every: Option<String>,
    /// Retries with a smaller batch [default: 3]
    #[arg(long, value_name = "N")]
    max_retries: Option<String>,
    /// The batch is not made smaller than this [default: 4]
    #[arg(long, value_name = "N")]
    min_batch_size: Option<String>,
    /// Whether the CPU may be used when no GPU will do [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_cpu: Option<String>,
    /// Allow a rung that is off otherwise (repeatable): smaller-lora-rank, fewer-workers
    #[arg(long, value_name = "RUNG")]
    allow: Vec<String>,
}

/// Reads how long is waited. `oomctl gpus` has an option of the same name that takes a size.
fn time(text: &str) -> Result<String, String> {
    match parse_duration_s(text) {
        Err(_) if Bytes::parse(text).is_ok() => Err(format!(
            "this is a size; --wait takes a time (60m), and --min-gpu-memory {text} the memory it needs"
        )),
        // What is no time otherwise is told like the value of any knob.
        _ => Ok(text.to_owned()),
    }
}

impl Options {
    /// The options as assignments to knobs.
    fn assignments(&self) -> Vec<String> {
        let options = [
            ("min_gpu_memory", &self.min_gpu_memory),
            ("claim", &self.claim),
            ("wait", &self.wait),
            ("check_every", &self.check_every),
            ("max_retries", &self.max_retries),
            ("min_batch_size", &self.min_batch_size),
            ("allow_cpu", &self.allow_cpu),
        ];
        let given = options
            .into_iter()
            .filter_map(|(knob, value)| Some(format!("{knob}={}", value.as_ref()?)));
        let mut all: Vec<String> = given.collect();
        if !self.allow.is_empty() {
            all.push(format!("allow={}", self.allow.join(",")));
        }
        all.extend(self.set.iter().cloned());
        all
    }

    /// The preset, and what is known of launchers: the same for all programs of a queue.
    pub fn shelves(&self, session: &Session) -> Result<Shelves, CommandFailure> {
        Shelves::of(&session.library, Some(&self.preset))
    }

    /// A program ready to be run.
    pub fn launch(
        &self,
        session: &Session,
        shelves: &Shelves,
        command: Vec<String>,
    ) -> Result<Launch, CommandFailure> {
        let composed = script::composed(shelves, &command, &self.spellings);
        let file = shelves.presets.first().cloned();
        let mut file = file
            .ok_or_else(|| CommandFailure::configuration(format!("no preset {}", self.preset)))?;
        if !file.uses.iter().any(|n| n == SET) {
            file.uses.push(SET.to_owned());
        }
        let sets = Shelves::sets(&session.library, &file)?;
        let variables = variables();
        let given = RunArguments {
            composed,
            command,
            spellings: self.spellings.clone(),
            variables: variables.clone(),
        };
        let launch = Launch::new(file, sets, given)?;
        let pairs = variables.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let environment = from_environment(launch.preset(), pairs)?;
        let flags = from_flags(launch.preset(), &self.assignments(), &[])?;
        let mut layers = vec![environment, flags];
        let originals = copied::read(&session.folder, launch.preset(), &mut layers)?;
        let launch = launch.with(layers);
        let absolute = |path: &Path| {
            let path = std::path::absolute(path);
            path.map_err(|e| {
                CommandFailure::usage(format!("cannot determine the current folder: {e}"))
            })
        };
        let launch = launch.copying(Copied {
            originals,
            project: absolute(&session.folder)?,
            workdir: absolute(Path::new("."))?,
        })?;
        // What cannot be run is told before anything is waited for.
        launch.attempt(&[])?;
        Ok(launch.remarking_an_unknown_batch()?)
    }
}

/// The GPUs that this process may use, as CUDA's own list says.
pub fn visible() -> Option<String> {
    std::env::var("CUDA_VISIBLE_DEVICES").ok()
}

/// What tells of signals; from now on they do not end this process.
pub fn signals() -> Result<Ears, CommandFailure> {
    Ears::open().map_err(|e| CommandFailure::refused(format!("cannot listen for signals: {e}")))
}
