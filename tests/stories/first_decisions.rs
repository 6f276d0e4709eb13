//! First decisions where one step in the usual order would free nothing, or where the key is missing in the file: logs in the
//! formats that frameworks print.

use super::fixing;
use super::place::{Done, Place};

/// A failure for memory, below frames of a traceback with the source line of each.
fn failure(frames: &[(&str, &str)]) -> String {
    let frames: Vec<String> = frames
        .iter()
        .map(|(frame, source)| {
            format!("  File \"/opt/venv/lib/python3.11/site-packages/{frame}\n    {source}\n")
        })
        .collect();
    format!(
        "Traceback (most recent call last):\n{}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a \
         total capacity of 79.15 GiB of which 1.00 GiB is free.\n",
        frames.concat()
    )
}

/// What `fix` says of a script and a log.
fn fixed(script: &str, log: &str) -> Done {
    fixed_with(script, log, &[])
}

fn fixed_with(script: &str, log: &str, files: &[(&str, &str)]) -> Done {
    fixing::fixed(&format!("#SBATCH --mem=64G\n{script}"), log, files)
}

const LAYER: (&str, &str) = (
    "transformers/models/qwen2/modeling_qwen2.py\", line 46, in forward",
    "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
);
const LOGITS: (&str, &str) = (
    "transformers/models/qwen2/modeling_qwen2.py\", line 840, in forward",
    "logits = self.lm_head(hidden_states[:, slice_indices, :])",
);
const LINEAR: (&str, &str) = (
    "torch/nn/modules/linear.py\", line 125, in forward",
    "return F.linear(input, self.weight, self.bias)",
);

/// One sequence cannot be halved: its logits shrink by another loss, the activations of its layers by recomputing them.
#[test]
fn logits_of_one_sequence_lead_to_the_loss_and_its_layers_do_not() {
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path m --per_device_train_batch_size 1 --block_size 8192 \
        --gradient_accumulation_steps 8 --gradient_checkpointing false --use_liger_kernel false --optim adamw_torch";
    let step = (
        "transformers/trainer.py\", line 3782, in compute_loss",
        "outputs = model(**inputs)",
    );
    fixed(script, &failure(&[step, LOGITS, LINEAR])).says(&["use_liger_kernel  false -> true"]);
    let loss = (
        "transformers/loss/loss_utils.py\", line 36, in fixed_cross_entropy",
        "loss = nn.functional.cross_entropy(",
    );
    fixed(script, &failure(&[step, loss])).says(&["use_liger_kernel  false -> true"]);
    fixed(script, &failure(&[step, LAYER, LINEAR]))
        .says(&["gradient_checkpointing  false -> true"]);
    // Recomputed already: a loss without logits frees nothing in a layer.
    let recomputed = script.replace("checkpointing false", "checkpointing true");
    let done = fixed(&recomputed, &failure(&[step, LAYER, LINEAR]));
    assert!(
        !done.out.contains("use_liger_kernel  false"),
        "{}",
        done.told()
    );
    // Two sequences can be halved.
    let two = script.replace("batch_size 1", "batch_size 2");
    fixed(&two, &failure(&[step, LOGITS, LINEAR])).says(&["per_device_train_batch_size  2 -> 1"]);
}

