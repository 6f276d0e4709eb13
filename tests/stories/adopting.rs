//! Scripts of the user's own: what is understood of them, and the first rung as a patch.

use super::place::Place;
use oomctl_base::table;

const SUBMIT: &str = "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --mem=64G\nDATA=$1\nexport BS=${BS:-256}\nbash run.sh \"$DATA\"\n";
const RUN: &str = "python3 -m verl.trainer.main_ppo data.train_files=/d/$1.parquet \\\n  data.train_batch_size=$BS \\\n  actor_rollout_ref.actor.ppo_mini_batch_size=64 \\\n  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \\\n  actor_rollout_ref.rollout.n=4 trainer.n_gpus_per_node=4 \\\n  actor_rollout_ref.rollout.gpu_memory_utilization=$(cat share)\n";

#[test]
fn a_script_is_understood_and_its_first_rung_is_a_patch() {
    let place = Place::bare();
    place.write("submit.slurm", SUBMIT);
    place.write("run.sh", RUN);
    let done = place
        .run(&["plan", "--all", "submit.slurm", "gems"])
        .ends(0);
    done.says(&[
        "recognised as verl-grpo",
        "/d/gems.parquet",
        "submit.slurm:5",
        "is computed there (run.sh:6)",
        "halve-batches: halve the batches",
        "-export BS=${BS:-256}",
        "+export BS=${BS:-128}",
        "+  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\",
    ]);
    let view = place.json("plan --json submit.slurm gems");
    assert_eq!(view["schema_version"], 1);
    let options = view["options"].as_array().unwrap();
    assert_eq!(options[1]["value"], "64G");
    assert_eq!(place.read("submit.slurm"), SUBMIT);
}

#[test]
fn a_value_that_is_computed_is_given_where_it_wins() {
    let place = Place::bare();
    place.write("submit.slurm", SUBMIT);
    place.write("run.sh", RUN);
    let done = place.run(&["adopt", "--all", "submit.slurm"]).ends(0);
    done.says(&[
        "to set it, append `actor_rollout_ref.rollout.gpu_memory_utilization=VALUE` to the command",
    ]);
    let wrong = ["plan", "--set", "no_such_knob=1", "submit.slurm"];
    place
        .run(&wrong)
        .ends(2)
        .says(&["--set no_such_knob=1: `no_such_knob` is no value that --set takes before SCRIPT"]);
    place.run(&["plan", "--all", "nowhere.slurm"]).ends(2);
}

#[test]
fn what_is_missing_and_what_is_no_shell_is_said() {
    let place = Place::bare();
    place.write(
        "a.py",
        "#!/usr/bin/env python3\n#SBATCH --mem=1G\nprint('it(\n",
    );
    place.run("plan --all a.py").ends(0).says(&[
        "framework not recognised",
        "note: a.py is no shell script, so oomctl reads only its #SBATCH lines",
    ]);
    place.write(
        "b.sh",
        "source env.sh\npython3 -m verl.trainer.main_ppo data.train_batch_size=8\n",
    );
    place.says("plan --all b.sh", 0, &["file not found: env.sh"]);
}

#[test]
fn the_version_of_the_framework_is_the_one_that_the_script_names() {
    let place = Place::bare();
    let script = |line: &str| {
        format!(
            "#!/bin/bash\n#SBATCH --gres=gpu:1\n{line}\ntrl grpo --per_device_train_batch_size 8\n"
        )
    };
    for (line, says) in [
        ("module load trl/0.20", "TRL 0.20.0, as job.slurm:3 says"),
        ("", "TRL version not found; assuming "),
        (
            "pip install trl==0.20.0\nmodule load trl/0.21",
            "TRL version unclear (job.slurm:3 says 0.20.0, job.slurm:4 says 0.21.0); assuming",
        ),
        (
            "module load trl/0.1",
            "TRL 0.1.0, as job.slurm:3 says, is not supported",
        ),
    ] {
        place.write("job.slurm", &script(line));
        place.says("plan --all job.slurm", 0, &[says]);
        let done = place.run(&["submit", "--dry-run", "job.slurm"]).ends(0);
        done.says(&[says]);
    }
}

