//! `oomctl prune`: folders of runs that are over, and that nobody needs any more.

use std::path::Path;

use jiff::Timestamp;

use crate::cli::ask::agree;
use crate::cli::runs::Runs;
use crate::cli::session::Session;
use crate::cli::since::{Since, since};
use crate::core::engine::History;
use crate::core::exit::Exit;
use crate::drive::{remove_links, run_links};
use crate::io::files::{folder_bytes, remove_whole};
use crate::io::ledger::{LedgerClaim, Takeover};
use crate::view::prune_view::{PruneView, PrunedRun};
use crate::view::{CommandFailure, print};

/// Arguments of `prune`.
#[derive(Debug, clap::Args)]
pub struct PruneArgs {
    /// Runs, by name, or the runs of a sweep [default: every run that is over and old enough]
    #[arg(value_name = "RUN|SWEEP")]
    runs: Vec<String>,
    /// Only runs that ended longer ago than this (12h, 30d), or before this day
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = since)]
    older_than: Since,
    /// Only runs in this state: succeeded, failed, exhausted, cancelled (repeatable)
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,
    /// Show what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Remove without a question
    #[arg(short, long)]
    yes: bool,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl prune`. Checkpoints and what was learned stay; what goes is the run's ledger, its scripts and its logs.
pub fn run(args: &PruneArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.config.as_deref())?.printing(args.json);
    let runs = &session.runs;
    let mut found = chosen(runs, args, session.now)?;
    let removes = !found.runs.is_empty() && !args.dry_run;
    if removes && !args.yes {
        print::talk(found.text(false).trim_end());
        let question = format!("Remove {}?", found.what());
        if !agree(&question, "look at them with --dry-run, then add --yes")? {
            print::talk("nothing was removed");
            return Ok(Exit::Success);
        }
    }
    let mut failure = None;
    for run in found.runs.iter_mut().filter(|_| removes) {
        match remove(runs, &run.run) {
            Ok(()) => run.removed = true,
            // Another one may have been opened again, or be in use.
            Err(why) => failure = Some(why),
        }
    }
    session.show(&found, |view| view.text(removes))?;
    failure.map_or(Ok(Exit::Success), Err)
}

/// The runs that are over and meant.
fn chosen(runs: &Runs, args: &PruneArgs, now: Timestamp) -> Result<PruneView, CommandFailure> {
    let named = !args.runs.is_empty();
    let names = match named {
        true => runs.expand(&args.runs)?.0,
        false => runs.names()?,
    };
    let before = args.older_than.before(now);
    let mut view = PruneView::default();
    for name in names {
        let stored = match named {
            true => runs.find(&name),
            false => runs.open(&name),
        };
        let stored = match stored {
            Ok(stored) => stored,
            Err(failure) if named => return Err(failure),
            Err(_) => {
                view.unread.push(name);
                continue;
            }
        };
        let (Some(outcome), Some(ended)) = (&stored.history.outcome, ended(&stored.history)) else {
            match named {
                true => return Err(alive(&name)),
                false => view.open += 1,
            }
            continue;
        };
        let state = outcome.word();
        let meant = args.state.is_empty() || args.state.iter().any(|s| s == state);
        if !meant || ended > before && !named {
            view.kept += 1;
            continue;
        }
        view.runs.push(PrunedRun {
            run: stored.history.run.clone(),
            state: state.to_owned(),
            ended,
            bytes: folder_bytes(stored.folder.dir()),
            removed: false,
        });
    }
    Ok(view)
}

/// When its last job was over; where there was none, when it was made.
fn ended(history: &History) -> Option<Timestamp> {
    let last = history.attempts.last();
    let ended = last.map(|a| a.over_at().unwrap_or(a.intended_at));
    ended.or(history.created)
}

fn alive(name: &str) -> CommandFailure {
    CommandFailure::usage(format!("{name} is not over, and stays"))
        .hint(format!("`oomctl cancel {name}` ends it"))
}

/// The folder is renamed before it is emptied, so that nobody sees half a run.
fn remove(runs: &Runs, name: &str) -> Result<(), CommandFailure> {
    let folder = runs.folder(name)?;
    let claim = LedgerClaim::take(folder.dir(), Takeover::IfDead)
        .map_err(|e| CommandFailure::ledger(e.to_string()))?;
    // It may have been reopened since it was looked at.
    let stored = runs.open(name)?;
    if stored.history.outcome.is_none() {
        return Err(alive(name));
    }
    let links = stored
        .request()
        .map(|request| run_links(&stored.folder, &request, &stored.history));
    let aside: &Path = &runs
        .project()
        .join(".oomctl")
        .join(format!("pruned-{name}"));
    remove_whole(folder.dir(), aside)?;
    drop(claim);
    links.into_iter().for_each(remove_links);
    Ok(())
}
