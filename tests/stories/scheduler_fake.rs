//! The Slurm backend against scripted commands: what sites, versions and outages make of their
//! answers, one at a time. Texts as Slurm 22.05 printed them on our own cluster (tests/slurm).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use oomctl::core::request::StartForecast;
use oomctl::io::scheduler::slurm::{Deadlines, Slurm};
use oomctl::io::scheduler::{ArrayTasks, JobSubmission, Poll, Scheduler, SubmitAnswer};
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, JobStatus, Token};
use oomctl_base::word_list;

const TOKEN: &str = "oomctl-grpo-1-00c0ffee";

/// A folder of commands, each of which prints what it was told to and notes how it was called.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in ["sbatch", "squeue", "sacct", "scontrol", "scancel"] {
            site.install(name);
            site.answers(name, 0, "", "");
        }
        site.answers("scontrol", 1, "", UNKNOWN_ID);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn install(&self, name: &str) {
        let at = self.folder.path().display();
        let script = format!(
            "#!/bin/bash\nprintf '%s\\n' \"$@\" >>{at}/{name}.argv\necho -- >>{at}/{name}.argv\n\
             /usr/bin/env -0 >{at}/{name}.env\n\
             /bin/cat {at}/{name}.stdout\n/bin/cat {at}/{name}.stderr >&2\n\
             [ ! -f {at}/{name}.hang ] || /bin/sleep 60\nexit $(<{at}/{name}.rc)\n"
        );
        // Put in place by another process: a file that this process has open for writing while
        // another test forks cannot be executed ("text file busy").
        let source = self.path(&format!("{name}.source"));
        fs::write(&source, script).unwrap();
        let install = std::process::Command::new("install")
            .args(["-m", "755"])
            .args([&source, &self.path(name)])
            .status();
        assert!(install.unwrap().success());
    }

    fn answers(&self, name: &str, code: i32, stdout: &str, stderr: &str) {
        fs::write(self.path(&format!("{name}.rc")), code.to_string()).unwrap();
        fs::write(self.path(&format!("{name}.stdout")), stdout).unwrap();
        fs::write(self.path(&format!("{name}.stderr")), stderr).unwrap();
    }

    fn hangs(&self, name: &str) {
        fs::write(self.path(&format!("{name}.hang")), "").unwrap();
    }

    /// The calls of a command so far, each as its arguments.
    fn calls(&self, name: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.path(&format!("{name}.argv"))).unwrap_or_default();
        let mut calls = vec![Vec::new()];
        for line in text.lines() {
            match line {
                "--" => calls.push(Vec::new()),
                word => calls.last_mut().unwrap().push(word.to_owned()),
            }
        }
        calls.pop();
        calls
    }

    /// The environment of a command's last call.
    fn environment(&self, name: &str) -> BTreeMap<String, String> {
        let bytes = fs::read(self.path(&format!("{name}.env"))).unwrap();
        bytes
            .split(|byte| *byte == 0)
            .filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn slurm(&self) -> Slurm {
        Slurm::with_path(self.folder.path()).deadlines(Deadlines {
            submit: Duration::from_secs(20),
            test: Duration::from_secs(20),
            controller: Duration::from_secs(20),
            accounting: Duration::from_secs(20),
        })
    }

    fn impatient(&self) -> Slurm {
        Slurm::with_path(self.folder.path()).deadlines(Deadlines {
            submit: Duration::from_millis(400),
            test: Duration::from_millis(400),
            controller: Duration::from_millis(400),
            accounting: Duration::from_millis(400),
        })
    }

    fn submission(&self) -> JobSubmission {
        let at = self.folder.path();
        JobSubmission {
            script: at.join("job.sbatch"),
            token: Token(TOKEN.to_owned()),
            workdir: at.to_path_buf(),
            stdout: at.join("slurm-1.out"),
            stderr: at.join("slurm-1.err"),
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            options: Vec::new(),
            arguments: Vec::new(),
            export: None,
            time_limit_s: None,
            tasks: None,
            gpu: None,
        }
    }
}

#[test]
fn an_array_is_one_submission_whose_logs_lie_in_a_folder_for_each_task() {
    let site = Site::new();
    site.answers("sbatch", 0, "17\n", "");
    let at = site.folder.path().join("100%/array-1");
    fs::create_dir_all(at.join("0")).unwrap();
    let submission = JobSubmission {
        stdout: at.join("0/slurm.out"),
        stderr: at.join("0/slurm.err"),
        tasks: Some(ArrayTasks {
            indices: "0-3,7".to_owned(),
            at_once: Some(2),
            folder: at.clone(),
        }),
        ..site.submission()
    };
    let answer = site.slurm().submit(&submission, now(0));
    assert!(
        matches!(answer, SubmitAnswer::Accepted { .. }),
        "{answer:?}"
    );
    let words = &site.calls("sbatch")[0];
    assert!(words.contains(&"--array=0-3,7%2".to_owned()), "{words:?}");
    let folder = at.display().to_string().replace('%', "%%");
    assert!(
        words.contains(&format!("--output={folder}/%a/slurm.out")),
        "{words:?}"
    );
    // A task is cancelled by its id, under the array's name.
    let token = Token(TOKEN.to_owned());
    let task = JobRef {
        token: Some(token.task(7)),
        ..ours("17_7")
    };
    site.slurm().cancel(&task).unwrap();
    assert_eq!(
        site.calls("scancel")[0],
        [format!("--name={TOKEN}"), "17_7".to_owned()]
    );
    site.slurm().find(&[token.task(7)], now(0)).unwrap();
    let asked = &site.calls("squeue")[0];
    assert!(asked.contains(&format!("{TOKEN},{TOKEN}_7")), "{asked:?}");
}

fn now(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_235_000 + seconds).unwrap()
}

fn ours(id: &str) -> JobRef {
    JobRef {
        id: JobId(id.to_owned()),
        cluster: None,
        token: Some(Token(TOKEN.to_owned())),
        submitted: now(0),
    }
}

