//! What a terminal is asked for: its width, another screen, a pager.
//!
//! The room stands behind `view`, which names its modules as its own; `super::` finds what they share.

pub(crate) mod fold;
pub mod pager;
pub(crate) mod screen;

use super::{CommandFailure, print};
