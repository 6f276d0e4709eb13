//! Jobs in slurmrestd's JSON. Their fields become those that squeue and sacct print, which one code reads.
//!
//! v0.0.38 writes plain numbers and words. Since v0.0.40 a number may be `{set, infinite, number}`, states are lists of words, and an exit
//! is `{status, return_code, signal}`. A record without an id or a state is of another shape: then nothing is known.

use serde_json::Value;

use super::super::parse::{Control, JobRecord, sacct_records, squeue_record};
use super::super::states::{MAX_ANSWER_NODES, parse_word};

/// A number in either form; none where it is unset.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Object(fields) => {
            let set = fields.get("set").and_then(Value::as_bool)?;
            let number = fields.get("number").and_then(Value::as_i64);
            number.filter(|_| set)
        }
        plain => plain.as_i64(),
    }
}

fn digits(value: &Value) -> String {
    number(value).map_or_else(String::new, |n| n.to_string())
}

/// A word, or the words of a list, with commas between them.
fn words(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            words.join(",")
        }
        word => word.as_str().unwrap_or_default().to_owned(),
    }
}

/// An exit: code and signal.
fn exit(value: &Value) -> Option<(i64, i64)> {
    match value.get("return_code") {
        Some(code) => {
            let signal = number(&value["signal"]["id"]).unwrap_or(0);
            Some((number(code)?, signal))
        }
        None => number(value).map(|wait| (wait >> 8, wait & 0x7f)),
    }
}

/// An exit as wait(2) gives it, which is how squeue prints one.
fn wait(value: &Value) -> String {
    exit(value).map_or_else(String::new, |(code, signal)| {
        (code << 8 | signal).to_string()
    })
}

fn jobs(body: &Value) -> Result<&Vec<Value>, String> {
    let jobs = body["jobs"].as_array();
    jobs.ok_or_else(|| "its answer has another shape: no list `jobs`".to_owned())
}

/// The id as squeue writes it: `17`, `17_3`, `17_[3-9%2]`, `28+0`.
fn shown_id(id: i64, array: (&Value, &Value, &Value), het: (&Value, &Value)) -> String {
    let above_zero = |value| number(value).filter(|n| *n > 0);
    let (job, task, tasks) = array;
    if let Some(job) = above_zero(job) {
        let tasks = tasks.as_str().unwrap_or_default();
        return match number(task) {
            Some(task) => format!("{job}_{task}"),
            None if !tasks.is_empty() => format!("{job}_[{tasks}]"),
            None => id.to_string(),
        };
    }
    match (above_zero(het.0), number(het.1)) {
        (Some(job), Some(offset)) => format!("{job}+{offset}"),
        _ => id.to_string(),
    }
}

/// Id and state, without which a record is none.
fn identity<'a>(job: &'a Value, state: &'a Value, at: usize) -> Result<(i64, String), String> {
    let id = number(&job["job_id"]).filter(|id| *id > 0);
    let state = words(state);
    match id {
        Some(id) if !state.is_empty() => Ok((id, state)),
        _ => Err(format!(
            "its answer has another shape: job {at} lacks an id or a state"
        )),
    }
}

/// The jobs of the controller.
pub(super) fn queue(body: &Value) -> Result<Vec<JobRecord>, String> {
    let mut room = MAX_ANSWER_NODES;
    let mut records = Vec::new();
    for (at, job) in jobs(body)?.iter().enumerate() {
        records.push(queued(job, at, &mut room)?);
    }
    Ok(records)
}

fn queued(job: &Value, at: usize, room: &mut usize) -> Result<JobRecord, String> {
    let (id, state) = identity(job, &job["job_state"], at)?;
    let array = (
        &job["array_job_id"],
        &job["array_task_id"],
        &job["array_task_string"],
    );
    let fields = [
        shown_id(id, array, (&job["het_job_id"], &job["het_job_offset"])),
        id.to_string(),
        state,
        wait(&job["exit_code"]),
        wait(&job["derived_exit_code"]),
        digits(&job["restart_cnt"]),
        digits(&job["submit_time"]),
        digits(&job["start_time"]),
        digits(&job["end_time"]),
        words(&job["nodes"]),
        words(&job["state_reason"]),
        words(&job["comment"]),
        words(&job["name"]),
    ];
    let record = squeue_record(fields.each_ref().map(String::as_str), room);
    record.ok_or_else(|| format!("its answer has another shape: job {at} has no job's id"))
}

