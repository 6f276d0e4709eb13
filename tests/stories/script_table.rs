//! What a stranger sees of their own script: a table that fits the screen, at 80 and at 160 columns, and what it asks for.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::gpus::terminal_of;
use super::place::Place;
use oomctl_base::word_list;

const FSDP: &str = "#!/bin/bash
#SBATCH --job-name=llama-fsdp
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100:8
#SBATCH --output=logs/%x-%j.out
set -euo pipefail
MODEL=meta-llama/Llama-3.1-8B
BATCH=8
SEQ=4096
MASTER=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)
srun torchrun --nnodes \"$SLURM_NNODES\" --nproc_per_node 8 --rdzv_endpoint \"$MASTER:29500\" \\
  train_fsdp.py \\
    --model \"$MODEL\" \\
    --batch_size \"$BATCH\" \\
    --gradient_accumulation_steps 2 \\
    --max_seq_len \"$SEQ\"
";

const VERL: &str = "#!/bin/bash
#SBATCH -J qwen-grpo
#SBATCH -N 1
#SBATCH --gpus-per-node=h100:8
#SBATCH --mem=900G
MODEL_PATH=Qwen/Qwen2.5-7B-Instruct
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files=data/train.parquet \\
    data.val_files=data/test.parquet \\
    data.train_batch_size=1024 \\
    data.max_prompt_length=512 \\
    data.max_response_length=4096 \\
    actor_rollout_ref.model.path=$MODEL_PATH \\
    actor_rollout_ref.model.use_remove_padding=True \\
    actor_rollout_ref.model.enable_gradient_checkpointing=True \\
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32 \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.fsdp_config.param_offload=False \\
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=False \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
    actor_rollout_ref.rollout.n=5 \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32 \\
    trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=20
";

const TRL: &str = "#!/bin/bash
#SBATCH --job-name=sft
#SBATCH --gres=gpu:4
source .venv/bin/activate
srun accelerate launch --config_file configs/zero3.yaml --num_processes 4 \\
    sft.py --config configs/sft.yaml --output_dir out/sft
";

const SFT_YAML: &str = "model_name_or_path: Qwen/Qwen2.5-7B
per_device_train_batch_size: 16
gradient_accumulation_steps: 2
gradient_checkpointing: false
max_length: 4096
bf16: true
save_steps: 100
";

const ZERO3: &str = "distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3
  offload_optimizer_device: none
  offload_param_device: none
  gradient_accumulation_steps: 2
mixed_precision: bf16
num_processes: 4
";

const TRAINER: &str = "#!/bin/bash
#SBATCH -J ft
#SBATCH --gres=gpu:2
export OMP_NUM_THREADS=8
accelerate launch --multi_gpu --num_processes 2 --mixed_precision bf16 \\
  examples/run_clm.py \\
  --model_name_or_path mistralai/Mistral-7B-v0.1 \\
  --per_device_train_batch_size 8 --per_device_eval_batch_size 8 \\
  --gradient_accumulation_steps 4 --block_size 2048 \\
  --do_train --bf16 --output_dir out --save_steps 500
";

fn place() -> Place {
    let mut place = Place::bare();
    for (name, text) in [
        ("train.slurm", FSDP),
        ("grpo.slurm", VERL),
        ("sft.slurm", TRL),
        ("configs/sft.yaml", SFT_YAML),
        ("configs/zero3.yaml", ZERO3),
        ("run.sbatch", TRAINER),
    ] {
        place.write(name, text);
    }
    place.set("OOMCTL_BACKEND", "local");
    place
}

/// What a terminal of so many columns shows.
fn shown(place: &Place, columns: u16, words: &[&str]) -> String {
    let (ours, theirs) = terminal_of(columns);
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomctl"));
    place.at_home(command.args(words));
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command.stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut screen, mut seen, mut bytes) = (File::from(ours), Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = screen.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..n]);
    }
    child.wait().unwrap();
    String::from_utf8(seen).unwrap().replace("\r\n", "\n")
}

const KNOWN: [&str; 6] = word_list("--set gpu_memory=79.18GiB --set lora_r=0 --set trainer=sft");

