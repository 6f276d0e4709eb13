//! Links to the logs of attempts, at the place where people look for them.

use std::path::PathBuf;

use super::RunFolder;
use crate::core::engine::History;
use crate::core::request::Request;
use oomctl_base::job::JobId;

/// The logs of an attempt, each with the place of a link to it: where a script of the user's own asks for it, or else in the
/// project's folder for logs.
pub(super) fn log_links(
    folder: &RunFolder,
    request: &Request,
    attempt: u32,
    job: &JobId,
) -> Vec<(PathBuf, PathBuf)> {
    let (out, err) = (folder.stdout(attempt), folder.stderr(attempt));
    let theirs = request.log_links(&job.0).unwrap_or_default();
    let logs = folder.log_links().filter(|_| !request.is_program());
    let ours = |ending: &str| Some(logs.as_ref()?.join(format!("slurm-{job}.{ending}")));
    let at = |theirs: Option<String>, ending| theirs.map(PathBuf::from).or_else(|| ours(ending));
    let errors = (!theirs.one_log).then(|| (err, at(theirs.stderr, "err")));
    let all = std::iter::once((out, at(theirs.stdout, "out"))).chain(errors);
    all.filter_map(|(log, at)| Some((log, at?))).collect()
}

/// The same of all attempts of a run.
pub fn run_links(
    folder: &RunFolder,
    request: &Request,
    history: &History,
) -> Vec<(PathBuf, PathBuf)> {
    let jobs = history.attempts.iter();
    let jobs = jobs.filter_map(|a| Some((a.number, &a.job.as_ref()?.id)));
    jobs.flat_map(|(attempt, job)| log_links(folder, request, attempt, job))
        .collect()
}

/// Removes links that still lead to these logs. One that stays leads nowhere, and does no harm.
pub fn remove_links(links: Vec<(PathBuf, PathBuf)>) {
    for (log, at) in links {
        if std::fs::read_link(&at).is_ok_and(|to| to == log) {
            let _ = std::fs::remove_file(&at);
        }
    }
}
