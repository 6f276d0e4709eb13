//! Settings of programs that no parser declares by name: variables, dictionaries, arguments of calls.

use super::own_programs::{fixed, job};

/// nanoGPT's shape: variables of the module, which words of the command override.
#[test]
fn variables_that_a_configurator_overrides_are_options() {
    let program = |divided: &str| {
        format!(
            "import torch\nmodel = torch.nn.Linear(8, 8)\ndef get_batch(n):\n    return torch.randn(n, 8)\n\
             gradient_accumulation_steps = 5 * 8 # for larger batches\nbatch_size = 12\n\
             exec(open('configurator.py').read())\nfor _ in range(gradient_accumulation_steps):\n    \
             loss = model(get_batch(batch_size)){divided}\n    loss.backward()\n"
        )
    };
    let divided = program(" / gradient_accumulation_steps");
    let train = |words: &str, files: &[(&str, &str)]| {
        let mut all = vec![("train.py", &*divided)];
        all.extend(files);
        fixed(&format!("python train.py {words}"), &all)
    };
    train("--batch_size=32 --compile=False", &[]).says(&[
        "32 -> 16  job.sh:4      unknown",
        "40 -> 80  job.sh:added  unknown",
        "--batch_size=16 --compile=False --gradient_accumulation_steps=80",
    ]);
    train(
        "config/small.py",
        &[("config/small.py", "batch_size = 2 * 4\n")],
    )
    .says(&["config/small.py --batch_size=4 --gradient_accumulation_steps=80"]);
    let unread = train("config/missing.py", &[]);
    assert!(!unread.out.contains("--batch_size="), "{}", unread.out);
    let summed = program("");
    fixed("python train.py --batch_size=32", &[("train.py", &summed)])
        .says(&["batch_size  32 -> 16  job.sh:4  changes"]);
}

/// guided-diffusion's shape: a dictionary of defaults, whose entries a loop declares; `microbatch` cuts the batch.
#[test]
fn entries_that_a_loop_declares_are_options_and_parts_keep_the_batch() {
    let program = "import argparse\nfrom lab.options import add_dict, more\nfrom lab.loop import train\n\
        def parser():\n    defaults = dict(lr=1e-4, batch_size=1, microbatch=-1)\n    defaults.update(more())\n    \
        p = argparse.ArgumentParser()\n    add_dict(p, defaults)\n    return p\ntrain(parser().parse_args())\n";
    let options = "def add_dict(parser, values):\n    for k, v in values.items():\n        \
        parser.add_argument(f\"--{k}\", default=v, type=kind(v))\ndef more():\n    return dict(use_checkpoint=False)\n";
    let rest = "def train(args):\n    for i in range(0, n, args.microbatch):\n        loss(i).backward()\n";
    let files = [
        ("scripts/train.py", program),
        ("lab/options.py", options),
        ("lab/loop.py", rest),
    ];
    let train = |words: &str| {
        fixed(
            &format!("mpiexec -n 4 python scripts/train.py {words}"),
            &files,
        )
    };
    // What the parts are divided by was not read.
    train("--batch_size 16").says(&[
        "--microbatch  16 -> 8  job.sh:added  unknown",
        "--batch_size 16 --microbatch 8",
    ]);
    train("--batch_size 16 --microbatch -1").says(&["--batch_size 16 --microbatch 8"]);
    train("--batch_size 16 --microbatch 1").says(&["--microbatch 1 --use_checkpoint True"]);
}

/// A batch of all GPUs that is a product in the text is a number all the same.
#[test]
fn a_product_of_literals_is_a_number() {
    let program = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch_size', type=int, default=8*64)\n\
        p.add_argument('--device_batch_size', type=int, default=64)\nargs = p.parse_args()\nB = args.device_batch_size\n\
        steps = args.batch_size // (B * world_size)\nfor i in range(1, steps + 1):\n    loss(B).backward()\n";
    fixed(
        "torchrun --nproc_per_node=8 train.py",
        &[("train.py", program)],
    )
    .says(&[
        "64 -> 32  job.sh:added  unknown",
        "train.py --device_batch_size 32",
    ]);
}

/// The word of an option that the code gives a value again changes nothing.
#[test]
fn an_option_that_code_overwrites_is_changed_in_the_code() {
    let program = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batchSize', type=int, default=4)\n\
        opt = p.parse_args()\nopt.batchSize=16\nfor x in rows(opt.batchSize):\n    loss(x).backward()\n";
    let said = fixed("python train.py --batchSize 4", &[("train.py", program)]);
    said.says(&["-opt.batchSize=16\n+opt.batchSize=8"]);
}

/// What Lightning's Trainer goes through stands in the code, and so does its accumulation.
#[test]
fn loaders_of_lightning_are_changed_where_they_are_written() {
    let program = "import pytorch_lightning as pl\nfrom torch.utils.data import DataLoader\nBATCH = 64\n\
        loader = DataLoader(data, batch_size=BATCH)\nheld_out = DataLoader(val_data, batch_size=8)\n\
        trainer = pl.Trainer(devices=1)\ntrainer.fit(model, loader, held_out)\n";
    fixed("python train.py", &[("train.py", program)]).says(&["-BATCH = 64\n+BATCH = 32"]);
    let accumulates = program.replace("devices=1", "devices=1, accumulate_grad_batches=2");
    fixed("python train.py", &[("train.py", &accumulates)])
        .says(&["2 -> 4    train.py:6  unknown", "accumulate_grad_batches=4"]);
}

/// PEFT's function turns checkpointing on where it is called, and unless its argument says otherwise.
#[test]
fn a_call_turns_checkpointing_on_and_an_import_does_not() {
    let program = |call: &str| {
        format!(
            "from peft import prepare_model_for_kbit_training\nfrom trl import SFTTrainer\nfrom transformers import TrainingArguments\n\
             {call}\na = TrainingArguments(per_device_train_batch_size=1, output_dir='o')\n\
             SFTTrainer(model=model, args=a, max_seq_length=4096)\n"
        )
    };
    let plan = |call: &str| {
        let place = job("python train.py", &[("train.py", &program(call))]);
        place.run(&["plan", "--all", "job.sh"]).ends(0).out
    };
    let change = "gradient_checkpointing=True";
    for call in [
        "",
        "m = prepare_model_for_kbit_training(m, use_gradient_checkpointing=False)",
    ] {
        let told = plan(call);
        assert!(told.contains(change), "{call}: {told}");
        assert!(told.contains("4096"), "{told}");
    }
    let told = plan("m = prepare_model_for_kbit_training(m)");
    assert!(!told.contains(change), "{told}");
}
