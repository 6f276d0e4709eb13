//! Programs of one's own, whose text decides what a word of the job script means.

use super::fixing;
use super::place::{Done, Place};

const LOG: &str = "\
Traceback (most recent call last):
  File \"/home/ada/train.py\", line 40, in main
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.
";

const HEAD: &str = "#SBATCH --gres=gpu:8\n#SBATCH --mem=64G";

/// A job that runs `script`, with these files beside it.
fn job(script: &str, files: &[(&str, &str)]) -> Place {
    fixing::job(&format!("{HEAD}\n{script}"), LOG, files)
}

fn fixed(script: &str, files: &[(&str, &str)]) -> Done {
    fixing::fixed(&format!("{HEAD}\n{script}"), LOG, files)
}

/// `train: {micro_batch_size: …}` is a key of OpenRLHF too. The program imports no OpenRLHF, and looks the key up itself.
#[test]
fn sections_of_settings_that_the_program_looks_up_are_its_own() {
    let settings = "data:\n  seq_len: 4096\ntrain:\n  micro_batch_size: 16\n  grad_accum: 2\neval:\n  micro_batch_size: 64\n";
    let program = "\
import argparse, torch, yaml
p = argparse.ArgumentParser()
p.add_argument('--config')
p.add_argument('--micro-batch-size', type=int, default=None)
args = p.parse_args()
cfg = yaml.safe_load(open(args.config))
if args.micro_batch_size is not None:
    cfg['train']['micro_batch_size'] = args.micro_batch_size
rows(cfg['train']['micro_batch_size'], cfg['eval']['micro_batch_size'])
step(cfg['train'].get('grad_accum', 1))
";
    let files = [("conf/a.yaml", settings), ("train.py", program)];
    let script = "torchrun --nproc_per_node 8 train.py --config conf/a.yaml";
    fixed(script, &files).says(&[
        "batch_size                   16 -> 8",
        "-  micro_batch_size: 16\n-  grad_accum: 2\n+  micro_batch_size: 8\n+  grad_accum: 4",
    ]);
    // An option on the command line wins over the file.
    let script = format!("{script} --micro-batch-size 4");
    fixed(&script, &files).says(&[
        "batch_size                   4 -> 2",
        "+torchrun --nproc_per_node 8 train.py --config conf/a.yaml --micro-batch-size 2",
        "+  grad_accum: 4",
    ]);
    // An option with a default of its own may win, so the file is left alone.
    let decided = program.replace("default=None", "default=8");
    let said = fixed(
        "torchrun --nproc_per_node 8 train.py --config conf/a.yaml",
        &[("conf/a.yaml", settings), ("train.py", &decided)],
    );
    assert!(!said.out.contains("+  micro_batch_size"), "{}", said.out);
}

/// A batch that the program divides, or that its help calls global, is none of one GPU.
#[test]
fn a_batch_of_all_gpus_is_not_halved_for_one() {
    let program = |help: &str, local: &str| {
        format!(
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=8, help='{help}')\n\
             p.add_argument('--grad-accum', type=int, default=1)\na = p.parse_args()\nlocal = {local}\n"
        )
    };
    let script = "torchrun --nproc_per_node 8 train.py --batch-size 256 --grad-accum 2";
    for (help, local) in [
        ("samples", "a.batch_size // world // a.grad_accum"),
        ("global batch size, over all ranks", "split(a)"),
    ] {
        let said = fixed(script, &[("train.py", &program(help, local))]);
        said.says(&["gradient_accumulation_steps  2 -> 4", "(same math, slower)"]);
        assert!(!said.out.contains(" 256 -> "), "{}", said.out);
    }
    let said = fixed(script, &[("train.py", &program("samples", "a.batch_size"))]);
    said.says(&[
        "batch_size                   256 -> 128",
        "gradient_accumulation_steps  2 -> 4",
    ]);
}

