//! The room that shows: one view struct a command, printed as text or as JSON; `print` alone writes to the terminal.
//!
//! Rule: a view takes data and decides nothing. It asks neither the ladder nor the memory model.

#![allow(
    clippy::disallowed_methods,
    reason = "looks at the terminal and its locale, and draws on its own clock"
)]

mod bars;
mod change_row;
pub mod doctor_view;
pub mod error_document;
pub mod estimate_view;
pub mod explanation;
mod failure;
mod figures;
mod file_hints;
pub mod files_view;
pub mod fix_view;
mod gpu;
mod incident;
mod launch;
pub mod live;
mod measured;
pub mod measured_plan_view;
pub mod own_view;
mod passed_over;
pub mod pipeline;
pub mod plan_after_view;
pub mod plan_table;
pub mod plan_view;
pub mod print;

pub mod report;
mod run;
pub mod rung_view;
pub mod script_parts;

mod script_values;
mod settings;
pub mod shared_view;
mod snapshot_view;
pub mod start_view;
pub mod starts_view;
mod style;
mod sweep;
mod table;
mod terminal;
mod tune;

pub use failure::CommandFailure;
pub(crate) use gpu::memory_bar;
pub use gpu::{closed_form_view, gpus_view, phantom_view};
pub use incident::IncidentView;
pub use launch::{launch_summary, launch_view};
pub use run::lines::next_step;
pub use run::{
    everybody, heartbeat, history_column, history_metrics, history_summary, history_view, outcome,
    prune_view, row, run_view, story, training,
};
pub(crate) use run::{lines, waiting};
pub use settings::{settings_view, sources_view};
pub use style::{DIM, NAME, Paint};
pub use sweep::{sweep_fix_view, sweep_submit_view, sweep_view};
pub(crate) use terminal::fold;
pub use terminal::fold::{columns, columns_of};
pub use terminal::pager;
pub use terminal::screen::AlternateScreen;
pub use tune::{probe_view, tune_view};
