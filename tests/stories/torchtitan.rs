//! Jobs of torchtitan: with a TOML file up to 0.2.2, with a function of Python from 0.3.0 on.

use super::own_scripts::place;

const TOML: &str = "[job]\ndump_folder = \"out\"\n\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n\n[training]\nlocal_batch_size = 4\n\
    seq_len = 8192\nsteps = 1000\n\n[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n";

/// Where the batch of a step follows the batch of a GPU, it is said once what it was.
#[test]
fn half_the_batch_of_a_toml_file_keeps_the_batch_of_a_step() {
    let place = place();
    place.write("llama.toml", TOML);
    place.write(
        "titan.slurm",
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:8\nsrun torchrun --nnodes 2 --nproc_per_node 8 \
         -m torchtitan.train --job.config_file ./llama.toml\n",
    );
    let plan = place.run(&["plan", "--all", "titan.slurm"]).ends(0);
    plan.says(&[
        "recognised as torchtitan-toml",
        "local_batch_size                       4 -> 2             llama.toml:9       same",
        "-local_batch_size = 4\n+local_batch_size = 2",
        "--training.global_batch_size 64",
        "activation_checkpoint.mode             selective -> full  llama.toml:14      same",
    ]);
    assert!(
        !plan.out.contains("global_batch_size 32"),
        "{}",
        plan.told()
    );
}

/// tyro takes no flag of another section behind a subcommand (torchtitan 0.3.0 config/manager.py).
#[test]
fn nothing_is_added_behind_a_subcommand() {
    let place = place();
    let line = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b --training.local_batch_size 4 \
                --training.global_batch_size 64";
    let plan = |end: &str| {
        place.write(
            "titan.slurm",
            &format!("#!/bin/bash\n#SBATCH --gres=gpu:8\n{line}{end}\n"),
        );
        place.run(&["plan", "--all", "titan.slurm"]).ends(0)
    };
    let bare = plan("");
    bare.says(&[
        "recognised as torchtitan;",
        "--training.local_batch_size     4 -> 2         titan.slurm:3      same",
        "--training.disable_cuda_graphs",
        "activation-checkpoint:full",
    ]);
    let ended = plan(" activation-checkpoint:selective");
    ended.says(&["--training.local_batch_size  4 -> 2"]);
    assert!(
        !ended.out.contains("--training.disable_cuda_graphs"),
        "{}",
        ended.told()
    );
}
