//! The Slurm backend against a real cluster (tests/slurm/cluster).
//!
//! Runs when a cluster is up, or is asked for by `OOMCTL_TEST_SLURM=1` or `CI=true`: then it is
//! started, and a machine that cannot have one fails. Otherwise each test says that it was skipped.

#![allow(
    clippy::disallowed_methods,
    reason = "tests touch files, processes and the clock"
)]

#[path = "slurm/script.rs"]
mod script;

use script::script as cluster;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, RwLock};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use oomctl::core::job::{ExitStatus, JobRef, JobState, JobStatus, Stage, Token};
use oomctl::io::scheduler::slurm::{Deadlines, Slurm};
use oomctl::io::scheduler::{Scheduler, Submission, SubmitAnswer};

/// Tests that stop a daemon take this alone, the others share it.
static DAEMONS: RwLock<()> = RwLock::new(());

/// Which of the two clusters: the plain one has no accounting.
type Plain = bool;

const WITH_ACCOUNTING: Plain = false;
const WITHOUT_ACCOUNTING: Plain = true;

fn demanded() -> bool {
    std::env::var("OOMCTL_TEST_SLURM").is_ok_and(|value| value == "1")
        || std::env::var("CI").is_ok_and(|value| value == "true")
}

/// `SLURM_CONF` of a running cluster; `None` where there is none and none is demanded.
fn conf(plain: Plain) -> Option<PathBuf> {
    static CONFS: [OnceLock<Option<PathBuf>>; 2] = [OnceLock::new(), OnceLock::new()];
    let start = || {
        if !demanded() && !cluster(WITH_ACCOUNTING, &["status"]).status.success() {
            return None;
        }
        let up = cluster(plain, &["up"]);
        assert!(
            up.status.success(),
            "no cluster: {}",
            String::from_utf8_lossy(&up.stderr)
        );
        let text = String::from_utf8(up.stdout).unwrap();
        Some(
            text.trim()
                .strip_prefix("export SLURM_CONF=")
                .unwrap()
                .into(),
        )
    };
    CONFS[usize::from(plain)].get_or_init(start).clone()
}

/// One test's folder, and the backend as a process with that `SLURM_CONF` would make it.
struct Place {
    folder: tempfile::TempDir,
    slurm: Slurm,
    conf: PathBuf,
}

