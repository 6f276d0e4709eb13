//! Values that stand in a program's own text, and what hides them.

use super::fixing;
use super::own_programs::{fixed, job};

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
    let said = place.run("submit --yes --watch --backend local job.sh");
    said.ends(0).says(&["gradient_accumulation_steps  1 -> 2"]);
    let run = place.run_dir("job-1");
    let copy = place.read(&format!("{run}/attempt-2/train.py"));
    let src = place.path("src");
    let src = src.display();
    let line = format!(
        "import os, sys; sys.path[0] = os.path.dirname(os.path.realpath('{src}/train.py')) if sys.path[0] == os.path.dirname(os.path.realpath(__file__)) else sys.path[0]; __file__ = '{src}/train.py' # oomctl: this is a changed copy\n"
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
        place.run("plan job.sh").ends(0)
    };
    for (head, batch) in [
        ("import hydra", "8"),
        ("mp.set_start_method('spawn')", "8"),
        ("B = 8\nprint(B)", "B"),
    ] {
        plan(head, batch).says(&["it stands in code that oomctl cannot change"]);
    }
    plan("B = 8", "B").says(&["8 -> 4 -> 2"]);
    let name = "per_device_train_batch_size";
    plan(&format!("{name} = 8"), name).says(&["8 -> 4 -> 2"]);
    plan("B = 8\nout = f'out/{B}'", "B").says(&["it stands in code that oomctl cannot change"]);
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
        "batch_size  4 -> 2  train.py:3  unknown",
        "-micro_batch_size = 4\n+micro_batch_size = 2\n",
    ]);
    let settings = "\
@dataclass
class Settings:
    batch_size: int = 32
    gradient_accumulation_steps: int = 1
loss(cfg.batch_size, cfg.gradient_accumulation_steps).backward()
";
    let said = fixed("python train.py", &[("train.py", settings)]);
    said.says(&["+    batch_size: int = 16\n+    gradient_accumulation_steps: int = 2\n"]);
    said.says(&["32 -> 16"]);
    for more in [
        "exec(open('more.py').read())",
        "batch_size *= 2",
        "self.batch_size = 2",
        "x = 1; batch_size = 2",
        "(batch_size := f())",
        "for batch_size in (16, 32): f()",
        "cfg = Settings(batch_size=64)",
        "cfg = Settings(64)",
        "class Eval: batch_size: int = 4",
    ] {
        let program = format!("{settings}{more}\n");
        let said = fixed("python train.py", &[("train.py", &program)]);
        assert!(!said.out.contains("32 -> 16"), "{more}: {}", said.out);
    }
    // The variable of another function is another one.
    let other = format!("{settings}def f(batch_size=16): pass\n");
    fixed("python train.py", &[("train.py", &other)]).says(&["32 -> 16"]);
}

/// A dictionary of settings is read where it is written out and looked up, and nothing else fills it.
#[test]
fn entries_of_a_dictionary_are_knobs_of_their_program() {
    let program = "\
import torch
config = {
    'epochs': 3,
    'batch_size': 32,
    'gradient_accumulation_steps': 1,
}
def train(cfg):
    for rows in DataLoader(data, batch_size=cfg['batch_size']):
        loss = step(rows) / cfg.get('gradient_accumulation_steps', 1)
        loss.backward()
train(config)
";
    let said = fixed("python train.py", &[("train.py", program)]);
    said.says(&[
        "-    'batch_size': 32,\n-    'gradient_accumulation_steps': 1,\n",
        "+    'batch_size': 16,\n+    'gradient_accumulation_steps': 2,\n",
        "32 -> 16",
    ]);
    let called = program.replace("{\n", "dict(\n").replace("}\n", ")\n");
    let called = called
        .replace("'epochs':", "epochs =")
        .replace("'batch_size':", "batch_size =");
    let called = called.replace(
        "'gradient_accumulation_steps': 1",
        "gradient_accumulation_steps = 1",
    );
    fixed("python train.py", &[("train.py", &called)]).says(&["+    batch_size = 16,"]);
    for more in [
        "config['batch_size'] = 8",
        "config['batch_size'] *= 2",
        "config.update(other)",
        "cfg.update(vars(args))",
        "config = wandb.config",
        "cfg |= other",
        "test = {'batch_size': 4}",
        "cfg = yaml.safe_load(f)",
    ] {
        let program = format!("{program}{more}\n");
        let said = fixed("python train.py", &[("train.py", &program)]);
        assert!(!said.out.contains("32 -> 16"), "{more}: {}", said.out);
    }
    let named = program.replace(
        "train(config)",
        "train(config)\nsave(f\"run-{config['batch_size']}\")",
    );
    let said = fixed("python train.py", &[("train.py", &named)]);
    assert!(!said.out.contains("+    'batch_size'"), "{}", said.out);
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
        place.run("plan job.sh").ends(0)
    };
    for line in ["ARGS=$(cat args.txt)", "read -r ARGS <args.txt"] {
        let said = plan(line);
        said.says(&["its values are unknown", "oomctl can change nothing here"]);
        assert!(!said.out.contains("4 -> 2"), "{}", said.out);
    }
    let known = plan("ARGS='--batch-size 16 --verbose'");
    known.says(&["--batch-size 16 -> 8"]);
    let script = "mapfile -t A <args.txt\ntorchrun train.py \"${A[@]}\"";
    let place = job(script, &[("train.py", program)]);
    place.says("plan job.sh", 0, &["`${A}`"]);
    // An option's value is no option.
    let script = "torchrun train.py --batch-size 8 --out $(date +%s)";
    let place = job(script, &[("train.py", program)]);
    place.says("plan job.sh", 0, &["8 -> 4"]);
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
    let plan = |set: &str| place.run(&format!("plan {set}job.sh"));
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

