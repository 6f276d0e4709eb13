//! What is said of the training of programs of one's own, and of known Trainers.

use super::place::Place;
use super::slurm::Slurm;

const PROGRAM: &str = "import argparse\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom torch.utils.data import DataLoader\n\n\
    p = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=64)\np.add_argument('--accum', type=int, default=1)\n\
    p.add_argument('--lr', type=float, default=1e-3)\nargs = p.parse_args()\nmodel = nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, batch_first=True), 12).cuda()\n\
    loader = DataLoader(torch.load('d.pt'), batch_size=args.batch_size, shuffle=True)\nopt = torch.optim.AdamW(model.parameters(), lr=args.lr)\n\
    for i, (x, y) in enumerate(loader):\n    x, y = x.cuda(), y.cuda()\n    loss = F.cross_entropy(model(x), y)\n    \
    (loss / args.accum).backward()\n    if (i + 1) % args.accum == 0:\n        opt.step()\n        opt.zero_grad()\n";
const OOM: &str = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 17, in <module>\n    loss = F.cross_entropy(model(x), y)\n\
    torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; 9.31 GiB already allocated; \
    39.44 MiB free; 9.40 GiB reserved in total by PyTorch)\n";
const JOB: &str =
    "#!/bin/bash\n#SBATCH --gres=gpu:1\n\npython train.py --batch-size 64 --accum 1\n";

fn place(program: &str) -> Place {
    let place = Place::bare();
    place.write("job.sh", JOB);
    place.write("train.py", program);
    place
}

/// Nobody reads a loop of one's own, so nobody says that it trains the same.
#[test]
fn a_loop_of_ones_own_is_unknown_and_the_plan_says_once_what_to_check() {
    const CHECK: &str =
        "oomctl does not read training loops. Check that the loss is a mean over samples";
    let place = place(PROGRAM);
    let said = place.run("plan job.sh").ends(0);
    said.says(&[
        "--batch-size 64 -> ",
        "unknown",
        &format!("unknown: {CHECK}"),
    ]);
    assert_eq!(said.told().matches(CHECK).count(), 1, "{}", said.told());
    let all = place.run("plan --all job.sh").ends(0);
    all.says(&["whether training stays the same is unknown: oomctl does not read training loops"]);
    place.write("job.log", OOM);
    let fixed = place.run("fix --policy same-math job.log job.sh").ends(0);
    fixed.says(&[
        &format!("may change training, which the policy same-math forbids: {CHECK}"),
        "no batch norm. If you know that training stays the same, take it with --policy ladder",
    ]);
    let same = place.run("plan --same-math job.sh").ends(0);
    same.says(&["which the policy same-math forbids: oomctl does not read training loops"]);
    assert_eq!(same.told().matches(CHECK).count(), 1, "{}", same.told());
    assert!(
        !same.told().contains("--batch-size 64 -> "),
        "{}",
        same.told()
    );
}