fn foreign(id: &str) -> JobRef {
    JobRef {
        token: None,
        ..ours(id)
    }
}

fn queued(id: &str, state: &str) -> String {
    exited(id, state, 0)
}

/// The same, with an exit as wait(2) gives it.
fn exited(id: &str, state: &str, exit: i32) -> String {
    format!(
        "{id}|{id}|{state}|{exit}|0|0|1795235001|1795235002|1795235900|node[1-2]|None|{TOKEN}|{TOKEN}\n"
    )
}

fn accounted(id: &str, state: &str, exit: &str) -> String {
    format!(
        "{id}|{id}|{state}|{exit}|{exit}|1795235001|1795235002|1795235900|node1|None||||{TOKEN}\n"
    )
}

fn controlled(id: &str, state: &str, exit: &str) -> String {
    format!(
        "JobId={id} JobName={TOKEN}\n   JobState={state} Reason=NonZeroExitCode Dependency=(null)\n   \
         Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode={exit}\n   DerivedExitCode=0:0\n   \
         StartTime=1795235002 EndTime=1795235900 Deadline=N/A\n   NodeList=node1\n"
    )
}

const UNKNOWN_ID: &str = "slurm_load_jobs error: Invalid job id specified\n";

fn unclear(answer: &SubmitAnswer) -> bool {
    matches!(answer, SubmitAnswer::Unclear { .. })
}

// ---- submission ---------------------------------------------------------------------------------

#[test]
fn a_submission_carries_its_token_and_its_log_paths_before_the_script() {
    let site = Site::new();
    site.answers("sbatch", 0, "4711\n", "");
    let mut submission = site.submission();
    submission.options = vec!["--partition=gpu".to_owned(), "-Alab".to_owned()];
    submission.stdout = site.path("50%j.out");
    let answer = site.slurm().submit(&submission, now(0));
    assert_eq!(
        answer,
        SubmitAnswer::Accepted {
            id: JobId("4711".into()),
            cluster: None
        }
    );
    let at = site.folder.path().display();
    let expected = [
        "--partition=gpu".to_owned(),
        "-Alab".to_owned(),
        "--parsable".to_owned(),
        format!("--job-name={TOKEN}"),
        format!("--comment={TOKEN}"),
        format!("--chdir={at}"),
        format!("--output={at}/50%%j.out"),
        format!("--error={at}/slurm-1.err"),
        "--open-mode=append".to_owned(),
        "--export=ALL".to_owned(),
        format!("{at}/job.sbatch"),
    ];
    assert_eq!(site.calls("sbatch"), [expected]);
}

#[test]
fn banners_around_the_id_and_a_named_cluster_are_understood() {
    let site = Site::new();
    site.answers(
        "sbatch",
        0,
        "** Welcome to Stampede3 **\n2 jobs left today\n4712;oomtest\nBye\n",
        "sbatch: lua: note\n",
    );
    let answer = site.slurm().submit(&site.submission(), now(0));
    let expected = SubmitAnswer::Accepted {
        id: JobId("4712".into()),
        cluster: Some("oomtest".into()),
    };
    assert_eq!(answer, expected);
}

