//! A starter file from answers.

pub mod answers;
pub mod asking;
pub mod cluster;
pub mod draft;
pub mod job_script;
pub mod next;
pub mod settings_file;
pub mod starter;
pub mod surroundings;
