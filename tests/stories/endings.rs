//! Every exit code of DESIGN section 1, reached.

use rustix::process::Signal;

use super::place::Place;
use super::slurm::Slurm;
use super::weaver;

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];

#[test]
fn success_is_0() {
    let place = weaver::project("knobs: { threads: 2 }");
    place.run(&WATCH).ends(0);
}

#[test]
fn a_failure_that_is_not_memory_is_1_after_one_attempt() {
    let mut place = weaver::project("");
    place.set("WEAVER", "fail");
    let done = place.run(&WATCH).ends(1);
    done.says(&["KeyError: 'shuttle'"]);
    assert!(!place.has("argv.2"));
}

#[test]
fn an_oom_that_was_survived_is_neither_answered_nor_learned() {
    let mut place = weaver::project("");
    place.set("WEAVER", "survive");
    let done = place.run(&WATCH).ends(1);
    done.says(&["KeyError: 'txt' at loom.py:61"]);
    assert!(!place.has("argv.2"), "{}", done.told());
    assert!(!place.has(".oomctl/fits.jsonl"), "{}", done.told());
}

#[test]
fn an_end_without_a_reason_shows_the_exit_code_and_the_last_ten_lines() {
    let mut place = weaver::project("");
    place.set("WEAVER", "mute");
    let done = place.run(&WATCH).ends(1);
    done.says(&["exit 7:0", "| row 5", "| row 14"]);
    assert!(!done.told().contains("| row 4"), "{}", done.told());
    let told = place.json("diagnose --json weaver-1");
    let told = &told["files"][0];
    let last: Vec<String> = (5..=14).map(|row| format!("row {row}")).collect();
    assert_eq!(told["last_lines"], serde_json::json!(last));
    assert_eq!(told["exit"]["code"], 7);
}

#[test]
fn wrong_usage_is_2() {
    let place = weaver::project("");
    for arguments in [
        &["submit", "--no-such-flag"][..],
        &["watch"],
        &["watch", "nobody-1"],
        &["cancel", "nobody-1"],
        &["status", "nobody-1"],
        &["diagnose", "no-such.log"],
        &["no-such-command"],
        &[],
    ] {
        let done = place.run(arguments).ends(2);
        assert!(
            done.out.is_empty() && !done.err.is_empty(),
            "{}",
            done.told()
        );
    }
}

/// Each of these ends in exit code 0 behind a traceback: `tee` hides it, or a command that follows.
#[test]
fn a_script_that_hides_the_exit_code_is_no_success_and_the_ladder_goes_on() {
    let program = "import sys\nbatch = int(sys.argv[2])\nif batch > 2:\n    class OutOfMemoryError(RuntimeError): pass\n    \
                   raise OutOfMemoryError(f'CUDA out of memory. Tried to allocate {batch}.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.')\nprint('done')\n";
    let next = "for batch in range(60): print(f'eval batch {batch} acc 0.1')\n";
    for end in [
        "2>&1 | tee log",
        "\necho finished",
        "; echo finished",
        "\npython3 evaluate.py",
    ] {
        let place = Place::bare();
        place.write("evaluate.py", next);
        place.write("train.py", program);
        place.write(
            "job.sh",
            &format!("#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 train.py --batch_size 4 {end}\n"),
        );
        let words = ["submit", "--yes", "--watch", "--backend", "local", "job.sh"];
        let done = place.run(&words).ends(0);
        done.says(&[
            "the script may hide the exit code of its program (job.sh:3)",
            "the job ended as COMPLETED although its log shows a failure: if its script hides the exit code",
            "`set -eo pipefail`",
            "batch_size  4 -> 2",
            "2 attempts",
        ]);
    }
}