#[test]
fn the_job_gets_exactly_its_own_environment_and_sbatch_no_inherited_settings() {
    let site = Site::new();
    site.answers("sbatch", 0, "1\n", "");
    let inherited = word_list::<4>(
        "SBATCH_PARTITION=nope SLURM_MEM_PER_CPU=9 HOME=/elsewhere SLURM_CONF=/etc/other.conf",
    );
    let inherited = inherited.map(|entry| entry.split_once('=').unwrap());
    let inherited: Vec<(OsString, OsString)> = inherited
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let mut submission = site.submission();
    for (name, value) in [
        ("GREETING", "a,b \"$(id)\"\nc"),
        ("SBATCH_QOS", "x"),
        ("SLURM_JOB_ID", "3"),
    ] {
        submission
            .environment
            .insert(name.to_owned(), value.to_owned());
    }
    site.slurm()
        .inheriting(inherited)
        .submit(&submission, now(0));
    let mut seen = site.environment("sbatch");
    // What bash adds to the environment of the scripted command.
    for added in ["_", "PWD", "SHLVL", "OLDPWD"] {
        seen.remove(added);
    }
    let expected = [
        ("GREETING", "a,b \"$(id)\"\nc"),
        ("PATH", "/usr/bin:/bin"),
        ("SLURM_CONF", "/etc/other.conf"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(seen, BTreeMap::from(expected));
}

#[test]
fn a_hostile_environment_does_not_reach_the_commands_that_ask() {
    let site = Site::new();
    let inherited = [
        ("SQUEUE_STATES", "PENDING"),
        ("SLURM_CLUSTERS", "zzz"),
        ("SACCT_FORMAT", "jobid"),
        ("SLURM_TIME_FORMAT", "relative"),
        ("LC_ALL", "de_DE"),
        ("TZ", "Asia/Tokyo"),
        ("PATH", "/usr/bin"),
    ];
    let inherited = inherited
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
    let _ = site
        .slurm()
        .inheriting(inherited)
        .poll(&[ours("1")], now(0));
    for command in ["squeue", "sacct"] {
        let seen = site.environment(command);
        for gone in ["SQUEUE_STATES", "SLURM_CLUSTERS", "SACCT_FORMAT"] {
            assert!(!seen.contains_key(gone), "{command} saw {gone}");
        }
        assert_eq!(seen["SLURM_TIME_FORMAT"], "%s");
        assert_eq!(
            (seen["LC_ALL"].as_str(), seen["TZ"].as_str()),
            ("C", "Asia/Tokyo")
        );
    }
}

#[test]
fn a_refusal_has_slurms_words_and_a_hint_and_exit_code_255_is_one_too() {
    let site = Site::new();
    let cases = [
        (
            1,
            "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "Invalid partition name specified",
            "sinfo -s",
        ),
        (
            255,
            "sbatch: unrecognized option '--gpu-flavour'\nTry \"sbatch --help\" for more information\n",
            "--gpu-flavour",
            "--sbatch",
        ),
    ];
    for (code, stderr, words, step) in cases {
        site.answers("sbatch", code, "", stderr);
        let SubmitAnswer::Refused { reason, hint, .. } =
            site.slurm().submit(&site.submission(), now(0))
        else {
            panic!("not refused: {stderr}");
        };
        assert!(reason.contains(words), "{reason}");
        assert!(hint.unwrap().contains(step));
    }
}

#[test]
fn a_missing_folder_is_refused_before_sbatch_is_asked() {
    let site = Site::new();
    site.answers("sbatch", 0, "4711\n", "");
    let mut no_workdir = site.submission();
    no_workdir.workdir = site.path("gone");
    let mut no_logs = site.submission();
    no_logs.stderr = site.path("gone/x.err");
    let mut bare_word = site.submission();
    bare_word.options = vec!["other.sh".to_owned()];
    for (submission, words) in [
        (no_workdir, "gone"),
        (no_logs, "gone"),
        (bare_word, "other.sh"),
    ] {
        let SubmitAnswer::Refused { reason, .. } = site.slurm().submit(&submission, now(0)) else {
            panic!("not refused");
        };
        assert!(reason.contains(words), "{reason}");
    }
    assert_eq!(site.calls("sbatch").len(), 0);
}

#[test]
fn sbatch_that_hangs_dies_or_says_no_id_leaves_the_outcome_unclear() {
    let site = Site::new();
    for (code, stdout, stderr) in [
        (0, "Submitted batch job 4711\n", ""),
        (0, "", ""),
        (
            1,
            "",
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
        ),
        (
            1,
            "",
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
        ),
        (127, "", "sbatch: command not found\n"),
    ] {
        site.answers("sbatch", code, stdout, stderr);
        let answer = site.slurm().submit(&site.submission(), now(0));
        assert!(unclear(&answer), "{code} {stdout:?} {stderr:?}: {answer:?}");
    }
    site.answers("sbatch", 0, "4711\n", "");
    site.hangs("sbatch");
    let started = Instant::now();
    assert!(unclear(
        &site.impatient().submit(&site.submission(), now(0))
    ));
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "the deadline was not kept"
    );
}

#[test]
fn without_sbatch_a_submission_is_refused() {
    let site = Site::new();
    fs::remove_file(site.path("sbatch")).unwrap();
    let answer = site.slurm().submit(&site.submission(), now(0));
    assert!(
        matches!(answer, SubmitAnswer::Refused { hint: Some(_), .. }),
        "{answer:?}"
    );
}

#[test]
fn a_forecast_is_the_start_that_test_only_names() {
    let site = Site::new();
    let ask = |code, stderr: &str| {
        site.answers("sbatch", code, "", stderr);
        site.slurm().forecast(&site.submission())
    };
    let at = |second| {
        Ok(Some(StartForecast::At(
            jiff::Timestamp::from_second(second).unwrap(),
        )))
    };
    // As Slurm 22.05 and 26.05 print it, behind a site's banner.
    let sentence =
        "Job 7 to start at 1795235211 using 1 processors on nodes node1 in partition debug";
    assert_eq!(
        ask(0, &format!("a banner\nsbatch: {sentence}\n")),
        at(1_795_235_211)
    );
    assert!(site.calls("sbatch")[0].contains(&"--test-only".to_owned()));
    let preempted = format!("sbatch: {sentence}\nsbatch:   Preempts: 3,4\n");
    assert_eq!(ask(0, &preempted), at(1_795_235_211));
    let refused = "allocation failure: Requested node configuration is not available";
    let why = "Requested node configuration is not available".to_owned();
    assert_eq!(
        ask(1, &format!("{refused}\n")),
        Ok(Some(StartForecast::Refused(why)))
    );
    // A controller that is away, words that no Slurm says, a time that is none.
    for unknown in [
        "allocation failur",
        "sbatch: error: Unable to contact slurm controller\n",
        "Job 7 to start at N/A using",
        "Job 7 to start",
        "",
    ] {
        assert_eq!(ask(0, unknown), Ok(None), "{unknown}");
    }
}

// ---- finding by token ---------------------------------------------------------------------------

#[test]
fn a_lost_submission_is_found_in_the_queue_by_its_token() {
    let site = Site::new();
    site.answers("squeue", 0, &queued("4711", "PENDING"), "");
    let found = site
        .slurm()
        .find(&[Token(TOKEN.into()), Token("other".into())], now(0))
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].status.id.0.as_str(), found[0].token.0.as_str()),
        ("4711", TOKEN)
    );
    assert_eq!(found[0].submitted, Some(now(1)));
    assert!(!found[0].refused_trace);
    let call = &site.calls("squeue")[0];
    assert!(call.contains(&"--me".to_owned()) && call.contains(&format!("{TOKEN},other")));
}

#[test]
fn a_job_that_only_accounting_knows_is_found_there_and_asked_for_from_before_the_intent() {
    let site = Site::new();
    site.answers("sacct", 0, &accounted("4711", "FAILED", "1:0"), "");
    let found = site.slurm().find(&[Token(TOKEN.into())], now(0)).unwrap();
    assert_eq!(found[0].status.state, JobState::Failed);
    let start = format!("--starttime=uts{}", now(0).as_second() - 3_600);
    assert!(site.calls("sacct")[0].contains(&start));
    // Else a job that was cancelled while it was held is not told of.
    let states = |word: &String| word.starts_with("--state=BF,CA,");
    assert!(site.calls("sacct")[0].iter().any(states));
}

#[test]
fn the_trace_of_a_refused_submission_is_marked_as_such() {
    let site = Site::new();
    let line = queued("4711", "FAILED").replace("|None|", "|BadConstraints|");
    site.answers("squeue", 0, &line, "");
    let found = site.slurm().find(&[Token(TOKEN.into())], now(0)).unwrap();
    assert!(found[0].refused_trace);
}

