"""huggingface/peft's own comparison of methods (method_comparison/MetaMathQA), on texts of one length: run_peft.py FOLDER EXPERIMENT LENGTH.

FOLDER is a checkout's method_comparison/MetaMathQA, EXPERIMENT a folder of its `experiments`. Weights are hollow, tokenizer and texts are of this file; model, adapter,
optimizer, training loop and its emptying of the cache are the source's. The first batches are short, so that the longest one finds the optimizer's states; the cache
is emptied before it, as the source does at the start of each of its buckets.
"""
import json
import os
import sys

from tokenizers import Tokenizer, models, pre_tokenizers

import hollow
from decoders import MODELS

folder, experiment, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
home, name = os.getcwd(), "meta-llama/Llama-3.2-3B"
SIZES = MODELS["llama-3.2-3b"]
os.makedirs(name)
hollow.write(name, SIZES)
with open(os.path.join(name, "config.json"), "w") as file:
    json.dump({"architectures": ["LlamaForCausalLM"], "bos_token_id": 128000, "eos_token_id": 128001, **SIZES}, file)
ends = ["<|begin_of_text|>", "<|end_of_text|>"]
words = Tokenizer(models.WordLevel({**{"w%d" % n: n for n in range(128000)}, ends[0]: 128000, ends[1]: 128001}, unk_token="w0"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.add_special_tokens(ends)
words.save(os.path.join(name, "tokenizer.json"))
with open(os.path.join(name, "tokenizer_config.json"), "w") as file:
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": ends[0], "eos_token": ends[1]}, file)
os.symlink(os.path.join(folder, "experiments"), "experiments")
sys.path.insert(0, folder)
import run  # noqa: E402


class Texts:
    """Four batches: two short ones, then the longest and one that is shorter. One text of each is longer than the others, so batches are padded."""

    lengths = [64] * 8 + [length] + [length * 9 // 10] * 7

    def __len__(self):
        return 4096

    def __getitem__(self, rows):
        ids = [list(range(5, 5 + self.lengths[row % len(self.lengths)])) for row in range(4096)[rows]]
        return {"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids], "response": ["w1"] * len(ids)}


def loss_of_base(**options):
    """The source's own pass over four long texts; what it returns is read back, and checked."""
    mean_loss(**{**options, "rows": ["w1 " * 800] * 4})
    return 1.5


mean_loss, run.calculate_mean_per_token_loss = run.calculate_mean_per_token_loss, loss_of_base
run.get_train_valid_test_datasets = lambda **_options: (Texts(), Texts(), Texts())
run.get_wiki_small, run.get_peft_branch = list, str
run.get_base_model_info = run.get_dataset_info = lambda _name: None
run.BUCKET_FACTOR = run.ACCELERATOR_EMPTY_CACHE_SCHEDULE = 2
run.print_verbose = print
run.main(path_experiment="experiments/" + experiment, experiment_name=experiment, clean=True, bucket_name=None)