#[test]
fn a_requirement_names_the_version_unless_a_traceback_shows_another() {
    let place = Place::bare();
    place.write(
        "job.slurm",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 -m verl.trainer.main_ppo data.train_batch_size=64\n",
    );
    place.write("requirements.txt", "torch\nverl[vllm]==0.8.0\n");
    let asked = "verl 0.8.0, as requirements.txt:2 says\n";
    place.says("plan --all job.slurm", 0, &[asked]);
    place.write(
        "job.err",
        "Traceback (most recent call last):\n  File \"/opt/verl/verl/workers/actor/dp_actor.py\", line 550, in update_policy\n\
         \x20   loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
    );
    let shown = "verl 0.7.1 or older, as job.err:2 (";
    place.says("fix job.err job.slurm", 0, &[shown]);
}

#[test]
fn the_version_is_that_of_the_source_tree_that_the_job_imports() {
    let place = Place::bare();
    let script = |lines: &str| {
        let run = "data.train_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8";
        format!("#!/bin/bash\n#SBATCH --gres=gpu:1\n{lines} {run}\n")
    };
    let module = "python3 -m verl.trainer.main_ppo";
    place.write("verl/__init__.py", "__version__ = read()\n");
    place.write("verl/version/version", "0.6.1\n");
    place.write("old/verl/__init__.py", "__version__ = \"0.5.0\"\n");
    place.write("next/verl/__init__.py", "__version__ = read()\n");
    place.write("next/verl/version/version", "0.8.0.dev\n");
    let info = "env/lib/python3.12/site-packages/verl-0.7.0.dist-info/METADATA";
    place.write(info, "Name: verl\n");
    for (lines, says) in [
        (
            module.to_owned(),
            "verl 0.6.1, as verl/version/version says\n",
        ),
        (
            format!("pip install verl==0.5.0\n{module}"),
            "verl 0.6.1, as verl/version/version says (but job.slurm:3 says 0.5.0)",
        ),
        (
            format!("cd old\n{module}"),
            "verl 0.5.0, as old/verl/__init__.py says\n",
        ),
        (
            format!("export PYTHONPATH=$PWD:$PYTHONPATH\ncd next\n{module}"),
            "verl 0.8.0.dev, as next/verl/version/version says, treated as 0.8.0",
        ),
        (
            // The folder of the script is looked in, not the one that it runs in.
            "source env/bin/activate\npython3 jobs/main_ppo.py".to_owned(),
            "verl 0.7.0, as env/lib/python3.12/site-packages/verl-0.7.0.dist-info says \
             (but verl/version/version says 0.6.1)",
        ),
        (
            "python3 jobs/main_ppo.py".to_owned(),
            "verl 0.6.1, as verl/version/version says\n",
        ),
        (
            "PYTHONPATH=old python3 jobs/main_ppo.py".to_owned(),
            "verl 0.5.0, as old/verl/__init__.py says\n",
        ),
    ] {
        place.write("job.slurm", &script(&lines));
        place.says("plan --all job.slurm", 0, &[says]);
    }
}

#[test]
fn the_environment_in_which_a_job_is_submitted_names_the_version_where_the_job_has_it() {
    let mut place = Place::bare();
    place.set("VIRTUAL_ENV", &place.path("env").display().to_string());
    place.write(
        "env/lib/python3.12/site-packages/trl-0.20.0.dist-info/METADATA",
        "Name: trl\n",
    );
    place.write(
        "job.slurm",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\ntrl grpo --per_device_train_batch_size 8\n",
    );
    place.says("plan --all job.slurm", 0, &["TRL 0.20.0, as "]);
    let none = ["plan", "--all", "--sbatch=--export=NONE", "job.slurm"];
    place.says(&none, 0, &["TRL version not found"]);
}

