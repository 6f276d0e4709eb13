//! Sweeps.
//!
//! The room stands behind `view`, which names its modules as its own; `super::` finds what they share.

pub mod sweep_fix_view;
pub mod sweep_submit_view;
mod sweep_text;
pub mod sweep_view;

use super::{DIM, NAME, Paint, figures, run_view, style, table};
