"""A causal language model with the Trainer of transformers, as run_clm.py names its options; each text has `block_size` tokens."""
from dataclasses import dataclass

import torch
from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments, default_data_collator
from transformers.initialization import no_init_weights


@dataclass
class Model:
    model_name_or_path: str = "model"
    block_size: int = 256
    torch_dtype: str = "float32"
    attn_implementation: str = "sdpa"
    lora_r: int = 0
    lora_target_modules: str = "all-linear"


model, args = HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
config = AutoConfig.from_pretrained(model.model_name_or_path)
ids = list(range(model.block_size))
rows = Dataset.from_dict({"input_ids": [ids] * 4096, "labels": [ids] * 4096})
# Weights stay memory of the host that nobody wrote: a model of 8B costs none.
with no_init_weights():
    network = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, model.torch_dtype), attn_implementation=model.attn_implementation)
network.tie_weights()
if model.lora_r:
    from peft import LoraConfig, get_peft_model

    targets = model.lora_target_modules
    targets = targets if targets == "all-linear" else targets.split(",")
    network = get_peft_model(network, LoraConfig(r=model.lora_r, target_modules=targets))
    network.enable_input_require_grads()
Trainer(network, args, default_data_collator, rows).train()
