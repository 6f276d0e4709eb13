//! Programs that load their settings themselves, and hand them to the class that configures their framework.

use super::own_programs::{fixed, job};
use super::place::{Place, at_once};
use oomctl_base::table;

const SETTINGS: &str = "model:\n  name: Qwen/Qwen2.5-7B\ntraining:\n  per_device_train_batch_size: 4  # 2 was fine\n  gradient_accumulation_steps: 8\n  bf16: true\nmore:\n  length: 8192\n";

/// A program that fills the class with this.
fn program(filled: &str) -> String {
    format!(
        "import argparse\nimport yaml\nfrom transformers import Trainer, TrainingArguments\n\
        p = argparse.ArgumentParser()\np.add_argument('--config')\np.add_argument('--out')\nargs = p.parse_args()\n\
        with open(args.config) as f:\n    cfg = yaml.safe_load(f)\n\
        Trainer(args=TrainingArguments(output_dir=args.out, {filled})).train()\n"
    )
}

fn place(filled: &str) -> Place {
    let place = Place::bare();
    place.write("conf/a.yaml", SETTINGS);
    place.write("train.py", &program(filled));
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:4\nCFG=conf/a.yaml\ntorchrun --nproc_per_node 4 train.py --config \"$CFG\" --out o\n",
    );
    place
}

#[test]
fn a_section_that_fills_the_class_is_changed_where_it_stands() {
    let place = place("**cfg[\"training\"]");
    place.run("plan --all job.sh").ends(0).says(&[
        "recognised as hf-trainer",
        "per_device_train_batch_size  4 -> 2",
        "-  per_device_train_batch_size: 4  # 2 was fine\n-  gradient_accumulation_steps: 8\n\
        +  per_device_train_batch_size: 2  # 2 was fine\n+  gradient_accumulation_steps: 16\n",
    ]);
}

#[test]
fn a_key_that_the_code_looks_up_is_changed_where_it_stands() {
    let filled = "per_device_train_batch_size=cfg['training']['per_device_train_batch_size'], gradient_accumulation_steps=8";
    let done = place(filled).run(&["plan", "--all", "job.sh"]).ends(0);
    done.says(&[
        "recognised as hf-trainer",
        "-  per_device_train_batch_size: 4  # 2 was fine\n+  per_device_train_batch_size: 2  # 2 was fine\n",
        // The accumulation is a constant of the program.
        "  changes",
    ]);
}

#[test]
fn a_program_that_fills_the_class_from_elsewhere_gets_no_option_and_no_default() {
    let place = place("**HfArgs.of(cfg)");
    let done = place
        .run(&["plan", "--all", "--preset", "hf-trainer", "job.sh"])
        .ends(0);
    done.says(&["`**HfArgs.of(cfg)` in train.py"]);
    for never in ["--per_device_train_batch_size", "8 -> 4"] {
        assert!(!done.out.contains(never), "{never}: {}", done.out);
    }
}

/// What a program prints that takes more than 4 samples, and how it loads its settings by a path of its own.
const OWN_PATH: &str = r#"import argparse, sys, yaml
LOADS
def train(train_batch_size, gradient_accumulation_steps, learning_rate):
    print("received", train_batch_size, gradient_accumulation_steps)
    if train_batch_size > 4:
        frame = '  File "train.py", line 9, in train\n    loss.backward()\n'
        sys.exit(f"Traceback (most recent call last):\n{frame}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.88 GiB. GPU 0 has a total capacity of 79.11 GiB of which 0.90 GiB is free.")
    if False:
        for step, x in enumerate(DataLoader(data, batch_size=train_batch_size)):
            (model(x).loss / gradient_accumulation_steps).backward()
            if (step + 1) % gradient_accumulation_steps == 0:
                optimizer.step()
STARTS
"#;

