//! The attempts of many runs, of many projects, that somebody chose.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::cli::logs::unwatched;
use crate::cli::runs::{Runs, Stored, asked};
use crate::io::owners::Owners;
use crate::view::CommandFailure;
use crate::view::history_view::{HistoryRow, HistoryView};

/// Which attempts, and what is looked up of them beside their ledgers.
#[derive(Debug, Default)]
pub struct AttemptChoice {
    /// Those that ended, or run, since then.
    pub from: Option<Timestamp>,
    /// States of the job or the run.
    pub states: Vec<String>,
    /// Kinds or classes of failure.
    pub causes: Vec<String>,
    /// On this dataset profile.
    pub dataset: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// Are dataset and preset shown?
    pub labels: bool,
    /// Are users shown?
    pub users: bool,
}

/// A folder or a run that could not be read.
pub struct UnreadRun {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub failure: CommandFailure,
}

impl AttemptChoice {
    /// The attempts of these projects, in the order of time, and what could not be read.
    pub fn of(&self, folders: &[PathBuf], now: Timestamp) -> (Vec<HistoryRow>, Vec<UnreadRun>) {
        let (mut rows, mut unread) = (Vec::new(), Vec::new());
        let mut owners = Owners::new();
        for folder in folders {
            let (runs, mut open) = (Runs::of(folder), Vec::new());
            let names = runs.names().unwrap_or_else(|failure| {
                let path = runs.dir();
                unread.push(UnreadRun { path, failure });
                Vec::new()
            });
            for name in names {
                match runs.open(&name) {
                    Ok(stored) if stored.history.outcome.is_none() => open.push(stored),
                    Ok(stored) => {
                        rows.extend(self.rows(folder, &stored, &mut owners, now));
                    }
                    Err(failure) => {
                        let path = runs.dir().join(&name);
                        unread.push(UnreadRun { path, failure });
                    }
                }
            }
            // Where nobody can be asked, the states are those last seen.
            drop(unwatched::read(&runs, &mut open, now));
            for stored in &open {
                rows.extend(self.rows(folder, stored, &mut owners, now));
            }
        }
        rows.sort_by_key(|row| row.submitted);
        (rows, unread)
    }

    /// The attempts of a run that are asked for.
    fn rows(
        &self,
        folder: &Path,
        stored: &Stored,
        owners: &mut Owners,
        now: Timestamp,
    ) -> Vec<HistoryRow> {
        let recent = |row: &HistoryRow| {
            self.from
                .is_none_or(|from| row.ended.unwrap_or(now) >= from)
        };
        let mut rows = HistoryRow::of(&stored.history, folder, now);
        rows.retain(|row| recent(row) && row.is_state(&self.states) && row.is_cause(&self.causes));
        if rows.is_empty() {
            return rows;
        }
        if self.users || self.user.is_some() {
            let owner = stored.folder.dir().metadata();
            let name = owner.ok().map(|owner| owners.user(owner.uid()));
            rows.iter_mut().for_each(|row| row.user.clone_from(&name));
            rows.retain(|row| self.user.is_none() || row.user == self.user);
        }
        if self.labels || self.dataset.is_some() {
            let asked = asked::of(&stored.folder);
            for row in &mut rows {
                row.dataset.clone_from(&asked.dataset);
                row.preset.clone_from(&asked.preset);
            }
            rows.retain(|row| self.dataset.is_none() || row.dataset == self.dataset);
        }
        rows
    }
}

/// What is said where a choice leaves nothing: the states and causes that there are say what it may name.
pub fn none_left(folders: &[PathBuf], now: Timestamp) -> String {
    let (all, _) = AttemptChoice::default().of(folders, now);
    HistoryView::new(all).none_left()
}

/// Refuses a state that neither a job nor a run has. One that a scheduler reported is one, known or not.
pub fn only_states(asked: &[String], rows: &[HistoryRow]) -> Result<(), CommandFailure> {
    let states = HistoryRow::states();
    let is_one = |word: &String| {
        states.contains(&word.to_lowercase())
            || rows
                .iter()
                .any(|row| row.is_state(std::slice::from_ref(word)))
    };
    let Some(wrong) = asked.iter().find(|word| !is_one(word)) else {
        return Ok(());
    };
    let all: Vec<&str> = states.iter().map(String::as_str).collect();
    let failure = CommandFailure::usage(format!("no state is named {wrong}"));
    Err(failure.hint(format!("states: {}", all.join(", "))))
}
