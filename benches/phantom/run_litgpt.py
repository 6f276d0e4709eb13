"""litgpt's own fine-tuning as its published tables ran it, on texts of one length: run_litgpt.py MODEL LENGTH MICRO_BATCH full|lora [R TARGETS] [QUANTIZE]."""
import dataclasses, json, os, sys
import torch, yaml
from litgpt import Config
from litgpt.model import GPT
from tokenizers import Tokenizer, models, pre_tokenizers

name, length, micro, method, *rest = sys.argv[1:]
rank, targets, quantize = (rest + ["", "", ""])[:3]
ckpt = os.path.join("checkpoints", "x", name)
os.makedirs(ckpt)
config = Config.from_name(name)
with open(os.path.join(ckpt, "model_config.yaml"), "w") as f:
    yaml.dump(dataclasses.asdict(config), f)
with torch.device("meta"):
    shapes = {k: v.shape for k, v in GPT(dataclasses.replace(config, **({"rope_adjustments": None} if hasattr(config, "rope_adjustments") else {}))).state_dict().items()}
zero = torch.zeros(1, dtype=torch.bfloat16)
torch.save({k: zero.expand(s) for k, s in shapes.items()}, os.path.join(ckpt, "lit_model.pth"))
t = Tokenizer(models.WordLevel({"a": 0, "<s>": 1, "</s>": 2, "[UNK]": 3}, unk_token="[UNK]"))
t.pre_tokenizer = pre_tokenizers.Whitespace()
t.save(os.path.join(ckpt, "tokenizer.json"))
with open(os.path.join(ckpt, "tokenizer_config.json"), "w") as f:
    json.dump({"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False}, f)
row = {"instruction": "a", "input": "", "output": "a " * int(length)}
with open("data.json", "w") as f:
    json.dump([row] * 200, f)
words = ["litgpt", "finetune_lora" if method == "lora" else "finetune_full", ckpt, "--out_dir", "out", "--precision", "bf16-true", "--devices", "1",
         "--data", "JSON", "--data.json_path", "data.json", "--data.val_split_fraction", "0.1", "--data.num_workers", "0",
         "--train.global_batch_size", str(2 * int(micro)), "--train.micro_batch_size", micro, "--train.max_seq_length", length, "--train.epochs", "1",
         "--train.max_steps", "3", "--eval.interval", "100", "--eval.max_iters", "2", "--logger_name", "csv"]
if method == "lora":
    words += ["--lora_r", rank] + [w for k in ("query", "key", "value", "projection", "mlp", "head") for w in ("--lora_" + k, "true" if targets == "all" or k in targets.split(",") else "false")]
if quantize:
    words += ["--quantize", quantize]
sys.argv = words
from litgpt.__main__ import main
main()
