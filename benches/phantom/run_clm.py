"""The Trainer as published recipes use it. The model is made on the device, so that the host holds none of it."""
import json, sys
from dataclasses import dataclass
import torch
import transformers
from datasets import Dataset
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, HfArgumentParser, Trainer,
                          TrainingArguments, default_data_collator)

@dataclass
class Model:
    config: str = ""
    length: int = 512
    dtype: str = "float32"
    attention: str = "sdpa"
    lora: int = 0
    targets: str = ""
    kind: str = "causal"

# Its name until transformers 5.
DTYPE = "dtype" if transformers.__version__ >= "5" else "torch_dtype"
model, args = HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
config = AutoConfig.for_model(**json.loads(model.config))
ids = list(range(model.length))
if model.kind == "causal":
    rows = {"input_ids": [ids] * 512, "attention_mask": [[1] * model.length] * 512, "labels": [ids] * 512}
    make = AutoModelForCausalLM
else:
    rows = {"input_ids": [ids] * 512, "labels": [1] * 512}
    make = AutoModelForSequenceClassification
with torch.device("cuda"):
    network = make.from_config(config, **{DTYPE: getattr(torch, model.dtype)}, attn_implementation=model.attention)
network.config.use_cache = False
if model.lora:
    from peft import LoraConfig, get_peft_model
    network = get_peft_model(network, LoraConfig(r=model.lora, lora_alpha=16, lora_dropout=0.05, target_modules=model.targets.split(",")))
    network.enable_input_require_grads()
Trainer(network, args, train_dataset=Dataset.from_dict(rows), data_collator=default_data_collator).train()
