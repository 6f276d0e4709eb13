//! Logs of launchers that oomctl does not submit to; docs/backends.md has a recipe for each.

use super::fixing::job;
use super::place::Place;

const COMMAND: &str =
    "python train.py --per_device_train_batch_size 16 --gradient_accumulation_steps 2";
const PROGRAM: &str = "from transformers import Trainer, TrainingArguments, HfArgumentParser
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=None, args=args).train()
";
/// As the Trainer of transformers 4.57 dies.
const LOG: [&str; 6] = [
    "Traceback (most recent call last):",
    "  File \"/home/u/train.py\", line 3, in <module>",
    "    Trainer(model=None, args=args).train()",
    "  File \"/opt/venv/lib/python3.11/site-packages/transformers/trainer.py\", line 4071, in training_step",
    "    self.accelerator.backward(loss, **kwargs)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.18 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
];

/// A folder with the log of such a job, each line behind what its launcher puts there.
fn died(prefix: &str) -> Place {
    let lines = LOG.iter().map(|line| format!("{prefix}{line}\n"));
    job(
        COMMAND,
        &lines.collect::<String>(),
        &[("train.py", PROGRAM)],
    )
}

#[test]
fn the_run_part_of_a_skypilot_task_is_changed_after_its_log() {
    let place = died("\u{1b}[36m(worker1, rank=1, pid=2412, ip=10.0.0.3)\u{1b}[0m ");
    let task = format!("name: sft\nresources:\n  accelerators: H100:1\nrun: |\n  {COMMAND}\n");
    place.write("task.yaml", &task);
    let said = place.run("diagnose job.log").ends(0).out;
    assert!(said.contains("device     GPU 0, rank 1"), "{said}");
    assert!(
        said.contains("/home/u/train.py:3 in <module>: Trainer("),
        "{said}"
    );
    let said = place.run("fix job.log task.yaml").ends(0).out;
    assert!(
        said.contains(
            "+  python train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 4"
        ),
        "{said}"
    );
}

#[test]
fn the_script_of_a_ray_job_is_changed_after_its_log() {
    let place = died("\u{1b}[36m(RayTrainWorker pid=2412, ip=10.0.0.3)\u{1b}[0m ");
    let said = place.run("fix job.log job.sh").ends(0).out;
    assert!(
        said.contains(
            "+python train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 4"
        ),
        "{said}"
    );
}
