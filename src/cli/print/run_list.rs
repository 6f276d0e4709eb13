//! Runs as a list, one line each.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::run_view::{RunView, duration};

/// A run in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    run: String,
    state: String,
    attempts: usize,
    elapsed_s: i64,
    /// Its last job, and why it stands as it does.
    last: String,
}

impl From<&RunView> for Line {
    fn from(view: &RunView) -> Self {
        let last = view.attempts.last();
        let job = last.and_then(|a| a.job.as_ref());
        let why = last.and_then(|a| a.reason.clone());
        let told = [
            job.map(|job| format!("job {job}")),
            view.reason.clone().or(why),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        Self {
            run: view.run.clone(),
            state: view.state.clone(),
            attempts: view.attempts.len(),
            elapsed_s: view.elapsed_s,
            last: told.join(": "),
        }
    }
}

/// The list of some runs.
pub fn list(lines: &[Line]) -> String {
    if lines.is_empty() {
        return "no runs here; `oomctl submit` starts one\n".to_owned();
    }
    let width = lines.iter().map(|l| l.run.len()).max().unwrap_or(3).max(3);
    let mut out = format!(
        "{:<width$}  {:<12} {:>8} {:>10}  {}\n",
        "RUN", "STATE", "ATTEMPTS", "ELAPSED", "LAST"
    );
    for line in lines {
        let _ = writeln!(
            out,
            "{:<width$}  {:<12} {:>8} {:>10}  {}",
            line.run,
            line.state,
            line.attempts,
            duration(line.elapsed_s),
            line.last,
        );
    }
    out
}
