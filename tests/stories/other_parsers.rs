//! Options of other tools, an evaluation that takes a multiple of the batch, a batch called `B`, parsers of dataclasses and functions.

use super::fixing;
use super::own_programs::{fixed, job};

const PARSER: &str = "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=32)\n\
    p.add_argument('--accum', type=int, default=2)\nargs = p.parse_args()\n";

const LOOP: &str = "model = torch.nn.Linear(8, 2)\nopt = torch.optim.AdamW(model.parameters())\n\
    dl = torch.utils.data.DataLoader(data, batch_size=args.batch_size, shuffle=True)\n\
    for i, (x, y) in enumerate(dl):\n    loss = torch.nn.functional.cross_entropy(model(x), y) / args.accum\n    loss.backward()\n    \
    if (i + 1) % args.accum == 0:\n        opt.step()\n        opt.zero_grad()\n";

/// What `test.py` does when it is started, and what another tool's parser takes, is not what `train.py` does.
#[test]
fn options_of_other_tools_are_none_of_the_program() {
    let tool = "import argparse\ndef test(model): pass\n";
    let parser =
        "p = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=1)\n";
    let started = format!(
        "{tool}if __name__ == '__main__':\n    p = argparse.ArgumentParser()\n    p.add_argument('--batch-size', default=1)\n"
    );
    let program = format!("{PARSER}import test\n{LOOP}");
    for test in [&started, &format!("{tool}{parser}")] {
        let done = fixed(
            "python train.py",
            &[("train.py", &program), ("test.py", test)],
        );
        done.says(&["--batch-size  32 -> 16", "--accum       2 -> 4", "unknown"]);
    }
    let hydra = format!(
        "import hydra, torch\nimport test\n@hydra.main(config_path='conf', config_name='config')\ndef main(args):\n    {}\nmain()\n",
        LOOP.trim_end().replace('\n', "\n    ")
    );
    let done = fixed(
        "python train.py batch_size=128 accum=2",
        &[
            ("train.py", &hydra),
            ("test.py", &format!("{tool}{parser}")),
        ],
    );
    done.says(&["batch_size  128 -> 64"]);
    assert!(!done.out.contains("--batch"), "{}", done.told());
}

/// Training stays as it is where the evaluation loads four times its batch.
#[test]
fn an_evaluation_that_takes_a_multiple_of_the_batch_gets_a_smaller_one() {
    let program = format!(
        "{PARSER}val_dl = torch.utils.data.DataLoader(val_set, batch_size=4 * args.batch_size)\n{LOOP}"
    );
    let files = [("train.py", &*program)];
    let log = "Traceback (most recent call last):\n  File \"/home/ada/train.py\", line 40, in validate\n    out = model(x)\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.\n";
    let evaluated = fixing::fixed("python train.py --batch-size 64", log, &files);
    evaluated.says(&[
        "eval_batch_size  256 -> 64",
        "same",
        "+val_dl = torch.utils.data.DataLoader(val_set, batch_size=64)",
    ]);
    let trained = fixed("python train.py --batch-size 64", &files);
    trained.says(&["--batch-size  64 -> 32", "--accum       2 -> 4", "unknown"]);
}

/// `accum = total // (B * T)`: the program itself makes up for a smaller `B`. It looks at signatures, and can be copied.
#[test]
fn the_batch_of_which_an_accumulation_is_computed_becomes_smaller() {
    let program = "import inspect\nimport torch\nfused = 'fused' in inspect.signature(torch.optim.AdamW).parameters\n\
        total = 524288\nB = 16\nT = 1024\nsteps = total // (B * T)\nloader = Loader(B, T)\nmodel = torch.nn.Linear(8, 2)\n\
        opt = torch.optim.AdamW(model.parameters())\nfor step in range(100):\n    for micro in range(steps):\n        x, y = loader.next_batch()\n        \
        loss = torch.nn.functional.cross_entropy(model(x), y) / steps\n        loss.backward()\n    opt.step()\n    opt.zero_grad()\n";
    fixed("python train.py", &[("train.py", program)]).says(&[
        "B     16 -> 8",
        "unknown",
        "+B = 8",
    ]);
}

