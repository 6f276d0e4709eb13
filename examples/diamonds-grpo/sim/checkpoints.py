"""verl's checkpoint folders: `global_step_N/actor/model_world_size_W_rank_R.pt` and `latest_checkpointed_iteration.txt`.

The shards are named after the GPU count, so a run on another number of GPUs does not find its own: as in verl.
"""

from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"


class MissingShard(Exception):
    """The checkpoint was written by another number of GPUs; the text is Python's FileNotFoundError."""


def save(folder, step, gpus):
    """Writes the shards of one step (a few bytes each); the tracker last, so that it never names half a checkpoint."""
    actor = Path(folder) / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True, exist_ok=True)
    for rank in range(gpus):
        for part in ("model", "optim", "extra_state"):
            (actor / f"{part}_world_size_{gpus}_rank_{rank}.pt").write_bytes(b"a shard")
    (Path(folder) / TRACKER).write_text(str(step), encoding="utf-8")


def find(folder, mode, path):
    """The folder to resume from, or None. `mode` is trainer.resume_mode."""
    if mode == "disable":
        return None
    if mode == "resume_path":
        return Path(path)
    tracker = Path(folder) / TRACKER
    if not tracker.is_file():
        return None
    return Path(folder) / f"global_step_{tracker.read_text(encoding='utf-8').strip()}"


def load(checkpoint, gpus):
    """The step of a checkpoint. Raises MissingShard when it has no shard for this number of GPUs."""
    shard = checkpoint / "actor" / f"model_world_size_{gpus}_rank_0.pt"
    if not shard.is_file():
        raise MissingShard(f"FileNotFoundError: [Errno 2] No such file or directory: '{shard}'")
    return int(checkpoint.name.rpartition("_")[2])
