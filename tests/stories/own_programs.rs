//! Programs of one's own, whose text decides what a word of the job script means.

use super::fixing;
use super::place::{Done, Place};

const LOG: &str = "\
Traceback (most recent call last):
  File \"/home/ada/train.py\", line 40, in main
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.
";

const HEAD: &str = "#SBATCH --gres=gpu:8\n#SBATCH --mem=64G";

/// A job that runs `script`, with these files beside it.
pub fn job(script: &str, files: &[(&str, &str)]) -> Place {
    fixing::job(&format!("{HEAD}\n{script}"), LOG, files)
}

pub fn fixed(script: &str, files: &[(&str, &str)]) -> Done {
    fixing::fixed(&format!("{HEAD}\n{script}"), LOG, files)
}

/// Half the batch with twice the accumulation trains the same only where the loss is divided by it.
#[test]
fn a_loop_that_adds_up_losses_trains_otherwise_with_a_smaller_batch() {
    let program = |body: &str| {
        format!(
            "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=32)\n\
             p.add_argument('--grad-accum', type=int, default=2)\nargs = p.parse_args()\nfor batch in rows(args.batch_size):\n{body}"
        )
    };
    let plan = |body: &str| {
        let place = job(
            "torchrun --nproc_per_node 8 train.py --batch-size 32",
            &[("train.py", &program(body))],
        );
        place.run(&["plan", "--all", "job.sh"]).ends(0).out
    };
    let inner = "  for _ in range(args.grad_accum):\n    loss = model(batch)\n";
    let same = plan(&format!("{inner}    (loss / args.grad_accum).backward()\n"));
    assert!(same.contains("gradient_accumulation_steps"), "{same}");
    assert!(!same.contains("does not divide its loss"), "{same}");
    for body in [
        format!("{inner}    loss.backward()\n"),
        "  model(batch).backward()\n".to_owned(),
    ] {
        let other = plan(&body);
        assert!(
            other.contains("the program does not divide its loss by its accumulation"),
            "{other}"
        );
        assert!(!other.contains("+    --grad-accum"), "{other}");
    }
}

/// Half the batch with twice the accumulation is the same only where nothing is computed of a micro batch as a whole. A loss
/// that is a sum, which nothing divides, is the same in parts.
#[test]
fn what_depends_on_the_micro_batch_is_no_same_mathematics() {
    let program = |setup: &str, loss: &str, back: &str, after: &str| {
        format!(
            "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=32)\n\
             p.add_argument('--grad-accum', type=int, default=2)\np.add_argument('--max-steps', type=int)\nargs = p.parse_args()\n\
             f = torch.nn.Linear(1, 1)\n{setup}\nstep = 0\nfor i, x in enumerate(rows(args.batch_size)):\n    loss = {loss}\n    ({back}).backward()\n    \
             if (i + 1) % args.grad_accum == 0:\n        opt.step()\n    {after}\n    if step >= args.max_steps: break\n"
        )
    };
    let mean = "f(x).mean()";
    let divided = "loss / args.grad_accum";
    let cases = [
        ("", mean, divided, "", None),
        ("", "f(x).sum()", "loss", "", None),
        (
            "",
            "f(x).sum()",
            divided,
            "",
            Some("the loss is a sum over the samples of one micro batch"),
        ),
        (
            "",
            "F.cross_entropy(a @ b.T, torch.arange(len(a)))",
            divided,
            "",
            Some("the loss compares the samples of one micro batch with each other"),
        ),
        (
            "lr = args.lr * args.batch_size / 256",
            mean,
            divided,
            "",
            Some("the learning rate is computed from the batch"),
        ),
        (
            "",
            mean,
            divided,
            "step += 1",
            Some("the loop counts, schedules or clips by micro batch"),
        ),
        (
            "",
            mean,
            divided,
            "scheduler.step()",
            Some("the loop counts, schedules or clips by micro batch"),
        ),
    ];
    for (setup, loss, back, after, why) in cases {
        let place = job(
            "torchrun --nproc_per_node 8 train.py --batch-size 32",
            &[("train.py", &program(setup, loss, back, after))],
        );
        let same = place
            .run(&["plan", "--all", "--same-math", "job.sh"])
            .ends(0);
        same.says(&[why.unwrap_or("oomctl does not read training loops")]);
        assert!(!same.out.contains(" 32 -> 16  "), "{}", same.told());
        place
            .run(&["plan", "job.sh"])
            .ends(0)
            .says(&["--batch-size 32 -> "]);
    }
}

