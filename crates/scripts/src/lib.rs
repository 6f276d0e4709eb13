//! Scripts that people already have: what they start, with which values, and how another value is put in.
//!
//! Rule: a value is changed where its bytes stand and nowhere else; what is computed is said to be, and never
//! guessed. Text comes in and text leaves; what was written is read again, and refused where it does not say exactly
//! what was meant. What would have to change in a user's program is for its author; nothing writes to it.

mod accumulation;
mod adopt;
mod append;
mod ask;
mod batch_options;
mod beside_trainer;
mod by_use;
mod called;
mod change;
mod code;
mod code_value;
mod configs;
mod configurator;
mod configured;
mod constants;
mod containers;
mod context;
mod dataclass_options;
mod declared;
mod devices;
mod dictionary;
mod edit;
mod eval_loader;
mod exit_code;
mod filled_class;
mod fixed;
mod found_knob;
mod given_keys;
mod handed_on;
mod hidden_values;
mod host_memory;
pub mod hydra;
mod imports;
mod in_program;
mod kept;
mod keyed;
mod keyed_options;
mod knobs;
mod launchers;
mod likely;
mod listed_options;
mod literal;
mod loaded;
mod local_variables;
mod micro_batch;
mod misspelt;
mod moved_program;
mod other_trainer;
mod overwritten;
mod own_model;
mod own_options;
mod parts;
mod patched;
mod placed;
mod preface;
mod program;
mod program_option;
mod program_text;
mod proof;
mod python;
mod read_variables;
mod recognise;
mod references;
mod refilled;
mod refused_words;
mod remembered;
mod requested;
mod resources;
mod sbatch;
mod scaled;
mod sectioned;
mod selves;
pub mod settings;
pub mod shell;
mod slices;
mod spelling;
mod stack;
mod stars;
mod submits;
#[cfg(test)]
mod tests;
mod traced;
mod unread;
mod unread_code;
mod uses;
mod verified;
mod walk;
mod whole_parser;
mod written;
pub mod yaml;

pub use adopt::Adoption;
pub use ask::Ask;
pub use beside_trainer::{RECOMPUTED_DOUBT, TRAINER_DOUBT, UNDIVIDED_DOUBT};
pub use change::{Means, PatchError, TextEdit};
pub use code::{CodeArgument, CodeRule};
pub use context::SubmissionContext;
pub use declared::required_options;
pub use devices::{DataParallel, DeviceScript, Literal};
pub use exit_code::{goes_on_to_another, hiding_place};
pub use host_memory::host_memory;
pub use in_program::{InProgram, NumberInProgram};
pub use kept::{EvaluationLines, Keeping, KeptMemory, OwnText};
pub use knobs::{FoundKnob, KnobForm, KnobState, all, find};
pub use launchers::{Launcher, Launchers, MeasuredLauncher, Starts};
pub use likely::recognise;
pub use own_options::{CODE_OF, SPREAD_MAP};
pub use patched::{DIFF_CONTEXT, Patch, unified_diff};
pub use placed::{CopyPlace, FileCopy, INTERPRETER, Placed};
pub use preface::is_shell;
pub use program::JobProgram;
pub use recognise::{Recognise, is_key_of};
pub use resources::{asked, asked_in_all, gpu_type};
pub use sbatch::{
    Directive, VARIABLES, directives, misspelt_options, option_words, script_directives,
    split_line, wins,
};
pub use spelling::{Missing, SettingsReader, Spelling, YamlPlace, same_flag};
pub use stack::{Stack, StackKnob};
pub use traced::{PartOrigin, Quote, Span, Traced, TracedPart, Use, Why};
pub use walk::{
    ARRAY, Arg, ArgumentsEnd, COMMAND_LINE, Call, CallTarget, ENVIRONMENT, FileRole, JOB, JOB_NAME,
    NamedFile, OutputFile, Reached, Reading, RefusedWord, SCRIPT, ScriptSource, SettingsFile,
    Submission, TASK, UnreadFile, folder_of_file, follow, joined,
};
pub use whole_parser::all_options;
