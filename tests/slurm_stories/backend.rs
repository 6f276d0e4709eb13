//! The Slurm backend by itself against a real cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use oomctl::core::request::StartForecast;
use oomctl::io::scheduler::slurm::{Deadlines, Slurm};
use oomctl::io::scheduler::{JobSubmission, Scheduler, SubmitAnswer};
use oomctl_base::job::{ExitStatus, JobRef, JobState, JobStatus, Stage, Token};
use oomctl_base::units::Bytes;

use super::cluster::{
    Cluster, Daemons, LostNode, cluster_name, lost_nodes, path, program, wait_for,
};

/// One test's folder, and the backend as a process with that `SLURM_CONF` would make it.
struct Place {
    folder: tempfile::TempDir,
    slurm: Slurm,
    conf: PathBuf,
}

fn place(cluster: Cluster) -> Option<Place> {
    let conf = cluster.conf()?;
    let folder = tempfile::tempdir().unwrap();
    let slurm = slurm(&conf, &[("CALLERS", "own")]).deadlines(Deadlines {
        submit: Duration::from_secs(40),
        test: Duration::from_secs(40),
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
        ("PATH".into(), path().into()),
    ];
    environment.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

/// The cluster's own commands, called from an environment with these variables.
fn slurm(conf: &Path, more: &[(&str, &str)]) -> Slurm {
    let folder = program("sbatch").parent().unwrap().to_owned();
    Slurm::with_path(folder).inheriting(environment(conf, more))
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

    fn submission(&self, script: &str, options: &[&str]) -> JobSubmission {
        let token = fresh_token();
        let path = self.path(&format!("{token}.sbatch"));
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        JobSubmission {
            script: path,
            stdout: self.path(&format!("{token}.out")),
            stderr: self.path(&format!("{token}.err")),
            token,
            workdir: self.folder.path().to_path_buf(),
            environment: BTreeMap::from([("PATH".into(), super::cluster::path())]),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            arguments: Vec::new(),
            export: None,
            time_limit_s: None,
            gpu: None,
            tasks: None,
        }
    }

    fn submit(&mut self, submission: &JobSubmission) -> JobRef {
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

    fn until(&mut self, job: &JobRef, reached: impl Fn(&JobStatus) -> bool) -> JobStatus {
        let mut last = None;
        wait_for(&format!("{job:?}"), || {
            let poll = self.slurm.poll(std::slice::from_ref(job), Timestamp::now());
            last = poll.ok().and_then(|poll| poll.jobs.into_iter().next());
            last.clone().filter(&reached)
        })
    }

    fn end_of(&mut self, job: &JobRef) -> JobStatus {
        self.until(job, |status| status.state.stage() == Stage::Ended)
    }

    /// The same backend for questions that are known to get no answer.
    fn impatient(&self) -> Slurm {
        self.slurm.clone().deadlines(Deadlines {
            submit: Duration::from_secs(1),
            test: Duration::from_secs(1),
            controller: Duration::from_secs(1),
            accounting: Duration::from_secs(1),
        })
    }

    fn found(&mut self, token: &Token) -> Vec<oomctl::io::scheduler::FoundJob> {
        let since = Timestamp::now() - SignedDuration::from_mins(10);
        self.slurm.find(std::slice::from_ref(token), since).unwrap()
    }

    fn admin(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(self::program(program))
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

/// The option that keeps a job away from the nodes that stories lose.
fn quiet() -> String {
    format!("--exclude={}", lost_nodes())
}

#[test]
fn a_job_is_submitted_followed_and_completed() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let mut submission = place.submission("/usr/bin/env -0; echo done >&2", &[&quiet(), "-N1"]);
    submission
        .environment
        .insert("GREETING".into(), "a,b \"$(id)\"\nc".into());
    let job = place.submit(&submission);
    let status = place.end_of(&job);
    assert_eq!(status.state, JobState::Completed);
    assert_eq!(status.exit, Some(ExitStatus::default()));
    assert_eq!((status.nodes.len(), status.restarts), (1, 0));
    assert!(status.started <= status.ended && status.ended.is_some());
    assert_eq!(fs::read_to_string(&submission.stderr).unwrap(), "done\n");
    let output = fs::read_to_string(&submission.stdout).unwrap();
    let seen: BTreeMap<&str, &str> = output
        .split_terminator('\0')
        .filter_map(|entry| entry.split_once('='))
        .collect();
    assert_eq!(seen["GREETING"], "a,b \"$(id)\"\nc");
    assert_eq!(seen["PATH"], path());
    // What slurmd, a prolog and bash add is the site's affair; what this process has is not for the job.
    assert!(!seen.contains_key("CALLERS"), "{seen:?}");
    let found = place.found(&submission.token);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].status.id, job.id);
}

#[test]
fn an_exit_code_over_128_arrives_as_it_was() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let submission = place.submission("exit 137", &[&quiet()]);
    let job = place.submit(&submission);
    let status = place.end_of(&job);
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
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let submission = place.submission("true", &[&quiet(), "--hold"]);
    let job = place.submit(&submission);
    let status = place.until(&job, |status| status.state == JobState::Pending);
    assert_eq!(status.reason.as_deref(), Some("JobHeldUser"));
    let not_ours = JobRef {
        token: Some(Token("oomctl-other".into())),
        ..job.clone()
    };
    place.slurm.cancel(&not_ours).unwrap();
    assert_eq!(
        place.until(&job, |_| true).state,
        JobState::Pending,
        "a reused id was cancelled"
    );
    place.slurm.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job).state, JobState::Cancelled);
    assert!(!submission.stdout.exists() && !submission.stderr.exists());
    place.slurm.cancel(&job).unwrap();
}