/// `train: {micro_batch_size: …}` is a key of OpenRLHF too. The program imports no OpenRLHF, and looks the key up itself.
#[test]
fn sections_of_settings_that_the_program_looks_up_are_its_own() {
    let settings = "data:\n  seq_len: 4096\ntrain:\n  micro_batch_size: 16\n  grad_accum: 2\neval:\n  micro_batch_size: 64\n";
    let program = "\
import argparse, torch, yaml
p = argparse.ArgumentParser()
p.add_argument('--config')
p.add_argument('--micro-batch-size', type=int, default=None)
args = p.parse_args()
cfg = yaml.safe_load(open(args.config))
if args.micro_batch_size is not None:
    cfg['train']['micro_batch_size'] = args.micro_batch_size
rows(cfg['train']['micro_batch_size'], cfg['eval']['micro_batch_size'])
step(cfg['train'].get('grad_accum', 1))
";
    let files = [("conf/a.yaml", settings), ("train.py", program)];
    let script = "torchrun --nproc_per_node 8 train.py --config conf/a.yaml";
    fixed(script, &files).says(&[
        "train.micro_batch_size  16 -> 8",
        "-  micro_batch_size: 16\n-  grad_accum: 2\n+  micro_batch_size: 8\n+  grad_accum: 4",
    ]);
    // An option on the command line wins over the file.
    let script = format!("{script} --micro-batch-size 4");
    fixed(&script, &files).says(&[
        "--micro-batch-size  4 -> 2",
        "+torchrun --nproc_per_node 8 train.py --config conf/a.yaml --micro-batch-size 2",
        "+  grad_accum: 4",
    ]);
    // An option with a default of its own may win, so the file is left alone.
    let decided = program.replace("default=None", "default=8");
    let said = fixed(
        "torchrun --nproc_per_node 8 train.py --config conf/a.yaml",
        &[("conf/a.yaml", settings), ("train.py", &decided)],
    );
    assert!(!said.out.contains("+  micro_batch_size"), "{}", said.out);
}

/// A batch that the program divides, or that its help calls global, is none of one GPU.
#[test]
fn a_batch_of_all_gpus_is_not_halved_for_one() {
    let program = |help: &str, local: &str| {
        format!(
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=8, help='{help}')\n\
             p.add_argument('--grad-accum', type=int, default=1)\na = p.parse_args()\nlocal = {local}\n"
        )
    };
    let script = "torchrun --nproc_per_node 8 train.py --batch-size 256 --grad-accum 2";
    let divided = program("samples", "a.batch_size // world // a.grad_accum");
    let said = fixed(script, &[("train.py", &divided)]);
    said.says(&["--grad-accum  2 -> 4", " job.sh:4  unknown"]);
    assert!(!said.out.contains(" 256 -> "), "{}", said.out);
    // Whether the accumulation divides it, nobody knows: more of it may free nothing.
    let unknown = program("global batch size, over all ranks", "split(a)");
    let said = fixed(script, &[("train.py", &unknown)]);
    said.says(&["--batch-size  256 -> 128  job.sh:4  changes"]);
    assert!(!said.out.contains("--grad-accum  2"), "{}", said.out);
    let said = fixed(script, &[("train.py", &program("samples", "a.batch_size"))]);
    said.says(&["--batch-size  256 -> 128", "--grad-accum  2 -> 4"]);
}