fn place(plain: Plain) -> Option<Place> {
    let Some(conf) = conf(plain) else {
        eprintln!("skipped: no Slurm cluster (tests/slurm/cluster up, or OOMCTL_TEST_SLURM=1)");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let slurm = Slurm::new()
        .inheriting(environment(&conf, &[]))
        .deadlines(Deadlines {
            submit: Duration::from_secs(40),
            controller: Duration::from_secs(30),
            accounting: Duration::from_secs(20),
        });
    Some(Place {
        folder,
        slurm,
        conf,
    })
}

fn environment(
    conf: &Path,
    more: &[(&str, &str)],
) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let mut environment = vec![
        ("SLURM_CONF".into(), conf.into()),
        ("PATH".into(), "/usr/bin:/bin".into()),
    ];
    environment.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

fn fresh_token() -> Token {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Token(format!(
        "oomctl-test-1-{:08x}",
        Timestamp::now().as_microsecond() as u32 ^ (count << 24)
    ))
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn submission(&self, script: &str, options: &[&str]) -> Submission {
        let token = fresh_token();
        let path = self.path(&format!("{token}.sbatch"));
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        Submission {
            script: path,
            stdout: self.path(&format!("{token}.out")),
            stderr: self.path(&format!("{token}.err")),
            token,
            workdir: self.folder.path().to_path_buf(),
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            arguments: Vec::new(),
            export: None,
            time_limit_s: None,
            tasks: None,
        }
    }

    fn submit(&mut self, submission: &Submission) -> JobRef {
        match self.slurm.submit(submission, Timestamp::now()) {
            SubmitAnswer::Accepted { id, cluster } => JobRef {
                id,
                cluster,
                token: Some(submission.token.clone()),
                submitted: Timestamp::now(),
            },
            other => panic!("not accepted: {other:?}"),
        }
    }

    fn until(
        &mut self,
        job: &JobRef,
        within_s: u64,
        reached: impl Fn(&JobStatus) -> bool,
    ) -> JobStatus {
        let started = Instant::now();
        let mut last = None;
        while started.elapsed() < Duration::from_secs(within_s) {
            let poll = self.slurm.poll(std::slice::from_ref(job), Timestamp::now());
            match poll.ok().and_then(|poll| poll.jobs.into_iter().next()) {
                Some(status) if reached(&status) => return status,
                Some(status) => last = Some(status),
                None => {}
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("not reached in {within_s} s; last seen: {last:?}");
    }

    fn end_of(&mut self, job: &JobRef, within_s: u64) -> JobStatus {
        self.until(job, within_s, |status| status.state.stage() == Stage::Ended)
    }

    /// The same backend for questions that are known to get no answer.
    fn impatient(&self) -> Slurm {
        self.slurm.clone().deadlines(Deadlines {
            submit: Duration::from_secs(1),
            controller: Duration::from_secs(1),
            accounting: Duration::from_secs(1),
        })
    }

    fn found(&mut self, token: &Token) -> Vec<oomctl::io::scheduler::Found> {
        let since = Timestamp::now() - SignedDuration::from_mins(10);
        self.slurm.find(std::slice::from_ref(token), since).unwrap()
    }

    fn admin(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", &self.conf)
            .output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Where jobs go that must not meet the node that one test takes down.
const QUIET: &str = "--exclude=node4";

#[test]
fn a_job_is_submitted_followed_and_completed() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let mut submission = place.submission("/usr/bin/env -0; echo done >&2", &[QUIET, "-N1"]);
    submission
        .environment
        .insert("GREETING".into(), "a,b \"$(id)\"\nc".into());
    let job = place.submit(&submission);
    let status = place.end_of(&job, 60);
    assert_eq!(status.state, JobState::Completed);
    assert_eq!(status.exit, Some(ExitStatus::default()));
    assert_eq!((status.nodes.len(), status.restarts), (1, 0));
    assert!(status.started <= status.ended && status.ended.is_some());
    assert_eq!(fs::read_to_string(&submission.stderr).unwrap(), "done\n");
    let output = fs::read_to_string(&submission.stdout).unwrap();
    let seen: BTreeMap<&str, &str> = output
        .split_terminator('\0')
        .filter_map(|entry| entry.split_once('='))
        .filter(|(name, _)| !name.starts_with("SLURM"))
        .collect();
    assert_eq!(seen["GREETING"], "a,b \"$(id)\"\nc");
    // What slurmd and bash add by themselves; nothing of this test's environment.
    let added = [
        "_",
        "PWD",
        "SHLVL",
        "HOSTNAME",
        "TMPDIR",
        "ENVIRONMENT",
        "GPU_DEVICE_ORDINAL",
        "CUDA_VISIBLE_DEVICES",
    ];
    let names: Vec<&str> = seen
        .into_keys()
        .filter(|name| !added.contains(name))
        .collect();
    assert_eq!(names, ["GREETING", "PATH"]);
    let found = place.found(&submission.token);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].status.id, job.id);
}

#[test]
fn an_exit_code_over_128_arrives_as_it_was() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("exit 137", &[QUIET]);
    let job = place.submit(&submission);
    let status = place.end_of(&job, 60);
    assert_eq!(status.state, JobState::Failed);
    assert_eq!(
        status.exit,
        Some(ExitStatus {
            code: 137,
            signal: 0
        })
    );
}

#[test]
fn a_job_cancelled_while_pending_never_had_a_log() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("true", &[QUIET, "--hold"]);
    let job = place.submit(&submission);
    let status = place.until(&job, 20, |status| status.state == JobState::Pending);
    assert_eq!(status.reason.as_deref(), Some("JobHeldUser"));
    let not_ours = JobRef {
        token: Some(Token("oomctl-other".into())),
        ..job.clone()
    };
    place.slurm.cancel(&not_ours).unwrap();
    assert_eq!(
        place.until(&job, 20, |_| true).state,
        JobState::Pending,
        "a reused id was cancelled"
    );
    place.slurm.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job, 30).state, JobState::Cancelled);
    assert!(!submission.stdout.exists() && !submission.stderr.exists());
    place.slurm.cancel(&job).unwrap();
}