/// What the names in a program's text say of its memory is not asked for.
#[test]
fn sharding_and_attention_are_read_in_the_code() {
    let program = |more: &str| {
        format!(
            "import argparse\nfrom torch.distributed.fsdp import fully_shard\np = argparse.ArgumentParser()\n\
             p.add_argument('--batch-size', type=int, default=4)\n\
             model = AutoModelForCausalLM.from_config(c, attn_implementation='flash_attention_2')\n\
             o = AdamW(model.parameters(), fused=True)\n{more}"
        )
    };
    let estimate = |more: &str| {
        let place = job(
            "torchrun --nproc_per_node 8 train.py",
            &[("train.py", &program(more))],
        );
        place.run("estimate job.sh").ends(5)
    };
    let said = estimate("");
    assert!(said.err.contains("--set precision="), "{}", said.err);
    for asked in ["--set sharding", "--set attention", "--set optimizer"] {
        assert!(!said.err.contains(asked), "{}", said.err);
    }
    // Two names that disagree say nothing.
    let said = estimate("if a.ddp: model = DDP(model)\n");
    assert!(
        said.err.contains("--set sharding=none|ddp|fsdp"),
        "{}",
        said.err
    );
}

/// What else may fill the class, or change what it was filled with, leaves nothing known, and nothing is appended.
#[test]
fn a_class_that_is_filled_twice_or_changed_later_is_unknown() {
    let plan = |text: &str| {
        let program = format!("from trl import SFTConfig, SFTTrainer\n{text}\n");
        let place = job("python train.py", &[("train.py", &program)]);
        place.run("plan job.sh").ends(0)
    };
    let one =
        "a = SFTConfig(output_dir='o', per_device_train_batch_size=8, gradient_checkpointing=True)";
    plan(one).says(&["8 -> 4 -> 2"]);
    let own = one.replace("SFTConfig(", "MyConfig(");
    let own = format!("class MyConfig(SFTConfig):\n    mine: int = 1\n{own}");
    plan(&own).says(&["8 -> 4 -> 2"]);
    for more in [
        "b = SFTConfig(output_dir='e', per_device_train_batch_size=2)",
        "a.set_training(batch_size=32)",
        "setattr(a, name, 4)",
        "a = dataclasses.replace(a, gradient_accumulation_steps=4)",
    ] {
        let said = plan(&format!("{one}\n{more}"));
        said.says(&["the code of train.py"]);
        assert!(!said.out.contains("8 -> 4"), "{more}: {}", said.out);
    }
    let said = plan(&format!("{one}\na.per_device_train_batch_size = 2"));
    assert!(!said.out.contains("8 -> 4"), "{}", said.out);
    let parser = "HfArgumentParser(Own).parse_args_into_dataclasses()";
    plan(&format!("{parser}\n{one}")).says(&["8 -> 4 -> 2"]);
}

