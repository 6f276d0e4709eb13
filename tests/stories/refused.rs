//! Commands that cannot run: options that the program does not have, programs that are not there, what a library refuses.

use super::place::Place;

const PROGRAM: &str = "import argparse\nimport torch\n\ndef parse():\n    p = argparse.ArgumentParser()\n    \
    p.add_argument('--batch-size', type=int, default=256)\n    p.add_argument('--accum', type=int, default=1)\n    \
    p.add_argument('--epochs', type=int, default=90)\n    return p.parse_args()\n\nargs = parse()\n\
    for i, x in enumerate(load(args.batch_size)):\n    loss = model(x) / args.accum\n    loss.backward()\n    \
    if (i + 1) % args.accum == 0:\n        opt.step()\n";

fn started(program: &str) -> String {
    format!(
        "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --mem=64G\n\nsrun torchrun --nproc_per_node=4 \\\n  \
         {program} --batch-size 128 --accum 2 \"$@\"\n"
    )
}

#[test]
fn an_option_that_the_programs_parser_does_not_have_is_said_and_is_no_batch() {
    let place = Place::bare();
    place.write("job.sh", &started("train.py"));
    place.write("train.py", PROGRAM);
    let said = place
        .run("plan job.sh --batch_size 64 --epocs 3 --accu 4")
        .ends(0);
    said.says(&[
        "train.py refuses --batch_size (command line): it has no such option; did you mean --batch-size?",
        "train.py refuses --epocs (command line): it has no such option; did you mean --epochs?",
        "--batch-size 128 -> ",
    ]);
    assert!(!said.told().contains("refuses --accu"), "{}", said.told());
    place.write("job.sh", &started("train.py").replace("--accum", "--acum"));
    place.says(
        "submit --dry-run job.sh",
        0,
        &["train.py refuses --acum (job.sh:6): it has no such option; did you mean --accum?"],
    );
    // A parser that leaves words to others refuses none.
    place.write(
        "train.py",
        &PROGRAM.replace("parse_args()", "parse_known_args()[0]"),
    );
    let open = place.run("plan job.sh --epocs 3").ends(0);
    assert!(!open.told().contains("refuses"), "{}", open.told());
}

#[test]
fn a_program_that_is_not_there_is_said_with_its_place_and_the_one_that_may_be_meant() {
    let place = Place::bare();
    place.write("job.sh", &started("trian.py"));
    place.write("train.py", PROGRAM);
    let missing = "file not found: trian.py (job.sh:6); did you mean train.py?";
    for command in [
        "plan job.sh",
        "plan --all job.sh",
        "submit --dry-run job.sh",
    ] {
        place.says(command, 0, &[missing]);
    }
    place.says("plan job.sh", 0, &["unknown"]);
    let forbidden = place.run("plan --same-math job.sh").ends(0);
    forbidden.says(&["oomctl can change nothing here"]);
    // What makes files may make it, and another folder may have it.
    let scripts = [
        format!("git checkout main\n{}", started("trian.py")),
        started("trian.py").replace("srun", "cd $WORK\nsrun"),
        started("trian.py").replace("srun torchrun", "srun apptainer exec a.sif torchrun"),
        started("/no/such/folder/trian.py"),
    ];
    for script in scripts {
        place.write("other.sh", &script);
        let said = place.run("plan other.sh").ends(0);
        assert!(!said.told().contains("not found: trian"), "{script}");
    }
}

const MANUAL: &str = "import argparse\nimport lightning as L\n\nclass Net(L.LightningModule):\n    def __init__(self):\n        \
    super().__init__()\n        self.automatic_optimization = False\n\np = argparse.ArgumentParser()\n\
    p.add_argument('--batch_size', type=int)\np.add_argument('--accumulate_grad_batches', type=int, default=1)\n\
    args = p.parse_args()\n\
    L.Trainer(accumulate_grad_batches=args.accumulate_grad_batches).fit(Net(), DataLoader(d, batch_size=args.batch_size))\n";

#[test]
fn lightning_with_manual_optimization_is_given_no_accumulation() {
    let place = Place::bare();
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --mem=64G\nsrun python train.py --batch_size 48\n";
    place.write("job.sh", script);
    place.write("train.py", MANUAL);
    let said = place.run("plan --all job.sh").ends(0);
    said.says(&[
        "Lightning refuses accumulate_grad_batches beside manual optimization",
        "-srun python train.py --batch_size 48",
        "+srun python train.py --batch_size 24\n",
    ]);
    let automatic = MANUAL.replace("automatic_optimization = False", "other = False");
    place.write("train.py", &automatic);
    place.says(
        "plan --all job.sh",
        0,
        &["+srun python train.py --batch_size 24 --accumulate_grad_batches 2"],
    );
}

const GRPO: &str = "from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser\n\n\
    parser = TrlParser((ScriptArguments, GRPOConfig, ModelConfig))\nscript, training, model = parser.parse_args_and_config()\n\
    GRPOTrainer(model=model.model_name_or_path, args=training).train()\n";