/// Python that the script writes itself is the program that runs, whatever lies there now, and is changed where the script
/// writes it.
#[test]
fn a_program_that_the_script_writes_is_read_and_changed_there() {
    let script = "\
cat > sft.py <<'EOF'
from trl import SFTConfig, SFTTrainer
args = SFTConfig(output_dir='o', per_device_train_batch_size=8, gradient_checkpointing=True)
SFTTrainer(model='Qwen/Qwen3-0.6B', args=args).train()
EOF
python sft.py";
    for old in [
        "",
        "from trl import TrlParser, SFTConfig\nTrlParser((SFTConfig,)).parse_args_and_config()\n",
    ] {
        let said = fixed(script, &[("sft.py", old)]);
        said.says(&[
            "per_device_train_batch_size  8 -> 4",
            "--- a/job.sh",
            "+args = SFTConfig(output_dir='o', per_device_train_batch_size=4, gradient_checkpointing=True, \
             gradient_accumulation_steps=2)",
        ]);
    }
}

/// What a program fills its framework's class with is changed in a copy, which imports from where the original lies.
#[test]
fn a_value_that_stands_in_the_program_is_changed_in_a_copy_of_it() {
    let program = "\
'''Trains.'''
from __future__ import annotations
import os
from trl import SFTConfig, SFTTrainer
from mine import LIMIT

def main():
    args = SFTConfig(
        output_dir='o',
        per_device_train_batch_size=4,
        max_length=LIMIT,
    )
    SFTTrainer(model='Qwen/Qwen3-0.6B', args=args, own=__file__).train()

if __name__ == '__main__':
    main()
";
    let framework = "\
import json, sys
class SFTConfig:
    def __init__(self, **given): self.given = given
class SFTTrainer:
    def __init__(self, model, args, own): self.args, self.own = args, own
    def train(self):
        print('ran', json.dumps(self.args.given), self.own)
        if self.args.given['per_device_train_batch_size'] > 2:
            sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. '
                     'GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.')
";
    let files = [
        ("src/train.py", program),
        ("src/mine.py", "LIMIT = 512\n"),
        ("src/trl.py", framework),
    ];
    let place = job("cd src\npython3 train.py", &files);
    let said = place.call("submit --yes --watch --backend local job.sh");
    said.ends(0).says(&["gradient_accumulation_steps  1 -> 2"]);
    let run = place.run_dir("job-1");
    let copy = place.read(&format!("{run}/attempt-2/train.py"));
    let src = place.path("src");
    let src = src.display();
    let line = format!(
        "import sys; sys.path[0] = '{src}'; __file__ = '{src}/train.py' # oomctl: this is a changed copy\n"
    );
    let changed = program
        .replace("import os", &format!("{line}import os"))
        .replace("batch_size=4", "batch_size=2")
        .replace("=LIMIT", "=LIMIT,\n        gradient_accumulation_steps=2");
    assert_eq!(copy, changed);
    let ran = place.read(&format!("{run}/attempt-2/slurm.out"));
    let given = r#"{"output_dir": "o", "per_device_train_batch_size": 2, "max_length": 512, "gradient_accumulation_steps": 2}"#;
    assert_eq!(ran.trim(), format!("ran {given} {src}/train.py"));
    assert_eq!(place.read("src/train.py"), program);
}

/// A program that looks for files beside its own, or that a value serves twice, is left alone.
#[test]
fn a_program_that_cannot_be_copied_keeps_its_values() {
    let plan = |head: &str, batch: &str| {
        let program = format!(
            "from trl import SFTConfig, SFTTrainer\n{head}\n\
             args = SFTConfig(output_dir='o', per_device_train_batch_size={batch})\nSFTTrainer(model='m', args=args).train()\n"
        );
        let place = job("python train.py", &[("train.py", &program)]);
        place.call("plan job.sh").ends(0)
    };
    for (head, batch) in [
        ("import hydra", "8"),
        ("mp.set_start_method('spawn')", "8"),
        ("B = 8\nprint(B)", "B"),
    ] {
        plan(head, batch).says(&["oomctl cannot change it there"]);
    }
    plan("B = 8", "B").says(&["8 -> 4 -> 2"]);
}

