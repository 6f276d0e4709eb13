//! Engines without room for their cache, evaluations, an old allocator, and output that goes elsewhere.

use super::fixing::fixed;

/// A message of `requested` GiB, of today's form, whose process holds `held` GiB beside others.
fn out_of_memory(
    frames: &[(&str, &str)],
    requested: &str,
    others: &str,
    allocated: &str,
) -> String {
    let frames: String = frames
        .iter()
        .map(|(file, function)| format!("  File \"/opt/venv/{file}\", line 40, in {function}\n"))
        .collect();
    format!(
        "Traceback (most recent call last):\n{frames}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested} GiB. GPU 0 has a total \
         capacity of 79.33 GiB of which 1.12 GiB is free. {others}Including non-PyTorch memory, this process has {allocated} GiB memory in use. \
         Of the allocated memory {allocated} GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated.\n"
    )
}

/// An engine that is started takes its share wherever it lies, and its cache has room by no other means.
#[test]
fn an_engine_that_finds_no_room_for_its_cache_gets_a_smaller_share() {
    let frames = [
        ("openrlhf/trainer/ray/vllm_engine.py", "__init__"),
        ("vllm/engine/llm_engine.py", "_initialize_kv_caches"),
        ("vllm/worker/cache_engine.py", "_allocate_kv_cache"),
    ];
    let log = out_of_memory(
        &frames,
        "1.71",
        "Process 22510 has 71.53 GiB memory in use. ",
        "6.10",
    );
    let said = fixed(
        "python3 -m openrlhf.cli.train_ppo_ray --pretrain m --vllm_num_engines 2 --micro_train_batch_size 8 --generate_max_len 1024",
        &log,
        &[],
    );
    said.says(&["--vllm_gpu_memory_utilization", "0.95 -> 0.75"]);
    assert!(!said.out.contains("1024 -> 512"), "{}", said.told());
}

/// Another process holds as much as the engine's share while the actor is updated: it did not sleep, and batches are not its fault.
#[test]
fn an_engine_that_did_not_sleep_gets_a_smaller_share_and_no_forecast() {
    let frames = [
        ("verl/workers/fsdp_workers.py", "update_actor"),
        ("verl/workers/actor/dp_actor.py", "update_policy"),
        ("torch/autograd/graph.py", "_engine_run_backward"),
    ];
    let own = out_of_memory(
        &frames,
        "3.48",
        "Process 512210 has 48.31 GiB memory in use. ",
        "28.10",
    );
    let log = format!("(TaskRunner pid=508648) 'actor_rollout_ref.rollout.name': 'sglang'\n{own}");
    let line = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 actor_rollout_ref.rollout.name=sglang \
                actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
                actor_rollout_ref.rollout.gpu_memory_utilization=0.6 trainer.n_gpus_per_node=8 trainer.nnodes=1";
    let said = fixed(line, &log, &[]);
    said.says(&["did not sleep", "gpu_memory_utilization", "0.6 -> 0.4"]);
    assert!(
        !said.out.contains("8 -> 4") && !said.out.contains("fits"),
        "{}",
        said.told()
    );
}

