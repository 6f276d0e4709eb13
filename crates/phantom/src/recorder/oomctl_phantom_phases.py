"""Phases that are known functions', with all that runs in them: weights are read, log-probabilities computed, a checkpoint is written.

`sitecustomize.py` beside it has what marks a phase; here it is the phase of such a function from its call on, and then what was before.
"""
import functools
import sys
import threading

VERL = {
    "ActorRolloutRefWorker.compute_log_prob": "old_logprob",
    "ActorRolloutRefWorker.compute_ref_log_prob": "ref_logprob",
    "ActorRolloutRefWorker.load_checkpoint": "load",
    "ActorRolloutRefWorker.save_checkpoint": "checkpoint",
}
# The functions of each module.
FUNCTIONS = {
    "accelerate.accelerator": {"Accelerator.load_state": "load", "Accelerator.save_state": "checkpoint"},
    "deepspeed.runtime.engine": {"DeepSpeedEngine.load_checkpoint": "load", "DeepSpeedEngine.save_checkpoint": "checkpoint"},
    "safetensors.torch": {"load_file": "load"},
    "torch": {"load": "load", "nn.Module.load_state_dict": "load", "save": "checkpoint"},
    "torch.distributed.checkpoint.state_dict": {
        "get_model_state_dict": "checkpoint", "get_optimizer_state_dict": "checkpoint", "get_state_dict": "checkpoint"
    },
    "torch.distributed.checkpoint.state_dict_loader": {"load": "load"},
    "torch.distributed.checkpoint.state_dict_saver": {"async_save": "checkpoint", "save": "checkpoint"},
    "transformers.modeling_utils": {"PreTrainedModel.from_pretrained": "load", "PreTrainedModel.save_pretrained": "checkpoint"},
    "transformers.trainer": {"Trainer._save_checkpoint": "checkpoint", "Trainer.save_model": "checkpoint"},
    # Earlier releases of verl have a module for each engine.
    "verl.workers.engine_workers": VERL,
    "verl.workers.fsdp_workers": VERL,
    "verl.workers.megatron_workers": VERL,
}
NAMES = {phase for functions in FUNCTIONS.values() for phase in functions.values()}
# The phase before, and what begins and ends phases; `sitecustomize` sets both.
now = {}
mark = None


def begins(phase):
    """Whether a phase begins where the program is: the outermost counts, and what reads a state does so to load before training, and to save in it."""
    before = now["phase"]
    if before in NAMES:
        return False
    if phase in ("load", "checkpoint") and (phase == "load") != (before == "init"):
        return False
    return threading.current_thread() is threading.main_thread()


def during(phase, function):
    @functools.wraps(function)
    def phased(*args, **kwargs):
        if not begins(phase):
            return function(*args, **kwargs)
        torch = sys.modules["torch"]
        before = now["phase"]
        mark(torch, phase)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            error.oomctl_phase = phase
            raise
        finally:
            # Who computes log-probabilities has begun to train.
            mark(torch, before if phase in ("load", "checkpoint") else "forward")

    return phased


def watch(module):
    for path, phase in FUNCTIONS.get(module.__name__, {}).items():
        *owners, name = path.split(".")
        owner = functools.reduce(lambda of, part: getattr(of, part, None), owners, module)
        function = vars(owner).get(name) if owner else None
        if isinstance(function, classmethod):
            setattr(owner, name, classmethod(during(phase, function.__func__)))
        elif function:
            setattr(owner, name, during(phase, function))
