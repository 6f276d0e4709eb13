"""GPU memory per phase, from stated formulas. No figure here was measured; sources are named.

Units: bytes unless a name ends in _gib (GiB = 2**30 bytes). P parameters, N GPUs that share the FSDP
shards, T tokens of the fullest micro batch on one GPU, V vocabulary, h hidden, L layers, f ffn.

states        fp32 weights, gradients, Adam: (4 + 4 + 8) P / N        ZeRO (Rajbhandari 2019), FSDP mixed precision
              bf16 weights: (2 + 2 + 4) P / N
gathered      two blocks in bf16, embedding and head in bf16, one block's gradients in bf16 and fp32   FSDP prefetch
tokens        T = sequences x (0.20 prompt limit + 0.78 response limit) / sequence parallel with padding removed, the
              limits themselves without; a dynamic batch fills its token budget. The two shares are this example's
              assumption about its data: they are what makes the first attempt need about 100 GiB.
checkpoints   2 h L T with gradient checkpointing; else about 34 h + 16 f bytes a token and layer (Korthikanti 2022, no dropout)
logits        c V T; c = 10 bytes an element in the update (bf16 logits, fp32 copy, softmax), 6 in a log-prob forward;
              chunked entropy drops the fp32 softmax copy (4); fused kernels leave 0.5       verl performance tuning guide
Adam step     foreach temporaries: 0.8 x 4 P / N
rollout       vLLM takes gpu_memory_utilization x the whole card (vLLM manual), plus CUDA graphs outside that share;
              graphs are 2.5 GiB here, and asleep vLLM keeps 3 GiB in all (1 to 3 GiB are reported)
outside       CUDA context 0.92 GiB, NCCL 1.45 GiB and 0.5 GiB for each of two further communicators of the
              training process       ml-engineering (Bekman): context 0.47 to 0.92, 0.3 to 0.5 a communicator
weight sync   one bucket of 2 GiB in the training process       verl, update_weights_bucket_megabytes
fragmentation PyTorch reserves 1.13 x what it allocates, as loops over sequences of changing length do (1.10 to 1.15)

Between the phases verl keeps weights (4 P / N) and Adam's moments (8 P / N) on the GPU unless param_offload and
optimizer_offload are on; during the update all of them are loaded, so offload frees nothing there. vLLM must wake up
beside what stays: that is where offload helps. The constants lie within the ranges above, most of them at the upper
end, so that the second attempt of the story still fails there by half a GiB.
"""

from dataclasses import dataclass

GIB = 2**30
PROMPT_FILL, RESPONSE_FILL = 0.20, 0.78
CONTEXT_GIB, NCCL_GIB = 0.92, 2.45
ASLEEP_GIB, GRAPHS_GIB = 3.0, 2.5
FRAGMENTATION = 1.13
SYNC_BUCKET_GIB = 2.0
VLLM_ACTIVATION_GIB = 1.39
VLLM_NON_TORCH_GIB = {1: 1.79}
VLLM_NON_TORCH_TP_GIB = 3.58
LOGITS_UPDATE, LOGITS_FORWARD, LOGITS_CHUNKED_OFF, LOGITS_FUSED = 10, 6, 4, 0.5
FOREACH_SHARE = 0.8


@dataclass(frozen=True)
class Model:
    """Dimensions of Qwen2.5-7B (its published config.json), the default of this example."""

    name: str = "Qwen2.5-7B"
    hidden: int = 3584
    layers: int = 28
    heads: int = 28
    kv_heads: int = 4
    head_dim: int = 128
    ffn: int = 18944
    vocab: int = 152064
    max_positions: int = 32768

    @property
    def block(self):
        """Parameters of one decoder block: attention with biases on q, k, v; gated MLP; two norms."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * self.hidden * q + 2 * self.hidden * kv + q + 2 * kv
        return attention + 3 * self.hidden * self.ffn + 2 * self.hidden

    @property
    def parameters(self):
        """All of them; embedding and head are untied."""
        return self.layers * self.block + 2 * self.vocab * self.hidden + self.hidden


@dataclass(frozen=True)
class Need:
    """What one phase needs on one GPU, in GiB: by the training process and by vLLM's."""

    phase: str
    allocated_gib: float
    logits_tokens: int
    rollout_gib: float

    @property
    def reserved_gib(self):
        return self.allocated_gib * FRAGMENTATION

    @property
    def total_gib(self):
        return self.reserved_gib + CONTEXT_GIB + NCCL_GIB + self.rollout_gib