/// A program with its own loop is no Trainer's, whatever it calls its options, and a file that is not there is nobody's.
#[test]
fn parsers_of_functions_and_dataclasses_are_the_programs_own() {
    let body = LOOP.replace("args.batch_size", "args.per_device_train_batch_size");
    let fields = "per_device_train_batch_size: int = 8\n    accum: int = 2\n";
    let tyro = format!(
        "import torch, tyro\nfrom dataclasses import dataclass\n@dataclass\nclass Args:\n    {fields}args = tyro.cli(Args)\n{body}"
    );
    let fire = format!(
        "import fire, torch\ndef main(per_device_train_batch_size: int = 8, accum: int = 2):\n    {}\nfire.Fire(main)\n",
        body.replace("args.", "").trim_end().replace('\n', "\n    ")
    );
    for program in [tyro, fire] {
        let place = job(
            "python train.py --per_device_train_batch_size 8 --accum 2",
            &[("train.py", &program)],
        );
        let plan = place.run("plan --all job.sh").ends(0).out;
        assert!(plan.contains("your own program"), "{plan}");
        assert!(
            plan.contains("--per_device_train_batch_size  8 -> 4"),
            "{plan}"
        );
        assert!(!plan.contains("gradient_checkpointing  false"), "{plan}");
    }
    let missing = job("python grpo.py --micro-bs 8", &[]);
    let plan = missing.run("plan job.sh").ends(0).out;
    assert!(
        plan.contains("framework not recognised") && !plan.contains("8 -> 4"),
        "{plan}"
    );
}

/// What a plan says of a knob: its number, or none where the knob is there and its value is unknown.
fn known(program: &str, words: &str, knob: &str) -> Option<i64> {
    let fit = "def fit(batch_size, accum):\n    \
               for step, x in enumerate(DataLoader(data, batch_size=batch_size)):\n        \
               (model(x) / accum).backward()\n        \
               if (step + 1) % accum == 0:\n            optimizer.step()\n";
    let text = format!("import argparse, json, sys\nimport torch\n{fit}{program}\n");
    let place = job(&format!("python train.py {words}"), &[("train.py", &text)]);
    let view = place.json("plan --json job.sh");
    let knobs = view["knobs"].as_array().unwrap();
    let found = knobs.iter().find(|found| found["knob"] == knob);
    found.and_then(|found| found["value"].as_i64())
}

#[test]
fn what_others_decide_is_unknown_and_what_words_give_is_known() {
    let parser = |more: &str| {
        format!(
            "p = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=16)\n\
             p.add_argument('--accum-steps', type=int, default=2)\n{more}\nfit(args.batch_size, args.accum_steps)"
        )
    };
    let plain = parser("args = p.parse_args()");
    let accum = "gradient_accumulation_steps";
    assert_eq!(known(&plain, "", accum), Some(2));
    let compared = "args = p.parse_args()\nif args.batch_size >= 16:\n    args.accum_steps = 4";
    assert_eq!(known(&parser(compared), "--batch-size 32", accum), None);
    let set = |below: &str| {
        parser(&format!(
            "{below}p.set_defaults(accum_steps=4)\nargs = p.parse_args()"
        ))
    };
    assert_eq!(known(&set(""), "", accum), Some(4));
    assert_eq!(known(&set("s = p.add_subparsers()\n"), "", accum), None);
    let map = "p.add_argument('--more', type=json.loads, default={})\nargs = p.parse_args()";
    let words = "--more '{\"batch_size\": 32}'";
    assert_eq!(known(&parser(map), words, "batch_size"), None);
    let settings = "from pydantic_settings import BaseSettings\nclass S(BaseSettings):\n    batch_size: int = 8\n    accum: int = 1\n\
                    s = S()\nfit(s.batch_size, s.accum)";
    assert_eq!(known(settings, "", "batch_size"), None);
    let words = "for a in sys.argv[1:]:\n    k, v = a.split('=')\n    cfg[k] = int(v)\nfit(**cfg)";
    let bare = format!("cfg = {{'batch_size': 64, 'accum': 1}}\n{words}");
    assert_eq!(known(&bare, "batch_size=32 accum=4", accum), Some(4));
}

#[test]
fn an_option_that_takes_a_value_or_none_is_a_switch_without_one() {
    let program = "import argparse\nimport torch\np = argparse.ArgumentParser()\n\
                   p.add_argument('--cache', nargs='?', const='ram')\np.add_argument('--batch-size', type=int, default=16)\n\
                   opt = p.parse_args()\nfor x in load(opt.cache, opt.batch_size):\n    model(x).backward()\n    optimizer.step()\n";
    let log = (
        "slurm.log",
        "train: Caching images (45.7GB ram):  93%|#####| 37310/40118 [03:11<00:14, 194.87it/s]\nslurmstepd: error: Detected 1 oom_kill event in StepId=1.batch. Some of the step tasks have been OOM Killed.\n",
    );
    let fix = |words: &str| {
        let place = job(
            &format!("python train.py {words}"),
            &[("train.py", program), log],
        );
        place.run("fix slurm.log job.sh").told()
    };
    let said = fix("--cache --batch-size 8");
    assert!(
        said.contains("data-not-in-memory") && said.contains("+python train.py --batch-size 8"),
        "{said}"
    );
    let said = fix("--cache disk");
    assert!(!said.contains("+python"), "{said}");
}
