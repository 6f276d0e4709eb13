//! The Flux backend against a scripted `flux`: what its versions and outages make of its answers, one at a time. Answers in the
//! form of flux-core 0.88, as its own instance printed them (tests/flux).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::scripted::ScriptedCommands;
use jiff::Timestamp;
use oomctl::io::scheduler::flux::Flux;
use oomctl::io::scheduler::{JobSubmission, Poll, Scheduler, SubmitAnswer};
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, Token};

const TOKEN: &str = "oomctl-grpo-1-00c0ffee";
const URI: &str = "local:///tmp/flux-a/local-0";

/// A `flux` that prints what it was told to.
struct Site {
    commands: ScriptedCommands,
}

impl Site {
    fn new() -> Self {
        let commands = ScriptedCommands::new(&["flux"], "$1", "${FLUX_URI:-system}");
        let site = Self { commands };
        site.answers("batch", 0, "ƒK5kLxGw\n", "");
        site.answers("jobs", 0, r#"{"jobs": []}"#, "");
        site.answers("cancel", 0, "", "");
        fs::write(site.path("job.sh"), "#!/bin/bash\n# flux: -N1\ntrue\n").unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.commands.path(name)
    }

    fn answers(&self, command: &str, code: i32, stdout: &str, stderr: &str) {
        self.commands.answers(command, code, stdout, stderr);
    }

    fn calls(&self) -> Vec<String> {
        self.commands.calls()
    }

    fn knows(&self, jobs: &[String]) {
        let stdout = format!(r#"{{"jobs": [{}]}}"#, jobs.join(", "));
        self.answers("jobs", 0, &stdout, "");
    }

    fn flux(&self) -> Flux {
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let flux = Flux::new(&self.path("")).with_path(self.path(""), environment);
        flux.deadline(Duration::from_secs(60))
    }

    fn submission(&self) -> JobSubmission {
        JobSubmission {
            script: self.path("job.sh"),
            token: Token(TOKEN.to_owned()),
            workdir: self.path(""),
            stdout: self.path("slurm.out"),
            stderr: self.path("slurm.err"),
            environment: BTreeMap::from([("FLUX_URI".to_owned(), URI.to_owned())]),
            options: Vec::new(),
            arguments: vec!["a b".to_owned()],
            export: None,
            time_limit_s: None,
            gpu: None,
            tasks: None,
        }
    }

    fn submit(&self) -> SubmitAnswer {
        self.flux().submit(&self.submission(), Timestamp::now())
    }

    fn poll(&self, flux: &mut Flux) -> Poll {
        flux.poll(&[job()], Timestamp::now()).unwrap()
    }
}

fn job() -> JobRef {
    JobRef {
        id: JobId("fK5kLxGw".to_owned()),
        cluster: Some(URI.to_owned()),
        token: Some(Token(TOKEN.to_owned())),
        submitted: Timestamp::UNIX_EPOCH,
    }
}

/// A job as `flux jobs --json` writes it, with what its state adds.
fn told(name: &str, state: &str, more: &str) -> String {
    format!(
        r#"{{"t_submit": 1795824860.79, "name": "{name}", "id": 688352395264, "state": "{state}", "urgency": 16, "jobid": "\u0192K5kLxGw",
            "annotations": {{}}, "exception": {{"occurred": false}}{more}}}"#
    )
}

fn failed(kind: &str, note: &str) -> String {
    let exception = format!(
        r#", "result": "FAILED", "exception": {{"occurred": true, "severity": 0, "type": "{kind}", "note": "{note}"}}"#
    );
    told(TOKEN, "INACTIVE", &exception)
}

#[test]
fn a_submission_names_the_token_the_logs_and_the_folder_and_keeps_the_scripts_arguments_apart() {
    let site = Site::new();
    let answer = site.submit();
    let accepted = SubmitAnswer::Accepted {
        id: JobId("fK5kLxGw".to_owned()),
        cluster: Some(URI.to_owned()),
    };
    assert_eq!(answer, accepted);
    let at = site.commands.folder().display();
    assert_eq!(
        site.calls()[0],
        format!(
            "batch --job-name={TOKEN} --cwd={at} --output={at}/slurm.out --error={at}/slurm.err {at}/job.sh a b -- {URI}"
        )
    );
}

