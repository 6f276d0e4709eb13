//! A step that takes its batch in slices, evaluations whose loaders stand elsewhere, models that return their loss, and files that are
//! not there.

use super::fixing;
use super::own_programs::{fixed, job};
use super::place::Place;

const HEAD: &str =
    "import argparse, torch\nimport torch.nn.functional as F\np = argparse.ArgumentParser()\n";

/// `for i in range(0, len(ids), args.micro_bs)`: the width of a slice becomes smaller, and nothing else moves.
#[test]
fn a_step_that_takes_its_batch_in_slices_takes_smaller_ones() {
    let program = |backward: &str| {
        format!(
            "{HEAD}p.add_argument('--micro-bs', type=int, default=8)\nargs = p.parse_args()\nmodel = torch.nn.Linear(8, 2)\n\
             opt = torch.optim.AdamW(model.parameters())\nfor step in range(100):\n    ids, y = next(data)\n    n = len(ids) // args.micro_bs\n    \
             for i in range(0, len(ids), args.micro_bs):\n        part = slice(i, i + args.micro_bs)\n        \
             loss = F.cross_entropy(model(ids[part]), y[part])\n        {backward}\n    opt.step()\n    opt.zero_grad()\n"
        )
    };
    let place = job(
        "python grpo.py --micro-bs 16",
        &[("grpo.py", &program("(loss / n).backward()"))],
    );
    let told = place.run("plan job.sh").ends(0).out;
    assert!(told.contains("--micro-bs 16 -> 8 -> 4"), "{told}");
    assert!(told.contains("unknown"), "{told}");
}

fn evaluated(call: &str, function: &str) -> String {
    format!(
        "Epoch 1\nTraceback (most recent call last):\n  File \"train.py\", line 31, in <module>\n    {call}\n  \
         File \"train.py\", line 22, in {function}\n    out = model(x)\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.\n"
    )
}

const TRAINING: &str = "model = torch.nn.Linear(8, 2)\nopt = torch.optim.AdamW(model.parameters())\nfor x, y in train_loader:\n    \
    F.cross_entropy(model(x), y).backward()\n    opt.step()\n    opt.zero_grad()\n";

/// Half the training batch frees nothing where the evaluation loads one sample at a time, in whatever file it does so.
#[test]
fn training_stays_where_an_evaluation_loads_its_own_batch() {
    let option = "p.add_argument('--batch-size', type=int, default=16)\nargs = p.parse_args()\n";
    let train = "DataLoader(TrainSet(), batch_size=args.batch_size)";
    let here = |test: &str| {
        format!(
            "{HEAD}{option}from torch.utils.data import DataLoader\ntrain_loader = {train}\ntest_loader = {test}\n{TRAINING}"
        )
    };
    let elsewhere = format!(
        "{HEAD}{option}from loaders import Data\ndata = Data(args)\ntrain_loader, test_loader = data.loader_train, data.loader_test\n{TRAINING}"
    );
    let loaders = format!(
        "from torch.utils.data import DataLoader\nclass Data:\n    def __init__(self, args):\n        self.loader_train = {train}\n        \
         self.loader_test = DataLoader(TestSet(), batch_size=1)\n"
    );
    let log = evaluated("test()", "test");
    for files in [
        vec![("train.py", here("DataLoader(TestSet())"))],
        vec![("train.py", elsewhere), ("loaders.py", loaders)],
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, &**t)).collect();
        let said = fixing::fixed("python train.py --batch-size 16", &log, &files);
        said.says(&[
            "ran out of memory in eval",
            "halve-batch: the evaluation has a batch of its own",
        ]);
        assert!(!said.out.contains("16 -> 8"), "{}", said.told());
    }
    // One function does both, and what it is handed tells which.
    let log = evaluated("run(test_loader, train=False)", "run");
    let shared = here("DataLoader(TestSet(), batch_size=args.batch_size)");
    let said = fixing::fixed(
        "python train.py --batch-size 16",
        &log,
        &[("train.py", &shared)],
    );
    said.says(&["in eval", "eval_batch_size  16 -> ", "same"]);
}

/// What is not there is named, with what lies beside it.
#[test]
fn a_missing_log_a_program_and_a_lone_log_name_what_lies_beside() {
    let place = Place::bare();
    place.write("train.py", "print(1)\n");
    place.write(
        "job.sbatch",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n",
    );
    place.write("slurm-7.err", &evaluated("test()", "test"));
    for missing in ["nolog", "slurm-8.err"] {
        let said = place.run(&["fix", missing, "job.sbatch"]).ends(2);
        said.says(&["the newest logs there are slurm-7.err"]);
    }
    let alone = place.run("fix slurm-7.err").ends(0);
    alone.says(&["`oomctl fix slurm-7.err job.sbatch`"]);
    place
        .run("plan train.py")
        .ends(5)
        .says(&["job.sbatch runs it"]);
    let typo = place.run("plan --frehs job.sbatch").ends(2);
    typo.says(&["--fresh"]);
    assert!(!typo.told().contains("as a value"), "{}", typo.told());
}

/// `section = config["train_config"]`, then `train(**section)`: all keys of that section reach the program.
#[test]
fn a_section_that_is_handed_on_by_a_name_is_read() {
    let program = "import argparse, json, torch\nimport torch.nn.functional as F\n\
        def train(epochs, learning_rate, batch_size):\n    model = torch.nn.Linear(8, 2)\n    opt = torch.optim.AdamW(model.parameters())\n    \
        loader = torch.utils.data.DataLoader(data, batch_size=batch_size)\n    for x, y in loader:\n        \
        F.cross_entropy(model(x), y).backward()\n        opt.step()\n        opt.zero_grad()\n\
        p = argparse.ArgumentParser()\np.add_argument('-c', '--config', type=str)\nargs = p.parse_args()\n\
        with open(args.config) as f:\n    config = json.loads(f.read())\ntrain_config = config['train_config']\ntrain(**train_config)\n";
    let settings = "{\"train_config\": {\"epochs\": 9, \"learning_rate\": 1e-4, \"batch_size\": 32},\n \"data_config\": {\"length\": 16000}}\n";
    let files = [("train.py", program), ("config.json", settings)];
    fixed("python train.py -c config.json", &files).says(&["batch_size  32 -> 16  config.json:1"]);
}
