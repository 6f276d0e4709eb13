//! A program with its own options, one that Ray starts, one that fixes all in code.

use super::place::Place;
use oomctl_base::word_list;

const SFT: &str = "#!/bin/bash
#SBATCH --job-name=sft-lora
#SBATCH --gres=gpu:a100:4
#SBATCH --mem=200G
accelerate launch --num_processes 4 \\
    train.py --bs 8 --max_len 4096 --data $SCRATCH/data/train.jsonl \"$@\"
";

/// It has a parser of its own and fills the class of TRL itself.
const TRAIN: &str = "import argparse
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

p = argparse.ArgumentParser()
p.add_argument(\"--model\", default=\"Qwen/Qwen2.5-7B-Instruct\")
p.add_argument(\"--data\")
p.add_argument(\"--lora_r\", type=int, default=64)
p.add_argument(\"--bs\", type=int, default=4)
p.add_argument(\"--max_len\", type=int, default=2048)
a = p.parse_args()
cfg = SFTConfig(
    output_dir=\"out\",
    per_device_train_batch_size=a.bs,
    gradient_accumulation_steps=4,
    max_length=a.max_len,
    bf16=True,
    save_steps=200,
)
lora = LoraConfig(r=a.lora_r, target_modules=\"all-linear\")
SFTTrainer(model=a.model, args=cfg, peft_config=lora).train()
";

const GRPO: &str = "#!/bin/bash
#SBATCH -J grpo
#SBATCH -N 2
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
srun -N1 -n1 ray start --head --port=6379 --num-gpus 8 --block &
ray job submit --address=http://$HEAD:8265 -- python3 -m openrlhf.cli.train_ppo_ray \\
    --actor_num_nodes 1 --actor_num_gpus_per_node 8 --vllm_num_engines 4 \\
    --pretrain Qwen/Qwen2.5-14B-Instruct \\
    --micro_train_batch_size 4 --train_batch_size 128 \\
    --micro_rollout_batch_size 8 --rollout_batch_size 128 \\
    --n_samples_per_prompt 8 --generate_max_len 4096 --zero_stage 3 --bf16
";

const FSDP: &str = "#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-task=4
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 pretrain.py
";

const PRETRAIN: &str = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
BATCH_SIZE = 4
model = FSDP(build())
";

fn place() -> Place {
    let mut place = Place::bare();
    for (name, text) in [
        ("sft.slurm", SFT),
        ("train.py", TRAIN),
        ("grpo.slurm", GRPO),
        ("run.slurm", FSDP),
        ("pretrain.py", PRETRAIN),
    ] {
        place.write(name, text);
    }
    place.set("OOMCTL_BACKEND", "local");
    place
}

fn told(place: &Place, words: &[&str]) -> String {
    place.steady(&place.run(words).told())
}

#[test]
fn a_program_with_options_of_its_own_is_changed_by_them_and_by_no_others() {
    let place = place();
    insta::assert_snapshot!("sft", told(&place, &["plan", "sft.slurm"]));
    let all = place.run(&["plan", "--all", "sft.slurm"]).ends(0);
    all.says(&["+    train.py --bs 4 --max_len 4096 --data", "train.py:15"]);
    assert!(!all.out.contains("--per_device"), "{}", all.out);
    // What the plan asks for can be given, and a rough answer says so.
    let known = word_list::<9>(
        "--set precision=pure_bf16 --set sharding=ddp --set gradient_checkpointing=true --set gpu_memory=79.15GiB sft.slurm",
    );
    let words = [&["plan"], &known[..]].concat();
    insta::assert_snapshot!("sft_known", told(&place, &words));
    let words = [&["estimate"], &known[..]].concat();
    insta::assert_snapshot!("sft_estimate", told(&place, &words));
}

#[test]
fn a_parser_that_fills_the_class_takes_the_options_of_the_framework() {
    let place = place();
    let text = TRAIN.replace("argparse.ArgumentParser()", "HfArgumentParser(SFTConfig)");
    place.write("train.py", &text);
    let all = place.run(&["plan", "--all", "sft.slurm"]).ends(0);
    all.says(&["--per_device_train_batch_size 4"]);
}

#[test]
fn a_program_without_a_memory_model_has_its_plan_and_says_what_is_missing() {
    let place = place();
    insta::assert_snapshot!("grpo", told(&place, &["plan", "grpo.slurm"]));
    insta::assert_snapshot!("grpo_estimate", told(&place, &["estimate", "grpo.slurm"]));
}

#[test]
fn a_program_that_fixes_all_in_its_code_is_followed_and_not_changed() {
    let place = place();
    insta::assert_snapshot!("fsdp", told(&place, &["plan", "run.slurm"]));
    insta::assert_snapshot!("fsdp_estimate", told(&place, &["estimate", "run.slurm"]));
}

/// click declares the options, a module beside the program fills the class, a variable names the model.
#[test]
fn options_of_click_and_a_module_beside_the_program_are_read() {
    let place = Place::bare();
    let job = "#!/bin/bash\n#SBATCH --gres=gpu:h100:4\naccelerate launch --num_processes 4 finetune.py --run-name x --batch-size 16\n";
    place.write("job.slurm", job);
    place.write(
        "finetune.py",
        "import click\nfrom trl import SFTTrainer\nfrom lib.settings import training_config, BASE_MODEL\n\
         @click.command()\n@click.option('--run-name')\n@click.option('--batch-size', '-b', default=8)\n\
         @click.option('--checkpointing/--no-checkpointing', default=False)\n\
         def main(run_name, batch_size, checkpointing):\n\
         \x20   model = AutoModelForCausalLM.from_pretrained(BASE_MODEL)\n\
         \x20   SFTTrainer(model=model, args=training_config(run_name, batch_size, checkpointing)).train()\n",
    );
    place.write(
        "lib/settings.py",
        "import os\nfrom trl import SFTConfig\nBASE_MODEL = os.environ.get('BASE_MODEL', 'Qwen/Qwen2.5-7B-Instruct')\n\
         def training_config(run_name, batch_size, checkpointing):\n\
         \x20   return SFTConfig(per_device_train_batch_size=batch_size, gradient_checkpointing=checkpointing,\n\
         \x20       gradient_accumulation_steps=int(os.getenv('ACCUM', 4)), max_length=4096)\n",
    );
    let all = place.run(&["plan", "--all", "job.slurm"]).ends(0);
    all.says(&[
        "--batch-size 8",
        "ACCUM=8 accelerate launch",
        "--checkpointing",
        "Qwen/Qwen2.5-7B-Instruct",
        "lib/settings.py:3",
    ]);
    assert!(!all.out.contains("--per_device"), "{}", all.out);
    assert!(!all.out.contains("--gradient_checkpointing"), "{}", all.out);
}

/// It fills the Trainer's class from its own parser, whose defaults count, and turns a switch on.
#[test]
fn a_trainer_with_a_parser_of_its_own_is_one_of_the_trainer() {
    let place = Place::bare();
    let job = "#!/bin/bash\n#SBATCH --gres=gpu:a100:2\ntorchrun --nproc_per_node 2 classify.py --lr 2e-5\n";
    place.write("run.slurm", job);
    place.write(
        "classify.py",
        "import argparse\nfrom transformers import Trainer, TrainingArguments\np = argparse.ArgumentParser()\n\
         p.add_argument('--bs', type=int, default=32)\np.add_argument('--lr')\n\
         p.add_argument('--model', default='FacebookAI/roberta-large')\n\
         p.add_argument('--gc', action=argparse.BooleanOptionalAction, default=False)\nargs = p.parse_args()\n\
         model = AutoModelForSequenceClassification.from_pretrained(args.model)\n\
         TrainingArguments('out', per_device_train_batch_size=args.bs, gradient_checkpointing=args.gc)\n",
    );
    let all = place.run(&["plan", "--all", "run.slurm"]).ends(0);
    all.says(&[
        "recognised as hf-trainer",
        "FacebookAI/roberta-large",
        "classify.py:4",
        "--bs 16",
        "--gc",
    ]);
    // Switched off by its other form, it is switched on behind that.
    place.write("run.slurm", &job.replace("--lr", "--no-gc --lr"));
    place
        .run("plan --all run.slurm")
        .ends(0)
        .says(&["--no-gc --lr 2e-5 --bs 1 --gc"]);
}

/// A loop of its own: the command gives no batch, so the default of the program is where the ladder starts.
#[test]
fn defaults_that_a_program_declares_are_values_of_its_job() {
    let place = Place::bare();
    let job = "#!/bin/bash\n#SBATCH --gpus-per-node=8\nsrun torchrun --nproc-per-node 8 train.py --data d\n";
    place.write("train.sbatch", job);
    place.write(
        "train.py",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data')\n\
         p.add_argument('--batch-size', type=int, default=256)\n",
    );
    place.run("plan --all train.sbatch").ends(0).says(&[
        "your own program: oomctl changes its options or settings files",
        "--batch-size  256 -> 128  ",
        "train.py --data d --batch-size 128",
    ]);
}