/// Attention that holds the scores of all pairs of positions needs another attention, not another loss and not shorter sequences.
#[test]
fn attention_scores_lead_to_fused_attention() {
    let scores = (
        "transformers/models/qwen2/modeling_qwen2.py\", line 110, in eager_attention_forward",
        "attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)",
    );
    let log = failure(&[scores]);
    let stacks = [
        (
            "trl sft --model_name_or_path m --max_length 8192 --bf16",
            "--attn_implementation eager",
            "attn_implementation  eager -> sdpa",
        ),
        (
            "trl sft --model_name_or_path m --max_length 8192 --bf16",
            "",
            "attn_implementation  unset -> flash_attention_2",
        ),
        (
            "llamafactory-cli train --model_name_or_path m --stage sft --cutoff_len 8192",
            "--flash_attn disabled",
            "flash_attn  disabled -> sdpa",
        ),
        (
            "llamafactory-cli train --model_name_or_path m --stage sft --cutoff_len 8192",
            "",
            "flash_attn  auto -> fa2",
        ),
        (
            "swift sft --model m --train_type lora --dataset d.json",
            "--attn_impl eager",
            "attn_impl  eager -> sdpa",
        ),
    ];
    for (script, attention, change) in stacks {
        let script = format!(
            "{script} --per_device_train_batch_size 1 --gradient_checkpointing true {attention}"
        );
        let place = fixing::job(&script, &log, &[]);
        for policy in ["ladder", "same-math", "predict"] {
            let fix = place.run(&format!("fix --policy {policy} job.log job.sh"));
            fix.ends(0).says(&[change]);
        }
    }
    // Where attention asked for little, its scores are not what fills the GPU.
    let little = log.replace("Tried to allocate 4.00 GiB", "Tried to allocate 128.00 MiB");
    let two = format!("{} --per_device_train_batch_size 2", stacks[1].0);
    fixed(&two, &little).says(&["per_device_train_batch_size  2 -> 1"]);
    // Another implementation was chosen: nothing says that this one is not fused.
    let chosen = "trl sft --model_name_or_path m --bf16 --per_device_train_batch_size 2 --attn_implementation flex_attention";
    let done = fixed(chosen, &log);
    assert!(!done.out.contains("flex_attention ->"), "{}", done.told());
}

/// A fork has the framework's package, and settings of its own.
#[test]
fn one_key_of_a_fork_does_not_make_it_the_framework() {
    let config =
        "algorithm:\n  adv_estimator: grpo\nworker:\n  actor:\n    global_batch_size: 128\n";
    let script = "#!/bin/bash\n#SBATCH --mem=64G\npython3 -m verl.trainer.lab config=config.yaml\n";
    let place = Place::bare();
    place.write("job.sh", script);
    place.write("config.yaml", config);
    place
        .run("plan job.sh")
        .ends(0)
        .says(&["framework not recognised"]);
    // What a program of its own starts with the keys of the framework is the framework's.
    let own = script.replace(
        "config=config.yaml",
        "algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm",
    );
    place.write("job.sh", &own);
    place.run("plan job.sh").ends(0).says(&["verl-grpo"]);
}

/// What makes images smaller acts in the tower that reads them.
#[test]
fn images_are_made_smaller_where_their_tower_ran_out() {
    let script = "MAX_PIXELS=602112 NPROC_PER_NODE=4 swift sft --model lab/vision --train_type lora --torch_dtype bfloat16 \
        --per_device_train_batch_size 1 --gradient_checkpointing true --dataset d.json";
    let tower = (
        "transformers/models/qwen2_vl/modeling_qwen2_vl.py\", line 404, in forward",
        "attn_output = F.scaled_dot_product_attention(q, k, v, attention_mask, dropout_p=0.0)",
    );
    fixed(script, &failure(&[tower])).says(&["MAX_PIXELS  602112 -> 301056"]);
}

/// A traceback says more of the version than that nobody names one.
#[test]
fn a_frame_that_only_old_releases_have_bounds_the_version() {
    let script = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \
        actor_rollout_ref.model.path=own/model actor_rollout_ref.rollout.name=vllm \
        actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8";
    let frame = |file: &'static str| (file, "self.actor.update_policy(data=data)");
    let of_both = [
        frame("verl/workers/fsdp_workers.py\", line 620, in update_actor"),
        frame("verl/workers/fsdp_workers.py\", line 700, in rollout_mode"),
    ];
    fixed(script, &failure(&of_both[..1])).says(&[
        "verl 0.7.1 or older, as job.log:2 (verl/workers/fsdp_workers.py) shows; assuming 0.7.1",
    ]);
    fixed(script, &failure(&of_both)).says(&["verl 0.6.0 to 0.7.1, as job.log:2"]);
    let newer = frame("verl/workers/engine_workers.py\", line 300, in update_actor");
    fixed(script, &failure(&[newer])).says(&["verl 0.7.0 or newer, as job.log:2"]);
    // Two programs in one log: neither counts.
    fixed(
        script,
        &failure(&[
            of_both[0],
            frame("verl/workers/rollout/llm_server.py\", line 3, in f"),
        ]),
    )
    .says(&["verl version not found; assuming 0.9.1"]);
}

