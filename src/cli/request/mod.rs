//! From flags, files and environment to what a run is asked to do.

pub mod agreed;
pub mod checkpoint;
pub mod climbing;
pub mod copied;
pub mod known;
pub mod learned;
pub mod load;
mod new_run;
pub mod nodes;
pub mod packages;
pub mod preview;
pub mod profile;
pub mod queue;
pub mod sections;
pub mod signatures;
pub mod yaml_lint;