/// An adapter in one branch may not be there.
#[test]
fn an_adapter_below_a_condition_is_not_known() {
    let program = |adapter: &str| {
        format!(
            "import argparse\nfrom peft import LoraConfig, get_peft_model\nfrom transformers import Trainer, TrainingArguments, HfArgumentParser\n\
             args, own = HfArgumentParser((TrainingArguments, Own)).parse_args_into_dataclasses()\n\
             def main():\n    model = load()\n{adapter}    Trainer(model=model, args=args).train()\n\nif __name__ == '__main__':\n    main()\n"
        )
    };
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 8 \
        --bf16 --torch_dtype bfloat16 --output_dir o";
    let known = "    model = get_peft_model(model, LoraConfig(r=16))\n";
    let read = "lora_r                       16  train.py";
    let plan = |adapter: &str| {
        let place = job(script, &[("train.py", &program(adapter))]);
        place.run("plan --all job.sh").ends(0)
    };
    plan(known).says(&[read]);
    for unknown in [
        "    if own.lora:\n        model = get_peft_model(model, LoraConfig(r=16))\n",
        "    config = LoraConfig(r=16) if own.lora else None\n    model = get_peft_model(model, config)\n",
    ] {
        let said = plan(unknown);
        assert!(!said.out.contains(read), "{}", said.out);
        said.says(&["--set lora_r=RANK"]);
    }
}

/// The evaluation of one's own program takes the batch of training, unless it has one.
#[test]
fn an_evaluation_without_a_batch_of_its_own_takes_that_of_training() {
    let log = "\
Traceback (most recent call last):
  File \"train.py\", line 216, in estimate_loss
    logits, loss = model(X, Y)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.14 GiB. GPU 0 has a total capacity of 15.78 GiB of which 5.11 GiB is free. Of the allocated memory 10.16 GiB is allocated by PyTorch, and 30.72 MiB is reserved by PyTorch but unallocated.
";
    let fix = |own: &str| {
        let place = job(&format!("python train.py --batch_size 32 {own}"), &[]);
        place.write("job.log", log);
        place.run("fix job.log job.sh")
    };
    fix("").ends(0).says(&["in eval", "batch_size  32 -> 16"]);
    fix("--eval_batch_size 8")
        .ends(0)
        .says(&["eval_batch_size  8 -> 4"]);
    fix("--eval_batch_size 1")
        .ends(0)
        .says(&["halve-batch: the evaluation has a batch of its own"]);
}

/// Nothing in the script names the Trainer. The log does, and so may the user.
#[test]
fn a_framework_is_named_by_the_log_or_by_the_user() {
    let log = "\
Traceback (most recent call last):
  File \"run_language_modeling.py\", line 277, in main
    trainer.train()
  File \"/opt/venv/lib/python3.8/site-packages/transformers/trainer.py\", line 499, in train
    tr_loss += self._training_step(model, inputs, optimizer)
  File \"/opt/venv/lib/python3.8/site-packages/transformers/trainer.py\", line 622, in _training_step
    outputs = model(**inputs)
RuntimeError: CUDA out of memory. Tried to allocate 384.00 MiB (GPU 0; 15.90 GiB total capacity; 14.75 GiB already allocated; 225.81 MiB free; 14.81 GiB reserved in total by PyTorch)
";
    let place = job("python lm.py --train_data_file a.txt --do_train", &[]);
    place.write("job.log", log);
    place.run("fix job.log job.sh").ends(0).says(&[
        "transformers by run_language_modeling.py, transformers/",
        "lower --per_device_train_batch_size",
        "`oomctl fix --preset hf-trainer job.log job.sh`",
    ]);
    place
        .run("fix --preset hf-trainer job.log job.sh")
        .ends(0)
        .says(&[
            "per_device_train_batch_size  8 -> 4",
            "+python lm.py --train_data_file a.txt --do_train",
        ]);
    place
        .run("plan --preset hf-trainer job.sh")
        .ends(0)
        .says(&["recognised as hf-trainer"]);
}

/// Where no memory ran out the memory model has nothing to say, however large the job is.
#[test]
fn after_another_failure_nothing_is_said_of_memory() {
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-72B --per_device_train_batch_size 8 \
        --block_size 8192 --bf16 --torch_dtype bfloat16 --lora_r 0 --output_dir o --use_liger_kernel false";
    let place = job(script, &[]);
    let logs = [
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***\n",
            "a longer --time",
        ),
        ("{'loss': 0.3, 'epoch': 3.0}\n", "nothing to change"),
    ];
    for (log, says) in logs {
        place.write("job.log", log);
        let said = place
            .run("fix --set gpu_memory=80GiB --set sharding=ddp job.log job.sh")
            .ends(0);
        said.says(&[says]);
        assert!(!said.out.contains("cannot fit"), "{}", said.out);
        assert!(!said.out.contains("skipped:"), "{}", said.out);
    }
}

