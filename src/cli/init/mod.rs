//! A starter file from answers.

pub mod asking;
pub mod cluster;
pub mod draft;
