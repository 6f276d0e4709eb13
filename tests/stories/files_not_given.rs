//! Files of a job that nobody gave, launchers that are told their GPUs, and failures whose place tells what helps: all in
//! the formats that frameworks print and read.

use super::fixing;
use super::place::{Done, Place};

/// A failure for memory, below some frames of a traceback.
fn failure(frames: &[&str]) -> String {
    let frames: Vec<String> = frames
        .iter()
        .map(|frame| format!("  File \"/opt/venv/lib/python3.11/site-packages/{frame}\n"))
        .collect();
    format!(
        "Traceback (most recent call last):\n{}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a \
         total capacity of 79.15 GiB of which 1.00 GiB is free.\n",
        frames.concat()
    )
}

/// What `fix` says of a script and a log.
fn fixed(script: &str, log: &str) -> Done {
    fixing::fixed(script, log, &[])
}

const STEP: &str = "torch/optim/adamw.py\", line 190, in _init_group";
const TRAIN: &str = "torch/nn/modules/linear.py\", line 125, in forward";

/// The rule of its batches has four knobs that the unread file may give; it holds for each value of them, or held for none.
#[test]
fn a_batch_is_halved_where_the_rule_holds_for_whatever_is_not_known() {
    let script = "uv run python examples/run_grpo_math.py --config examples/configs/own.yaml policy.train_global_batch_size=512 \
        policy.train_micro_batch_size=4 policy.logprob_batch_size=4 policy.max_total_sequence_length=4096 cluster.gpus_per_node=8";
    let frame = "nemo_rl/models/policy/dtensor_policy_worker.py\", line 610, in train";
    let said = fixed(script, &failure(&[frame, TRAIN]));
    said.says(&["halve-micro-batches", "train_micro_batch_size  4 -> 2"]);
    // Where the file may give all the others, too: more combinations than can be asked, so some of each are.
    let script = "uv run examples/run_sft.py --config=examples/configs/own.yaml policy.train_micro_batch_size=8 cluster.num_nodes=1";
    let frame = "nemo_rl/models/policy/dtensor_policy_worker.py\", line 560, in train";
    fixed(script, &failure(&[frame, TRAIN])).says(&["train_micro_batch_size  8 -> 4"]);
}

#[test]
fn a_file_of_accelerate_that_was_not_given_hides_no_flag_of_the_program() {
    let script = "accelerate launch --config_file zero3.yaml grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --use_vllm True \
        --vllm_mode colocate --vllm_gpu_memory_utilization 0.8 --per_device_train_batch_size 2 --num_generations 8 \
        --max_completion_length 1024";
    let frames = [
        "trl/trainer/grpo_trainer.py\", line 690, in __init__",
        "vllm/v1/engine/core.py\", line 184, in _initialize_kv_caches",
    ];
    fixed(script, &failure(&frames)).says(&["vllm_gpu_memory_utilization  0.8 -> 0.6"]);
}

#[test]
fn a_file_of_data_that_an_option_names_hides_no_flag() {
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path m --data_path ./alpaca.json --per_device_train_batch_size 4 \
        --per_device_eval_batch_size 4 --gradient_accumulation_steps 8 --save_strategy no";
    fixed(script, &failure(&[TRAIN])).says(&["per_device_train_batch_size  4 -> 2"]);
}

