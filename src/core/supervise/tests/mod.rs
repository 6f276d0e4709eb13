//! Tests of the supervisor: tables of single decisions, and a simulated world.

pub(crate) mod double;
mod flock;
mod simulation;
mod start;
mod table;
mod tune;