/// A job that ran out of memory and did no step did not succeed, whatever the shell around it looks like.
#[test]
fn an_out_of_memory_before_the_first_step_is_no_success_whatever_hides_its_exit_code() {
    let program = "import sys\nbatch = int(sys.argv[2])\nif batch > 2:\n    class OutOfMemoryError(RuntimeError): pass\n    \
                   raise OutOfMemoryError(f'CUDA out of memory. Tried to allocate {batch}.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.')\nprint('done')\n";
    let launcher =
        "import subprocess\nsubprocess.run(['python3', 'train.py', '--batch_size', '4'])\n";
    for body in [
        "trap 'echo cleaning; exit 0' EXIT\npython3 train.py --batch_size 4\n",
        "(cd . && python3 train.py --batch_size 4; echo finished)\n",
        "if python3 train.py --batch_size 4; then echo good; else echo bad; fi\n",
        "python3 start.py\n",
    ] {
        let place = Place::bare();
        place.write("train.py", program);
        place.write("start.py", launcher);
        let script = format!("#!/bin/bash\n#SBATCH --gres=gpu:h100:1\n{body}");
        place.write("job.sh", &script);
        let words = ["submit", "--yes", "--watch", "--backend", "local", "job.sh"];
        let done = place.run(&words);
        let told = done.told();
        match body.contains("start.py") {
            true => assert!(!told.contains("succeeded"), "{told}"),
            false => {
                done.says(&["batch_size  4 -> 2", "2 attempts"]);
                assert!(told.contains("may hide the exit code"), "{told}");
            }
        }
        let fits = place.has(".oomctl/fits.jsonl");
        let fits = fits.then(|| place.read(".oomctl/fits.jsonl"));
        let fits = fits.unwrap_or_default();
        let first = fits.lines().filter(|fit| fit.contains("\"attempt\":1"));
        assert!(first.clone().all(|fit| !fit.contains("fitted")), "{fits}");
    }
}

/// Its exit code is the job's, and the log counts steps: it knows better than the end of its log.
#[test]
fn a_program_that_survives_an_out_of_memory_at_the_end_of_its_log_succeeds() {
    let program = "import traceback\nclass OutOfMemoryError(RuntimeError): pass\nfor step in range(1, 20): print(f'step {step}/19 loss 0.5', flush=True)\ntry:\n    \
                   raise OutOfMemoryError('CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.')\n\
                   except RuntimeError:\n    traceback.print_exc()\n";
    let place = Place::bare();
    place.write("train.py", program);
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 train.py --batch_size 4\n",
    );
    let words = ["submit", "--yes", "--watch", "--backend", "local", "job.sh"];
    place.run(&words).ends(0).says(&[
        "succeeded (1 attempt",
        "note: its log ends with an out-of-memory (slurm.out:",
    ]);
    assert!(!place.has(".oomctl/fits.jsonl"), "it may not have fitted");
}

/// Exit code 0 with batches that were skipped, or long before the last step, is a success that is worth a look.
#[test]
fn a_success_whose_log_shows_that_work_is_missing_is_told_with_a_note() {
    let place = Place::bare();
    let program = "print('skipped a batch: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.')\n\
                   for step in (1, 2): print(f'step {step}/100 loss 0.5')\nprint('step 3/100 loss nan')\n";
    place.write("train.py", program);
    place.write("job.sh", "#!/bin/bash\npython3 train.py --batch_size 4\n");
    let words = ["submit", "--yes", "--watch", "--backend", "local", "job.sh"];
    let notes = [
        "note: the log of attempt 1 shows a failure (slurm.out:1), and the job went on: it may have skipped work",
        "note: the last step in its log is 3 of 100",
        "note: the loss of the last step in its log is not a number (nan)",
    ];
    place.run(&words).ends(0).says(&notes);
    place.run(&["status"]).ends(0).says(&notes);
    let report = place.run(&["report", "--to", "-"]).ends(0);
    report.says(&["it may have skipped work.", "is 3 of 100"]);
}

#[test]
fn a_program_that_reads_no_change_is_not_changed_for_ever() {
    let mut place = weaver::project("");
    place.set("WEAVER", "deaf");
    let done = place.run(&WATCH).ends(1);
    done.says(&[
        "3 attempts with different settings died with the same figures (20.00 GiB requested, 77.00 GiB allocated)",
        "does not seem to read what oomctl changes",
    ]);
}