#[test]
fn nothing_is_known_when_queue_or_accounting_does_not_answer() {
    let site = Site::new();
    site.answers(
        "sacct",
        1,
        "",
        "sacct: error: Problem talking to the database: Connection refused\n",
    );
    let error = site
        .slurm()
        .find(&[Token(TOKEN.into())], now(0))
        .unwrap_err();
    assert_eq!(error.command, "sacct");
    site.answers(
        "squeue",
        1,
        "",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
    );
    let error = site
        .slurm()
        .find(&[Token(TOKEN.into())], now(0))
        .unwrap_err();
    assert_eq!(error.command, "squeue");
}

#[test]
fn without_accounting_the_queue_alone_decides() {
    let site = Site::new();
    site.answers("sacct", 1, "", "Slurm accounting storage is disabled\n");
    let mut slurm = site.slurm();
    for _ in 0..3 {
        assert_eq!(slurm.find(&[Token(TOKEN.into())], now(0)).unwrap(), []);
    }
    assert_eq!(site.calls("sacct").len(), 1, "the answer is remembered");
}

#[test]
fn a_job_of_another_name_is_not_found() {
    let site = Site::new();
    site.answers(
        "squeue",
        0,
        &queued("4711", "RUNNING").replace(TOKEN, &format!("{TOKEN}0")),
        "",
    );
    assert_eq!(
        site.slurm().find(&[Token(TOKEN.into())], now(0)).unwrap(),
        []
    );
}

// ---- polling ------------------------------------------------------------------------------------

#[test]
fn many_live_jobs_cost_one_call() {
    let site = Site::new();
    let lines: String = (1..=500)
        .map(|id| queued(&id.to_string(), "RUNNING"))
        .collect();
    site.answers("squeue", 0, &lines, "");
    let jobs: Vec<JobRef> = (1..=500).map(|id| ours(&id.to_string())).collect();
    let poll = site.slurm().poll(&jobs, now(0)).unwrap();
    assert_eq!(poll.jobs.len(), 500);
    assert_eq!(poll.jobs[0].nodes, ["node1", "node2"]);
    let calls = ["squeue", "sacct", "scontrol"].map(|command| site.calls(command).len());
    assert_eq!(calls, [1, 0, 0]);
}

#[test]
fn ten_thousand_jobs_cost_as_many_calls_as_one() {
    let site = Site::new();
    let lines: String = (1..=10_000)
        .map(|id| match id % 100 {
            0 => exited(&id.to_string(), "FAILED", 256),
            1 => exited(&id.to_string(), "COMPLETED", 0),
            _ => queued(&id.to_string(), "RUNNING"),
        })
        .collect();
    site.answers("squeue", 0, &lines, "");
    let jobs: Vec<JobRef> = (1..=10_000).map(|id| ours(&id.to_string())).collect();
    let poll = site.slurm().poll(&jobs, now(0)).unwrap();
    assert_eq!(poll.jobs.len(), 10_000);
    let failed = |status: &&JobStatus| status.state == JobState::Failed;
    let exits: Vec<_> = poll.jobs.iter().filter(failed).map(|s| s.exit).collect();
    assert_eq!(exits, [Some(ExitStatus { code: 1, signal: 0 }); 100]);
    let calls = ["squeue", "sacct", "scontrol"].map(|command| site.calls(command).len());
    assert_eq!(
        calls,
        [1, 1, 0],
        "sacct is asked once who cancelled and which steps failed"
    );
    assert!(site.calls("squeue")[0].contains(&"--me".to_owned()));
}

#[test]
fn ids_are_asked_for_in_batches_where_a_job_may_be_somebody_elses() {
    let site = Site::new();
    let jobs: Vec<JobRef> = (1..=2_000).map(|id| foreign(&id.to_string())).collect();
    let _ = site.slurm().poll(&jobs, now(0)).unwrap();
    assert_eq!(site.calls("squeue").len(), 2);
    assert!(!site.calls("squeue")[0].contains(&"--me".to_owned()));
}

#[test]
fn accounting_is_asked_once_how_long_the_earlier_parts_of_a_living_job_ran() {
    let site = Site::new();
    let restarted =
        |times: u32| queued("9", "RUNNING").replace("|0|0|0|", &format!("|0|0|{times}|"));
    let part = |state: &str, end: &str| {
        format!("9|9|{state}|0:0|0:0|1795235000|1795235000|{end}|node1|None||||{TOKEN}\n")
    };
    let known = part("NODE_FAIL", "1795235300") + &accounted("9", "RUNNING", "0:0");
    site.answers("squeue", 0, &restarted(1), "");
    site.answers("sacct", 0, &known, "");
    let mut slurm = site.slurm();
    for second in [0, 30] {
        let poll = slurm.poll(&[ours("9")], now(second)).unwrap();
        assert_eq!(poll.jobs[0].ran_before_s, Some(300));
    }
    assert_eq!(site.calls("sacct").len(), 1);
    // Accounting does not tell of the latest restart yet: what it tells is not all.
    site.answers("squeue", 0, &restarted(2), "");
    let poll = slurm.poll(&[ours("9")], now(60)).unwrap();
    assert_eq!(poll.jobs[0].ran_before_s, None);
}

#[test]
fn an_ended_job_comes_with_the_exit_code_of_the_controller_and_what_only_sacct_knows() {
    let site = Site::new();
    // 137 as wait(2) gives it; sacct makes 9 of it.
    let line = exited("9", "FAILED", 35_072).replace("|35072|0|0|", "|35072|0|1|");
    site.answers("squeue", 0, &line, "");
    let step = "9.0|9.0|OUT_OF_MEMORY|0:125||1|1|2|node1|||||python\n";
    site.answers("sacct", 0, &(accounted("9", "FAILED", "9:0") + step), "");
    let poll = site.slurm().poll(&[ours("9")], now(0)).unwrap();
    let status = &poll.jobs[0];
    assert_eq!(
        status.exit,
        Some(ExitStatus {
            code: 137,
            signal: 0
        })
    );
    assert_eq!((status.restarts, status.step_out_of_memory), (1, true));
    assert_eq!(status.ended.unwrap(), now(900));
}

