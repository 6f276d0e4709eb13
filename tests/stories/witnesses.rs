//! What a log itself shows of a failure, and what follows from it: logs in the formats that frameworks print.

use super::fixing::fixed;
use super::place::{Done, Place};

/// What `diagnose` says of a log by itself.
fn diagnosed(log: &str) -> Done {
    let place = Place::bare();
    place.write("job.log", log);
    place.run(&["diagnose", "job.log"]).ends(0)
}

/// PyTorch's message of a trainer beside whose process another one holds memory.
const BESIDE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 79.11 GiB of \
    which 4.00 GiB is free. Including non-PyTorch memory, this process has 41.00 GiB memory in use. Process 70012 has 34.00 GiB memory in \
    use. Of the allocated memory 36.00 GiB is allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated.\n";

/// Ray's actors share GPUs: a log that ends before Ray's own error shows them by who prints.
#[test]
fn another_process_beside_an_actor_of_ray_may_be_the_jobs_own() {
    for printer in [
        "(DTensorPolicyWorker pid=70433) ",
        "(MegatronPolicyWorker[rank=8] pid=70433, ip=10.0.0.4) ",
    ] {
        let said = diagnosed(&format!("{printer}{BESIDE}"));
        said.says(&["perhaps of this job too, its inference engine or its trainer"]);
        assert!(
            !said.told().contains("use another GPU or node"),
            "{}",
            said.told()
        );
    }
    diagnosed(BESIDE).says(&["use another GPU or node: another process holds 34.00 GiB"]);
}

/// A preset whose engine shares the GPUs says it where the log does not.
#[test]
fn another_process_beside_a_trainer_with_its_engine_may_be_the_engine() {
    let script = |mode: &str| {
        format!(
            "#SBATCH --mem=64G\naccelerate launch --num_processes 8 own_grpo.py --use_vllm true --vllm_mode {mode} --num_generations 8 \
             --vllm_gpu_memory_utilization 0.5 --per_device_train_batch_size 8 --max_completion_length 1024"
        )
    };
    let said = fixed(&script("colocate"), BESIDE, &[]);
    said.says(&["per_device_train_batch_size  8 -> 4"]);
    assert!(
        !said.told().contains("Other processes held the memory"),
        "{}",
        said.told()
    );
    fixed(&script("server"), BESIDE, &[]).says(&["Other processes held the memory"]);
}

/// What vLLM 0.8 and later say of a cache that is too small.
fn too_small(wanted: u32, needed: f64, held: u32, available: f64) -> String {
    format!(
        "(EngineCore_DP0 pid=1094) ValueError: To serve at least one request with the models's max seq len ({wanted}), ({needed} GiB KV cache \
         is needed, which is larger than the available KV cache memory ({available} GiB). Based on the available memory, the estimated maximum \
         model length is {held}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
    )
}

/// A share of the GPU that cannot hold one sequence is not tried: the engine is spread over more GPUs, or serves shorter ones.
#[test]
fn a_cache_that_lacks_more_than_a_share_can_give_leads_to_more_gpus_or_to_the_length_that_fits() {
    let script = |gpus: u32| {
        format!("#SBATCH --gres=gpu:{gpus}\nvllm serve own/model --gpu-memory-utilization 0.9")
    };
    let far = too_small(131_072, 24.0, 20_000, 3.66);
    let said = fixed(&script(1), &far, &[]);
    said.says(&[
        "--max-model-len  unset -> 19600  job.sh:added  changes",
        "longer requests are refused",
        "larger-share: one sequence of 131072 tokens needs gpu_memory_utilization of more than 0.99 by the log's figures, and 0.95 is the most",
    ]);
    fixed(&script(2), &far, &[]).says(&["--tensor-parallel-size  1 -> 2"]);
    // Of a GPU of unknown size little is proven.
    fixed(&script(1), &too_small(40_960, 5.0, 32_000, 3.9), &[])
        .says(&["--gpu-memory-utilization  0.9 -> 0.95"]);
}

