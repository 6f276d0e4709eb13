"""Call stacks by worker generation and phase: file, line, function, source line, outermost first.

File, function and call are those of the released packages (verl 0.5.0 for "sharding", 0.7.1 for "legacy", 0.9.1 for
"engine"); line numbers are near them.
"""

SITE = "/usr/local/lib/python3.12/dist-packages/"

DISPATCH = [
    (
        "verl/single_controller/ray/base.py",
        921,
        "func",
        "return getattr(self.worker_dict[key], name)(*args, **kwargs)",
    ),
    ("verl/single_controller/base/decorator.py", 456, "inner", "return func(*args, **kwargs)"),
]

_ENGINE = "verl/workers/engine/fsdp/transformer_impl.py"
_ENGINE_FORWARD = [
    (
        _ENGINE,
        761,
        "forward_backward_batch",
        "loss, meta_info = self.forward_step(micro_batch, loss_function=loss_function, forward_only=forward_only)",
    ),
    (_ENGINE, 1569, "forward_step", "model_output = self.prepare_model_outputs("),
    (_ENGINE, 1409, "prepare_model_outputs", "log_probs = logprobs_from_logits("),
    (
        "verl/utils/torch_functional.py",
        85,
        "logprobs_from_logits",
        "output = logprobs_from_logits_flash_attn(logits, labels, inplace_backward=inplace_backward)",
    ),
]
_ENGINE_TRAIN = [
    (
        "verl/workers/engine_workers.py",
        714,
        "update_actor",
        "output = self.actor.train_mini_batch(data=data)",
    ),
    (
        "verl/workers/engine_workers.py",
        320,
        "train_mini_batch",
        "actor_output = self.train_batch(mini_batch_td)",
    ),
    (
        "verl/workers/engine_workers.py",
        375,
        "train_batch",
        "output = self.engine.train_batch(data, loss_function=self.loss_fn)",
    ),
]
_ENGINE_INFER = [
    (
        "verl/workers/engine_workers.py",
        425,
        "infer_batch",
        "output = self.engine.infer_batch(data, loss_function=loss_function)",
    ),
    (
        "verl/workers/engine/base.py",
        150,
        "infer_batch",
        "outputs = self.forward_backward_batch(data, loss_function, forward_only=True)",
    ),
    *_ENGINE_FORWARD,
]
_LEGACY_ACTOR = "verl/workers/actor/dp_actor.py"
_LEGACY_FORWARD = [
    (_LEGACY_ACTOR, 265, "_forward_micro_batch", "log_probs = logprobs_from_logits("),
    (
        "verl/utils/torch_functional.py",
        84,
        "logprobs_from_logits",
        "output = logprobs_from_logits_flash_attn(logits, labels, inplace_backward=inplace_backward)",
    ),
]
_LEGACY_LOG_PROB = [
    (_LEGACY_ACTOR, 479, "compute_log_prob", "outputs = self._forward_micro_batch("),
    *_LEGACY_FORWARD,
]
_LEGACY_UPDATE = [
    ("verl/workers/fsdp_workers.py", 1011, "update_actor", "metrics = self.actor.update_policy(data=data)"),
]
_ADAM = [
    ("torch/optim/optimizer.py", 517, "wrapper", "out = func(*args, **kwargs)"),
    ("torch/optim/adamw.py", 243, "step", "adamw("),
    (
        "torch/optim/adam.py",
        803,
        "_multi_tensor_adam",
        "exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)",
    ),
]
_VLLM_WAKE = [
    (
        "vllm/v1/executor/abstract.py",
        301,
        "wake_up",
        'self.collective_rpc("wake_up", kwargs=dict(tags=tags))',
    ),
    ("vllm/v1/worker/gpu_worker.py", 168, "wake_up", "allocator.wake_up(tags)"),
    ("vllm/device_allocator/cumem.py", 228, "wake_up", "create_and_map(handle)"),
]

