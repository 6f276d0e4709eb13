"""A decoder's steps, as users write them. WORLD ranks with FSDP2 where it is set; FAIL asks for more than any card has; COMPILE compiles it; CHECKPOINT loads weights and saves them after each step; SEVEN makes it as large as Llama-2-7B."""
import io
import os

import torch
import torch.nn.functional as F
from torch import nn

H, LAYERS, HEADS, VOCAB, FFN, BATCH, LENGTH = 512, 4, 8, 16000, 1408, 4, 512
if "SEVEN" in os.environ:
    H, LAYERS, HEADS, VOCAB, FFN, BATCH, LENGTH = 4096, 32, 32, 32000, 11008, 2, 2048
world = int(os.environ.get("WORLD_SIZE", "1"))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.RMSNorm(H), nn.RMSNorm(H)
        self.qkv, self.out = nn.Linear(H, 3 * H, bias=False), nn.Linear(H, H, bias=False)
        self.up, self.down = nn.Linear(H, FFN, bias=False), nn.Linear(FFN, H, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, t, 3, HEADS, H // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, H))
        return x + self.down(F.silu(self.up(self.after(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, H)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(H, VOCAB, bias=False)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


if world > 1:
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("nccl")
    with torch.device("meta"):
        model = Decoder()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device="cuda")
else:
    model = Decoder().cuda()
if "COMPILE" in os.environ:
    model = torch.compile(model)
if "CHECKPOINT" in os.environ:
    torch.save(model.state_dict(), saved := io.BytesIO())
    saved.seek(0)
    model.load_state_dict(torch.load(saved, map_location="cuda"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(100):
    x = torch.randint(0, VOCAB, (BATCH, LENGTH), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=world == 1):
        loss = F.cross_entropy(model(x).float().view(-1, VOCAB), x.view(-1))
    if "FAIL" in os.environ:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if "CHECKPOINT" in os.environ:
        torch.save(model.state_dict(), io.BytesIO())
    print("loss", loss.item() if world == 1 else "")
