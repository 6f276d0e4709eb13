"""What a program gets in the place of other processes and of values that nobody computed; `sitecustomize.py` beside it puts this in.

Each driver says in `record["replaced"]` what it does. Values that the host knows are used; none is made up where the program would
take another path by it, but the length of generated sequences, which is the longest.
"""
import dataclasses
import os
import sys

WORLD = int(os.environ.get("OOMCTL_PHANTOM_WORLD", "0"))
RANKS = int(os.environ.get("OOMCTL_PHANTOM_RANKS", "0"))
record = {}
batch = {"padded": None, "packed": None}
generated = {"done": False}
step_of_engine = None


def replaced(what):
    if what not in record["replaced"]:
        record["replaced"].append(what)


def as_rank(world, local, environment=os.environ):
    """The variables of rank 0 of WORLD, as launchers set them."""
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "SLURM_PROCID", "SLURM_LOCALID")
    return {
        **environment,
        **{name: "0" for name in names},
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(local),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "OOMCTL_PHANTOM_WORLD": str(world),
    }


def instead(program, words, world, local, environment=os.environ):
    """One process in the place of those that a launcher would start. What `oomctl measure` was told beats what the launcher says."""
    world = WORLD or RANKS or world
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(program, [program, *words], as_rank(world, min(local, world), environment))


def elastic(api):
    """torchrun, `python -m torch.distributed.run` and accelerate end here, with their options read."""

    def launch(self, *words):
        config, entry = self._config, self._entrypoint
        world, local = config.max_nodes * config.nproc_per_node, config.nproc_per_node
        global WORLD
        if not callable(entry):
            instead(entry, words, world, local)
        WORLD = WORLD or RANKS or world
        os.environ.update(as_rank(WORLD, local))
        return {0: entry(*words)}

    api.elastic_launch.__call__ = launch


def launched():
    """DeepSpeed's launcher starts a process for each GPU of its node."""
    if "deepspeed.launcher.launch" not in getattr(sys, "orig_argv", ()):
        return
    import subprocess

    class Started(subprocess.Popen):
        def __init__(self, words, *args, env=None, **rest):
            if env and "LOCAL_RANK" in env:
                local = len(env.get("CUDA_VISIBLE_DEVICES", "0").split(","))
                instead(words[0], words[1:], int(env.get("WORLD_SIZE", "1")), local, env)
            super().__init__(words, *args, env=env, **rest)

    subprocess.Popen = Started