#[test]
fn a_plan_of_ones_own_script_fits_the_screen() {
    let place = place();
    let scripts: [(&str, &[&str]); 6] = [
        ("train.slurm", &[]),
        ("grpo.slurm", &[]),
        ("sft.slurm", &[]),
        ("sft.slurm", &KNOWN),
        ("run.sbatch", &[]),
        (
            "run.sbatch",
            &word_list::<8>(
                "--set lora_r=0 --set precision=amp --set sharding=ddp --set gpu_type=h100",
            ),
        ),
    ];
    for (script, set) in scripts {
        for columns in [80, 160] {
            let words = [&["plan"], set, &[script]].concat();
            let text = shown(&place, columns, &words);
            for line in text.lines() {
                let width = line.chars().count();
                assert!(
                    width <= usize::from(columns),
                    "{width} columns: {line}\n{text}"
                );
            }
            let table = text.lines().skip_while(|l| !l.starts_with("attempt "));
            let table = table.take_while(|l| !l.is_empty()).count();
            assert!((4..=15).contains(&table), "{table} lines\n{text}");
            assert!(
                text.lines().count() <= 24,
                "{} lines\n{text}",
                text.lines().count()
            );
            // Said once, not at every rung.
            assert!(text.matches("takes the batch").count() <= 1, "{text}");
        }
    }
}

#[test]
fn the_table_says_what_changes_where_and_what_it_does() {
    let place = place();
    insta::assert_snapshot!("grpo_80", shown(&place, 80, &["plan", "grpo.slurm"]));
    insta::assert_snapshot!("sft_160", shown(&place, 160, &["plan", "sft.slurm"]));
}

#[test]
fn what_an_estimate_needs_and_the_script_leaves_open_is_asked_for() {
    let place = place();
    let none = place.run(&["estimate", "train.slurm"]).ends(5);
    none.says(&[
        "the script leaves open what an estimate needs. Add before SCRIPT:",
        "--set attention=flash|sdpa|eager",
        "--set gpu_memory=79.15GiB|39.39GiB (a100 has either)",
    ]);
    let told = word_list::<8>(
        "--set attention=flash --set optimizer=adamw --set precision=fsdp_mp --set sharding=fsdp",
    );
    let known = [&["estimate"], &told[..], &["train.slurm"]].concat();
    place.run(&known).ends(0).says(&[
        "torchrun; 16 GPUs",
        "meta-llama/Llama-3.1-8B: 8.03 B parameters",
        "GiB expected, likely ",
    ]);
    let plan = [
        &["plan"],
        &told[..],
        &["--set", "gpu_memory=79.18GiB", "train.slurm"],
    ]
    .concat();
    let plan = place.run(&plan).ends(0);
    plan.says(&[
        "; attempt 2 probably fits",
        "a forecast: after a failure, its log decides",
    ]);
    // What the script gives is changed there; a word that no preset has, or an impossible one, is refused.
    for (set, says) in [
        (
            "batch_size=4",
            "the script says batch_size itself (train.slurm:",
        ),
        ("precision=half", "precision = half is not one of fp32, amp"),
        ("lr=1", "`lr` is no value that --set takes before SCRIPT"),
    ] {
        place.says(&["plan", "--set", set, "train.slurm"], 2, &[says]);
    }
    // What code computes is no default.
    let computed = FSDP.replace("SEQ=4096", "SEQ=$(cat length)");
    place.write("train.slurm", &computed);
    let open = place.run(&known).ends(5);
    open.says(&["--set max_seq_len=N (computed: train.slurm:"]);
    let told = [&known[..9], &["--set", "max_seq_len=2048", "train.slurm"]].concat();
    let told = place.run(&told).ends(0);
    assert!(!told.out.contains("shorter-sequences"), "{}", told.out);
}

#[test]
fn the_question_has_the_table_and_d_opens_diffs_to_the_attempt_before() {
    let mut place = place();
    place.set("PAGER", "cat");
    let (ours, theirs) = terminal_of(80);
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomctl"));
    place.at_home(command.args(["submit", "train.slurm"]));
    command
        .env("NO_COLOR", "1")
        .stdin(theirs.try_clone().unwrap());
    command.stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut screen = File::from(ours);
    screen.write_all(b"d\nn\n").unwrap();
    let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = screen.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..n]);
    }
    let seen = String::from_utf8(seen).unwrap().replace("\r\n", "\n");
    assert_eq!(child.wait().unwrap().code(), Some(9), "{seen}");
    for words in [
        "batch_size 8 -> 4 -> 2 -> 1",
        "these changes if memory runs out? [y/N/d] (d: diffs): ",
        "-BATCH=4\n+BATCH=2\n",
        "nothing was submitted",
    ] {
        assert!(seen.contains(words), "{words}\n{seen}");
    }
    assert!(!seen.contains("-BATCH=8\n+BATCH=2"), "{seen}");
    assert!(!place.root.join(".oomctl/runs").exists());
}

