//! A slurmrestd of a few lines, whose answers are in the real format: those of v0.0.38 as 22.05.8 gave them, those of v0.0.44 as 26.05.3 did, both
//! shortened to the fields that are read.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread::{JoinHandle, spawn};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::super::Slurm;
use super::description::request;
use super::*;
use crate::io::scheduler::Scheduler;
use oomctl_base::job::{JobState, JobStatus};

const OLD: &str = r#"{"paths":{"/slurm/v0.0.37/ping/":{},"/slurm/v0.0.38/jobs/":{},"/slurmdb/v0.0.38/jobs/":{},"/slurm/v0.0.99/jobs/":{}}}"#;

/// Answers one connection after the other, and gives what it was asked.
fn serving(answers: Vec<String>) -> (RestPlace, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = RestAddress::Port(format!("http://{}", listener.local_addr().unwrap()));
    let mut token = NamedTempFile::new().unwrap();
    token.write_all(b"SLURM_JWT=a.b.c\n").unwrap();
    let token_file = Some(token.path().to_owned());
    let asked = spawn(move || {
        // There for as long as it answers.
        let _token = token;
        answers
            .iter()
            .map(|answer| exchange(&listener, answer))
            .collect()
    });
    let place = RestPlace {
        address,
        token_file,
    };
    (place, asked)
}

fn exchange(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut asked = Vec::new();
    while !whole(&asked) {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap();
        asked.extend_from_slice(&part[..read]);
    }
    stream.write_all(answer.as_bytes()).unwrap();
    String::from_utf8(asked).unwrap()
}

/// The head, and as many bytes as it says that follow.
fn whole(asked: &[u8]) -> bool {
    let text = String::from_utf8_lossy(asked).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.and_then(|l| l.trim().parse().ok()).unwrap_or(0)
}