def one_of_many(torch):
    """This process plays its rank: collectives do nothing, so that no other process is needed."""
    if not torch.distributed.is_available():
        return
    import torch.distributed as dist
    import torch.multiprocessing as processes

    real = dist.init_process_group

    def fake(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, *args, **kwargs):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        known = WORLD or (world_size if world_size > 0 else 0) or int(os.environ.get("WORLD_SIZE", "1"))
        mine = rank if rank >= 0 else int(os.environ.get("RANK", "0"))
        replaced("torch.distributed: this process is rank %d of %d, collectives do nothing" % (mine, known))
        return real("fake", store=FakeStore(), rank=mine, world_size=known)

    dist.init_process_group = fake
    dist.distributed_c10d.init_process_group = fake
    group = dist.new_group

    def of_some(ranks=None, timeout=None, backend=None, *args, **kwargs):
        """A group of another backend (gloo, for what the host says) would look for the other processes."""
        return group(ranks, timeout, "fake", *args, **kwargs)

    dist.new_group = of_some
    dist.distributed_c10d.new_group = of_some

    # Objects travel as bytes on the device, where there are none. Names are PyTorch's: its checkpoints give them.
    def gather_all(object_list, obj, group=None):
        object_list[:] = [obj] * len(object_list)

    def gather(obj, object_gather_list=None, *args, **kwargs):
        if object_gather_list is not None:
            gather_all(object_gather_list, obj)

    def scatter(scatter_object_output_list, scatter_object_input_list=None, *args, **kwargs):
        scatter_object_output_list[0] = scatter_object_input_list[0] if scatter_object_input_list else None

    for name, does in (
        ("all_gather_object", gather_all),
        ("gather_object", gather),
        ("scatter_object_list", scatter),
        ("broadcast_object_list", lambda *args, **kwargs: None),
    ):
        setattr(dist, name, does)
        setattr(dist.distributed_c10d, name, does)

    # DistributedDataParallel compares its parameters with those of the others.
    if hasattr(dist, "_verify_params_across_processes"):
        dist._verify_params_across_processes = lambda *args, **kwargs: None

    # It sorts its buckets by an order that it reads back from rank 0, after the first step.
    if hasattr(dist, "Reducer"):
        dist.Reducer._rebuild_buckets = lambda self: False
    parallel = torch.nn.parallel.DistributedDataParallel
    begin, hook = parallel.__init__, parallel.register_comm_hook

    def reduced(state, bucket):
        """The bucket as it is, where it would hold the mean of all ranks."""
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def begun(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        hook(self, None, reduced)

    parallel.__init__ = begun
    parallel.register_comm_hook = lambda *args, **kwargs: None

    def spawn(fn, args=(), nprocs=1, *rest, **kwargs):
        global WORLD
        WORLD = WORLD or nprocs
        replaced("torch.multiprocessing.spawn: one process instead of %d" % nprocs)
        fn(0, *args)

    processes.spawn = spawn


def shards(module):
    """A checkpoint of several ranks is refused where their shards are not the whole: those of others are copies of this rank's here."""
    errors = module._validate_global_plan

    def none(plan, metadata):
        replaced("torch.distributed.checkpoint: whether the shards of all ranks are whole is not asked")
        return errors(plan, dataclasses.replace(metadata, state_dict_metadata={}))

    module._validate_global_plan = none


# Functions of transformers that ask the device whether a batch has no padding, or no packed sequences.
ASKED = {"_ignore_causal_mask_sdpa": "padded", "find_packed_sequence_indices": "packed"}


def attention(torch):
    """Counts the kernels that PyTorch chooses for attention where gradients are kept, and answers what the host knows of a batch's padding."""
    attend = torch.nn.functional.scaled_dot_product_attention
    kernels = ("Flash", "Efficient", "Cudnn")

    def counted(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **rest):
        out = attend(query, key, value, attn_mask, dropout_p, is_causal, **rest)
        if query.is_cuda and out.grad_fn is not None:
            node = type(out.grad_fn).__name__
            kernel = next((kernel.lower() for kernel in kernels if kernel in node), "math")
            kernel += " with a mask" if attn_mask is not None else ""
            record["attention"][kernel] = record["attention"].get(kernel, 0) + 1
        return out

    torch.nn.functional.scaled_dot_product_attention = counted
    ask = torch.Tensor.__bool__

    def answer(self):
        if self.is_cuda and batch["packed"] is not None:
            known = ASKED.get(sys._getframe(1).f_code.co_name)
            if known and batch[known] is not None:
                replaced("attention masks: padding and packing are those of the batch on the host")
                return not batch[known]
        return ask(self)

    torch.Tensor.__bool__ = answer


def loader(module):
    """Remembers whether the batch that a loader gave has padding or positions of packed sequences."""
    following = module._BaseDataLoaderIter.__next__

    def follow(self):
        data = following(self)
        if hasattr(data, "get") and hasattr(data, "keys"):
            mask = data.get("attention_mask")
            batch["packed"] = "position_ids" in data.keys()
            if getattr(getattr(mask, "device", None), "type", "") == "cpu":
                batch["padded"] = not bool(mask.all())
        return data

    module._BaseDataLoaderIter.__next__ = follow


def stopping(module):
    """Generation ends where a sequence is as long as it may be: whether it ended before is a value that nobody computed."""
    criterion = module.MaxLengthCriteria.__call__

    def longest(self, input_ids, scores, **kwargs):
        generated["done"] = input_ids.shape[-1] >= self.max_length
        return criterion(self, input_ids, scores, **kwargs)

    module.MaxLengthCriteria.__call__ = longest


def generation(module):
    going_on = module.GenerationMixin._has_unfinished_sequences

    def unfinished(self, *args, **kwargs):
        replaced("transformers' generation: every sequence has the longest length")
        if generated["done"]:
            generated["done"] = False
            return False
        device = kwargs.get("device", args[-1] if args else None)
        if getattr(device, "type", "cuda") != "cuda":
            return going_on(self, *args, **kwargs)
        return True

    module.GenerationMixin._has_unfinished_sequences = unfinished


def triton(module):
    """Kernels of Triton are neither compiled nor launched: what they write is nobody's, and they take no memory of PyTorch's."""

    def nothing(self, *args, **kwargs):
        replaced("Triton's kernels: not launched")

    for name in ("JITFunction", "Autotuner", "Heuristics"):
        if hasattr(module, name):
            getattr(module, name).run = nothing


def timing(module):
    """torch.compile builds kernels and times them to choose one, for minutes: here all are as fast as the first, and no other is built."""

    def first(self, *args, return_mode="min", **kwargs):
        replaced("torch.compile's choice of kernels: the first of them, none is timed")
        return [1.0] if return_mode == "all" else 1.0

    for kind in [value for value in vars(module).values() if isinstance(value, type)]:
        for name in ("benchmark_gpu", "benchmark_gpu_with_cuda_graph"):
            if name in vars(kind):
                setattr(kind, name, first)


def completions(module):
    """TRL reads the tokens that were generated, and cuts each sequence at its end: as many tokens as may be stand for them."""
    turn = module.GRPOTrainer._generate_single_turn

    def filled(self, *args, **kwargs):
        def whole(part):
            empty = isinstance(part, list) and part and all(isinstance(ids, list) and not ids for ids in part)
            return [[1] * self.max_completion_length for _ in part] if empty else part

        replaced("TRL's completions: max_completion_length tokens each")
        return tuple(whole(part) for part in turn(self, *args, **kwargs))

    module.GRPOTrainer._generate_single_turn = filled
    # Its metrics choose by a condition, of which no value is true.
    for name in ("nanmin", "nanmax"):
        if hasattr(module, name):
            setattr(module, name, lambda values: values.reshape(-1)[0])


class Nothing:
    """In the place of a compiled extension: its functions are there and do nothing, as kernels do."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def sampling(module):
    """FlashInfer's kernels that choose tokens are compiled on first use, for minutes and by CUDA's compiler; what they write to is Python's."""
    load = module.JitSpec.build_and_load

    def loaded(self, *args, **kwargs):
        if self.name != "sampling":
            return load(self, *args, **kwargs)
        replaced("FlashInfer's kernels that choose tokens: neither compiled nor launched")
        return Nothing()

    module.JitSpec.build_and_load = loaded


def queues(module):
    """vLLM's queue between the ranks of a node waits for all of them; without it, objects go the way of `torch.distributed`."""

    def none(*args, **kwargs):
        replaced("vLLM's queues between ranks: none")

    module.MessageQueue.create_from_process_group = none


def deepspeed(module):
    """ZeRO takes one step of PyTorch's optimizer for each group of weights, makes gradients of fp32 before and gathers weights after them."""
    module.DeepSpeedEngine._take_model_step = step_of_engine(module.DeepSpeedEngine._take_model_step)


def fused(module):
    """DeepSpeed's optimizers are compiled on first use, by CUDA's compiler, which a login node may lack; what they write to is Python's."""
    load = module.OpBuilder.load

    def loaded(self, *args, **kwargs):
        if self.name not in ("fused_adam", "fused_lion"):
            return load(self, *args, **kwargs)
        replaced("DeepSpeed's kernel of the optimizer step: neither compiled nor launched")
        return Nothing()

    module.OpBuilder.load = loaded


def same_on_ranks(module):
    """ZeRO-3 reads back what other ranks say of the weights that they gather, and ends where it differs."""

    def same(*args, **kwargs):
        replaced("DeepSpeed's comparison with other ranks: none")

    for name in ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks"):
        if hasattr(module, name):
            setattr(module, name, same)


WAITING = {
    "deepspeed.ops.op_builder.builder": fused,
    "deepspeed.runtime.engine": deepspeed,
    "deepspeed.runtime.zero.utils": same_on_ranks,
    "flashinfer.jit.core": sampling,
    "torch._inductor.runtime.benchmarking": timing,
    "torch.distributed.checkpoint.default_planner": shards,
    "torch.distributed.launcher.api": elastic,
    "torch.utils.data.dataloader": loader,
    "transformers.generation.stopping_criteria": stopping,
    "transformers.generation.utils": generation,
    "triton.runtime.jit": triton,
    "triton.runtime.autotuner": triton,
    "trl.trainer.grpo_trainer": completions,
    "vllm.distributed.device_communicators.shm_broadcast": queues,
}
