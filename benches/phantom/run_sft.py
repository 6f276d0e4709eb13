"""Fine-tuning as linkedin/Liger-Kernel's examples/huggingface ran it in September 2024: the Trainer under FSDP1, one length of text a step."""
import json
from dataclasses import dataclass

import torch
from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
from transformers.modeling_utils import no_init_weights


@dataclass
class Job:
    config: str = ""
    lengths: str = "512"
    liger: str = "no"


job, args = HfArgumentParser((Job, TrainingArguments)).parse_args_into_dataclasses()
config = AutoConfig.for_model(**json.loads(job.config))
config.torch_dtype = torch.bfloat16
if job.liger != "no":
    from liger_kernel.transformers.monkey_patch import _apply_liger_kernel, _apply_liger_kernel_to_instance
# Weights stay memory of the host that nobody wrote: a model of 8B costs none.
torch.set_default_dtype(torch.bfloat16)
with no_init_weights():
    if job.liger == "before":
        _apply_liger_kernel(config.model_type)
    model = AutoModelForCausalLM.from_config(config)
    if job.liger == "class":
        _apply_liger_kernel(config.model_type)
    if job.liger == "instance":
        _apply_liger_kernel_to_instance(model)
torch.set_default_dtype(torch.float32)
model.tie_weights()
model.config.use_cache = False
turns = iter([int(length) for length in job.lengths.split(",")] * args.max_steps)


def batch(rows):
    """Texts of the next length. All but the first are padded, as texts of different lengths are: the kernel with a mask."""
    length = next(turns)
    ids = torch.arange(5, 5 + length).repeat(len(rows), 1)
    mask = torch.ones_like(ids)
    mask[1:, : length // 2] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(torch.arange(length) < length // 2, -100, ids)}


Trainer(model, args, data_collator=batch, train_dataset=Dataset.from_dict({"input_ids": [[5]] * 4096})).train()
