"""huggingface/nanoVLM's own measure_vram.py: `run_nanovlm.py CHECKOUT BATCHES`, with a tokenizer, images and texts of this file.

BATCHES are the sizes that it tries one after the other, of which the last is the largest: what a size leaves behind is there for the next.
Its batches are padded to one length, so texts do not matter. Weights are not loaded: they are made as large as they are.
"""
import os
import runpy
import sys

import PIL.Image
import datasets
import tokenizers
import torch
import transformers

checkout, batches = sys.argv[1:]
os.chdir(checkout)
sys.path.insert(0, checkout)


def tokenizer(_name, extra_special_tokens=None, **_more):
    model = tokenizers.models.WordLevel({"<|endoftext|>": 0, "a": 1, "[UNK]": 2}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>", unk_token="[UNK]")
    if extra_special_tokens:
        fast.add_special_tokens({"additional_special_tokens": list(extra_special_tokens.values())})
        fast.image_token = extra_special_tokens["image_token"]
        fast.image_token_id = fast.convert_tokens_to_ids(fast.image_token)
    return fast


class Rows(list):
    def select(self, which):
        return Rows(self[:len(which)])


def rows(_path, _name=None, split=None):
    if split is None:
        return {"train": None}
    one = {"images": [PIL.Image.new("RGB", (224, 224))], "texts": [{"user": "a a a", "assistant": "a a a"}]}
    return Rows([one] * 2 * int(batches.split()[-1]))


transformers.AutoTokenizer.from_pretrained = tokenizer
datasets.load_dataset = rows
import models.config as config

begin = config.VLMConfig.__init__


def unloaded(self, *args, **kwargs):
    begin(self, *args, **{"vlm_load_backbone_weights": False, **kwargs})


config.VLMConfig.__init__ = unloaded
# Initial values of weights are never seen: they stay memory of the host that nobody wrote.
for name in ("normal_", "uniform_", "trunc_normal_", "xavier_uniform_", "kaiming_uniform_", "kaiming_normal_"):
    setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)
sys.argv = ["measure_vram.py", "--batch_sizes", batches]
runpy.run_path("measure_vram.py", run_name="__main__")
