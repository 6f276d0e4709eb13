//! Tests of the supervisor: tables of single decisions.

pub(crate) mod double;
mod over_time;
mod probe;
mod refused;
pub(crate) mod start;
mod steer;
mod stop;
mod sweep_group;
mod table;
mod tune;
