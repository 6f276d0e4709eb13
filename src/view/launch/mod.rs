//! Programs of `oomctl run`.
//!
//! The room stands behind `view`, which names its modules as its own; `super::` finds what they share.

pub mod launch_summary;
pub mod launch_view;

use super::{explanation, figures, lines, print, style};
