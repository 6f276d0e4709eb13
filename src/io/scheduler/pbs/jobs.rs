//! Jobs in the JSON of `qstat -x -f -F json`.

use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use oomctl_base::job::{ExitStatus, HostUse, JobId, JobState, JobStatus};
use oomctl_base::units::{Bytes, parse_duration_s};
use serde_json::{Map, Value};

use super::super::tokens::TokenJob;

/// The substate of a job that somebody deleted (`JOB_SUBSTATE_TERMINATED` in `src/include/job.h`).
const TERMINATED: i64 = 91;
/// The substate of a job that waits for another (`JOB_SUBSTATE_DEPNHOLD`).
const DEPENDS: i64 = 22;
/// Added to the signal that a job died of (`src/resmom/linux/mom_start.c`).
const SIGNAL: i64 = 0x100;

/// An id as `qsub` prints it: `12.server`. A `[` would be an array.
pub(super) fn read_id(text: &str) -> Option<JobId> {
    let text = text.trim();
    let (number, server) = text.split_once('.')?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let named = !server.is_empty() && !server.contains(char::is_whitespace);
    (digits && named).then(|| JobId(text.to_owned()))
}

/// The ids that an answer calls unknown, and what else it says on standard error. The exit code of an answer that says
/// nothing of any job may be 0.
pub(super) fn unknown_ids(stderr: &str) -> (Vec<JobId>, Option<String>) {
    let (mut unknown, mut other) = (Vec::new(), None);
    for line in stderr.lines().map(str::trim).filter(|l| !l.is_empty()) {
        match line.split_once("Unknown Job Id ") {
            Some((_, id)) => unknown.extend(read_id(id)),
            None => other = Some(line.to_owned()),
        }
    }
    (unknown, other)
}

/// The jobs of an answer.
///
/// # Errors
/// What is wrong with its shape.
pub(super) fn read_jobs(stdout: &str) -> Result<Vec<TokenJob>, String> {
    let shape = |what: &str| format!("its answer has another shape: {what}");
    let answer: Value = serde_json::from_str(stdout.trim()).map_err(|e| shape(&e.to_string()))?;
    let none = Map::new();
    let jobs = match answer.get("Jobs") {
        Some(Value::Object(jobs)) => jobs,
        Some(_) => return Err(shape("no table `Jobs`")),
        None if answer.get("pbs_server").is_some() => &none,
        None => return Err(shape("no `pbs_server`")),
    };
    let read = jobs.iter().map(|(id, job)| {
        let read = read_job(id, job);
        read.ok_or_else(|| shape("a job lacks its state or its name"))
    });
    read.collect()
}

fn read_job(id: &str, job: &Value) -> Option<TokenJob> {
    let text = |field: &str| job[field].as_str().filter(|text| !text.is_empty());
    let (exit, substate) = (job["Exit_status"].as_i64(), job["substate"].as_i64());
    let comment = text("comment").unwrap_or_default();
    let state = state(text("job_state")?, substate, exit, comment);
    let mut status = JobStatus::bare(JobId(id.to_owned()), state);
    let ended = text("job_state") == Some("F");
    status.exit = exit.filter(|_| ended).and_then(exit_status);
    status.nodes = nodes(text("exec_host").unwrap_or_default());
    status.restarts = job["run_count"].as_i64().map_or(0, restarts);
    status.started = text("stime").and_then(time);
    status.ended = text("obittime").and_then(time).filter(|_| ended);
    status.reason = match status.state {
        JobState::Pending if substate == Some(DEPENDS) => Some("Dependency".to_owned()),
        JobState::Pending if comment.is_empty() && text("Hold_Types") == Some("u") => {
            Some("JobHeldUser".to_owned())
        }
        JobState::Completed | JobState::Running | JobState::Completing => None,
        _ => Some(comment).filter(|c| !c.is_empty()).map(str::to_owned),
    };
    Some(TokenJob {
        name: text("Job_Name")?.to_owned(),
        submitted: text("ctime").and_then(time),
        refusal: None,
        used: used(job),
        status,
    })
}