#[test]
fn a_job_cancelled_while_running_is_over_only_after_completing() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let script = "trap '' TERM; echo up; for i in {1..600}; do sleep 1; done";
    let submission = place.submission(script, &[QUIET]);
    let job = place.submit(&submission);
    place.until(&job, 30, |_| submission.stdout.exists());
    place.slurm.cancel(&job).unwrap();
    place.until(&job, 10, |status| status.state.stage() == Stage::Ending);
    let status = place.end_of(&job, 60);
    assert_eq!(status.state, JobState::Cancelled);
    assert!(
        fs::read_to_string(&submission.stderr)
            .unwrap()
            .contains("CANCELLED AT")
    );
}

#[test]
fn a_job_over_its_time_limit_is_a_timeout() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("sleep 600", &[QUIET, "--time=1"]);
    let job = place.submit(&submission);
    let status = place.end_of(&job, 150);
    assert_eq!(status.state, JobState::Timeout);
    assert!(
        fs::read_to_string(&submission.stderr)
            .unwrap()
            .contains("DUE TO TIME LIMIT")
    );
}

#[test]
fn a_lost_node_requeues_the_job_under_its_id_or_fails_it_as_asked() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let again = place.submission("echo up; sleep 600", &["-wnode4", "--requeue"]);
    let once = place.submission("echo up; sleep 600", &["-wnode4", "--no-requeue"]);
    let (again_job, once_job) = (place.submit(&again), place.submit(&once));
    place.until(&again_job, 30, |_| {
        again.stdout.exists() && once.stdout.exists()
    });
    place.admin(
        "scontrol",
        &["update", "nodename=node4", "state=down", "reason=test"],
    );
    let failed = place.end_of(&once_job, 60);
    let requeued = place.until(&again_job, 60, |status| status.restarts == 1);
    place.slurm.cancel(&again_job).unwrap();
    // `up` also brings lost nodes back.
    assert!(cluster(WITH_ACCOUNTING, &["up"]).status.success());
    assert_eq!(failed.state, JobState::NodeFail);
    assert_eq!(requeued.state.stage(), Stage::Waiting, "{requeued:?}");
    assert_eq!(place.end_of(&again_job, 60).state, JobState::Cancelled);
    assert!(
        fs::read_to_string(&again.stderr)
            .unwrap()
            .contains("NODE FAILURE")
    );
}

#[test]
fn every_refused_submission_has_slurms_reason_and_the_next_step() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let cases = [
        (
            "--partition=nope",
            "Invalid partition name specified",
            "sinfo -s",
        ),
        (
            "--account=nope",
            "Invalid account or account/partition combination",
            "sacctmgr",
        ),
        ("--qos=nope", "Invalid qos specification", "QOS"),
        (
            "--gpus-per-node=9",
            "Requested node configuration is not available",
            "sinfo",
        ),
        (
            "--gres=gpu:v100:1",
            "Requested node configuration is not available",
            "sinfo",
        ),
        ("--gres=teapot:1", "Invalid generic resource", "GRES"),
        (
            "--mem=900G",
            "Memory specification can not be satisfied",
            "--mem",
        ),
        (
            "--constraint=nope",
            "Invalid feature specification",
            "--constraint",
        ),
        (
            "--reservation=nope",
            "Requested reservation is invalid",
            "reservation",
        ),
        ("--nodelist=nope", "Invalid node name specified", "sinfo -N"),
        ("--time=lunch", "Invalid --time specification", "--sbatch"),
        ("--gpu-flavour=mild", "unrecognized option", "--sbatch"),
    ];
    for (option, words, step) in cases {
        let submission = place.submission("true", &[option]);
        let SubmitAnswer::Refused { reason, hint } =
            place.slurm.submit(&submission, Timestamp::now())
        else {
            panic!("{option} was not refused");
        };
        assert!(reason.contains(words), "{option}: {reason}");
        assert!(
            hint.as_deref().is_some_and(|hint| hint.contains(step)),
            "{option}: {hint:?}"
        );
        let adopted = place
            .found(&submission.token)
            .into_iter()
            .find(|found| !found.refused_trace);
        assert_eq!(adopted, None, "{option}");
    }
    let over_limit = place.submission("true", &["--qos=small", "--gpus-per-node=8"]);
    let SubmitAnswer::Refused { reason, hint } = place.slurm.submit(&over_limit, Timestamp::now())
    else {
        panic!("the QOS limit was not kept");
    };
    assert!(reason.contains("QOSMaxGRESPerJob"), "{reason}");
    assert!(hint.unwrap().contains("fewer"));
}