/// Until 0.8 the swap blocks tell how large a block is: 4 GiB of host memory a GPU, if nothing else is given.
#[test]
fn the_blocks_in_host_memory_tell_what_a_longer_sequence_needs() {
    let log = "INFO 04-11 09:12:20 gpu_executor.py:94] # GPU blocks: 500, # CPU blocks: 512\n\
        ValueError: The model's max seq len (65536) is larger than the maximum number of tokens that can be stored in KV cache (8000). Try \
        increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n";
    let script =
        "#SBATCH --gres=gpu:1\npython -m vllm.entrypoints.openai.api_server --model own/model";
    fixed(script, log, &[]).says(&["--max-model-len  unset -> 7840"]);
    let small = format!("{script} --swap-space 1");
    fixed(&small, log, &[]).says(&["--gpu-memory-utilization  0.9 -> 0.95"]);
}

/// Less of the GPU for the engine, but not less than holds one sequence.
#[test]
fn a_smaller_share_still_holds_one_sequence() {
    let log = |times: &str| {
        format!(
            "(EngineCore pid=2143) INFO 09-18 11:02:41 [gpu_worker.py:642] Available KV cache memory: 4.00 GiB\n\
             (EngineCore pid=2143) INFO 09-18 11:02:41 [kv_cache_utils.py:1631] GPU KV cache size: 150,000 tokens\n\
             (EngineCore pid=2143) INFO 09-18 11:02:41 [kv_cache_utils.py:1636] Maximum concurrency for 120,000 tokens per request: {times}x\n\
             (EngineCore pid=2143)   File \"/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py\", line 6981, in capture_model\n\
             (EngineCore pid=2143) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of \
             40.00 GiB of which 120.88 MiB is free.\n"
        )
    };
    let script = "#SBATCH --gres=gpu:1\nvllm serve own/model --gpu-memory-utilization 0.98 --max-model-len 120000 --max-num-seqs 1";
    fixed(script, &log("1.25"), &[]).says(&["--gpu-memory-utilization  0.98 -> 0.97"]);
    fixed(script, &log("8.00"), &[]).says(&["--gpu-memory-utilization  0.98 -> 0.93"]);
    fixed(script, &log("1.05"), &[]).says(&[
        "smaller-share: with gpu_memory_utilization below 0.98 the KV cache would not hold one sequence of 120000 tokens",
    ]);
}

/// The Trainer's FSDP has its own words, and its own file.
#[test]
fn the_trainers_own_fsdp_is_offloaded_by_its_words_or_its_file() {
    let log = "  File \"/opt/venv/lib/python3.11/site-packages/torch/optim/adamw.py\", line 190, in _init_group\n    \
        state[\"exp_avg_sq\"] = torch.zeros_like(\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total \
        capacity of 79.15 GiB of which 0.50 GiB is free.\n";
    let script = |more: &str| {
        format!(
            "torchrun --nproc_per_node 8 train.py --model_name_or_path m --per_device_train_batch_size 1 --bf16 true {more}"
        )
    };
    fixed(&script("--fsdp 'full_shard auto_wrap'"), log, &[]).says(&[
        "fsdp  full_shard auto_wrap -> full_shard auto_wrap offload",
        "+torchrun",
        "--fsdp 'full_shard auto_wrap offload'",
    ]);
    let own = "{\n  \"transformer_layer_cls_to_wrap\": [\"Qwen2DecoderLayer\"],\n  \"cpu_offload\": false\n}\n";
    let with_file = script("--fsdp 'full_shard auto_wrap' --fsdp_config fsdp.json");
    let said = fixed(&with_file, log, &[("fsdp.json", own)]);
    said.says(&[
        "fsdp_file.cpu_offload  false -> true",
        "+  \"cpu_offload\": true",
    ]);
    assert!(!said.told().contains("fsdp  full_shard"), "{}", said.told());
    // Offloaded already: no 8-bit states for what FSDP shards.
    let said = fixed(&script("--fsdp 'full_shard offload auto_wrap'"), log, &[]);
    said.says(&["eight-bit-adam: with FSDP, bitsandbytes before 0.50 cannot save such states"]);
    let host = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.\n";
    let said = fixed(&script("--fsdp 'full_shard offload auto_wrap'"), host, &[]);
    said.says(&["fsdp  full_shard offload auto_wrap -> full_shard auto_wrap"]);
}

