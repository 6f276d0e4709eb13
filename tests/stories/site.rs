//! What a site and its Slurm say of the nodes.

use super::place::Place;

/// Slurm whose partition `gpu` has nodes of two kinds.
const SLURM: &str = r#"mkdir -p bin
cat > bin/sinfo <<'EOF'
#!/bin/sh
cat <<'LINES'
cpu*|1-00:00:00|9|64|256000|(null)|1-infinite|(null)
gpu|2-00:00:00|4|192|1900000|gpu:h100:8(S:0-1)|1-2|ib,h100
gpu|2-00:00:00|6|64|500000|gpu:a100:4|1-2|a100
LINES
EOF
printf '#!/bin/sh\n' > bin/sbatch
chmod +x bin/*
cat > job.sbatch <<'EOF'
#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --gres=gpu:h100:2
accelerate launch --num_processes 2 sft.py --model_name_or_path m --dataset_name d --per_device_train_batch_size 1 --gradient_checkpointing true --output_dir out
EOF
cat > sft.py <<'EOF'
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser
parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
EOF"#;

fn on_slurm(project: &str) -> Place {
    let mut place = Place::with(project);
    place.shell(SLURM).ends(0);
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", &format!("{}:{path}", place.path("bin").display()));
    place
}

#[test]
fn without_a_profile_slurm_says_how_far_more_gpus_may_go() {
    let place = on_slurm("backend: slurm\n");
    let plan = place.run(&["plan", "--all", "job.sbatch"]).ends(0).out;
    let nodes = "goes to partition gpu: 4 nodes of 8 h100 GPUs, 192 CPUs, 1900000M, at most 2-00:00:00 (sinfo)";
    assert!(plan.contains(nodes), "{plan}");
    assert!(
        plan.contains("nproc_per_node") && plan.contains("4 -> 8"),
        "{plan}"
    );
    assert!(!plan.contains("8 -> 16"), "{plan}");
    // Nodes of both kinds may run it: what differs is unknown.
    place
        .shell("sed -i 's/gpu:h100:2/gpu:2/' job.sbatch")
        .ends(0);
    let plan = place.run(&["plan", "--all", "job.sbatch"]).ends(0).out;
    assert!(
        plan.contains("goes to partition gpu: 10 nodes of at most"),
        "{plan}"
    );
    assert!(
        plan.contains("nothing says how many GPUs a node has"),
        "{plan}"
    );
}

#[test]
fn a_site_has_profiles_for_everybody_and_its_faults_stop_nobody() {
    let mut place = on_slurm("backend: slurm\n");
    place.set("OOMCTL_SITE", &place.path("site").display().to_string());
    place.shell("mkdir -p site/clusters").ends(0);
    place.write("site/config.yaml", "cluster: gold\n");
    place.write(
        "site/clusters/gold.yaml",
        "cluster: gold\nfacts: { gpus_per_node: 4 }\n",
    );
    let plan = place.run(&["plan", "--all", "job.sbatch"]).ends(0).out;
    assert!(
        plan.contains("2 -> 4") && !plan.contains("4 -> 8"),
        "{plan}"
    );
    place.says("presets", 0, &["gold"]);
    for (file, text, fault) in [
        (
            "site/clusters/gold.yaml",
            "cluster: gold\nfacts: 3\n",
            "gold.yaml:2",
        ),
        (
            "site/config.yaml",
            "cluster: gold\nclutser: x\n",
            "config.yaml:2",
        ),
        ("site/config.yaml", "cluster: [\n", "config.yaml:"),
        ("site/config.yaml", "cluster: lead\n", "config.yaml:1"),
    ] {
        place.write(file, text);
        let plan = place.run(&["plan", "--all", "job.sbatch"]).ends(0);
        plan.says(&["warning: ", fault, "Tell your site"]);
        assert!(plan.out.contains("4 -> 8"), "{}", plan.out);
    }
}

#[test]
fn a_time_limit_above_the_partitions_is_said_before_the_job_waits_for_ever() {
    let place = on_slurm("backend: slurm\n");
    let why = "the job will never start: its time limit is 3d 00h, and partition gpu allows 2d 00h. Add --sbatch=--time=2-00:00:00, or --sbatch=--partition=NAME";
    let plan = |options: &[&str]| {
        let words = [&["plan"], options, &["job.sbatch"]].concat();
        place.run(&words).ends(0).told().contains(why)
    };
    assert!(!plan(&[]));
    assert!(plan(&["--sbatch=--time=3-00:00:00"]));
    // A QOS may allow more.
    assert!(!plan(&[
        "--sbatch=--time=3-00:00:00",
        "--sbatch=--qos=long"
    ]));
}

#[test]
fn a_plan_says_which_partition_and_how_many_gpus_slurm_will_refuse() {
    let place = on_slurm("backend: slurm\n");
    let refused = "note: Slurm will refuse this job: ";
    let plan = |options: &[&str], why: &str| {
        let words = [&["plan"], options, &["job.sbatch"]].concat();
        let told = place.run(&words).ends(0).told();
        assert_eq!(told.contains(refused), !why.is_empty(), "{told}");
        assert!(told.contains(why), "{told}");
    };
    plan(&[], "");
    plan(
        &["--sbatch=-pgqu"],
        "sinfo lists no partition gqu, only cpu, gpu",
    );
    let more = "asks for 99 GPUs on a node, and a node of partition gpu has 8 h100 or 4 a100";
    plan(&["--sbatch=--gres=gpu:99"], more);
    place
        .shell("sed -i 's/--gres=gpu:h100:2/--gpus=16/' job.sbatch")
        .ends(0);
    plan(&[], "");
    plan(&["--sbatch=-N1"], "asks for 16 GPUs on a node");
    // Another cluster has other partitions.
    plan(&["--sbatch=-pgqu", "--sbatch=-Mother"], "");
}