#[test]
fn an_exhausted_ladder_is_3_and_says_what_was_not_taken() {
    let mut place = weaver::project("");
    place.set("WEAVER", "fits 0");
    let done = place.run(&WATCH).ends(3);
    insta::assert_snapshot!(place.steady(&done.out));
}

#[test]
fn a_refused_submission_is_4_with_slurms_words_and_the_next_step() {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    slurm.tell(
        "refuse",
        "sbatch: error: invalid partition specified: gpuu\nsbatch: error: Batch job submission failed: Invalid partition name specified\n",
    );
    let done = place.run(&["submit", "--set", "partition=gpuu"]).ends(4);
    assert!(done.out.is_empty(), "{}", done.told());
    insta::assert_snapshot!(place.steady(&done.err));
    for command in ["diagnose", "logs"] {
        let done = place.run(&[command]).ends(4);
        done.says(&["has no log: the job could not be submitted"]);
    }
}

#[test]
fn an_unreachable_scheduler_is_4() {
    let mut place = weaver::project("");
    // No sbatch anywhere: an empty folder is the whole PATH.
    let empty = place.path("nothing");
    std::fs::create_dir(&empty).unwrap();
    place.set("OOMCTL_BACKEND", "slurm");
    let mut command = place.command(&["submit"]);
    let done: super::place::Done = command.env("PATH", &empty).output().unwrap().into();
    done.ends(4).says(&["sbatch"]);
}

#[test]
fn a_broken_configuration_is_5() {
    let place = weaver::project("knobs: { threads: 7 }");
    let done = place.run(&["submit", "--backend", "local"]).ends(5);
    done.says(&[
        "cloth 64 is no multiple of a row of 7 threads",
        "cloth 63 would be legal",
    ]);
    assert!(
        !place.has(".oomctl"),
        "a refused configuration leaves nothing behind"
    );
}

#[test]
fn a_time_limit_is_6() {
    let mut place = weaver::project("knobs: { time_limit: 1s }");
    place.set("WEAVER", "wait");
    let done = place.run(&WATCH).ends(6);
    done.says(&["time limit"]);
}

#[test]
fn a_node_failure_is_resubmitted_unchanged_and_6_when_the_retries_are_used_up() {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    for n in 1..=9 {
        slurm.tell(&format!("state.{n}"), "NODE_FAIL 0:1\n");
    }
    let done = place.run(&["submit", "--watch", "--run", "a"]).ends(6);
    done.says(&["node failure"]);
    // Two of its jobs prove that the node is bad, one does not.
    let sentence = "attempt 3  n1 is excluded: job 101 (run a, node_failure) and job 102 (run a, node_failure) failed there";
    done.says(&[sentence]);
    let excluded = |attempt: u32| {
        let script = format!(".oomctl/runs/a/attempt-{attempt}/job.sbatch");
        place.read(&script).contains("#SBATCH --exclude=n1\n")
    };
    assert_eq!([1, 2, 3, 4].map(excluded), [false, false, true, true]);
    assert_eq!(slurm.accepted(), [1, 2, 3, 4], "{}", done.told());
}

#[test]
fn one_node_failure_is_healed() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    let slurm = Slurm::before(&mut place);
    slurm.tell("state.1", "NODE_FAIL 0:1\n");
    place.run(&["submit", "--watch"]).ends(0);
    assert_eq!(slurm.accepted(), [1, 2]);
    assert_eq!(
        weaver::words(&place, 2)[1],
        "2",
        "the configuration is the same"
    );
}

#[test]
fn spent_attempts_are_8() {
    let mut place = weaver::project("limits: { attempts: 2 }");
    place.set("WEAVER", "fits 1");
    place.says(&WATCH, 8, &["2 attempts", "limits: attempts"]);
    assert!(!place.has("argv.3"));
    let done = place
        .run(&[&WATCH[..], &["--attempts", "1"]].concat())
        .ends(8);
    done.says(&["1 attempt"]);
}

