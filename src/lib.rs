//! oomctl submits training jobs to Slurm, recognises GPU out-of-memory failures in their logs and
//! submits again with a configuration that fits.
//!
//! Five rooms, one direction: `cli → view → drive → io → core`. Nothing imports to the left; a test reads
//! the `use` lines and fails on an import against the direction.

pub mod cli;
pub mod core;
pub mod drive;
pub mod io;
pub mod view;
