#!/usr/bin/env python3
"""Measures the peak memory of real PyTorch training steps on one GPU, as rows for the memory model.

    benches/gpu/measure.py --dry-run                 the grid, one JSON line each; needs neither PyTorch nor a GPU
    benches/gpu/measure.py > rows.jsonl              measures all of it; nothing is downloaded, weights are random
    benches/gpu/measure.py --only 0.5b > rows.jsonl  rows whose id contains this

Each row is measured in a process of its own, so that no cache of the allocator is inherited and an out-of-memory ends
nothing else. A row is printed twice, for what the allocator handed out (`allocated`) and for what it had taken
(`reserved`), in the fields of docs/memory.md. See benches/data/README.md for what becomes of them.
"""
import argparse
import itertools
import json
import subprocess
import sys

GIB = 1024**3
STEPS = 3

# name: layers, hidden, heads, heads for keys and values, MLP. Decoders in Llama's form.
SIZES = {
    "0.1b": (12, 768, 12, 12, 2048),
    "0.5b": (24, 1024, 16, 4, 2816),
    "1.5b": (28, 1536, 12, 2, 8960),
    "3b": (36, 2048, 16, 2, 11008),
}
PRECISIONS = ["fp32", "amp", "pure_bf16"]
CHECKPOINTING = ["none", "full"]
BATCHES = [(1, 1024), (4, 1024), (1, 4096), (8, 2048)]
VOCABULARIES = [32000, 152064]


def grid():
    """Every row that is measured, without its result."""
    axes = itertools.product(SIZES.items(), PRECISIONS, CHECKPOINTING, BATCHES, VOCABULARIES)
    for (name, dims), precision, checkpointing, (batch, length), vocab in axes:
        layers, hidden, heads, kv_heads, ffn = dims
        group = f"torch-{name}-{precision}-{checkpointing}-{vocab}"
        yield {
            "id": f"{group}-{batch}x{length}",
            "group": group,
            "source": "benches/gpu/measure.py",
            "framework": "pytorch",
            "task": "pretrain",
            "params_b": round(parameters(layers, hidden, heads, kv_heads, ffn, vocab) / 1e9, 4),
            "layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads,
            "head_dim": hidden // heads, "ffn": ffn, "vocab": vocab, "mlp": "swiglu", "tied": False,
            "gpus": 1, "dp": 1, "tp": 1, "pp": 1, "cp": 1, "sharding": "none", "offload": "none",
            "precision": precision, "optimizer": "adamw", "grad_checkpointing": checkpointing,
            "attention": "sdpa", "micro_batch": batch, "seq_len": length, "grad_accum": 1,
            "lora_r": 0, "quant": "none", "compile": False, "loss_impl": "ce", "confidence": "high",
        }


def parameters(layers, hidden, heads, kv_heads, ffn, vocab):
    """Weights of the decoder below."""
    head = hidden // heads
    attention = 2 * hidden * head * (heads + kv_heads)
    return layers * (attention + 3 * hidden * ffn + 2 * hidden) + 2 * vocab * hidden + hidden


def decoder(row):
    """The model, on the GPU."""
    import torch
    from torch import nn
    from torch.nn import functional as f
    from torch.utils.checkpoint import checkpoint

    hidden, heads, kv_heads, head = row["hidden"], row["heads"], row["kv_heads"], row["head_dim"]

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
            self.query = nn.Linear(hidden, heads * head, bias=False)
            self.key = nn.Linear(hidden, kv_heads * head, bias=False)
            self.value = nn.Linear(hidden, kv_heads * head, bias=False)
            self.out = nn.Linear(heads * head, hidden, bias=False)
            self.gate = nn.Linear(hidden, row["ffn"], bias=False)
            self.up = nn.Linear(hidden, row["ffn"], bias=False)
            self.down = nn.Linear(row["ffn"], hidden, bias=False)

        def forward(self, x):
            y = self.before(x)

            def split(z, n):
                return z.view(*z.shape[:2], n, head).transpose(1, 2)

            query, key, value = split(self.query(y), heads), split(self.key(y), kv_heads), split(self.value(y), kv_heads)
            shared = heads // kv_heads
            key, value = (z.repeat_interleave(shared, 1) for z in (key, value))
            y = f.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            y = self.between(x)
            return x + self.down(f.silu(self.gate(y)) * self.up(y))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(row["vocab"], hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(row["layers"]))
            self.last = nn.RMSNorm(hidden)
            self.head = nn.Linear(hidden, row["vocab"], bias=False)

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                full = row["grad_checkpointing"] == "full"
                x = checkpoint(layer, x, use_reentrant=False) if full else layer(x)
            return self.head(self.last(x))

    model = Decoder()
    model = model.to(torch.bfloat16) if row["precision"] == "pure_bf16" else model
    return model.to("cuda")


def train(row):
    """Some steps; the peaks of the allocator in bytes and the GPU's capacity."""
    import torch
    from torch.nn import functional as f

    torch.manual_seed(0)
    total = torch.cuda.get_device_properties(0).total_memory
    told = {
        "gpu_type": torch.cuda.get_device_name(0),
        "gpu_total_gib": round(total / GIB, 3),
        "notes": f"torch {torch.__version__}, random weights, grouped heads repeated, {STEPS} steps",
    }
    try:
        model = decoder(row)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
        shape = (row["micro_batch"], row["seq_len"] + 1)
        for _ in range(STEPS):
            tokens = torch.randint(row["vocab"], shape, device="cuda")
            with torch.autocast("cuda", torch.bfloat16, enabled=row["precision"] == "amp"):
                logits = model(tokens[:, :-1])
                loss = f.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del logits, loss
        torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError:
        return told | {"allocated": None, "reserved": None}
    return told | {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
    }


def rows(row, measured):
    """One row for each way to count."""
    peaks = {metric: measured.pop(metric) for metric in ("allocated", "reserved")}
    for metric, peak in peaks.items():
        gib = None if peak is None else round(peak / GIB, 3)
        found = {"metric": metric, "measured_peak_gib": gib, "fits": peak is not None}
        yield row | measured | found | {"id": f"{row['id']}-{metric}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="print the grid and measure nothing")
    parser.add_argument("--only", default="", help="rows whose id contains this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = [row for row in grid() if options.only in row["id"]]
    if options.one:
        print(json.dumps(train(next(row for row in wanted if row["id"] == options.one))))
        return 0
    for row in wanted:
        if options.dry_run:
            print(json.dumps(row))
            continue
        command = [sys.executable, __file__, "--one", row["id"]]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print(f"{row['id']}: not measured (exit code {done.returncode})", file=sys.stderr)
            continue
        for line in rows(row, json.loads(done.stdout.splitlines()[-1])):
            print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
