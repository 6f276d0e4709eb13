//! Requests on a small framework of their own.

pub(crate) mod start;
pub(crate) mod tune;
