//! Failures of memory that are bugs of a version: which package, which versions, what they look like.
//!
//! Rule: a bug is a fact only where the version is known and all that must be seen is there; else it is said as one
//! that may be. Rows are data (`presets/bugs`); nothing here knows a knob, so what must hold of a configuration is
//! handed on as text.

mod known;
mod number;
mod row;
mod versions;

pub use known::{BugSetting, KnownBug};
pub use number::WrittenVersion;
pub use row::{Bug, BugConditions, Bugs, Example, Package};
pub use versions::{Telling, Versions, same_package, version_in};