#[test]
fn a_file_of_settings_that_is_not_read_is_named_and_nothing_is_taken_for_its_content() {
    let place = Place::bare();
    for [words, named] in table::<2, 3>(
        "
        --deepspeed_config ds.json | file not found: ds.json
        --deepspeed_config $DS | not read: what --deepspeed_config names ($DS);
        --deepspeed-config=conf/ds | not read: what --deepspeed-config names (conf/ds);
        ",
    ) {
        let run = format!("deepspeed --num_gpus 4 train.py {words}");
        place.write(
            "job.sh",
            &format!("#!/bin/bash\n#SBATCH --gres=gpu:4\n{run}\n"),
        );
        let done = place.run(&["plan", "--all", "job.sh"]).ends(0);
        done.says(&[
            named,
            "halve-micro-batch, accumulate-more: whether it helps depends on gradient_accumulation_steps, which is unknown",
        ]);
        assert!(!done.out.contains("the file gives no"), "{}", done.out);
        place.says("plan --all job.sh", 0, &[named]);
    }
}

#[test]
fn what_describes_the_gpus_counts_for_a_script_of_ones_own_and_what_does_not_count_is_named() {
    let mut place = Place::bare();
    let script = |line: &str| {
        format!(
            "#!/bin/bash\n#SBATCH {line}\ntorchrun --nproc_per_node 8 train.py --batch_size 8\n"
        )
    };
    place.write("job.slurm", &script("--gres=gpu:8"));
    place.write("typed.slurm", &script("--gres=gpu:h100:8"));
    let says = |place: &Place, words: &[&str], expected: &str| {
        let words: Vec<&str> = ["plan", "--all"].iter().chain(words).copied().collect();
        place.says(&words, 0, &[&format!("memory of a GPU: {expected}\n")]);
    };
    let set = ["--set", "gpu_memory=80GiB", "job.slurm"];
    says(&place, &set, "80GiB, by --set gpu_memory=80GiB");
    let table = place.run(&["plan", "--all", "typed.slurm"]).ends(0);
    table.says(&["memory of a GPU: 79.18GiB, by ", "nvidia.yaml:"]);
    let typed = ["--set", "gpu_type=t4", "job.slurm"];
    place
        .run(&[&["plan", "--all"], &typed[..]].concat())
        .ends(0)
        .says(&["memory of a GPU: 14.56GiB, by "]);
    place.write(
        "oomctl.yaml",
        "cluster: ours\nknobs: { gpu_memory: 24GiB, batch_size: 4 }\n",
    );
    place.write(
        "presets/clusters/ours.yaml",
        "cluster: ours\nfacts:\n  gpu_types:\n    - { name: H100, memory: 93.5GiB, set: { gpu_type: h100 } }\nknobs: { gpu_type: v100, gpu_memory: 16GiB }\n",
    );
    says(&place, &["job.slurm"], "24GiB, by oomctl.yaml:2");
    place.says("plan --all job.slurm", 0, &[
        "note: batch_size under `knobs:` of oomctl.yaml is for templates; the script gives its values itself",
    ]);
    place.set("OOMCTL_GPU_MEMORY", "40GiB");
    says(&place, &["job.slurm"], "40GiB, by $OOMCTL_GPU_MEMORY");
    place.variables.clear();
    place.write("oomctl.yaml", "cluster: ours\n");
    let of_profile = [
        "memory of a GPU: 16GiB, by ",
        "/presets/clusters/ours.yaml:5\n",
    ];
    place.says("plan --all job.slurm", 0, &of_profile);
    // What the profile says of its usual GPUs is not said of those that the script asks for.
    let of_types = "93.5GiB: H100, of the cluster profile's gpu_types";
    says(&place, &["typed.slurm"], of_types);
    let refused = ["plan", "--set", "batch_size=4", "job.slurm"];
    place.run(&refused).ends(2).says(&[
        "the script says batch_size itself (job.slurm:3)",
        "change it there",
    ]);
}