#[test]
fn a_job_cancelled_while_running_is_over_only_after_completing() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let script = "trap '' TERM; echo up; for i in {1..600}; do sleep 1; done";
    let submission = place.submission(script, &[&quiet()]);
    let job = place.submit(&submission);
    place.until(&job, |_| submission.stdout.exists());
    place.slurm.cancel(&job).unwrap();
    place.until(&job, |status| status.state.stage() == Stage::Ending);
    let status = place.end_of(&job);
    assert_eq!(status.state, JobState::Cancelled);
    assert!(
        fs::read_to_string(&submission.stderr)
            .unwrap()
            .contains("CANCELLED AT")
    );
}

#[test]
fn a_job_over_its_time_limit_is_a_timeout() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let submission = place.submission("sleep 600", &[&quiet(), "--time=1"]);
    let job = place.submit(&submission);
    let status = place.end_of(&job);
    assert_eq!(status.state, JobState::Timeout);
    assert!(
        fs::read_to_string(&submission.stderr)
            .unwrap()
            .contains("DUE TO TIME LIMIT")
    );
}

#[test]
fn a_lost_node_requeues_the_job_under_its_id_or_fails_it_as_asked() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let conf = place.conf.clone();
    let node = LostNode::of(&conf, 12);
    let (here, up) = (node.pinned(), "echo up; sleep 600");
    let again = place.submission(up, &[&here, "--requeue"]);
    let once = place.submission(up, &[&here, "--no-requeue"]);
    let (again_job, once_job) = (place.submit(&again), place.submit(&once));
    place.until(&again_job, |_| {
        again.stdout.exists() && once.stdout.exists()
    });
    node.down();
    let failed = place.end_of(&once_job);
    let requeued = place.until(&again_job, |status| status.restarts == 1);
    place.slurm.cancel(&again_job).unwrap();
    node.back();
    assert_eq!(failed.state, JobState::NodeFail);
    assert_eq!(requeued.state.stage(), Stage::Waiting, "{requeued:?}");
    assert_eq!(place.end_of(&again_job).state, JobState::Cancelled);
    assert!(
        fs::read_to_string(&again.stderr)
            .unwrap()
            .contains("NODE FAILURE")
    );
}

