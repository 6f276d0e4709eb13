//! Programs of Hydra whose batch stands in a group of their configuration.

use super::own_programs::job;

const PROGRAM: &str = "\
import hydra, torch
@hydra.main(version_base=None, config_path='conf', config_name='config')
def main(cfg):
    for rows in DataLoader(data, batch_size=cfg.trainer.batch_size):
        (loss(rows) / cfg.trainer.gradient_accumulation_steps).backward()
main()
";

/// The file of the group that the command chooses has the batch, by whatever name the group has; a word of the command sets it.
#[test]
fn the_batch_of_a_chosen_group_is_a_knob() {
    let files = [
        ("train.py", PROGRAM),
        (
            "conf/config.yaml",
            "defaults:\n  - trainer: single\n  - _self_\nseed: 0\n",
        ),
        (
            "conf/trainer/single.yaml",
            "batch_size: 16\ngradient_accumulation_steps: 4\n",
        ),
        (
            "conf/trainer/big.yaml",
            "batch_size: 64\ngradient_accumulation_steps: 1\n",
        ),
    ];
    let plan = |line: &str| job(line, &files).run("plan --all job.sh").ends(0);
    plan("python train.py trainer=big").says(&[
        "batch_size                   64 -> 32",
        "+python train.py trainer=big trainer.batch_size=32 trainer.gradient_accumulation_steps=2",
    ]);
    plan("python train.py").says(&["batch_size                   16 -> 8"]);
    plan("python train.py trainer.batch_size=8").says(&["batch_size                   8 -> 4"]);
}

/// A batch of an evaluation, or of two groups, is not that of training.
#[test]
fn what_two_groups_have_is_not_taken() {
    let files = [
        ("train.py", PROGRAM),
        (
            "conf/config.yaml",
            "student:\n  batch_size: 16\nteacher:\n  batch_size: 4\n",
        ),
    ];
    let said = job("python train.py", &files).run("plan job.sh").ends(0);
    assert!(!said.out.contains("16 -> 8"), "{}", said.out);
}

/// The program computes its accumulation of two settings, so the part is halved and the batch of a step stays.
#[test]
fn of_an_accumulation_of_two_settings_the_part_is_halved() {
    let program = "\
import hydra, torch
import torch.nn.functional as F
@hydra.main(version_base=None, config_path='conf', config_name='config')
def main(cfg):
    accum = cfg.train.batch_size // cfg.train.micro_batch_size
    loader = DataLoader(data, batch_size=cfg.train.micro_batch_size)
    model = torch.nn.Linear(8, 2)
    opt = torch.optim.AdamW(model.parameters())
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        (loss / accum).backward()
        if (i + 1) % accum:
            continue
        opt.step()
        opt.zero_grad()
main()
";
    let plan = |program: &str, line: &str, batch: &str| {
        let config = format!("train:\n  batch_size: {batch}\n  micro_batch_size: 8\n");
        let files = [("train.py", program), ("conf/config.yaml", &config)];
        let said = job(line, &files).run("plan --all job.sh").ends(0);
        said.out
    };
    for line in [
        "python train.py",
        "python train.py train.micro_batch_size=8",
    ] {
        let said = plan(program, line, "32");
        let row = said.lines().find(|l| l.contains("train.micro_batch_size"));
        let row = row.unwrap_or_default();
        assert!(row.contains("8 -> 4") && row.contains("unknown"), "{said}");
    }
    let undivided = program.replace("(loss / accum)", "loss");
    let twice = program.replace("    loader", "    accum = 4\n    loader");
    for (program, batch) in [(program, "30"), (&undivided, "32"), (&twice, "32")] {
        let said = plan(program, "python train.py", batch);
        let first = said.lines().find(|l| l.contains("8 -> 4"));
        assert!(first.is_some_and(|l| !l.contains("same")), "{said}");
        // With an accumulation of its own the program halves it, indeed.
        let halves = said.contains("halves the effective batch");
        assert_eq!(halves, program == twice, "{said}");
    }
}

/// A constant that divides the loss, and for which the step waits, accumulates under any name.
#[test]
fn a_constant_accumulates_by_its_use() {
    let program = "\
import torch
import torch.nn.functional as F
batch_size = 8
every_iters = 4
loader = torch.utils.data.DataLoader(data, batch_size=batch_size)
model = torch.nn.Linear(8, 2)
opt = torch.optim.AdamW(model.parameters())
for i, (x, y) in enumerate(loader):
    loss = F.cross_entropy(model(x), y)
    (loss / every_iters).backward()
    if (i + 1) % every_iters == 0:
        opt.step()
        opt.zero_grad()
";
    let plan = |program: &str| {
        let said = job("python train.py", &[("train.py", program)]).run("plan --all job.sh");
        said.ends(0).out
    };
    let said = plan(program);
    let row = |knob: &str| said.lines().find(|l| l.contains(knob)).unwrap_or_default();
    assert!(row("batch_size ").contains("8 -> 4"), "{said}");
    assert!(row("every_iters ").contains("4 -> 8"), "{said}");
    let shown = program.replace("(loss / every_iters).backward()", "loss.backward()");
    assert!(
        !plan(&shown).contains("4 -> 8"),
        "an interval of a log is none"
    );
}