/// A program of one's own is NeMo-RL's by what it calls, and takes its file by itself.
#[test]
fn a_copy_of_nemo_rls_program_is_known_and_so_is_the_file_that_it_takes() {
    let program = "import argparse, os\nfrom nemo_rl.algorithms.grpo import MasterConfig, grpo_train, setup\n\
        parser = argparse.ArgumentParser()\nparser.add_argument(\"--config\", type=str, default=None)\n\
        args, overrides = parser.parse_known_args()\nif not args.config:\n    \
        args.config = os.path.join(os.path.dirname(__file__), \"configs\", \"mine.yaml\")\n";
    let files = [
        ("examples/run_mine.py", program),
        (
            "examples/configs/base.yaml",
            "policy:\n  train_micro_batch_size: 4\n  logprob_batch_size: 4\n  train_global_batch_size: 512\n",
        ),
        (
            "examples/configs/mine.yaml",
            "defaults: base.yaml\ngrpo:\n  num_prompts_per_step: 32\n  num_generations_per_prompt: 16\n\
            policy:\n  logprob_chunk_size: 512\n  dtensor_cfg:\n    enabled: true\n    activation_checkpointing: true\n",
        ),
    ];
    let log = "(DTensorPolicyWorker pid=512417)   File \"/opt/nemo-rl/nemo_rl/models/policy/dtensor_policy_worker.py\", line 588, in train\n\
        (DTensorPolicyWorker pid=512417)     loss.backward()\n(DTensorPolicyWorker pid=512417) torch.OutOfMemoryError: CUDA out of memory. Tried \
        to allocate 6.95 GiB. GPU 0 has a total capacity of 79.11 GiB of which 4.86 GiB is free.\n";
    let script = "uv run python examples/run_mine.py cluster.gpus_per_node=8 cluster.num_nodes=1";
    fixed(script, log, &files).says(&[
        "train_micro_batch_size  4 -> 2",
        "policy.train_micro_batch_size=2",
    ]);
}

/// torch_memory_saver holds the trainer's memory as well: the timer that runs says whose it was.
#[test]
fn an_allocation_below_an_open_timer_belongs_to_what_is_timed() {
    let failed = "(MegatronTrainRayActor pid=24187) [torch_memory_saver.cpp] CUresult error: 2 (out of memory) file=csrc/utils.h func=cu_mem_create line=187\n";
    let timer = |what: &str| {
        format!(
            "(MegatronTrainRayActor pid=24187) [2025-09-05 10:21:33] timer.py:24 - Timer {what}\n"
        )
    };
    for (timers, phase) in [
        (&["train start", "actor_train start"][..], "actor_update"),
        (&["train start", "log_probs start"], "old_logprob"),
        (
            &["actor_train start", "actor_train end (elapsed: 21.0s)"],
            "wake_up",
        ),
        (&["update_weights start"], "wake_up"),
        (&[], "wake_up"),
    ] {
        let timers: Vec<String> = timers.iter().map(|what| timer(what)).collect();
        diagnosed(&format!("{}{failed}", timers.concat())).says(&[&format!("phase      {phase}")]);
    }
}

/// SIGKILL has no sender, but DeepSpeed prints how full the host is.
#[test]
fn a_kill_while_host_memory_fills_is_for_lack_of_it() {
    let used = |percent: &str| {
        format!(
            "[2024-07-01 10:22:05,414] [INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 121.70 GB, percent = {percent}%\n"
        )
    };
    let killed = "[2024-07-01 10:23:26,220] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = -9\n";
    let script = "#SBATCH --mem=100G\ndeepspeed --num_gpus 1 train.py --per_device_train_batch_size 1 --model_name_or_path m";
    let filling = format!("{}{}{killed}", used("23.1"), used("78.3"));
    let said = fixed(script, &filling, &[]);
    said.says(&["After: host memory ran out", "mem   100G -> 200G"]);
    diagnosed(&filling).says(&["host memory had filled from 23.1 % to 78.3 %"]);
    let idle = format!("{}{}{killed}", used("23.1"), used("24.0"));
    fixed(script, &idle, &[]).says(&[
        "After: perhaps host memory ran out",
        "Nothing shows that host memory ran out: `oomctl watch` would end the run here.",
    ]);
    diagnosed(&idle).says(&[
        "perhaps host memory ran out",
        "unclear from the log whether memory ran out",
    ]);
}

/// A log may hold the source line of a frame and not the frame.
#[test]
fn adams_own_arithmetic_tells_its_step() {
    let log = "    denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.14 GiB. GPU 5 has a total capacity of 31.75 GiB of which 1.95 GiB is free.\n";
    diagnosed(log).says(&["in optimizer_step"]);
}