#[test]
fn the_trace_that_a_refused_submission_leaves_is_not_taken_for_a_job() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("true", &["--gpus-per-node=9"]);
    assert!(matches!(
        place.slurm.submit(&submission, Timestamp::now()),
        SubmitAnswer::Refused { .. }
    ));
    let found = place.found(&submission.token);
    assert_eq!(
        found
            .iter()
            .map(|found| found.refused_trace)
            .collect::<Vec<_>>(),
        [true]
    );
}

#[test]
fn a_submission_to_a_frozen_controller_is_unclear_and_the_job_is_found_by_its_token() {
    let _alone = DAEMONS.write();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("echo once >>runs", &[QUIET]);
    assert!(
        cluster(WITH_ACCOUNTING, &["pause", "slurmctld"])
            .status
            .success()
    );
    let answer = place.slurm.submit(&submission, Timestamp::now());
    let mut impatient = place.impatient();
    let since = Timestamp::now() - SignedDuration::from_mins(10);
    let lookup = impatient.find(std::slice::from_ref(&submission.token), since);
    assert!(
        cluster(WITH_ACCOUNTING, &["resume", "slurmctld"])
            .status
            .success()
    );
    assert!(matches!(answer, SubmitAnswer::Unclear { .. }), "{answer:?}");
    assert!(
        lookup.is_err(),
        "a controller that does not answer knows nothing: {lookup:?}"
    );
    let started = Instant::now();
    let found = loop {
        let found = place
            .slurm
            .find(std::slice::from_ref(&submission.token), since)
            .unwrap_or_default();
        if !found.is_empty() {
            break found;
        }
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "the job does not appear"
        );
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(found.len(), 1);
    let job = JobRef {
        id: found[0].status.id.clone(),
        cluster: None,
        token: Some(submission.token.clone()),
        submitted: Timestamp::now(),
    };
    assert_eq!(place.end_of(&job, 60).state, JobState::Completed);
    assert_eq!(fs::read_to_string(place.path("runs")).unwrap(), "once\n");
}

#[test]
fn an_ended_job_is_told_of_while_accounting_is_down() {
    let _alone = DAEMONS.write();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    assert!(
        cluster(WITH_ACCOUNTING, &["stop", "slurmdbd"])
            .status
            .success()
    );
    let submission = place.submission("exit 3", &[QUIET]);
    let job = place.submit(&submission);
    let status = place.end_of(&job, 30);
    let lookup = place
        .slurm
        .find(std::slice::from_ref(&submission.token), job.submitted);
    assert!(
        cluster(WITH_ACCOUNTING, &["start", "slurmdbd"])
            .status
            .success()
    );
    assert_eq!(status.exit, Some(ExitStatus { code: 3, signal: 0 }));
    assert!(lookup.is_err(), "half an answer is none");
}