/// Weights and states are back on the GPU while the actor is updated; what is kept of the layers is what grew.
#[test]
fn verl_recomputes_activations_before_it_offloads_what_the_update_needs() {
    let script = |checkpointing: &str| {
        format!(
            "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 data.max_prompt_length=12000 \
             data.max_response_length=2048 actor_rollout_ref.model.path=own/model actor_rollout_ref.rollout.name=vllm \
             actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \
             actor_rollout_ref.model.enable_gradient_checkpointing={checkpointing} \
             actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1 \
             trainer.n_gpus_per_node=8 trainer.nnodes=1"
        )
    };
    let update = (
        "verl/workers/actor/dp_actor.py\", line 446, in update_policy",
        "output = self.actor_module(",
    );
    let log = failure(&[update, LAYER]);
    fixed(&script("False"), &log).says(&["enable_gradient_checkpointing  false -> true"]);
    fixed(&script("True"), &log).says(&["optimizer_offload  false -> true"]);
}

/// DeepSpeed's file says where states are only if they are offloaded.
#[test]
fn states_are_offloaded_by_a_key_that_deepspeeds_file_lacks() {
    let ds = "{\n  \"zero_allow_untested_optimizer\": true,\n  \"zero_optimization\": {\n    \"stage\": 3,\n    \"overlap_comm\": true\n  }\n}\n";
    let step = failure(&[(
        "torch/optim/adamw.py\", line 190, in _init_group",
        "state[\"exp_avg_sq\"] = torch.zeros_like(",
    )]);
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path m --per_device_train_batch_size 1 --deepspeed ds.json";
    let said = fixed_with(script, &step, &[("ds.json", ds)]);
    said.says(&[
        "offload_optimizer  unset -> cpu",
        "+    \"overlap_comm\": true,",
        "+    \"offload_optimizer\": {\"device\": \"cpu\"}",
    ]);
    let yaml = "model_name_or_path: m\nstage: sft\nfinetuning_type: full\ndeepspeed: ds/own.json\nper_device_train_batch_size: 1\n\
        gradient_accumulation_steps: 2\n";
    let said = fixed_with(
        "FORCE_TORCHRUN=1 llamafactory-cli train own.yaml",
        &step,
        &[("own.yaml", yaml), ("ds/own.json", ds)],
    );
    said.says(&[
        "offload_optimizer  unset -> cpu",
        "+    \"offload_optimizer\": {\"device\": \"cpu\"}",
    ]);
}

/// Megatron has packed sequences where one lies on several GPUs, so it may lie on more.
#[test]
fn a_sequence_that_lies_on_two_gpus_is_spread_over_four() {
    let script = "uv run examples/run_sft.py --config=own.yaml ++policy.megatron_cfg.enabled=True \
        ++policy.megatron_cfg.tensor_model_parallel_size=1 ++policy.megatron_cfg.context_parallel_size=2 \
        ++policy.max_total_sequence_length=32768 ++policy.train_micro_batch_size=1 cluster.gpus_per_node=8 cluster.num_nodes=2";
    let train = (
        "nemo_rl/models/policy/megatron_policy_worker.py\", line 990, in train",
        "losses_reduced = forward_backward_func(",
    );
    fixed(script, &failure(&[train, LINEAR]))
        .says(&["policy.megatron_cfg.context_parallel_size  2 -> 4"]);
}

