"""The memory table of the README: what the formulas give on each rung of the design card's ladder."""

from .memory import Memory
from .overrides import compose
from .setup import read_setup

ACTOR, ROLLOUT = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout."
START = {
    "data.train_batch_size": 1024,
    ACTOR + "ppo_mini_batch_size": 256,
    ACTOR + "ppo_micro_batch_size_per_gpu": 32,
    ROLLOUT + "log_prob_micro_batch_size_per_gpu": 32,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 32,
    ACTOR + "use_kl_loss": True,
    ACTOR + "fsdp_config.param_offload": False,
    ACTOR + "fsdp_config.optimizer_offload": False,
    "actor_rollout_ref.model.enable_gradient_checkpointing": True,
    "actor_rollout_ref.model.use_remove_padding": True,
    ROLLOUT + "gpu_memory_utilization": 0.6,
    ROLLOUT + "n": 5,
    ROLLOUT + "name": "vllm",
    ROLLOUT + "tensor_model_parallel_size": 2,
    ROLLOUT + "max_model_len": 2048,
    "data.max_prompt_length": 1024,
    "data.max_response_length": 1024,
    "trainer.n_gpus_per_node": 4,
    "trainer.nnodes": 1,
    "algorithm.adv_estimator": "grpo",
}
"""The case diamonds-seed0."""

MICROS = [
    ACTOR + "ppo_micro_batch_size_per_gpu",
    ROLLOUT + "log_prob_micro_batch_size_per_gpu",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
]


def _halved(train, mini, micro):
    return {
        "data.train_batch_size": train,
        ACTOR + "ppo_mini_batch_size": mini,
        **dict.fromkeys(MICROS, micro),
    }


RUNGS = [
    ("start: 1024/256/32", {}),
    ("halve: 512/128/16", _halved(512, 128, 16)),
    (
        "param and optimizer offload",
        {ACTOR + "fsdp_config.param_offload": True, ACTOR + "fsdp_config.optimizer_offload": True},
    ),
    ("halve: 256/64/8", _halved(256, 64, 8)),
    ("gpu_memory_utilization 0.4", {ROLLOUT + "gpu_memory_utilization": 0.4}),
    ("max_response_length 512", {"data.max_response_length": 512, ROLLOUT + "max_model_len": 1536}),
    ("8 GPUs", {"trainer.n_gpus_per_node": 8}),
]
COLUMNS = ["rollout_start", "old_log_prob", "ref_log_prob", "actor_update", "optimizer_step", "wake_up"]


def overrides(changes):
    """START with `changes`, as a run script would hand it over."""
    return [f"{key}={value}" for key, value in {**START, **changes}.items()]


def rows(version, card_gib, extra=()):
    """(name, needs by phase, KV cache GiB, host GiB) for each rung, cumulative. `extra` overrides come last."""
    changes = {}
    for name, change in RUNGS:
        changes |= change
        memory = Memory(read_setup(compose([*overrides(changes), *extra], version), version), card_gib)
        needs = {need.phase: need.total_gib for need in memory.phases()}
        yield name, needs, memory.kv_cache_gib(), memory.host_gib()


def markdown(version, card_gib, extra=()):
    """The table as Markdown; a phase that does not fit is in bold."""
    lines = ["| rung (each keeps those above) | " + " | ".join(COLUMNS) + " | KV cache | host | result |"]
    lines.append("|---" * (len(COLUMNS) + 4) + "|")
    for name, needs, kv, host in rows(version, card_gib, extra):
        cells = [_cell(needs.get(phase), card_gib) for phase in COLUMNS]
        worst = next((phase for phase in COLUMNS if needs.get(phase, 0) > card_gib), None)
        verdict = f"dies in {worst}" if worst else "fits"
        lines.append(f"| {name} | {' | '.join(cells)} | {kv:.1f} | {host:.0f} | {verdict} |")
    return "\n".join(lines)


def _cell(gib, card_gib):
    if gib is None:
        return ""
    return f"**{gib:.1f}**" if gib > card_gib else f"{gib:.1f}"
