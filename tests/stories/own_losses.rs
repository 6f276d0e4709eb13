//! Losses of one's own beside models of transformers, copies of the examples of diffusers, options with names that nobody lists.

use super::own_scripts::place;

/// What `plan` says of half the batch of a program.
fn plan(command: &str, text: Option<&str>) -> String {
    let place = place();
    let program = command.split(' ').find(|word| word.ends_with(".py"));
    if let (Some(program), Some(text)) = (program, text) {
        place.write(program, text);
    }
    place.write(
        "job.slurm",
        &format!("#!/bin/bash\n#SBATCH --gres=gpu:1\n{command}\n"),
    );
    place.run(&["plan", "job.slurm"]).ends(0).out
}

/// transformers 5.23.0 trainer.py, training_step: nothing is divided for a model that takes `**kwargs`.
#[test]
fn a_loss_of_ones_own_beside_a_model_of_transformers_is_unknown() {
    let program = |loss: &str| {
        format!(
            "import torch.nn.functional as F\nfrom transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification\n\
             class T(Trainer):\n    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):\n        \
             labels = inputs.pop('labels')\n        out = model(**inputs)\n        {loss}\n        return (loss, out) if return_outputs else loss\n\
             model = ViTForImageClassification(ViTConfig())\n\
             args = TrainingArguments('out', per_device_train_batch_size=8, gradient_accumulation_steps=2)\nT(model=model, args=args, train_dataset=d).train()\n"
        )
    };
    let mean = program("loss = F.cross_entropy(out.logits, labels)");
    let told = plan("python own.py", Some(&mean));
    let why =
        "unknown: oomctl does not read this part of the training (own.py:4): `def compute_loss(";
    assert!(told.contains(why), "{told}");
    let without = mean.replace("compute_loss", "prediction_step");
    let told = plan("python own.py", Some(&without));
    assert!(!told.contains("\nunknown:"), "{told}");
}

/// A loop of diffusers' examples, in a file of the example's name.
fn dreambooth(loss: &str) -> String {
    format!(
        "import argparse\nimport torch\nimport torch.nn.functional as F\nfrom accelerate import Accelerator\nfrom diffusers import UNet2DConditionModel\n\
         p = argparse.ArgumentParser()\np.add_argument('--train_batch_size', type=int, default=4)\n\
         p.add_argument('--gradient_accumulation_steps', type=int, default=1)\nargs = p.parse_args()\n\
         accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)\n\
         unet = UNet2DConditionModel.from_pretrained('x')\noptimizer = torch.optim.AdamW(unet.parameters())\n\
         loader = torch.utils.data.DataLoader(data, batch_size=args.train_batch_size, shuffle=True)\n\
         unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)\nfor step, batch in enumerate(loader):\n    \
         with accelerator.accumulate(unet):\n        pred = unet(batch['x'], batch['t'], batch['c']).sample\n        {loss}\n        \
         accelerator.backward(loss)\n        optimizer.step()\n        optimizer.zero_grad()\n"
    )
}

#[test]
fn the_loop_of_a_copy_of_an_example_is_not_read() {
    let line = "accelerate launch --num_processes 1 train_dreambooth.py --train_batch_size 8 --gradient_accumulation_steps 2";
    let text = dreambooth("loss = F.mse_loss(pred.float(), batch['y'].float(), reduction='mean')");
    for told in [plan(line, Some(&text)), plan(line, None)] {
        assert!(told.contains("recognised as diffusers"), "{told}");
        assert!(
            told.contains("unknown: oomctl does not read training loops"),
            "{told}"
        );
    }
}

/// A loop with options by these names.
fn own(batch: &str, accumulation: &str) -> String {
    format!(
        "import argparse\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\np = argparse.ArgumentParser()\n\
         p.add_argument('--{batch}', type=int, default=64)\np.add_argument('--{accumulation}', type=int, default=1)\nargs = p.parse_args()\n\
         model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2)).cuda()\nopt = torch.optim.AdamW(model.parameters())\n\
         crit = nn.CrossEntropyLoss()\nloader = DataLoader(data, batch_size=args.{batch}, shuffle=True, drop_last=True)\n\
         for epoch in range(3):\n    for i, (x, y) in enumerate(loader):\n        loss = crit(model(x.cuda()), y.cuda()) / args.{accumulation}\n        \
         loss.backward()\n        if (i + 1) % args.{accumulation} == 0:\n            opt.step()\n            opt.zero_grad()\n"
    )
}

#[test]
fn options_are_known_by_what_the_program_does_with_them() {
    let text = own("samples", "every");
    let out = plan("python own.py --samples 16 --every 2", Some(&text));
    assert!(out.contains("--samples 16 -> 8"), "{out}");
    assert!(out.contains("--every 2 -> 4"), "{out}");
    assert!(out.contains("unknown"), "{out}");
}

/// `--batch-gpu` of the programs that followed StyleGAN2-ADA: the batch stays, and parts of it go through at a time.
#[test]
fn a_limit_for_each_gpu_is_moved_before_the_batch_of_all() {
    let text = "import argparse\nimport torch\nfrom torch.utils.data import DataLoader\np = argparse.ArgumentParser()\n\
        p.add_argument('--gpus', type=int)\np.add_argument('--batch', type=int, help='Total batch size')\n\
        p.add_argument('--batch-gpu', type=int, help='Limit batch size per GPU')\nargs = p.parse_args()\n\
        part = args.batch_gpu or args.batch // args.gpus\nmodel = torch.nn.Linear(8, 8).cuda()\nopt = torch.optim.AdamW(model.parameters())\n\
        for (x,) in DataLoader(data, batch_size=args.batch // args.gpus):\n    for piece in x.cuda().split(part):\n        \
        (model(piece).sum() / x.shape[0]).backward()\n    opt.step()\n    opt.zero_grad()\n";
    let out = plan("python own.py --gpus=1 --batch=32", Some(text));
    assert!(out.contains("--batch-gpu 32 -> "), "{out}");
    let out = plan(
        "python own.py --gpus=1 --batch=32 --batch-gpu=16",
        Some(text),
    );
    assert!(out.contains("--batch-gpu 16 -> 8"), "{out}");
}
