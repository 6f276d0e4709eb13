//! The PBS backend against scripted commands: what outages and states make of its answers, one at a time. Answers in the form of
//! OpenPBS 23.06, as its own server printed them (tests/pbs).

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use oomctl::io::scheduler::pbs::Pbs;
use oomctl::io::scheduler::{JobSubmission, Poll, Scheduler, SubmitAnswer};
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, Token};
use oomctl_base::units::Bytes;

use super::scripted::ScriptedCommands;

const TOKEN: &str = "oomctl-grpo-1-00c0ffee";
const UNKNOWN: &str = "qstat: Unknown Job Id 12.pbsnode\n";
const NO_HISTORY: &str = "qstat: PBS is not configured to maintain job history 12.pbsnode\n";

/// A PBS that prints what it was told to.
struct Site {
    commands: ScriptedCommands,
}

impl Site {
    fn new() -> Self {
        let names = ["qsub", "qstat", "qselect", "qdel"];
        // The server's answers have a key of their own.
        let key = "\"${0##*/}\"; [ \"$1\" != -B ] || key=server";
        let commands = ScriptedCommands::new(&names, key, "${TZ:-here}");
        let site = Self { commands };
        site.keeps_history("True");
        site.answers("qsub", 0, "12.pbsnode\n", "");
        site.answers("qselect", 0, "", "");
        site.answers("qdel", 0, "", "");
        site.knows(&[]);
        fs::write(
            site.commands.path("job.sh"),
            "#!/bin/bash\n#PBS -l ncpus=1\ntrue\n",
        )
        .unwrap();
        site
    }

    fn answers(&self, command: &str, code: i32, stdout: &str, stderr: &str) {
        self.commands.answers(command, code, stdout, stderr);
    }

    fn keeps_history(&self, word: &str) {
        let server = format!(
            r#"{{"pbs_version": "23.06.06", "pbs_server": "pbsnode", "Server": {{"pbsnode": {{"job_history_enable": "{word}"}}}}}}"#
        );
        self.answers("server", 0, &server, "");
    }

    fn knows(&self, jobs: &[String]) {
        let jobs = match jobs.is_empty() {
            true => String::new(),
            false => format!(r#", "Jobs": {{{}}}"#, jobs.join(", ")),
        };
        let stdout = format!(r#"{{"timestamp": 1795925520, "pbs_server": "pbsnode"{jobs}}}"#);
        self.answers("qstat", 0, &stdout, "");
    }

    fn pbs(&self) -> Pbs {
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let folder = self.commands.folder();
        let pbs = Pbs::new(folder).with_path(folder.into(), environment);
        pbs.deadline(Duration::from_secs(60))
    }

    fn submission(&self) -> JobSubmission {
        JobSubmission {
            script: self.commands.path("job.sh"),
            token: Token(TOKEN.to_owned()),
            workdir: self.commands.folder().to_path_buf(),
            stdout: self.commands.path("slurm.out"),
            stderr: self.commands.path("slurm.err"),
            environment: BTreeMap::new(),
            options: Vec::new(),
            arguments: Vec::new(),
            export: None,
            time_limit_s: None,
            gpu: None,
            tasks: None,
        }
    }

    fn submit(&self) -> SubmitAnswer {
        self.pbs().submit(&self.submission(), Timestamp::now())
    }

    fn poll(&self, pbs: &mut Pbs) -> Poll {
        pbs.poll(&[job()], Timestamp::now()).unwrap()
    }

    fn find(&self) -> Result<Vec<JobId>, String> {
        let found = self
            .pbs()
            .find(&[Token(TOKEN.into())], Timestamp::UNIX_EPOCH);
        let ids = found.map(|found| found.into_iter().map(|job| job.status.id).collect());
        ids.map_err(|error| error.to_string())
    }

    fn calls_of(&self, command: &str) -> Vec<String> {
        let mut calls = self.commands.calls();
        calls.retain(|call| call.split(' ').next() == Some(command));
        calls
    }
}

fn job() -> JobRef {
    JobRef {
        id: JobId("12.pbsnode".to_owned()),
        cluster: None,
        token: Some(Token(TOKEN.to_owned())),
        submitted: Timestamp::UNIX_EPOCH,
    }
}

/// A job as `qstat -f -F json` writes it, with what its state adds.
fn told(name: &str, state: &str, more: &str) -> String {
    format!(
        r#""12.pbsnode": {{"Job_Name": "{name}", "job_state": "{state}", "ctime": "Sun Nov 29 04:26:42 2026",
            "Variable_List": {{"MULTI": "a\nb"}}, "Hold_Types": "n"{more}}}"#
    )
}