/// A program that takes its settings from the environment alone.
#[test]
fn a_variable_that_the_program_reads_is_its_option() {
    let program = |more: &str| {
        format!(
            "import os\nimport torch\nimport torch.nn.functional as F\nloader = torch.utils.data.DataLoader(data, batch_size=int(os.environ.get('BATCH_SIZE', 32)))\n\
             accum = int(os.getenv('GRAD_ACCUM', '1'))\n{more}model = torch.nn.Linear(8, 2)\nfor i, (x, y) in enumerate(loader):\n    loss = F.cross_entropy(model(x), y) / accum\n    \
             loss.backward()\n    if (i + 1) % accum == 0:\n        opt.step()\n        opt.zero_grad()\n"
        )
    };
    let plan = |script: &str, more: &str| {
        let place = job(script, &[("train.py", &program(more))]);
        place.run(&["plan", "--all", "job.sh"]).ends(0).out
    };
    let set = plan("export BATCH_SIZE=64 GRAD_ACCUM=2\npython train.py", "");
    assert!(set.contains("+export BATCH_SIZE=32 GRAD_ACCUM=4"), "{set}");
    let inline = plan("BATCH_SIZE=64 python train.py", "");
    assert!(
        inline.contains("+GRAD_ACCUM=2 BATCH_SIZE=32 python"),
        "{inline}"
    );
    // Its own value counts where the script gives none.
    let unset = plan("python train.py", "");
    assert!(
        unset.contains("+BATCH_SIZE=16 GRAD_ACCUM=2 python train.py"),
        "{unset}"
    );
    // What the program sets itself is no option of it.
    let own = plan(
        "export BATCH_SIZE=64\npython train.py",
        "os.environ['BATCH_SIZE'] = '8'\n",
    );
    assert!(!own.contains("+export BATCH_SIZE"), "{own}");
}

/// No class that configures training has the field: it goes where the model is loaded, or to a parser that is handed ModelConfig.
#[test]
fn how_attention_is_computed_is_said_where_the_model_is_loaded() {
    let log = "Traceback (most recent call last):
  File \"/home/ada/train.py\", line 9, in <module>
    trainer.train()
  File \"/venv/lib/python3.11/site-packages/transformers/models/qwen2/modeling_qwen2.py\", line 120, in eager_attention_forward
    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.
";
    let plan = |parser: &str, load: &str| {
        let program = format!(
            "from transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n{parser}\n\
             model = AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-0.5B\"{load})\nSFTTrainer(model=model, args=args).train()\n"
        );
        let line = "python train.py --output_dir out";
        let job = format!("{HEAD}\n{line}");
        fixing::fixed(&job, log, &[("train.py", &program)]).out
    };
    let filled = "args = SFTConfig(output_dir=\"out\", per_device_train_batch_size=4)";
    let parsed = |classes: &str| format!("args = TrlParser({classes}).parse_args()");
    let added =
        "+model = AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-0.5B\", attn_implementation=";
    for parser in [filled, &parsed("SFTConfig")] {
        let told = plan(parser, "");
        assert!(told.contains(added), "{told}");
        let told = plan(parser, ", attn_implementation=\"flash_attention_2\"");
        assert!(!told.contains("attn_implementation unset"), "{told}");
        let told = plan(
            parser,
            ")\nother = AutoModelForCausalLM.from_pretrained(\"gpt2\"",
        );
        assert!(
            !told.contains("+model") && !told.contains("--attn_implementation"),
            "{told}"
        );
    }
    let told = plan(&parsed("(SFTConfig, ModelConfig)"), "");
    assert!(
        told.contains("--output_dir out --attn_implementation "),
        "{told}"
    );
}