#[test]
fn a_refusal_has_fluxs_reason_and_the_next_step() {
    let refusals = [
        (
            1,
            "flux-batch: ERROR: 'nope' is not a valid queue\n",
            "flux queue list",
            false,
        ),
        (
            1,
            "flux-batch: ERROR: requested ngpus (5) exceeds policy limit of 4 for queue a\n",
            "flux queue list",
            false,
        ),
        (
            1,
            "flux-batch: ERROR: Unable to connect to Flux: broker socket /run/flux/local was not found\n",
            "flux start",
            true,
        ),
        (
            2,
            "usage: flux batch [OPTIONS...]\nflux batch: error: unrecognized arguments: --nosuch\n",
            "flux help batch",
            false,
        ),
    ];
    for (code, stderr, next, passes) in refusals {
        let site = Site::new();
        site.answers("batch", code, "", stderr);
        let SubmitAnswer::Refused {
            reason,
            hint,
            passing,
        } = site.submit()
        else {
            panic!("not refused: {stderr}");
        };
        let last = stderr.trim().lines().last().unwrap();
        let words = last.split_once(": ").unwrap().1;
        assert_eq!(reason, words[words.find(": ").unwrap() + 2..]);
        assert!(hint.is_some_and(|hint| hint.contains(next)), "{stderr}");
        assert_eq!(passing, passes, "{stderr}");
    }
}

#[test]
fn a_request_that_fails_before_it_starts_is_refused_and_its_trace_is_no_job() {
    let site = Site::new();
    let note =
        "unsatisfiable request: need 1 node(s) with 1 cores and 9 GPUs each, only 0 eligible";
    site.knows(&[failed("alloc", note)]);
    let SubmitAnswer::Refused { reason, hint, .. } = site.submit() else {
        panic!("not refused");
    };
    assert_eq!(reason, note);
    assert!(hint.is_some_and(|hint| hint.contains("flux resource list")));
    let found = site
        .flux()
        .find(&[Token(TOKEN.into())], Timestamp::UNIX_EPOCH);
    assert!(found.unwrap()[0].refused_trace);
}

#[test]
fn a_lost_answer_is_unclear_and_never_a_refusal() {
    for (code, stdout, stderr) in [
        (1, "", "flux-batch: ERROR: Connection reset by peer\n"),
        (1, "", ""),
        (0, "", ""),
        (1, "ƒK5kLxGw\n", "flux-batch: ERROR: something\n"),
    ] {
        let site = Site::new();
        site.answers("batch", code, stdout, stderr);
        let answer = site.submit();
        assert!(matches!(answer, SubmitAnswer::Unclear { .. }), "{answer:?}");
    }
    let site = Site::new();
    fs::write(site.path("batch.hang"), "").unwrap();
    let mut flux = site.flux().deadline(Duration::from_millis(400));
    let answer = flux.submit(&site.submission(), Timestamp::now());
    assert!(matches!(answer, SubmitAnswer::Unclear { .. }), "{answer:?}");
}

#[test]
fn a_token_is_looked_for_in_the_instance_that_it_was_submitted_to() {
    let site = Site::new();
    site.submit();
    site.knows(&[told(TOKEN, "RUN", ""), told("another", "RUN", "")]);
    // This process sits beside no instance.
    let found = site
        .flux()
        .find(&[Token(TOKEN.into())], Timestamp::UNIX_EPOCH);
    let found = found.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].cluster.as_deref(), Some(URI));
    let call = format!("jobs --json -a --count=0 --name={TOKEN} -- {URI}");
    assert_eq!(site.calls().last(), Some(&call));
    // Of a submission that never began nothing was written down.
    site.flux()
        .find(
            &[Token("oomctl-b-1-00000001".into())],
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
    assert!(site.calls().last().unwrap().ends_with(" -- system"));
}

