"""One run of the simulated trainer, from its first line to its exit code."""

import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from . import checkpoints, messages, rules
from .memory import CONTEXT_GIB, GIB, NCCL_GIB, Memory, Need
from .overrides import OverrideError, compose
from .pace import step_seconds
from .setup import read_setup

BANNER = "[simulated trainer] no GPU is used; memory is computed, messages are in the real formats of verl, vLLM and PyTorch"
OUTSIDE_GIB = CONTEXT_GIB + NCCL_GIB
LONG_BATCH_GIB = 9.0
PAGE = 4096
HOST_STEP_MIB = 16
HOST_HOLD_S = 120


class Died(Exception):
    """The run ends with exit code 1; the text is what the driver prints last."""


@dataclass(frozen=True)
class OomFigures:
    """The numbers of one PyTorch OOM message, in GiB; `others` are (pid, GiB) on the same card."""

    requested: float
    total: float
    free: float
    allocated: float
    unallocated: float
    in_use: float
    others: tuple


def oom_figures(need, memory, foreign_gib=0.0):
    """What PyTorch would print when `need` does not fit: the copy that fails is requested, the ones before it are allocated."""
    total = memory.card_gib
    others = [(4890, need.rollout_gib)] if need.rollout_gib else []
    others += [(31337, foreign_gib)] if foreign_gib else []
    room = total - OUTSIDE_GIB - need.rollout_gib - foreign_gib
    requested = _requested_gib(need, memory)
    allocated = need.allocated_gib - requested
    while allocated > 0.97 * room:
        allocated -= requested
    allocated = max(allocated, 0.5)
    unallocated = min(max(0.02 * allocated, room - allocated - requested + 0.02), room - allocated - 0.01)
    free = room - allocated - unallocated
    return OomFigures(
        requested, total, free, allocated, unallocated, allocated + unallocated + OUTSIDE_GIB, tuple(others)
    )


def _requested_gib(need, memory):
    model = memory.model
    if need.logits_tokens:
        return need.logits_tokens * model.vocab * 4 / GIB
    return model.vocab * model.hidden * 4 / memory.setup.gpus / GIB