#[test]
fn an_ended_job_is_told_of_although_accounting_hangs_and_sacct_is_left_alone_for_a_while() {
    let site = Site::new();
    site.answers("squeue", 0, &queued("9", "FAILED"), "");
    site.answers("scontrol", 0, &controlled("9", "FAILED", "1:0"), "");
    site.hangs("sacct");
    let mut slurm = site.slurm().deadlines(Deadlines {
        accounting: Duration::from_millis(400),
        ..Deadlines::default()
    });
    for second in [0, 30] {
        let poll = slurm.poll(&[ours("9")], now(second)).unwrap();
        assert_eq!(poll.jobs[0].exit, Some(ExitStatus { code: 1, signal: 0 }));
    }
    assert_eq!(site.calls("sacct").len(), 1);
    assert_eq!(
        site.calls("scontrol").len(),
        2,
        "the queue had no exit code"
    );
}

#[test]
fn a_job_that_left_the_queue_is_told_of_by_accounting() {
    let site = Site::new();
    site.answers("squeue", 0, "", "");
    site.answers("sacct", 0, &accounted("9", "CANCELLED by 1000", "0:0"), "");
    let poll = site.slurm().poll(&[ours("9")], now(0)).unwrap();
    assert_eq!(poll.jobs[0].state, JobState::Cancelled);
    assert_eq!(poll.jobs[0].cancelled_by.as_deref(), Some("1000"));
    assert_eq!(poll.vanished, []);
}

#[test]
fn failed_late_and_unreadable_answers_are_no_verdict() {
    let site = Site::new();
    for stderr in [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        "slurm_load_jobs error: Socket timed out on send/recv operation\n",
        "slurm_load_jobs error: Rate limit exceeded, please retry later\n",
    ] {
        site.answers("squeue", 1, "", stderr);
        let error = site.slurm().poll(&[ours("9")], now(0)).unwrap_err();
        assert!(error.to_string().contains(stderr.trim()), "{error}");
    }
    site.answers("squeue", 0, &queued("9", "RUNNING"), "");
    site.hangs("squeue");
    assert!(site.impatient().poll(&[ours("9")], now(0)).is_err());
}

#[test]
fn an_unknown_state_stays_unknown() {
    let site = Site::new();
    site.answers("squeue", 0, &queued("9", "TELEPORTED"), "");
    let poll = site.slurm().poll(&[ours("9")], now(0)).unwrap();
    assert_eq!(poll.jobs[0].state, JobState::Unknown("TELEPORTED".into()));
}

#[test]
fn accounting_is_ahead_of_a_job_whose_processes_still_end() {
    let site = Site::new();
    site.answers("sacct", 0, &accounted("9", "TIMEOUT", "0:0"), "");
    site.answers("scontrol", 0, &controlled("9", "COMPLETING", "0:0"), "");
    let mut slurm = site.slurm();
    let poll = slurm.poll(&[ours("9")], now(901)).unwrap();
    assert_eq!(poll.jobs[0].state, JobState::Completing);
    // An hour later nobody asks the controller any more.
    let poll = slurm.poll(&[ours("9")], now(900 + 3_601)).unwrap();
    assert_eq!(poll.jobs[0].state, JobState::Timeout);
}

#[test]
fn a_job_that_the_queue_leaves_out_is_not_vanished_while_the_controller_knows_it() {
    let site = Site::new();
    site.answers("scontrol", 0, &controlled("9", "RUNNING", "0:0"), "");
    let mut slurm = site.slurm();
    for second in [0, 20, 40] {
        let poll = slurm.poll(&[ours("9")], now(second)).unwrap();
        assert_eq!(poll.vanished, [], "at {second} s");
    }
}

#[test]
fn a_job_is_vanished_only_when_all_stay_silent_for_a_while() {
    let site = Site::new();
    let mut slurm = site.slurm();
    site.answers("squeue", 0, &queued("9", "RUNNING"), "");
    assert_eq!(slurm.poll(&[ours("9")], now(0)).unwrap().jobs.len(), 1);
    site.answers("squeue", 0, "", "");
    for second in [10, 12, 20] {
        let poll = slurm.poll(&[ours("9")], now(second)).unwrap();
        assert_eq!(
            (poll.jobs.len(), poll.vanished.len()),
            (0, 0),
            "at {second} s"
        );
    }
    let poll = slurm.poll(&[ours("9")], now(30)).unwrap();
    assert_eq!(poll.vanished, [JobId("9".into())]);
    assert_eq!(poll.jobs[0].state, JobState::Unknown("PURGED".into()));
    assert_eq!(
        poll.jobs[0].nodes,
        ["node1", "node2"],
        "what was last known stays"
    );
}

#[test]
fn silence_of_a_broken_accounting_does_not_count() {
    let site = Site::new();
    let mut slurm = site.slurm();
    site.answers("squeue", 0, "", "");
    site.answers("scontrol", 1, "", UNKNOWN_ID);
    site.answers(
        "sacct",
        1,
        "",
        "sacct: error: slurm_persist_conn_open: Connection refused\n",
    );
    for second in [0, 100, 200] {
        let poll = slurm.poll(&[ours("9")], now(second)).unwrap();
        assert_eq!((poll.jobs.len(), poll.vanished.len()), (0, 0));
    }
}

#[test]
fn an_answer_in_between_starts_the_silence_anew() {
    let site = Site::new();
    let mut slurm = site.slurm();
    for (second, known) in [(0, false), (10, true), (20, false), (30, false)] {
        match known {
            true => site.answers("squeue", 0, &queued("9", "RUNNING"), ""),
            false => site.answers("squeue", 0, "", ""),
        }
        let poll = slurm.poll(&[ours("9")], now(second)).unwrap();
        assert_eq!(poll.vanished.len(), 0, "at {second} s");
    }
}