/// After what the host is given, what loads its data takes less of it.
#[test]
fn processes_that_load_data_give_way_where_the_host_has_no_more_memory() {
    let log = "RuntimeError: DataLoader worker (pid 164244) is killed by signal: Killed. \n\
        slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.\n";
    let script = "torchrun --nproc_per_node 8 train.py --model_name_or_path m --per_device_train_batch_size 4 --dataloader_num_workers 8 \
        --dataloader_prefetch_factor 4";
    let place = Place::bare();
    let job = |mem: &str| format!("#!/bin/bash\n{mem}{script}\n");
    place.write("job.log", log);
    place.write("job.sh", &job("#SBATCH --mem=64G\n"));
    place.says("fix job.log job.sh", 0, &["mem   64G -> 128G"]);
    // The whole node's already.
    place.write("job.sh", &job("#SBATCH --mem=0\n"));
    let said = place.run(&["fix", "job.log", "job.sh"]).ends(0);
    said.says(&[
        "dataloader_num_workers      8 -> 4",
        "dataloader_prefetch_factor  4 -> 2",
    ]);
}

/// vLLM by itself: a small step for a small lack, the number that a message names, a larger share where the cache is too small.
#[test]
fn an_engine_by_itself_gets_what_its_failure_names() {
    let serve = "vllm serve own/model --gpu-memory-utilization 0.98 --max-model-len 32000 --max-num-seqs 1 --max-num-batched-tokens 2048";
    let capture = failure(&[(
        "vllm/v1/worker/gpu_model_runner.py\", line 2770, in capture_model",
        "self._capture_cudagraphs(",
    )]);
    fixed(serve, &capture).says(&["smaller-share", "--gpu-memory-utilization  0.98 -> 0.93"]);
    let module = "python3 -m vllm.entrypoints.openai.api_server --model own/model --gpu_memory_utilization 0.9 --max_num_seqs 1024";
    let mamba = "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (856). Each decode sequence requires one Mamba cache \
        block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most 856 or increase gpu_memory_utilization.\n";
    fixed(module, mamba).says(&["max_num_seqs  1024 -> 512"]);
    let cache = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n";
    fixed(module, cache).says(&["gpu_memory_utilization  0.9 -> 0.95"]);
}

/// LLaMA-Factory's YAML names the file of DeepSpeed, and so its copy.
#[test]
fn a_file_that_a_file_names_is_changed_in_a_copy() {
    let yaml = "model_name_or_path: m\nstage: sft\nfinetuning_type: full\ndeepspeed: ds/own.json\nper_device_train_batch_size: 1\n\
        gradient_accumulation_steps: 2\n";
    let ds = "{\n  \"zero_optimization\": {\n    \"stage\": 2\n  }\n}\n";
    let script = "export NPROC_PER_NODE=8\nFORCE_TORCHRUN=1 llamafactory-cli train own.yaml";
    let said = fixed_with(
        script,
        &failure(&[LAYER]),
        &[("own.yaml", yaml), ("ds/own.json", ds)],
    );
    said.says(&["zero_optimization.stage  2 -> 3", "+    \"stage\": 3"]);
}

