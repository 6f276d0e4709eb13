//! `oomctl sweep`: which cells of a sweep cannot fit, which value is to blame, and a sweep that runs.

mod submit;

use std::path::PathBuf;

use crate::cli::sweep::sweep_source::{Loaded, SweepSource, load};
use crate::core::exit::Exit;
use crate::core::sweep::{self, Judge};
use crate::io::files::{Access, write_to};
use crate::view::sweep_fix_view::FixView;
use crate::view::sweep_view::SweepView;
use crate::view::{CommandFailure, print};
use oomctl_base::units::Bytes;

/// Arguments of `sweep`.
#[derive(Debug, clap::Args)]
pub struct SweepArgs {
    #[command(subcommand)]
    command: SweepCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SweepCommand {
    /// Judge every cell: fits, tight, does not fit, breaks a rule
    Check(SweepCheckArgs),
    /// Write a sweep whose cells all run: values dropped or capped, comments kept
    Fix(SweepFixArgs),
    /// Submit every cell that can fit, each as a run: as Slurm job arrays, or on this machine
    Submit(Box<submit::SweepSubmitArgs>),
}

#[derive(Debug, clap::Args)]
struct SweepCheckArgs {
    #[command(flatten)]
    source: SweepSource,
    /// Show every cell, not only the first ones
    #[arg(long)]
    all: bool,
    /// Explain a failed request of this size, such as 7.45GiB
    #[arg(long, value_name = "SIZE")]
    requested: Option<String>,
}

#[derive(Debug, clap::Args)]
struct SweepFixArgs {
    #[command(flatten)]
    source: SweepSource,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `oomctl sweep`.
pub fn run(args: &SweepArgs) -> Result<Exit, CommandFailure> {
    match &args.command {
        SweepCommand::Check(args) => check(args),
        SweepCommand::Fix(args) => fix(args),
        SweepCommand::Submit(args) => submit::run(args),
    }
}

/// What judges the cells of a sweep.
fn judge(loaded: &Loaded) -> Result<Judge<'_>, CommandFailure> {
    let context = loaded.context();
    let (preset, recipe) = (context.preset, context.recipe);
    let sweep = &loaded.sweep;
    let judge = Judge::new(preset, recipe, context.cluster, context.profile, sweep)?;
    Ok(judge.doubting(loaded.doubt.clone()))
}

fn check(args: &SweepCheckArgs) -> Result<Exit, CommandFailure> {
    let loaded = load(&args.source.session()?, &args.source, &[])?;
    let requested = args.requested.as_deref().map(Bytes::parse).transpose();
    let requested =
        requested.map_err(|what| CommandFailure::usage(format!("--requested: {what}")))?;
    let view = SweepView::new(
        &loaded.path,
        &loaded.sweep,
        &mut judge(&loaded)?,
        loaded.context().preset,
        requested,
    );
    print::show(args.source.json, &view, |view| view.text(args.all))?;
    Ok(view.exit_code)
}

fn fix(args: &SweepFixArgs) -> Result<Exit, CommandFailure> {
    let loaded = load(&args.source.session()?, &args.source, &[])?;
    if let Some(why) = judge(&loaded)?.unmentioned() {
        print::talk(&format!("note: {why}"));
    }
    let repair = sweep::repair(&loaded.context(), &loaded.sweep, loaded.set.clone())?;
    if let Some(left) = &repair.left {
        let what = format!("{}: no change makes every cell run: {left}", loaded.path);
        let hint = "`oomctl sweep check` shows the cells; set a knob that the sweep does not vary (--set), or take a larger GPU";
        return Err(CommandFailure::configuration(what).hint(hint));
    }
    let text = match &loaded.text {
        Some(text) => {
            let written = sweep::apply(&loaded.path, text, &loaded.given, &repair);
            let by_hand = |what| {
                CommandFailure::configuration(format!(
                    "{}: the file has a form that cannot be edited safely",
                    loaded.path
                ))
                .hint(what)
            };
            Some(written.map_err(by_hand)?)
        }
        None => None,
    };
    let view = FixView::new(&loaded.path, &repair, text.as_deref());
    if args.source.json {
        print::json(&view)?;
    } else {
        print::talk(&view.text());
    }
    match (text, &args.output) {
        (Some(text), Some(path)) => {
            write_to(path, text.as_bytes(), Access::Shared)
                .map_err(|e| CommandFailure::from(e).with_exit(Exit::Usage))?;
            print::talk(&format!("written to {}", path.display()));
        }
        (Some(text), None) if !args.source.json => print::data(&text)?,
        _ => {}
    }
    Ok(Exit::Success)
}