/// LLaMA-Factory and Axolotl come with files for DeepSpeed, of which a job names one; others of them shard and offload more.
#[test]
fn a_file_that_comes_with_the_framework_gives_way_to_the_next_of_them() {
    let factory = |file: &str| {
        format!(
            "cat > own.yaml <<'EOF'\nmodel_name_or_path: m\nstage: sft\nfinetuning_type: full\ndeepspeed: examples/deepspeed/{file}\n\
             per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nEOF\nexport NPROC_PER_NODE=8\nllamafactory-cli train own.yaml"
        )
    };
    let log = failure(&[STEP]);
    let next = "examples/deepspeed/ds_z2_config.json -> examples/deepspeed/ds_z3_config.json";
    fixed(&factory("ds_z2_config.json"), &log).says(&["next-deepspeed-file", next]);
    let offloading =
        "examples/deepspeed/ds_z3_config.json -> examples/deepspeed/ds_z3_offload_config.json";
    fixed(&factory("ds_z3_config.json"), &log).says(&["offloading-deepspeed-file", offloading]);
    let axolotl = "cat > own.yaml <<'EOF'\nbase_model: m\nsequence_len: 4096\nsample_packing: true\nmicro_batch_size: 1\n\
        gradient_accumulation_steps: 2\ngradient_checkpointing: true\ndeepspeed: deepspeed_configs/zero3_bf16.json\nEOF\n\
        accelerate launch --num_processes 8 -m axolotl.cli.train own.yaml";
    fixed(axolotl, &log).says(&["-> deepspeed_configs/zero3_bf16_cpuoffload_params.json"]);
}

#[test]
fn the_gpus_that_deepspeeds_launcher_is_told_to_take_count() {
    let script = |gpus: &str| {
        format!(
            "cat > ds.json <<'EOF'\n{{\"train_micro_batch_size_per_gpu\": \"auto\", \"zero_optimization\": {{\"stage\": 2}}}}\nEOF\n\
             deepspeed --include localhost:{gpus} src/train.py --stage sft --finetuning_type full --model_name_or_path m \
             --per_device_train_batch_size 1 --cutoff_len 1024 --deepspeed ds.json --bf16"
        )
    };
    let log = failure(&["deepspeed/runtime/zero/stage_1_and_2.py\", line 523, in __init__"]);
    fixed(&script("4,5,6,7"), &log).says(&["shard-more", "zero_optimization.stage  2 -> 3"]);
    // The buckets of its reduction are free again when the optimizer steps.
    let buckets =
        script("4,5,6,7").replace("\"stage\": 2", "\"stage\": 2, \"reduce_bucket_size\": 5e8");
    let steps = failure(&[
        "deepspeed/runtime/zero/stage_1_and_2.py\", line 1778, in step",
        STEP,
    ]);
    fixed(&buckets, &steps).says(&["shard-more", "zero_optimization.stage  2 -> 3"]);
    let one = fixed(&script("4"), &log);
    assert!(
        !one.out.contains("zero_optimization.stage  2 -> 3"),
        "{}",
        one.out
    );
}

/// DeepSpeed divides the batch by the accumulation and the GPUs where its file has no micro batch.
#[test]
fn a_micro_batch_that_follows_is_halved_by_the_accumulation() {
    let script = |batch: u32| {
        format!(
            "cat > ds.json <<'EOF'\n{{\"train_batch_size\": {batch}, \"gradient_accumulation_steps\": 1, \"zero_optimization\": {{\"stage\": 3}}}}\nEOF\n\
             deepspeed --num_gpus 4 train.py --batch_size 8 --deepspeed_config ds.json"
        )
    };
    let log = failure(&["train.py\", line 9, in main"]);
    fixed(&script(8), &log).says(&["gradient_accumulation_steps  1 -> 2"]);
    let one = fixed(&script(4), &log);
    assert!(
        !one.out.contains("gradient_accumulation_steps  1 -> 2"),
        "{}",
        one.out
    );
}

/// `nested_concat` adds the outputs of a batch to those before; a forward that does not fit is one of its own.
#[test]
fn outputs_of_an_evaluation_that_pile_up_go_to_the_host() {
    let script = "torchrun --nproc_per_node 2 run_clm.py --per_device_train_batch_size 8 --per_device_eval_batch_size 16 --do_eval";
    let loops = "transformers/trainer.py\", line 4531, in evaluation_loop";
    let piles = "transformers/trainer_pt_utils.py\", line 99, in torch_pad_and_concatenate";
    fixed(script, &failure(&[loops, piles])).says(&[
        "eval_accumulation_steps  unset -> 1",
        "the outputs of all batches together fill the GPU",
    ]);
    fixed(script, &failure(&[loops, TRAIN])).says(&["per_device_eval_batch_size  16 -> 8"]);
}