fn ok(body: &str) -> String {
    answer("200 OK", body)
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn job(id: &str) -> JobRef {
    JobRef {
        id: JobId(id.to_owned()),
        cluster: None,
        token: None,
        submitted: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// What a poll of one job says after these answers.
fn poll(answers: Vec<String>) -> Result<Vec<JobStatus>, String> {
    let (place, asked) = serving(answers);
    let mut slurm = Slurm::with_path("/nonexistent").through(Some(place));
    let poll = slurm.poll(&[job("4")], jiff::Timestamp::now());
    asked.join().unwrap();
    poll.map(|poll| poll.jobs)
        .map_err(|error| error.to_string())
}

#[test]
fn a_version_of_the_api_that_is_unknown_is_named_beside_those_that_are_known() {
    let error = poll(vec![ok(
        r#"{"paths":{"/slurm/v0.0.35/jobs/":{},"/slurm/v0.0.99/jobs/":{}}}"#,
    )]);
    let error = error.unwrap_err();
    assert!(
        error.contains("it offers v0.0.35, v0.0.99; oomctl knows v0.0.38"),
        "{error}"
    );
    let error = poll(vec![ok(r#"{"paths":{}}"#)]).unwrap_err();
    assert!(error.contains("no version"), "{error}");
}

#[test]
fn the_newest_version_that_both_know_is_asked_and_the_token_is_sent() {
    let body = r#"{"errors":[],"jobs":[{"job_id":4,"job_state":"RUNNING","nodes":"n[1-2]","start_time":1795811317}]}"#;
    let (place, asked) = serving(vec![ok(OLD), ok(body)]);
    let jobs = RestClient::at(place)
        .queue(&[&job("4")], Deadlines::default())
        .unwrap();
    assert_eq!(jobs[0].status.state, JobState::Running);
    assert_eq!(jobs[0].status.nodes, ["n1", "n2"]);
    let asked = asked.join().unwrap();
    assert!(
        asked[1].starts_with("GET /slurm/v0.0.38/job/4 HTTP/1.1\r\n"),
        "{asked:?}"
    );
    assert!(
        asked[1]
            .to_lowercase()
            .contains("x-slurm-user-token: a.b.c\r\n"),
        "{asked:?}"
    );
}

#[test]
fn a_slurmrestd_without_paths_for_the_accounting_has_none() {
    let (place, asked) = serving(vec![ok(r#"{"paths":{"/slurm/v0.0.45/jobs/":{}}}"#)]);
    let accounts = RestClient::at(place).accounts(&[&job("4")], Deadlines::default());
    assert!(matches!(accounts, Accounts::Off));
    assert_eq!(asked.join().unwrap().len(), 1);
}

#[test]
fn an_answer_that_is_cut_or_of_another_shape_is_no_verdict() {
    let whole = r#"{"errors":[],"jobs":[{"job_id":4,"job_state":"FAILED","exit_code":256}]}"#;
    let jobs = poll(vec![ok(OLD), ok(whole)]).unwrap();
    assert_eq!(jobs[0].state, JobState::Failed);
    assert_eq!(jobs[0].exit.unwrap().code, 1);
    // Less than announced, and less JSON than there must be.
    for at in [0, 20, whole.len() - 1] {
        let cut = ok(whole).replace(whole, &whole[..at]);
        let error = poll(vec![ok(OLD), cut]).unwrap_err();
        assert!(error.contains("a cut answer"), "{error}");
        let error = poll(vec![ok(OLD), ok(&whole[..at])]).unwrap_err();
        assert!(error.contains("without whole JSON"), "{error}");
    }
    for other in [
        "[]",
        r#"{"jobs":{}}"#,
        r#"{"jobs":[{"job_id":4}]}"#,
        r#"{"jobs":[{"job_state":"FAILED"}]}"#,
        r#"{"jobs":[{"job_id":"four","job_state":["FAILED"]}]}"#,
    ] {
        let error = poll(vec![ok(OLD), ok(other)]).unwrap_err();
        assert!(error.contains("another shape"), "{other}: {error}");
    }
}

#[test]
fn a_complaint_beside_an_empty_list_is_no_verdict() {
    let complaint =
        r#"{"errors":[{"error_number":1007,"error":"Protocol authentication error"}],"jobs":[]}"#;
    for status in ["200 OK", "500 INTERNAL ERROR"] {
        let error = poll(vec![ok(OLD), answer(status, complaint)]).unwrap_err();
        assert!(error.contains("Protocol authentication error"), "{error}");
    }
    let error = poll(vec![answer("401 UNAUTHORIZED", "Authentication failure")]).unwrap_err();
    assert!(
        error.contains("was refused (HTTP 401): `scontrol token`"),
        "{error}"
    );
    assert!(!error.contains("a.b.c"), "the token stays secret: {error}");
}

#[test]
fn a_job_that_is_gone_is_cancelled_and_one_that_may_not_be_is_not() {
    let lives = ok(r#"{"errors":[],"jobs":[{"job_id":4,"job_state":["RUNNING"]}]}"#);
    let cancel = |said: &str| {
        let (place, asked) = serving(vec![ok(OLD), lives.clone(), ok(said)]);
        let cancelled = RestClient::at(place).cancel(&job("4"), Deadlines::default());
        let asked = asked.join().unwrap();
        assert!(
            asked[2].starts_with("DELETE /slurm/v0.0.38/job/4 "),
            "{asked:?}"
        );
        cancelled.map_err(|error| error.to_string())
    };
    assert_eq!(cancel(r#"{"errors":[]}"#), Ok(()));
    let status = |code: i64, words: &str| {
        format!(r#"{{"status":[{{"error":{{"code":{code},"string":"{words}"}}}}],"errors":[]}}"#)
    };
    assert_eq!(cancel(&status(0, "No error")), Ok(()));
    assert_eq!(
        cancel(&status(2021, "Job/step already completing or completed")),
        Ok(())
    );
    let denied = cancel(&status(2002, "Access/permission denied")).unwrap_err();
    assert!(denied.contains("Access/permission denied"), "{denied}");
}

fn status(version: u32, job: Value) -> JobStatus {
    let body = json!({ "jobs": [job] });
    let records = match job_is_of_the_accounting(&body) {
        true => reading::accounts(&body, version),
        false => reading::queue(&body),
    };
    records.unwrap().remove(0).status
}

fn job_is_of_the_accounting(body: &Value) -> bool {
    body["jobs"][0].get("state").is_some()
}

#[test]
fn both_shapes_say_the_same_of_a_job() {
    let old = status(
        38,
        json!({
            "job_id": 17, "array_job_id": 0, "array_task_id": null, "job_state": "FAILED", "exit_code": 768, "derived_exit_code": 125,
            "restart_cnt": 1, "submit_time": 1795811300, "start_time": 1795811317, "end_time": 1795811318, "nodes": "rnode1",
            "state_reason": "NonZeroExitCode", "name": "tok", "comment": "tok",
        }),
    );
    let set = |number: i64| json!({ "set": true, "infinite": false, "number": number });
    let unset = json!({ "set": false, "infinite": false, "number": 0 });
    let new = status(
        44,
        json!({
            "job_id": 17, "array_job_id": set(0), "array_task_id": unset, "job_state": ["FAILED"],
            "exit_code": { "status": ["ERROR"], "return_code": set(3), "signal": { "id": unset, "name": "" } },
            "derived_exit_code": { "status": ["SIGNALED"], "return_code": set(0), "signal": { "id": set(125), "name": "" } },
            "restart_cnt": 1, "submit_time": set(1795811300), "start_time": set(1795811317), "end_time": set(1795811318), "nodes": "rnode1",
            "state_reason": "NonZeroExitCode", "name": "tok", "comment": "tok",
        }),
    );
    assert_eq!(old, new);
    assert_eq!((old.exit.unwrap().code, old.restarts), (3, 1));
    assert!(old.step_out_of_memory);
    let completing = status(
        44,
        json!({ "job_id": 1, "job_state": ["RUNNING", "COMPLETING"] }),
    );
    assert_eq!(completing.state, JobState::Completing);
    let strange = status(44, json!({ "job_id": 1, "job_state": ["NEW_IN_27"] }));
    assert_eq!(strange.state, JobState::Unknown("NEW_IN_27".to_owned()));
    let waiting = status(
        38,
        json!({ "job_id": 20, "array_job_id": 20, "array_task_id": null, "array_task_string": "3-9%2", "job_state": "PENDING" }),
    );
    assert_eq!(waiting.id.0, "20_[3-9%2]");
}

#[test]
fn the_accounting_says_what_was_used_and_who_cancelled() {
    let tres =
        |kind: &str, count: u64| json!({ "type": kind, "name": "", "id": 1, "count": count });
    let steps = json!([{
        "state": "OUT_OF_MEMORY", "step": { "name": "batch" },
        "tres": { "requested": { "total": [tres("cpu", 61_500), tres("mem", 512 << 20)] } },
    }]);
    let account = |state: Value, code: i64| {
        json!({
            "job_id": 4, "name": "tok", "comment": { "job": "tok" }, "nodes": "n1", "kill_request_user": "me",
            "exit_code": { "status": "SUCCESS", "return_code": code }, "state": { "current": state, "reason": "None" },
            "time": { "submission": 1795811300, "start": 1795811317, "end": 1795811417 },
            "tres": { "allocated": [tres("cpu", 2), tres("mem", 1000)] }, "steps": steps,
        })
    };
    let old = status(38, account(json!("CANCELLED"), 0));
    assert_eq!((old.cancelled_by.as_deref(), old.exit), (Some("me"), None));
    let new = status(44, account(json!(["FAILED"]), 1));
    assert!(new.step_out_of_memory);
    assert_eq!(new.exit.unwrap().code, 1);
    let host = new.host.unwrap();
    assert_eq!((host.cpu_s, host.cpu_given_s), (Some(61), Some(200)));
    assert_eq!(host.memory_peak.unwrap().0, 512 << 20);
    assert_eq!(host.memory_given.unwrap().0, 1000 << 20);
}

fn submission(options: &str) -> JobSubmission {
    JobSubmission {
        script: PathBuf::from("/run/attempt-1/job.sbatch"),
        token: oomctl_base::job::Token("tok".to_owned()),
        workdir: PathBuf::from("/work"),
        stdout: PathBuf::from("/run/50%.out"),
        stderr: PathBuf::from("/run/slurm.err"),
        environment: [("A", "1"), ("SLURM_JWT", "secret")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        options: options.split_whitespace().map(str::to_owned).collect(),
        arguments: Vec::new(),
        export: None,
        time_limit_s: None,
        gpu: None,
        tasks: None,
    }
}

const SCRIPT: &str = "#!/bin/bash
#SBATCH --job-name=mine --partition=gpu
#SBATCH -N 2 --ntasks-per-node=1
#SBATCH --gres=gpu:h100:4 --mem=64G # a remark
#SBATCH -t 1-00:00:00 --signal=B:USR1@120 --exclusive
#SBATCH --requeue
#SBATCH --no-requeue

train
#SBATCH --nonsense=1
";

#[test]
fn options_become_fields_of_each_version() {
    let handed = submission("--partition=urgent --gpus-per-node=2");
    let old = request(&handed, SCRIPT, 38).unwrap();
    assert_eq!(old["script"], SCRIPT);
    assert_eq!(
        old["job"],
        json!({
            "partition": "urgent", "nodes": "2", "tasks_per_node": "1", "gres": "gpu:h100:4", "memory_per_node": "64G", "time_limit": "1-00:00:00",
            "signal": "B:USR1@120", "exclusive": "exclusive", "no_requeue": true, "gpus_per_node": "2",
            "name": "tok", "comment": "tok", "current_working_directory": "/work", "standard_output": "/run/50%%.out",
            "standard_error": "/run/slurm.err", "open_mode": "append", "environment": { "A": "1", "SLURM_SUBMIT_DIR": "/work" },
        })
    );
    let new = request(
        &JobSubmission {
            arguments: vec!["--lr".into()],
            ..handed
        },
        SCRIPT,
        44,
    )
    .unwrap();
    assert_eq!(
        new["job"],
        json!({
            "partition": "urgent", "nodes": "2", "tasks_per_node": 1, "tres_per_node": "gres/gpu:h100:4,gres/gpu:2",
            "memory_per_node": { "set": true, "number": 65_536 }, "time_limit": { "set": true, "number": 1_440 },
            "kill_warning_signal": "USR1", "kill_warning_flags": ["BATCH_JOB"], "kill_warning_delay": { "set": true, "number": 120 },
            "shared": ["none"], "requeue": false, "argv": ["script", "--lr"], "script": SCRIPT,
            "name": "tok", "comment": "tok", "current_working_directory": "/work", "standard_output": "/run/50%%.out",
            "standard_error": "/run/slurm.err", "open_mode": ["APPEND"], "environment": ["A=1", "SLURM_SUBMIT_DIR=/work"],
        })
    );
}

#[test]
fn what_has_no_field_is_refused_by_its_name() {
    let why = |script: &str, options: &str, version: u32| {
        request(&submission(options), script, version)
            .unwrap_err()
            .reason
    };
    for (script, options, version, words) in [
        (
            "#!/bin/sh\n\n#SBATCH --begin=now+1hour\n",
            "",
            44,
            "--begin=now+1hour in line 3 has no field",
        ),
        (
            "#!/bin/sh\n",
            "--clusters=other",
            38,
            "--clusters=other has no field",
        ),
        (
            "#!/bin/sh\n#SBATCH -a 1-3\n",
            "",
            44,
            "--array=1-3 in line 2",
        ),
        (
            "#!/bin/sh\n#SBATCH hetjob\n",
            "",
            44,
            "#SBATCH hetjob in line 2",
        ),
        (
            "#!/bin/sh\n",
            "--tres-per-task=gres/gpu=1",
            38,
            "--tres-per-task=gres/gpu=1: slurmrestd's v0.0.38",
        ),
        (
            "#!/bin/sh\n",
            "--ntasks=many",
            44,
            "--ntasks=many: \"many\" is no number",
        ),
        (
            "#!/bin/sh\n",
            "--mail-type=ARRAY_TASKS",
            44,
            "--mail-type=ARRAY_TASKS: ARRAY_TASKS",
        ),
        ("#!/bin/sh\n", "-p", 38, "--partition: it has no value"),
    ] {
        let why = why(script, options, version);
        assert!(why.starts_with(words), "{why}");
    }
    let arguments = JobSubmission {
        arguments: vec!["x".into()],
        ..submission("")
    };
    assert!(
        request(&arguments, "", 38)
            .unwrap_err()
            .reason
            .contains("arguments")
    );
    let export = JobSubmission {
        export: Some("NONE".into()),
        ..submission("")
    };
    assert!(
        request(&export, "", 44)
            .unwrap_err()
            .reason
            .contains("--export=NONE")
    );
}
