//! `oomctl sweep submit`: every cell that can fit, each as a run of its own.

use crate::cli::request::learned;
use crate::cli::runs::{Runs, ended};
use crate::cli::sweep::cells::{self, SweepOptions, SweepPlan};
use crate::cli::sweep::choice::CellSelection;
use crate::cli::sweep::go;
use crate::cli::sweep::sweep_source::{Loaded, SweepSource, load};
use crate::cli::watch::pipeline::{Flags, Pipeline};
use crate::cli::watch::showing::Showing;
use crate::core::exit::Exit;
use crate::core::sweep::{Judge, Method, select};
use crate::drive::SweepRecord;
use crate::view::sweep_submit_view::SweepSubmitView;
use crate::view::{CommandFailure, print};

/// Arguments of `sweep submit`.
#[derive(Debug, clap::Args)]
pub struct SweepSubmitArgs {
    #[command(flatten)]
    source: SweepSource,
    /// Name of the sweep [default: the file's name, and a number]
    ///
    /// Name of the sweep; its runs are NAME.1, NAME.2, ... [default: the file's name, and a number]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    #[command(flatten)]
    cells: CellSelection,
    /// Cells that run at the same time [default: 1 on this machine; on Slurm no limit]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_running: Option<u32>,
    /// Also submit cells that do not fit (never those that break a rule)
    #[arg(long, hide_short_help = true)]
    force: bool,
    /// Stay, follow the logs, and resubmit on GPU OOM
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    showing: Showing,
    /// Print cells, arrays and the first script, and submit nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Option for sbatch (repeatable): --sbatch=--qos=high
    #[arg(long, value_name = "OPT", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Attempts of a cell in all, the first included
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    #[command(flatten)]
    pipeline: Flags,
}

/// Runs `oomctl sweep submit`.
pub fn run(args: &SweepSubmitArgs) -> Result<Exit, CommandFailure> {
    if !args.watch {
        args.pipeline.without_watch()?;
    }
    let configuration = &args.source.configuration;
    let session = args.source.session()?;
    let mut loaded = load(&session, &args.source, &args.sbatch)?;
    if loaded.sweep.method == Method::Grid {
        loaded.sweep = loaded.sweep.listed();
    }
    loaded.needs_a_template()?;
    let sweep = &loaded.sweep;
    let context = loaded.context();
    let mut judge = Judge::new(
        context.preset,
        context.recipe,
        context.cluster,
        context.profile,
        sweep,
    )?;
    let choice = args.cells.choice(sweep, args.force)?;
    let selection = select(sweep, &mut judge, &choice)
        .map_err(|what| CommandFailure::configuration(format!("{}: {what}", loaded.path)))?;
    let name = match &args.run {
        Some(name) => name.clone(),
        None => cells::new_name(&session.runs, &loaded)?,
    };
    SweepRecord::folder(&session.folder, &name)?;
    let memory = learned::memory(&session, configuration.fresh);
    let wish = SweepOptions {
        name: &name,
        max_running: args.max_running,
        attempts: args.attempts,
        memory: memory.as_ref(),
    };
    let plan = SweepPlan::new(&session.runs, &wish, &loaded, &judge, &selection)?;
    let view = SweepSubmitView::new(plan.planned(), sweep, &mut judge, &selection, choice.draw);
    if selection.run.is_empty() {
        return none_left(&view, &loaded, args.source.json);
    }
    if args.dry_run {
        match args.source.json {
            true => print::json(&view.document(Exit::Success, &[]))?,
            false => {
                let scripts = plan.scripts(&session.runs)?;
                print::data(&format!("{}\n{scripts}", view.text()))?;
            }
        }
        print::talk("dry run: nothing was submitted");
        return Ok(Exit::Success);
    }
    print::talk(view.text().trim_end());
    submit(plan, &session.runs, &view, args)
}

/// Makes the runs, submits what can be submitted now, and goes or stays.
fn submit(
    plan: SweepPlan,
    runs: &Runs,
    view: &SweepSubmitView,
    args: &SweepSubmitArgs,
) -> Result<Exit, CommandFailure> {
    let pipeline = Pipeline {
        flags: &args.pipeline,
        runs,
        asked: plan.name.clone(),
        showing: args.showing.plain_if(args.source.json),
    };
    go(
        plan,
        &pipeline,
        args.watch,
        &|supervisor, exit_code| match args.source.json {
            true => print::json(&view.document(exit_code, &ended::views(supervisor))),
            false => print::data(&ended::run_list(supervisor)),
        },
    )
}

/// Every cell is refused.
fn none_left(view: &SweepSubmitView, loaded: &Loaded, json: bool) -> Result<Exit, CommandFailure> {
    let code = if view.too_large() {
        Exit::StillOutOfMemory
    } else {
        Exit::Configuration
    };
    print::show(json, &view.document(code, &[]), |_| view.text())?;
    let what = format!("{}: no cell can run", loaded.path);
    let hint =
        "`oomctl sweep check` says why, `oomctl sweep fix` writes a sweep whose cells all run";
    Err(CommandFailure::new(code, what).hint(hint))
}
