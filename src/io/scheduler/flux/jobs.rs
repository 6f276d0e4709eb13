//! Jobs in the JSON of `flux jobs --json`.

use jiff::Timestamp;
use oomctl_base::job::{HostUse, JobId, JobState, JobStatus};
use serde_json::Value;

use super::super::slurm::states::{expand_nodes, wait_exit};
use super::super::tokens::TokenJob;

/// How the note begins of a job that lost a node (`src/modules/job-exec/job-exec.c`).
const NODE_FAILURE: &str = "node failure on ";

/// Exceptions that end a job before it starts, however often it is submitted: nothing of the instance can satisfy it, or a plugin
/// does not let it through (`src/modules/job-manager/alloc.c`, `jobtap.c`, `plugins`).
const REFUSALS: [&str; 3] = ["alloc", "dependency", "validate"];

/// An id as it is printed where a terminal has only ASCII: `f2bVq4RLZ` for `ƒ2bVq4RLZ`. Flux reads both (RFC 19).
pub(super) fn read_id(text: &str) -> Option<JobId> {
    let digits = text.trim().strip_prefix(['ƒ', 'f'])?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| JobId(format!("f{digits}")))
}

/// The ids that an answer calls unknown: `JobID f2bVq4RLZ unknown`.
pub(super) fn unknown_ids(stderr: &str) -> Vec<JobId> {
    let lines = stderr.lines().filter_map(|line| {
        let (_, rest) = line.split_once("JobID ")?;
        read_id(rest.strip_suffix(" unknown")?)
    });
    lines.collect()
}

/// The jobs of an answer: a list, or where one id was asked for one job.
///
/// # Errors
/// What is wrong with its shape.
pub(super) fn read_jobs(stdout: &str) -> Result<Vec<TokenJob>, String> {
    let shape = |what: &str| format!("its answer has another shape: {what}");
    let answer: Value = serde_json::from_str(stdout.trim()).map_err(|e| shape(&e.to_string()))?;
    let jobs = match answer.get("jobs") {
        Some(Value::Array(jobs)) => jobs.iter().collect(),
        Some(_) => return Err(shape("no list `jobs`")),
        None => vec![&answer],
    };
    let read = jobs.into_iter().map(|job| {
        let read = read_job(job);
        read.ok_or_else(|| shape("a job lacks its id, its state or its name"))
    });
    read.collect()
}

fn read_job(job: &Value) -> Option<TokenJob> {
    let text = |field: &str| job[field].as_str().filter(|text| !text.is_empty());
    let word = match text("state")? {
        "INACTIVE" => text("result")?,
        state => state,
    };
    let exception = Some(&job["exception"]).filter(|e| e["occurred"] == true);
    let kind = exception.and_then(|e| e["type"].as_str());
    let note = exception.and_then(|e| e["note"].as_str()).unwrap_or("");
    let mut status = JobStatus::bare(read_id(text("jobid")?)?, state(word, note));
    let waiting = status.state == JobState::Pending;
    status.exit = job["waitstatus"].as_i64().and_then(wait_exit);
    status.nodes = expand_nodes(text("nodelist").unwrap_or_default());
    status.started = time(&job["t_run"]);
    status.ended = time(&job["t_inactive"]);
    status.expected_start = time(&job["annotations"]["sched"]["t_estimate"]).filter(|_| waiting);
    status.reason = match (kind, word) {
        (Some(_), "FAILED") => Some(note.to_owned()),
        (_, "DEPEND") => Some("Dependency".to_owned()),
        (_, "SCHED") if job["urgency"] == 0 => Some("JobHeldUser".to_owned()),
        _ => job["annotations"]["sched"]["reason_pending"]
            .as_str()
            .filter(|_| waiting)
            .map(str::to_owned),
    };
    let never = word == "FAILED" && kind.is_some_and(|kind| REFUSALS.contains(&kind));
    Some(TokenJob {
        refusal: (never && status.started.is_none()).then(|| note.to_owned()),
        name: text("name")?.to_owned(),
        submitted: time(&job["t_submit"]),
        used: HostUse::default(),
        status,
    })
}

/// Our word for where a job stands. Flux has none for a lost node: the job fails, and a note says so.
fn state(word: &str, note: &str) -> JobState {
    match word {
        "DEPEND" | "PRIORITY" | "SCHED" => JobState::Pending,
        "RUN" => JobState::Running,
        "CLEANUP" => JobState::Completing,
        "COMPLETED" => JobState::Completed,
        "FAILED" if note.starts_with(NODE_FAILURE) => JobState::NodeFail,
        "FAILED" => JobState::Failed,
        "CANCELED" => JobState::Cancelled,
        "TIMEOUT" => JobState::Timeout,
        _ => JobState::Unknown(word.chars().take(64).collect()),
    }
}

/// Seconds since 1970.
fn time(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_f64().filter(|seconds| *seconds > 0.0)?;
    Timestamp::from_millisecond((seconds * 1_000.0) as i64).ok()
}