#[test]
fn every_refused_submission_has_slurms_reason_and_the_next_step() {
    let Some(mut place) = place(Cluster::Full) else {
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
        let SubmitAnswer::Refused { reason, hint, .. } =
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
    let SubmitAnswer::Refused { reason, hint, .. } =
        place.slurm.submit(&over_limit, Timestamp::now())
    else {
        panic!("the QOS limit was not kept");
    };
    assert!(reason.contains("QOSMaxGRESPerJob"), "{reason}");
    assert!(hint.unwrap().contains("fewer"));
}

#[test]
fn the_trace_that_a_refused_submission_leaves_is_not_taken_for_a_job() {
    let Some(mut place) = place(Cluster::Full) else {
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
    let Some(mut place) = place(Cluster::Outages) else {
        return;
    };
    let daemons = Daemons::taken();
    let submission = place.submission("echo once >>runs", &[]);
    daemons.does(&["pause", "slurmctld"]);
    let answer = place.slurm.submit(&submission, Timestamp::now());
    let mut impatient = place.impatient();
    let since = Timestamp::now() - SignedDuration::from_mins(10);
    let lookup = impatient.find(std::slice::from_ref(&submission.token), since);
    daemons.does(&["resume", "slurmctld"]);
    assert!(matches!(answer, SubmitAnswer::Unclear { .. }), "{answer:?}");
    assert!(
        lookup.is_err(),
        "a controller that does not answer knows nothing: {lookup:?}"
    );
    let found = wait_for("the job appears", || {
        let found = place
            .slurm
            .find(std::slice::from_ref(&submission.token), since);
        found.ok().filter(|found| !found.is_empty())
    });
    assert_eq!(found.len(), 1);
    let job = JobRef {
        id: found[0].status.id.clone(),
        cluster: None,
        token: Some(submission.token.clone()),
        submitted: Timestamp::now(),
    };
    assert_eq!(place.end_of(&job).state, JobState::Completed);
    assert_eq!(fs::read_to_string(place.path("runs")).unwrap(), "once\n");
}

#[test]
fn an_ended_job_is_told_of_while_accounting_is_down() {
    let Some(mut place) = place(Cluster::Outages) else {
        return;
    };
    let daemons = Daemons::taken();
    daemons.does(&["stop", "slurmdbd"]);
    let submission = place.submission("exit 3", &[]);
    let job = place.submit(&submission);
    let status = place.end_of(&job);
    let lookup = place
        .slurm
        .find(std::slice::from_ref(&submission.token), job.submitted);
    daemons.does(&["start", "slurmdbd"]);
    assert_eq!(status.exit, Some(ExitStatus { code: 3, signal: 0 }));
    assert!(lookup.is_err(), "half an answer is none");
}

#[test]
fn a_job_that_left_the_queue_before_anybody_looked_is_told_of_by_accounting() {
    let Some(mut place) = place(Cluster::Outages) else {
        return;
    };
    let _daemons = Daemons::taken();
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
        let submission = place.submission("srun bash -c 'exit 4'", &[]);
        let job = place.submit(&submission);
        let name = format!("--name={}", submission.token);
        // Slurm itself purges once a minute.
        wait_for("the job is purged", || {
            let queue = place.admin("squeue", &["-h", "-t", "all", &name]);
            queue.is_empty().then_some(())
        });
        // The exit of the step (DerivedExitCode) may reach accounting seconds after the job's own.
        place.until(&job, |status| status.exit.is_some())
    }));
    fs::write(&place.conf, conf).unwrap();
    place.admin("scontrol", &["reconfigure"]);
    let status = reconfigured.unwrap();
    assert_eq!(status.state, JobState::Failed);
    assert_eq!(status.exit, Some(ExitStatus { code: 4, signal: 0 }));
    assert_eq!(status.nodes.len(), 1);
}

#[test]
fn a_stopped_controller_is_no_verdict_and_the_job_goes_on() {
    let Some(mut place) = place(Cluster::Outages) else {
        return;
    };
    let daemons = Daemons::taken();
    let submission = place.submission("echo up; while [ ! -e end ]; do sleep 0.2; done", &[]);
    let job = place.submit(&submission);
    place.until(&job, |_| submission.stdout.exists());
    daemons.does(&["stop", "slurmctld"]);
    let poll = place
        .impatient()
        .poll(std::slice::from_ref(&job), Timestamp::now());
    let cancel = place.impatient().cancel(&job);
    daemons.does(&["start", "slurmctld"]);
    assert!(poll.is_err() && cancel.is_err(), "{poll:?} {cancel:?}");
    assert_eq!(place.until(&job, |_| true).state, JobState::Running);
    fs::write(place.path("end"), "").unwrap();
    assert_eq!(place.end_of(&job).state, JobState::Completed);
}

#[test]
fn host_memory_that_runs_out_is_seen_as_such() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let eat = "head -c 700M /dev/zero | tail";
    let batch = place.submission(eat, &[&quiet(), "--mem=200"]);
    let batch_job = place.submit(&batch);
    let status = place.end_of(&batch_job);
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
            &[&quiet(), "--mem=200"],
        );
        let step_job = place.submit(&step);
        let status = place.end_of(&step_job);
        assert!(status.step_out_of_memory, "{status:?}");
    }
}

