//! The local backend with the real binary as keeper: jobs that really run, end, are cancelled, run
//! out of time and lose their keeper.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use oomctl::io::scheduler::local::Local;
use oomctl::io::scheduler::{JobSubmission, Scheduler, SubmitAnswer};
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, JobStatus, Stage, Token};

/// A project folder with the local backend on it.
struct Place {
    folder: tempfile::TempDir,
    local: Local,
}

/// Longest wait for something that takes milliseconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(40);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let local = Self::backend(folder.path());
        Self { folder, local }
    }

    /// The backend as another oomctl process would make it.
    fn backend(folder: &Path) -> Local {
        Local::new(folder)
            .kept_by(env!("CARGO_BIN_EXE_oomctl"))
            .grace_s(1)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn submission(&self, script: &str) -> JobSubmission {
        fs::write(self.path("job.sh"), script).unwrap();
        JobSubmission {
            script: self.path("job.sh"),
            token: Token("oomctl-grpo-1-00c0ffee".into()),
            workdir: self.folder.path().to_path_buf(),
            stdout: self.path("job.out"),
            stderr: self.path("job.err"),
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            options: Vec::new(),
            arguments: Vec::new(),
            export: None,
            time_limit_s: None,
            tasks: None,
            gpu: None,
        }
    }

    fn submit(&mut self, submission: &JobSubmission) -> JobRef {
        match self.local.submit(submission, Timestamp::now()) {
            SubmitAnswer::Accepted { id, cluster: None } => JobRef {
                id,
                cluster: None,
                token: Some(submission.token.clone()),
                submitted: Timestamp::now(),
            },
            other => panic!("not accepted: {other:?}"),
        }
    }

    fn status(&mut self, job: &JobRef) -> JobStatus {
        self.local
            .poll(std::slice::from_ref(job), Timestamp::now())
            .unwrap()
            .jobs
            .remove(0)
    }

    fn end_of(&mut self, job: &JobRef) -> JobStatus {
        self.until(job, |status| status.state.stage() == Stage::Ended)
    }

    fn until(&mut self, job: &JobRef, reached: impl Fn(&JobStatus) -> bool) -> JobStatus {
        let started = Instant::now();
        loop {
            let status = self.status(job);
            if reached(&status) {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "still {status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for a file that the job writes, and reads it.
    fn written(&self, name: &str) -> String {
        let started = Instant::now();
        loop {
            match fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => assert!(started.elapsed() < PATIENCE, "{name} does not appear"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn record(&self, job: &JobRef, name: &str) -> PathBuf {
        self.path(&format!(".oomctl/local/{}/{name}", job.id))
    }

    fn keeper(&self, job: &JobRef) -> i32 {
        let text = fs::read(self.record(job, "started")).unwrap();
        let started: serde_json::Value = serde_json::from_slice(&text).unwrap();
        i32::try_from(started["keeper"]["pid"].as_i64().unwrap()).unwrap()
    }
}

fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn gone(pid: &str) -> bool {
    let started = Instant::now();
    while runs(pid) {
        if started.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn kill(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn a_job_runs_to_its_end_with_its_logs_and_its_exit_code() {
    let mut place = Place::new();
    let submission = place.submission("echo to out; echo to err >&2; exit 3\n");
    let job = place.submit(&submission);
    let status = place.end_of(&job);
    assert_eq!(status.state, JobState::Failed);
    assert_eq!(status.exit, Some(ExitStatus { code: 3, signal: 0 }));
    assert!(status.started <= status.ended && status.ended.is_some());
    assert_eq!(status.nodes.len(), 1);
    assert_eq!(
        fs::read_to_string(place.path("job.out")).unwrap(),
        "to out\n"
    );
    assert_eq!(
        fs::read_to_string(place.path("job.err")).unwrap(),
        "to err\n"
    );
}

#[test]
fn a_job_is_detached_from_whoever_submitted_it() {
    let mut place = Place::new();
    let submission = place.submission("sleep 600\n");
    let job = place.submit(&submission);
    let keeper = place.keeper(&job);
    let stat = fs::read_to_string(format!("/proc/{keeper}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    let (session, terminal) = (fields[3], fields[4]);
    assert_eq!((session, terminal), (keeper.to_string().as_str(), "0"));
    place.local.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job).state, JobState::Cancelled);
}

#[test]
fn success_and_death_by_a_signal_are_told_apart() {
    let mut place = Place::new();
    let fine = place.submission("true\n");
    let fine = place.submit(&fine);
    assert_eq!(place.end_of(&fine).state, JobState::Completed);
    let killed = place.submission("kill -9 $$\n");
    let killed = place.submit(&killed);
    let status = place.end_of(&killed);
    assert_eq!(
        (status.state, status.exit.unwrap().signal),
        (JobState::Failed, 9)
    );
    assert_ne!(fine.id, killed.id);
}

#[test]
fn a_job_has_exactly_its_environment_and_nothing_of_it_is_written_down() {
    let mut place = Place::new();
    let mut submission = place.submission("/usr/bin/env -0\n");
    submission
        .environment
        .insert("WANDB_API_KEY".into(), "s3cret \"$(id)\"\nline".into());
    let job = place.submit(&submission);
    place.end_of(&job);
    let output = fs::read_to_string(place.path("job.out")).unwrap();
    let mut seen: BTreeMap<&str, &str> = output
        .split_terminator('\0')
        .filter_map(|entry| entry.split_once('='))
        .collect();
    for added_by_bash in ["_", "PWD", "SHLVL", "OLDPWD"] {
        seen.remove(added_by_bash);
    }
    let expected = [
        ("OOMCTL_JOB_ID", "1"),
        ("PATH", "/usr/bin:/bin"),
        ("WANDB_API_KEY", "s3cret \"$(id)\"\nline"),
    ];
    assert_eq!(seen, BTreeMap::from(expected));
    for entry in fs::read_dir(place.path(".oomctl/local/1")).unwrap() {
        let path = entry.unwrap().path();
        assert!(
            !fs::read_to_string(&path).unwrap().contains("s3cret"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn logs_are_appended_to() {
    let mut place = Place::new();
    fs::write(place.path("job.out"), "before\n").unwrap();
    let submission = place.submission("echo after\n");
    let job = place.submit(&submission);
    place.end_of(&job);
    assert_eq!(
        fs::read_to_string(place.path("job.out")).unwrap(),
        "before\nafter\n"
    );
}

#[test]
fn a_cancelled_job_ends_with_all_its_processes() {
    let mut place = Place::new();
    // The child has a session of its own and ignores SIGTERM: it must die all the same.
    let submission = place.submission(
        "setsid bash -c 'trap \"\" TERM; echo $$ >child; sleep 600; true' &\ntrap '' TERM\nwhile :; do sleep 600; done\n",
    );
    let job = place.submit(&submission);
    let child = place.written("child");
    assert_eq!(place.status(&job).state, JobState::Running);
    place.local.cancel(&job).unwrap();
    assert!(matches!(
        place.status(&job).state,
        JobState::Completing | JobState::Cancelled
    ));
    let status = place.end_of(&job);
    assert_eq!(status.state, JobState::Cancelled);
    assert_eq!(status.exit, Some(ExitStatus::default()));
    assert_eq!(
        status.cancelled_by,
        Some(rustix::process::getuid().as_raw().to_string())
    );
    assert!(gone(&child), "a process of the job survives");
    assert!(
        fs::read_to_string(place.path("job.err"))
            .unwrap()
            .contains("*** JOB 1 ON")
    );
    place.local.cancel(&job).unwrap();
}

#[test]
fn a_script_may_end_politely_when_it_is_cancelled() {
    let mut place = Place::new();
    let submission = place.submission(
        "trap 'echo saved; exit 0' TERM\necho ready >ready\nwhile :; do sleep 0.1; done\n",
    );
    let job = place.submit(&submission);
    place.written("ready");
    place.local.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job).state, JobState::Cancelled);
    assert_eq!(
        fs::read_to_string(place.path("job.out")).unwrap(),
        "saved\n"
    );
}

#[test]
fn a_job_over_its_time_limit_is_ended() {
    let mut place = Place::new();
    let mut submission = place.submission("sleep 600\n");
    submission.time_limit_s = Some(1);
    let job = place.submit(&submission);
    let status = place.end_of(&job);
    assert_eq!(status.state, JobState::Timeout);
    assert!(
        fs::read_to_string(place.path("job.err"))
            .unwrap()
            .contains("DUE TO TIME LIMIT")
    );
}

#[test]
fn what_a_script_leaves_running_ends_with_it() {
    let mut place = Place::new();
    let submission = place.submission("setsid sleep 600 & echo $! >child\nexit 0\n");
    let job = place.submit(&submission);
    assert_eq!(place.end_of(&job).state, JobState::Completed);
    assert!(gone(&place.written("child")));
}

#[test]
fn a_job_is_found_by_its_token_from_another_process() {
    let mut place = Place::new();
    let submission = place.submission("sleep 600\n");
    let job = place.submit(&submission);
    let mut other = Place::backend(place.folder.path());
    let since = Timestamp::now() - SignedDuration::from_mins(1);
    let found = other
        .find(std::slice::from_ref(&submission.token), since)
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&found[0].status.id, found[0].refused_trace),
        (&job.id, false)
    );
    assert_eq!(other.find(&[Token("another".into())], since).unwrap(), []);
    other.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job).state, JobState::Cancelled);
}

#[test]
fn a_job_whose_keeper_was_killed_is_a_node_failure_and_nothing_of_it_stays() {
    let mut place = Place::new();
    let submission = place.submission("sleep 600 & echo $! >child\nwait\n");
    let job = place.submit(&submission);
    let child = place.written("child");
    kill(place.keeper(&job), rustix::process::Signal::KILL);
    let status = place.end_of(&job);
    assert_eq!(status.state, JobState::NodeFail);
    assert_eq!(status.reason.as_deref(), Some("KeeperGone"));
    assert!(gone(&child));
    assert_eq!(
        place.status(&job).ended,
        status.ended,
        "the verdict is final"
    );
}

#[test]
fn a_reboot_is_a_node_failure() {
    let mut place = Place::new();
    let submission = place.submission("sleep 600\n");
    let job = place.submit(&submission);
    let keeper = place.keeper(&job);
    let path = place.record(&job, "started");
    let mut started: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    started["keeper"]["boot"] = "another boot".into();
    fs::write(&path, started.to_string()).unwrap();
    assert_eq!(place.status(&job).state, JobState::NodeFail);
    assert!(
        runs(&keeper.to_string()),
        "a process of this boot was taken for one of another"
    );
    kill(keeper, rustix::process::Signal::TERM);
}

#[test]
fn a_job_of_another_machine_is_unknown_not_over() {
    let mut place = Place::new();
    let submission = place.submission("sleep 600\n");
    let job = place.submit(&submission);
    let keeper = place.keeper(&job);
    let path = place.record(&job, "started");
    let mut started: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    started["keeper"]["host"] = "another-machine".into();
    fs::write(&path, started.to_string()).unwrap();
    assert_eq!(place.status(&job).state.stage(), Stage::Unknown);
    assert!(place.local.cancel(&job).is_err());
    kill(keeper, rustix::process::Signal::TERM);
}

#[test]
fn a_job_that_no_keeper_came_for_fails_and_a_late_keeper_does_not_run_it() {
    let mut place = Place::new();
    let submission = place.submission("echo ran >ran\n");
    let job = place.submit(&submission);
    place.end_of(&job);
    fs::remove_file(place.path("ran")).unwrap();
    for record in ["started", "exit"] {
        fs::remove_file(place.record(&job, record)).unwrap();
    }
    assert_eq!(place.status(&job).state, JobState::Pending);
    let later = Timestamp::now() + SignedDuration::from_mins(5);
    let poll = place.local.poll(std::slice::from_ref(&job), later).unwrap();
    assert_eq!(poll.jobs[0].state, JobState::NodeFail);
    let keeper = std::process::Command::new(env!("CARGO_BIN_EXE_oomctl"))
        .arg("__keep-local-job")
        .arg(place.path(".oomctl/local/1"))
        .status();
    assert!(!keeper.unwrap().success());
    assert!(!place.path("ran").exists());
}

#[test]
fn a_log_that_cannot_be_opened_fails_the_job_as_slurm_would() {
    let mut place = Place::new();
    let submission = place.submission("true\n");
    fs::create_dir(place.path("job.err")).unwrap();
    let job = place.submit(&submission);
    let status = place.end_of(&job);
    assert_eq!(
        (status.state, status.exit.unwrap().signal),
        (JobState::Failed, 53)
    );
    assert!(status.reason.unwrap().starts_with("JobLaunchFailure"));
}

#[test]
fn what_cannot_run_is_refused_and_leaves_no_job() {
    let mut place = Place::new();
    let good = place.submission("true\n");
    let gone = place.path("gone");
    let cases = [
        JobSubmission {
            workdir: gone.clone(),
            ..good.clone()
        },
        JobSubmission {
            script: gone.clone(),
            ..good.clone()
        },
        JobSubmission {
            stdout: gone.join("x"),
            ..good.clone()
        },
        JobSubmission {
            stderr: PathBuf::from("relative"),
            ..good.clone()
        },
    ];
    for submission in cases {
        let answer = place.local.submit(&submission, Timestamp::now());
        assert!(matches!(answer, SubmitAnswer::Refused { .. }), "{answer:?}");
    }
    let mut without_keeper = Local::new(place.folder.path()).kept_by("/nowhere/oomctl");
    let answer = without_keeper.submit(&good, Timestamp::now());
    assert!(matches!(answer, SubmitAnswer::Refused { .. }), "{answer:?}");
    let since = Timestamp::now() - SignedDuration::from_mins(1);
    assert_eq!(place.local.find(&[good.token], since).unwrap(), []);
}

#[test]
fn a_job_that_nobody_knows_is_vanished() {
    let mut place = Place::new();
    let submission = place.submission("true\n");
    let job = place.submit(&submission);
    let unknown = ["99", "no number", "../1"].map(|id| JobRef {
        id: JobId(id.into()),
        ..job.clone()
    });
    let foreign = JobRef {
        token: Some(Token("another".into())),
        ..job.clone()
    };
    for reference in unknown.iter().chain([&foreign]) {
        let poll = place
            .local
            .poll(std::slice::from_ref(reference), Timestamp::now())
            .unwrap();
        assert_eq!(
            (poll.jobs.len(), poll.vanished.len()),
            (0, 1),
            "{reference:?}"
        );
        place.local.cancel(reference).unwrap();
    }
    assert_eq!(place.end_of(&job).state, JobState::Completed);
}

#[test]
fn jobs_submitted_at_once_get_numbers_of_their_own() {
    let place = Place::new();
    let submission = place.submission("true\n");
    let submit = || {
        let mut local = Place::backend(place.folder.path());
        match local.submit(&submission, Timestamp::now()) {
            SubmitAnswer::Accepted { id, .. } => id,
            other => panic!("not accepted: {other:?}"),
        }
    };
    let mut ids: Vec<JobId> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(submit)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8);
}