/// A server by itself, and a program that fills the engine's class; the log's own line names the version.
#[test]
fn an_engine_by_itself_gets_what_its_phase_wants() {
    let start = "INFO 05-01 10:00:20 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='a/b'\n";
    let program = "from vllm import LLM, SamplingParams\nllm = LLM(model='a/b', gpu_memory_utilization=0.95, max_num_seqs=64)\n\
                   print(llm.generate(['x'], SamplingParams(max_tokens=8)))\n";
    let vllm = |frame: &[(&str, &str)], program: &str| {
        let log = format!("{start}{}", out_of_memory(frame, "2.00", "", "70.00"));
        fixed("python gen.py", &log, &[("gen.py", program)])
    };
    let cache = [("vllm/worker/cache_engine.py", "_allocate_kv_cache")];
    let said = vllm(&cache, program);
    said.says(&[
        "vLLM 0.8.5",
        "gpu_memory_utilization  0.95 -> 0.9",
        "gen.py:2",
    ]);
    // The share has no part in the forward that vLLM tries first.
    let trial = [
        ("vllm/v1/worker/gpu_worker.py", "determine_available_memory"),
        ("vllm/v1/worker/gpu_model_runner.py", "profile_run"),
        ("vllm/model_executor/models/qwen2.py", "forward"),
    ];
    let said = vllm(&trial, program);
    said.says(&[
        "max_num_seqs",
        "64 -> 32",
        "max_num_batched_tokens",
        "unset -> 2048",
    ]);
    assert!(!said.out.contains("0.95 -> 0.9"), "{}", said.told());
    // A program that trains beside it has other memory than the engine's.
    let trains = format!("{program}loss.backward()\n");
    let said = vllm(&cache, &trains);
    assert!(!said.out.contains("0.95 -> 0.9"), "{}", said.told());
    let prefill = [
        ("sglang/srt/managers/scheduler.py", "run_batch"),
        ("sglang/srt/layers/logits_processor.py", "forward"),
    ];
    let prefill = out_of_memory(&prefill, "6.66", "", "72.81");
    let begun = "Prefill batch. #new-seq: 17, #new-token: 13938, #cached-token: 3260\n";
    for (words, change) in [
        ("", "unset -> 0.8"),
        ("--mem-fraction-static 0.85", "0.85 -> 0.8"),
    ] {
        let line = format!("python3 -m sglang.launch_server --model-path a/b {words}");
        let said = fixed(&line, &format!("{begun}{prefill}"), &[]);
        said.says(&["--mem-fraction-static", change, "same"]);
    }
}

/// Axolotl evaluates with the micro batch of training, unless its file says otherwise.
#[test]
fn an_evaluation_of_axolotl_gets_a_batch_of_its_own_and_training_keeps_its_length() {
    let frames = [
        ("axolotl/cli/train.py", "do_train"),
        ("transformers/trainer.py", "evaluation_loop"),
        ("transformers/loss/loss_utils.py", "ForCausalLMLoss"),
    ];
    let log = out_of_memory(&frames, "15.66", "", "75.20");
    let settings = |batch: u32| {
        format!(
            "base_model: m\nsequence_len: 4096\nmicro_batch_size: {batch}\ngradient_accumulation_steps: 8\nval_set_size: 0.05\n"
        )
    };
    let said = |batch| {
        let settings = settings(batch);
        fixed(
            "accelerate launch -m axolotl.cli.train cfg.yml",
            &log,
            &[("cfg.yml", &settings)],
        )
    };
    said(4).says(&["eval_batch_size", "4 -> 1", "same"]);
    let one = said(1);
    one.says(&["training would get shorter sequences"]);
    assert!(!one.out.contains("4096 -> 2048"), "{}", one.told());
}

/// PyTorch 2.0 and older know no expandable segments, and end at the first CUDA call where they are asked for.
#[test]
fn an_old_allocator_gets_what_it_knows_and_a_smaller_batch_beside_it() {
    let log = "Traceback (most recent call last):\n  File \"/opt/venv/transformers/models/mistral/modeling_mistral.py\", line 191, in forward\n\
               torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB (GPU 0; 39.56 GiB total capacity; 37.11 GiB already allocated; \
               601.06 MiB free; 38.42 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.\n";
    let program = "from transformers import Trainer, TrainingArguments, HfArgumentParser\nargs = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n\
                   Trainer(args=args).train()\n";
    let said = fixed(
        "python train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --output_dir o",
        log,
        &[("train.py", program)],
    );
    said.says(&[
        "max_split_size_mb:512",
        "--per_device_train_batch_size",
        "8 -> 4",
    ]);
    assert!(
        !said.out.contains("expandable_segments:True"),
        "{}",
        said.told()
    );
}

/// The program's output is in a file that the script or srun names, and the job's own log has none of it.
#[test]
fn what_the_program_printed_elsewhere_is_read_too() {
    let log = out_of_memory(
        &[("torch/nn/modules/linear.py", "forward")],
        "4.00",
        "",
        "70.00",
    );
    let program = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\nargs = p.parse_args()\n";
    for line in [
        "python train.py --batch-size 64 > out.log 2>&1",
        "srun --ntasks=1 -l --output out.log python train.py --batch-size 64",
        "srun --output=/dev/null --error=out.log python train.py --batch-size 64",
    ] {
        let own = "srun: error: n1: task 0: Exited with exit code 1\n";
        let said = fixed(line, own, &[("train.py", program), ("out.log", &log)]);
        said.says(&["also read: ", "out.log", "ran out of memory", "64 -> 32"]);
    }
}
