//! Runs, as they stand and as they went.
//!
//! The room stands behind `view`, which names its modules as its own; `super::` finds what they share.

mod attempt_text;
pub mod everybody;
pub mod heartbeat;
pub mod history_column;
pub mod history_metrics;
pub mod history_summary;
pub mod history_view;
mod kept;
pub(crate) mod lines;
pub mod outcome;
pub mod prune_view;
mod remarks;
pub mod row;
pub mod run_view;
mod same_figures;
mod spool;
pub mod story;
pub mod training;
pub(crate) mod waiting;

use super::{
    estimate_view, explanation, figures, measured, measured_plan_view, passed_over, rung_view,
    snapshot_view, style, table,
};