#[test]
fn a_submission_names_the_token_and_the_logs_and_is_noted_first() {
    let site = Site::new();
    let accepted = SubmitAnswer::Accepted {
        id: JobId("12.pbsnode".to_owned()),
        cluster: None,
    };
    assert_eq!(site.submit(), accepted);
    let at = site.commands.folder().display();
    assert_eq!(
        site.calls_of("qsub"),
        [format!(
            "qsub -f -V -koed -N{TOKEN} -o{at}/slurm.out -jn -e{at}/slurm.err {at}/job.sh -- here"
        )]
    );
    let noted = fs::read_to_string(site.commands.path(&format!(".oomctl/pbs/{TOKEN}")));
    assert_eq!(noted.unwrap(), "pbsnode");
}

#[test]
fn a_refusal_has_pbss_reason_and_the_next_step() {
    for (code, stderr, reason, next, passes) in [
        (
            170,
            "qsub: Unknown queue\n",
            "Unknown queue",
            "qstat -Q",
            false,
        ),
        (
            173,
            "qsub: Queue is not enabled\n",
            "Queue is not enabled",
            "qstat -Q",
            true,
        ),
        (
            187,
            "qsub: Unknown resource: nope\n",
            "Unknown resource: nope",
            "pbsnodes -a",
            false,
        ),
        (
            188,
            "qsub: Job violates queue and/or server resource limits\n",
            "Job violates queue and/or server resource limits",
            "qstat -Qf",
            false,
        ),
        (
            162,
            "Connection refused\nqsub: cannot connect to server pbsnode (errno=15010)\n",
            "cannot connect to server pbsnode (errno=15010)",
            "qstat -B",
            true,
        ),
        (
            1,
            "qsub: invalid option -- 'Z'\nqsub: directive error: -Z foo \n\n",
            "invalid option -- 'Z'; directive error: -Z foo",
            "qsub(1B)",
            false,
        ),
        (
            2,
            "qsub: illegal -W value\nusage: qsub [-a date_time] [-A account_string]\n",
            "illegal -W value",
            "qsub(1B)",
            false,
        ),
    ] {
        let site = Site::new();
        site.answers("qsub", code, "", stderr);
        let SubmitAnswer::Refused {
            reason: said,
            hint,
            passing,
        } = site.submit()
        else {
            panic!("not refused: {stderr}");
        };
        assert_eq!(said, reason);
        assert!(hint.is_some_and(|hint| hint.contains(next)), "{stderr}");
        assert_eq!(passing, passes, "{stderr}");
    }
}

#[test]
fn nothing_is_sent_to_a_server_that_keeps_no_history_or_does_not_answer() {
    let site = Site::new();
    site.keeps_history("False");
    let SubmitAnswer::Refused { hint, passing, .. } = site.submit() else {
        panic!("not refused");
    };
    assert!(hint.is_some_and(|hint| hint.contains("job_history_enable=True")) && !passing);
    site.answers(
        "server",
        2,
        "",
        "qstat: cannot connect to server pbsnode (errno=15010)\n",
    );
    assert!(matches!(
        site.submit(),
        SubmitAnswer::Refused { passing: true, .. }
    ));
    assert!(site.calls_of("qsub").is_empty());
}

#[test]
fn a_lost_answer_is_unclear_and_never_a_refusal() {
    for (code, stdout, stderr) in [
        (183, "", "qsub: Error (15031) submitting job\n"),
        (1, "", "qsub: End of File\n"),
        (1, "", ""),
        (0, "", ""),
        (1, "12.pbsnode\n", "qsub: something\n"),
    ] {
        let site = Site::new();
        site.answers("qsub", code, stdout, stderr);
        let answer = site.submit();
        assert!(matches!(answer, SubmitAnswer::Unclear { .. }), "{answer:?}");
    }
}

