//! Options and keys that no table has, known by the last part of their names.

use super::own_programs::{fixed, job};

/// Flags, overrides, keys of yacs and keys of a file of settings, behind any sections.
#[test]
fn a_batch_is_known_behind_any_sections() {
    for (words, says) in [
        (
            "torchrun --nproc_per_node 8 -m lab.train --training.local_batch_size 4",
            "+torchrun --nproc_per_node 8 -m lab.train --training.local_batch_size 2",
        ),
        (
            "python main.py fit --data.batch_size=64 --trainer.accumulate_grad_batches 2",
            "--data.batch_size=32 --trainer.accumulate_grad_batches 4",
        ),
        (
            "python train.py model.train_ds.batch_size=32 model.validation_ds.batch_size=16",
            "model.train_ds.batch_size=16 model.validation_ds.batch_size=16",
        ),
        (
            "python train.py ++datasets.batch_size_per_gpu=19200",
            "++datasets.batch_size_per_gpu=9600",
        ),
        (
            "python tools/train_net.py --num-gpus 8 SOLVER.IMS_PER_BATCH 16 TEST.IMS_PER_BATCH 8",
            "SOLVER.IMS_PER_BATCH 8 TEST.IMS_PER_BATCH 8",
        ),
        (
            "./zipformer/train.py --world-size 8 --max-duration 1000",
            "--max-duration 500",
        ),
    ] {
        fixed(words, &[]).ends(0).says(&[says]);
    }
    let settings = "data:\n  batch_size: 8\nvalidation:\n  batch_size: 64\nmodel: {width: 512}\n";
    fixed(
        "python -m lab.train --config c.yaml",
        &[("c.yaml", settings)],
    )
    .ends(0)
    .says(&["-  batch_size: 8\n+  batch_size: 4"]);
}

/// Of two nobody knows which one trains, and one of another part of the program is no batch of training.
#[test]
fn a_name_that_two_sections_have_or_another_part_is_not_taken() {
    for words in [
        "torchrun --nproc_per_node 8 train.py --first.batch_size 4 --second.batch_size 8",
        "torchrun --nproc_per_node 8 train.py --reward.batch_size 4",
        "torchrun --nproc_per_node 8 train.py --test.batch_size 4",
    ] {
        let done = job(words, &[]).run(&["fix", "job.log", "job.sh"]);
        assert!(!done.out.contains("batch_size  4 ->"), "{}", done.out);
    }
}

/// An evaluation that a framework gives a loader of its own holds no batch of training.
#[test]
fn an_evaluation_with_a_loader_of_its_own_leaves_the_batch_of_training() {
    let log = "\
Traceback (most recent call last):
  File \"/opt/venv/lib/python3.10/site-packages/mmengine/runner/loops.py\", line 391, in run_iter
    outputs = self.runner.model.val_step(data_batch)
  File \"/opt/venv/lib/python3.10/site-packages/torch/nn/functional.py\", line 3959, in interpolate
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.14 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.
";
    let fix = |own: &str| {
        let words = format!("torchrun --nproc_per_node 8 tools/train.py c.py --cfg-options {own}");
        let place = job(&words, &[]);
        place.write("job.log", log);
        place.run("fix job.log job.sh")
    };
    let both = "train_dataloader.batch_size=8 val_dataloader.batch_size=4";
    // There was room for a sixth of the request.
    fix(both)
        .ends(0)
        .says(&["train_dataloader.batch_size=8 val_dataloader.batch_size=1"]);
    let done = fix("train_dataloader.batch_size=8");
    assert!(!done.out.contains("8 -> 4"), "{}", done.out);
}

/// A YAML file that a variable names is read as one among the words is.
#[test]
fn a_file_of_settings_may_be_named_by_a_variable() {
    let settings = "train:\n  batch_size: 1\n  gradient_checkpointing: false\n";
    let script = "export LAB_CONFIG=conf/a.yaml\naccelerate launch -m lab.train";
    fixed(script, &[("conf/a.yaml", settings)])
        .ends(0)
        .says(&["-  gradient_checkpointing: false\n+  gradient_checkpointing: true"]);
    let program = "import os, yaml\nwith open(os.environ['LAB_CONFIG']) as f:\n    config = yaml.safe_load(f)\ntraining = config['train']\n\
                   if training['gradient_checkpointing']:\n    model.enable()\nloss.backward()\n";
    let files = [("conf/a.yaml", settings), ("lab/train.py", program)];
    fixed(script, &files)
        .ends(0)
        .says(&["-  gradient_checkpointing: false\n+  gradient_checkpointing: true"]);
    // What merely has such a name is no file of settings.
    fixed(
        "export LAB_CONFIG=fast\npython train.py --batch_size 8",
        &[],
    )
    .ends(0)
    .says(&["--batch_size 4"]);
}

/// The batch of detectron2 stands in a file below the one that is named, and is for all GPUs.
#[test]
fn detectron2_takes_words_over_its_chain_of_files() {
    let files = [
        (
            "configs/base.yaml",
            "SOLVER:\n  IMS_PER_BATCH: 16\n  STEPS: (60000, 80000)\n",
        ),
        (
            "configs/r50/mine.yaml",
            "_BASE_: \"../base.yaml\"\nMODEL:\n  MASK_ON: True\n",
        ),
        (
            "tools/train_net.py",
            "from detectron2.engine import DefaultTrainer, default_argument_parser\n",
        ),
    ];
    let script = "python tools/train_net.py --num-gpus 8 --config-file configs/r50/mine.yaml";
    fixed(script, &files).ends(0).says(&[
        "SOLVER.IMS_PER_BATCH  16 -> 8  job.sh:added  changes",
        "--config-file configs/r50/mine.yaml SOLVER.IMS_PER_BATCH 8",
    ]);
}