#[test]
fn a_job_that_left_the_queue_before_anybody_looked_is_told_of_by_accounting() {
    let _alone = DAEMONS.write();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let conf = fs::read_to_string(&place.conf).unwrap();
    let short = conf
        .lines()
        .map(|line| match line.starts_with("MinJobAge=") {
            true => "MinJobAge=2\n".to_owned(),
            false => format!("{line}\n"),
        });
    fs::write(&place.conf, short.collect::<String>()).unwrap();
    let reconfigured = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        place.admin("scontrol", &["reconfigure"]);
        let submission = place.submission("srun bash -c 'exit 4'", &[QUIET]);
        let job = place.submit(&submission);
        let started = Instant::now();
        let name = format!("--name={}", submission.token);
        while !place
            .admin("squeue", &["-h", "-t", "all", &name])
            .is_empty()
        {
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "the job is not purged"
            );
            std::thread::sleep(Duration::from_millis(500));
        }
        place.end_of(&job, 30)
    }));
    fs::write(&place.conf, conf).unwrap();
    place.admin("scontrol", &["reconfigure"]);
    let status = reconfigured.unwrap();
    assert_eq!(status.state, JobState::Failed);
    // The exit of the step (DerivedExitCode) may reach accounting seconds after the job's own.
    assert_eq!(status.exit, Some(ExitStatus { code: 4, signal: 0 }));
    assert_eq!(status.nodes.len(), 1);
}

#[test]
fn a_stopped_controller_is_no_verdict_and_the_job_goes_on() {
    let _alone = DAEMONS.write();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("echo up; while [ ! -e end ]; do sleep 0.2; done", &[QUIET]);
    let job = place.submit(&submission);
    place.until(&job, 30, |_| submission.stdout.exists());
    assert!(
        cluster(WITH_ACCOUNTING, &["stop", "slurmctld"])
            .status
            .success()
    );
    let poll = place
        .impatient()
        .poll(std::slice::from_ref(&job), Timestamp::now());
    let cancel = place.impatient().cancel(&job);
    assert!(
        cluster(WITH_ACCOUNTING, &["start", "slurmctld"])
            .status
            .success()
    );
    assert!(poll.is_err() && cancel.is_err(), "{poll:?} {cancel:?}");
    assert_eq!(place.until(&job, 30, |_| true).state, JobState::Running);
    fs::write(place.path("end"), "").unwrap();
    assert_eq!(place.end_of(&job, 60).state, JobState::Completed);
}

#[test]
fn host_memory_that_runs_out_is_seen_as_such() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let eat = "head -c 700M /dev/zero | tail";
    let batch = place.submission(eat, &[QUIET, "--mem=200"]);
    let batch_job = place.submit(&batch);
    let status = place.end_of(&batch_job, 90);
    let with_cgroup = fs::read_to_string(place.conf.with_file_name("cgroup.conf")).is_ok();
    let expected = match with_cgroup {
        true => (
            JobState::OutOfMemory,
            ExitStatus {
                code: 0,
                signal: 125,
            },
        ),
        false => (JobState::Failed, ExitStatus { code: 0, signal: 9 }),
    };
    assert_eq!((status.state, status.exit.unwrap()), expected);
    if with_cgroup {
        let step = place.submission(
            &format!("srun bash -c '{eat}'; exit 0"),
            &[QUIET, "--mem=200"],
        );
        let step_job = place.submit(&step);
        let status = place.end_of(&step_job, 90);
        assert!(status.step_out_of_memory, "{status:?}");
    }
}

#[test]
fn an_inherited_slurm_environment_changes_nothing() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let hostile = [
        ("SBATCH_PARTITION", "closed"),
        ("SBATCH_TIMELIMIT", "lunch"),
        ("SBATCH_WAIT", "1"),
        ("SLURM_MEM_PER_CPU", "1"),
        ("SLURM_MEM_PER_NODE", "2"),
        ("SLURM_CLUSTERS", "zzz"),
        ("SQUEUE_STATES", "PENDING"),
        ("SQUEUE_PARTITION", "closed"),
        ("SLURM_TIME_FORMAT", "relative"),
        ("SACCT_FORMAT", "jobid"),
        ("SCANCEL_STATE", "PENDING"),
    ];
    place.slurm = Slurm::new().inheriting(environment(&place.conf, &hostile));
    let mut submission = place.submission("srun sleep 600", &[QUIET]);
    for (name, value) in hostile {
        submission.environment.insert(name.into(), value.into());
    }
    let job = place.submit(&submission);
    let status = place.until(&job, 30, |status| status.state == JobState::Running);
    assert!(status.started.is_some());
    place.slurm.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job, 60).state, JobState::Cancelled);
}

