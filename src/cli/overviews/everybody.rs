//! Runs of everybody in the projects below a folder, as far as they may be read. Nothing here acts on a run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::cli::logs::unwatched::read;
use crate::cli::runs::{Runs, owner, projects};
use crate::io::owners::Owners;
use crate::view::CommandFailure;
use crate::view::everybody::EverybodyView;
use crate::view::history_summary::UnreadPath;
use crate::view::row::RunRow;

/// Runs that may not be read, by their project and their owner.
type PrivateRuns = BTreeMap<(PathBuf, Option<u32>), usize>;

/// What was found, and what could not be read.
#[derive(Default)]
struct Found {
    rows: Vec<RunRow>,
    private: PrivateRuns,
    unread: Vec<UnreadPath>,
    owners: Owners,
}

/// The runs of this user, or of all, in the projects in a folder and below it. Jobs that live are asked about now, and
/// those that ended unwatched are judged.
pub fn everybody(
    folder: &Path,
    user: Option<&str>,
    now: Timestamp,
) -> Result<EverybodyView, CommandFailure> {
    let mut found = Found::default();
    for project in projects::below(&[folder.to_owned()])? {
        found.take(&project, user, now);
    }
    Ok(found.view())
}

/// Puts whose runs of a project they are, and its folder, into rows.
pub fn owned(runs: &Runs, rows: &mut [RunRow]) {
    let mut owners = Owners::new();
    for row in rows {
        row.user = owner(&runs.dir().join(&row.run)).map(|user| owners.user(user));
        row.folder = Some(runs.project().display().to_string());
    }
}

impl Found {
    fn take(&mut self, project: &Path, user: Option<&str>, now: Timestamp) {
        let runs = Runs::of(project);
        let mut names = match runs.names() {
            Ok(names) => names,
            Err(failure) => {
                let whose = owner(project);
                if user.is_none() || self.name(whose).as_deref() == user {
                    self.unread(project, &runs.dir(), whose, &failure);
                }
                return;
            }
        };
        let owners: BTreeMap<String, Option<u32>> = names
            .iter()
            .map(|name| (name.clone(), owner(&runs.dir().join(name))))
            .collect();
        let whose = |name: &String| owners.get(name).copied().flatten();
        names.retain(|name| user.is_none() || self.name(whose(name)).as_deref() == user);
        let mut overview = runs.overview(&names, now);
        for (name, failure) in std::mem::take(&mut overview.damaged) {
            let path = runs.dir().join(&name);
            self.unread(project, &path, whose(&name), &failure);
        }
        // Of a run whose request cannot be read nobody knows where its job is.
        overview.open.retain(|run| {
            let request = run.request();
            if let Err(failure) = &request {
                self.unread(project, run.folder.dir(), run.owner(), failure);
            }
            request.is_ok()
        });
        if let Err(failure) = read(&runs, &mut overview.open, now) {
            self.unread(project, &runs.dir(), None, &failure);
        }
        for mut row in overview.rows(&names, now) {
            row.user = self.name(whose(&row.run));
            row.folder = Some(project.display().to_string());
            self.rows.push(row);
        }
    }

    fn name(&mut self, user: Option<u32>) -> Option<String> {
        user.map(|user| self.owners.user(user))
    }

    /// Something that was not read: named by itself, or counted where its owner keeps it to themselves.
    fn unread(&mut self, project: &Path, path: &Path, whose: Option<u32>, why: &CommandFailure) {
        match is_private(path) {
            true => *self.private.entry((project.to_owned(), whose)).or_default() += 1,
            false => self.unread.push(UnreadPath {
                path: path.display().to_string(),
                why: why.sentence(),
            }),
        }
    }

    fn view(mut self) -> EverybodyView {
        for ((project, whose), runs) in std::mem::take(&mut self.private) {
            let user = self.name(whose).unwrap_or_else(|| "their owner".to_owned());
            let path = project.display().to_string();
            let what = match (owner(&Runs::of(&project).dir()), runs) {
                (None, _) => format!("the runs of {user} are"),
                (_, 1) => format!("a run of {user} is"),
                (_, n) => format!("{n} runs of {user} are"),
            };
            let why = format!(
                "{what} private; there `oomctl init --group` opens new runs to the group of the folder, `chmod -R g+rX .oomctl` those that exist"
            );
            self.unread.push(UnreadPath { path, why });
        }
        let key = |row: &RunRow| {
            (
                row.user.clone(),
                row.folder.clone(),
                row.created,
                row.run.clone(),
            )
        };
        self.rows.sort_by_key(key);
        EverybodyView::new(self.rows, self.unread)
    }
}

/// Is it kept from us by its modes?
fn is_private(path: &Path) -> bool {
    let files = [
        path.to_owned(),
        path.join("ledger.jsonl"),
        path.join("inputs.json"),
    ];
    let denied =
        |path: &PathBuf| File::open(path).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    files.iter().any(denied)
}
