"""GRPO of verl as its worker of rank 0 computes it: log-probabilities and updates by verl's own trainer, worker and FSDP engine, with verl's configuration.

There is no Ray and no engine that answers: prompts, answers and advantages are made up, and this process plays one rank of all.
"""

import os
import sys
import tempfile
from types import SimpleNamespace

import known
import torch
from hydra import compose, initialize_config_module
from omegaconf import open_dict
from transformers import AutoConfig, AutoModelForCausalLM

# verl 0.9.1 patches a class of TRL that newer releases do not have, but only where TRL is found.
sys.modules["trl"] = None
from verl import DataProto  # noqa: E402
from verl.trainer.ppo.ray_trainer import RayPPOTrainer  # noqa: E402
from verl.utils.device import set_expandable_segments  # noqa: E402
from verl.workers.engine_workers import ActorRolloutRefWorker  # noqa: E402

with initialize_config_module("verl.trainer.config", version_base=None):
    config = compose("ppo_trainer", sys.argv[1:])
data, actor = config.data, config.actor_rollout_ref
world = config.trainer.nnodes * config.trainer.n_gpus_per_node
# What Ray tells a worker.
os.environ.update(RANK="0", WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", WG_BACKEND="ray")


def texts(count):
    """Prompts of different lengths, padded on the left, and answers, padded on the right."""
    chance = torch.Generator().manual_seed(1)
    lengths = [torch.randint(most // 2, most + 1, (count, 1), generator=chance) for most in (data.max_prompt_length, data.max_response_length)]
    place = torch.arange(-data.max_prompt_length, data.max_response_length)
    mask = ((place >= -lengths[0]) & (place < lengths[1])).long()
    ids = torch.randint(3, 100, mask.shape, generator=chance) * mask
    prompts, responses = ids.split([data.max_prompt_length, data.max_response_length], dim=1)
    rows = DataProto.from_dict({
        "prompts": prompts,
        "responses": responses,
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": (mask.cumsum(1) - 1).clamp(min=0),
        "response_mask": mask[:, data.max_prompt_length :],
        "advantages": torch.randn(responses.shape, generator=chance),
    })
    rows.meta_info = {"temperature": actor.rollout.temperature, "global_token_num": mask.sum(1).tolist()}
    return rows


with tempfile.TemporaryDirectory() as folder:
    # verl loads weights from files.
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(actor.model.path), dtype=torch.bfloat16).save_pretrained(folder)
    with open_dict(actor.model):
        actor.model.update(path=folder, load_tokenizer=False)
    worker = ActorRolloutRefWorker(actor, "actor")
    worker.init_model()
# As after the weights went to the engine that answers.
set_expandable_segments(True)
engine = worker.actor.engine
engine.compute_entropy_from_logits = known.aside(engine.compute_entropy_from_logits)
# verl takes no step where the norm of the gradients is not finite, and nobody computed it.
torch.isfinite = lambda value: torch.ones((), dtype=torch.bool)
trainer = SimpleNamespace(config=config, actor_rollout_wg=worker)
for step in range(1, (config.trainer.total_training_steps or 3) + 1):
    rows = texts(data.train_batch_size * actor.rollout.n // world)
    with known.Known():
        old, _ = RayPPOTrainer._compute_old_log_prob(trainer, rows)
        metrics = RayPPOTrainer._update_actor(trainer, rows.union(old)).meta_info["metrics"]
    print(f"step:{step} - " + " - ".join(f"{key}:{value}" for key, value in metrics.items()), flush=True)
    if config.trainer.save_freq > 0 and step % config.trainer.save_freq == 0:
        worker.save_checkpoint(f"{config.trainer.default_local_dir}/global_step_{step}/actor", global_step=step)