#[test]
fn the_logs_of_somebody_elses_job_are_found_where_slurm_put_them() {
    let _shared = DAEMONS.read();
    let Some(place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let at = place.folder.path().to_str().unwrap();
    let submit = |more: &[&str]| {
        let mut words = vec![
            "--parsable",
            QUIET,
            "--chdir",
            at,
            "--wrap",
            "echo here; echo there >&2; sleep 600",
        ];
        words.extend(more);
        let id = place.admin("sbatch", &words).trim().to_owned();
        JobRef {
            id: oomctl::core::job::JobId(id),
            cluster: None,
            token: None,
            submitted: Timestamp::now(),
        }
    };
    let jobs = [
        submit(&["-J", "two words"]),
        submit(&["-o", "%x-%5j-%u-%n.out", "-J", "plain"]),
        submit(&["-o", "%j.out", "-e", "sub %j %%.err"]),
    ];
    let mut missing = Vec::new();
    for job in &jobs {
        let started = Instant::now();
        let (stdout, stderr) = place.slurm.log_paths(job).unwrap();
        while !(stdout.exists() && stderr.exists()) && started.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(100));
        }
        missing.extend([stdout, stderr].into_iter().filter(|path| !path.exists()));
    }
    jobs.iter()
        .for_each(|job| drop(place.admin("scancel", &[&job.id.0])));
    assert_eq!(missing, Vec::<PathBuf>::new());
}

#[test]
fn a_job_on_a_named_cluster_is_followed_there() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let text = fs::read_to_string(&place.conf).unwrap();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("ClusterName="))
        .unwrap();
    let submission = place.submission("sleep 600", &[QUIET, &format!("--clusters={name}")]);
    let job = place.submit(&submission);
    assert_eq!(job.cluster.as_deref(), Some(name));
    place.until(&job, 30, |status| status.state == JobState::Running);
    let mut there = place.slurm.clone().on_clusters(&[name.to_owned()]);
    let found = there
        .find(std::slice::from_ref(&submission.token), job.submitted)
        .unwrap();
    assert_eq!(found[0].cluster.as_deref(), Some(name));
    place.slurm.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job, 60).state, JobState::Cancelled);
}

#[test]
fn a_forecast_submits_nothing() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITH_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("true", &["--nodes=2"]);
    let sentence = place.slurm.forecast(&submission).unwrap();
    assert!(sentence.contains("to start at"), "{sentence}");
    let too_large = place.submission("true", &["--gpus-per-node=9"]);
    let sentence = place.slurm.forecast(&too_large).unwrap();
    assert!(
        sentence.contains("Requested node configuration is not available"),
        "{sentence}"
    );
    assert_eq!(place.found(&submission.token), []);
}

#[test]
fn without_accounting_the_controller_tells_of_the_end_and_a_purged_job_is_vanished() {
    let _shared = DAEMONS.read();
    let Some(mut place) = place(WITHOUT_ACCOUNTING) else {
        return;
    };
    let submission = place.submission("exit 3", &[]);
    let job = place.submit(&submission);
    let status = place.end_of(&job, 40);
    assert_eq!(
        (status.state, status.exit.unwrap().code),
        (JobState::Failed, 3)
    );
    // Nobody looks until the controller has forgotten the job.
    let started = Instant::now();
    while !place.found(&submission.token).is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "the job is not purged"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    let reference = job.clone();
    let ask = |place: &mut Place, later_s: i64| {
        let now = Timestamp::now() + SignedDuration::from_secs(later_s);
        place
            .slurm
            .poll(std::slice::from_ref(&reference), now)
            .unwrap()
    };
    assert_eq!(ask(&mut place, 0).vanished, []);
    assert_eq!(ask(&mut place, 60).vanished, [job.id]);
}
