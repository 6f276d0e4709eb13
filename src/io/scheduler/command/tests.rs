//! One call of a program, with programs in bash.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use oomctl_base::word_list;

fn shell(script: &str, deadline: Duration) -> CommandOutput {
    run(&CommandCall {
        program: PathBuf::from("/bin/bash"),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        folder: None,
        deadline,
    })
}

#[test]
fn both_pipes_and_the_exit_code_come_back() {
    let answer = shell("echo out; echo err >&2; exit 7", Duration::from_secs(20));
    assert_eq!(answer.end, CommandEnd::Exited(7));
    assert_eq!(
        (answer.stdout.as_str(), answer.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(answer.describe(), "exit code 7: err");
}

#[test]
fn the_deadline_ends_the_whole_process_group() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("pid");
    let script = format!("sleep 60 & echo $! > {}; echo begun; wait", mark.display());
    let answer = shell(&script, Duration::from_secs(2));
    assert_eq!(answer.end, CommandEnd::TimedOut);
    assert_eq!(answer.stdout, "begun\n");
    // The kernel has the signal; the child may still need a turn of the processor to die of it.
    let child = std::fs::read_to_string(mark).unwrap();
    let pid = rustix::process::Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    let flags = rustix::process::PidfdFlags::empty();
    if let Ok(process) = rustix::process::pidfd_open(pid, flags) {
        let mut ends = [PollFd::new(&process, PollFlags::IN)];
        let patience = Timespec::try_from(Duration::from_secs(30)).unwrap();
        assert_eq!(
            poll(&mut ends, Some(&patience)),
            Ok(1),
            "the child still runs"
        );
    }
}

#[test]
fn a_left_over_child_that_holds_the_pipe_does_not_hold_us() {
    let started = Instant::now();
    let answer = shell("sleep 30 & echo 4711", Duration::from_secs(20));
    assert_eq!(answer.end, CommandEnd::Exited(0));
    assert_eq!(answer.stdout, "4711\n");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn all_that_a_program_wrote_is_read_before_its_child_is_waited_for() {
    let answer = shell(
        "head -c 3000000 /dev/zero | tr '\\0' x; sleep 30 & echo end",
        Duration::from_secs(60),
    );
    assert_eq!(answer.stdout.len(), 3_000_004);
    assert!(answer.stdout.ends_with("xend\n"));
}

#[test]
fn endless_output_is_cut_and_said_to_be() {
    let answer = shell(
        "head -c 20000000 /dev/zero | tr '\\0' x",
        Duration::from_secs(60),
    );
    assert_eq!(answer.stdout.len(), MAX_STDOUT_BYTES);
    assert!(answer.cut && !answer.is_clean());
}

#[test]
fn a_program_that_is_not_there_is_no_panic() {
    let call = CommandCall {
        program: PathBuf::from("/nowhere/sbatch"),
        arguments: Vec::new(),
        environment: Vec::new(),
        folder: None,
        deadline: Duration::from_secs(1),
    };
    assert!(matches!(run(&call).end, CommandEnd::NotStarted(_)));
}

#[test]
fn only_slurm_conf_of_slurms_variables_stays() {
    let inherited = word_list::<5>("SLURM_CONF SLURM_JOB_ID SBATCH_PARTITION SQUEUE_STATES HOME");
    let kept = without_slurm_variables(inherited.map(|name| (name.into(), "x".into())));
    let names: Vec<_> = kept
        .iter()
        .map(|(name, _)| name.to_str().unwrap())
        .collect();
    assert_eq!(names, ["SLURM_CONF", "HOME"]);
}
