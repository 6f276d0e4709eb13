"""What verl refuses, with its own words and at the stage at which it notices.

driver  before any model is loaded: `validate_config`
init    after the model is loaded: worker and rollout construction
step    in the first training step, minutes of GPU time later

W all GPUs, dp data-parallel ranks, S sequences of a step (prompts x rollout.n). Workers changed in verl 0.8: "legacy" is
fsdp_workers.py (to 0.7.1), "engine" is engine_workers.py. Each check names the file in which verl has it.
"""

import math

from .setup import ACTOR, REF, ROLLOUT

AGENT_LOOP_DEFAULT_WORKERS = 8
SYNC_REMOVED = (
    "Rollout mode 'sync' has been removed. Please set "
    "`actor_rollout_ref.rollout.mode=async` or remove the mode setting entirely."
)
TOO_LONG = "model context length should be greater than total sequence length"


class Refusal(Exception):
    """verl ends here with `kind: message`."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind, self.message = kind, message


def check_driver(setup, get):
    """trainer/ppo/ray_trainer.py `_validate_config` (to 0.5), utils/config.py `validate_config` (0.6+)."""
    if get(ROLLOUT + "name") == "???":
        raise Refusal("omegaconf.errors.MissingMandatoryValue", f"Missing mandatory value: {ROLLOUT}name")
    if setup.version < (0, 6, 0) or not setup.dynamic:
        _assert(
            setup.samples % setup.gpus == 0,
            f"real_train_batch_size ({setup.samples}) must be divisible by minimal possible batch size ({setup.gpus})",
        )
    if not setup.dynamic:
        _check_micro_batches(setup, get)
        _check_train_against_mini(setup)
    uses_padding_free = get("actor_rollout_ref.model.use_remove_padding")
    if setup.sequence_parallel > 1 and not uses_padding_free:
        text = "When using sequence parallelism for actor/ref policy, you must enable `use_remove_padding`."
        raise Refusal("AssertionError" if setup.version < (0, 6, 0) else "ValueError", text)


def _check_micro_batches(setup, get):
    name = "ppo_micro_batch_size"
    both = [get(ACTOR + name) is not None, get(ACTOR + name + "_per_gpu") is not None]
    short = "actor_rollout_ref.actor" if setup.version < (0, 6, 0) else "actor"
    if all(both):
        raise Refusal("ValueError", _both_set(short, name))
    if not any(both):
        text = f"[{short}] Please set at least one of '{short}.{name}' or '{short}.{name}_per_gpu'"
        if setup.version < (0, 6, 0):
            raise Refusal("ValueError", text + ".")
        raise Refusal("AssertionError", text + " if use_dynamic_bsz is not enabled.")
    for role in ([REF] if setup.uses_ref else []) + [ROLLOUT]:
        _check_log_prob(role, get)


def _check_log_prob(role, get):
    name, param = role[:-1], "log_prob_micro_batch_size"
    old, new = get(role + param), get(role + param + "_per_gpu")
    if old is None and new is None:
        raise Refusal(
            "ValueError", f"[{name}] Please set at least one of '{name}.{param}' or '{name}.{param}_per_gpu'."
        )
    if old is not None and new is not None:
        raise Refusal("ValueError", _both_set(name, param))


def _both_set(name, param):
    return (
        f"[{name}] You have set both '{name}.{param}' AND '{name}.{param}_per_gpu'. Please remove "
        f"'{name}.{param}' because only '*_{param}_per_gpu' is supported (the former is deprecated)."
    )


def _check_train_against_mini(setup):
    if setup.train >= setup.mini:
        return
    if setup.version < (0, 6, 0):
        raise Refusal("AssertionError", "")
    raise Refusal(
        "ValueError", f"train_batch_size ({setup.train}) must be >= actor.ppo_mini_batch_size ({setup.mini})"
    )


def check_init(setup, get, model):
    """workers/fsdp_workers.py (legacy), workers/engine_workers.py, workers/rollout/."""
    if setup.version >= (0, 7, 0) and get(ROLLOUT + "mode") == "sync":
        raise Refusal("ValueError", SYNC_REMOVED)
    sp = setup.sequence_parallel
    _assert(
        model.heads % sp == 0, f"num_attention_heads {model.heads} must be divisible by ulysses_sp_size {sp}"
    )
    _assert(
        model.kv_heads % sp == 0 or sp % model.kv_heads == 0,
        f"num_key_value_heads {model.kv_heads} must be divisible by ulysses_sp_size {sp}or vise versa. "
        f"Upon ulysses_sp_size % num_key_value_heads == 0,kv heads are repeated to ensure correctness.",
    )
    if not setup.engine_workers:
        _check_legacy_mini(setup)
    elif setup.dynamic != bool(get(ROLLOUT + "log_prob_use_dynamic_bsz")):
        raise Refusal("AssertionError", "")
    word = "infer_tp" if setup.version < (0, 6, 0) else "infer_world_size"
    _assert(
        setup.gpus % setup.tensor_parallel == 0,
        f"rollout world_size: {setup.gpus} is not divisible by {word}: {setup.tensor_parallel}",
    )
    if setup.version < (0, 5, 0) and not setup.eager and setup.free_cache:
        raise Refusal("AssertionError", "disable CUDA graph (enforce_eager = False) if free cache engine")
    _check_lengths(setup, get, model)


def _check_legacy_mini(setup):
    normalized = setup.mini * setup.rollout_n // setup.data_parallel
    _assert(normalized > 0, f"ppo_mini_batch_size {normalized} should be larger than 0 after normalization")
    if setup.micro is None:
        return
    _assert(
        normalized % setup.micro == 0,
        f"normalized ppo_mini_batch_size {normalized} should be divisible by "
        f"ppo_micro_batch_size_per_gpu {setup.micro}",
    )


def _check_lengths(setup, get, model):
    length = setup.prompt + setup.response
    chunked_prefill = get(ROLLOUT + "enable_chunked_prefill", True)
    batched = get(ROLLOUT + "max_num_batched_tokens", 8192)
    if setup.version < (0, 7, 0) and get(ROLLOUT + "mode") == "sync" and chunked_prefill and batched < length:
        raise Refusal(
            "ValueError",
            "Enable chunked prefill, max_num_batched_tokens is smaller than max_model_len, "
            "please increase max_num_batched_tokens or disable chunked prefill",
        )
    asked = length if setup.version < (0, 7, 1) else setup.max_model_len or model.max_positions
    if asked > model.max_positions:
        raise Refusal("AssertionError" if setup.version < (0, 7, 1) else "ValueError", TOO_LONG)


def check_step(setup, get):
    """protocol.py `chunk`, workers/engine_workers.py `train_mini_batch`, workers/engine/utils.py, utils/seqlen_balancing.py."""
    if not setup.v1_trainer:
        _check_chunks(setup, get)
    if setup.engine_workers:
        _check_engine_mini(setup)
    if setup.dynamic:
        _check_budgets(setup)


def _check_chunks(setup, get):
    workers = get(ROLLOUT + "agent.num_workers", AGENT_LOOP_DEFAULT_WORKERS)
    agent_loop = setup.version >= (0, 7, 0) or (
        setup.version >= (0, 5, 0) and get(ROLLOUT + "mode") == "async"
    )
    chunks = [workers] if agent_loop else []
    for chunk in [*chunks, setup.data_parallel]:
        _assert(
            setup.samples % chunk == 0,
            f"only support equal chunk. Got size of DataProto {setup.samples} and chunk {chunk}.",
        )
    if get("trainer.balance_batch", True) and setup.version < (0, 7, 0):
        _assert(setup.samples % setup.gpus == 0, f"{setup.samples} % {setup.gpus} != 0")
    if setup.engine_workers:
        _assert(setup.train % setup.mini == 0, f"{setup.samples} % {setup.mini * setup.rollout_n} != 0")


def _check_engine_mini(setup):
    mini, ranks = setup.mini * setup.rollout_n, setup.data_parallel
    if not setup.dynamic:
        per_rank = _padded_samples(setup) // ranks
        _check_equal_micro(per_rank, setup.rollout_micro)
        if setup.uses_ref:
            _check_equal_micro(per_rank, setup.ref_micro)
    _assert(mini % ranks == 0, f"Got mini_batch_size={mini} and self.engine.get_data_parallel_size()={ranks}")
    if not setup.dynamic:
        _check_equal_micro(mini // ranks, setup.micro)


def _padded_samples(setup):
    """Trainer V1 fills the batch up with synthetic rows: trainer/ppo/v1/trainer_base.py."""
    if not setup.v1_trainer:
        return setup.samples
    multiple = math.lcm(setup.data_parallel, setup.mini * setup.rollout_n)
    return -(-setup.samples // multiple) * multiple


def _check_equal_micro(sequences, micro):
    _assert(
        sequences % (micro or 1) == 0,
        "data size must be divisible by force_group_size * micro_batch_size_per_gpu",
    )


def _check_budgets(setup):
    length = setup.prompt + setup.response
    for budget in (
        setup.rollout_budget,
        setup.ref_budget if setup.uses_ref else setup.rollout_budget,
        setup.actor_budget,
    ):
        limit = budget * setup.sequence_parallel
        _assert(
            limit >= length,
            f"max_token_len must be greater than the sequence length. Got max_token_len={limit} and max_seq_len={length}",
        )


def _assert(holds, message):
    if not holds:
        raise Refusal("AssertionError", message)
