"""Training stacks of the grid: what `rows` draws of each, the words of its job, and its method in the fields of docs/memory.md."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
# GPUs on which a model is trained whole, or with an adapter.
SIZES = {"small": (1, 1, 2, 4), "medium": (2, 4, 8), "large": (4, 8, 16), "huge": (16, 32, 64)}
SIZE = {"qwen2.5-0.5b": "small", "qwen2.5-1.5b": "small", "llama-3.2-1b": "small", "gemma-2b": "small", "llama-3.2-3b": "medium", "qwen2.5-7b": "large",
        "llama-3-8b": "large", "mistral-7b": "large", "gemma-7b": "large", "qwen2.5-14b": "large", "qwen2.5-32b": "huge", "llama-3-70b": "huge", "qwen2.5-72b": "huge"}
# The Trainer's name of an optimizer, and the table's.
OPTIMIZERS = {"adamw_torch": "adamw", "adamw_torch_fused": "adamw_fused", "adamw_bnb_8bit": "adamw8bit", "adafactor": "adafactor", "paged_adamw_8bit": "paged_adamw8bit"}


def words(program, options):
    return [os.path.join(HERE, program), *(word for name, value in options.items() for word in ("--" + name, str(value)))]


def adapter(case):
    return {"lora_r": case["lora_r"], "lora_targets": case.get("targets", "q,k,v,o,mlp")} if case["lora_r"] else {}


class Trainer:
    """transformers' Trainer: full training and LoRA, one GPU, DDP and FSDP."""

    groups = 80
    batches, lengths, most = (1, 2, 4, 8, 16, 32), (256, 512, 1024, 2048, 4096), 32768
    values = ("--ones",)
    card, capability = "a100-80gb", "8.0"
    # What a process imports before it forks.
    imports = ("transformers.trainer", "transformers.models.auto.modeling_auto", "datasets", "peft", "accelerate")

    @staticmethod
    def drawn(rng):
        """A group: a model with a method. Where FSDP trains all of it, accelerate makes its weights fp32, which would need memory of this machine."""
        model = rng.choice(sorted(SIZE))
        # A step of AdamW over thousands of sharded adapters takes minutes.
        lora = 0 if SIZE[model] == "huge" else rng.choice((0, 0, 0, 8, 16, 64))
        gpus = 1 if lora and SIZE[model] in ("small", "medium") else rng.choice(SIZES[SIZE[model]])
        sharding = "none" if gpus == 1 else "ddp" if SIZE[model] == "small" and rng.random() < 0.5 else "fsdp"
        return {"model": model, "lora_r": lora, "gpus": gpus, "sharding": sharding,
                "optimizer": "adamw_torch" if sharding == "fsdp" else rng.choice(("adamw_torch", "adamw_torch", "adamw_torch_fused", "adamw_bnb_8bit", "adafactor")),
                "dtype": "bfloat16" if lora or (rng.random() < 0.3 and sharding != "fsdp") else "float32", "checkpointing": rng.random() < (0.8 if gpus > 2 else 0.4),
                "attention": rng.choice(("sdpa", "sdpa", "sdpa", "eager")), "liger": not lora and rng.random() < 0.25, "accumulation": rng.choice((1, 1, 4))}

    @staticmethod
    def files(_case):
        """Files beside the program, by name."""
        return {}

    @staticmethod
    def options(case):
        options = {"model_name_or_path": "model", "block_size": case["length"], "torch_dtype": case["dtype"], "attn_implementation": case["attention"],
                   "lora_r": case["lora_r"], "output_dir": "out", "max_steps": 3, "bf16": "true", "per_device_train_batch_size": case["batch"],
                   "gradient_accumulation_steps": case["accumulation"], "gradient_checkpointing": str(case["checkpointing"]).lower(),
                   "optim": case["optimizer"], "use_liger_kernel": str(case["liger"]).lower(), "save_strategy": "no", "report_to": "none"}
        if case["sharding"] == "fsdp":
            options["fsdp"] = "full_shard auto_wrap"
        return options

    @classmethod
    def command(cls, case):
        return words("run_case.py", cls.options(case))

    @staticmethod
    def method(case):
        lora = adapter(case)
        precision = "hf_bf16" if lora else "fsdp_mp" if case["sharding"] == "fsdp" else "pure_bf16" if case["dtype"] == "bfloat16" else "amp"
        return {"framework": "transformers", "sharding": "fsdp2" if case["sharding"] == "fsdp" else case["sharding"], "precision": precision,
                "optimizer": OPTIMIZERS[case["optimizer"]], "attention": "flash" if case["attention"] == "sdpa" else "eager",
                "loss_impl": "fused" if case["liger"] else "hf", **lora}


