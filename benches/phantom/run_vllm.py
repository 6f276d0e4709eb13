"""vLLM's own engine (0.24) with weights that nobody made: its start, some tokens, sleep and waking up, new weights.

`oomctl measure` plays trainers; an engine starts by hand, in the variables that `cargo run -p oomctl-phantom --example start -- FOLDER`
prints, with a card's numbers: `python run_vllm.py qwen2.5-7b '{"max_model_len": 2048, "gpu_memory_utilization": 0.85}'` (keys of `vllm.LLM`).
"""
import argparse
import json
import os
import resource
import time

for variable, value in (("VLLM_ENABLE_V1_MULTIPROCESSING", "0"), ("HF_HUB_OFFLINE", "1")):
    os.environ.setdefault(variable, value)
import torch  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "max_position_embeddings": 32768, "rope_theta": 1e6, "use_sliding_window": False}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "max_position_embeddings": 40960, "rope_theta": 1e6, "head_dim": 128}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 131072, "rope_theta": 5e5, "rope_scaling": {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size", "tie_word_embeddings")
MODELS = {
    "qwen2.5-0.5b": (QWEN2, (896, 4864, 24, 14, 2, 151936, True)),
    "qwen2.5-7b": (QWEN2, (3584, 18944, 28, 28, 4, 152064, False)),
    "qwen3-4b": (QWEN3, (2560, 9728, 36, 32, 8, 151936, True)),
    "qwen3-8b": (QWEN3, (4096, 12288, 36, 32, 8, 151936, False)),
    "llama-3.1-8b": (LLAMA, (4096, 14336, 32, 32, 8, 128256, False)),
}


def say(what):
    free, total = torch.cuda.mem_get_info()
    gib = [value / 2**30 for value in (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, total - free, torch.cuda.memory_allocated(),
                                       torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved())]
    print("phantom: %s after %.1f s; GiB: host at most %.2f, device used %.3f, allocated %.3f (peak %.3f), reserved %.3f" % (
        what, time.monotonic() - begun, *gib), flush=True)


def weights(folder):
    """Names and shapes of the trained model, each tensor on the device when it is asked for, as verl's trainer hands them over."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16)
    for name, value in model.named_parameters():
        yield name, torch.empty(value.shape, dtype=value.dtype, device="cuda")


def main(args):
    from vllm import LLM, SamplingParams

    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), "phantom-" + args.model)
    os.makedirs(folder, exist_ok=True)
    family, sizes = MODELS[args.model]
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"hidden_act": "silu", "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16", **family, **dict(zip(SIZES, sizes))}, file)
    engine = LLM(model=folder, **{"load_format": "dummy", "skip_tokenizer_init": True, **args.options})
    say("started")
    if args.generate:
        prompts = [{"prompt_token_ids": [1] * 512}] * args.generate
        done = engine.generate(prompts, SamplingParams(max_tokens=16, ignore_eos=True, detokenize=False))
        say("%d tokens generated" % sum(len(one.outputs[0].token_ids) for one in done))
    for level in args.sleep:
        engine.sleep(level=level)
        say("asleep (%d)" % level)
        engine.wake_up(tags=["weights"])
        torch.cuda.reset_peak_memory_stats()
        say("weights awake")
        engine.apply_model(lambda model: len(model.load_weights(weights(folder))))
        say("weights updated")
        engine.wake_up(tags=["kv_cache"])
        say("awake")


parser = argparse.ArgumentParser()
parser.add_argument("model", choices=MODELS)
parser.add_argument("options", nargs="?", default={}, type=json.loads)
parser.add_argument("--generate", type=int, default=0, help="requests of 512 tokens each")
parser.add_argument("--sleep", type=int, nargs="*", default=[], help="levels, one after the other")
begun = time.monotonic()
if __name__ == "__main__":
    main(parser.parse_args())
