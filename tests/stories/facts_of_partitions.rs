//! Facts of one partition that stop no job of another, and words that do not mislead.

use super::place::Place;

/// Clients of a cluster whose partitions differ in all but CPUs.
const TWO_PARTITIONS: &str = r#"mkdir bin
printf '#!/bin/sh\necho "gpu*|1-00:00:00|8|64|1000000|gpu:a100:4"\necho "h100|7-00:00:00|4|64|2000000|gpu:h100:8"\n' > bin/sinfo
printf '#!/bin/sh\n' > bin/scontrol
cp bin/scontrol bin/sacctmgr
cp bin/scontrol bin/sbatch
chmod +x bin/*"#;

const PRETRAIN: &str = "#!/bin/bash
#SBATCH -p h100
#SBATCH --gres=gpu:8
#SBATCH --time=2-00:00:00
torchrun --nproc_per_node 8 train.py --batch_size 32
";

#[test]
fn the_profile_of_a_cluster_refuses_no_job_of_another_partition() {
    let mut place = Place::bare();
    place.shell(TWO_PARTITIONS).ends(0);
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", &format!("{}:{path}", place.path("bin").display()));
    place.run(&["init", "--cluster", "mine"]).ends(0);
    let profile = place.read("presets/clusters/mine.yaml");
    for line in [
        "  # gpus_per_node differs: gpu 4, h100 8\n",
        "  # node_memory differs: gpu 1000000M, h100 2000000M\n",
        "  # time_limit differs: gpu '1-00:00:00', h100 '7-00:00:00'\n",
        "  # gpu_type differs: gpu a100, h100 h100\n",
        "\n  cpus_per_node: 64\n",
    ] {
        assert!(profile.contains(line), "{line}{profile}");
    }
    place.write("job.sh", PRETRAIN);
    let plan = place.run(&["plan", "--cluster", "mine", "job.sh"]).ends(0);
    plan.says(&["batch_size 32 -> 1 "]);
}

#[test]
fn a_project_file_without_a_preset_is_for_a_script() {
    let place = Place::bare();
    place.write("job.sh", PRETRAIN);
    place.write("oomctl.yaml", "limits: { attempts: 3 }\n");
    for command in ["plan", "submit"] {
        let done = place.run(&[command]).ends(5);
        done.says(&["the project file names no preset", "`oomctl submit job.sh`"]);
        assert!(!done.told().contains("train_files"), "{}", done.told());
    }
    place.run(&["plan", "job.sh"]).ends(0);
}

#[test]
fn a_script_with_a_misspelled_name_is_found_and_of_several_none_is_named() {
    let place = Place::bare();
    place.write("pretrain.slurm", PRETRAIN);
    place.says("plan pretrain.slrum", 2, &["did you mean pretrain.slurm?"]);
    place.says("plan", 0, &["pretrain.slurm is the only job script here"]);
    place.write("other.slurm", PRETRAIN);
    place.says("plan", 5, &["`oomctl plan SCRIPT`"]);
}

/// Slurm takes 99 minutes for what they are.
#[test]
fn a_plan_says_which_option_sbatch_will_refuse_and_what_is_never_closed() {
    let place = Place::bare();
    let options = "#!/bin/bash\n#SBATCH --mem=abc\n#SBATCH --time=99:99:99\n";
    place.write(
        "job.sh",
        &format!("{options}if [ -d out\n  then\npython train.py --batch_size 8\n"),
    );
    let plan = place.run(&["plan", "job.sh"]).ends(0);
    plan.says(&[
        "note: sbatch does not take --mem=abc (job.sh:2)",
        "cannot read: job.sh:4: if [ -d out",
    ]);
    assert!(!plan.out.contains("does not take --time"), "{}", plan.out);
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --time=soon\npython train.py\n",
    );
    let time = "sbatch does not take --time=soon (job.sh:2)";
    place.says("submit -n --backend local job.sh", 0, &[time]);
    // A plugin may add options of its own; sbatch takes the beginning of a name for it.
    let options = "#!/bin/bash\n#SBATCH --tme=10 --container-image=x --gpus-per-n 8\n";
    place.write("job.sh", &format!("{options}python train.py\n"));
    let plan = place.run(&["plan", "job.sh"]).ends(0).told();
    let misspelt = "note: sbatch has no option --tme (job.sh:2): did you mean --time?";
    assert!(plan.contains(misspelt), "{plan}");
    assert_eq!(plan.matches("sbatch has no option").count(), 1, "{plan}");
}

/// In the form of PyTorch 2.9, c10/cuda/CUDACachingAllocator.cpp.
const OTHERS: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 15.66 GiB. GPU 1 has a total capacity of 39.39 GiB of which 2.12 GiB is free. Process 331 has 20.10 GiB memory in use. Including non-PyTorch memory, this process has 17.14 GiB memory in use. Of the allocated memory 16.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.
";

#[test]
fn where_another_process_holds_the_memory_nothing_that_shrinks_the_job_is_said_to_help() {
    let place = Place::bare();
    place.write("others.err", OTHERS);
    let seen = place.run(&["diagnose", "others.err"]).ends(0).out;
    let helps = seen.lines().filter(|line| line.contains("helps"));
    assert_eq!(helps.count(), 1, "{seen}");
    assert!(seen.contains("another process holds 20.10 GiB") && seen.contains("worse"));
    // Without it 15.66 GiB would not fit either.
    place.write("others.err", &OTHERS.replace("20.10 GiB", "2.10 GiB"));
    let seen = place.run(&["diagnose", "others.err"]).ends(0).out;
    let helps = seen.lines().filter(|line| line.contains("helps"));
    assert!(
        helps.count() > 1 && !seen.contains("shrinking our own"),
        "{seen}"
    );
}

#[test]
fn memory_in_gb_is_said_in_gib() {
    let place = Place::bare();
    place.write("job.sh", PRETRAIN);
    let done = place
        .run(&["plan", "--set", "gpu_memory=80GB", "job.sh"])
        .ends(0);
    done.says(&["gpu_memory=80GB is 74.51 GiB", "--set gpu_type=h100"]);
}

/// Its options are those of its own parser, and none of them moves memory.
const OWN: &str = "import argparse
p = argparse.ArgumentParser()
p.add_argument(\"--per_device_train_batch_size\", type=int, default=8)
p.parse_args()
";

#[test]
fn a_plan_without_a_rung_begins_with_what_the_job_lacks() {
    let place = Place::bare();
    place.write("train.py", OWN);
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --per_device_train_batch_size 1\n",
    );
    let plan = place.run(&["plan", "job.sh"]).ends(0).out;
    for (is_said, words) in [
        (true, "oomctl can change nothing here: "),
        (true, "halve-batch: batch_size is 1 already"),
        (false, "for another kind of failure"),
        (false, "only for fragmentation"),
    ] {
        assert_eq!(plan.contains(words), is_said, "{words}\n{plan}");
    }
}

#[test]
fn explain_has_the_rules_that_apply() {
    let place = Place::bare();
    let explained = |dynamic: &str| {
        let words = format!(
            "explain ref.log_prob_max_token_len_per_gpu --preset verl-grpo --set train_files=a \
             --set val_files=b --set model.path=c --set use_dynamic_bsz={dynamic}"
        );
        place.run(&words[..]).ends(0).out
    };
    let rule = "ref-budget-holds-a-sequence";
    assert!(explained("true").contains(rule) && !explained("false").contains(rule));
}

#[test]
fn where_standard_error_has_no_log_of_its_own_logs_says_where_it_is() {
    let place = Place::bare();
    place.write("job.sh", "#!/bin/bash\necho hello >&2\n");
    place.run("submit -y -w --backend local job.sh").ends(0);
    place.says("logs --err", 0, &["standard output (--out)"]);
    place.says("logs --out", 0, &["hello"]);
}
