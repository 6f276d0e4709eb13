//! What a stranger on a real Slurm found wrong.

use super::interactive::TerminalDialog;
use super::place::Place;
use super::slurm::Slurm;

const OOM: &str = "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.";

/// A script on a scripted Slurm.
fn with(script: &str) -> (Place, Slurm) {
    let mut place = Place::bare();
    let slurm = Slurm::before(&mut place);
    place.write(
        "job.slurm",
        &format!("#!/bin/bash\n#SBATCH -t 10\n{script}"),
    );
    (place, slurm)
}

#[test]
fn short_options_behind_the_script_get_the_note_of_long_ones() {
    let (place, _slurm) = with("echo \"given $*\"\n");
    let done = place.run("submit --yes job.slurm -w -y").ends(0);
    done.says(&[
        "note: -w comes after SCRIPT, so it is passed to the script. Put oomctl options before SCRIPT",
        "note: -y comes after SCRIPT",
    ]);
}

#[test]
fn a_dry_run_asks_slurm_whether_it_would_take_the_job() {
    let (place, slurm) = with("python3 train.py --batch_size 4\n");
    let done = place.run("submit --dry-run job.slurm").ends(0);
    done.says(&[
        "dry run: nothing was submitted; Slurm would take it: starts now (sbatch --test-only)",
    ]);
    slurm.tell(
        "impossible",
        "allocation failure: Invalid partition name specified\n",
    );
    let done = place.run("submit --dry-run job.slurm").ends(4);
    done.says(&[
        "warning: Slurm would refuse this job: Invalid partition name specified (sbatch --test-only)",
        "dry run: nothing was submitted",
    ]);
    assert!(
        slurm.accepted().is_empty() && !place.has(".oomctl/runs"),
        "{}",
        done.told()
    );
}

