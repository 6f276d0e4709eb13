//! What the version of a framework, the figures of a message and the program's own code leave of the levers.

use super::fixing::{fixed, job};
use super::place::Done;

/// A message in the form of PyTorch 2.0, which transformers from 4.52 on do not run with, below these frames.
fn older(frames: &[&str], requested: &str) -> String {
    let frames = frames
        .iter()
        .map(|frame| format!("  File \"/env/lib/python3.10/site-packages/{frame}\n"));
    format!(
        "Traceback (most recent call last):\n{}torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested} (GPU 0; 39.39 GiB total capacity; \
         37.61 GiB already allocated; 61.56 MiB free; 37.90 GiB reserved in total by PyTorch)\n",
        frames.collect::<String>()
    )
}

const LAYER: &str = "transformers/models/llama/modeling_llama.py\", line 232, in forward\n    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))";
const LOSS: &str = "transformers/loss/loss_utils.py\", line 26, in fixed_cross_entropy\n    loss = nn.functional.cross_entropy(source, target)\n  \
    File \"/env/lib/python3.10/site-packages/torch/nn/functional.py\", line 3029, in cross_entropy\n    return torch._C._nn.cross_entropy_loss(input, target, weight)";
const STEP: &str = "torch/optim/adamw.py\", line 152, in _init_group\n    state[\"exp_avg_sq\"] = torch.zeros_like(";
const PROGRAM: &str = "from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments\n(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n\
    model = AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-0.5B\")\nTrainer(model=model, args=args).train()\n";

/// A job on one GPU, with a batch of 1 and these words.
fn tuned(words: &str, log: &str, files: &[(&str, &str)]) -> Done {
    let script = format!(
        "#SBATCH --gres=gpu:a100:1\npython tune.py --per_device_train_batch_size 1 --output_dir out {words}"
    );
    fixed(&script, log, files)
}

/// Of levers that keep training as it is those come first that every version has which the job can have.
#[test]
fn a_lever_that_the_version_may_lack_waits_for_those_that_it_has() {
    let log = older(&[LOSS], "3.91 GiB");
    let open = tuned("", &log, &[("tune.py", PROGRAM)]);
    open.says(&[
        "transformers 4.51.3 or older",
        "gradient_checkpointing  false -> true",
    ]);
    let all = "--gradient_checkpointing True --max_seq_length 2048";
    tuned(all, &log, &[("tune.py", PROGRAM)]).says(&[
        "use_liger_kernel  false -> true",
        "transformers has it since 4.45.0, and the version is only assumed",
    ]);
    // One that is older for certain has no such option.
    let files = [
        ("tune.py", PROGRAM),
        ("requirements.txt", "transformers==4.36.2\n"),
    ];
    let old = job(
        &format!(
            "#SBATCH --gres=gpu:a100:1\npython tune.py --per_device_train_batch_size 1 --output_dir out {all}"
        ),
        &log,
        &files,
    );
    let said = old.run("fix job.log job.sh");
    let told = said.told();
    assert!(!told.contains("use_liger_kernel  false"), "{told}");
    assert!(
        told.contains("transformers has it since 4.45.0, and the job's is older"),
        "{told}"
    );
}

/// What failed at last fills nothing, where it asked for a small part of the GPU.
#[test]
fn logits_that_ask_for_little_do_not_choose_the_lever() {
    let files = [
        ("tune.py", PROGRAM),
        ("requirements.txt", "transformers==4.47.0\n"),
    ];
    let offload = "--fsdp 'full_shard auto_wrap' --gradient_checkpointing True --per_device_train_batch_size 1 --output_dir out";
    let script =
        format!("#SBATCH --gres=gpu:a100:4\ntorchrun --nproc_per_node 4 tune.py {offload}");
    let told = |requested: &str| fixed(&script, &older(&[LOSS], requested), &files);
    told("3.91 GiB").says(&["use_liger_kernel  false -> true"]);
    let small = told("250.00 MiB");
    assert!(
        !small.told().contains("the logits of the vocabulary"),
        "{}",
        small.told()
    );
    small.says(&["full_shard auto_wrap offload"]);
}

/// Fused kernels replace the model's own loss, and no other.
#[test]
fn a_loss_of_the_programs_own_is_not_fused() {
    let own = PROGRAM.replace("args=args)", "args=args, compute_loss_func=weighted)");
    let files = [
        ("tune.py", own.as_str()),
        ("requirements.txt", "transformers==4.47.0\n"),
    ];
    let words = "--gradient_checkpointing True --max_seq_length 2048";
    let said = tuned(words, &older(&[LOSS], "3.91 GiB"), &files);
    assert!(
        !said.told().contains("use_liger_kernel  false"),
        "{}",
        said.told()
    );
    said.says(&["the program computes its loss itself"]);
}