#[test]
fn without_accounting_scontrol_tells_of_a_job_and_a_purged_one_is_vanished() {
    let site = Site::new();
    let mut slurm = site.slurm();
    site.answers("sacct", 1, "", "Slurm accounting storage is disabled\n");
    site.answers("scontrol", 0, &controlled("9", "FAILED", "3:0"), "");
    let poll = slurm.poll(&[ours("9")], now(0)).unwrap();
    assert_eq!(poll.jobs[0].exit, Some(ExitStatus { code: 3, signal: 0 }));
    site.answers("scontrol", 1, "", UNKNOWN_ID);
    assert_eq!(slurm.poll(&[ours("9")], now(10)).unwrap().vanished, []);
    assert_eq!(
        slurm.poll(&[ours("9")], now(40)).unwrap().vanished,
        [JobId("9".into())]
    );
}

#[test]
fn a_task_of_an_array_that_is_cancelled_while_it_waits_leaves_no_trace_and_is_cancelled() {
    let site = Site::new();
    let mut slurm = site.slurm();
    let task = JobRef {
        token: Some(Token(TOKEN.to_owned()).task(3)),
        ..ours("17_3")
    };
    let row = format!("17_3|17|PENDING|0|0|0|1795235000|N/A|N/A||Resources|{TOKEN}|{TOKEN}\n");
    site.answers("squeue", 0, &row, "");
    let jobs = [task];
    assert_eq!(
        slurm.poll(&jobs, now(0)).unwrap().jobs[0].state,
        JobState::Pending
    );
    // The others of the array are known still.
    site.answers("squeue", 0, "", "");
    // As 22.05 says it, and as 26.05 does.
    for (stdout, stderr) in [("Job 17_3 not found\n", ""), ("", "Job 17_3 not found\n")] {
        let mut slurm = slurm.clone();
        site.answers("scontrol", 1, stdout, stderr);
        assert_eq!(slurm.poll(&jobs, now(5)).unwrap(), Poll::default());
        let poll = slurm.poll(&jobs, now(25)).unwrap();
        assert_eq!(
            (poll.jobs[0].state.clone(), poll.vanished.len()),
            (JobState::Cancelled, 0)
        );
    }
    // Without accounting it may as well have run and been forgotten.
    let mut plain = site.slurm();
    site.answers("sacct", 1, "", "Slurm accounting storage is disabled\n");
    site.answers("squeue", 0, &row, "");
    plain.poll(&jobs, now(0)).unwrap();
    site.answers("squeue", 0, "", "");
    plain.poll(&jobs, now(5)).unwrap();
    assert_eq!(
        plain.poll(&jobs, now(25)).unwrap().vanished,
        [JobId("17_3".to_owned())]
    );
}

#[test]
fn a_waiting_task_is_not_given_up_while_a_record_of_several_stands_for_it() {
    let site = Site::new();
    let mut slurm = site.slurm();
    let task = JobRef {
        token: Some(Token(TOKEN.to_owned()).task(3)),
        ..ours("17_3")
    };
    let row =
        |id: &str| format!("{id}|17|PENDING|0|0|0|1795235000|N/A|N/A||Resources|{TOKEN}|{TOKEN}\n");
    let jobs = [task];
    // squeue that does not take the array apart.
    site.answers("squeue", 0, &row("17_[2-6%2]"), "");
    let poll = slurm.poll(&jobs, now(0)).unwrap();
    assert_eq!(
        (poll.jobs[0].id.0.as_str(), &poll.jobs[0].state),
        ("17_3", &JobState::Pending)
    );
    // One that leaves the task out: the controller has it among the others.
    let shared = controlled("17", "PENDING", "0:0")
        .replace("Restarts=1", "Restarts=0")
        .replace("JobId=17", "JobId=17 ArrayJobId=17 ArrayTaskId=2-6%2");
    site.answers("scontrol", 0, &shared, "");
    for (second, left) in [(5, ""), (25, ""), (60, ""), (90, "17_[4-6%2]")] {
        let text = if left.is_empty() {
            String::new()
        } else {
            row(left)
        };
        site.answers("squeue", 0, &text, "");
        let poll = slurm.poll(&jobs, now(second)).unwrap();
        let ended = |s: &&JobStatus| s.state != JobState::Pending;
        assert_eq!(poll.jobs.iter().find(ended), None, "at {second} s");
        assert_eq!(poll.vanished, [], "at {second} s");
    }
    // The record of the others no longer holds it: it was cancelled.
    let shared = shared.replace("ArrayTaskId=2-6%2", "ArrayTaskId=4-6%2");
    site.answers("scontrol", 0, &shared, "");
    slurm.poll(&jobs, now(95)).unwrap();
    let poll = slurm.poll(&jobs, now(120)).unwrap();
    assert_eq!(poll.jobs[0].state, JobState::Cancelled);
}

#[test]
fn a_lost_array_is_found_while_its_tasks_wait_in_one_record() {
    let site = Site::new();
    let array = Token(TOKEN.to_owned());
    let row =
        format!("17_[2-6%2]|17|PENDING|0|0|0|1795235000|N/A|N/A||Resources|{TOKEN}|{TOKEN}\n");
    site.answers("squeue", 0, &row, "");
    let tokens = [array.task(3), array.task(4), array.task(7)];
    let found = site.slurm().find(&tokens, now(0)).unwrap();
    let ids: Vec<&str> = found.iter().map(|f| f.status.id.0.as_str()).collect();
    assert_eq!(ids, ["17_3", "17_4"]);
    assert_eq!(found[0].token, tokens[0]);
}

#[test]
fn a_record_of_several_tasks_of_another_name_stands_for_none_of_ours() {
    let site = Site::new();
    let task = JobRef {
        token: Some(Token(TOKEN.to_owned()).task(3)),
        ..ours("17_3")
    };
    let row = "17_[2-6%2]|17|PENDING|0|0|0|1795235000|N/A|N/A||Resources|theirs|theirs\n";
    site.answers("squeue", 0, row, "");
    assert_eq!(site.slurm().poll(&[task], now(0)).unwrap().jobs, []);
}