class Story:
    """The run's state: configuration, memory, switches, and where it prints."""

    def __init__(self, overrides, switches, attempt=1, out=sys.stdout, err=sys.stderr, sleep=time.sleep):
        self.overrides, self.switches, self.attempt = overrides, switches, attempt
        self.out, self.err, self.sleep = out, err, sleep
        self.bar_is_open = False
        self.chance = random.Random(f"{switches.seed}:{attempt}")
        self.pid = self.chance.randrange(4000, 60000)

    def run(self):
        """Exit code: 0 trained to the end, 1 anything else."""
        self._tell(BANNER)
        try:
            self._configure()
            self._start()
            self._train()
        except OverrideError as error:
            self._tell(
                f"{error}\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
            )
            return 1
        except Died as death:
            self._tell(messages.driver_error(self.setup.version, list(self.overrides), str(death)))
            return 1
        self._tell("[simulated trainer] trained to the end")
        return 0

    # -- before any model is loaded ------------------------------------------------------------------------------

    def _configure(self):
        self.config = compose(self.overrides, self.switches.verl_version)
        self.setup = read_setup(self.config, self.switches.verl_version)
        self.memory = Memory(self.setup, self.switches.gpu_gib)
        torch = self.switches.torch_version or messages.torch_for(self.setup.version)
        self.torch = messages.torch_generation(torch)
        self._check_gpus()
        self._refuse("driver", rules.check_driver, self.config.get)
        self._say(f"{self._task()}{self._summary()}")

    def _check_gpus(self):
        self._tell(
            f"{time.strftime('%Y-%m-%d %H:%M:%S')},482\tINFO worker.py:1951 -- Started a local Ray instance."
        )
        seen = self.switches.gpus or self._ray_gpus()
        if seen is not None and seen < self.setup.gpus:
            text = f"Total available GPUs {seen} is less than total desired GPUs {self.setup.gpus}"
            raise Died(f"ValueError: {text}")

    def _ray_gpus(self):
        """GPUs of the Ray cluster, asked with `ray status` as a person would; None on a single node."""
        if self.setup.nodes == 1:
            return None
        ray = shutil.which("ray") or str(Path(__file__).parent.parent / "bin" / "ray")
        status = subprocess.run([ray, "status"], capture_output=True, text=True, timeout=30, check=False)
        lines = (line.split() for line in status.stdout.splitlines() if line.endswith(" GPU"))
        return int(sum(float(words[0].partition("/")[2]) for words in lines))

    def _summary(self):
        setup = self.setup
        pairs = {
            "data": {
                "train_batch_size": setup.train,
                "max_prompt_length": setup.prompt,
                "max_response_length": setup.response,
            },
            "actor": {"ppo_mini_batch_size": setup.mini, "ppo_micro_batch_size_per_gpu": setup.micro},
            "fsdp_config": {
                "param_offload": setup.param_offload,
                "optimizer_offload": setup.optimizer_offload,
            },
            "rollout": {
                "n": setup.rollout_n,
                "gpu_memory_utilization": setup.utilization,
                "tensor_model_parallel_size": setup.tensor_parallel,
            },
            "trainer": {"n_gpus_per_node": setup.gpus_per_node, "nnodes": setup.nodes},
        }
        return str(pairs)

    def _refuse(self, stage, check, *arguments):
        try:
            check(self.setup, *arguments)
        except rules.Refusal as refusal:
            error = f"{refusal.kind}: {refusal.message}" if refusal.message else refusal.kind
            if stage == "driver":
                raise Died(error) from refusal
            raise Died(
                self._worker_error("init_model" if stage == "init" else "step_check", error)
            ) from refusal

    # -- models and vLLM -----------------------------------------------------------------------------------------

    def _start(self):
        self.total_steps = self._total_steps()
        self._say(f"{self._task()}Size of train dataset: 38816, size of val dataset: 1319")
        self._say(f"{self._task()}Total training steps: {self.total_steps}")
        self.sleep(self.switches.start_s / 2)
        model, card = self.memory.model, self.memory.card_gib
        self._say(f"{self._worker()}Qwen2ForCausalLM contains {model.parameters / 1e9:.2f}B parameters")
        shard = self.memory.shard_gib(4)
        used = shard + OUTSIDE_GIB
        self._say(
            self._worker()
            + messages.memory_line("After init actor from HF AutoModel", shard, shard * 1.03, used, card)
        )
        self._refuse("init", rules.check_init, self.config.get, model)
        self._start_vllm()
        self.sleep(self.switches.start_s / 2)
        self.step = self._resume()

    def _total_steps(self):
        asked = self.config.get("trainer.total_training_steps")
        return min(asked, self.switches.steps) if asked else self.switches.steps

    def _start_vllm(self):
        setup, memory = self.setup, self.memory
        need = memory.rollout_start()
        free = memory.card_gib - need.reserved_gib - OUTSIDE_GIB - self.switches.foreign_gib
        if free < setup.utilization * memory.card_gib:
            raise Died(
                self._worker_error(
                    "init_model", messages.vllm_start_memory(free, memory.card_gib, setup.utilization)
                )
            )
        kv, length = memory.kv_cache_gib(), self._model_length()
        if kv <= 0:
            raise Died(self._worker_error("init_model", messages.no_kv_cache()))
        tokens = int(kv * GIB / memory.kv_bytes_per_token())
        if tokens < length:
            one = length * memory.kv_bytes_per_token() / GIB
            raise Died(self._worker_error("init_model", messages.short_kv_cache(length, one, kv, tokens)))
        for line in messages.vllm_start(setup.version, kv, tokens, length):
            self._say(f"{messages.colour('vLLMHttpServer', self.pid + 9)}{line}")

    def _model_length(self):
        """What null means changed in 0.7.0: before, prompt plus response; from then on, the model's own limit."""
        setup, longest = self.setup, self.memory.model.max_positions
        default = setup.prompt + setup.response if setup.version < (0, 7, 0) else longest
        overwritten = setup.version[:2] == (0, 7) and setup.version[2] == 0
        return longest if overwritten else setup.max_model_len or default

    def _resume(self):
        get = self.config.get
        found = checkpoints.find(
            get("trainer.default_local_dir"), get("trainer.resume_mode"), get("trainer.resume_from_path")
        )
        if found is None:
            self._say(f"{self._task()}Training from scratch")
            return 0
        self._say(f"{self._task()}Load from checkpoint folder: {found}")
        try:
            step = checkpoints.load(found, self.setup.gpus)
        except checkpoints.MissingShard as missing:
            raise Died(self._worker_error("load_checkpoint", str(missing))) from missing
        self._say(f"{self._task()}Setting global step to {step}")
        self._say(f"{self._task()}Resuming from {found}")
        return step

    # -- training ------------------------------------------------------------------------------------------------

    def _train(self):
        self.seconds = 0.0
        self._bar()
        first = True
        while self.step < self.total_steps:
            self.step += 1
            self._one_step(first)
            first = False
        self._say(f"{self._task()}Final validation metrics: None")

    def _one_step(self, first):
        if first:
            self._refuse("step", rules.check_step, self.config.get)
        self._faults()
        for need in self.memory.phases()[1:]:
            self.sleep(self.switches.step_s / 5)
            if need.total_gib + self.switches.foreign_gib > self.memory.card_gib:
                self._die_of(need)
        self.seconds += self.switches.step_s
        self._say(self._task() + messages.step_line(self.step, self._metrics(first)))
        self._bar()
        self._save()

    def _faults(self):
        switches = self.switches
        if switches.fail_at_step == self.step:
            raise Died(self._worker_error("step_check", "KeyError: 'old_log_probs'"))
        if switches.host_oom:
            self._fill_host()
        if switches.survived_oom and self.step == 2:
            text = messages.oom_text(self.torch, oom_figures(self._long_batch(), self.memory), 0)
            self._tell(
                f"{self._worker()}WARNING: caught an OOM, emptying the cache and retrying the micro batch: {text}"
            )
        if switches.oom_at_step == self.step:
            self._die_of(self._long_batch())

    def _long_batch(self):
        """An update that does not fit because one batch is longer than all before."""
        usual = self.memory.actor_update()
        room = self.memory.card_gib - OUTSIDE_GIB - usual.rollout_gib
        allocated = max(usual.allocated_gib, room + LONG_BATCH_GIB)
        return replace(usual, allocated_gib=allocated)

    def _die_of(self, need: Need):
        noise = self.switches.nccl_noise
        noisy = self.chance.random() < 0.5 if noise == "auto" else noise not in ("0", "off")
        others = range(1, min(self.setup.gpus, 4))
        early = noisy and self.chance.random() < 0.3
        if early:
            self._tell(self._worker(1) + messages.connection_closed(1))
        error = self._worker_error(need.phase, self._oom_error(need))
        if self.switches.hang_s:
            self._tell(f"{self._worker()}{error}")
            self.sleep(self.switches.hang_s)
        if noisy or self.switches.hang_s:
            for rank in others:
                line = (
                    messages.nccl_watchdog(rank) if self.switches.hang_s else messages.connection_closed(rank)
                )
                self._tell(self._worker(rank) + line)
        raise Died(error)

    def _oom_error(self, need):
        """vLLM's allocator reports a failed wake-up itself; everything else is PyTorch's message."""
        if need.phase == "wake_up":
            self._tell(f"{messages.colour('vLLMHttpServer', self.pid + 9)}{messages.CUMEM_ERROR}")
            return messages.CUMEM_ERROR
        figures = oom_figures(need, self.memory, self.switches.foreign_gib)
        return f"{messages.oom_class(self.torch)}: {messages.oom_text(self.torch, figures, 0)}"

    def _fill_host(self):
        """Really takes host memory in small steps, so that Slurm ends the job. Refuses without a limit to aim at."""
        target = self.switches.host_oom_mib
        if not target:
            raise Died("SIM_HOST_OOM needs SIM_HOST_OOM_MIB: how much to take, a little over the job's --mem")
        held = []
        while len(held) * HOST_STEP_MIB < target:
            block = bytearray(HOST_STEP_MIB * 2**20)
            block[::PAGE] = b"\x01" * len(block[::PAGE])
            held.append(block)
            self.sleep(0.02)
        self.sleep(HOST_HOLD_S)
        raise Died(f"took {target} MiB of host memory and nobody minded: no memory limit is enforced here")

    def _metrics(self, first):
        setup, peak = self.setup, max(self.memory.phases()[1:-1], key=lambda need: need.allocated_gib)
        tokens = setup.samples * self.memory.tokens(
            1, 0 if not setup.dynamic else setup.prompt + setup.response
        )
        score = 0.31 + 0.5 * (1 - 0.93**self.step) + self.chance.uniform(-0.01, 0.01)
        pace = step_seconds(setup, first)
        return {
            "global_seqlen/mean": round(tokens / setup.gpus, 1),
            "actor/entropy": round(0.42 * 0.97**self.step, 6),
            "actor/pg_loss": round(self.chance.uniform(-0.02, 0.02), 6),
            "actor/grad_norm": round(self.chance.uniform(0.2, 0.4), 6),
            "perf/max_memory_allocated_gb": round(peak.allocated_gib, 4),
            "perf/max_memory_reserved_gb": round(peak.reserved_gib, 4),
            "perf/cpu_memory_used_gb": round(self.memory.host_gib(), 3),
            "training/global_step": self.step,
            "critic/score/mean": round(score, 5),
            "response_length/mean": round(0.6 * setup.response + self.chance.uniform(-9, 9), 2),
            "timing_s/step": round(pace, 3),
            "perf/throughput": round(tokens / pace / setup.gpus, 2),
        }

    def _save(self):
        frequency = self.config.get("trainer.save_freq")
        if frequency > 0 and (self.step % frequency == 0 or self.step == self.total_steps):
            folder = self.config.get("trainer.default_local_dir")
            checkpoints.save(folder, self.step, self.setup.gpus)
            self._say(f"{self._task()}local_global_step_folder: {folder}/global_step_{self.step}")

    # -- printing ------------------------------------------------------------------------------------------------

    def _worker_error(self, phase, error):
        return messages.worker_error(self.setup.version, phase, self.setup.uses_ref, self.pid, error)

    def _task(self):
        return messages.colour("TaskRunner", self.pid - 7)

    def _worker(self, rank=0):
        return messages.colour("WorkerDict", self.pid + rank)

    def _bar(self):
        bar = messages.progress_bar(self.step, self.total_steps, self.seconds)
        self.err.write(f"\r{self._task()}{bar}")
        self.err.flush()
        self.bar_is_open = True

    def _say(self, text):
        print(text, file=self.out, flush=True)

    def _tell(self, text):
        """To stderr, on a line of its own also after a progress bar that has not ended its line."""
        start = "\n" if self.bar_is_open else ""
        self.bar_is_open = False
        print(start + text, file=self.err, flush=True)
