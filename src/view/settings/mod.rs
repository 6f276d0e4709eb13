//! Values of knobs, and where they come from.
//!
//! The room stands behind `view`, which names its modules as its own; `super::` finds what they share.

pub mod settings_view;
pub mod sources_view;

use super::{DIM, Paint, style, table};