/// Constants of a plain training loop are its settings, where nothing else gives them a value.
#[test]
fn constants_of_a_program_without_options_are_its_knobs() {
    let program = "\
import torch
batch_size = 128
micro_batch_size = 4
accumulation = batch_size // micro_batch_size
MAX_SEQ_LEN = 2048
for rows in load(micro_batch_size, MAX_SEQ_LEN):
    loss(rows).backward()
";
    let said = fixed("python train.py --data x", &[("train.py", program)]);
    said.says(&[
        "batch_size  4 -> 2  (same math",
        "-micro_batch_size = 4\n+micro_batch_size = 2\n",
    ]);
    let settings = "\
@dataclass
class Settings:
    batch_size: int = 32
    gradient_accumulation_steps: int = 1
loss(Settings().batch_size).backward()
";
    let said = fixed("python train.py", &[("train.py", settings)]);
    said.says(&["+    batch_size: int = 16\n+    gradient_accumulation_steps: int = 2\n"]);
    for more in [
        "exec(open('more.py').read())",
        "batch_size *= 2",
        "self.batch_size = 2",
    ] {
        let program = format!("{settings}{more}\n");
        let said = fixed("python train.py", &[("train.py", &program)]);
        assert!(!said.out.contains("32 -> 16"), "{more}: {}", said.out);
    }
}

/// An adapter in one branch may not be there.
#[test]
fn an_adapter_below_a_condition_is_not_known() {
    let program = |adapter: &str| {
        format!(
            "import argparse\nfrom peft import LoraConfig, get_peft_model\nfrom transformers import Trainer, TrainingArguments, HfArgumentParser\n\
             args, own = HfArgumentParser((TrainingArguments, Own)).parse_args_into_dataclasses()\n\
             def main():\n    model = load()\n{adapter}    Trainer(model=model, args=args).train()\n\nif __name__ == '__main__':\n    main()\n"
        )
    };
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 8 \
        --bf16 --torch_dtype bfloat16 --output_dir o";
    let known = "    model = get_peft_model(model, LoraConfig(r=16))\n";
    let read = "lora_r                       16  train.py";
    let plan = |adapter: &str| {
        let place = job(script, &[("train.py", &program(adapter))]);
        place.call("plan --all job.sh").ends(0)
    };
    plan(known).says(&[read]);
    for unknown in [
        "    if own.lora:\n        model = get_peft_model(model, LoraConfig(r=16))\n",
        "    config = LoraConfig(r=16) if own.lora else None\n    model = get_peft_model(model, config)\n",
    ] {
        let said = plan(unknown);
        assert!(!said.out.contains(read), "{}", said.out);
        said.says(&["--set lora_r=RANK"]);
    }
}

/// Nothing in the script names the Trainer. The log does, and so may the user.
#[test]
fn a_framework_is_named_by_the_log_or_by_the_user() {
    let log = "\
Traceback (most recent call last):
  File \"run_language_modeling.py\", line 277, in main
    trainer.train()
  File \"/opt/venv/lib/python3.8/site-packages/transformers/trainer.py\", line 499, in train
    tr_loss += self._training_step(model, inputs, optimizer)
  File \"/opt/venv/lib/python3.8/site-packages/transformers/trainer.py\", line 622, in _training_step
    outputs = model(**inputs)
RuntimeError: CUDA out of memory. Tried to allocate 384.00 MiB (GPU 0; 15.90 GiB total capacity; 14.75 GiB already allocated; 225.81 MiB free; 14.81 GiB reserved in total by PyTorch)
";
    let place = job("python lm.py --train_data_file a.txt --do_train", &[]);
    place.write("job.log", log);
    place.call("fix job.log job.sh").ends(0).says(&[
        "transformers by transformers/",
        "lower --per_device_train_batch_size",
        "`oomctl fix --preset hf-trainer job.log job.sh`",
    ]);
    place
        .call("fix --preset hf-trainer job.log job.sh")
        .ends(0)
        .says(&[
            "per_device_train_batch_size  8 -> 4",
            "+python lm.py --train_data_file a.txt --do_train",
        ]);
    place
        .call("plan --preset hf-trainer job.sh")
        .ends(0)
        .says(&["recognised as hf-trainer"]);
}

