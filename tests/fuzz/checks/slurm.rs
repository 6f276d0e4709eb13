//! What Slurm's commands print and slurmrestd answers, or something that stands between them and us: no answer becomes more
//! than it says.

use oomctl::io::scheduler::SubmitAnswer;
use oomctl::io::scheduler::command::{CommandEnd, CommandOutput};
use oomctl::io::scheduler::slurm::parse::{
    JobRecord, read_sacct, read_scontrol, read_squeue, read_submission,
};
use oomctl::io::scheduler::slurm::states::{
    MAX_NODES, expand_nodes, parse_canceller, parse_exit, parse_state, parse_time, parse_word,
};
use oomctl::io::scheduler::slurm::{log_paths, refusal, rest_reading};
use oomctl_base::job::JobState;
use serde_json::{Value, json};

use super::allocations::within;

/// Bytes that one answer may become, beside a multiple of its own length: a list of nodes grows when
/// it is written out.
const MOST_MEMORY: usize = 16 << 20;
/// Bytes for each byte of the answer: a line of a few bytes becomes a record.
const MOST_TIMES: usize = 64;
/// Characters of a refusal's reason.
const MOST_REASON: usize = 1_000;

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let most = MOST_MEMORY + MOST_TIMES * text.len();
    within(most, || {
        queue(&text);
        accounts(&text);
        control(&text);
    });
    within(most, || {
        words(&text);
        submission(&text);
    });
    let body = json_answer(&text);
    within(most, || rest(&body));
}

/// An answer of slurmrestd with a job for each line, whose fields are the line's.
fn json_answer(text: &str) -> Value {
    let job = |line: &str| {
        let mut words = line.split('|').map(|word| {
            serde_json::from_str(word).unwrap_or_else(|_| Value::String(word.to_owned()))
        });
        let mut next = || words.next().unwrap_or(Value::Null);
        let (id, state, exit, time, nodes) = (next(), next(), next(), next(), next());
        let (array, task, tasks, het, tres) = (next(), next(), next(), next(), next());
        json!({
            "job_id": id, "job_state": state, "exit_code": exit, "derived_exit_code": exit,
            "submit_time": time, "restart_cnt": time, "nodes": nodes, "name": tasks,
            "array_job_id": array, "array_task_id": task, "array_task_string": tasks,
            "het_job_id": het, "het_job_offset": task, "standard_output": tasks,
            "state": { "current": state, "reason": tasks }, "kill_request_user": tasks,
            "array": { "job_id": array, "task_id": task, "task": tasks },
            "time": { "submission": time, "start": time, "end": time },
            "tres": { "allocated": [{ "type": "mem", "count": tres }] },
            "steps": [{ "step": { "name": tasks }, "state": state,
                "tres": { "requested": { "total": [{ "type": "cpu", "count": tres }] } } }],
        })
    };
    json!({ "jobs": text.lines().take(200).map(job).collect::<Vec<_>>() })
}

fn rest(body: &Value) {
    let jobs = body["jobs"].as_array().map_or(0, Vec::len);
    let completed = body.to_string().contains("COMPLETED");
    let judge = |record: &JobRecord| {
        let status = &record.status;
        assert!(status.nodes.len() <= MAX_NODES, "{}", status.nodes.len());
        assert!(completed || status.state != JobState::Completed);
        assert!(!record.raw_id.is_empty());
    };
    if let Ok(controls) = rest_reading::controls(body) {
        assert_eq!(controls.len(), jobs);
        for control in &controls {
            judge(&control.record);
            let _ = log_paths::log_paths(control);
        }
    }
    for version in [38, 45] {
        if let Ok(records) = rest_reading::accounts(body, version) {
            assert!(records.len() <= jobs);
            records.iter().for_each(judge);
        }
    }
}

fn queue(text: &str) {
    let records = read_squeue(text);
    assert!(records.len() <= text.lines().count());
    records.iter().for_each(|record| said(record, text));
}

fn accounts(text: &str) {
    let records = read_sacct(text);
    assert!(records.len() <= text.lines().count());
    records.iter().for_each(|record| said(record, text));
}

/// A state stands in the text, or it is none that decides anything.
fn said(record: &JobRecord, text: &str) {
    let status = &record.status;
    assert!(status.nodes.len() <= MAX_NODES, "{}", status.nodes.len());
    if let JobState::Unknown(word) = &status.state {
        assert!(word.chars().count() <= 64, "{word}");
    } else if status.state == JobState::Completed {
        assert!(text.contains("COMPLETED"), "{status:?}");
    }
    assert!(text.contains(&record.raw_id), "{record:?}");
}

fn control(text: &str) {
    let Some(control) = read_scontrol(text) else {
        return;
    };
    said(&control.record, text);
    let _ = log_paths::log_paths(&control);
    for line in text.lines().take(50) {
        let _ = log_paths::fill(line, &control);
    }
}

fn words(text: &str) {
    for line in text.lines() {
        let _ = (parse_state(line), parse_canceller(line), parse_exit(line));
        let _ = (parse_time(line), parse_word(line));
        assert!(expand_nodes(line).len() <= MAX_NODES);
    }
}

/// Accepted is only what ended well and printed one id; a refusal keeps a bounded reason.
fn submission(text: &str) {
    if let Some((id, _)) = read_submission(text) {
        assert!(id.0.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
        assert!(text.contains(&id.0), "{id}");
    }
    let (out, err) = text.split_once("\n--\n").unwrap_or((text, text));
    let ends = [
        CommandEnd::Exited(0),
        CommandEnd::Exited(1),
        CommandEnd::Exited(255),
        CommandEnd::Killed(9),
        CommandEnd::TimedOut,
    ];
    for end in ends {
        let answer = CommandOutput {
            end,
            stdout: out.to_owned(),
            stderr: err.to_owned(),
            cut: false,
        };
        match refusal::read_answer(&answer) {
            SubmitAnswer::Accepted { id, .. } => {
                assert_eq!(answer.end, CommandEnd::Exited(0));
                assert_eq!(read_submission(out).map(|(id, _)| id), Some(id));
            }
            SubmitAnswer::Refused { reason, .. } => {
                assert!(
                    matches!(answer.end, CommandEnd::Exited(1 | 255)),
                    "{reason}"
                );
                assert!(reason.chars().count() <= MOST_REASON);
            }
            SubmitAnswer::Unclear { .. } => {}
            never @ (SubmitAnswer::NotYet { .. } | SubmitAnswer::Withdrawn { .. }) => {
                panic!("Slurm never answers so: {never:?}")
            }
        }
    }
}