/// The path of the settings is in the program: the attempt gets copies of both.
#[test]
fn settings_that_the_program_finds_by_its_own_path_are_changed() {
    let ways = [
        ("", r#"train(**yaml.safe_load(open("conf/a.yaml")))"#),
        (
            "CONFIG = 'conf/a.yaml'",
            "with open(CONFIG) as f:\n    train(**yaml.safe_load(f))",
        ),
        (
            "def read_config(path):\n    return yaml.safe_load(open(path))",
            "train(**read_config(\"./conf/a.yaml\"))",
        ),
        (
            "p = argparse.ArgumentParser()\np.add_argument('--config', default='conf/a.yaml')\nargs = p.parse_args()",
            "train(**yaml.safe_load(open(args.config)))",
        ),
    ];
    at_once(&ways, |(loads, starts)| {
        let place = Place::bare();
        let program = OWN_PATH.replace("LOADS", loads).replace("STARTS", starts);
        place.write("train.py", &program);
        let settings = "train_batch_size: 12\ngradient_accumulation_steps: 2\nlearning_rate: 0.1\n";
        place.write("conf/a.yaml", settings);
        place.write(
            "job.sh",
            "#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 train.py\n",
        );
        let submit = "submit --watch --yes --backend local --run r job.sh";
        place.run(submit).ends(0).says(&["r succeeded (3 attempts"]);
        for (attempt, received) in [(1, "12 2"), (2, "6 4"), (3, "3 8")] {
            let out = place.read(&format!(".oomctl/runs/r/attempt-{attempt}/slurm.out"));
            assert!(
                out.contains(&format!("received {received}")),
                "{loads}: {out}"
            );
        }
        assert_eq!(place.read("conf/a.yaml"), settings);
    });
}

/// Of two paths nobody knows which counts, and data are no settings.
#[test]
fn a_path_in_the_program_that_may_be_anothers_is_left_alone() {
    for loads in [
        "a = yaml.safe_load(open('conf/a.yaml'))\nb = yaml.safe_load(open('conf/b.yaml'))",
        "import json\nrows = json.load(open('conf/rows.json'))",
        "yaml.safe_load(sys.stdin)\nyaml.dump({}, open('conf/a.yaml', 'w'))",
        "a = yaml.safe_load(open('conf/a.yaml' if sys.flags.debug else 'conf/b.yaml'))",
        "NAME = 'conf/a.yaml' if sys.flags.debug else 'conf/b.yaml'\na = yaml.safe_load(open(NAME))",
    ] {
        let place = Place::bare();
        let program = OWN_PATH
            .replace("LOADS", loads)
            .replace("STARTS", "train(**a)");
        place.write("train.py", &program);
        for name in ["a.yaml", "b.yaml", "rows.json"] {
            let text = "{\"train_batch_size\": 12, \"gradient_accumulation_steps\": 2}\n";
            place.write(&format!("conf/{name}"), text);
        }
        place.write(
            "job.sh",
            "#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 train.py\n",
        );
        let plan = place.run("plan --all job.sh");
        assert!(!plan.told().contains("12 -> 6"), "{loads}: {}", plan.told());
    }
}

#[test]
fn options_of_ones_own_and_a_file_for_deepspeed_do_not_hide_the_framework() {
    let place = Place::bare();
    let zero = r#"{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}, "gradient_accumulation_steps": "auto"}"#;
    place.write("ds.json", zero);
    let batches =
        "--per_device_train_batch_size 4 --per_device_eval_batch_size 4 --save_strategy no";
    for [words, preset] in table::<2, 3>(
        "
        src/train_bash.py --stage dpo --finetuning_type lora --template x | llama-factory
        src/train.py --stage sft --finetuning_type full --cutoff_len 1024 | llama-factory
        finetune.py --model_name_or_path a/b | hf-trainer
        ",
    ) {
        let job = format!(
            "#!/bin/bash\n#SBATCH --gres=gpu:4\ndeepspeed --num_gpus 4 {words} --deepspeed ds.json {batches}\n"
        );
        place.write("job.sh", &job);
        let done = place.run(&["plan", "--all", "job.sh"]).ends(0);
        done.says(&[
            &format!("recognised as {preset}"),
            "per_device_train_batch_size  4 -> 2",
        ]);
    }
}

#[test]
fn a_short_option_and_the_beginning_of_a_long_one_are_the_programs_own() {
    let place = Place::bare();
    place.write(
        "train.py",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('-b', '--batch-size', type=int, default=256)\n\
         p.add_argument('--grad-accum-steps', type=int, default=4)\n",
    );
    for words in ["-b 32 --grad-accum 8", "--batch 32 --grad-accum-steps=8"] {
        let job = format!(
            "#!/bin/bash\n#SBATCH --gres=gpu:4\ntorchrun --nproc-per-node 4 train.py {words}\n"
        );
        place.write("job.sh", &job);
        let done = place.run(&["plan", "--all", "job.sh"]).ends(0);
        let changed = words.replace("32", "16").replacen('8', "16", 1);
        done.says(&[&format!(
            "+torchrun --nproc-per-node 4 train.py {changed}\n"
        )]);
    }
}

/// A file that the script itself writes before the program reads it is not what lies there now: nothing of it is known, and no
/// attempt gets a copy of the old one.
#[test]
fn a_file_that_the_script_makes_anew_is_not_read() {
    let program = "\
import argparse, torch, yaml
p = argparse.ArgumentParser()
p.add_argument('-c')
cfg = yaml.safe_load(open(p.parse_args().c))
for rows in DataLoader(data, batch_size=cfg['batch_size']):
    loss(rows).backward()
";
    let files = [
        ("train.py", program),
        ("base.yaml", "batch_size: 32\nlr: 1.0e-4\n"),
        ("run.yaml", "batch_size: 32\nlr: 3.0e-4\n"),
    ];
    let fixed = |line: &str| fixed(&format!("{line}\npython train.py -c run.yaml"), &files);
    fixed("cat run.yaml; cp run.yaml used/").says(&["batch_size  32 -> 16"]);
    for line in [
        "sed \"s/lr:.*/lr: $LR/\" base.yaml > run.yaml",
        "envsubst < base.yaml | tee run.yaml",
        "cp base.yaml run.yaml",
        "cp base.yaml run.yaml && sed -i s/32/64/ run.yaml",
        "yq -i '.lr = 1' run.yaml",
        "python make.py --out run.yaml",
        "printf 'batch_size: 8' > run.yaml",
    ] {
        let said = fixed(line);
        assert!(!said.out.contains("32 -> 16"), "{line}: {}", said.out);
        let place = job(&format!("{line}\npython train.py -c run.yaml"), &files);
        place
            .run("plan job.sh")
            .ends(0)
            .says(&["run.yaml (the script writes it)"]);
    }
    // What the script writes word for word is known.
    fixed("cat > run.yaml <<EOF\nbatch_size: 64\nEOF").says(&["batch_size  64 -> 32"]);
}

#[test]
fn a_batch_that_the_program_divides_among_its_gpus_leaves_each_of_them_a_sample() {
    let place = Place::bare();
    place.write(
        "conf.yaml",
        "TRAIN:\n  batch_size: 16\n  batch_size_val: 8\n",
    );
    place.write(
        "train.py",
        "import argparse\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\nfrom util import load\n\
         p = argparse.ArgumentParser()\np.add_argument('--config')\n\n\
         def main(gpu, ngpus, args):\n    dist.init_process_group('nccl')\n    args.batch_size = int(args.batch_size / ngpus)\n    \
         args.batch_size_val = int(args.batch_size_val / ngpus)\n    \
         for x in DataLoader(data, batch_size=args.batch_size):\n        model(x).backward()\n        optimizer.step()\n\n\
         args = load(p.parse_args().config)\nmp.spawn(main, nprocs=8, args=(8, args))\n",
    );
    place.write(
        "util.py",
        "import yaml\nfrom types import SimpleNamespace\n\ndef load(path):\n    sections = yaml.safe_load(open(path))\n    \
         return SimpleNamespace(**{k: v for s in sections.values() for k, v in s.items()})\n",
    );
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py --config conf.yaml\n",
    );
    let plan = place.run("plan --all job.sh").ends(0);
    plan.says(&["TRAIN.batch_size  16 -> 8"]);
    assert!(!plan.out.contains("8 -> 4"), "{}", plan.out);
    place.write(
        "slurm.log",
        "  File \"/home/u/train.py\", line 210, in validate\n    output = model(input)\n\
         RuntimeError: CUDA out of memory. Tried to allocate 110.00 MiB (GPU 2; 11.91 GiB total capacity; 10.80 GiB already allocated; 70.06 MiB free; 11.22 GiB reserved in total by PyTorch)\n",
    );
    let fix = place.run("fix slurm.log job.sh");
    fix.says(&["smaller-eval-batch: eval_batch_size = 8 is at its floor"]);
}