#[test]
fn a_script_with_data_parallel_is_known_by_its_program_and_gets_its_ladder() {
    let place = Place::bare();
    place.write(
        "train.py",
        "import torch.nn as nn\nmodel = nn.DataParallel(build(), device_ids=[0, 1, 2, 3])\n",
    );
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:4\npython3 train.py --batch-size 64 --lr 0.1 --output_device 0\n",
    );
    let done = place.run(&["plan", "--all", "job.sh"]).ends(0);
    done.says(&[
        "recognised as data-parallel",
        "--output_device  0 -> 3    job.sh:3  same",
        "--batch-size     64 -> 32  job.sh:3  changes",
        "--batch-size     8 -> 4    job.sh:3  changes",
        "distributed: ddp_script is not set",
    ]);
    place.write(
        "train.py",
        "from torch.nn.parallel import DistributedDataParallel\nmodel = DistributedDataParallel(build())\n",
    );
    place.says(
        "plan --all job.sh",
        0,
        &["your own program: oomctl changes its options or settings files"],
    );
}

#[test]
fn a_rung_of_which_a_part_cannot_be_taken_does_not_claim_what_it_would_do_as_a_whole() {
    let place = Place::bare();
    let words = "--per_device_train_batch_size 8 --gradient_accumulation_steps $(cat steps)";
    let script = format!("#!/bin/bash\n#SBATCH --gres=gpu:1\ntorchrun run_clm.py {words}\n");
    place.write("job.sh", &script);
    let done = place.run(&["plan", "--all", "job.sh"]).ends(0);
    done.says(&["--per_device_train_batch_size  8 -> 4                     job.sh:3      changes"]);
}

#[test]
fn a_variable_that_the_submission_gives_or_withholds_is_not_taken_for_the_scripts_own() {
    let mut place = Place::bare();
    place.set("BS", "128");
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --batch_size ${BS:-32} --gradient_accumulation_steps 1\n";
    place.write("job.slurm", script);
    let given = ["plan", "--all", "--sbatch=--export=BS=64", "job.slurm"];
    place.run(&given).ends(0).says(&[
        "batch_size                   64",
        "+python train.py --batch_size 32",
    ]);
    let withheld = ["plan", "--all", "--sbatch=--export=NONE", "job.slurm"];
    place.says(&withheld, 0, &["batch_size                   32"]);
}

#[test]
fn what_a_project_pins_holds_for_the_script_whose_preset_is_recognised() {
    let place = Place::bare();
    let sft = "#!/bin/bash\n#SBATCH --gres=gpu:1\ntrl sft --per_device_train_batch_size 8 --max_length 4096\n";
    place.write("job.slurm", sft);
    place.write("other.slurm", "#!/bin/bash\npython3 train.py\n");
    let shortens = |file: &str| {
        place.write("oomctl.yaml", file);
        let done = place.run("plan --all job.slurm").ends(0);
        let mut lines = done.out.lines();
        let moves = lines.any(|line| line.contains("max_length") && line.contains("4096 -> 2048"));
        (moves, done)
    };
    assert!(shortens("limits: { attempts: 9 }\n").0);
    for pinned in [
        "pin: [max_length]\n",
        "preset: trl\npin: [max_length]\n",
        "trl_version: 0.20.0\npin: [max_length]\n",
    ] {
        let (moves, done) = shortens(pinned);
        assert!(!moves, "{pinned}{}", done.told());
    }
    // Pins for the templates of another framework are not for this script.
    let (moves, done) = shortens("preset: verl-grpo\npin: [train_batch_size]\n");
    assert!(moves);
    done.says(&[
        "note: `pin:` of oomctl.yaml is for preset verl-grpo; the script is recognised as trl",
    ]);
    place.says(
        "plan --all other.slurm",
        0,
        &["note: `pin:` of oomctl.yaml has no effect: framework not recognised"],
    );
    for (file, says) in [
        ("pin: [max_lenth]\n", "oomctl.yaml:1:7"),
        ("pin: [max_lenth]\n", "did you mean max_length?"),
        ("pins: [max_length]\n", "oomctl.yaml:1:1"),
        ("nonsense: 3\n", "unknown key `nonsense`"),
        ("preset: trl\nnonsense: 3\n", "oomctl.yaml:2:1"),
    ] {
        place.write("oomctl.yaml", file);
        place.says("plan job.slurm", 5, &[says]);
        place.says("submit --dry-run job.slurm", 5, &[says]);
    }
    place.says("plan other.slurm", 5, &["unknown key `nonsense`"]);
}
