//! `oomctl sweep submit`: every cell that can fit, each as a run of its own.

use std::process::ExitCode;

use super::super::print::story::Story;
use super::super::print::sweep_submit_view::View;
use super::super::print::{self, Failure};
use super::super::sweep_source::{Source, load};
use super::super::{load as loading, submit, sweeps, watch};
use super::cells::{self, Plan};
use crate::core::sweep::{Choice, Judge, Order, Selector, select};
use crate::drive::{End, Sources, Supervisor, SweepRecord, Until, drive};

/// Exit code when every cell is refused, and one of them for its memory.
const STILL_OUT_OF_MEMORY: u8 = 3;
/// Exit code when the sweep cannot be run, or every cell breaks a rule.
const CONFIGURATION: u8 = 5;

/// Arguments of `sweep submit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Name of the sweep; by default its file's, with a number. Its runs are called NAME.1, NAME.2 and so on
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Only cells with this value, or one of these (repeatable)
    #[arg(long = "cell", value_name = "NAME=VALUE[,VALUE]")]
    cells: Vec<String>,
    /// At most so many cells, the first in order
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Which cells begin first
    #[arg(long, value_enum, default_value = "as-written")]
    order: OrderName,
    /// Cells under way at a time [default: 1 on this machine, as many as Slurm starts there]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_running: Option<u32>,
    /// Submit cells that do not fit, too; those that break a rule have no script
    #[arg(long)]
    force: bool,
    /// Stay, follow the logs, and resubmit on GPU OOM
    #[arg(long)]
    watch: bool,
    /// Print cells, arrays and the first script, and submit nothing
    #[arg(long)]
    dry_run: bool,
    /// Hand an option on to sbatch (repeatable): --sbatch=--qos=high
    #[arg(long, value_name = "OPT", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Attempts of a cell in all, the first included
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
}

/// Which cells begin first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OrderName {
    /// As the sweep lists them
    AsWritten,
    /// Those that need the least memory
    SmallestFirst,
}

/// Runs `oomctl sweep submit`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let project = loading::project(args.source.configuration.config.as_deref())?.folder;
    let loaded = load(&args.source, &args.sbatch)?;
    let footing = loaded.footing();
    let mut judge = Judge::new(
        footing.preset,
        footing.recipe,
        footing.cluster,
        footing.profile,
        &loaded.sweep,
    )?;
    let selection = select(&loaded.sweep, &mut judge, &choice(args)?)
        .map_err(|what| Failure::new(CONFIGURATION, format!("{}: {what}", loaded.path)))?;
    let name = match &args.run {
        Some(name) => name.clone(),
        None => cells::new_name(&project, &loaded)?,
    };
    let plan = Plan::new(
        &project,
        &name,
        &loaded,
        &judge,
        &selection,
        args.max_running,
        args.attempts,
    )?;
    let view = View::new(
        &plan.head(),
        &plan.names(),
        &loaded.sweep,
        &judge,
        &selection,
    );
    if selection.run.is_empty() {
        print::data(&view.text())?;
        let code = if view.too_large() {
            STILL_OUT_OF_MEMORY
        } else {
            CONFIGURATION
        };
        let what = format!("{}: no cell is left to run", loaded.path);
        let hint =
            "`oomctl sweep check` says why, `oomctl sweep fix` writes a sweep whose cells all run";
        return Err(Failure::new(code, what).hint(hint));
    }
    if args.dry_run {
        print::data(&format!("{}\n{}", view.text(), plan.scripts(&project)?))?;
        print::talk("dry run: nothing was submitted");
        return Ok(ExitCode::SUCCESS);
    }
    print::talk(view.text().trim_end());
    let (supervisor, record) = plan.create(&project)?;
    if args.watch {
        return watch::follow(supervisor, args.source.json);
    }
    submit_once(supervisor, &record, args.source.json)
}

/// Which cells are wanted.
fn choice(args: &Args) -> Result<Choice, Failure> {
    let selector = |text: &String| {
        let (name, values) = text.split_once('=').ok_or_else(|| {
            Failure::new(2, format!("--cell {text}: expected NAME=VALUE"))
                .hint("--cell graph_d=250,500")
        })?;
        Ok(Selector {
            name: name.to_owned(),
            values: values.split(',').map(str::to_owned).collect(),
        })
    };
    Ok(Choice {
        selectors: args
            .cells
            .iter()
            .map(selector)
            .collect::<Result<_, Failure>>()?,
        order: match args.order {
            OrderName::AsWritten => Order::AsWritten,
            OrderName::SmallestFirst => Order::SmallestFirst,
        },
        limit: args.limit,
        force: args.force,
    })
}

/// Submits what can be submitted now, and goes.
fn submit_once(
    mut supervisor: Supervisor,
    record: &SweepRecord,
    json: bool,
) -> Result<ExitCode, Failure> {
    let sources = Sources::signals()
        .map_err(|e| Failure::new(4, format!("cannot listen for signals: {e}")))?;
    let until = Until::Submitted {
        patience_s: submit::PATIENCE_S,
    };
    let mut story = Story::quiet();
    let end = drive(&mut supervisor, until, &sources, &mut story);
    story.close();
    let code = watch::result(&supervisor, end, json, &|_| Ok(()))?;
    if !json {
        print::data(&watch::run_list(&supervisor))?;
    }
    if !matches!(end, End::Detached { .. }) {
        print::talk(&sweeps::next_step(&supervisor, &record.sweep));
    }
    Ok(code)
}
