"""verl's own FSDP engine (0.9) with the policy loss of GRPO: one mini batch in micro batches, as its worker trains it; with --log-prob 1 after their
log-probabilities.

flash-attn is an extension for CUDA that a phantom does not run: stand-ins keep the tensors that its attention and its cross entropy keep
(flash_attn/flash_attn_interface.py, ops/triton/cross_entropy.py).
"""
import argparse
import functools

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM
from transformers.initialization import no_init_weights
import verl.utils.torch_functional as functional
import verl.workers.engine.fsdp.transformer_impl as implementation
import verl.workers.utils.losses as losses
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig, FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, inplace):
        lost = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
        ctx.save_for_backward(logits, torch.empty_like(lost), labels)
        ctx.inplace = inplace
        return lost

    @staticmethod
    def backward(ctx, _gradient):
        logits, _lse, _labels = ctx.saved_tensors
        return (logits if ctx.inplace else torch.empty_like(logits)), None, None


def cross_entropy_loss(logits, labels, inplace_backward=False, **_more):
    lost = CrossEntropy.apply(logits, labels, inplace_backward)
    return lost, torch.zeros_like(lost)


functional.FLAH_ATTN_CROSS_ENTROPY_LOSS_AVAILABLE, functional.cross_entropy_loss = True, cross_entropy_loss


def packed_attention(module, query, key, value, _mask, scaling=None, dropout=0.0, **_more):
    """Attention of one packed row: flash-attn's variable lengths keep the same tensors as one long causal sequence."""
    out = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("packed", packed_attention)
AttentionMaskInterface.register("packed", lambda *_args, **_more: None)


def from_config(pretrained_model_name_or_path, config, torch_dtype, **_more):
    """Weights stay memory of the host that nobody wrote."""
    with no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=torch_dtype)
    model.tie_weights()
    return model


AutoModelForCausalLM.from_pretrained = staticmethod(from_config)

parser = argparse.ArgumentParser()
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--micro", type=int, default=4)
parser.add_argument("--micros", type=int, default=2)
parser.add_argument("--strategy", default="fsdp")
parser.add_argument("--entropy", type=int, default=0)
parser.add_argument("--checkpointing", type=int, default=1)
parser.add_argument("--lora", type=int, default=0)
parser.add_argument("--no-sync", type=int, default=0)
parser.add_argument("--compile", type=int, default=1)
parser.add_argument("--log-prob", type=int, default=0)
args = parser.parse_args()

torch.distributed.init_process_group("nccl")
torch.cuda.set_device(0)
model = HFModelConfig(path="model", load_tokenizer=False, override_config={"attn_implementation": "packed"}, lora_rank=args.lora,
                      enable_gradient_checkpointing=bool(args.checkpointing))
engine = FSDPEngineConfig(strategy=args.strategy, use_torch_compile=bool(args.compile),
                          use_no_sync_for_gradient_accumulation=bool(args.no_sync))
trainer = implementation.FSDPEngineWithLMHead(model, engine, FSDPOptimizerConfig(lr=1e-6), CheckpointConfig())
trainer.initialize()

count, prompt = args.micro * args.micros, args.length // 2
response = args.length - prompt
nested = functools.partial(torch.nested.nested_tensor, layout=torch.jagged)
rows = TensorDict({
    "input_ids": nested([torch.ones(args.length, dtype=torch.long)] * count),
    "position_ids": nested([torch.arange(args.length)] * count),
    "loss_mask": nested([torch.ones(args.length, dtype=torch.long)] * count),
    "prompts": nested([torch.ones(prompt, dtype=torch.long)] * count),
    "responses": nested([torch.ones(response, dtype=torch.long)] * count),
    "response_mask": torch.ones(count, response, dtype=torch.long),
    "old_log_probs": torch.zeros(count, response),
    "advantages": torch.zeros(count, response),
}, batch_size=[count])
tu.assign_non_tensor(rows, use_dynamic_bsz=False, micro_batch_size_per_gpu=args.micro, temperature=1.0, calculate_entropy=bool(args.entropy),
                     global_batch_size=count, use_remove_padding=True, pad_mode="no_padding", max_response_len=response)
# Where a text ends is read back from the GPU: all are of one length here.
TensorDict.to_padded_tensor = lambda self, *_args, **_more: self
losses.no_padding_2_padding = lambda values, _data: values.values().view(args.micro, args.length)[:, prompt - 1:-1]
functional.expand_as_nested = lambda value, like: torch.nested.nested_tensor_from_jagged(value.repeat_interleave(args.length), like.offsets())
implementation.postprocess_batch_func = lambda **_more: {"metrics": {}}
loss = functools.partial(losses.ppo_loss, FSDPActorConfig(strategy=args.strategy, rollout_n=1, ppo_mini_batch_size=count, ppo_micro_batch_size_per_gpu=args.micro,
                                                   optim=FSDPOptimizerConfig(lr=1e-6), fsdp_config=engine))
for _step in range(3):
    if args.log_prob:
        with trainer.eval_mode():
            tu.assign_non_tensor(rows, calculate_entropy=True)
            trainer.infer_batch(rows)
            tu.assign_non_tensor(rows, calculate_entropy=bool(args.entropy))
    with trainer.train_mode():
        trainer.train_batch(rows, loss)