#[test]
fn accounting_says_what_a_job_used_of_its_nodes() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    // CPU time, however long a busy machine takes to give it. The kernel's limit counts whole ticks, and Slurm cuts to
    // whole seconds: a second less than the limit is sure.
    let busy =
        "x=$(head -c 50M /dev/zero | tr '\\0' x); (ulimit -t 4; while :; do :; done) || true";
    let job = place.submission(busy, &[&quiet(), "--mem=400", "--cpus-per-task=2"]);
    let job = place.submit(&job);
    place.end_of(&job);
    let host = wait_for("accounting to hear of the last step", || {
        let found = place.slurm.host_use(std::slice::from_ref(&job)).pop();
        found
            .map(|(_, host)| host)
            .filter(|host| host.cpu_s.is_some())
    });
    assert_eq!(host.memory_given, Some(Bytes(400 << 20)));
    assert!(host.memory_peak >= Some(Bytes(50 << 20)), "{host:?}");
    assert!(host.cpu_s >= Some(3), "{host:?}");
    // One of two CPUs; Slurm counts both times in whole seconds.
    assert!(host.cpu_share().unwrap() <= 0.7, "{host:?}");
}

#[test]
fn an_inherited_slurm_environment_changes_nothing() {
    let Some(mut place) = place(Cluster::Full) else {
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
    place.slurm = slurm(&place.conf, &hostile);
    let mut submission = place.submission("srun sleep 600", &[&quiet()]);
    for (name, value) in hostile {
        submission.environment.insert(name.into(), value.into());
    }
    let job = place.submit(&submission);
    let status = place.until(&job, |status| status.state == JobState::Running);
    assert!(status.started.is_some());
    place.slurm.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job).state, JobState::Cancelled);
}

#[test]
fn the_logs_of_somebody_elses_job_are_found_where_slurm_put_them() {
    let Some(place) = place(Cluster::Full) else {
        return;
    };
    let at = place.folder.path().to_str().unwrap();
    let quiet = quiet();
    let submit = |more: &[&str]| {
        let mut words = vec![
            "--parsable",
            &quiet,
            "--chdir",
            at,
            "--wrap",
            "echo here; echo there >&2; sleep 600",
        ];
        words.extend(more);
        let id = place.admin("sbatch", &words).trim().to_owned();
        JobRef {
            id: oomctl_base::job::JobId(id),
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
    for job in &jobs {
        let (stdout, stderr) = place.slurm.log_paths(job).unwrap();
        wait_for(
            &format!("{} and {}", stdout.display(), stderr.display()),
            || (stdout.exists() && stderr.exists()).then_some(()),
        );
    }
    jobs.iter()
        .for_each(|job| drop(place.admin("scancel", &[&job.id.0])));
}

#[test]
fn a_job_on_a_named_cluster_is_followed_there() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let name = &cluster_name(&place.conf);
    let submission = place.submission("sleep 600", &[&quiet(), &format!("--clusters={name}")]);
    let job = place.submit(&submission);
    assert_eq!(job.cluster.as_deref(), Some(name.as_str()));
    place.until(&job, |status| status.state == JobState::Running);
    let mut there = place.slurm.clone();
    there.look_on_clusters(std::slice::from_ref(name));
    let found = there
        .find(std::slice::from_ref(&submission.token), job.submitted)
        .unwrap();
    assert_eq!(found[0].cluster.as_deref(), Some(name.as_str()));
    place.slurm.cancel(&job).unwrap();
    assert_eq!(place.end_of(&job).state, JobState::Cancelled);
}

#[test]
fn a_forecast_submits_nothing() {
    let Some(mut place) = place(Cluster::Full) else {
        return;
    };
    let submission = place.submission("true", &["--nodes=2"]);
    let now = jiff::Timestamp::now();
    let start = place.slurm.forecast(&submission).unwrap();
    let Some(StartForecast::At(at)) = start else {
        panic!("{start:?}");
    };
    assert!(
        at.duration_since(now).as_secs() > -60,
        "{at} is long before {now}"
    );
    let too_large = place.submission("true", &["--gpus-per-node=9"]);
    let why = "Requested node configuration is not available".to_owned();
    let refused = Ok(Some(StartForecast::Refused(why)));
    assert_eq!(place.slurm.forecast(&too_large), refused);
    assert_eq!(place.found(&submission.token), []);
}

#[test]
fn without_accounting_the_controller_tells_of_the_end_and_a_purged_job_is_vanished() {
    let Some(mut place) = place(Cluster::Plain) else {
        return;
    };
    let submission = place.submission("exit 3", &[]);
    let job = place.submit(&submission);
    let status = place.end_of(&job);
    assert_eq!(
        (status.state, status.exit.unwrap().code),
        (JobState::Failed, 3)
    );
    // Nobody looks until the controller has forgotten the job.
    wait_for("the job is purged", || {
        place.found(&submission.token).is_empty().then_some(())
    });
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
