"""A first job: trains a small transformer on random tokens and prints its loss. Needs PyTorch, and no data."""

import argparse

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, vocab, hidden, layers, seq_len):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.position = nn.Parameter(torch.zeros(seq_len, hidden))
        layer = nn.TransformerEncoderLayer(hidden, hidden // 64, 4 * hidden, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens) + self.position))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--seq_len", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocab = 8192
    model = Model(vocab, args.hidden, args.layers, args.seq_len).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(1, args.steps + 1):
        for _ in range(args.gradient_accumulation_steps):
            tokens = torch.randint(vocab, (args.batch_size, args.seq_len), device=device)
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            (loss / args.gradient_accumulation_steps).backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}/{args.steps} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
