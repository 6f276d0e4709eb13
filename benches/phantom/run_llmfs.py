"""rasbt/LLMs-from-scratch, ch05/10_llm-training-speed: `run_llmfs.py FOLDER TIP`, its scripts as its README changes them tip by tip.

TIP is 0 (the original) to 10, or 11 for DistributedDataParallel. A character is a token, and the book is as long as its 51 batches an epoch say. Workers of
the loader are left out: they hold no memory of the GPU.
"""
import os
import re
import sys
import types

folder, tip = sys.argv[1], int(sys.argv[2])
name = "00_orig.py" if tip < 7 else "01_opt_single_gpu.py" if tip < 11 else "02_opt_multi_gpu_ddp.py"
with open(os.path.join(folder, name)) as file:
    text = file.read()


def change(old, new, least=1):
    global text
    assert text.count(old) >= least, old
    text = text.replace(old, new)


change("num_workers=4", "num_workers=0")
if 1 <= tip < 7:
    change('self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))', "pass")
    change("self.mask.bool()[:num_tokens, :num_tokens]", "torch.triu(torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=x.device), diagonal=1)")
if 2 <= tip < 7:
    change("    torch.manual_seed(123)\n", '    torch.manual_seed(123)\n    torch.set_float32_matmul_precision("high")\n')
if 3 <= tip < 7:
    change('weight_decay=settings["weight_decay"]\n', 'weight_decay=settings["weight_decay"], fused=True\n')
if 4 <= tip < 7:
    change("num_workers=num_workers)", "num_workers=num_workers, pin_memory=True)")
if 5 <= tip < 7:
    change("model.to(device)  #", "model.to(device).to(torch.bfloat16)  #")
if tip == 6:
    change(" GELU()", ' nn.GELU(approximate="tanh")')
    text = re.sub(r"(?<!nn\.)\bLayerNorm\(cfg", "nn.LayerNorm(cfg", text)
if tip == 7:
    change("    model = torch.compile(model)\n", "")
if tip in (7, 8):
    change('"vocab_size": 50304', '"vocab_size": 50257')
if tip in (7, 8, 9):
    change('"batch_size": 32', '"batch_size": 8')


class Encoding:
    def encode(self, text, **_more):
        return [ord(letter) for letter in text]

    def decode(self, ids):
        return "a" * len(ids)


tiktoken = types.ModuleType("tiktoken")
tiktoken.get_encoding = lambda _name: Encoding()
sys.modules["tiktoken"] = tiktoken
with open("middlemarch.txt", "w") as file:
    file.write("a" * 465_000)
# torch.compile reads a function's lines.
with open(name, "w") as file:
    file.write(text)
sys.argv = [name]
exec(compile(text, os.path.abspath(name), "exec"), {"__name__": "__main__"})