/// A preset knows nothing of what is older than its oldest version; its newest knows options that were not there yet.
#[test]
fn of_an_older_version_the_oldest_that_is_known_is_assumed() {
    let script = "python examples/scripts/sft.py --model_name_or_path m --per_device_train_batch_size 1 --output_dir out";
    let log = format!("trl==0.7.2\n{}", failure(&[TRAIN]));
    let said = fixed(script, &log);
    said.says(&[
        "TRL 0.7.2",
        "assuming 0.14.0",
        "gradient_checkpointing  false -> true",
    ]);
}

#[test]
fn the_version_that_ms_swift_prints_names_its_bug() {
    let script = "export NPROC_PER_NODE=8\nswift rlhf --rlhf_type grpo --model m --deepspeed zero3 --use_vllm true --vllm_mode colocate \
        --vllm_gpu_memory_utilization 0.5 --per_device_train_batch_size 1 --num_generations 8";
    let frames = [
        "swift/trainers/rlhf_trainer/rollout_mixin.py\", line 590, in _move_model_to_vllm",
        "swift/trainers/rlhf_trainer/rollout_mixin.py\", line 647, in _move_full_model_to_vllm",
        "deepspeed/runtime/zero/partition_parameters.py\", line 2225, in __enter__",
    ];
    let log = |version| {
        format!(
            "[INFO:swift] swift.__version__: {version}\n{}",
            failure(&frames)
        )
    };
    fixed(script, &log("3.12.2")).says(&[
        "ms-swift-whole-gather",
        "ms-swift 3.12.2, as job.log:1 says",
    ]);
    let later = fixed(script, &log("3.12.6"));
    assert!(
        !later.out.contains("ms-swift-whole-gather"),
        "{}",
        later.out
    );
}

/// vLLM keeps its weights in host memory while it sleeps (level 1).
#[test]
fn where_host_memory_lacks_the_engine_sleeps_no_more() {
    let script = "python -m openrlhf.cli.train_ppo_ray --actor_num_nodes 2 --actor_num_gpus_per_node 8 --vllm_num_engines 16 \
        --colocate_all_models --vllm_enable_sleep --vllm_gpu_memory_utilization 0.5 --pretrain m --micro_train_batch_size 2";
    let log = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n\
        Memory on the node (IP: 192.0.2.7, ID: 87d7) where the task (actor ID: 3540, name=LLMRayActor.__init__, pid=8805, memory \
        used=31.35GB) was running was 486.59GB / 512.00GB (0.950371), which exceeds the memory usage threshold of 0.95.\n";
    fixed(script, log).says(&["engine-stays-awake", "--vllm_enable_sleep  true -> false"]);
}

/// Ray prints the memory that it sees: where that is more than the job asks for, it is all that the node has.
#[test]
fn more_than_a_node_has_is_not_asked_for() {
    let script = |mem| {
        format!(
            "#SBATCH --mem={mem}\npython -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 \
            --vllm_num_engines 4 --adam_offload --pretrain m --micro_train_batch_size 2"
        )
    };
    let log = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n\
        Memory on the node (IP: 192.0.2.7, ID: 87d7) where the task (actor ID: 3540, name=ActorModelRayActor.__init__, pid=8805, \
        memory used=31.35GB) was running was 478.40GB / 503.50GB (0.950149), which exceeds the memory usage threshold of 0.95.\n";
    fixed(&script("480G"), log).says(&["undo-offload", "--adam_offload  true -> false"]);
    fixed(&script("300G"), log).says(&["more-host-memory", "300G -> 489804M"]);
    // As much as the job asks for is its cgroup, perhaps.
    fixed(&script("503G"), &log.replace("503.50", "503.00")).says(&["more-host-memory"]);
}

