//! Sweeps: which cells cannot fit or break a rule, which value is to blame, and what would mend it.
//!
//! Rule: a sweep comes in as text and leaves as text; every verdict is a pure function of the sweep, the
//! preset and the layers below it.

mod arrays;
mod axis;
mod blame;
mod cells;
mod draw;
mod edit;
mod hydra;
mod judge;
mod model;
mod nodes;
mod repair;
mod select;
mod span;
#[cfg(test)]
mod tests;
mod wandb;

pub use arrays::{arrays, indices, share};
pub use axis::{Axis, AxisPlace, Method, ParameterStyle, Sweep, SweepFault};
pub use blame::{Blame, Culprit, ValueLimit};
pub use cells::{Cells, MOST_CELLS};
pub use draw::Draw;
pub use edit::apply;
pub use judge::{Brief, CellDetail, CellVerdict, Judge};
pub use repair::{Repair, SweepChange, SweepContext, repair};
pub use select::{CellFilter, Order, SelectedCell, Selection, Selector, cell_layer, select};

use crate::core::config::{ConfigContent, ConfigNode};

/// Reads a sweep: a W&B sweep file, or a Hydra configuration with `hydra.sweeper.params`.
///
/// # Errors
/// What is wrong, with line and column.
pub fn parse(path: &str, text: &str) -> Result<Sweep, SweepFault> {
    let root = ConfigNode::parse(path, text)?;
    let file = axis::SweepFile { path, text };
    match &root.content {
        ConfigContent::Map(entries) if entries.iter().any(|(k, _)| k.name == "hydra") => {
            hydra::from_file(&file, entries)
        }
        ConfigContent::Map(entries) => wandb::from_file(&file, entries),
        _ => Err(file.fault(
            root.line,
            root.column,
            "expected a sweep: `method` and `parameters`, or `hydra.sweeper.params`",
        )),
    }
}

/// Reads the overrides of a Hydra multirun: `train.batch=8,16 model.dim=range(64,256,64)`.
///
/// # Errors
/// The override that cannot be read, and why.
pub fn parse_overrides(overrides: &[String]) -> Result<Sweep, SweepFault> {
    hydra::from_overrides(overrides)
}
