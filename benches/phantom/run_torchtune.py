"""torchtune's own recipes (0.4, 0.6): `run_torchtune.py RECIPE CONFIG LENGTH [KEY=VALUE...]`, with a configuration that its wheel has.

The weights are a hollow checkpoint in `model`, made here for a MODEL of decoders.py (`hollow=MODEL`); tokenizer and texts are of this file. Everything else is the
recipe's. With `dataset.packed=True` its own packing makes rows of LENGTH tokens of 32 texts each.
"""
import json
import os
import runpy
import sys

import torchtune


class Tokenizer:
    pad_id, eos_id, max_seq_len = 0, 0, None


class Texts:
    """Texts of one length."""

    def __init__(self, _tokenizer, length):
        self.length = length

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        ids = list(range(1, self.length + 1))
        return {"tokens": ids, "labels": ids}


def tokenizer():
    return Tokenizer()


def texts(tokenizer, length, packed=False):
    if not packed:
        return Texts(tokenizer, length)
    from torchtune.datasets import PackedDataset
    return PackedDataset(Texts(tokenizer, length // 32), max_seq_len=length)


def made(model):
    """The hollow checkpoint."""
    import hollow
    from decoders import MODELS
    os.makedirs("model")
    hollow.write("model", MODELS[model])
    with open("model/config.json", "w") as file:
        json.dump(MODELS[model], file)


if __name__ == "__main__":
    recipe, config, length, *words = sys.argv[1:]
    if words and words[0].startswith("hollow="):
        made(words.pop(0)[7:])
    folder = os.path.join(os.path.dirname(os.path.dirname(torchtune.__file__)), "recipes")
    sys.argv = [recipe, "--config", os.path.join(folder, "configs", config + ".yaml"), "output_dir=out", "checkpointer.checkpoint_dir=model",
                "checkpointer.checkpoint_files=[model.safetensors]", "checkpointer.output_dir=out", "~tokenizer.path",
                "tokenizer._component_=run_torchtune.tokenizer", "dataset._component_=run_torchtune.texts", "dataset.length=" + length,
                *([] if "dataset.packed=True" in words else ["~dataset.packed"]),
                "metric_logger._component_=torchtune.training.metric_logging.DiskLogger", "metric_logger.log_dir=out", "~tokenizer.max_seq_len",
                *(["~tokenizer.merges_file"] if config.startswith("qwen") else []), *words]
    runpy.run_path(os.path.join(folder, recipe + ".py"), run_name="__main__")