class DeepSpeed(Trainer):
    """The same under DeepSpeed's ZeRO. `bucket`: reduce_bucket_size, numbers; `overlap`: overlap_comm."""

    groups = 36
    batches, lengths, most = (1, 2, 4), (1024, 2048, 4096), 16384
    imports = (*Trainer.imports, "deepspeed")
    # It reads whether a gradient overflowed, and skips the step where one is 1.
    values = ()

    @staticmethod
    def drawn(rng):
        return {"model": rng.choice(("qwen2.5-0.5b", "qwen2.5-1.5b", "llama-7b")), "lora_r": rng.choice((0, 0, 0, 16)), "gpus": rng.choice((2, 4, 8)),
                "sharding": rng.choice(("zero0", "zero1", "zero2", "zero2", "zero3", "zero3")), "optimizer": rng.choice(("adamw_torch", "adamw_torch_fused")),
                "dtype": "bfloat16", "checkpointing": rng.random() < 0.5, "attention": "sdpa", "liger": False, "accumulation": rng.choice((1, 1, 4)),
                "bucket": rng.choice((200_000_000, 500_000_000)), "overlap": rng.random() < 0.5}

    @staticmethod
    def files(case):
        """The file that --deepspeed names: the sizes of buckets, and "auto" for what the Trainer knows."""
        if not case["sharding"].startswith("zero"):
            return {}
        zero = {"stage": int(case["sharding"][-1]), "reduce_bucket_size": case["bucket"], "allgather_bucket_size": case["bucket"], "overlap_comm": case["overlap"]}
        auto = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
        return {"ds.json": json.dumps({"zero_optimization": zero, "bf16": {"enabled": "auto"}, **dict.fromkeys(auto, "auto")})}

    @classmethod
    def options(cls, case):
        return {**super().options(case), "deepspeed": "ds.json"}

    @classmethod
    def method(cls, case):
        stage = int(case["sharding"][-1])
        copies = 0 if stage == 0 else 2 if case["overlap"] and stage < 3 else 1
        return {**super().method(case), "precision": "hf_bf16" if case["lora_r"] else "ds_bf16", "bucket_bytes": 2 * copies * case["bucket"]}


class Qlora(Trainer):
    """The same with a base that bitsandbytes quantises, through peft."""

    groups = 16
    batches, lengths, most = (1, 2, 4), (512, 1024, 2048, 4096), 16384
    imports = (*Trainer.imports, "bitsandbytes")
    # It reads which columns of an activation are large, for products in 8 bits: none here.
    values = ()

    @staticmethod
    def drawn(rng):
        return {"model": rng.choice(("qwen2.5-0.5b", "qwen2.5-1.5b", "llama-7b")), "lora_r": rng.choice((8, 16, 64)), "targets": rng.choice(("q,v", "q,k,v,o,mlp", "q,k,v,o,mlp")),
                "quant": rng.choice(("nf4", "nf4-dq", "nf4-dq", "int8", "none")), "gpus": 1, "sharding": "none", "optimizer": rng.choice(("adamw_torch", "paged_adamw_8bit")), "dtype": "bfloat16",
                "checkpointing": rng.random() < 0.6, "attention": "sdpa", "liger": False, "accumulation": rng.choice((1, 4))}

    @classmethod
    def options(cls, case):
        targets = {"q,v": "q_proj,v_proj"}.get(case["targets"], "all-linear")
        return {**super().options(case), "lora_target_modules": targets, "quant": case["quant"]}

    @classmethod
    def method(cls, case):
        return {**super().method(case), "quant": case["quant"]}


class Moe(Trainer):
    """Mixtures of experts of few layers, by the Trainer."""

    groups = 16
    batches, lengths, most = (1, 2, 4), (512, 1024, 2048, 4096), 16384
    imports = DeepSpeed.imports
    values = ()
    # Below 9.0 a product of all experts reads on the host how many tokens each has.
    card, capability = "h100", "9.0"

    @staticmethod
    def drawn(rng):
        lora, gpus = rng.choice((0, 0, 16)), rng.choice((1, 1, 4, 8))
        return {"model": rng.choice(("qwen3-30b-a3b-4", "mixtral-8x7b-2", "mixtral-8x7b-4")), "lora_r": lora, "targets": "q,k,v,o", "gpus": gpus,
                "sharding": "none" if gpus == 1 else "zero3", "optimizer": "adamw_torch", "dtype": "bfloat16", "checkpointing": rng.random() < 0.5, "attention": "sdpa",
                "liger": False, "accumulation": rng.choice((1, 1, 4)), "bucket": 200_000_000, "overlap": False}

    files = DeepSpeed.files

    @classmethod
    def options(cls, case):
        zero = {"deepspeed": "ds.json"} if case["sharding"] == "zero3" else {}
        return {**super().options(case), "lora_target_modules": "q_proj,k_proj,v_proj,o_proj", **zero}

    @classmethod
    def method(cls, case):
        return DeepSpeed.method(case) if case["sharding"] == "zero3" else super().method(case)


