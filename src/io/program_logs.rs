//! Files of the user's own into which the programs of jobs print: which part of them is of which job.
//!
//! Rule: what a file held before a job began is never that job's, and where this cannot be told it is not read.

use std::fs::{Metadata, metadata};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::core::adopt::ProgramLog;
use oomctl_base::job::{JobStatus, Stage};
use oomctl_scripts::OutputFile;

/// The files as they are before a job is submitted that prints into them.
pub fn before(workdir: &Path, files: &[OutputFile]) -> Vec<ProgramLog> {
    let named = files
        .iter()
        .filter_map(|file| Some((file, file.path.as_ref()?)));
    let logs = named.map(|(file, path)| as_it_is(workdir.join(path), file.appends));
    logs.collect()
}

fn as_it_is(path: PathBuf, appends: bool) -> ProgramLog {
    // What bears the number of a job that has none yet is not there.
    let known = metadata(&path).ok();
    ProgramLog {
        offset: known.as_ref().map_or(0, Metadata::len),
        stale: known.and_then(|known| changed(&known)).filter(|_| !appends),
        path,
    }
}

/// The same for a job that was submitted without us, and those that cannot be told from what other jobs appended.
pub fn of_submitted(
    workdir: &Path,
    files: &[OutputFile],
    status: Option<&JobStatus>,
) -> (Vec<ProgramLog>, Vec<PathBuf>) {
    let started = status.and_then(|status| status.started);
    let (mut logs, mut unread) = (Vec::new(), Vec::new());
    let named = files
        .iter()
        .filter_map(|file| Some((file, file.path.as_ref()?)));
    for (file, path) in named {
        let log = as_it_is(workdir.join(path), file.appends);
        let known = metadata(&log.path).ok();
        let since = |at: Option<Timestamp>| {
            at.zip(started)
                .is_some_and(|(at, s)| at.as_second() >= s.as_second())
        };
        let began = known.as_ref().is_some_and(|known| since(changed(known)));
        let born = known
            .as_ref()
            .and_then(|known| known.created().ok()?.try_into().ok());
        match began {
            true if file.appends && !since(born) => unread.push(log.path),
            true => logs.push(ProgramLog {
                offset: 0,
                stale: None,
                ..log
            }),
            false => logs.push(log),
        }
    }
    (logs, unread)
}

/// Whether a file still holds what another job has written: this one has not begun, or has not written to it.
pub fn is_of_another(log: &ProgramLog, status: Option<&JobStatus>) -> bool {
    let begun = status.filter(|status| status.state.stage() != Stage::Waiting);
    let Some(status) = begun else {
        return true;
    };
    let Ok(known) = metadata(&log.path) else {
        return false;
    };
    let (at, second) = (changed(&known), Timestamp::as_second);
    let earlier = at
        .zip(status.started)
        .is_some_and(|(at, started)| second(at) < second(started));
    earlier || log.stale.is_some() && log.stale == at && log.offset == known.len()
}

fn changed(known: &Metadata) -> Option<Timestamp> {
    known.modified().ok()?.try_into().ok()
}