/// What makes experience generates and computes log-probabilities: only one of them is the engine's.
#[test]
fn log_probabilities_inside_of_what_makes_experience_are_no_rollout() {
    let script = "trl grpo --model_name_or_path m --dataset_name d --output_dir o --use_vllm --vllm_mode colocate \
        --vllm_gpu_memory_utilization 0.5 --per_device_train_batch_size 4 --num_generations 8 --max_completion_length 4096 \
        --gradient_accumulation_steps 8 --gradient_checkpointing true --bf16";
    let makes = (
        "trl/trainer/grpo_trainer.py\", line 1271, in _generate_and_score_completions",
        "old_per_token_logps, _ = self._get_per_token_logps_and_entropies(",
    );
    let computes = (
        "trl/trainer/grpo_trainer.py\", line 856, in _get_per_token_logps_and_entropies",
        "logits = model(**model_inputs).logits",
    );
    let said = fixed(script, &failure(&[makes, computes, LAYER]));
    said.says(&["in old_logprob", "per_device_train_batch_size  4 -> 2"]);
    let loss = (
        "trl/trainer/grpo_trainer.py\", line 1507, in _compute_loss",
        "per_token_logps, entropies = self._get_per_token_logps_and_entropies(",
    );
    fixed(script, &failure(&[loss, computes, LAYER])).says(&["in actor_update"]);
    let asks = (
        "trl/trainer/grpo_trainer.py\", line 1226, in _generate_and_score_completions",
        "prompt_ids_list, completion_ids_list = self._generate(prompts)",
    );
    let engine = (
        "trl/trainer/grpo_trainer.py\", line 1190, in _generate_single_turn",
        "all_outputs = self.llm.generate(",
    );
    fixed(script, &failure(&[asks, engine, LINEAR]))
        .says(&["in rollout", "vllm_gpu_memory_utilization  0.5 -> 0.3"]);
    let openrlhf = "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 --vllm_num_engines 8 \
        --colocate_all_models --vllm_gpu_memory_utilization 0.6 --pretrain m --micro_train_batch_size 1 --train_batch_size 128 \
        --micro_rollout_batch_size 4 --rollout_batch_size 128 --zero_stage 3 --bf16 --gradient_checkpointing";
    let makes = (
        "openrlhf/trainer/ppo_utils/experience_maker.py\", line 602, in make_experience",
        "action_log_probs = self.actor(",
    );
    let actor = (
        "openrlhf/models/actor.py\", line 214, in forward",
        "output = self.model(sequences, attention_mask=foward_attention_mask)",
    );
    fixed(openrlhf, &failure(&[makes, actor, LAYER]))
        .says(&["in old_logprob", "micro_rollout_batch_size  4 -> 2"]);
}

/// The number of GPUs that a script asks the node for is what the job asks for.
#[test]
fn an_accumulation_that_is_computed_from_the_gpus_of_the_node_is_known() {
    let script = "#SBATCH --gres=gpu:a100:4\nGPUS=$(python -c \"import torch; print(torch.cuda.device_count())\")\nWORLD=$(($GPUS * 1))\nMICRO=4\n\
        ACCUMULATE=$((1024 / $WORLD / $MICRO))\ntorchrun --nproc_per_node $GPUS train.py --model_name_or_path m --bf16 \
        --per_device_train_batch_size ${MICRO} --gradient_accumulation_steps ${ACCUMULATE} --gradient_checkpointing true";
    fixed(script, &failure(&[LAYER])).says(&[
        "per_device_train_batch_size  4 -> 2",
        "gradient_accumulation_steps  64 -> 128",
        "same",
    ]);
}

/// What a program gives YOLO itself is changed there; words that nothing reads are no way to give it.
#[test]
fn the_batch_that_a_program_gives_yolo_is_changed_in_the_program() {
    let program = "from ultralytics import YOLO\nYOLO(\"yolo11n.pt\").train(data=\"d.yaml\", imgsz=640, batch=48)\n";
    let frame = (
        "ultralytics/engine/trainer.py\", line 381, in _do_train",
        "self.loss, self.loss_items = self.model(batch)",
    );
    let fix = |program: &str| {
        fixed_with(
            "python train.py",
            &failure(&[frame]),
            &[("train.py", program)],
        )
    };
    fix(program).says(&["batch  48 -> 24", "train.py:2"]);
    let done = fix(&program.replace(", batch=48", ""));
    assert!(!done.out.contains("+python train.py"), "{}", done.told());
    done.says(&["batch stays: the program reads no options"]);
}

const HYDRA: &str = "import hydra\n@hydra.main(config_path='conf', config_name='base')\ndef main(cfg): pass\nmain()\n";

/// A micro batch by any of its usual keys is halved before sequences are cut.
#[test]
fn a_program_with_hydra_has_its_micro_batch_halved_before_its_sequences() {
    for key in ["dataset.micro_batch_size", "training.batch_size"] {
        let script = format!(
            "torchrun --nproc_per_node=8 train.py --config-name base {key}=64 dataset.max_seq_length=1024"
        );
        let files = [("train.py", HYDRA), ("conf/base.yaml", "a: 1\n")];
        fixed_with(&script, &failure(&[LAYER]), &files).says(&["batch_size  64 -> 32"]);
    }
}
