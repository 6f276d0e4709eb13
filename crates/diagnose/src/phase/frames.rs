//! Which functions belong to which phase.
//!
//! Sources: verl 0.3 to 0.9 `workers/`, `trainer/ppo/`; OpenRLHF 0.3 to 0.9 `trainer/`; TRL 0.7 to 0.24
//! `trainer/`; slime, NeMo-RL `models/policy/`; vLLM 0.4 to 0.13 `worker/`, `v1/worker/`, `v1/engine/`,
//! `device_allocator/cumem.py`; SGLang 0.2 to 0.5 `srt/`; PyTorch 1.x to 2.x `optim`, `autograd`,
//! `cuda/graphs.py`, `distributed/`, `utils/data`; DeepSpeed 0.8 to 0.18 `runtime/`; Megatron-LM `training/`,
//! `core/`; Lightning 1.x to 2.x `loops/`; transformers 4.x, accelerate; jax `_src/`; Keras and TensorFlow.

/// Functions and source text that tell a phase.
pub(super) struct Row {
    /// Phase, in the words of [`crate::Incident::phase`].
    pub phase: &'static str,
    /// The heaviest of a traceback wins.
    pub weight: u8,
    /// Any of these, separated by ` | `; `*` stands for anything, `$` for the end of the line.
    pub needles: &'static str,
}

const fn row(phase: &'static str, weight: u8, needles: &'static str) -> Row {
    Row {
        phase,
        weight,
        needles,
    }
}