FRAMES = {
    ("engine", "actor_update"): [
        *_ENGINE_TRAIN,
        (
            "verl/workers/engine/base.py",
            127,
            "train_batch",
            "outputs = self.forward_backward_batch(data, loss_function, forward_only=False)",
        ),
        *_ENGINE_FORWARD,
    ],
    ("engine", "step_check"): _ENGINE_TRAIN[:1],
    ("legacy", "step_check"): _LEGACY_UPDATE,
    ("engine", "optimizer_step"): [
        *_ENGINE_TRAIN,
        ("verl/workers/engine/base.py", 128, "train_batch", "grad_norm = self.optimizer_step()"),
        (_ENGINE, 826, "optimizer_step", "self.optimizer.step()"),
        *_ADAM,
    ],
    ("engine", "old_log_prob"): [
        ("verl/workers/engine_workers.py", 704, "compute_log_prob", "output = self.actor.infer_batch(data)"),
        *_ENGINE_INFER,
    ],
    ("engine", "ref_log_prob"): [
        (
            "verl/workers/engine_workers.py",
            697,
            "compute_ref_log_prob",
            "output = self.ref.infer_batch(data=data)",
        ),
        *_ENGINE_INFER,
    ],
    ("engine", "wake_up"): [
        (
            "verl/workers/engine_workers.py",
            822,
            "update_weights",
            'await self.rollout.resume(tags=["kv_cache"])',
        ),
        (
            "verl/workers/rollout/vllm_rollout/vllm_rollout.py",
            202,
            "resume",
            "await self.server_handle.wake_up.remote(tags=tags)",
        ),
        *_VLLM_WAKE,
    ],
    ("legacy", "actor_update"): [
        *_LEGACY_UPDATE,
        (_LEGACY_ACTOR, 588, "update_policy", "outputs = self._forward_micro_batch("),
        *_LEGACY_FORWARD,
    ],
    ("legacy", "optimizer_step"): [
        *_LEGACY_UPDATE,
        (_LEGACY_ACTOR, 672, "update_policy", "grad_norm = self._optimizer_step()"),
        (_LEGACY_ACTOR, 419, "_optimizer_step", "self.actor_optimizer.step()"),
        *_ADAM,
    ],
    ("legacy", "old_log_prob"): [
        (
            "verl/workers/fsdp_workers.py",
            1112,
            "compute_log_prob",
            "outputs = self.actor.compute_log_prob(data=data, calculate_entropy=True)",
        ),
        *_LEGACY_LOG_PROB,
    ],
    ("legacy", "ref_log_prob"): [
        (
            "verl/workers/fsdp_workers.py",
            1165,
            "compute_ref_log_prob",
            "outputs = self.ref_policy.compute_log_prob(data=data, calculate_entropy=False)",
        ),
        *_LEGACY_LOG_PROB,
    ],
    ("legacy", "wake_up"): [
        ("verl/workers/fsdp_workers.py", 812, "rollout_mode", 'await self.rollout.resume(tags=["kv_cache"])'),
        *_VLLM_WAKE,
    ],
    ("sharding", "wake_up"): [
        ("verl/workers/fsdp_workers.py", 653, "generate_sequences", "with self.rollout_sharding_manager:"),
        (
            "verl/workers/sharding_manager/fsdp_vllm.py",
            228,
            "__enter__",
            'self.inference_engine.wake_up(tags=["kv_cache"])',
        ),
        *_VLLM_WAKE,
    ],
}

METHODS = {
    "actor_update": "update_actor",
    "optimizer_step": "update_actor",
    "step_check": "update_actor",
    "old_log_prob": "compute_log_prob",
    "ref_log_prob": "compute_ref_log_prob",
    "wake_up": "update_weights",
}


def generation(version):
    """Which of the three stacks a verl version has."""
    if version >= (0, 8, 0):
        return "engine"
    return "legacy" if version >= (0, 6, 0) else "sharding"


def stack(version, phase):
    """The frames of one phase, outermost first; before 0.6 only the wake-up differs from "legacy"."""
    own = generation(version)
    return DISPATCH + FRAMES.get((own, phase), FRAMES.get(("legacy", phase), []))


def method(version, phase, uses_ref):
    """The Ray method that fails, as Ray prints it: ray::WorkerDict.<role>_<method>."""
    role = "actor_rollout_ref" if uses_ref and version >= (0, 8, 0) else "actor_rollout"
    name = METHODS.get(phase, phase)
    if phase == "wake_up" and version < (0, 8, 0):
        name = "rollout_mode" if version >= (0, 6, 0) else "generate_sequences"
    if phase == "ref_log_prob" and role == "actor_rollout":
        role = "ref"
    return f"{role}_{name}"


def render(frames):
    """The frames as Python prints them, without the message."""
    return "\n".join(
        f'  File "{SITE}{path}", line {line}, in {name}\n    {code}' for path, line, name, code in frames
    )
