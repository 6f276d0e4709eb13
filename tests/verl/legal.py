"""What verl asserts after the driver: while workers start, and in the first training step.

Read from the Python files of the released packages, rule by rule, independently of the preset in
`presets/verl-grpo.yaml`: it looks at the composed configuration only. Each rule names the file in
which verl says it and words that stand there; `test_legal.py` looks them up in every version of the
rule's range, so that a rule cannot outlive verl's code. FSDP and GRPO only.

Reads lines `{"version": "0.9.1", "overrides": […], "world": {…}}` and prints lines `{"ok": true}` or
`{"ok": false, "broken": [{"rule": …, "stage": …, "file": …, "why": …}]}`. `world` holds what is not
in verl's configuration: gpus (that Ray sees), heads, kv_heads, hidden, vocab,
max_position_embeddings, checkpoint_world_size; what is missing is unknown.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Callable

from composed import answer, config


def at(version):
    """A version as comparable numbers."""
    return tuple(map(int, version.split(".")))


@dataclass
class Facts:
    """The numbers that verl computes from its configuration before it uses them."""

    version: str
    cfg: Any
    world: dict = field(default_factory=dict)

    def __post_init__(self):
        cfg, arr = self.cfg, self.cfg.actor_rollout_ref
        self.actor, self.rollout, self.ref, self.model = arr.actor, arr.rollout, arr.ref, arr.model
        self.gpus = cfg.trainer.n_gpus_per_node * cfg.trainer.nnodes
        self.train, self.mini = cfg.data.train_batch_size, self.actor.ppo_mini_batch_size
        self.samples = self.train * self.rollout.n
        self.mini_samples = self.mini * self.rollout.n
        self.length = cfg.data.max_prompt_length + cfg.data.max_response_length
        self.dynamic = self.actor.use_dynamic_bsz
        self.legacy = at(self.version) < (0, 8, 0)
        self.v1 = at(self.version) >= (0, 9, 0) and cfg.trainer.use_v1
        self.references = cfg.algorithm.use_kl_in_reward or self.actor.use_kl_loss
        self.sp = self.actor.ulysses_sequence_parallel_size
        if not self.legacy and self.sp == 1:
            self.sp = self.actor.fsdp_config.ulysses_sequence_parallel_size
        self.ranks = self.gpus // self.sp
        self.engine_gpus = self.rollout.tensor_model_parallel_size * self.rollout.get("data_parallel_size", 1)
        self.asynchronous = self.rollout.mode == "async" or at(self.version) >= (0, 7, 0)

    def samples_of_rank(self):
        """Sequences of a step on one rank. V1 first fills the step up."""
        if self.v1:
            multiple = math.lcm(self.ranks, self.mini_samples)
            return math.ceil(self.samples / multiple) * multiple // self.ranks
        return self.samples // self.ranks


@dataclass
class Rule:
    """One assertion of verl: where it stands, and when it holds (None) or why not (text)."""

    name: str
    stage: str
    first: str
    last: str
    file: str
    words: list
    why: Callable[[Facts], Any]

    def covers(self, version):
        return at(self.first) <= at(version) <= at(self.last)


RULES = []


def rule(name, stage, first, last, file, *words):
    """Registers a function that returns why the rule is broken, or nothing."""

    def register(why):
        RULES.append(Rule(name, stage, first, last, file, list(words), why))
        return why

    return register


LEGACY = "verl/workers/fsdp_workers.py"
ENGINE = "verl/workers/engine_workers.py"


# While workers start, after the model is loaded.


@rule("mini_zero", "init", "0.4.0", "0.7.1", LEGACY, "should be larger than 0 after")
def _(f):
    if f.mini_samples // f.ranks <= 0:
        return "ppo_mini_batch_size 0 should be larger than 0 after normalization"


@rule("mini_micro", "init", "0.4.0", "0.7.1", LEGACY, "normalized ppo_mini_batch_size", "should be divisible by")
def _(f):
    micro = f.actor.ppo_micro_batch_size_per_gpu
    mini = f.mini_samples // f.ranks
    if micro is not None and (mini % micro or mini // micro <= 0):
        return f"normalized ppo_mini_batch_size {mini} should be divisible by ppo_micro_batch_size_per_gpu {micro}"


@rule("ulysses_mesh", "init", "0.4.0", "0.7.1", LEGACY, "world_size // self.ulysses_sequence_parallel_size")
@rule("ulysses_mesh", "init", "0.8.0", "0.9.1", "verl/workers/engine/fsdp/transformer_impl.py", "mesh_shape=(dp_size, self.ulysses_sequence_parallel_size)")
def _(f):
    if f.gpus % f.sp:
        return f"a mesh of {f.ranks} x {f.sp} does not cover {f.gpus} GPUs"


@rule("fsdp_mesh", "init", "0.4.0", "0.7.1", LEGACY, "(world_size // fsdp_size, fsdp_size)")
@rule("fsdp_mesh", "init", "0.8.0", "0.9.1", "verl/workers/engine/fsdp/utils.py", "(world_size // fsdp_size, fsdp_size)")
def _(f):
    size = f.actor.fsdp_config.fsdp_size
    if 0 <= size < f.gpus and (size == 0 or f.gpus % size):
        return f"a mesh of groups of {size} does not cover {f.gpus} GPUs"


@rule("rollout_world", "init", "0.4.0", "0.5.0", LEGACY, "is not divisible by infer_tp")
@rule("rollout_world", "init", "0.6.0", "0.7.1", LEGACY, "is not divisible by infer_world_size")
@rule("rollout_world", "init", "0.8.0", "0.9.1", ENGINE, "is not divisible by infer_world_size")
def _(f):
    if f.gpus % f.engine_gpus:
        return f"rollout world_size: {f.gpus} is not divisible by infer_world_size: {f.engine_gpus}"


@rule("replica_nodes", "init", "0.6.0", "0.9.1", "verl/workers/rollout/replica.py", "must be divisible by gpus_per_node")
def _(f):
    per_node = min(f.cfg.trainer.n_gpus_per_node, f.engine_gpus)
    if f.asynchronous and f.engine_gpus % per_node:
        return f"world_size {f.engine_gpus} must be divisible by gpus_per_node {per_node}"


@rule("dynamic_mismatch", "init", "0.8.0", "0.9.1", ENGINE, "self.config.actor.use_dynamic_bsz == self.config.rollout.log_prob_use_dynamic_bsz")
def _(f):
    if f.actor.use_dynamic_bsz != f.rollout.log_prob_use_dynamic_bsz:
        return "actor.use_dynamic_bsz differs from rollout.log_prob_use_dynamic_bsz"


@rule("micro_per_gpu", "init", "0.8.0", "0.9.1", ENGINE, "assert self.config.actor.ppo_micro_batch_size_per_gpu is not None")
def _(f):
    if not f.dynamic and None in (f.actor.ppo_micro_batch_size_per_gpu, f.rollout.log_prob_micro_batch_size_per_gpu):
        return "ppo_micro_batch_size_per_gpu and rollout.log_prob_micro_batch_size_per_gpu must be set"


@rule("chunked_prefill", "init", "0.4.0", "0.6.1", "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py", "Enable chunked prefill, max_num_batched_tokens is smaller than max_model_len")
def _(f):
    context = int(f.rollout.max_model_len or f.length)
    vllm = f.rollout.name == "vllm" and not f.asynchronous
    if vllm and f.rollout.enable_chunked_prefill and f.rollout.max_num_batched_tokens < context:
        return f"max_num_batched_tokens {f.rollout.max_num_batched_tokens} is smaller than max_model_len {context}"


@rule("eager_free_cache", "init", "0.4.0", "0.4.1", "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py", "disable CUDA graph (enforce_eager = False) if free cache engine")
def _(f):
    if not f.rollout.enforce_eager and f.rollout.free_cache_engine:
        return "disable CUDA graph (enforce_eager = False) if free cache engine"


@rule("sync_removed", "init", "0.7.0", "0.9.1", "verl/workers/config/rollout.py", "Rollout mode 'sync' has been removed")
def _(f):
    if f.rollout.mode == "sync":
        return "Rollout mode 'sync' has been removed"


@rule("context", "init", "0.4.0", "0.6.1", "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py", "model context length should be greater than total sequence length")
def _(f):
    most = f.world.get("max_position_embeddings")
    if most is not None and not f.asynchronous and f.length > most:
        return f"model context length should be greater than total sequence length ({f.length} > {most})"


@rule("max_model_len", "init", "0.7.1", "0.9.1", "verl/workers/rollout/vllm_rollout/vllm_async_server.py", "should be less than or equal to")
def _(f):
    most = f.world.get("max_position_embeddings")
    if most is not None and (f.rollout.max_model_len or 0) > most:
        return f"max_model_len ({f.rollout.max_model_len}) should be less than or equal to {most}"


@rule("ulysses_heads", "init", "0.4.0", "0.9.1", "verl/models/transformers/monkey_patch.py", "must be divisible by ulysses_sp_size")
def _(f):
    heads, kv = f.world.get("heads"), f.world.get("kv_heads")
    if heads is not None and heads % f.sp:
        return f"num_attention_heads {heads} must be divisible by ulysses_sp_size {f.sp}"
    if kv is not None and kv % f.sp and f.sp % kv:
        return f"num_key_value_heads {kv} must be divisible by ulysses_sp_size {f.sp} or vice versa"


@rule("ulysses_padding", "init", "0.8.0", "0.9.1", "verl/workers/engine/fsdp/transformer_impl.py", "When using sequence parallelism (ulysses_sequence_parallel_size > 1)")
def _(f):
    if f.sp > 1 and not f.model.use_remove_padding:
        return "sequence parallelism needs use_remove_padding"


@rule("weight_bucket", "init", "0.7.1", "0.7.1", "verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py", "assert offset + weight.nbytes <= self.bucket_size")
def _(f):
    vocab, hidden = f.world.get("vocab"), f.world.get("hidden")
    if vocab is None or hidden is None or f.rollout.name != "vllm":
        return None
    # The legacy workers hand weights over in the format in which they hold them.
    width = 4 if f.actor.fsdp_config.model_dtype in ("fp32", "float32") else 2
    bucket = f.rollout.checkpoint_engine.update_weights_bucket_megabytes << 20
    if vocab * hidden * width > bucket:
        return f"the embedding ({vocab * hidden * width} bytes) is too large to fit in the bucket ({bucket})"


@rule("ray_gpus", "init", "0.4.0", "0.7.0", "verl/trainer/ppo/ray_trainer.py", "is less than total desired GPUs")
@rule("ray_gpus", "init", "0.7.1", "0.9.1", "verl/single_controller/ray/base.py", "is less than total desired GPUs")
def _(f):
    seen = f.world.get("gpus")
    if seen is not None and seen < f.gpus:
        return f"Total available GPUs {seen} is less than total desired GPUs {f.gpus}"


@rule("checkpoint_world", "init", "0.4.0", "0.9.1", "verl/utils/checkpoint/fsdp_checkpoint_manager.py", "model_world_size_{self.world_size}_rank_{self.rank}.pt")
def _(f):
    saved = f.world.get("checkpoint_world_size")
    if saved is not None and f.cfg.trainer.resume_mode != "disable" and saved != f.gpus:
        return f"no model_world_size_{f.gpus}_rank_0.pt; the checkpoint has {saved} ranks"


# In the first training step.


@rule("agent_workers", "step", "0.5.0", "0.9.1", "verl/experimental/agent_loop/agent_loop.py", "prompts.chunk(len(self.agent_loop_workers))")
def _(f):
    workers = f.rollout.agent.num_workers
    if f.asynchronous and not f.v1 and f.samples % workers:
        return f"only support equal chunk. Got size of DataProto {f.samples} and chunk {workers}"


@rule("dispatch", "step", "0.4.0", "0.9.1", "verl/protocol.py", "only support equal chunk")
def _(f):
    if not f.v1 and f.samples % f.ranks:
        return f"only support equal chunk. Got size of DataProto {f.samples} and chunk {f.ranks}"


@rule("rollout_dispatch", "step", "0.4.0", "0.6.1", "verl/protocol.py", "only support equal chunk")
def _(f):
    parts = f.gpus if at(f.version) < (0, 6, 0) else f.gpus // f.engine_gpus
    if not f.asynchronous and parts and f.samples % parts:
        return f"only support equal chunk. Got size of DataProto {f.samples} and chunk {parts}"


@rule("balance", "step", "0.4.0", "0.8.0", "verl/utils/seqlen_balancing.py", "% {k_partitions} != 0")
def _(f):
    parts = f.gpus if at(f.version) < (0, 7, 0) else f.ranks
    if f.cfg.trainer.balance_batch and f.samples % parts:
        return f"{f.samples} % {parts} != 0"


@rule("mini_ranks", "step", "0.8.0", "0.9.1", ENGINE, "mini_batch_size % self.engine.get_data_parallel_size() == 0")
def _(f):
    if f.mini_samples % f.ranks:
        return f"Got mini_batch_size={f.mini_samples} and self.engine.get_data_parallel_size()={f.ranks}"


@rule("train_mini", "step", "0.8.0", "0.9.1", "verl/utils/tensordict_utils.py", "tensordict.batch_size[0] % mini_batch_size == 0")
def _(f):
    rank, mini = f.samples_of_rank(), f.mini_samples // f.ranks
    if mini and rank % mini:
        return f"{rank} % {mini} != 0"


@rule("mini_micro_exact", "step", "0.8.0", "0.9.1", "verl/workers/engine/utils.py", "data size must be divisible by force_group_size * micro_batch_size_per_gpu")
def _(f):
    micro = f.actor.ppo_micro_batch_size_per_gpu
    if not f.dynamic and micro and (f.mini_samples // f.ranks) % micro:
        return f"data size {f.mini_samples // f.ranks} must be divisible by micro_batch_size_per_gpu {micro}"


@rule("rollout_micro", "step", "0.8.0", "0.9.1", "verl/workers/engine/utils.py", "data size must be divisible by force_group_size * micro_batch_size_per_gpu")
def _(f):
    micro = f.rollout.log_prob_micro_batch_size_per_gpu
    if not f.dynamic and micro and f.samples_of_rank() % micro:
        return f"data size {f.samples_of_rank()} must be divisible by rollout micro_batch_size_per_gpu {micro}"


@rule("ref_micro", "step", "0.8.0", "0.9.1", "verl/workers/engine/utils.py", "data size must be divisible by force_group_size * micro_batch_size_per_gpu")
def _(f):
    micro = f.ref.log_prob_micro_batch_size_per_gpu
    if f.references and not f.ref.log_prob_use_dynamic_bsz and micro and f.samples_of_rank() % micro:
        return f"data size {f.samples_of_rank()} must be divisible by ref micro_batch_size_per_gpu {micro}"


BUDGET = ("verl/utils/seqlen_balancing.py", "max_token_len must be greater than the sequence length")


@rule("actor_budget", "step", "0.4.0", "0.9.1", *BUDGET)
def _(f):
    if f.dynamic and f.actor.ppo_max_token_len_per_gpu * f.sp < f.length:
        return f"max_token_len must be greater than the sequence length ({f.length}), actor"


@rule("rollout_budget", "step", "0.4.0", "0.9.1", *BUDGET)
def _(f):
    if f.rollout.log_prob_use_dynamic_bsz and f.rollout.log_prob_max_token_len_per_gpu * f.sp < f.length:
        return f"max_token_len must be greater than the sequence length ({f.length}), old log-probabilities"


@rule("ref_budget", "step", "0.4.0", "0.9.1", *BUDGET)
def _(f):
    used = f.references and f.ref.log_prob_use_dynamic_bsz
    if used and f.ref.log_prob_max_token_len_per_gpu * f.sp < f.length:
        return f"max_token_len must be greater than the sequence length ({f.length}), reference policy"


def broken(version, cfg, world):
    """Every rule that `cfg` breaks in `version`."""
    facts = Facts(version, cfg, world)
    found = []
    for r in RULES:
        why = r.covers(version) and r.why(facts)
        if why:
            found.append({"rule": r.name, "stage": r.stage, "file": r.file, "why": why})
    return found


def check(case):
    found = broken(case["version"], config(case["version"], case["overrides"]), case.get("world") or {})
    return {"ok": not found, "broken": found}


if __name__ == "__main__":
    answer(check)