class Verl:
    """The update of verl's FSDP engine; entropy is compiled, as its default has it."""

    groups = 30
    batches, lengths, most, values = Trainer.batches, Trainer.lengths, Trainer.most, Trainer.values

    @staticmethod
    def drawn(rng):
        model = rng.choice(("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b", "qwen2.5-7b", "llama-3-8b", "qwen2.5-14b", "qwen2.5-32b"))
        return {"model": model, "lora_r": rng.choice((0, 0, 0, 0, 32)), "gpus": rng.choice((8, 16, 32) if model in ("qwen2.5-14b", "qwen2.5-32b") else (2, 4, 8)),
                "sharding": rng.choice(("fsdp", "fsdp", "fsdp2")), "entropy": rng.random() < 0.5, "checkpointing": rng.random() < 0.85,
                "no_sync": rng.random() < 0.25, "accumulation": rng.choice((1, 2, 4))}

    files, card, capability, imports = Trainer.files, Trainer.card, Trainer.capability, ("verl.workers.engine.fsdp.transformer_impl",)

    @staticmethod
    def command(case):
        options = {"length": case["length"], "micro": case["batch"], "micros": case["accumulation"], "strategy": case["sharding"],
                   "entropy": int(case["entropy"]), "checkpointing": int(case["checkpointing"]), "lora": case["lora_r"], "no-sync": int(case["no_sync"])}
        return words("run_verl.py", options)

    @staticmethod
    def method(case):
        waits = {"no_sync_bytes": 0 if not case["no_sync"] else 4 if case["sharding"] == "fsdp2" else 2}
        return {"framework": "verl", "sharding": case["sharding"], "precision": "verl_mp", "optimizer": "adamw", "attention": "flash",
                "loss_impl": "verl" if case["entropy"] else "log_prob", **waits, **adapter(case)}


class Torchtune:
    """torchtune's recipes, with their configurations' optimizers and losses."""

    groups = 24
    batches, lengths, most = (1, 2, 4), (512, 1024, 2048, 4096), 16384
    values, card, capability, files = (), "a100-80gb", "8.0", Trainer.files
    imports = ("torchtune.models", "torchtune.training", "torchtune.datasets", "torchtune.rlhf", "torchtune.modules.peft")
    configs = {"qwen2.5-0.5b": "qwen2_5/0.5B", "qwen2.5-1.5b": "qwen2_5/1.5B", "llama-3.2-1b": "llama3_2/1B", "llama-3.2-3b": "llama3_2/3B"}

    @classmethod
    def drawn(cls, rng):
        gpus = rng.choice((1, 1, 4, 8))
        return {"model": rng.choice(sorted(cls.configs)), "lora_r": rng.choice((0, 0, 16)), "gpus": gpus, "sharding": "none" if gpus == 1 else "fsdp2", "quant": "none", "hollow": True,
                "checkpointing": rng.random() < 0.5, "accumulation": rng.choice((1, 4)), "in_backward": gpus == 1 and rng.random() < 0.4, "targets": "q,v,o,mlp"}

    @classmethod
    def command(cls, case):
        kind, place = "lora" if case["lora_r"] else "full", "single_device" if case["gpus"] == 1 else "distributed"
        config = "%s_%s%s" % (cls.configs[case["model"]], kind, "_single_device" if case["gpus"] == 1 else "")
        options = {"batch_size": case["batch"], "gradient_accumulation_steps": case["accumulation"], "enable_activation_checkpointing": case["checkpointing"],
                   "optimizer._component_": "torch.optim.AdamW", "optimizer.fused": True, "compile": False}
        if case["lora_r"]:
            options.update({"model.lora_attn_modules": "[q_proj,v_proj,output_proj]", "model.apply_lora_to_mlp": True, "model.lora_rank": case["lora_r"]})
        else:
            in_backward = case["in_backward"] and case["accumulation"] == 1
            options["optimizer_in_bwd"] = in_backward
        words = ["%s=%s" % item for item in options.items()]
        return [os.path.join(HERE, "run_torchtune.py"), "%s_finetune_%s" % (kind, place), config, str(case["length"]), *words]

    @staticmethod
    def method(case):
        in_backward = case["in_backward"] and case["accumulation"] == 1 and not case["lora_r"]
        return {"framework": "torchtune", "sharding": case["sharding"], "precision": "pure_bf16", "optimizer": "adamw_in_bwd" if in_backward else "adamw_fused",
                "attention": "flash", "loss_impl": "chunked", **adapter(case)}


STACKS = {"torchtune": Torchtune, "trainer": Trainer, "verl": Verl, "deepspeed": DeepSpeed, "qlora": Qlora, "moe": Moe}
