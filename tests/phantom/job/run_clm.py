"""A causal language model with the Trainer of transformers, from the configuration in a folder; each text has `block_size` tokens."""
from dataclasses import dataclass

from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments, default_data_collator


@dataclass
class Model:
    model_name_or_path: str = "model"
    block_size: int = 256


model, args = HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
config = AutoConfig.from_pretrained(model.model_name_or_path)
ids = list(range(model.block_size))
rows = Dataset.from_dict({"input_ids": [ids] * 256, "labels": [ids] * 256})
network = AutoModelForCausalLM.from_config(config)
Trainer(network, args, default_data_collator, rows).train()