#[test]
fn known_trainers_keep_their_own_rules_of_batches() {
    let place = Place::bare();
    let job = |command: &str| format!("#!/bin/bash\n#SBATCH --gres=gpu:4 --mem=60G\n{command}\n");
    place.write(
        "yolo.sh",
        &job("yolo detect train data=coco.yaml model=yolo11x.pt batch=64 device=0,1,2,3"),
    );
    let said = place.run("plan --all yolo.sh").ends(0);
    said.says(&["batch  64 -> 32", "batch  8 -> 4"]);
    assert!(!said.told().contains("batch  4 -> 2"), "{}", said.told());
    let same = place.run("plan --same-math yolo.sh").ends(0);
    assert!(!same.told().contains("batch 64 -> "), "{}", same.told());
    place.write("lf.yaml", "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: full\nuse_galore: true\ngalore_layerwise: true\n\
        template: qwen\nper_device_train_batch_size: 8\ngradient_accumulation_steps: 1\nbf16: true\n");
    place.write("lf.sh", &job("llamafactory-cli train lf.yaml"));
    let said = place.run("plan --all lf.sh").ends(0);
    said.says(&["per_device_train_batch_size  8 -> 4"]);
    assert!(
        !said.told().contains("gradient_accumulation_steps  1 -> 2"),
        "{}",
        said.told()
    );
    let estimate = place.run("estimate lf.sh");
    assert!(
        !estimate.told().contains("does not fit"),
        "{}",
        estimate.told()
    );
    place.write("kto.py", "from trl import KTOConfig, KTOTrainer, TrlParser\nargs, = TrlParser((KTOConfig,)).parse_args_and_config()\n\
        KTOTrainer(model='m', args=args).train()\n");
    place.write("kto.sh", &job("accelerate launch kto.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --output_dir o"));
    let said = place.run("plan --all kto.sh").ends(0);
    said.says(&["per_device_train_batch_size  8 -> 4"]);
    assert!(
        !said.told().contains("per_device_train_batch_size  2 -> 1"),
        "{}",
        said.told()
    );
    let same = place.run("plan --same-math kto.sh").ends(0);
    assert!(!same.told().contains("batch_size 8 -> "), "{}", same.told());
}

#[test]
fn what_is_no_job_script_is_told_in_one_line() {
    let mut place = Place::bare();
    let _slurm = Slurm::before(&mut place);
    place.write("x.yaml", "a: 1\n");
    place.says(
        "submit --yes x.yaml",
        2,
        &[
            "x.yaml is a file of settings, not a job script",
            "write a job script",
        ],
    );
    place.write("job.py", "#!/usr/bin/env python3\n#SBATCH --gres=gpu:1\nimport os\nfor x in (1, 2):\n    print(f\"{x}\")\n");
    let said = place.run("submit --dry-run job.py").ends(0);
    said.says(&["note: job.py is no shell script, so oomctl reads only its #SBATCH lines"]);
    assert!(!said.told().contains("cannot read"), "{}", said.told());
    for (words, tip) in [
        ("submit -p gpu job.py", "--sbatch=-pVALUE"),
        (
            "submit --partition=gpu job.py",
            "--sbatch=--partition=VALUE",
        ),
        ("plan -J x job.py", "--sbatch=-JVALUE"),
        ("cancel --all", "--all is an option of `oomctl"),
        ("history --nope", "unexpected argument"),
    ] {
        let said = place.run(words).ends(2);
        said.says(&[tip]);
        assert!(!said.told().contains("to pass"), "{}", said.told());
    }
    place.write(
        "bom.sh",
        "\u{feff}#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n",
    );
    place.says("submit --yes bom.sh", 5, &["begins with a byte order mark"]);
    place.write("go.sh", "#!/bin/bash\n#SBATCH -t 10\necho \"$@\"\n");
    let refused = "-n comes after go.sh, which would get it";
    place.says("submit --yes go.sh -n", 2, &[refused]);
}

#[test]
fn training_is_not_changed_for_memory_that_another_process_holds() {
    let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 5.12 MiB is free. Process 991 has 71.20 GiB memory in use. Including non-PyTorch memory, this process has 7.90 GiB memory in use. Of the allocated memory 7.00 GiB is allocated by PyTorch, and 0.11 GiB is reserved by PyTorch but unallocated.";
    let mut place = Place::bare();
    let _slurm = Slurm::before(&mut place);
    place.write("train.py", &format!(
        "import argparse, sys\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\na = p.parse_args()\n\
         print('epoch 0 it 2 loss 0.3', flush=True)\nsys.exit('{oom}')\n"
    ));
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH -t 10\npython3 train.py --batch-size 4\n",
    );
    let done = place.run("submit --yes --watch --run r job.sh").ends(3);
    done.says(&["changes training, and other processes hold more than half of the GPU"]);
    let told = done.told();
    assert!(!told.contains("does not seem to read"), "{told}");
    assert_eq!(place.count("r", "intended"), 2, "{told}");
}
