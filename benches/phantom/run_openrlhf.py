"""OpenRLHF's own trainers without flash-attn, whose extension is compiled by CUDA's compiler: `run_openrlhf.py train_sft|train_dpo OPTION...`.

OpenRLHF imports functions of flash-attn that only packed samples need. They have names here and do nothing but end: measure with
`--ds.attn_implementation sdpa`, without `--ds.packing_samples`.
"""
import importlib.machinery
import runpy
import sys
import types


def missing(*_args, **_more):
    raise NotImplementedError("flash-attn is not here: packed samples need it")


def stand_in(name, *functions):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    for function in functions:
        setattr(module, function, missing)
    sys.modules[name] = module


if __name__ == "__main__":
    # transformers and DeepSpeed ask whether it is there: they are loaded before it seems to be.
    import deepspeed  # noqa: F401
    import transformers.models.auto.modeling_auto  # noqa: F401

    stand_in("flash_attn")
    stand_in("flash_attn.bert_padding", "index_first_axis", "pad_input", "rearrange", "unpad_input")
    stand_in("flash_attn.utils")
    stand_in("flash_attn.utils.distributed", "all_gather")
    trainer, *words = sys.argv[1:]
    sys.argv = [trainer, *words]
    runpy.run_module("openrlhf.cli." + trainer, run_name="__main__")