/// To import what gathers sharded weights shards nothing, and what quantises them in a branch need not.
#[test]
fn a_program_that_knows_of_sharding_may_be_given_it() {
    let own = format!(
        "from deepspeed import zero\nfrom transformers import BitsAndBytesConfig\n{PROGRAM}if args.deepspeed:\n    with zero.GatheredParameters([]):\n        model.save_pretrained('out')\n"
    );
    let script = "#SBATCH --gres=gpu:a100:4\ntorchrun --nproc_per_node 4 tune.py --per_device_train_batch_size 2 --gradient_checkpointing True --bf16 True --output_dir out";
    let log = older(&[STEP], "270.00 MiB");
    fixed(script, &log, &[("tune.py", &own)]).says(&["--fsdp  unset -> full_shard auto_wrap"]);
    let by_itself = own.replace("model=model", "model=FullyShardedDataParallel(model)");
    let said = fixed(script, &log, &[("tune.py", &by_itself)]);
    assert!(!said.told().contains("--fsdp  unset"), "{}", said.told());
    said.says(&["start-sharding: the program's code shards by itself"]);
}

/// Smaller batches make no room for states that do not fit by themselves.
#[test]
fn states_that_exceed_a_gpu_are_sharded_before_a_batch_is_halved() {
    let named = |model: &str| PROGRAM.replace("Qwen/Qwen2.5-0.5B", model);
    let script = "#SBATCH --gres=gpu:a100:4\ntorchrun --nproc_per_node 4 tune.py --per_device_train_batch_size 4 --bf16 True --output_dir out";
    let log = older(&[LAYER], "170.00 MiB");
    let said = |model: &str, more: &str| {
        let program = format!("{}{more}", named(model));
        fixed(script, &log, &[("tune.py", &program)])
    };
    let large = said("meta-llama/Llama-2-13b-hf", "");
    large.says(&[
        "--fsdp  unset -> full_shard auto_wrap",
        "states alone need at least 97 GiB of each GPU, which has 39 GiB",
    ]);
    // One GPU has nothing to share, and states of 8 bits are too large as well.
    let alone = "#SBATCH --gres=gpu:a100:1\npython tune.py --per_device_train_batch_size 4 --bf16 True --output_dir out";
    let place = job(
        alone,
        &log,
        &[("tune.py", &named("meta-llama/Llama-2-13b-hf"))],
    );
    let end = place.run("fix job.log job.sh");
    let told = end.told();
    for word in ["paged_adamw_8bit\n", "helps      smaller"] {
        assert!(!told.contains(word), "{told}");
    }
    let helps = "helps      weights, gradients and states of the optimizer sharded";
    assert!(told.contains(helps), "{told}");
    assert!(
        !large.told().contains("batch_size  4 ->"),
        "{}",
        large.told()
    );
    // Weights that are frozen have no states.
    let frozen = "model.model.requires_grad_(False)\n";
    said("meta-llama/Llama-2-13b-hf", frozen).says(&["per_device_train_batch_size  4 -> 2"]);
    said("Qwen/Qwen2.5-0.5B", "").says(&["per_device_train_batch_size  4 -> 2"]);
}

/// The batch of an evaluation costs no training: it goes where its part of the request fits.
#[test]
fn an_evaluation_gets_the_batch_whose_part_of_the_request_fits() {
    let script = "torchrun --nproc_per_node 2 run_clm.py --per_device_train_batch_size 2 --per_device_eval_batch_size 32 --do_eval";
    let log = |requested: &str, free: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/env/lib/python3.11/site-packages/transformers/trainer.py\", line 4531, in evaluation_loop\n{}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. \
             GPU 0 has a total capacity of 79.15 GiB of which {free} is free.\n",
            format_args!("  File \"/env/lib/python3.11/site-packages/{LAYER}\n")
        )
    };
    for (requested, free, less) in [
        ("12.00 GiB", "7.00 GiB", "32 -> 16"),
        ("12.00 GiB", "2.50 GiB", "32 -> 4"),
        ("12.00 GiB", "0.10 GiB", "32 -> 1"),
    ] {
        let change = format!("per_device_eval_batch_size  {less}");
        fixed(script, &log(requested, free), &[]).says(&[change.as_str()]);
    }
}
