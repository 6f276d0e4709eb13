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
