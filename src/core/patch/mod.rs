//! Files of the user's own, changed in a copy: only the values that are meant, everything else byte for byte.
//!
//! Rule: text comes in and text leaves; what was written is read again, and refused where it does not say exactly
//! what was meant.

mod copies;
pub mod yaml;

pub use copies::{Edit, Original, copies, edits, layer};