#[test]
fn ctrl_c_at_the_question_says_that_nothing_was_submitted() {
    let (place, slurm) = with("python3 train.py --batch_size 4\n");
    let mut asking = TerminalDialog::start(&place, &["submit", "job.slurm"]);
    asking.until("[y/N/d] (d: diffs): ");
    let pid = rustix::process::Pid::from_child(&asking.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    asking.ends("nothing was submitted", 130);
    assert!(slurm.accepted().is_empty());
}

#[test]
fn a_pager_has_ctrl_c_for_itself() {
    let (mut place, slurm) = with("python3 train.py --batch_size 4\n");
    place.set(
        "PAGER",
        "bash -c 'cat >/dev/null; echo paging; read -r _ <&2; echo left'",
    );
    let mut asking = TerminalDialog::start(&place, &["submit", "job.slurm"]);
    asking.answer("[y/N/d] (d: diffs): ", "d");
    asking.until("paging");
    let pid = rustix::process::Pid::from_child(&asking.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    asking.answer("", "");
    asking.until("left");
    asking.answer("[y/N/d] (d: diffs): ", "n");
    asking.ends("nothing was submitted", 9);
    assert!(slurm.accepted().is_empty());
}

#[test]
fn a_file_that_is_no_yaml_is_told_with_its_line() {
    let (place, _slurm) = with("python3 train.py --config conf.yaml\n");
    place.write("train.py", "import yaml\n");
    place.write("conf.yaml", "model: gpt2\nbatch_size: [16\nlr: 1\n");
    let done = place.run("plan job.slurm").ends(0);
    done.says(&["not read: conf.yaml", "conf.yaml:"]);
}

#[test]
fn a_job_that_was_cancelled_is_called_so() {
    let (place, slurm) = with("sleep 1\n");
    slurm.tell("state.1", "CANCELLED 0:15\n");
    let done = place.run("submit --yes --watch --run r job.slurm").ends(9);
    assert!(!done.told().contains("does not say why"), "{}", done.told());
    let log = "step 1/9\nslurmstepd-node1: error: *** JOB 101 ON node1 CANCELLED AT 2026-11-28T07:56:29 ***\n";
    place.write(".oomctl/runs/r/attempt-1/slurm.out", log);
    let told = place.run("diagnose r").ends(0);
    told.says(&["the job was cancelled", "kind       cancelled"]);
    assert!(!told.out.contains("consequence of another"), "{}", told.out);
    place.write("alone.log", log);
    let told = place.run("diagnose alone.log").ends(0);
    told.says(&["the job was cancelled"]);
    assert!(!told.out.contains("consequence of another"), "{}", told.out);
}

#[test]
fn a_kill_beside_empty_host_memory_is_not_for_lack_of_it() {
    let (place, slurm) = with(
        "echo 'job.slurm: line 10: 17290 Killed                  python3 train.py' >&2; exit 137\n",
    );
    slurm.tell("used", "cpu=00:00:01,mem=8M");
    let done = place.run("submit --yes --watch --run r job.slurm").ends(1);
    assert!(
        !done.told().contains("perhaps host memory"),
        "{}",
        done.told()
    );
    done.says(&["the program was killed (SIGKILL), and host memory was not full"]);
    let told = place.run("diagnose r").ends(0);
    told.says(&["look who sent SIGKILL", "host memory was 1% full"]);
}

#[test]
fn a_time_limit_without_retries_spent_none() {
    let (place, slurm) = with("sleep 1\n");
    slurm.tell("state.1", "TIMEOUT 0:15\n");
    let done = place.run("submit --yes --watch --run r job.slurm").ends(6);
    let said = "ended: time limit reached; not resubmitted (time_limit_retries is 0)";
    done.says(&[said]);
    assert!(!done.told().contains("retries_spent"), "{}", done.told());
    let json = place.json("status --json r");
    assert_eq!(json["runs"][0]["state"], "retries_spent");
}

#[test]
fn a_run_that_cannot_succeed_unchanged_is_not_retried_without_a_word() {
    let (place, _slurm) = with("python3 train.py --epocs 4\n");
    place.write(
        "train.py",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs', type=int)\np.parse_args()\n",
    );
    let done = place.run("submit --yes --watch --run r job.slurm").ends(1);
    let refused = "the program refused its arguments: unrecognized arguments: --epocs 4";
    done.says(&[refused]);
    let again = place.run("retry r").ends(2);
    again.says(&[
        "r failed: the program refused its arguments",
        "are unchanged, so a retry would fail again",
        "after you edit job.slurm: `oomctl submit job.slurm`",
    ]);
    assert_eq!(place.count("r", "intended"), 1);
    place.run("retry --as-submitted r").ends(0);
    assert_eq!(place.count("r", "intended"), 2);
}

#[test]
fn a_log_that_counts_epochs_alone_shows_that_it_trained() {
    let (place, _slurm) = with(
        "for e in 0.2 0.4 0.6 0.8 1.0; do echo \"{'loss': 0.5, 'grad_norm': 0.41, 'epoch': $e}\"; done\n",
    );
    let done = place.run("submit --yes --watch --run r job.slurm").ends(0);
    assert!(!done.told().contains("finds no step"), "{}", done.told());
}

#[test]
fn names_that_only_end_alike_are_not_meant() {
    let (place, _slurm) = with("echo\n");
    place.write("cond.slurm", "#!/bin/bash\necho\n");
    let done = place.run("plan good.slurm").ends(5);
    assert!(!done.told().contains("did you mean"), "{}", done.told());
    place.says("plan jbo.slurm", 5, &["did you mean job.slurm?"]);
}

/// Its exit code is 0 and it did one step before: without the shell's word the log decides.
#[test]
fn an_out_of_memory_behind_a_semicolon_is_healed_after_steps_too() {
    let program = format!(
        "import sys\nbatch = int(sys.argv[2])\nfor step in range(1, 9): print(f'step {{step}}/99 loss 0.5', flush=True)\n\
         if batch > 2:\n    class OutOfMemoryError(RuntimeError): pass\n    raise OutOfMemoryError('{OOM}')\n"
    );
    let (place, _slurm) =
        with("#SBATCH --gres=gpu:1\npython3 train.py --batch_size 4; echo done\n");
    place.write("train.py", &program);
    let done = place.run("submit --yes --watch --fresh job.slurm").ends(0);
    done.says(&["batch_size  4 -> 2", "2 attempts"]);
}
