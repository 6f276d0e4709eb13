//! The room that shows: one view struct a command, printed as text or as JSON; `print` alone writes to the terminal.
//!
//! Rule: a view takes data and decides nothing. It asks neither the ladder nor the memory model.

#![allow(
    clippy::disallowed_methods,
    reason = "looks at the terminal and its locale, and draws on its own clock"
)]

pub mod adopt_view;
mod bars;
pub mod doctor_view;
pub mod estimate_view;
pub mod explanation;
mod failure;
mod figures;
pub mod files_view;
pub mod fix_view;
mod fold;
pub mod gpus_view;
pub mod heartbeat;
pub mod history_metrics;
pub mod history_view;
mod incident;
mod kept;
pub mod launch_summary;
pub mod launch_view;
mod lines;
pub mod live;
mod measured;
pub mod measured_plan_view;
mod memory_bar;
pub mod outcome;
pub mod own_view;
pub mod pager;
pub mod phantom_view;
pub mod pipeline;
pub mod plan_after_view;
pub mod plan_view;
pub mod print;
pub mod probe_view;
pub mod prune_view;
pub mod queue_view;
pub mod report;
pub mod row;
pub mod run_view;
pub mod rung_view;
mod screen;
pub mod settings_view;
mod snapshot_view;
pub mod sources_view;
pub mod start_view;
pub mod story;
mod style;
pub mod sweep_fix_view;
pub mod sweep_submit_view;
mod sweep_text;
pub mod sweep_view;
mod table;
pub mod tune_view;
mod waiting;

pub use failure::CommandFailure;
pub use fold::columns;
pub use incident::IncidentView;
pub use lines::next_step;
pub use screen::AlternateScreen;
pub use style::{DIM, NAME, Paint};
