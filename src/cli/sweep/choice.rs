//! Which cells of a sweep are run, as flags say.

use super::cells::{self, MOST_RUNS};
use crate::core::sweep::{CellFilter, Draw, Method, Order, Selector, Sweep};
use crate::view::CommandFailure;

/// Which cells, and in which order.
#[derive(Debug, clap::Args)]
pub struct CellSelection {
    /// Only cells with this value, or one of these (repeatable)
    #[arg(long = "cell", value_name = "NAME=VALUE[,VALUE]")]
    cells: Vec<String>,
    /// At most this many cells, the first in order
    #[arg(long, value_name = "N", hide_short_help = true)]
    limit: Option<usize>,
    /// Draw this many cells at random instead of all [default: the sweep's run_cap]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = cells::count)]
    count: Option<usize>,
    /// The same seed draws the same cells
    #[arg(long, value_name = "N", hide_short_help = true, default_value_t = 0)]
    seed: u64,
    /// Which cells start first
    #[arg(long, value_enum, hide_short_help = true, default_value = "as-written")]
    order: OrderName,
}

/// Which cells start first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OrderName {
    /// As the sweep lists them
    AsWritten,
    /// Those that need the least memory
    SmallestFirst,
}

impl CellSelection {
    /// Which cells of a sweep are wanted; with `force` also those that do not fit.
    pub fn choice(&self, sweep: &Sweep, force: bool) -> Result<CellFilter, CommandFailure> {
        let selector = |text: &String| {
            let (name, values) = text.split_once('=').ok_or_else(|| {
                CommandFailure::usage(format!("--cell {text}: expected NAME=VALUE"))
                    .hint("--cell graph_d=250,500")
            })?;
            Ok(Selector {
                name: name.to_owned(),
                values: values.split(',').map(str::to_owned).collect(),
            })
        };
        let cap = sweep.cap.and_then(|n| usize::try_from(n).ok());
        let drawn = cap.filter(|_| sweep.method == Method::Random);
        if let Some(cap) = drawn.filter(|cap| self.count.is_none() && *cap > MOST_RUNS) {
            let what = format!("run_cap is {cap}, and at most {MOST_RUNS} cells are drawn");
            return Err(CommandFailure::configuration(what).hint("--count N draws fewer"));
        }
        let draw = self.count.or(drawn).map(|count| Draw {
            count,
            seed: self.seed,
        });
        Ok(CellFilter {
            selectors: self
                .cells
                .iter()
                .map(selector)
                .collect::<Result<_, CommandFailure>>()?,
            order: match self.order {
                OrderName::AsWritten => Order::AsWritten,
                OrderName::SmallestFirst => Order::SmallestFirst,
            },
            limit: self.limit.or(cap.filter(|_| draw.is_none())),
            draw,
            force,
        })
    }
}