const DPO: &str = "#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
srun bash -c 'accelerate launch --config_file zero3.yaml \\
    --num_machines $SLURM_NNODES --machine_rank $SLURM_NODEID --main_process_ip $HEAD \\
    align.py --config dpo.yaml'
";

const DPO_YAML: &str = "model_name_or_path: meta-llama/Llama-3.1-8B-Instruct
per_device_train_batch_size: 4
gradient_accumulation_steps: 4
max_length: 4096
bf16: true
gradient_checkpointing: false
";

/// A file of accelerate with a file of DeepSpeed, whose `auto` leaves the batch to the Trainer.
const DEEPSPEED: &str = "distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: ds.json
num_machines: 2
num_processes: 16
";

const AUTO: &str = "{\"zero_optimization\": {\"stage\": 3},
  \"gradient_accumulation_steps\": \"auto\",
  \"train_micro_batch_size_per_gpu\": \"auto\"}
";

#[test]
fn the_python_text_says_trainer_adapter_and_format_so_that_trl_is_estimated_without_a_question() {
    let place = place();
    for (name, text) in [
        ("align.slurm", DPO),
        ("dpo.yaml", DPO_YAML),
        ("zero3.yaml", DEEPSPEED),
        ("ds.json", AUTO),
        ("requirements.txt", "trl==1.16.0\n"),
        (
            "align.py",
            "from trl import DPOConfig, DPOTrainer\ntrainer = DPOTrainer(model, args=args)\n",
        ),
        (
            "tune.slurm",
            "#!/bin/bash\n#SBATCH --gres=gpu:4\ntorchrun --nproc_per_node=4 tune.py --model_name_or_path Qwen/Qwen2.5-7B \\\n  \
             --per_device_train_batch_size 4 --gradient_accumulation_steps 8 --max_length 4096 --bf16\n",
        ),
        (
            "tune.py",
            "from trl import SFTTrainer\nm = load(name, torch_dtype=torch.bfloat16)\nSFTTrainer(m)\n",
        ),
    ] {
        place.write(name, text);
    }
    insta::assert_snapshot!(
        "dpo_80",
        shown(
            &place,
            80,
            &["plan", "--set", "gpu_memory=80GiB", "align.slurm"]
        )
    );
    insta::assert_snapshot!("tune_80", shown(&place, 80, &["plan", "tune.slurm"]));
    // TRL recomputes activations by default since 0.22.
    place.write("requirements.txt", "trl>=0.20\n");
    let since = "activation_offloading: TRL has it since 0.18.0, and the version is only assumed";
    place.says("plan --all tune.slurm", 0, &[since]);
    let asked = [
        "  --set gradient_checkpointing=true|false",
        "gradient_checkpointing unset -> true",
    ];
    place.says("plan tune.slurm", 0, &asked);
    place.write("requirements.txt", "trl==1.16.0\n");
    // The rank of an adapter is read where the code says it, and asked for where the code computes it.
    let adapter = |rank: &str| {
        format!(
            "from trl import SFTTrainer\nSFTTrainer(m, peft_config=LoraConfig(r={rank}), dtype=\"bfloat16\")\n"
        )
    };
    place.write("tune.py", &adapter("8"));
    place.says("plan tune.slurm", 0, &["now: 25 GiB in backward"]);
    place.write("tune.py", &adapter("rank_of(m)"));
    let open = place.run(&["plan", "tune.slurm"]).ends(0);
    open.says(&["memory unknown", "--set lora_r=RANK (0 without LoRA)"]);
}

#[test]
fn a_project_has_the_table_too_and_a_type_of_gpu_with_two_sizes_is_asked_about() {
    let place = Place::with(
        "preset: verl-grpo\nknobs: { train_files: a, val_files: b, model.path: Qwen/Qwen2.5-7B-Instruct, rollout.name: vllm, \
         gpu_memory_utilization: 0.6 }\n",
    );
    insta::assert_snapshot!(
        "project_80",
        shown(&place, 80, &["plan", "--set", "gpu_type=A100"])
    );
}