class Memory:
    """The formulas above for one setup on GPUs of `card_gib`."""

    def __init__(self, setup, card_gib, model=Model()):
        self.setup, self.card_gib, self.model = setup, card_gib, model

    def phases(self):
        """Every phase of the first step, in the order in which it happens."""
        found = [self.rollout_start(), self.old_log_prob()]
        if self.setup.uses_ref:
            found.append(self.ref_log_prob())
        return [*found, self.actor_update(), self.optimizer_step(), self.wake_up()]

    def shard_gib(self, bytes_per_parameter):
        """A state of so many bytes a parameter, in GiB on one GPU."""
        return bytes_per_parameter * self.model.parameters / self.setup.gpus / GIB

    def tokens(self, sequences, budget):
        """Tokens of the fullest micro batch on one GPU."""
        setup = self.setup
        if setup.dynamic:
            return budget
        fill = (PROMPT_FILL, RESPONSE_FILL) if setup.remove_padding else (1.0, 1.0)
        each = fill[0] * setup.prompt + fill[1] * setup.response
        return int((sequences or 1) * each / setup.sequence_parallel)

    def rollout_start(self):
        """vLLM starts beside the freshly sharded weights; Adam's moments do not exist yet."""
        weights = 0 if self.setup.param_offload else self.shard_gib(self._weight_bytes())
        return Need("rollout_start", weights, 0, self._engine_gib())

    def wake_up(self):
        """After the first update: vLLM takes its KV cache back beside whatever stays resident."""
        return Need("wake_up", self._resident_gib() + SYNC_BUCKET_GIB, 0, self._engine_gib())

    def old_log_prob(self):
        """Forward of the actor over the rollouts, no gradients."""
        setup = self.setup
        tokens = self.tokens(setup.rollout_micro, setup.rollout_budget)
        resident = max(self._resident_gib(), self.shard_gib(self._weight_bytes()))
        return self._forward("old_log_prob", resident, tokens, setup.actor_chunked_entropy)

    def ref_log_prob(self):
        """The same for the reference policy, whose shards verl always keeps on the host between uses."""
        setup = self.setup
        tokens = self.tokens(setup.ref_micro, setup.ref_budget)
        return self._forward("ref_log_prob", self._resident_gib(), tokens, setup.ref_chunked_entropy)

    def actor_update(self):
        """Forward and backward of one micro batch with everything loaded."""
        tokens = self.tokens(self.setup.micro, self.setup.actor_budget)
        base = self._states_gib() + self._gathered_gib() + self._activations_gib(tokens)
        logits = self._logits_gib(tokens, LOGITS_UPDATE, self.setup.actor_chunked_entropy)
        return Need("actor_update", base + logits, tokens, self._asleep_gib())

    def optimizer_step(self):
        """Adam with foreach temporaries; logits and activations are gone."""
        extra = FOREACH_SHARE * self.shard_gib(4)
        return Need("optimizer_step", self._states_gib() + extra, 0, self._asleep_gib())

    def kv_cache_gib(self):
        """What vLLM has left for KV cache on one GPU; negative when weights and activations fill its share."""
        tp = self.setup.tensor_parallel
        outside = VLLM_NON_TORCH_GIB.get(tp, VLLM_NON_TORCH_TP_GIB)
        weights = 2 * self.model.parameters / tp / GIB
        return self.setup.utilization * self.card_gib - weights - VLLM_ACTIVATION_GIB - outside

    def kv_bytes_per_token(self):
        """Keys and values of one token in bf16 on one GPU."""
        model = self.model
        return 2 * 2 * model.layers * model.kv_heads * model.head_dim // self.setup.tensor_parallel

    def host_gib(self):
        """Host memory a node needs: 6 GiB a worker process plus what is offloaded to it."""
        setup = self.setup
        offloaded = (4 if setup.param_offload else 0) + (8 if setup.optimizer_offload else 0)
        offloaded += 4 if setup.uses_ref else 0
        return 6 * setup.gpus_per_node + offloaded * self.model.parameters / setup.nodes / GIB

    def _weight_bytes(self):
        return 2 if self.setup.bf16_weights else 4

    def _states_gib(self):
        if self.setup.lora_rank:
            return self.shard_gib(self._weight_bytes()) + 0.5
        return self.shard_gib(8 if self.setup.bf16_weights else 16)

    def _resident_gib(self):
        """Weights and moments that stay on the GPU between the phases."""
        setup = self.setup
        moments = 0.1 if setup.lora_rank else self.shard_gib(2 * self._weight_bytes())
        weights = self.shard_gib(self._weight_bytes())
        return (0 if setup.param_offload else weights) + (0 if setup.optimizer_offload else moments)

    def _gathered_gib(self):
        model = self.model
        weights = 2 * model.block * 2 + 2 * model.vocab * model.hidden * 2
        return (weights + model.block * (2 + 4)) / GIB

    def _activations_gib(self, tokens):
        model, layers = self.model, self.model.layers
        whole = (34 * model.hidden + 16 * model.ffn) * tokens
        if not self.setup.checkpointing:
            return layers * whole / GIB
        kept = 3 if self.setup.activation_offload else layers
        return 2 * model.hidden * kept * tokens / GIB

    def _logits_gib(self, tokens, width, chunked):
        if self.setup.fused:
            width = LOGITS_FUSED
        elif chunked:
            width -= LOGITS_CHUNKED_OFF
        return tokens * self.model.vocab * width / GIB

    def _forward(self, phase, resident, tokens, chunked):
        work = self._gathered_gib() + 3 * 2 * self.model.ffn * tokens / GIB
        logits = self._logits_gib(tokens, LOGITS_FORWARD, chunked)
        return Need(phase, resident + work + logits, tokens, self._asleep_gib())

    def _engine_gib(self):
        return self.setup.utilization * self.card_gib + (0 if self.setup.eager else GRAPHS_GIB)

    def _asleep_gib(self):
        if not self.setup.free_cache:
            return self._engine_gib()
        return ASLEEP_GIB - (GRAPHS_GIB if self.setup.eager else 0)