/// The jobs of the controller, each with what `scontrol show job` tells beside.
///
/// # Errors
/// What about the answer is of another shape.
pub fn controls(body: &Value) -> Result<Vec<Control>, String> {
    let records = queue(body)?;
    let control = |(record, job): (JobRecord, &Value)| {
        let text = |field: &str| parse_word(&words(&job[field]));
        let above_zero = |field: &str| number(&job[field]).filter(|n| *n > 0);
        let array = above_zero("array_job_id");
        let task = array.and_then(|_| number(&job["array_task_id"]));
        Control {
            record,
            stdout: text("standard_output"),
            stderr: text("standard_error"),
            folder: text("current_working_directory"),
            user: text("user_name"),
            batch_host: text("batch_host"),
            array_job: array.map(|n| n.to_string()),
            array_task: task.map(|n| n.to_string()),
        }
    };
    Ok(records.into_iter().zip(jobs(body)?).map(control).collect())
}

/// The jobs of the accounting, each below it with its steps. `version` is the last number of the API's: 38 for v0.0.38.
///
/// # Errors
/// What about the answer is of another shape.
pub fn accounts(body: &Value, version: u32) -> Result<Vec<JobRecord>, String> {
    let mut rows = Vec::new();
    for (at, job) in jobs(body)?.iter().enumerate() {
        let (id, state) = identity(job, &job["state"]["current"], at)?;
        let (array, het, time) = (&job["array"], &job["het"], &job["time"]);
        let by = words(&job["kill_request_user"]);
        let state = match state.as_str() {
            "CANCELLED" if !by.is_empty() => format!("CANCELLED by {by}"),
            _ => state,
        };
        let array = (&array["job_id"], &array["task_id"], &array["task"]);
        let row = [
            id.to_string(),
            shown_id(id, array, (&het["job_id"], &het["job_offset"])),
            state,
            code_and_signal(&job["exit_code"], version),
            code_and_signal(&job["derived_exit_code"], version),
            digits(&time["submission"]),
            digits(&time["start"]),
            digits(&time["end"]),
            words(&job["nodes"]),
            words(&job["state"]["reason"]),
            given(&job["tres"]["allocated"]),
            String::new(),
            words(&job["comment"]["job"]),
            words(&job["name"]),
        ];
        rows.push(row);
        let steps = job["steps"].as_array();
        rows.extend(steps.into_iter().flatten().map(|step| step_row(id, step)));
    }
    let rows = rows.iter().map(|row| row.each_ref().map(String::as_str));
    Ok(sacct_records(rows))
}

fn step_row(job: i64, step: &Value) -> [String; 14] {
    let mut row: [String; 14] = Default::default();
    row[0] = format!("{job}.{}", words(&step["step"]["name"]));
    row[2] = words(&step["state"]);
    row[11] = used(&step["tres"]["requested"]["total"]);
    row
}

/// As sacct prints it. The accounting of v0.0.38 answers 0 for every job (22.05.8), so there it is unknown.
fn code_and_signal(value: &Value, version: u32) -> String {
    let exit = exit(value).filter(|_| version > 38);
    exit.map_or_else(String::new, |(code, signal)| format!("{code}:{signal}"))
}

/// What a job was given, as sacct prints it; slurmrestd counts memory in MiB.
fn given(list: &Value) -> String {
    resources(list, |kind, count| match kind {
        "mem" => format!("{count}M"),
        _ => count.to_string(),
    })
}

/// What a step used, as sacct prints it; slurmrestd counts memory in bytes and CPU time in milliseconds.
fn used(list: &Value) -> String {
    resources(list, |kind, count| match kind {
        "mem" => format!("{}K", count >> 10),
        "cpu" => format!("{}:{:02}", count / 60_000, count / 1_000 % 60),
        _ => count.to_string(),
    })
}

fn resources(list: &Value, written: impl Fn(&str, i64) -> String) -> String {
    let one = |tres: &Value| {
        let (kind, name) = (words(&tres["type"]), words(&tres["name"]));
        let count = written(&kind, number(&tres["count"])?);
        let slash = if name.is_empty() { "" } else { "/" };
        Some(format!("{kind}{slash}{name}={count}"))
    };
    let list = list.as_array().into_iter().flatten().filter_map(one);
    list.collect::<Vec<_>>().join(",")
}
