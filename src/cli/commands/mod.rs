//! One file a command: its arguments with their help, and one function that runs it.

pub mod adopt;
pub mod cancel;
pub mod completions;
pub mod diagnose;
pub mod doctor;
pub mod estimate;
pub mod explain;
pub mod fix;
pub mod gpus;
pub mod history;
pub mod init;
pub mod man;
pub mod measure;
pub mod plan;
pub mod presets;
pub mod probe;
pub mod render;
pub mod report;
pub mod run;
pub mod schema;
pub mod status;
pub mod submit;
pub mod sweep;
pub mod tune;
pub mod watch;
