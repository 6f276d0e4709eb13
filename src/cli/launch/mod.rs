//! Programs that `oomctl run` starts here: from its options to a program, and to the program's end.

pub mod begin;
pub mod launching;