/// Where no memory ran out the memory model has nothing to say, however large the job is.
#[test]
fn after_another_failure_nothing_is_said_of_memory() {
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-72B --per_device_train_batch_size 8 \
        --block_size 8192 --bf16 --torch_dtype bfloat16 --lora_r 0 --output_dir o --use_liger_kernel false";
    let place = job(script, &[]);
    let logs = [
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***\n",
            "a longer --time",
        ),
        ("{'loss': 0.3, 'epoch': 3.0}\n", "nothing to change"),
    ];
    for (log, says) in logs {
        place.write("job.log", log);
        let said = place
            .call("fix --set gpu_memory=80GiB --set sharding=ddp job.log job.sh")
            .ends(0);
        said.says(&[says]);
        assert!(!said.out.contains("cannot fit"), "{}", said.out);
        assert!(!said.out.contains("skipped:"), "{}", said.out);
    }
}

/// Words that are not known may be any option, so no default counts.
#[test]
fn options_in_words_that_are_not_known_are_unknown() {
    let program = "\
import argparse
p = argparse.ArgumentParser()
p.add_argument('--batch-size', type=int, default=4)
p.add_argument('--grad-accum', type=int, default=4)
p.add_argument('--verbose', action='store_true')
args = p.parse_args()
";
    let plan = |line: &str| {
        let script = format!("{line}\ntorchrun --nproc_per_node 8 train.py --out $DIR $ARGS");
        let place = job(&script, &[("train.py", program)]);
        place.call("plan job.sh").ends(0)
    };
    for line in ["ARGS=$(cat args.txt)", "read -r ARGS <args.txt"] {
        let said = plan(line);
        said.says(&["its values are unknown", "no rung"]);
        assert!(!said.out.contains("4 -> 2"), "{}", said.out);
    }
    let known = plan("ARGS='--batch-size 16 --verbose'");
    known.says(&["batch_size 16 -> 8"]);
    let script = "mapfile -t A <args.txt\ntorchrun train.py \"${A[@]}\"";
    let place = job(script, &[("train.py", program)]);
    place.call("plan job.sh").ends(0).says(&["`${A}`"]);
    // An option's value is no option.
    let script = "torchrun train.py --batch-size 8 --out $(date +%s)";
    let place = job(script, &[("train.py", program)]);
    place.call("plan job.sh").ends(0).says(&["8 -> 4"]);
}

/// A variable is none of a file of settings, and reaches Ray's workers only by what starts Ray.
#[test]
fn a_variable_is_set_where_the_processes_have_it() {
    let log = "\
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. \
Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the allocated memory 60.00 GiB is allocated by PyTorch, and \
17.00 GiB is reserved by PyTorch but unallocated.
";
    let variable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    let settings = "model_name_or_path: m\nstage: sft\nper_device_train_batch_size: 1\n";
    let said = fixing::fixed(
        "llamafactory-cli train a.yaml",
        log,
        &[("a.yaml", settings)],
    );
    said.says(&[&format!("+{variable} llamafactory-cli train a.yaml")]);
    let submit = "ray job submit --address=http://h:8265 -- python3 train.py --actor-num-nodes 1 --max-tokens-per-gpu 8192";
    let said = fixing::fixed(&format!("ray start --head\n{submit}"), log, &[]);
    said.says(&[&format!("+export {variable}\n ray start")]);
    let said = fixing::fixed(submit, log, &[]);
    said.says(&["a Ray job does not hand it to its workers"]);
}

/// The user knows the version where nothing shows it.
#[test]
fn the_version_of_the_framework_may_be_given() {
    let program = "from trl import GRPOConfig, GRPOTrainer\n\
        args = GRPOConfig(output_dir='o', num_generations=8, per_device_train_batch_size=1, gradient_checkpointing=True)\n\
        GRPOTrainer(model='m', args=args, reward_funcs=f).train()\n";
    let place = job("python train.py", &[("train.py", program)]);
    let plan = |set: &str| place.call(&format!("plan {set}job.sh"));
    plan("").ends(0).says(&["(--set trl_version=…)"]);
    plan("--set trl_version=0.19.1 ")
        .ends(0)
        .says(&["use_liger_loss false -> true"]);
    plan("--set trl_version=0.26.2 ")
        .ends(0)
        .says(&["use_liger_kernel false -> true"]);
    plan("--set trl_version=99 ")
        .ends(5)
        .says(&["TRL 99.0.0 is not supported"]);
}