#[test]
fn a_key_that_the_framework_writes_with_another_underscore_is_said_and_is_no_batch() {
    let place = Place::bare();
    place.write("train_grpo.py", GRPO);
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:4\naccelerate launch --num_processes 4 train_grpo.py --config grpo.yaml\n",
    );
    let keys = "model_name_or_path: gpt2\nper_device_train_batchsize: 16\ngradient_accumulation_steps: 2\nmy_own_key: 1\n";
    place.write("grpo.yaml", keys);
    let said = "trl has no per_device_train_batchsize (grpo.yaml:2), so nothing is read from it; \
                did you mean per_device_train_batch_size?";
    let plan = place.run("plan job.sh").ends(0);
    plan.says(&[said]);
    assert!(!plan.told().contains("my_own_key"), "{}", plan.told());
    // A key of the program's own class is taken.
    let own = format!("{GRPO}\nclass Mine:\n    per_device_train_batchsize: int = 1\n");
    place.write("train_grpo.py", &own);
    let plan = place.run("plan job.sh").ends(0);
    assert!(!plan.told().contains("trl has no"), "{}", plan.told());
}

#[test]
fn a_job_that_would_fail_at_once_is_not_submitted_by_yes() {
    let place = Place::bare();
    place.write("train.py", PROGRAM);
    place.write("base.yaml", "batch_size: 8\n");
    let script = |line: &str| format!("#!/bin/bash\n{line}\n");
    let refused = [
        (
            "python3 train.py --acum 2",
            "train.py refuses --acum (job.sh:2)",
        ),
        (
            "python3 trian.py",
            "file not found: trian.py (job.sh:2); did you mean train.py?",
        ),
        (
            "nvidia-smi; eval \"$(conda shell.bash hook)\"; mkdir -p out; python3 other.py --config bse.yaml",
            "file not found: bse.yaml; did you mean base.yaml?",
        ),
    ];
    place.write("other.py", "import torch\n");
    for (line, why) in refused {
        place.write("job.sh", &script(line));
        let said = place.run("submit --yes --backend local job.sh").ends(5);
        said.says(&["the job would fail at once", why]);
        let measure = place.run("plan job.sh").ends(0);
        assert!(!measure.told().contains("oomctl measure"), "{line}");
    }
    // A job that makes the file, looks for it, waits for another, or starts something else too may well begin.
    let open = [
        "./make_it bse.yaml; python3 other.py --config bse.yaml",
        "python3 other.py; python3 other.py --config bse.yaml",
        "cp base.yaml bse.yaml; python3 other.py --config bse.yaml",
        "python3 other.py --save_config bse.yaml",
        "git pull; python3 train.py --acum 2",
        "git clone repo code && cd code && python3 run.py",
        "cd \"$SCRATCH\" && python3 run.py",
        "cd /nowhere && python3 run.py",
        "source code/setup.sh; python3 run.py",
        "./fetch; python3 run.py",
        "eval \"$(fetch)\"; python3 run.py",
        "python3 -m build; python3 run.py",
        "python3 $HERE/run.py",
        "srun --chdir=/elsewhere python3 run.py",
        "srun --container-image=a.sqsh python3 run.py",
        "apptainer exec -B a:b a.sif python3 run.py",
        "sed s/a/b/ other.py > run.py; python3 run.py",
        "python3 train.py --acum 2 || python3 train.py --accum 2",
        "#SBATCH --container-image=a.sqsh\npython3 run.py",
    ];
    for line in open {
        place.write("job.sh", &script(line));
        let said = place.run("submit --yes --backend local job.sh").ends(0);
        assert!(
            !said.told().contains("would fail"),
            "{line}: {}",
            said.told()
        );
    }
}

#[test]
fn what_is_no_knob_is_said_to_be_the_programs_own_with_its_place() {
    let place = Place::bare();
    place.write("other.py", "import torch\n");
    place.write(
        "job.sh",
        "#!/bin/bash\npython3 other.py --batch_size 8 --lr 3e-4\n",
    );
    place.run("submit --yes --backend local job.sh").ends(0);
    for name in ["lr", "--lr"] {
        place.says(
            &format!("explain {name} --run job-1"),
            5,
            &["--lr 3e-4 (job.sh:2) for its program"],
        );
    }
    let said = place.run("explain nothing --run job-1").ends(5);
    assert!(!said.told().contains("for its program"), "{}", said.told());
}

#[test]
fn an_error_is_a_document_where_json_is_asked_for() {
    let place = Place::bare();
    place.write("job.sh", "#!/bin/bash\npython3 trian.py\n");
    place.write("train.py", "import torch\n");
    for (command, code, message) in [
        (
            "submit --yes --json nosuch.sh",
            2,
            "cannot read the job script nosuch.sh",
        ),
        (
            "submit --yes --json --backend local job.sh",
            5,
            "the job would fail at once",
        ),
        ("submit --json --backend local job.sh", 2, ""),
        ("status --json nobody-1", 2, "nobody-1"),
        ("diagnose --json no-such.log", 2, "no-such.log"),
    ] {
        let done = place.run(command).ends(code);
        let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(document["exit_code"], code, "{document:#}");
        let said = document["errors"][0]["message"].as_str().unwrap();
        assert!(said.contains(message), "{document:#}");
        assert!(done.err.contains("error: "), "{}", done.told());
    }
    let plain = place.run("submit --yes nosuch.sh").ends(2);
    assert!(plain.out.is_empty(), "{}", plain.told());
}