/// Heaviest first. From 60 on a phase is one of the training loop itself.
pub(super) const FRAMES: &[Row] = &[
    row(
        "ref_logprob",
        95,
        "compute_ref_log_prob | self.ref_policy. | self.ref_policy_wg. | get_reference_policy_logprobs \
        | in compute_ref_logps | in compute_reference_log_probs | initial_model_group.async_run | self.initial_model( \
        | ref_per_token_logps = | ref_logprobs = | ref_log_probs = | reference_logprobs = | ReferenceModel*in forward | self.ref_model( | in null_ref_context",
    ),
    row(
        "critic",
        92,
        "critic_update_critic | update_critic | critic_compute_values | compute_values( | in compute_values | dp_critic.py | megatron_critic.py \
        | critic_wg.compute_values | critic_wg.update_critic | CriticModelRayActor.fit | CriticModelActor.fit | in training_step_critic | in train_critic | critic_loss.backward | backward(critic_loss",
    ),
    row(
        "init",
        91,
        "stage_1_and_2.py*in __init__$ | stage3.py*in __init__$ | stage3.py*in _setup_for_real_optimizer | distrib_optimizer.py*in __init__$ \
        | in _create_fp16_partitions | in _configure_zero_optimizer | in get_megatron_optimizer",
    ),
    row(
        "optimizer_step",
        90,
        "torch/optim/ | apex/optimizers/ | deepspeed/ops/adam | deepspeed/ops/lion | _multi_tensor_adam | in _optimizer_step | in _init_group | bitsandbytes/optim/ \
        | optimizer.step( | optimizer'].step( | optim.step( | opt.step( | scaler.step( | _take_model_step | stage3.py*in step$ | stage3.py*in _optimizer_step | stage_1_and_2.py*in step$ | distrib_optimizer.py*step \
        | cpu_adam | fused_adam | clip_grad_norm | in optimizer_step$ | in unscale_and_clip_grads | accelerate/optimizer.py*in step$ | in _take_optimizer_step",
    ),
    row(
        "actor_update",
        84,
        "actor_rollout_ref_update_actor | actor_rollout_update_actor | actor_update_actor | in update_actor | update_policy | actor_rollout_wg.update_actor \
        | ppo_train( | in ppo_train | in policy_update | actor_loss.backward | backward(actor_loss | backward(policy_loss | policy_loss.backward | in training_step_actor | in train_actor | in train_minibatch \
        | PolicyWorker.train | in train_one_step",
    ),
    row(
        "old_logprob",
        82,
        "actor_rollout_compute_log_prob | in compute_log_prob$ | in compute_old_log_prob | compute_old_log_prob | self.actor.compute_log_prob | actor_rollout_wg.compute_log_prob \
        | old_per_token_logps = | in batched_forward_pass | PolicyWorker.get_logprobs | policy.get_logprobs( | old_logprobs = | old_log_probs = ",
    ),
    row(
        "wake_up",
        76,
        "in wake_up | .wake_up( | \"wake_up\" | rollout_sharding_manager | in resume_memory_occupation | resume_memory_occupation( | in rollout_mode | update_weights_from_tensor \
        | sync_model_to_rollout | sharding_manager/ | in broadcast_to_vllm | in _broadcast_to_vllm | in _broadcast_to_engine | in _move_model_to_vllm | in update_weights$ | in refit_policy_generation | in sync_weights \
        | update_weights_from_distributed | in onload_weights | in update_weights_from_ipc",
    ),
    row(
        "rollout",
        70,
        "actor_rollout_generate_sequences | generate_sequences | rollout_generate | in retract_decode | in make_experience | make_experience( | async_rollout | in generate_completions \
        | in _generate_vllm | in generate_samples | in _generate_and_score_completions | in _generate_single_turn | in batch_generation | unwrap_model_for_generation | GenerationWorker.generate | in rollout$ | in generate_rollout",
    ),
    row(
        "load",
        65,
        "torch/distributed/checkpoint/*in load | state_dict_loader.py | in load_checkpoint | in _load_checkpoint | in load_fsdp | in _load_from_checkpoint | in resume_from_checkpoint | torch/serialization.py*in load \
        | torch/serialization.py*in _load | in _load_optimizer_and_scheduler",
    ),
    row(
        "checkpoint",
        64,
        "save_checkpoint | sharded_state_dict | fsdp_save_ckpt | save_fsdp_optimizer | save_fsdp_model | save_model_and_optimizer | save_pretrained | torch.save( | torch/serialization.py | torch/distributed/checkpoint/ \
        | in _full_pre_state_dict_hook | in _full_post_state_dict_hook | _state_dict_utils.py | in full_optim_state_dict | in optim_state_dict | FullStateDictConfig | checkpoint_hook.py | fsdp_checkpoint_manager.py | in dump_checkpoint \
        | in get_fsdp_state | in _consolidated_16bit_state_dict | in save_model$ | in _save$ | in save_16bit_model | orbax/checkpoint | dist_checkpointing/*save | in _zero3_consolidated | in save_state",
    ),
    row(
        "actor_update",
        63,
        "MegatronTrainRayActor.train | ActorModelRayActor.fit | PolicyModelActor.fit | PolicyModelRayActor.fit | grpo_trainer.py*in compute_loss | grpo_trainer.py*in _compute_loss | grpo_trainer.py*in training_step \
        | GRPOTrainer.py*in compute_loss | ppo_trainer.py*in step$",
    ),
    row(
        "kv_cache",
        62,
        "_initialize_kv_caches | initialize_kv_cache | check_enough_kv_cache_memory | initialize_cache | allocate_gpu_cache | _allocate_kv_cache | init_memory_pool | get_kv_cache_configs \
        | determine_num_available_blocks | kv_cache_utils.py | in initialize_from_config | in _create_buffers | memory_pool.py*in __init__$ | cache_engine.py | in profile_max_num_token",
    ),
    row(
        "cuda_graph",
        61,
        "torch/cuda/graphs.py | capture_model | init_cuda_graphs | init_device_graphs | CudaGraphRunner | cuda_graph_runner.py | capture_one_batch_size | register_graph_buffers | _capture_cudagraphs | in capture_graph | cuda_graph.py*in __call__ | cudagraph_trees.py",
    ),
    row(
        "eval",
        50,
        "in evaluation_loop | in evaluate | in _evaluate | in validation_step | evaluation_loop.py | in _validate | in validate | in predict_step | in run_sanity_check | in _run_sanity_check | in prediction_step \
        | in prediction_loop | in test_step | in test_function | in predict_function | in eval_step | in eval_epoch | in _run_evaluation | in validation_epoch | in test_epoch | in run_validation",
    ),
    row(
        "rollout",
        48,
        "llm_engine.step | in _run_engine | in llm_engine_step | generation/utils.py | in greedy_search | in beam_search | .generate( | in generate$ | in run_busy_loop | in _process_engine_step | in step_with_batch_queue \
        | in event_loop_normal | in event_loop_overlap | in forward_batch_generation | in prepare_for_decode | in prepare_for_extend | in alloc_token_slots | in get_next_batch_to_run | in run_engine_loop | engine_core.step \
        | in execute_model | in forward_decode_batch | in forward_prefill_batch | in forward_thread_func | in loop_for_forward | core.py*in step$",
    ),
    row(
        "backward",
        46,
        "loss.backward( | .backward() | run_backward | accelerator.backward | torch/autograd/ | in backward | engine.backward( | _post_backward_hook | in _pre_backward | in reduce_ready_partitions_and_remove_grads \
        | in custom_backward | in backward_step | in independent_gradient_partition_epilogue | manual_backward( | tape.gradient(",
    ),
    row(
        "load",
        44,
        "in load_model | load_tensors | load_weights | in from_pretrained | from_pretrained( | _load_state_dict_into_meta_model | _load_pretrained_model | modeling_utils.py\", line | load_state_dict( | default_loader.py \
        | caching_allocator_warmup | safetensors | set_module_tensor_to_device | in dispatch_model | load_checkpoint_and_dispatch | in get_peft_model | prepare_model_for_kbit_training | in initialize_model$ | torch.load( | in load_file$ \
        | in load_hf_weights | in process_weights_after_loading | in create_weights | in restore$ | partition_parameters.py*in _post_init_method",
    ),
    row(
        "dataloader",
        43,
        "torch/utils/data/ | datasets/arrow_dataset.py | datasets/load.py | rl_dataset.py | datasets/builder.py | in load_dataset | in __getitem__ | in collate_fn | in _prepare_dataset | in pin_memory",
    ),
    row(
        "load",
        42,
        "nn/modules/module.py*in _apply | nn/modules/module.py*in to$ | nn/modules/module.py*in cuda$ | in _move_model_to_device | model.to( | model.cuda( | in to_empty | model = model.to | s_to_device$",
    ),
    row(
        "init",
        40,
        "in init_device | in set_device | torch.cuda.set_device | _dummy_sampler_run | in init_process_group | init_worker_distributed_environment | in profile_run | in _dummy_run | in init_model | init_model( | in _build_ | _init_device \
        | in run_scheduler_process | deepspeed.initialize( | in determine_available_memory | ConfigCompositionException | in _lazy_init | FullyShardedDataParallel( | _flat_param.py*in __init__$ | _flat_param.py*in _init_flat | in flatten_tensors \
        | accelerator.prepare( | in _configure_ | nn/parallel/distributed.py*in __init__$ | _sync_module_states | DistributedDataParallel( | in _auto_wrap | in _recursive_wrap | fully_shard( | _init_utils.py | _wrap_utils.py \
        | in setup_model_and_optimizer | initialize_model_parallel | in _initialize_distributed | in initialize_megatron | in initialize_ | in configure_optimizers | in create_optimizer | in compile_or_warm_up_model | in kernel_warmup | backend_compile | in init_torch_distributed | ray.init( \
        | in init_workers | in get_model$ | hydra/_internal | argparse.py | in validate_config | in initialize$ | in parse_args | in wandb_init | wandb/sdk/ | in _initialize_worker",
    ),
    row(
        "forward",
        30,
        "in forward | in _call_impl | in _wrapped_call_impl | in __call__ | forward_call( | torch/nn/functional.py | torch/nn/modules/ | torch/nn/parallel/ | in training_step | in compute_loss | in forward_step | in _execute_compiled \
        | in _forward_micro_batch | torch.matmul( | F.cross_entropy( | F.softmax( | = model( | = self.model( | = net( | = self.net( | in train_function | in concatenated_forward | in get_batch_logps | in _get_per_token_logps | in logprobs_from_logits \
        | in checkpoint$ | in apply_fn | torch/_inductor/ | triton/ | in fetch_sub_module | in _pre_forward | in call$ | in cross_entropy | in vocab_parallel | criterion(",
    ),
    row(
        "rollout",
        26,
        "workers/rollout/ | verl/experimental/agent_loop/",
    ),
    row(
        "init",
        25,
        "in scale_batch_size | in lr_find | in _run_binsearch_scaling",
    ),
    row(
        "nccl",
        20,
        "torch/distributed/distributed_c10d.py | ProcessGroupNCCL | in all_reduce | in barrier | in broadcast",
    ),
];
