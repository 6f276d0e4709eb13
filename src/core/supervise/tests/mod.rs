//! Tests of the supervisor: tables of single decisions.

pub(crate) mod double;
mod start;
mod table;
mod tune;