#[test]
fn a_token_is_looked_for_at_the_server_that_it_was_submitted_to_and_among_ended_jobs() {
    let site = Site::new();
    site.submit();
    assert_eq!(site.find(), Ok(Vec::new()));
    assert_eq!(
        site.calls_of("qselect"),
        [format!("qselect -x -N {TOKEN} -q@pbsnode -- UTC")]
    );
    site.answers("qselect", 0, "12.pbsnode\n", "");
    site.knows(&[told(TOKEN, "F", r#", "Exit_status": 0"#)]);
    assert_eq!(site.find(), Ok(vec![job().id]));
    // A server without history says so, and ends with 0.
    site.answers("qselect", 0, "", &NO_HISTORY.replace("qstat", "qselect"));
    assert!(site.find().is_err());
    site.answers("qselect", 0, "12.pbsnode\n", "");
    site.answers("qstat", 153, r#"{"pbs_server": "pbsnode"}"#, UNKNOWN);
    assert!(site.find().is_err());
}

#[test]
fn every_word_of_pbss_for_a_state_has_one_of_ours() {
    let site = Site::new();
    let ended = |exit: i32, substate: u32| {
        told(
            TOKEN,
            "F",
            &format!(r#", "Exit_status": {exit}, "substate": {substate}"#),
        )
    };
    let rows = [
        (told(TOKEN, "Q", ""), JobState::Pending),
        (told(TOKEN, "H", ""), JobState::Pending),
        (told(TOKEN, "R", ""), JobState::Running),
        (told(TOKEN, "S", ""), JobState::Suspended),
        (told(TOKEN, "E", ""), JobState::Completing),
        (ended(0, 92), JobState::Completed),
        (ended(3, 93), JobState::Failed),
        (ended(-29, 93), JobState::Timeout),
        (ended(-27, 93), JobState::OutOfMemory),
        (ended(-20, 93), JobState::NodeFail),
        (ended(-1, 93), JobState::BootFail),
        (ended(-27, 91), JobState::OutOfMemory),
        (ended(271, 91), JobState::Cancelled),
        (told(TOKEN, "F", r#", "substate": 91"#), JobState::Cancelled),
        (told(TOKEN, "M", ""), JobState::Unknown("M".to_owned())),
    ];
    for (job, state) in rows {
        site.knows(std::slice::from_ref(&job));
        assert_eq!(site.poll(&mut site.pbs()).jobs[0].state, state, "{job}");
    }
    site.knows(&[told(
        TOKEN,
        "F",
        r#", "Exit_status": 265, "substate": 93, "exec_host": "n1/0*8+n1/1*8+n2/0", "run_count": 2, "stime": "Sun Nov  8 04:26:42 2026",
            "obittime": "Sun Nov 29 04:26:45 2026", "resources_used": {"mem": "261996kb", "cput": "00:00:00", "walltime": "00:00:02"},
            "Resource_List": {"mem": "50mb", "ncpus": 4}, "comment": "Job run at Sun Nov 29 at 04:26 on (n1:ncpus=1) and failed""#,
    )]);
    let mut pbs = site.pbs();
    let poll = site.poll(&mut pbs);
    let status = &poll.jobs[0];
    assert_eq!(status.exit, Some(ExitStatus { code: 0, signal: 9 }));
    assert_eq!(
        (status.nodes.as_slice(), status.restarts),
        (["n1".to_owned(), "n2".to_owned()].as_slice(), 1)
    );
    assert_eq!(
        status.started.map(Timestamp::as_second),
        Some(1_794_112_002)
    );
    assert_eq!(status.ended.map(Timestamp::as_second), Some(1_795_926_405));
    let used = pbs.host_use(&[job()])[0].1;
    assert_eq!(used.memory_peak, Some(Bytes(261_996 << 10)));
    assert_eq!(used.memory_given, Some(Bytes(50 << 20)));
    assert_eq!((used.cpu_s, used.cpu_given_s), (None, Some(8)));
}

#[test]
fn a_job_has_vanished_only_when_pbs_said_twice_that_it_does_not_know_it() {
    let site = Site::new();
    let mut pbs = site.pbs();
    let none = r#"{"pbs_server": "pbsnode"}"#;
    site.answers("qstat", 153, none, UNKNOWN);
    assert_eq!(site.poll(&mut pbs), Poll::default());
    assert_eq!(site.poll(&mut pbs).vanished, [job().id]);
    // No answer says nothing.
    for (code, stdout, stderr) in [
        (0, none, NO_HISTORY),
        (
            255,
            "",
            "qstat: cannot connect to server pbsnode (errno=15010)\n",
        ),
        (0, "", ""),
        (0, r#"{"pbs_server": "pbsnode", "Jobs": 3}"#, ""),
        (
            0,
            r#"{"pbs_server": "pbsnode", "Jobs": {"12.pbsnode": {}}}"#,
            "",
        ),
    ] {
        site.answers("qstat", code, stdout, stderr);
        assert!(pbs.poll(&[job()], Timestamp::now()).is_err(), "{stdout}");
    }
}

#[test]
fn only_the_job_that_is_meant_is_cancelled_and_only_while_it_lives() {
    let site = Site::new();
    for other in [
        told("another", "R", ""),
        told(TOKEN, "F", r#", "Exit_status": 0"#),
    ] {
        site.knows(&[other]);
        site.pbs().cancel(&job()).unwrap();
    }
    assert!(site.calls_of("qdel").is_empty());
    site.knows(&[told(TOKEN, "R", "")]);
    site.pbs().cancel(&job()).unwrap();
    // It ended meanwhile.
    site.answers("qdel", 35, "", "qdel: Job has finished 12.pbsnode\n");
    site.pbs().cancel(&job()).unwrap();
    site.answers(
        "qdel",
        1,
        "",
        "qdel: cannot connect to server pbsnode (errno=15010)\n",
    );
    assert!(site.pbs().cancel(&job()).is_err());
}

/// What a script's directives become, or why they are refused.
fn said(script: &str, options: &[&str]) -> Result<String, String> {
    let site = Site::new();
    fs::write(site.commands.path("job.sh"), script).unwrap();
    let mut submission = site.submission();
    submission.options = options.iter().map(|o| (*o).to_owned()).collect();
    match site.pbs().submit(&submission, Timestamp::now()) {
        SubmitAnswer::Accepted { .. } => {
            let call = site.calls_of("qsub")[0].clone();
            let words = call.strip_prefix("qsub -f -V -koed ").unwrap();
            Ok(words[..words.find("-N").unwrap()].trim().to_owned())
        }
        SubmitAnswer::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn slurms_directives_are_said_in_pbss_words_or_refused_by_name() {
    let one = "-lselect=1:ncpus=1:mpiprocs=1";
    for (lines, words) in [
        ("", one.to_owned()),
        (
            "#SBATCH --gres=gpu:4 --cpus-per-task=8 --time=1:00:00 --mem=64G",
            "-lselect=1:ncpus=8:mpiprocs=1:ngpus=4:mem=65536mb -lwalltime=3600".to_owned(),
        ),
        (
            "#SBATCH -N2 --ntasks-per-node=4 --gpus-per-task=1 -c 3 --mem-per-cpu=2000",
            "-lselect=2:ncpus=12:mpiprocs=4:ngpus=4:mem=24000mb -lplace=scatter".to_owned(),
        ),
        (
            "#SBATCH -p batch -A lab -J x -o x.out --no-requeue --exclusive -d afterok:7",
            format!("{one} -lplace=excl -qbatch -Alab -rn -Wdepend=afterok:7"),
        ),
    ] {
        let script = format!("#!/bin/bash\n{lines}\ntrue\n");
        assert_eq!(said(&script, &[]), Ok(words), "{lines}");
    }
    for (lines, reason) in [
        (
            "#SBATCH --qos=high",
            "--qos=high in line 2 has no counterpart in PBS",
        ),
        (
            "#SBATCH --mem=0",
            "--mem=0 in line 2 has no counterpart in PBS",
        ),
        (
            "#SBATCH --gres=gpu:a100:4",
            "--gres=gpu:a100:4 in line 2 has no counterpart in PBS, which counts GPUs of any type",
        ),
        ("#PBS -J 1-10", "-J in line 2: job arrays are Slurm's"),
        (
            "srun python train.py",
            "srun in line 2 is Slurm's: `mpirun` or `pbsdsh` starts programs on the nodes of a job",
        ),
    ] {
        let script = format!("#!/bin/bash\n{lines}\ntrue\n");
        assert_eq!(said(&script, &[]), Err(reason.to_owned()));
    }
}

#[test]
fn a_script_with_pbss_own_directives_is_left_to_pbs() {
    let own = "#!/bin/bash\n#PBS -l select=2:ncpus=8\n#SBATCH --qos=high\nsrun true\n";
    assert_eq!(said(own, &[]), Ok(String::new()));
    assert_eq!(said(own, &["--partition=batch"]), Ok("-qbatch".to_owned()));
    let replaced = "--gpus=2 would replace what the script's `#PBS` lines ask for";
    assert_eq!(said(own, &["--gpus=2"]), Err(replaced.to_owned()));
    // Behind the first command they are comments for PBS.
    let late = "#!/bin/bash\ntrue\n#PBS -l ncpus=8\n";
    assert_eq!(
        said(late, &[]),
        Ok("-lselect=1:ncpus=1:mpiprocs=1".to_owned())
    );
}

#[test]
fn a_script_that_is_not_pbss_is_started_in_its_folder_with_its_arguments() {
    let site = Site::new();
    fs::write(site.commands.path("job.sh"), "#!/usr/bin/env python3\n").unwrap();
    let mut submission = site.submission();
    submission.arguments = vec!["a b".to_owned()];
    site.pbs().submit(&submission, Timestamp::now());
    let at = site.commands.folder().display();
    let start = "/bin/sh -c cd -- \"$1\" && shift && exec \"$@\" oomctl";
    let end = format!("-- {start} {at} /usr/bin/env python3 {at}/job.sh a b -- here");
    let call = &site.calls_of("qsub")[0];
    assert!(call.ends_with(&end), "{call}");
    fs::write(
        site.commands.path("job.sh"),
        "#!/bin/bash\n#PBS -l ncpus=1\n",
    )
    .unwrap();
    assert!(matches!(
        site.pbs().submit(&submission, Timestamp::now()),
        SubmitAnswer::Refused { .. }
    ));
}
