//! Requests on a small framework of their own.

mod program;
pub(crate) mod start;
pub(crate) mod tune;