/// A field that a framework's parser fills, and that code then gives another value.
#[test]
fn a_field_that_code_gives_again_counts_and_is_changed_there() {
    let program = |then: &str| {
        format!(
            "from transformers import HfArgumentParser, Trainer, TrainingArguments\n\
             args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n\
             {then}\nTrainer(model='gpt2', args=args).train()\n"
        )
    };
    let said = |then: &str| {
        fixed(
            "python t.py --output_dir o --per_device_train_batch_size 16",
            &[("t.py", &program(then))],
        )
    };
    said("args.gradient_accumulation_steps = 4").says(&[
        "--per_device_train_batch_size  16 -> 8",
        "gradient_accumulation_steps    4 -> 8",
        "+args.gradient_accumulation_steps = 8",
    ]);
    for hidden in [
        "args.gradient_accumulation_steps = count()",
        "import dataclasses; args = dataclasses.replace(args, gradient_accumulation_steps=4)",
        "setattr(args, 'gradient_accumulation_steps', 4)",
        "if DEBUG:\n    args.gradient_accumulation_steps = 4",
    ] {
        let said = said(hidden);
        assert!(
            !said.out.contains("gradient_accumulation_steps  1"),
            "{}",
            said.out
        );
        assert!(!said.out.contains("16 -> 8  same"), "{}", said.out);
    }
    for any in [
        "args = args.__class__(**{**vars(args), 'bf16': True})",
        "for name in NAMES: setattr(args, name, read(name))",
        "args.set_training(batch_size=4)",
    ] {
        said(any).says(&["per_device_train_batch_size stays: it stands in t.py:3"]);
    }
}

/// Words that give values in a way that is not read leave them unknown.
#[test]
fn words_that_are_not_options_hide_the_values_that_they_give() {
    let argparse = "import argparse\np = argparse.ArgumentParser(@)\np.add_argument('--batch_size', type=int, default=64)\n\
        p.add_argument('--accumulation_steps', type=int, default=1)\n";
    let fire = "import fire\ndef main(batch_size: int = 64, accumulation_steps: int = 1):\n    train()\nfire.Fire(main)\n";
    let prefixed = argparse.replace('@', "fromfile_prefix_chars='@'") + "a = p.parse_args()\n";
    let rest = argparse.replace('@', "") + "a, rest = p.parse_known_args()\n";
    for (program, words) in [
        (fire, "16 2"),
        (&*prefixed, "@words.txt"),
        (&*rest, "batch_size=16"),
        (&*rest, "batch_size 16"),
    ] {
        let said = fixed(&format!("python t.py {words}"), &[("t.py", program)]);
        assert!(!said.out.contains("64 -> "), "{words}: {}", said.out);
    }
    let file = "import yaml\nargs = p.parse_args()\nvars(args).update(yaml.safe_load(open(args.config)))\n";
    let program = argparse.replace('@', "") + "p.add_argument('--config')\n" + file;
    fixed(
        "python t.py --config c.yaml --batch_size 64",
        &[("t.py", &program), ("c.yaml", "batch_size: 16\n")],
    )
    .says(&["16 -> 8  c.yaml:1"]);
    let set = "import yaml\ncfg = yaml.safe_load(open('c.yaml'))\ncfg.update(batch_size=32)\ntrain(cfg['batch_size'])\n";
    let said = fixed(
        "python t.py c.yaml",
        &[("t.py", set), ("c.yaml", "batch_size: 16\n")],
    );
    assert!(!said.out.contains("16 -> "), "{}", said.out);
}

/// A batch that the program divides by its GPUs alone, as PyTorch's example for ImageNet does, and that a short option gives.
#[test]
fn a_batch_of_all_gpus_that_no_accumulation_divides_is_halved() {
    let program = |division: &str| {
        format!(
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('-b', '--batch-size', type=int, default=256)\n\
             p.add_argument('--accum-steps', type=int, default=1)\nargs = p.parse_args()\nargs.batch_size = int(args.batch_size / {division})\n\
             loss = model(next(loader)) / args.accum_steps\nloss.backward()\n"
        )
    };
    let script = "torchrun --nproc_per_node 8 train.py -b 64";
    let said = |division: &str| fixed(script, &[("train.py", &program(division))]);
    said("ngpus_per_node").says(&["halve-batch-of-all-gpus", "64 -> 32", "1 -> 2"]);
    let divided = said("(ngpus_per_node * args.accum_steps)");
    divided.says(&["accumulate-more", "1 -> 2"]);
    assert!(!divided.out.contains("64 -> 32"), "{}", divided.out);
}

/// An option that takes only some values gets no other.
#[test]
fn a_value_that_the_program_refuses_is_not_given() {
    let program = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=32, choices=[16, 32])\n\
        p.add_argument('--accum-steps', type=int, default=1)\nargs = p.parse_args()\nloss = net(next(it)) / args.accum_steps\nloss.backward()\n";
    let place = job("python train.py --batch-size 32", &[("train.py", program)]);
    let said = place.run("plan job.sh").ends(0);
    said.says(&["--batch-size 32 -> 16, --accum-steps 1 -> 2"]);
    assert!(!said.out.contains("-> 8"), "{}", said.out);
}
