"""A loop of one's own, in which accelerate accumulates, saves and loads."""

import argparse
import glob

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import set_seed

import tiny

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--max_steps", type=int, default=8)
parser.add_argument("--save_steps", type=int, default=2)
parser.add_argument("--output_dir", default="out")
args = parser.parse_args()


class Progress:
    """The optimizer steps that are done; part of a checkpoint."""

    step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


set_seed(42)
accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
tokenizer = tiny.tokenizer()
rows = torch.tensor(tokenizer(tiny.TEXTS)["input_ids"])
model = tiny.model()
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), lr=0.01), torch.utils.data.DataLoader(rows, args.batch_size)
)
progress = Progress()
accelerator.register_for_checkpointing(progress)
saved = sorted(glob.glob(f"{args.output_dir}/step-*"))
if saved:
    accelerator.load_state(saved[-1])
print(f"batch {loader.total_batch_size}, accumulation {accelerator.gradient_accumulation_steps}, from {progress.step}")
total = 0.0
for batch in skip_first_batches(loader, progress.step * accelerator.gradient_accumulation_steps):
    with accelerator.accumulate(model):
        loss = model(input_ids=batch, labels=batch).loss
        total += loss.item() / accelerator.gradient_accumulation_steps
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    if not accelerator.sync_gradients:
        continue
    progress.step += 1
    print(f"step {progress.step}/{args.max_steps} 'loss': {total}", flush=True)
    total = 0.0
    if progress.step % args.save_steps == 0:
        accelerator.save_state(f"{args.output_dir}/step-{progress.step:06}")
    if progress.step == args.max_steps:
        break
