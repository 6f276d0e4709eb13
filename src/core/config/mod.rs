//! Text to layers: project file, profiles, presets, `--set`, environment.
//!
//! Rule: text comes in, with the name it was read under; nothing here opens a file. Every fault says
//! file, line and column.

mod assignments;
mod document;
mod edit;
mod error;
mod node;
mod preset_text;
mod schema;

pub use assignments::{from_environment, from_flags, near_misses, variable};
pub use document::{ConfigDocument, LadderEntry, PlacedText};
pub use edit::{knobs_yaml, set_knobs};
pub use error::ConfigError;
pub use node::{ConfigContent, ConfigKey, ConfigNode, MAX_FILE};
pub use preset_text::{merge_ladder, parse_data, parse_knob_set, parse_preset};
pub use schema::{Vocabulary, output_schemas, schema_of, with_durations};
