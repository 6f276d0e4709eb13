//! From the options of `run` to a program with its knobs and its ladder.

use crate::cli::interrupt;
use crate::cli::request::{copied, learned, signatures};
use crate::cli::runs::PROGRAM;
use crate::cli::script::{self, Shelves};
use crate::cli::session::{Session, working_directory};
use crate::core::config::{from_environment, from_flags};
use crate::core::launch::{RunProgram, hang_grace_s, unknown_batch, uses_set};
use crate::core::learn::LearnedEntries;
use crate::core::recipe::{ClusterFacts, Shape};
use crate::core::request::{Inputs, Limits, NamedText, Request, Supervision};
use crate::io::environment::variables;
use crate::io::installed::active_here;
use crate::io::library::LibraryFolder;
use crate::io::program::Ears;
use crate::view::CommandFailure;
use oomctl_base::units::{Bytes, parse_duration_s};

/// The preset when none is named.
pub const PRESET: &str = "robust";

/// Options that say what is run and how.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Preset: the knobs of the program, and its ladder
    #[arg(long, value_name = "NAME", default_value = PRESET, hide_short_help = true)]
    preset: String,
    /// How the program spells a knob (repeatable): batch=--bs
    ///
    /// How the program spells a knob (repeatable): batch=training.batch_size, batch=--bs, batch=env:BATCH; batch= for none
    #[arg(long = "knob", value_name = "NAME=SPELLING")]
    spellings: Vec<String>,
    /// Set a knob that the command does not give (repeatable)
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Free memory that the GPU must have [default: 4000MiB]
    #[arg(long, value_name = "SIZE")]
    min_gpu_memory: Option<String>,
    /// Memory that the program takes; other programs may use the rest [default: the whole GPU]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    claim: Option<String>,
    /// Longest wait for a GPU [default: 60m]
    #[arg(long, value_name = "DURATION", value_parser = time)]
    wait: Option<String>,
    /// How often to look while waiting [default: 30s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    check_every: Option<String>,
    /// Retries with a smaller batch [default: 3]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_retries: Option<String>,
    /// Smallest batch [default: 4]
    #[arg(long, value_name = "N", hide_short_help = true)]
    min_batch_size: Option<String>,
    /// Use the CPU if no GPU will do [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_short_help = true)]
    allow_cpu: Option<String>,
    /// Allow a rung that is off otherwise (repeatable): smaller-lora-rank, fewer-workers
    #[arg(long, value_name = "RUNG", hide_short_help = true)]
    allow: Vec<String>,
    /// Start as the command says, whatever earlier runs taught
    #[arg(long, hide_short_help = true)]
    fresh: bool,
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

    /// What earlier runs taught, where that is to count.
    pub fn memory(&self, session: &Session) -> Option<LearnedEntries> {
        learned::memory(session, self.fresh)
    }

    /// The request for a program, which has no name yet, and remarks on it.
    pub fn request(
        &self,
        session: &Session,
        command: Vec<String>,
    ) -> Result<(Request, Vec<String>), CommandFailure> {
        let shelves = Shelves::of(&session.library, Some(&self.preset))?;
        let file = shelves.presets.first().cloned();
        let mut file = file
            .ok_or_else(|| CommandFailure::configuration(format!("no preset {}", self.preset)))?;
        uses_set(&mut file);
        let sets = file.uses.iter();
        let sets = sets.map(|set| session.library.get(LibraryFolder::Sets, set));
        let texts: Vec<NamedText> = sets.collect::<Result<_, _>>()?;
        let program = RunProgram {
            composed: script::composed(&shelves, &command, &self.spellings),
            takes: script::taken(&command),
            command,
            spellings: self.spellings.clone(),
            gpu: String::new(),
        };
        let parsed = Shelves::sets(&session.library, &file)?;
        let preset = program.assemble(file, parsed)?;
        let variables = variables();
        let (words, mut remarks) = program.layer(&preset, &variables);
        let pairs = variables.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let environment = from_environment(&preset, pairs)?;
        let flags = from_flags(&preset, &self.assignments(), &[])?;
        let mut layers = vec![environment, flags];
        let originals = copied::read(&session.folder, &preset, &mut layers)?;
        layers.push(words);
        let shape = Shape::new(&preset, &layers, &ClusterFacts::default(), None)?;
        remarks.extend(unknown_batch(&preset, &preset.ladder, &shape));
        let source = session.library.get(LibraryFolder::Presets, &self.preset)?;
        let workdir = working_directory()?.display().to_string();
        let project = session.folder.display().to_string();
        let inputs = Inputs {
            knob_sets: texts.into(),
            ladder: preset.ladder.clone().into(),
            templates: preset.stand_in_templates().into(),
            originals: originals.into(),
            program: Some(program),
            layers,
            limits: Limits {
                attempts: ATTEMPTS,
                ..Limits::default()
            },
            supervision: Supervision {
                hang_grace_s: hang_grace_s(shape.recipe()),
                ..here()
            },
            signatures: signatures::of(&session.document)?,
            bugs: signatures::bugs(&session.library)?,
            installed: active_here(),
            command: std::env::args().collect(),
            ..Inputs::bare(source, PROGRAM, workdir, project)
        };
        let request = Request::of_program(inputs, preset)?;
        // What cannot be run is told before anything is waited for.
        request.words(&[], "")?;
        Ok((request, remarks))
    }
}

/// Attempts in all: the ladder ends before.
const ATTEMPTS: u32 = 10_000;

/// How a program is supervised that runs in the foreground: its end is seen at once, what it prints lies on this machine,
/// and which GPU is taken, and how long one is waited for, is settled before it starts.
fn here() -> Supervision {
    Supervision {
        hang_grace_s: 600,
        settle_s: 0,
        drain_s: 0,
        late_logs_s: 0,
        node_failure_retries: 0,
        preemption_retries: 0,
        co_tenant_retries: 0,
        late_oom_retries: 0,
        leak_retries: 0,
        exclude_bad_nodes: false,
        refused_pause_max_s: 60,
        refused_wait_s: 0,
        never_starts_s: 0,
        stall_s: 0,
        ..Supervision::default()
    }
}

/// The GPUs that this process may use, as CUDA's own list says.
pub fn visible() -> Option<String> {
    std::env::var("CUDA_VISIBLE_DEVICES").ok()
}

/// What tells of signals; from now on they do not end this process.
pub fn signals() -> Result<Ears, CommandFailure> {
    Ears::open().map_err(|e| interrupt::cannot(&e))
}