#[test]
fn every_word_of_fluxs_for_a_state_has_one_of_ours() {
    let site = Site::new();
    let ended = |result: &str, more: &str| {
        told(
            TOKEN,
            "INACTIVE",
            &format!(r#", "result": "{result}"{more}"#),
        )
    };
    let lost = "node failure on fluke1 (rank 1)";
    let rows = [
        (told(TOKEN, "DEPEND", ""), JobState::Pending),
        (told(TOKEN, "PRIORITY", ""), JobState::Pending),
        (told(TOKEN, "SCHED", ""), JobState::Pending),
        (told(TOKEN, "RUN", ""), JobState::Running),
        (told(TOKEN, "CLEANUP", ""), JobState::Completing),
        (
            ended("COMPLETED", r#", "waitstatus": 0"#),
            JobState::Completed,
        ),
        (
            ended("FAILED", r#", "waitstatus": 35072"#),
            JobState::Failed,
        ),
        (ended("CANCELED", ""), JobState::Cancelled),
        (ended("TIMEOUT", ""), JobState::Timeout),
        (failed("exec", lost), JobState::NodeFail),
        (failed("exec", "job shell exec error"), JobState::Failed),
        (told(TOKEN, "NEW", ""), JobState::Unknown("NEW".to_owned())),
    ];
    for (job, state) in rows {
        site.knows(std::slice::from_ref(&job));
        let poll = site.poll(&mut site.flux());
        assert_eq!(poll.jobs[0].state, state, "{job}");
    }
    // One id alone is answered without a list.
    let job = ended(
        "FAILED",
        r#", "waitstatus": 35072, "nodelist": "fluke[0-1]", "t_run": 1795824861.5, "t_inactive": 1795824899.4"#,
    );
    site.answers("jobs", 0, &job, "");
    let poll = site.poll(&mut site.flux());
    let status = &poll.jobs[0];
    assert_eq!(
        status.exit,
        Some(ExitStatus {
            code: 137,
            signal: 0
        })
    );
    assert_eq!(status.nodes, ["fluke0", "fluke1"]);
    assert_eq!(
        status.started.map(Timestamp::as_second),
        Some(1_795_824_861)
    );
    assert_eq!(status.ended.map(Timestamp::as_second), Some(1_795_824_899));
}

#[test]
fn a_job_has_vanished_only_when_flux_said_twice_that_it_does_not_know_it() {
    let site = Site::new();
    let mut flux = site.flux();
    site.answers("jobs", 1, "", "JobID fK5kLxGw unknown\n");
    assert_eq!(site.poll(&mut flux), Poll::default());
    assert_eq!(
        site.poll(&mut flux).vanished,
        [JobId("fK5kLxGw".to_owned())]
    );
    // The id of another instance's job.
    let mut flux = site.flux();
    site.answers("jobs", 0, &told("another", "RUN", ""), "");
    assert_eq!(site.poll(&mut flux), Poll::default());
    // No answer says nothing.
    for (code, stdout, stderr) in [
        (
            1,
            "",
            "flux-jobs: ERROR: Unable to connect to Flux: broker socket /tmp/flux-a/local-0 was not found\n",
        ),
        (0, "", ""),
        (0, r#"{"jobs": 3}"#, ""),
        (0, r#"{"jobs": [{"jobid": "ƒK5kLxGw"}]}"#, ""),
    ] {
        site.answers("jobs", code, stdout, stderr);
        assert!(flux.poll(&[job()], Timestamp::now()).is_err(), "{stdout}");
    }
}

#[test]
fn only_the_job_that_is_meant_is_cancelled_and_only_while_it_lives() {
    let site = Site::new();
    let cancels = |site: &Site| {
        site.calls()
            .iter()
            .filter(|call| call.starts_with("cancel "))
            .count()
    };
    site.answers("jobs", 0, &told("another", "RUN", ""), "");
    site.flux().cancel(&job()).unwrap();
    site.answers(
        "jobs",
        0,
        &told(TOKEN, "INACTIVE", r#", "result": "COMPLETED""#),
        "",
    );
    site.flux().cancel(&job()).unwrap();
    assert_eq!(cancels(&site), 0);
    site.answers("jobs", 0, &told(TOKEN, "RUN", ""), "");
    site.flux().cancel(&job()).unwrap();
    // It ended meanwhile.
    site.answers(
        "cancel",
        1,
        "",
        "flux-cancel: ERROR: fK5kLxGw: job is inactive\n",
    );
    site.flux().cancel(&job()).unwrap();
    site.answers(
        "cancel",
        1,
        "",
        "flux-cancel: ERROR: Connection reset by peer\n",
    );
    assert!(site.flux().cancel(&job()).is_err());
    assert_eq!(cancels(&site), 3);
}

/// What a script's directives become, or why they are refused.
fn said(script: &str, options: &[&str]) -> Result<String, String> {
    let site = Site::new();
    fs::write(site.path("job.sh"), script).unwrap();
    let mut submission = site.submission();
    submission.options = options.iter().map(|o| (*o).to_owned()).collect();
    match site.flux().submit(&submission, Timestamp::now()) {
        SubmitAnswer::Accepted { .. } => {
            let call = site.calls()[0].clone();
            let words = call.strip_prefix("batch ").unwrap();
            Ok(words[..words.find("--job-name").unwrap()].trim().to_owned())
        }
        SubmitAnswer::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn slurms_directives_are_said_in_fluxs_words_or_refused_by_name() {
    let one = "--nodes=1 --nslots=1 --cores-per-slot=1";
    for (lines, words) in [
        ("", one.to_owned()),
        (
            "#SBATCH --gres=gpu:4 --cpus-per-task=8 --time=1:00:00",
            "--nodes=1 --nslots=1 --cores-per-slot=8 --gpus-per-slot=4 --time-limit=3600s"
                .to_owned(),
        ),
        (
            "#SBATCH -N2 --ntasks-per-node=4 --gpus-per-task=1 -c 3",
            "--nodes=2 --nslots=2 --cores-per-slot=12 --gpus-per-slot=4".to_owned(),
        ),
        (
            "#SBATCH -N2 --gpus=8 --tres-per-task=gres/gpu=4",
            "--nodes=2 --nslots=2 --cores-per-slot=1 --gpus-per-slot=4".to_owned(),
        ),
        (
            "#SBATCH -p batch -A lab -J x -o x.out --no-requeue",
            format!("{one} --queue=batch --bank=lab"),
        ),
        (
            "#SBATCH --exclude=n[1-2]\n#SBATCH --exclusive --hold",
            format!("{one} --requires=-host:n[1-2] --exclusive --urgency=hold"),
        ),
    ] {
        assert_eq!(
            said(&format!("#!/bin/bash\n{lines}\ntrue\n"), &[]),
            Ok(words),
            "{lines}"
        );
    }
    for (lines, reason) in [
        (
            "#SBATCH --mem=64G",
            "--mem=64G in line 2 has no counterpart in Flux",
        ),
        (
            "#SBATCH --gres=gpu:a100:4",
            "--gres=gpu:a100:4 in line 2 has no counterpart in Flux, which counts GPUs of any type",
        ),
        ("#SBATCH --nodes=2-4", "--nodes=2-4 in line 2 is no number"),
        ("#SBATCH -N2 --gpus=3", "3 GPUs cannot be shared by 2 nodes"),
        (
            "srun python train.py",
            "srun in line 2 is Slurm's: `flux run` starts programs on the nodes of a job",
        ),
    ] {
        assert_eq!(
            said(&format!("#!/bin/bash\n{lines}\ntrue\n"), &[]),
            Err(reason.to_owned())
        );
    }
    assert_eq!(
        said("#!/bin/bash\ntrue\n", &["--qos=high"]),
        Err("--qos=high has no counterpart in Flux".to_owned())
    );
}

#[test]
fn a_script_with_fluxs_own_directives_is_left_to_flux() {
    let own = "#!/bin/bash\n# flux: -N2 -n2\n#SBATCH --mem=64G\nsrun true\n";
    assert_eq!(said(own, &[]), Ok(String::new()));
    assert_eq!(
        said(own, &["--partition=batch"]),
        Ok("--queue=batch".to_owned())
    );
}