#[test]
fn a_heterogeneous_job_has_ended_when_its_last_component_has() {
    let site = Site::new();
    let mut slurm = site.slurm();
    let component = |n: u32, state: &str, exit: i32| {
        let line =
            exited("28+0", state, exit).replacen("28+0|28+0", &format!("28+{n}|{}", 28 + n), 1);
        // Only the first section of the script has our name.
        if n == 0 {
            line
        } else {
            line.replace(TOKEN, "other")
        }
    };
    for (first, second, expected) in [
        (("RUNNING", 0), ("RUNNING", 0), "RUNNING"),
        (("FAILED", 256), ("COMPLETING", 0), "COMPLETING"),
        (("COMPLETED", 0), ("OUT_OF_MEMORY", 125), "OUT_OF_MEMORY"),
        (("FAILED", 256), ("CANCELLED", 15), "FAILED"),
        (("COMPLETED", 0), ("COMPLETED", 0), "COMPLETED"),
    ] {
        let text = component(0, first.0, first.1) + &component(1, second.0, second.1);
        site.answers("squeue", 0, &text, "");
        let poll = slurm.poll(&[ours("28")], now(0)).unwrap();
        assert_eq!(
            (poll.jobs[0].state.word(), poll.jobs[0].id.0.as_str()),
            (expected, "28")
        );
    }
}

#[test]
fn what_another_watch_heard_tells_of_the_living_only() {
    let site = Site::new();
    let folder = site.folder.path().join("runtime");
    let watch = || site.slurm().sharing_answers_in(&folder);
    let (mut first, mut second) = (watch(), watch());
    site.answers(
        "squeue",
        0,
        &(queued("8", "RUNNING") + &queued("9", "RUNNING")),
        "",
    );
    let calls = || site.calls("squeue").len();
    let state = |slurm: &mut Slurm, id: &str| {
        let poll = slurm.poll(&[ours(id)], now(0)).unwrap();
        poll.jobs.first().map(|status| status.state.clone())
    };
    // Who begins asks.
    assert_eq!(state(&mut first, "8"), Some(JobState::Running));
    assert_eq!(state(&mut second, "9"), Some(JobState::Running));
    assert_eq!(calls(), 2);
    // What is told of a job that has ended, or is missing, was asked for by who tells it.
    site.answers("squeue", 0, &exited("8", "FAILED", 256), "");
    assert_eq!(state(&mut second, "9"), None);
    assert_eq!(calls(), 3);
    assert_eq!(state(&mut first, "8"), Some(JobState::Failed));
    assert_eq!(calls(), 4);
}

#[test]
fn a_controller_that_says_nothing_with_exit_code_0_is_no_answer() {
    let site = Site::new();
    site.answers("scontrol", 0, "", "");
    let mut slurm = site.slurm();
    site.answers("sacct", 1, "", "Slurm accounting storage is disabled\n");
    for second in [0, 100, 200] {
        let poll = slurm.poll(&[ours("9")], now(second)).unwrap();
        assert_eq!((poll.jobs.len(), poll.vanished.len()), (0, 0));
    }
}

#[test]
fn a_reused_id_is_not_our_job() {
    let site = Site::new();
    let mut slurm = site.slurm();
    site.answers(
        "squeue",
        0,
        &queued("9", "RUNNING").replace(TOKEN, "theirs"),
        "",
    );
    let poll = slurm.poll(&[ours("9"), foreign("9")], now(0)).unwrap();
    assert_eq!(
        poll.jobs.len(),
        1,
        "only the reference without a token means this job"
    );
    let poll = slurm.poll(&[ours("9")], now(60)).unwrap();
    assert_eq!(poll.vanished, [JobId("9".into())]);
    let note = "the id now belongs to another job";
    assert_eq!(poll.jobs[0].reason.as_deref(), Some(note));
}

#[test]
fn a_reused_id_hides_no_record_of_ours_in_accounting() {
    let site = Site::new();
    site.answers(
        "squeue",
        0,
        &queued("9", "RUNNING").replace(TOKEN, "theirs"),
        "",
    );
    let theirs = accounted("9", "RUNNING", "0:0")
        .replace(TOKEN, "theirs")
        .replace("1795235001", "1795235700");
    site.answers(
        "sacct",
        0,
        &(accounted("9", "TIMEOUT", "0:0") + &theirs),
        "",
    );
    let poll = site.slurm().poll(&[ours("9")], now(0)).unwrap();
    assert_eq!(poll.jobs[0].state, JobState::Timeout);
}

#[test]
fn an_id_that_was_given_again_is_another_job() {
    // The minute of the submission, the restarts that were known, and whether it is another job.
    for (submitted, restarts, known, other) in [
        (0, 0, 0, false),
        (600, 0, 0, true),
        (600, 1, 0, false),
        (600, 1, 1, true),
        (5, 0, 0, false),
    ] {
        let site = Site::new();
        let told = controlled("9", "RUNNING", "0:0")
            .replace("Restarts=1", &format!("Restarts={restarts}"))
            .replace(TOKEN, "theirs");
        let at = now(submitted * 60).as_second();
        site.answers("scontrol", 0, &format!("{told}   SubmitTime={at}\n"), "");
        let told = (submitted, restarts, known);
        assert_eq!(
            site.slurm().has_given_again(&foreign("9"), known),
            other,
            "{told:?}"
        );
        assert!(site.slurm().has_given_again(&ours("9"), known), "{told:?}");
    }
    let site = Site::new();
    site.answers("scontrol", 0, &controlled("9", "RUNNING", "0:0"), "");
    assert!(!site.slurm().has_given_again(&ours("9"), 0), "our token");
    site.answers("scontrol", 1, "", UNKNOWN_ID);
    assert!(!site.slurm().has_given_again(&foreign("9"), 0));
}

