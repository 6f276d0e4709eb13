//! Runs in the pipelines of CI systems: what is left for them to read, and what becomes of runs when they are cancelled.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::place::{Done, Place, Started};
use super::slurm::Slurm;
use super::weaver;
use oomctl_base::word_list;

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/ci/train.sh");

/// A place that believes itself on a runner of GitHub's.
fn on_github(place: &mut Place) {
    place.set("GITHUB_ACTIONS", "true");
    place.set("GITHUB_WORKSPACE", &place.root.display().to_string());
    for file in ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"] {
        let path = place.path(file);
        fs::write(&path, "before\n").unwrap();
        place.set(file, &path.display().to_string());
    }
}

/// Lines that the runner would obey.
fn commands(done: &Done) -> Vec<&str> {
    let obeyed = |line: &&str| line.trim_start().starts_with("::") || line.contains("##[");
    let lines = done.out.lines().chain(done.err.lines());
    lines.filter(obeyed).collect()
}

/// The variables of a dotenv report.
fn dotenv(place: &Place) -> Vec<(String, String)> {
    let text = place.read("oomctl.env");
    let pairs = text.lines().map(|line| line.split_once('=').unwrap());
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The script of the example, in a place, with these words.
fn script(place: &Place, words: &[&str]) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_oomctl"));
    let mut command = Command::new(SCRIPT);
    place.at_home(&mut command);
    let path = command.get_envs().find(|(name, _)| *name == "PATH");
    let path = path.and_then(|(_, value)| value).unwrap().to_owned();
    let folder = program.parent().unwrap().display();
    command
        .args(words)
        .env("PATH", format!("{folder}:{}", path.to_string_lossy()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn on_github_each_failure_is_annotated_at_its_line_and_the_report_is_the_summary() {
    let mut place = weaver::project("");
    on_github(&mut place);
    let done = place.run(&[&WATCH[..], &["--run", "w"]].concat()).ends(0);
    let lines = commands(&done);
    assert_eq!(lines.len(), 2, "{}", done.told());
    for (attempt, line) in [(2, lines[0]), (1, lines[1])] {
        // The run succeeded in the end: nobody needs to look.
        let start = format!(
            "::warning file=.oomctl/runs/w/attempt-{attempt}/slurm.err,line=3,title=w attempt {attempt}::GPU 0 ran out \
             of memory"
        );
        assert!(line.starts_with(&start), "{line}");
    }
    let summary = place.read("GITHUB_STEP_SUMMARY");
    assert!(
        summary.starts_with("before\n# w\n\n**succeeded**"),
        "{summary}"
    );
    assert!(summary.contains("| threads | 8 | 4 | same math |"));
    let outputs = place.read("GITHUB_OUTPUT");
    assert!(outputs.starts_with("before\nrun=w\n"), "{outputs}");
    assert!(
        outputs.ends_with("run=w\njob=3\nstate=succeeded\nattempts=3\nexit-code=0\n"),
        "{outputs}"
    );
}

#[test]
fn no_text_of_a_log_is_a_command_and_a_summary_that_cannot_be_written_is_a_warning() {
    let mut place = weaver::project("");
    on_github(&mut place);
    place.set("GITHUB_STEP_SUMMARY", "/no/such/folder/summary");
    let forged = "\u{1b}[31m::error::forged ##[error]forged";
    let trainer = format!(
        "#!/bin/bash\nprintf 'Traceback (most recent call last):\\nKeyError: x\\n{forged}\\n' >&2\nprintf '{forged}\\nwoven 1 of 3\\n'\nexit 1\n"
    );
    place.write("trainer.sh", &trainer);
    let done = place.run(&[&WATCH[..], &["--run", "w"]].concat()).ends(1);
    done.says(&["warning: cannot write /no/such/folder/summary"]);
    let ours =
        |line: &&str| line.starts_with("::error title=w ") || line.starts_with("::error file=");
    assert!(commands(&done).iter().all(ours), "{}", done.told());
    // The logs themselves are shown as they are asked for, and obeyed no more than anything else.
    let shown = place.run(&["diagnose", "w"]);
    assert_eq!(commands(&shown), Vec::<&str>::new(), "{}", shown.told());
    let json = place.run(&["status", "w", "--json"]);
    assert_eq!(commands(&json), Vec::<&str>::new(), "{}", json.told());
    json.json();
}

#[test]
fn reports_say_what_the_exit_code_says() {
    let mut place = weaver::project("");
    place.set("WEAVER", "fits 0");
    let files = word_list::<6>("--junit j.xml --code-quality q.json --dotenv oomctl.env");
    let done = place.run(&[&WATCH[..], &["--run", "w"], &files].concat());
    let done = done.ends(3);
    assert_eq!(commands(&done), Vec::<&str>::new(), "{}", done.told());
    let junit = place.read("j.xml");
    let attempts = place.run(&["status", "w", "--json"]).json()["runs"][0]["attempts"]
        .as_array()
        .unwrap()
        .len();
    let failures = format!("failures=\"{}\"", attempts + 1);
    assert_eq!(junit.matches(&failures).count(), 2, "{junit}");
    let quality: serde_json::Value = serde_json::from_str(&place.read("q.json")).unwrap();
    assert_eq!(quality.as_array().unwrap().len(), attempts);
    assert_eq!(
        quality[0]["location"]["path"],
        ".oomctl/runs/w/attempt-1/slurm.err"
    );
    assert_eq!(quality[0]["severity"], "critical");
    let variables = dotenv(&place);
    assert!(variables.contains(&("OOMCTL_EXIT_CODE".into(), "3".into())));
    assert!(variables.contains(&("OOMCTL_STATE".into(), "exhausted".into())));
}

#[test]
fn the_next_pipeline_goes_on_with_the_run_of_one_that_was_killed() {
    let mut place = weaver::project("");
    place.set("WEAVER", "wait");
    let before = ["nightly-1", "--backend", "local"];
    let first = Started {
        child: {
            use std::os::unix::process::CommandExt;
            script(&place, &before).process_group(0).spawn().unwrap()
        },
    };
    place.wait_for_fact("nightly-1", "submitted");
    first.kill();
    // Killed, it has left what the next job needs.
    assert_eq!(dotenv(&place)[0], ("OOMCTL_RUN".into(), "nightly-1".into()));
    place.write("go", "");
    let run = dotenv(&place).remove(0).1;
    let done: Done = script(&place, &[&run]).output().unwrap().into();
    let done = done.ends(0);
    let submitted = place.facts("nightly-1");
    let submitted = submitted.iter().filter(|f| f["fact"] == "submitted");
    assert_eq!(submitted.count(), 1, "{}", done.told());
    // One that is over says so again.
    let again: Done = script(&place, &[&run]).output().unwrap().into();
    again.ends(0);
    assert!(place.read("oomctl-junit.xml").contains("failures=\"0\""));
}

#[test]
fn the_script_of_the_example_runs_before_slurm() {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    let done: Done = script(&place, &["nightly-2"]).output().unwrap().into();
    let done = done.ends(0);
    assert_eq!(slurm.accepted(), [1, 2, 3], "{}", done.told());
    assert!(dotenv(&place).contains(&("OOMCTL_JOB".into(), "103".into())));
}

#[test]
fn an_interruption_detaches_or_cancels_as_asked_and_is_on_disk_before_the_job_is_told() {
    for (what, signal, code) in [
        ("detach", Signal::TERM, 143),
        ("cancel", Signal::INT, 130),
        ("cancel", Signal::TERM, 143),
    ] {
        let mut place = weaver::project("");
        place.set("WEAVER", "sleep");
        let words = [
            "--run",
            "w",
            "--on-interrupt",
            what,
            "--dotenv",
            "oomctl.env",
        ];
        let watch = place.start(&[&WATCH[..], &words].concat());
        place.wait_for("the program", || place.has("child.1"));
        watch.signal(signal);
        let done = watch.end().ends(code);
        let cancelled = place.has(".oomctl/runs/w/cancel-requested");
        assert_eq!(cancelled, what == "cancel", "{}", done.told());
        let sent = place.facts("w").iter().any(|f| f["fact"] == "cancel_sent");
        assert_eq!(sent, what == "cancel", "{}", done.told());
        let exit = ("OOMCTL_EXIT_CODE".into(), code.to_string());
        assert!(dotenv(&place).contains(&exit));
        if what == "cancel" {
            done.says(&["interrupted; the jobs are being cancelled"]);
            place.run(&["watch", "w"]).ends(9);
        } else {
            done.says(&["Detached. The jobs go on; "]);
            place.run(&["cancel", "w"]).ends(0);
        }
    }
}

#[test]
fn several_runs_are_cancelled_in_one_call() {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    for (number, run) in ["a", "b", "c"].iter().enumerate() {
        slurm.tell(&format!("state.{}", number + 1), "RUNNING 0:0\n");
        place.run(&["submit", "--run", run]).ends(0);
    }
    let asked = slurm.calls("squeue").len();
    let watch = place.start(&["watch", "a", "b", "c", "--on-interrupt", "cancel"]);
    place.wait_for("a poll", || slurm.calls("squeue").len() > asked);
    watch.signal(Signal::INT);
    watch
        .end()
        .ends(130)
        .says(&["the jobs are being cancelled"]);
    assert_eq!(slurm.calls("scancel"), ["101 102 103"]);
    place.run(&["watch", "a", "b", "c"]).ends(9);
}

#[test]
fn a_sweep_that_is_submitted_leaves_what_a_later_job_reads_and_refuses_what_needs_a_watch() {
    let mut place = weaver::project("");
    on_github(&mut place);
    let submit = ["sweep", "submit", "--backend", "local", "threads=1,2"];
    for flags in [&["--on-interrupt", "cancel"][..], &["--heartbeat", "1m"]] {
        for command in [&submit[..], &["submit", "--backend", "local"]] {
            let done = place.run(&[command, flags].concat()).ends(2);
            done.says(&[
                flags[0],
                "needs a process that keeps watching",
                "add --watch",
            ]);
        }
    }
    assert!(!place.has(".oomctl"), "nothing was begun");
    let files = ["--junit", "j.xml", "--dotenv", "oomctl.env"];
    place.run(&[&submit[..], &files].concat()).ends(0);
    let run = ("OOMCTL_RUN".into(), "sweep-1".into());
    assert!(dotenv(&place).contains(&run), "{:?}", dotenv(&place));
    assert!(place.read("j.xml").contains("sweep-1.1"));
    assert!(place.read("GITHUB_OUTPUT").contains("run=sweep-1\n"));
    assert!(place.read("GITHUB_STEP_SUMMARY").contains("sweep-1"));
    place.run(&["watch", "sweep-1"]);
}

#[test]
fn a_request_to_cancel_is_on_disk_even_where_the_scheduler_holds_the_process_up() {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    // A job that is under way, for a scheduler that answers nothing any more.
    let stuck = "#!/bin/bash\ntouch \"$0.called\"\nexec sleep 60\n";
    slurm.tell("state.1", "RUNNING 0:0\n");
    super::place::install(&slurm.path("bin/squeue"), stuck);
    let watch = place.start(&word_list::<6>(
        "submit --watch --run w --on-interrupt cancel",
    ));
    let called = slurm.path("bin/squeue.called");
    place.wait_for("squeue", || called.exists());
    watch.signal(Signal::INT);
    place.wait_for("the request", || {
        place.has(".oomctl/runs/w/cancel-requested")
    });
    // As GitHub does some seconds later.
    watch.signal(Signal::TERM);
    watch.end().ends(143);
}
