//! Jobs on several GPUs each of which holds the whole model, programs with a rollout engine that no preset knows, and options by the names that a
//! program declares.

use super::fixing::{fixed, job};

/// Frames in the form of PyTorch 2 and transformers 4.57.
const LOADING: &str = "  File \"/opt/lib/python3.11/site-packages/transformers/modeling_utils.py\", line 805, in _load_state_dict_into_meta_model\n    set_module_tensor_to_device(model, param_name, param_device, **set_module_kwargs)\n  File \"/opt/lib/python3.11/site-packages/accelerate/utils/modeling.py\", line 347, in set_module_tensor_to_device\n    new_value = value.to(device)\n";
const STEPPING: &str = "  File \"/opt/lib/python3.11/site-packages/transformers/trainer.py\", line 2740, in _inner_training_loop\n    self.optimizer.step()\n  File \"/opt/lib/python3.11/site-packages/torch/optim/adamw.py\", line 145, in _init_group\n    state[\"exp_avg_sq\"] = torch.zeros_like(\n";

fn ran_out(frames: &str) -> String {
    format!(
        "Traceback (most recent call last):\n{frames}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 3 has a total capacity of 79.35 GiB of which 93.19 MiB is free. Including non-PyTorch memory, this process has 79.25 GiB memory in use. Of the allocated memory 78.78 GiB is allocated by PyTorch, and 1.21 MiB is reserved by PyTorch but unallocated.\n"
    )
}

const RECIPE: &str = "model_name_or_path: Qwen/Qwen2.5-72B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: identity\ntemplate: qwen\ncutoff_len: 2048\noutput_dir: out\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nlearning_rate: 1.0e-4\nbf16: true\n";

/// hiyouga/LLaMA-Factory#2379: weights that do not fit a GPU fit several of them.
#[test]
fn llama_factory_shards_what_each_gpu_has_whole() {
    let script = "#SBATCH --gres=gpu:h100:8\nFORCE_TORCHRUN=1 llamafactory-cli train lora.yaml";
    let log = ran_out(LOADING);
    let done = fixed(script, &log, &[("lora.yaml", RECIPE)]);
    done.says(&[
        "+deepspeed: '{\"train_batch_size\": \"auto\"",
        "\"stage\": 3",
        "same",
        ">0.99",
    ]);
    assert!(!done.out.contains("cannot fit"), "{}", done.out);
    // Adam's states of a full training need no sharded weights.
    let full = RECIPE.replace("72B", "7B").replace("lora\n", "full\n");
    let log = ran_out(STEPPING);
    let done = fixed(script, &log, &[("lora.yaml", &full)]);
    done.says(&["\"stage\": 2", ">0.99"]);
    // What it wrote is no file that was not found, and counts as what it says.
    let sharded = format!("{full}deepspeed: '{{\"zero_optimization\": {{\"stage\": 3}}}}'\n");
    let place = job(script, &log, &[("lora.yaml", &sharded)]);
    let plan = place.run("plan job.sh").ends(0);
    assert!(!plan.out.contains("not read"), "{}", plan.out);
    plan.says(&["now: "]);
}

/// One GPU has nothing to share, and quantised weights do not run with it.
#[test]
fn what_cannot_be_sharded_stays() {
    let log = ran_out(LOADING);
    let one = "#SBATCH --gres=gpu:h100:1\nllamafactory-cli train lora.yaml";
    let done = fixed(one, &log, &[("lora.yaml", RECIPE)]);
    assert!(!done.out.contains("+deepspeed"), "{}", done.out);
    let eight = "#SBATCH --gres=gpu:h100:8\nFORCE_TORCHRUN=1 llamafactory-cli train lora.yaml";
    let quantised = format!("{RECIPE}quantization_bit: 4\n");
    let done = fixed(eight, &log, &[("lora.yaml", &quantised)]);
    assert!(!done.out.contains("+deepspeed"), "{}", done.out);
}

#[test]
fn a_trainer_that_copies_its_model_to_each_gpu_is_given_fsdp() {
    let script = "#SBATCH --gres=gpu:h100:8\naccelerate launch --num_processes 8 trl/scripts/sft.py --model_name_or_path Qwen/Qwen2.5-72B-Instruct --dataset_name a --use_peft --per_device_train_batch_size 1 --bf16 --output_dir out";
    fixed(script, &ran_out(LOADING), &[]).says(&["--output_dir out --fsdp 'full_shard auto_wrap'"]);
    let given = format!("{script} --load_in_4bit");
    let done = fixed(&given, &ran_out(LOADING), &[]);
    assert!(!done.out.contains("--fsdp"), "{}", done.out);
}

/// The help says that the batch is of all GPUs; the option is called what it is called.
#[test]
fn a_batch_of_all_gpus_is_given_by_the_option_that_the_program_declares() {
    let frame = "  File \"train.py\", line 9, in <module>\n    loss.backward()\n";
    for help in ["effective batch size over all GPUs", "total batch size"] {
        let program = format!(
            "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument(\"--batch_size\", type=int, default=64, help=\"{help}\")\np.add_argument(\"--lr\", type=float, default=1e-3)\na = p.parse_args()\n"
        );
        let script = "#SBATCH --gres=gpu:1\npython train.py --lr 1e-4";
        let done = fixed(script, &ran_out(frame), &[("train.py", &program)]);
        done.says(&["+python train.py --lr 1e-4 --batch_size 32"]);
        assert!(!done.out.contains("--global_batch_size"), "{}", done.out);
    }
}

const ENGINE: &str = "(run pid=23) ERROR 12-08 07:41:20 [core.py:634] Traceback (most recent call last):\n(run pid=23) ERROR 12-08 07:41:20 [core.py:634]   File \"/opt/lib/python3.12/site-packages/vllm/v1/engine/core.py\", line 625, in run_engine_core\n(run pid=23) ERROR 12-08 07:41:20 [core.py:634]     engine_core.run_busy_loop()\n(run pid=23) ERROR 12-08 07:41:20 [core.py:634]   File \"/opt/lib/python3.12/site-packages/vllm/lora/layers.py\", line 405, in apply\n(run pid=23) ERROR 12-08 07:41:20 [core.py:634] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 641.12 MiB is free. Including non-PyTorch memory, this process has 78.47 GiB memory in use. Of the allocated memory 75.19 GiB is allocated by PyTorch, and 1.38 GiB is reserved by PyTorch but unallocated.\n";

#[test]
fn a_rollout_engine_that_runs_out_does_not_cost_a_training_batch() {
    for (given, share, less) in [
        (
            "--train_batch_size 32",
            "--vllm_gpu_memory_utilization 0.7",
            "--vllm_gpu_memory_utilization 0.5",
        ),
        (
            "train.batch_size=32",
            "actor.rollout.gpu_memory_utilization=0.7",
            "actor.rollout.gpu_memory_utilization=0.5",
        ),
    ] {
        let script = format!("#SBATCH --gres=gpu:4\npython my_rl.py {given} {share}");
        let new = format!("+python my_rl.py {given} {less}");
        fixed(&script, ENGINE, &[]).says(&[new.as_str()]);
        // Without a share on the line nothing of the training answers it.
        let bare = format!("#SBATCH --gres=gpu:4\npython my_rl.py {given}");
        let done = job(&bare, ENGINE, &[]).run("fix job.log job.sh");
        assert!(!done.out.contains("+python"), "{}", done.out);
    }
}
