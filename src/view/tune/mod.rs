//! Faster configurations of a run that fits, and the short jobs that try them.
//!
//! The room stands behind `view`, which names its modules as its own; `super::` finds what they share.

pub mod probe_view;
pub mod tune_view;

use super::{DIM, NAME, Paint, estimate_view, figures, measured, measured_plan_view, table};
