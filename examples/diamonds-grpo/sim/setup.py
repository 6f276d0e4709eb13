"""The numbers of one run, taken from the composed configuration under names of their own."""

from dataclasses import dataclass

from .overrides import version_tuple

ACTOR = "actor_rollout_ref.actor."
MODEL = "actor_rollout_ref.model."
REF = "actor_rollout_ref.ref."
ROLLOUT = "actor_rollout_ref.rollout."


@dataclass(frozen=True)
class Setup:
    """Counts are prompts (train, mini), sequences (micro) or tokens (lengths, budgets); see frameworks' manuals."""

    version: tuple
    nodes: int
    gpus_per_node: int
    train: int
    mini: int
    micro: int | None
    rollout_micro: int | None
    ref_micro: int | None
    dynamic: bool
    actor_budget: int
    rollout_budget: int
    ref_budget: int
    sequence_parallel: int
    rollout_n: int
    prompt: int
    response: int
    tensor_parallel: int
    utilization: float
    eager: bool
    free_cache: bool
    max_model_len: int | None
    param_offload: bool
    optimizer_offload: bool
    bf16_weights: bool
    checkpointing: bool
    activation_offload: bool
    remove_padding: bool
    fused: bool
    actor_chunked_entropy: bool
    ref_chunked_entropy: bool
    uses_ref: bool
    lora_rank: int
    v1_trainer: bool

    @property
    def gpus(self):
        return self.nodes * self.gpus_per_node

    @property
    def data_parallel(self):
        return self.gpus // self.sequence_parallel

    @property
    def samples(self):
        """Sequences of one training step: prompts x rollout.n."""
        return self.train * self.rollout_n

    @property
    def engine_workers(self):
        """verl 0.8 replaced fsdp_workers.py by engine_workers.py."""
        return self.version >= (0, 8, 0)


def read_setup(config, version):
    """The Setup of a composed configuration; `version` is verl's, as text."""
    release = version_tuple(version)
    get = config.get
    actor, rollout = _batches(get), _rollout(get)
    offload_policy = get(ACTOR + "strategy") == "fsdp2" and bool(get(ACTOR + "fsdp_config.offload_policy"))
    fsdp = ACTOR + "fsdp_config."
    return Setup(
        version=release,
        nodes=get("trainer.nnodes"),
        gpus_per_node=get("trainer.n_gpus_per_node"),
        **actor,
        **rollout,
        sequence_parallel=max(
            get(ACTOR + "ulysses_sequence_parallel_size", 1), get(fsdp + "ulysses_sequence_parallel_size", 1)
        ),
        prompt=get("data.max_prompt_length"),
        response=get("data.max_response_length"),
        param_offload=bool(get(fsdp + "param_offload")) or offload_policy,
        optimizer_offload=bool(get(fsdp + "optimizer_offload")) or offload_policy,
        bf16_weights=get(fsdp + "model_dtype", "fp32") in ("bf16", "bfloat16"),
        checkpointing=bool(get(MODEL + "enable_gradient_checkpointing")),
        activation_offload=bool(get(MODEL + "enable_activation_offload")),
        remove_padding=bool(get(MODEL + "use_remove_padding")),
        fused=bool(get(MODEL + "use_fused_kernels")),
        actor_chunked_entropy=_chunked_entropy(get, ACTOR, release),
        ref_chunked_entropy=_chunked_entropy(get, REF, release),
        uses_ref=bool(get(ACTOR + "use_kl_loss")) or bool(get("algorithm.use_kl_in_reward")),
        lora_rank=get(MODEL + "lora_rank", 0) or get(MODEL + "lora.rank", 0) or 0,
        v1_trainer=bool(get("trainer.use_v1", False)),
    )


def _batches(get):
    return dict(
        train=get("data.train_batch_size"),
        mini=get(ACTOR + "ppo_mini_batch_size"),
        micro=get(ACTOR + "ppo_micro_batch_size_per_gpu"),
        rollout_micro=get(ROLLOUT + "log_prob_micro_batch_size_per_gpu"),
        ref_micro=get(REF + "log_prob_micro_batch_size_per_gpu"),
        dynamic=bool(get(ACTOR + "use_dynamic_bsz")),
        actor_budget=get(ACTOR + "ppo_max_token_len_per_gpu"),
        rollout_budget=get(ROLLOUT + "log_prob_max_token_len_per_gpu"),
        ref_budget=get(REF + "log_prob_max_token_len_per_gpu"),
    )


def _rollout(get):
    return dict(
        rollout_n=get(ROLLOUT + "n"),
        tensor_parallel=get(ROLLOUT + "tensor_model_parallel_size"),
        utilization=float(get(ROLLOUT + "gpu_memory_utilization")),
        eager=bool(get(ROLLOUT + "enforce_eager")),
        free_cache=bool(get(ROLLOUT + "free_cache_engine")),
        max_model_len=get(ROLLOUT + "max_model_len"),
    )


def _chunked_entropy(get, role, release):
    """0.8 reads the key under fsdp_config only and ignores the one under actor."""
    name = "entropy_from_logits_with_chunking"
    engine = bool(get(role + "fsdp_config." + name, False))
    if release >= (0, 8, 0):
        return engine
    return bool(get(role + name, False))
