"""Supervised fine-tuning with TRL, from the configuration in a folder; each text has `block_size` tokens."""
from dataclasses import dataclass

import tiny
from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser
from trl import SFTConfig, SFTTrainer


@dataclass
class Model:
    model_name_or_path: str = "model"
    block_size: int = 256


model, args = HfArgumentParser((Model, SFTConfig)).parse_args_into_dataclasses()
network = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model.model_name_or_path))
rows = Dataset.from_dict({"input_ids": [list(range(model.block_size))] * 256})
SFTTrainer(network, args, train_dataset=rows, processing_class=tiny.tokenizer()).train()
