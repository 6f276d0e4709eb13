//! Questions, Ctrl-C and pagers on a terminal, and what the end of a job says, on Slurm and here.

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
fn options_of_oomctl_behind_a_script_that_reads_its_words_submit_nothing() {
    let (place, slurm) = with("echo \"given $*\"\n");
    for words in ["-w -y", "--dry-run"] {
        let refused = place
            .run(&format!("submit --yes job.slurm {words}"))
            .ends(2);
        refused.says(&[
            "after job.slurm, which would get it",
            "hint: put oomctl options before SCRIPT. If it is meant for the script: `oomctl submit -- job.slurm …`",
        ]);
    }
    assert_eq!(slurm.calls("sbatch").len(), 0);
    for words in ["-- job.slurm -w", "job.slurm -n 4"] {
        place.run(&format!("submit --yes {words}")).ends(0);
    }
    assert_eq!(slurm.accepted().len(), 2);
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
    // What sbatch itself cannot read it asks nobody about.
    slurm.tell(
        "impossible",
        "sbatch: error: Invalid --time specification\n",
    );
    let done = place.run("submit --dry-run job.slurm").ends(4);
    done.says(&["warning: Slurm would refuse this job: Invalid --time specification"]);
    slurm.tell(
        "impossible",
        "sbatch: error: Unable to contact slurm controller\n",
    );
    let done = place.run("submit --dry-run job.slurm").ends(0);
    done.says(&["dry run: nothing was submitted; Slurm did not say whether it would take it"]);
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
fn an_answer_that_is_none_is_asked_for_again() {
    let (place, slurm) = with("python3 train.py --batch_size 4\n");
    let mut asking = TerminalDialog::start(&place, &["submit", "job.slurm"]);
    asking.answer("[y/N/d] (d: diffs): ", "maybe");
    asking.until("answer y, n or d");
    asking.answer("[y/N/d] (d: diffs): ", "n");
    asking.ends("nothing was submitted", 9);
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
        // oomctl does not see which options it has, so that it is submitted.
        "import argparse\np = argparse.ArgumentParser()\nfor name in ['--epochs']:\n    p.add_argument(name, type=int)\np.parse_args()\n",
    );
    let done = place.run("submit --yes --watch --run r job.slurm").ends(1);
    let refused = "the program refused its arguments: unrecognized arguments: --epocs 4";
    done.says(&[refused]);
    let again = place.run("retry r").ends(2);
    again.says(&[
        "r failed: the program refused its arguments",
        "have not changed since, so a retry would fail again",
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
    let done = place.run("plan good.slurm").ends(2);
    assert!(!done.told().contains("did you mean"), "{}", done.told());
    place.says("plan jbo.slurm", 2, &["did you mean job.slurm?"]);
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

/// The script is Slurm's from the submission on, the program is not.
#[test]
fn a_program_that_changes_between_attempts_is_named_and_teaches_nothing() {
    let program = "import argparse, sys\np = argparse.ArgumentParser()\np.add_argument('--batch_size', type=int)\n\
                   p.add_argument('--conf')\nbatch = p.parse_args().batch_size\nif batch > 2:\n    \
                   open('train.py', 'a').write('# mended\\n')\n    open('conf.yaml', 'a').write('lr: 1\\n')\n    \
                   class OutOfMemoryError(RuntimeError): pass\n    ";
    let (place, _slurm) =
        with("#SBATCH --gres=gpu:1\npython3 train.py --conf conf.yaml --batch_size 4\n");
    place.write(
        "train.py",
        &format!("{program}raise OutOfMemoryError('{OOM}')\nprint('step 1/1 loss 0.5')\n"),
    );
    place.write("conf.yaml", "epochs: 1\n");
    let done = place
        .run("submit --yes --watch --fresh --run r job.slurm")
        .ends(0);
    let note = "train.py changed since the run was submitted. This attempt runs it as it is now, so its training may be another one";
    done.says(&[
        "attempt 2  note: conf.yaml changed since",
        &format!("           note: {note}"),
    ]);
    place
        .run("status r")
        .ends(0)
        .says(&["note: train.py changed"]);
    let json = place.json("status --json r");
    assert_eq!(
        json["runs"][0]["attempts"][1]["changed"][1]["path"],
        "train.py"
    );
    place
        .run("report --format text r")
        .ends(0)
        .says(&["the same experiment is unknown"]);
    let again = place.run("submit --dry-run job.slurm").ends(0);
    assert!(!again.told().contains("fitted"), "{}", again.told());
}

/// Nobody sees that `make.py` writes the settings: the copy for the next attempt would have the learning rate of yesterday.
#[test]
fn a_settings_file_that_the_first_attempt_wrote_anew_is_not_trained_from_a_copy() {
    let (place, slurm) =
        with("#SBATCH --gres=gpu:1\npython3 make.py\npython3 train.py --config conf.yaml\n");
    place.write(
        "make.py",
        "open('conf.yaml', 'w').write('batch_size: 4\\nlr: 1\\n')\n",
    );
    place.write("conf.yaml", "batch_size: 4\nlr: 2\n");
    place.write(
        "train.py",
        &format!(
            "import argparse, yaml\np = argparse.ArgumentParser()\np.add_argument('--config')\n\
             cfg = yaml.safe_load(open(p.parse_args().config))\nbatch, lr = cfg['batch_size'], cfg['lr']\n\
             if batch > 2:\n    class OutOfMemoryError(RuntimeError): pass\n    raise OutOfMemoryError('{OOM}')\n"
        ),
    );
    let done = place
        .run("submit --yes --watch --fresh --run r job.slurm")
        .ends(5);
    done.says(&["conf.yaml changed while attempt 1 ran"]);
    assert_eq!(slurm.accepted().len(), 1);
    // The text is the same now, and so is what a copy of it has.
    let again = place.run("submit --yes --watch --fresh job.slurm").ends(0);
    again.says(&["batch_size  4 -> 2"]);
}

/// The program's own failure, which the pipe hides from Slurm.
#[test]
fn a_traceback_at_the_end_of_a_completed_job_is_no_success() {
    let (place, _slurm) = with("python3 train.py | cat\n");
    place.write("train.py", "cfg = {}\nprint(cfg['lr'])\n");
    let done = place.run("submit --yes --watch --run r job.slurm").ends(1);
    done.says(&["KeyError: 'lr'", "`set -eo pipefail` at its head shows it"]);
    let plan = place.run("plan job.slurm").ends(0);
    assert!(!plan.told().contains("fitted"), "{}", plan.told());
}

/// A task that needs another training than the others is no seed of the same experiment.
#[test]
fn tasks_of_an_array_that_no_longer_train_the_same_are_told_before_and_at_the_end() {
    let (place, _slurm) =
        with("#SBATCH --gres=gpu:1 --array=0-2\npython3 train.py --batch_size 4\n");
    let program = format!(
        "import argparse, os\np = argparse.ArgumentParser()\np.add_argument('--batch_size', type=int)\n\
         batch = p.parse_args().batch_size\nif batch > 2 and os.environ['SLURM_ARRAY_TASK_ID'] == '1':\n    \
         class OutOfMemoryError(RuntimeError): pass\n    raise OutOfMemoryError('{OOM}')\nprint('step 1/1 loss 0.5')\n"
    );
    place.write("train.py", &program);
    let note = "a task that needs this change trains differently from the tasks that do not; --same-math stops before it";
    place
        .run("plan job.slurm")
        .ends(0)
        .says(&[&format!("note: {note}")]);
    let done = place
        .run("submit --yes --watch --fresh --run a job.slurm")
        .ends(0);
    done.says(&[
        note,
        "attention: the tasks did not train the same: 2 of 3 as submitted; 1 of 3 with --batch_size 4 -> 2",
    ]);
    let again = place.run("submit --dry-run job.slurm").ends(0);
    again.says(&["note: these tasks will not train the same as the others"]);
    let strict = place.run("plan --same-math job.slurm").ends(0);
    assert!(
        !strict.told().contains("trains the same"),
        "{}",
        strict.told()
    );
}

#[test]
fn a_blank_behind_a_backslash_is_said_with_its_line() {
    let (place, _slurm) = with("python3 train.py \\ \n  --batch_size 4\n");
    let place_of_it = "note: a blank follows the backslash at job.slurm:3";
    place.says("plan job.slurm", 0, &[place_of_it]);
}

/// Its log lies where the script says, and nowhere else.
#[test]
fn a_script_that_names_its_log_gets_no_folder_for_logs() {
    let (place, _slurm) = with("#SBATCH -o mine-%j.log\necho hello\nexit 3\n");
    let done = place.run("submit --yes --watch --run r job.slurm").ends(1);
    done.says(&["`oomctl logs r` prints the log"]);
    assert!(!place.has("logs"), "{}", done.told());
    assert!(place.has("mine-101.log"), "{}", done.told());
    place.says("logs r", 0, &["hello"]);
}

#[test]
fn a_package_that_is_missing_is_answered_with_its_environment() {
    let (place, _slurm) = with("python3 -c 'import nothing_of_that_name'\n");
    let done = place.run("submit --yes --watch --run r job.slurm").ends(1);
    done.says(&["have the job script activate the environment that has it"]);
}

/// 7.6 billion weights: Adam's states are some 90 GB, and the job asks for 32.
#[test]
fn a_rung_that_needs_more_host_memory_than_the_job_asks_for_is_no_row_of_the_plan() {
    let (place, _slurm) = with(
        "#SBATCH --gres=gpu:h100:4 --mem=32G\naccelerate launch --config_file zero3.yaml --num_processes 4 train.py --config grpo.yaml\n",
    );
    place.write(
        "train.py",
        "from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser\n\
         script, args, model = TrlParser((ScriptArguments, GRPOConfig, ModelConfig)).parse_args_and_config()\n\
         GRPOTrainer(model=model.model_name_or_path, args=args).train()\n",
    );
    place.write(
        "zero3.yaml",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: none\n  offload_param_device: none\n",
    );
    place.write(
        "grpo.yaml",
        "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nper_device_train_batch_size: 16\nbf16: true\ngradient_checkpointing: false\n\
         max_prompt_length: 512\nmax_completion_length: 1024\nnum_generations: 8\n",
    );
    let all = place.run("plan --all job.slurm").ends(0);
    all.says(&["of host memory, and the job asks for 32"]);
    let plan = place.run("plan job.slurm").ends(0);
    assert!(
        !plan.told().contains("offload_optimizer"),
        "{}",
        plan.told()
    );
}

/// The copy of a script that asks for its own name would have another one.
#[test]
fn what_oomctl_cannot_edit_is_left_to_the_user_with_the_reason_and_the_values() {
    let (place, _slurm) = with("bash run.sh\n");
    place.write(
        "run.sh",
        "N=$((1<<3))\npython3 train.py --batch_size 64 --grad_accum 1 --out out/$(basename $0)\n",
    );
    let program = format!(
        "import argparse\np = argparse.ArgumentParser()\nfor name in ['--batch_size', '--grad_accum']:\n    p.add_argument(name, type=int)\n\
         p.add_argument('--out')\nbatch = p.parse_args().batch_size\nclass OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('{OOM}')\n"
    );
    place.write("train.py", &program);
    let why = "cannot edit the script: run.sh asks for its own name ($0)";
    let plan = place.run("plan job.slurm").ends(0);
    plan.says(&[why, "Change it yourself, in this order:", "64 -> 1"]);
    let done = place.run("submit --yes --watch --run r job.slurm").ends(3);
    done.says(&[why, "by hand: --batch_size 64 -> 32"]);
    assert!(!done.told().contains("cannot fit"), "{}", done.told());
    place
        .run("fix r")
        .ends(0)
        .says(&[why, "+python3 train.py --batch_size 32"]);
}
