//! Tests of the state machine: tables of single decisions.

mod over_time;
mod phantom;
mod probe;
mod queue;
mod refused;
mod retried;
mod steer;
mod stop;
mod sweep_group;
mod table;
mod toy;

pub(crate) use toy::{Toy, at, incident, nothing};
