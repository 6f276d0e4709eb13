//! Many runs at a glance: rows of those that are over, and in full those that are not.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{Runs, Stored};
use crate::drive::RunFolder;
use crate::io::files::check_ours;
use crate::io::index::{FileStamp, RunIndex};
use crate::view::CommandFailure;
use crate::view::row::RunRow;
use crate::view::run_view::run_view;
use oomctl_base::job::Stage;

/// Runs of a project, each in one of the three.
pub struct Overview {
    /// Those that are over.
    pub over: Vec<RunRow>,
    /// Those that are not.
    pub open: Vec<Stored>,
    /// Those that cannot be read, and why.
    pub damaged: Vec<(String, CommandFailure)>,
}

impl Runs {
    /// The runs of these names. Whether one is over is read from its ledger unless that is as it was when it was last
    /// read.
    pub fn overview(&self, names: &[String], now: Timestamp) -> Overview {
        let dir = self.dir();
        let mut index = RunIndex::<RunRow>::open(self.project());
        let mut found = Overview {
            over: Vec::new(),
            open: Vec::new(),
            damaged: Vec::new(),
        };
        for name in names {
            let folder = RunFolder::of(&dir, name).ok();
            let stamp = folder.and_then(|folder| FileStamp::of(folder.dir()));
            let kept = stamp.and_then(|stamp| index.get(name, stamp));
            // A row of an earlier version does not say when its run was made.
            if let Some(row) = kept.filter(|row| row.created.is_some()) {
                found.over.push(row.clone());
                continue;
            }
            match self.open(name) {
                Ok(run) if run.history.outcome.is_some() => {
                    let row = RunRow::of(&run_view(&run.history, now));
                    if let Some(stamp) = stamp {
                        index.put(name, stamp, row.clone());
                    }
                    found.over.push(row);
                }
                Ok(run) => found.open.push(run),
                Err(failure) => found.damaged.push((name.clone(), failure)),
            }
        }
        // Where it cannot be written it is slower next time. Root leaves no file of its own among those of others.
        if check_ours(&dir).is_ok() {
            drop(index.store(|run| dir.join(run).exists()));
        }
        found
    }
}

impl Overview {
    /// The run that was made last.
    pub fn newest(&self) -> Option<String> {
        let over = self.over.iter().map(|row| (row.created, &row.run));
        over.chain(self.open.iter().map(created))
            .max()
            .map(|(_, name)| name.clone())
    }

    /// The run that was made last of those that are not over, and whose jobs have not ended.
    pub fn newest_open(&self) -> Option<String> {
        let has_ended = |run: &Stored| {
            let last = run.history.attempt().and_then(|a| a.status.as_ref());
            last.is_some_and(|status| status.state.stage() == Stage::Ended)
        };
        let open = self.open.iter().filter(|run| !has_ended(run));
        open.map(created).max().map(|(_, name)| name.clone())
    }

    /// All of them as rows, in the order of these names.
    pub fn rows(&self, names: &[String], now: Timestamp) -> Vec<RunRow> {
        let open = self.open.iter();
        let open = open.map(|run| RunRow::of(&run_view(&run.history, now)));
        let all = self.over.iter().cloned().chain(open);
        let mut all: HashMap<String, RunRow> = all.map(|row| (row.run.clone(), row)).collect();
        names.iter().filter_map(|name| all.remove(name)).collect()
    }
}

fn created(run: &Stored) -> (Option<Timestamp>, &String) {
    (run.history.created, &run.history.run)
}
