"""A causal language model with the Trainer of transformers, as run_clm.py names its options; each text has `block_size` tokens."""
from dataclasses import dataclass

import torch
import transformers
from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments, default_data_collator

try:
    from transformers.initialization import no_init_weights
except ImportError:
    from transformers.modeling_utils import no_init_weights

# Its name until transformers 5.
DTYPE = "dtype" if transformers.__version__ >= "5" else "torch_dtype"


@dataclass
class Model:
    model_name_or_path: str = "model"
    block_size: int = 256
    torch_dtype: str = "float32"
    attn_implementation: str = "sdpa"
    lora_r: int = 0
    lora_target_modules: str = "all-linear"
    quant: str = "none"


model, args = HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
config = AutoConfig.from_pretrained(model.model_name_or_path)
ids = list(range(model.block_size))
rows = Dataset.from_dict({"input_ids": [ids] * 4096, "labels": [ids] * 4096})
dtype = getattr(torch, model.torch_dtype)
if model.quant == "none":
    # Weights stay memory of the host that nobody wrote: a model of 8B costs none.
    with no_init_weights():
        network = AutoModelForCausalLM.from_config(config, attn_implementation=model.attn_implementation, **{DTYPE: dtype})
    network.tie_weights()
else:
    from peft import prepare_model_for_kbit_training

    quantised = transformers.BitsAndBytesConfig(load_in_8bit=model.quant == "int8", load_in_4bit=model.quant != "int8", bnb_4bit_quant_type="nf4",
                                                bnb_4bit_compute_dtype=dtype, bnb_4bit_use_double_quant=model.quant == "nf4-dq")
    network = AutoModelForCausalLM.from_pretrained(model.model_name_or_path, quantization_config=quantised, attn_implementation=model.attn_implementation,
                                                   **{DTYPE: dtype})
    network = prepare_model_for_kbit_training(network, use_gradient_checkpointing=args.gradient_checkpointing)
if model.lora_r:
    from peft import LoraConfig, get_peft_model

    targets = model.lora_target_modules
    targets = targets if targets == "all-linear" else targets.split(",")
    network = get_peft_model(network, LoraConfig(r=model.lora_r, target_modules=targets))
    network.enable_input_require_grads()
Trainer(network, args, default_data_collator, rows).train()