#[test]
fn a_spent_wall_time_is_8_and_ends_the_job() {
    let mut place = weaver::project("limits: { wall_time: 2s }");
    place.set("WEAVER", "sleep");
    place.says(&WATCH, 8, &["wall time"]);
    place.wait_for("the end of the trainer", || gone(&place.read("pid.1")));
}

#[test]
fn cancelled_is_9_for_whoever_watches() {
    let mut place = weaver::project("");
    place.set("WEAVER", "sleep");
    let watch = place.start(&WATCH);
    place.wait_for("the trainer", || place.has("child.1"));
    place.says("cancel weaver-1", 0, &["weaver-1"]);
    watch.end().ends(9).says(&["cancelled"]);
    place.says("cancel weaver-1", 0, &["has already ended"]);
    place.run(&["watch", "weaver-1"]).ends(9);
}

#[test]
fn ctrl_c_detaches_with_130_and_a_second_watch_goes_on_to_success() {
    detaches(Signal::INT, 130);
}

#[test]
fn sigterm_detaches_with_143_and_a_second_watch_goes_on_to_success() {
    detaches(Signal::TERM, 143);
}

#[track_caller]
fn detaches(signal: Signal, code: i32) {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "wait");
    let watch = place.start(&WATCH);
    place.wait_for_fact("weaver-1", "state_seen");
    watch.signal(signal);
    let done = watch.end().ends(code);
    done.says(&["Detached. The jobs go on; `oomctl watch weaver-1` continues."]);
    place.write("go", "");
    place.run(&["watch", "weaver-1"]).ends(0);
    assert_eq!(place.count("weaver-1", "submitted"), 1);
}

#[test]
fn a_watch_of_a_finished_run_gives_its_exit_code_again() {
    let mut place = weaver::project("");
    place.set("WEAVER", "fail");
    place.run(&WATCH).ends(1);
    place.says("watch weaver-1", 1, &["KeyError"]);
    place.says("watch 1", 1, &["weaver-1"]);
}

#[test]
fn diagnose_tells_by_exit_code_what_a_log_holds() {
    let place = Place::bare();
    let logs = [
        ("fine.log", "epoch 1 loss 0.3\nepoch 2 loss 0.2\n", 0),
        (
            "gpu.log",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.\n",
            10,
        ),
        (
            "host.log",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.\n",
            11,
        ),
        (
            "other.log",
            "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nKeyError: 'x'\n",
            12,
        ),
    ];
    for (name, text, code) in logs {
        place.write(name, text);
        place.run(&["diagnose", "--exit-code", name]).ends(code);
        place.run(&["diagnose", name]).ends(0);
        let json = place
            .run(&["diagnose", "--json", "--exit-code", name])
            .ends(code)
            .json();
        assert_eq!(json["files"][0]["file"], name);
    }
}

fn gone(pid: &str) -> bool {
    !std::path::Path::new(&format!("/proc/{}", pid.trim())).exists()
}

/// A batch of 1 that does not fit: nobody is told to make it smaller, nor to ask for more host memory.
#[test]
fn where_the_batch_is_1_no_hint_says_to_make_it_smaller() {
    let place = Place::bare();
    let program = "import argparse, sys\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\np.parse_args()\n\
        print('loss.backward()', file=sys.stderr)\nsys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.64 GiB. GPU 0 has a total \
        capacity of 79.11 GiB of which 2.05 GiB is free. Including non-PyTorch memory, this process has 77.04 GiB memory in use. Of the allocated memory \
        75.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.')\n";
    place.write("train.py", program);
    place.write("job.sh", "#!/bin/bash\npython3 train.py --batch-size 1\n");
    let words = ["submit", "-w", "-y", "--backend", "local", "job.sh"];
    let told = place.run(&words).ends(3).told();
    assert!(told.contains("hint: change by hand: "), "{told}");
    assert!(!told.contains("smaller micro batches"), "{told}");
}
