//! A run in one line: of `status`, of the overview of a report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::duration;
use super::run_view::RunView;
use super::table::{Side, Table};
use crate::core::exit::Exit;

/// What a line says of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// Name.
    pub run: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<jiff::Timestamp>,
    /// `waiting`, `submitting`, `pending`, `running`, … or how it ended.
    pub state: String,
    /// Exit code, when it is over.
    pub exit_code: Option<Exit>,
    /// Seconds from when it was made to its end, or until now.
    pub elapsed_s: i64,
    /// How many attempts there were.
    pub attempts: usize,
    /// The job of the last one.
    pub job: Option<String>,
    /// GPU-seconds of all attempts.
    pub gpu_seconds: f64,
    /// The last failure that ended an attempt, in words.
    pub failure: Option<String>,
    /// Why the run ended.
    pub reason: Option<String>,
    /// What the scheduler says of the last job.
    pub job_reason: Option<String>,
}

impl RunRow {
    /// The line of a run.
    pub fn of(view: &RunView) -> Self {
        let last = view.attempts.last();
        let mut latest = view.attempts.iter().rev();
        let failed = latest.find(|a| a.incident.as_ref().is_some_and(|i| i.fatal));
        Self {
            run: view.run.clone(),
            created: view.created,
            state: view.state.clone(),
            exit_code: view.exit_code,
            elapsed_s: view.elapsed_s,
            attempts: view.attempts.len(),
            job: last.and_then(|a| a.job.clone()),
            gpu_seconds: view.gpu_seconds,
            failure: failed.and_then(|a| a.headline.clone()),
            reason: view.reason.clone(),
            job_reason: last.and_then(|a| a.reason.clone()),
        }
    }

    /// Is it over, and well?
    pub fn good(&self) -> Option<bool> {
        self.exit_code.map(|exit| exit == Exit::Success)
    }

    fn last(&self) -> String {
        let job = self.job.as_ref().map(|job| format!("job {job}"));
        let why = self.reason.clone().or_else(|| self.job_reason.clone());
        // Of a job that ended, and nobody has decided what follows.
        let cause = self.failure.clone().filter(|_| self.state == "ended");
        let told: Vec<String> = [job, cause, why].into_iter().flatten().collect();
        told.join(": ")
    }
}

/// One line a run, as `status` has it.
pub fn list(rows: &[RunRow]) -> String {
    if rows.is_empty() {
        return "no runs here; `oomctl submit` starts one\n".to_owned();
    }
    let mut table = Table::new([
        (Side::Left, 3),
        (Side::Left, 11),
        (Side::Right, 8),
        (Side::Right, 9),
        (Side::Left, 0),
    ]);
    table.row(["RUN", "STATE", "ATTEMPTS", "ELAPSED", "LAST"]);
    for row in rows {
        table.row([
            row.run.clone(),
            row.state.clone(),
            row.attempts.to_string(),
            duration(row.elapsed_s),
            row.last(),
        ]);
    }
    table.text("")
}