/// `cudaHostAlloc` fails with the message of `cudaMalloc`; what it lacks is host memory that can be locked.
#[test]
fn where_host_memory_cannot_be_locked_it_is_not() {
    let script = "cat > ds.json <<'EOF'\n{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": {\"stage\": 2, \
        \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}}}\nEOF\ndeepspeed --num_gpus 2 train.py --deepspeed_config ds.json";
    let log = "Traceback (most recent call last):\n  File \"/opt/venv/lib/python3.11/site-packages/deepspeed/accelerator/cuda_accelerator.py\", \
        line 330, in pin_memory\n    return tensor.pin_memory()\nRuntimeError: CUDA error: out of memory\n";
    fixed(script, log).says(&[
        "host memory ran out",
        "unpinned",
        "zero_optimization.offload_optimizer.pin_memory  true -> false",
    ]);
}

/// verl's reference policy takes the actor's budget where it has none of its own.
#[test]
fn a_budget_that_follows_another_gets_a_value_of_its_own() {
    let script = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae data.train_batch_size=256 data.max_prompt_length=1024 \
        data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.actor.use_dynamic_bsz=True \
        actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768 \
        actor_rollout_ref.rollout.name=vllm critic.model.path=Qwen/Qwen2.5-7B-Instruct critic.ppo_max_token_len_per_gpu=32768 \
        trainer.n_gpus_per_node=8 trainer.nnodes=1";
    let frame = "verl/workers/fsdp_workers.py\", line 1004, in compute_ref_log_prob";
    fixed(script, &failure(&[frame, TRAIN])).says(&[
        "ref.log_prob_max_token_len_per_gpu  32768 -> 16384",
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu=16384",
    ]);
}

/// Megatron's loss holds logits that tensor parallelism splits by the vocabulary.
#[test]
fn megatron_in_nemo_rl_shares_matrices_before_sequences_are_cut() {
    let script = "uv run examples/run_grpo.py --config own.yaml policy.max_total_sequence_length=8192 policy.train_micro_batch_size=1 \
        policy.logprob_batch_size=1 policy.megatron_cfg.enabled=true policy.megatron_cfg.tensor_model_parallel_size=2 \
        policy.megatron_cfg.sequence_parallel=true policy.megatron_cfg.activation_checkpointing=true cluster.gpus_per_node=8";
    let frame = "nemo_rl/models/policy/workers/megatron_policy_worker.py\", line 411, in train";
    fixed(script, &failure(&[frame, TRAIN])).says(&[
        "split-matrices",
        "policy.megatron_cfg.tensor_model_parallel_size  2 -> 4",
    ]);
}

#[test]
fn host_memory_of_verl_grows_in_the_unit_of_the_script() {
    let script = "#SBATCH --mem=250G\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \
        data.max_prompt_length=1024 data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct \
        actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=2";
    let log = "slurmstepd: error: Detected 1 oom_kill event in StepId=88.batch. Some of the step tasks have been OOM Killed.\n";
    let said = fixed(script, log);
    said.says(&["mem   250G -> 500G", "+#SBATCH --mem=500G"]);
    assert!(!said.out.contains("changes training"), "{}", said.out);
}

#[test]
fn host_memory_of_a_script_with_usual_flags_grows_as_it_was_asked_for() {
    let script = "#SBATCH --cpus-per-task=2\n#SBATCH --mem-per-cpu=4G\npython train.py --batch_size 16 --num_workers 4";
    let log = "RuntimeError: DataLoader worker (pid 20155) is killed by signal: Killed. \n\
        slurmstepd: error: Detected 1 oom_kill event in StepId=88.batch. Some of the step tasks have been OOM Killed.\n";
    fixed(script, log).says(&["more-host-memory", "+#SBATCH --mem-per-cpu=8G"]);
}

/// What no knob of the job does, somebody has to: the options of a container, the way in which the program is started.
#[test]
fn what_no_rung_does_is_said() {
    let shm = "RuntimeError: DataLoader worker (pid 37) is killed by signal: Bus error. It is possible that dataloader's workers are \
        out of shared memory. Please try to raise your shared memory limit.\n";
    fixed("docker run --rm image python tools/train.py config.py", shm)
        .says(&["helps      a larger /dev/shm"]);
    let script = "python src/train.py --stage sft --finetuning_type lora --cutoff_len 1024 --model_name_or_path m --per_device_train_batch_size 1";
    let replicas = "torch/nn/parallel/data_parallel.py\", line 184, in forward";
    fixed(script, &failure(&[replicas]))
        .says(&["torchrun --nproc_per_node or accelerate launch in place of python"]);
}

/// accelerate's plugin for FSDP loads the model in one process and gathers a checkpoint on one GPU, as its file says.
#[test]
fn weights_are_loaded_once_and_checkpoints_written_in_parts() {
    let script = |state: &str| {
        format!(
            "cat > fsdp.yaml <<'EOF'\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_state_dict_type: {state}\n  \
             fsdp_cpu_ram_efficient_loading: false\n  fsdp_sync_module_states: false\nnum_processes: 8\nEOF\n\
             #SBATCH --mem=100G\naccelerate launch --config_file fsdp.yaml train.py --model_name_or_path m --per_device_train_batch_size 1"
        )
    };
    let killed = "Loading checkpoint shards:  25%|██▌       | 1/4 [00:12<00:38, 12.81s/it]\nslurmstepd: error: Detected 1 oom_kill \
        event in StepId=88.batch. Some of the step tasks have been OOM Killed.\n";
    fixed(&script("FULL_STATE_DICT"), killed).says(&[
        "load-once",
        "fsdp_cpu_ram_efficient_loading  false -> true",
        "fsdp_sync_module_states         false -> true",
    ]);
    let gathers =
        "torch/distributed/fsdp/_state_dict_utils.py\", line 312, in _full_pre_state_dict_hook";
    let log = failure(&[
        "transformers/trainer.py\", line 3200, in save_model",
        gathers,
    ]);
    fixed(&script("FULL_STATE_DICT"), &log)
        .says(&["fsdp_state_dict_type  FULL_STATE_DICT -> SHARDED_STATE_DICT"]);
    let parts = fixed(&script("SHARDED_STATE_DICT"), &log);
    assert!(
        !parts.out.contains("\n  checkpoint-in-parts"),
        "{}",
        parts.out
    );
}

/// Where little lies idle, the batch goes with the allocator's setting, also of a stack without a memory model.
#[test]
fn what_brings_back_little_is_not_tried_alone() {
    let script = "#SBATCH --mem=64G\ntrl sft --model_name_or_path m --bf16 --gradient_checkpointing true --per_device_train_batch_size 4 --gradient_accumulation_steps 1";
    let log = |allocated: &str, idle: &str| {
        format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 416.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 295.19 MiB is \
             free. Including non-PyTorch memory, this process has 78.80 GiB memory in use. Of the allocated memory {allocated} GiB is allocated by \
             PyTorch, and {idle} GiB is reserved by PyTorch but unallocated.\n"
        )
    };
    let both = [
        "unset -> expandable_segments:True",
        "per_device_train_batch_size  4 -> 2",
    ];
    fixing::fixed(script, &log("75.12", "3.06"), &[]).says(&both);
    let much = fixing::fixed(script, &log("63.12", "15.06"), &[]);
    assert!(!much.out.contains(both[1]), "{}", much.told());
    much.says(&both[..1]);
}

/// A batch of all GPUs that the script computes from them does not grow with them.
#[test]
fn a_batch_that_is_computed_from_the_gpus_stays_where_more_are_asked_for() {
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:h100:4\n#SBATCH --nodes=1\nNGPU=$SLURM_GPUS_ON_NODE\npython -m verl.trainer.main_ppo \\\n  \
        algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.rollout.name=vllm \\\n  \
        trainer.n_gpus_per_node=$NGPU trainer.nnodes=1 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 \\\n  \
        data.train_batch_size=$((32 * NGPU)) \\\n  actor_rollout_ref.actor.ppo_mini_batch_size=128\n";
    let place = Place::bare();
    place.write("job.sh", script);
    place.write("oomctl.yaml", "cluster: example-h100\n");
    let plan = place.run("plan --all --same-math job.sh").ends(0);
    let (_, more) = plan.out.split_once("+#SBATCH --gres=gpu:h100:8").unwrap();
    assert!(
        more.contains("+  data.train_batch_size=128"),
        "{}",
        plan.told()
    );
}