#[test]
fn a_live_state_that_only_accounting_believes_in_is_a_leftover() {
    let site = Site::new();
    let mut slurm = site.slurm();
    site.answers("sacct", 0, &accounted("9", "RUNNING", "0:0"), "");
    assert_eq!(slurm.poll(&[ours("9")], now(0)).unwrap().jobs, []);
    assert_eq!(
        slurm.poll(&[ours("9")], now(20)).unwrap().vanished,
        [JobId("9".into())]
    );
}

#[test]
fn jobs_of_two_clusters_are_asked_for_where_they_are() {
    let site = Site::new();
    site.answers(
        "squeue",
        0,
        &(queued("8", "RUNNING") + &queued("9", "RUNNING")),
        "",
    );
    let other = JobRef {
        cluster: Some("oomtest".into()),
        ..ours("9")
    };
    let poll = site
        .slurm()
        .poll(&[ours("8"), other.clone()], now(0))
        .unwrap();
    assert_eq!(poll.jobs.len(), 2);
    let calls = site.calls("squeue");
    assert_eq!(calls.len(), 2);
    assert!(!calls[0].contains(&"-M".to_owned()));
    assert_eq!(calls[1][..2], ["-M".to_owned(), "oomtest".to_owned()]);
    site.slurm().cancel(&other).unwrap();
    assert_eq!(
        site.calls("scancel")[0][..2],
        ["-M".to_owned(), "oomtest".to_owned()]
    );
}

#[test]
fn a_text_that_is_no_job_id_never_reaches_a_command() {
    let site = Site::new();
    let hostile = foreign("--help");
    assert_eq!(
        site.slurm()
            .poll(&[hostile.clone(), foreign("4711 4712")], now(0))
            .unwrap()
            .jobs,
        []
    );
    assert!(site.slurm().cancel(&hostile).is_err());
    let words: Vec<String> = ["squeue", "sacct", "scontrol", "scancel"]
        .iter()
        .flat_map(|command| site.calls(command).concat())
        .collect();
    assert!(
        !words
            .iter()
            .any(|word| word.contains("--help") || word.contains("4711")),
        "{words:?}"
    );
}

// ---- cancelling ---------------------------------------------------------------------------------

#[test]
fn scancel_compares_the_name_itself_and_an_ended_job_is_no_error() {
    let site = Site::new();
    for (code, stderr) in [
        (0, ""),
        (
            1,
            "scancel: error: Kill job error on job id 9: Invalid job id specified\n",
        ),
        (
            1,
            "scancel: error: Kill job error on job id 9: Job/step already completing or completed\n",
        ),
    ] {
        site.answers("scancel", code, "", stderr);
        site.slurm().cancel(&ours("9")).unwrap();
    }
    assert_eq!(
        site.calls("scancel")[0],
        [format!("--name={TOKEN}"), "9".to_owned()]
    );
}

#[test]
fn several_jobs_are_cancelled_in_one_call_where_the_queue_shows_them_under_their_names() {
    let site = Site::new();
    let stranger = queued("10", "RUNNING").replace(TOKEN, "somebody-else");
    let queue = queued("8", "RUNNING") + &queued("9", "PENDING") + &stranger;
    site.answers("squeue", 0, &queue, "");
    let over = "scancel: error: Kill job error on job id 8: Invalid job id specified\n";
    site.answers("scancel", 1, "", over);
    let jobs = ["8", "9", "10", "11"].map(ours);
    let answers = site.slurm().cancel_all(&jobs);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let name = format!("--name={TOKEN}");
    let expected: [&[&str]; 3] = [&["8", "9"], &[&name, "10"], &[&name, "11"]];
    assert_eq!(site.calls("scancel"), expected);
    // One that could not be told is no success of the others.
    let denied = "scancel: error: Kill job error on job id 9: Access/permission denied\n";
    site.answers("scancel", 1, "", &format!("{over}{denied}"));
    let answers = site.slurm().cancel_all(&jobs[..2]);
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
}

#[test]
fn a_thousand_jobs_go_into_a_call() {
    let site = Site::new();
    let ids: Vec<String> = (1..=1_500).map(|id| id.to_string()).collect();
    let queue: String = ids.iter().map(|id| queued(id, "RUNNING")).collect();
    site.answers("squeue", 0, &queue, "");
    site.answers("scancel", 0, "", "");
    let jobs: Vec<JobRef> = ids.iter().map(|id| ours(id)).collect();
    assert!(site.slurm().cancel_all(&jobs).iter().all(Result::is_ok));
    let lengths: Vec<usize> = site.calls("scancel").iter().map(Vec::len).collect();
    assert_eq!(lengths, [1_000, 500]);
}

#[test]
fn a_cancel_that_did_not_arrive_is_said() {
    let site = Site::new();
    for (code, stderr) in [
        (
            8,
            "scancel: error: slurm_kill_job2() failed Unable to contact slurm controller (connect failure)\n",
        ),
        (
            140,
            "scancel: error: Socket timed out on send/recv operation\n",
        ),
        (
            1,
            "scancel: error: Kill job error on job id 9: Access/permission denied\n",
        ),
    ] {
        site.answers("scancel", code, "", stderr);
        let error = site.slurm().cancel(&ours("9")).unwrap_err();
        assert!(
            error.detail.contains(&format!("exit code {code}")),
            "{error}"
        );
    }
}

// ---- logs of other people's jobs ----------------------------------------------------------------

#[test]
fn the_logs_of_a_foreign_job_are_where_scontrol_says() {
    let site = Site::new();
    let text = controlled("9", "RUNNING", "0:0")
        + "   WorkDir=/home/ada\n   StdErr=\n   StdOut=logs/%x-%5j.out\n";
    site.answers("scontrol", 0, &text, "");
    let expected = Path::new("/home/ada").join(format!("logs/{TOKEN}-00009.out"));
    assert_eq!(
        site.slurm().log_paths(&foreign("9")),
        Some((expected.clone(), expected))
    );
    site.answers("scontrol", 1, "", UNKNOWN_ID);
    assert_eq!(site.slurm().log_paths(&foreign("9")), None);
}
