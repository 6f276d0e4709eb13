//! All runs of a project, one line each: of those that are over the ledger is read once and then remembered.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;

use super::super::print::run_list::{Line, list};
use super::super::print::run_view::run_view;
use super::super::print::{self, Failure};
use super::super::runs;
use crate::io::ledger::LEDGER_FILE;
use crate::io::summaries::{Stamp, Summaries};

/// Prints the list.
pub fn show(project: &Path, now: Timestamp) -> Result<ExitCode, Failure> {
    let names = runs::names(project);
    let mut known: Summaries<Line> = Summaries::open(project);
    let mut lines = BTreeMap::new();
    let (mut live, mut damaged) = (Vec::new(), None);
    for name in &names {
        let stamp = Stamp::of(&runs::runs_dir(project).join(name).join(LEDGER_FILE));
        if let Some(line) = stamp.and_then(|stamp| known.get(name, stamp)) {
            lines.insert(name.clone(), line.clone());
            continue;
        }
        match (runs::open(project, name), stamp) {
            (Ok(run), Some(stamp)) if run.history.outcome.is_some() => {
                let line = Line::from(&run_view(&run.history, now));
                known.put(name, stamp, line.clone());
                lines.insert(name.clone(), line);
            }
            (Ok(run), _) => live.push(run),
            (Err(failure), _) => damaged = Some(failure),
        }
    }
    super::ask(project, &mut live, now)?;
    for run in &mut live {
        super::look(run);
        lines.insert(
            run.history.run.clone(),
            Line::from(&run_view(&run.history, now)),
        );
    }
    known.save(&names);
    let lines: Vec<Line> = lines.into_values().collect();
    print::data(&list(&lines))?;
    damaged.map_or(Ok(ExitCode::SUCCESS), Err)
}