/// A change in a second file is not shown under the name of the first, and what is far too large is not "too rough to say".
#[test]
fn each_change_is_shown_with_the_file_that_has_it() {
    let place = Place::bare();
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:8\nllamafactory-cli train full.yaml\n",
    );
    place.write("full.yaml", "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\ndeepspeed: z2.json\n\
        dataset: a\ntemplate: llama3\ncutoff_len: 4096\noutput_dir: o\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: true\n");
    place.write("z2.json", "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": \"auto\", \"bf16\": {\"enabled\": \"auto\"},\n\
        \"zero_optimization\": {\"stage\": 2}}\n");
    let plan = |set: &str| place.run(&["plan", "--set", set, "job.sh"]).ends(0).out;
    let told = plan("gpu_memory=40GiB");
    assert!(!told.contains("change in"), "{told}");
    for place in [
        "full.yaml and z2.json",
        "full.yaml:10",
        "full.yaml:added",
        "z2.json:added",
    ] {
        assert!(told.contains(place), "{place}: {told}");
    }
    let told = plan("gpu_type=H1000");
    assert!(
        told.contains("gpu_memory=79.18GiB (H1000 is in no table)"),
        "{told}"
    );
}

#[test]
fn an_estimate_far_above_the_gpu_is_not_too_rough_to_decide() {
    let place = Place::bare();
    place.write("job.slurm", FSDP);
    place.write("train_fsdp.py", "import argparse\n");
    let mut words = vec!["plan"];
    for set in [
        "gpu_memory=24GiB",
        "attention=sdpa",
        "optimizer=adamw",
        "precision=fsdp_mp",
        "sharding=fsdp",
    ] {
        words.extend(["--set", set]);
    }
    words.push("job.slurm");
    let told = place.run(&words).ends(0).out;
    assert!(
        told.contains("of 24 GiB") && !told.contains("too rough"),
        "{told}"
    );
}

const OWN_BATCH: &str = r#"from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import argparse
p = argparse.ArgumentParser()
p.add_argument("--bs", type=int, default=8)
p.add_argument("--accum", type=int, default=4)
a = p.parse_args()
args = TrainingArguments(output_dir="out", per_device_train_batch_size=a.bs, gradient_accumulation_steps=a.accum, bf16=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="bfloat16")
Trainer(model=model, args=args).train()
"#;

/// A step of several halvings is one step, and costs what they do.
#[test]
fn estimate_and_plan_say_by_the_same_numbers_what_makes_a_job_fit() {
    let place = place();
    place.write("finetune.py", OWN_BATCH);
    let job = "#!/bin/bash\n#SBATCH --gres=gpu:h100:4\ntorchrun --nproc_per_node 4 finetune.py --bs 16 --accum 2\n";
    place.write("trainer.slurm", job);
    let with = ["--set", "block_size=4096", "trainer.slurm"];
    let words = |command| [&[command][..], &with[..]].concat();
    let estimate = place.run(&words("estimate")).ends(0).out;
    let fits = "make it fit: halve-batch-keep-effective (--bs 16 -> 1), ";
    assert!(estimate.contains(fits), "{estimate}");
    let plan = place.run(&words("plan")).ends(0).out;
    let row = plan.lines().find(|line| line.contains("--bs 16 -> 1"));
    assert!(
        row.is_some_and(|row| row.trim_end().ends_with("-35 %")),
        "{plan}"
    );
    // What the rows lose together is what all of them have lost so far.
    let plan = place.json(&[
        "plan",
        "--json",
        "--set",
        "block_size=4096",
        "trainer.slurm",
    ]);
    let rungs = plan["attempts"].as_array().unwrap().iter();
    let rungs: Vec<_> = rungs.flat_map(|a| a["rungs"].as_array().unwrap()).collect();
    let left = rungs.iter().filter_map(|r| r["slower"].as_f64());
    let lost = 1.0 - left.map(|slower| 1.0 - slower).product::<f64>();
    let told = rungs.last().unwrap()["slower_so_far"].as_f64().unwrap();
    assert!((lost - told).abs() < 1e-4, "{lost} {told}");
}
