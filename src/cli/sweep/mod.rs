//! Sweeps: reading one, and its cells as runs.

pub mod cells;
pub mod choice;
mod plain;
pub mod sweep_source;