/// Our word for where a job stands.
fn state(word: &str, substate: Option<i64>, exit: Option<i64>, comment: &str) -> JobState {
    match word {
        "Q" | "H" | "W" | "T" => JobState::Pending,
        "R" => JobState::Running,
        "S" | "U" => JobState::Suspended,
        "E" => JobState::Completing,
        // Somebody may have deleted it while PBS was killing it for a limit: the limit is why it ended.
        "F" => match exit.map(ending) {
            Some(limit @ (JobState::Timeout | JobState::OutOfMemory)) => limit,
            _ if substate == Some(TERMINATED) => JobState::Cancelled,
            Some(ending) => ending,
            // It ended without having run, and was not deleted.
            None => JobState::Unknown(format!("F {comment}").chars().take(64).collect()),
        },
        _ => JobState::Unknown(word.chars().take(64).collect()),
    }
}

/// What an exit status means of which the negative ones are PBS's own (`JOB_EXEC_*` in `src/include/job.h`).
fn ending(exit: i64) -> JobState {
    match exit {
        0 => JobState::Completed,
        1.. => JobState::Failed,
        // KILL_WALLTIME.
        -29 => JobState::Timeout,
        // KILL_MEM, KILL_VMEM.
        -27 | -26 => JobState::OutOfMemory,
        // INITABT, INITRST, INITRMG: the node began anew; RERUN_MS_FAIL: its first node was lost.
        -6..=-4 | -20 => JobState::NodeFail,
        // FAIL1, FAIL2, RETRY, JOINJOB: it was never started, for a reason of the node's.
        -3..=-1 | -30 => JobState::BootFail,
        _ => JobState::Failed,
    }
}

/// An exit as the shell would tell it; none of those that are PBS's own.
fn exit_status(exit: i64) -> Option<ExitStatus> {
    let small = i32::try_from(exit).ok().filter(|exit| *exit >= 0)?;
    let signal = small - i32::try_from(SIGNAL).ok()?;
    Some(match signal {
        ..=0 => ExitStatus::of(small, 0),
        signal => ExitStatus::of(0, signal),
    })
}

fn restarts(run_count: i64) -> u32 {
    u32::try_from(run_count.saturating_sub(1)).unwrap_or(0)
}

/// Nodes in `node1/0*8+node2/1*8`.
fn nodes(exec_host: &str) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for part in exec_host.split('+').filter(|part| !part.is_empty()) {
        let node = part.split('/').next().unwrap_or(part);
        if nodes.last().is_none_or(|last| last != node) {
            nodes.push(node.to_owned());
        }
    }
    nodes
}

/// A time in the form of ctime(3). It is asked for in UTC.
fn time(text: &str) -> Option<Timestamp> {
    let read = BrokenDownTime::parse("%a %b %d %H:%M:%S %Y", text).ok()?;
    let read = read.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(read.timestamp())
}

fn used(job: &Value) -> HostUse {
    let text = |table: &str, field: &str| job[table][field].as_str().map(str::to_owned);
    // A node that watches no memory says 0.
    let memory = |table: &str| {
        text(table, "mem")
            .and_then(|m| amount(&m))
            .filter(|m| m.0 > 0)
    };
    let seconds =
        |field: &str| text("resources_used", field).and_then(|t| parse_duration_s(&t).ok());
    let cpus = job["Resource_List"]["ncpus"].as_u64();
    HostUse {
        memory_peak: memory("resources_used"),
        memory_given: memory("Resource_List"),
        cpu_s: seconds("cput").filter(|s| *s > 0),
        cpu_given_s: seconds("walltime")
            .zip(cpus)
            .map(|(s, n)| s.saturating_mul(n)),
    }
}

/// An amount in PBS's units, of which `kb` is 1,024 bytes (pbs_resources(7B)).
fn amount(text: &str) -> Option<Bytes> {
    let plain = text.strip_suffix('b').unwrap_or(text);
    Bytes::parse(if plain.bytes().all(|b| b.is_ascii_digit()) {
        text
    } else {
        plain
    })
    .ok()
}
