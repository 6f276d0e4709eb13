//! The first use, with scripts of one's own: what is said of arguments, launchers, appended options, encodings.

use super::place::Place;

const TRAIN: &str = "import argparse
p = argparse.ArgumentParser()
p.add_argument('--batch-size', type=int, default=16)
p.add_argument('--grad-accum', type=int, default=1)
";

fn beside(script: &str) -> Place {
    let mut place = Place::bare();
    place.set("OOMCTL_BACKEND", "local");
    place.write("train.py", TRAIN);
    place.write(
        "job.sh",
        &format!("#!/bin/bash\n#SBATCH --gres=gpu:2\n{script}\n"),
    );
    place
}

#[test]
fn arguments_that_a_script_does_not_read_are_said_to_change_nothing() {
    let note = "job.sh reads no arguments: --batch-size 64 has no effect";
    let place = beside("python train.py --batch-size 32");
    place.says("plan job.sh --batch-size 64", 0, &[note]);
    for script in [
        "python train.py \"$@\"",
        "B=$2\npython train.py --batch-size $B",
    ] {
        let plan = beside(script).run("plan job.sh --batch-size 64").ends(0);
        assert!(!plan.told().contains("has no effect"), "{}", plan.told());
    }
}

#[test]
fn a_program_of_ones_own_is_not_called_by_a_launcher_that_it_does_not_use() {
    for start in ["python", "accelerate launch"] {
        let plan = beside(&format!("{start} train.py --batch-size 32"))
            .run("plan job.sh")
            .ends(0);
        plan.says(&[
            "your own program: oomctl changes its options or settings files",
            "memory unknown",
        ]);
        assert!(!plan.told().contains("--set"), "{}", plan.told());
    }
}

#[test]
fn what_is_appended_is_said_once() {
    let plan = beside("python train.py --batch-size 32")
        .run("plan --all job.sh")
        .ends(0);
    assert_eq!(
        plan.out.matches("is appended to the command line").count(),
        1
    );
}

#[test]
fn a_script_with_a_value_left_open_is_planned_and_not_submitted() {
    let place = beside("python train.py --batch-size 32 --data FILL_IN");
    let open = "job.sh:3 still has FILL_IN, for a value that only you know";
    place.says("plan job.sh", 0, &[open]);
    place.says(
        "submit --yes job.sh",
        5,
        &[open, "put the value in its place"],
    );
    assert!(!place.has(".oomctl/runs/job-1"));
}

#[test]
fn a_log_without_a_failure_is_not_asked_for_its_framework() {
    let place = Place::bare();
    place.write("a.out", "epoch 3 loss 0.2\ndone\n");
    let fix = place.run("fix a.out").ends(0);
    fix.says(&["nothing to fix"]);
    assert!(!fix.told().contains("framework"), "{}", fix.told());
}

#[test]
fn an_engine_without_its_share_is_said_to_lack_it_and_no_more() {
    let place = Place::bare();
    place.write("a.out", "ValueError: Free memory on device (10.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n");
    place.write(
        "b.out",
        "srun: error: Unable to create step for job 4711: Invalid qos specification\n",
    );
    place.says(
        "diagnose a.out",
        0,
        &["at the engine's start than its share: 71.20 GiB"],
    );
    let refused = place.run("diagnose b.out").ends(0);
    assert!(
        !refused.told().contains("refused in init"),
        "{}",
        refused.told()
    );
}

#[test]
fn a_job_of_slurm_is_not_looked_for_where_there_is_no_slurm() {
    let mut place = Place::bare();
    // The machine of the tests may have Slurm.
    place.set("PATH", "/nonexistent");
    let why = "Slurm's commands are not on PATH here";
    place.says("watch 4711", 2, &[why]);
    let named = place.run("status foo").ends(2);
    assert!(!named.told().contains(why), "{}", named.told());
}

#[test]
fn a_fault_in_the_sites_file_stops_nobody() {
    let mut place = beside("");
    place.write("site.yaml", "clustr: x\n");
    place.write("a.err", "KeyError: 'x'\n");
    place.set(
        "OOMCTL_SITE_CONFIG",
        &place.path("site.yaml").display().to_string(),
    );
    for command in ["status", "diagnose a.err", "plan job.sh"] {
        place.says(command, 0, &["unknown key `clustr`", "site.yaml:1:1"]);
    }
}

#[test]
fn a_program_is_told_where_a_job_script_comes_from() {
    beside("").says("plan train.py", 5, &["`oomctl init` writes one"]);
}

#[test]
fn a_file_of_settings_that_lies_alone_gets_its_frameworks_job_script() {
    let factory = "model_name_or_path: a/b\nstage: sft\nfinetuning_type: lora\ncutoff_len: 2048\nper_device_train_batch_size: 8\n";
    let axolotl = "base_model: a/b\nsequence_len: 2048\nmicro_batch_size: 2\n";
    for (text, start, change) in [
        (
            factory,
            "llamafactory-cli train",
            "per_device_train_batch_size 8 -> 4",
        ),
        (axolotl, "axolotl train", "micro_batch_size 2 -> 1"),
    ] {
        let place = Place::bare();
        place.write("sft.yaml", text);
        place.says(
            "init",
            0,
            &["settings sft.yaml", "next: `oomctl plan job.sbatch`"],
        );
        assert!(
            place
                .read("job.sbatch")
                .ends_with(&format!("{start} sft.yaml \"$@\"\n"))
        );
        place.says("plan job.sbatch", 0, &[change]);
    }
    // One key is anybody's.
    let place = Place::bare();
    place.write("sft.yaml", "stage: sft\nbatch: 8\n");
    place.says("init", 5, &["nothing here says what you train"]);
}

#[test]
fn a_program_beside_a_file_of_accelerate_is_started_with_it() {
    let place = Place::bare();
    place.write("train.py", TRAIN);
    place.write(
        "fsdp.yaml",
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 8\n",
    );
    place.run("init").ends(0);
    let start = "accelerate launch --config_file fsdp.yaml train.py \"$@\"\n";
    assert!(
        place.read("job.sbatch").ends_with(start),
        "{}",
        place.read("job.sbatch")
    );
}

#[test]
fn of_a_program_that_is_not_python_no_option_is_asked_for() {
    for program in ["./mcmc --batch=4096", "Rscript fit.R --batch_size=128"] {
        let plan = beside(program).run("plan job.sh").ends(0);
        plan.says(&["oomctl found no Python program in the script"]);
        assert!(!plan.told().contains("spellings"), "{}", plan.told());
    }
}

#[test]
fn a_plan_says_why_no_attempt_changes_the_batch() {
    let place = beside("python train.py --batch-size 64\npython train.py --batch-size 256");
    let why =
        "no change of the batch: batch_size stays: the script starts the program several times";
    place.write(
        "train.py",
        &format!("{TRAIN}p.add_argument('--amp', action='store_true')\n"),
    );
    place.says("plan job.sh", 0, &[why, "--amp"]);
}

#[test]
fn a_script_in_another_encoding_is_not_called_binary() {
    let place = beside("python train.py");
    std::fs::write(
        place.path("old.sh"),
        b"#!/bin/bash\n# caf\xe9\npython train.py\n",
    )
    .unwrap();
    place.says(
        "plan old.sh",
        5,
        &["old.sh:2: this line is not UTF-8", "iconv"],
    );
}
