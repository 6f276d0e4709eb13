//! Parsers and classes with a framework's names around a loop of one's own, forks that are known by their path, settings that a program
//! hands on as a whole.

use super::own_scripts::place;

/// What `plan --all` says of a program with files beside it.
fn plan(command: &str, files: &[(&str, &str)]) -> String {
    let place = place();
    for (path, text) in files {
        place.write(path, text);
    }
    place.write(
        "job.slurm",
        &format!("#!/bin/bash\n#SBATCH --gres=gpu:1\n{command}\n"),
    );
    place.run(&["plan", "--all", "job.slurm"]).ends(0).out
}

/// A loop of one's own whose options are the fields of this class.
fn loop_with(class: &str, back: &str) -> String {
    format!(
        "import torch\nimport torch.nn.functional as F\nfrom dataclasses import dataclass\nfrom transformers import HfArgumentParser\n\
         @dataclass\nclass {class}:\n    per_device_train_batch_size: int = 8\n    gradient_accumulation_steps: int = 2\n\
         args = HfArgumentParser({class}).parse_args_into_dataclasses()[0]\nmodel = torch.nn.Linear(4, 4).cuda()\n\
         opt = torch.optim.AdamW(model.parameters())\n\
         loader = torch.utils.data.DataLoader(data, batch_size=args.per_device_train_batch_size)\n\
         for i, (x, y) in enumerate(loader):\n    loss = F.cross_entropy(model(x), y)\n    {back}\n    \
         if (i + 1) % args.gradient_accumulation_steps == 0:\n        opt.step()\n        opt.zero_grad()\n"
    )
}

/// Python runs `app/__init__.py` first, and what that imports.
#[test]
fn what_a_package_does_before_its_program_is_read() {
    let program = "from transformers import HfArgumentParser, Trainer, TrainingArguments\n\
                   args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer(args=args).train()\n";
    let line = "python -m app.train --output_dir o --per_device_train_batch_size 32 --gradient_accumulation_steps 2";
    let of = |tweak: &str| {
        let files = [
            ("app/train.py", program),
            ("app/__init__.py", "from . import tweak\n"),
            ("app/tweak.py", tweak),
        ];
        plan(line, &files)
    };
    let told =
        of("import sys\nsys.argv[sys.argv.index('--gradient_accumulation_steps') + 1] = '4'\n");
    assert!(
        told.contains("app/tweak.py:2") && !told.contains("-> 16"),
        "{told}"
    );
    let told = of("VERSION = 1\n");
    assert!(told.contains("32 -> 16") && told.contains("same"), "{told}");
    // A package that is nowhere to be found may do anything.
    let told = plan(&line.replace("app", "corp"), &[]);
    assert!(told.contains("unknown: the program was not read"), "{told}");
}

/// Without the division the gradient was measured twice as large.
#[test]
fn a_parser_of_transformers_around_ones_own_class_makes_no_trainer() {
    let line = "python own.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2";
    for class in ["OwnArguments", "TrainingArguments"] {
        let of = |back: &str| plan(line, &[("own.py", &loop_with(class, back))]);
        let whole = of("loss.backward()");
        let why = "the program does not divide its loss by its accumulation";
        assert!(whole.contains(why), "{whole}");
        // The program would refuse what is the Trainer's.
        for of_trainer in ["--optim", "--use_liger_kernel", "hf-trainer"] {
            assert!(!whole.contains(of_trainer), "{whole}");
        }
        let divided = of("(loss / args.gradient_accumulation_steps).backward()");
        assert!(!divided.contains(why), "{divided}");
    }
    let trainer = "from transformers import HfArgumentParser, Trainer, TrainingArguments as Base\n\
        class TrainingArguments(Base):\n    note: str = ''\n\
        args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]\nTrainer(args=args).train()\n";
    let told = plan(line, &[("own.py", trainer)]);
    assert!(told.contains("recognised as hf-trainer"), "{told}");
}

/// What the Trainer does is known; what stands in the file is not.
#[test]
fn nobody_knows_the_loop_of_a_program_that_is_not_there() {
    let line = "python pretrain.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2";
    let told = plan(line, &[]);
    assert!(told.contains("recognised as hf-trainer"), "{told}");
    assert!(told.contains("unknown: the program was not read"), "{told}");
}

#[test]
fn a_fork_that_its_path_shows_has_a_loop_that_is_not_read() {
    let line = "accelerate launch open_instruct/finetune.py --per_device_train_batch_size 4 --gradient_accumulation_steps 2";
    let program = "import torch\nfrom accelerate import Accelerator\nfrom transformers import AutoModelForCausalLM\n\
        accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)\n\
        model = AutoModelForCausalLM.from_pretrained('x')\nopt = torch.optim.AdamW(model.parameters())\n\
        loader = torch.utils.data.DataLoader(data, batch_size=args.per_device_train_batch_size, collate_fn=DataCollatorForSeq2Seq(tokenizer))\n\
        for batch in loader:\n    with accelerator.accumulate(model):\n        outputs = model(**batch, use_cache=False)\n        loss = outputs.loss\n        \
        accelerator.backward(loss)\n        opt.step()\n        opt.zero_grad()\n";
    let told = plan(line, &[("open_instruct/finetune.py", program)]);
    assert!(told.contains("recognised as open-instruct"), "{told}");
    assert!(
        told.contains("unknown: oomctl does not read training loops"),
        "{told}"
    );
}

#[test]
fn settings_that_are_handed_on_as_a_whole_are_the_programs() {
    let program = "import json, utils\nhps = utils.get(json.loads(open(args.config).read()))\n\
        loader = make(**hps['data'])\nfor x in loader:\n    loss = net(x).mean()\n    loss.backward()\n    opt.step()\n";
    let settings = "{\n  \"data\": {\"samples\": 3, \"batch_size\": 64}\n}\n";
    let told = plan(
        "python own.py -c base.json",
        &[
            ("own.py", program),
            (
                "utils.py",
                "p = argparse.ArgumentParser()\np.add_argument('-c', '--config')\n",
            ),
            ("base.json", settings),
        ],
    );
    assert!(
        told.contains("batch_size") && told.contains("64 -> 32"),
        "{told}"
    );
}

/// The parts of a batch become smaller, and the batch stays.
#[test]
fn a_key_for_the_parts_of_a_batch_leaves_the_whole() {
    let program = "import yaml, torch\ncfg = yaml.safe_load(open(args.config))\n\
        for batch in load(cfg['training']['batch_size']):\n    parts = batch.split(cfg['training']['micro_batch_size'])\n    \
        for x in parts:\n        loss = net(x).mean() / len(parts)\n        loss.backward()\n    opt.step()\n    opt.zero_grad()\n";
    let settings = "training:\n  batch_size: 64\n  micro_batch_size: 8\n";
    let told = plan(
        "python own.py --config c.yaml",
        &[("own.py", program), ("c.yaml", settings)],
    );
    assert!(
        told.contains("8 -> 4") && !told.contains("64 -> 32"),
        "{told}"
    );
    assert!(!told.contains("halves the effective batch"), "{told}");
}
