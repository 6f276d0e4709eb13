//! What a failed attempt writes, in the words of PyTorch, vLLM, verl and Slurm; the product reads it itself.

use oomctl_diagnose::{Incident, ProgressPattern, Scanner};

use super::super::outcome::Phase;
use super::super::setup::Program;
use super::super::units::GIB;
use super::engine::Refused;
use super::host::When;
use super::memory::Shortage;
use super::nature::LogStyle;
use super::plan::Plan;

/// What ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// PyTorch's allocator, beside `around` bytes of others and of what is outside it.
    Torch {
        shortage: Shortage,
        around: u64,
    },
    Engine(Refused),
    Host(When),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub phase: Phase,
    pub cause: Cause,
}

/// The incident that the product finds in the log.
pub fn incident(plan: Plan<'_>, failure: Failure, step: u64) -> Incident {
    let text = text(plan, failure, step);
    let patterns: Vec<ProgressPattern> = [r"\bstep:(?P<step>\d+) - "]
        .iter()
        .filter_map(|pattern| ProgressPattern::new(pattern).ok())
        .chain(ProgressPattern::built_in())
        .collect();
    let mut scanner = Scanner::new(&patterns);
    let source = scanner.source("job.out");
    scanner.feed(source, 0, text.as_bytes());
    scanner.finish_source(source);
    scanner.verdict(None)
}

/// A size as PyTorch prints it.
fn size(bytes: u64) -> String {
    if bytes >= 1 << 30 {
        format!("{:.2} GiB", bytes as f64 / GIB)
    } else {
        format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
    }
}

/// The log from its first step on.
pub fn text(plan: Plan<'_>, failure: Failure, step: u64) -> String {
    let rl = plan.is_rl();
    let mut text = String::new();
    for done in 1..step.clamp(1, 4) {
        text.push_str(&if rl {
            format!("(TaskRunner pid=3011) step:{done} - global_seqlen/mean:8123.5 - actor/pg_loss:0.0{done}\n")
        } else {
            format!("{{'loss': 1.2{done}, 'grad_norm': 0.8, 'epoch': 0.0{done}}}\nstep:{done} - loss 1.2\n")
        });
    }
    text.push_str(&match failure.cause {
        Cause::Host(when) => host(when),
        Cause::Engine(refused) => engine(plan, refused),
        Cause::Torch { shortage, around } => {
            let message = message(plan, shortage, around);
            match plan.nature.log {
                LogStyle::Bare => format!("{message}\n"),
                LogStyle::Mute => format!(
                    "{}RuntimeError: CUDA error: out of memory\n",
                    frames(plan.setup.program, failure.phase)
                ),
                _ => format!("{}{message}\n", frames(plan.setup.program, failure.phase)),
            }
        }
    });
    text
}

fn message(plan: Plan<'_>, shortage: Shortage, around: u64) -> String {
    let card = plan.setup.card;
    let free = card.saturating_sub(around + shortage.reserved);
    let (asked, all, unused) = (
        size(shortage.requested),
        size(card),
        shortage.reserved - shortage.allocated,
    );
    if plan.nature.log == LogStyle::Old {
        return format!(
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked} (GPU 0; {all} total capacity; {} already allocated; {} free; {} reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            size(shortage.allocated),
            size(free),
            size(shortage.reserved),
        );
    }
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of {all} of which {} is free. Including non-PyTorch memory, this process has {} memory in use. Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        size(free),
        size(shortage.reserved + plan.nature.context),
        size(shortage.allocated),
        size(unused),
    )
}

/// A traceback as it ends in a phase.
fn frames(program: Program, phase: Phase) -> String {
    let inner: &[(&str, u64, &str)] = match (program, phase) {
        (Program::Grpo, Phase::Load) => &[
            ("verl/workers/fsdp_workers.py", 412, "init_model"),
            ("torch/distributed/fsdp/_flat_param.py", 534, "__init__"),
        ],
        (Program::Grpo, Phase::WakeUp) => &[("verl/workers/fsdp_workers.py", 655, "rollout_mode")],
        (Program::Grpo, Phase::OldLogprob) => &[
            ("verl/workers/fsdp_workers.py", 760, "compute_log_prob"),
            ("verl/workers/actor/dp_actor.py", 330, "compute_log_prob"),
        ],
        (Program::Grpo, Phase::RefLogprob) => &[
            ("verl/workers/fsdp_workers.py", 802, "compute_ref_log_prob"),
            ("verl/workers/actor/dp_actor.py", 330, "compute_log_prob"),
        ],
        (Program::Grpo, Phase::OptimizerStep) => &[
            ("verl/workers/actor/dp_actor.py", 431, "update_policy"),
            ("verl/workers/actor/dp_actor.py", 288, "_optimizer_step"),
            ("torch/optim/adamw.py", 243, "step"),
        ],
        (Program::Grpo, _) => &[
            ("verl/workers/fsdp_workers.py", 701, "update_actor"),
            ("verl/workers/actor/dp_actor.py", 431, "update_policy"),
        ],
        (_, Phase::Forward) => &[
            (
                "transformers/models/qwen2/modeling_qwen2.py",
                703,
                "forward",
            ),
            ("torch/nn/modules/module.py", 1750, "_call_impl"),
        ],
        (_, Phase::Backward) => &[
            ("torch/_tensor.py", 626, "backward"),
            ("torch/autograd/__init__.py", 347, "backward"),
        ],
        (_, Phase::OptimizerStep) => &[("torch/optim/adamw.py", 243, "step")],
        (_, Phase::Checkpoint) => &[("transformers/trainer.py", 3905, "save_model")],
        _ => &[("torch/nn/modules/module.py", 1341, "to")],
    };
    let mut text = "Traceback (most recent call last):\n".to_owned();
    for (path, line, function) in inner {
        text.push_str(&format!(
            "  File \"/opt/env/lib/python3.11/site-packages/{path}\", line {line}, in {function}\n"
        ));
    }
    text
}

fn host(when: When) -> String {
    let told = match when {
        When::Loading => {
            "Loading checkpoint shards:  50%|█████     | 2/4 [00:20<00:20, 10.1s/it]\n"
        }
        When::Running => "",
    };
    format!(
        "{told}slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch. Some of the step tasks have been OOM Killed.\n"
    )
}

fn engine(plan: Plan<'_>, refused: Refused) -> String {
    let s = plan.setup;
    let gib = |bytes: u64| bytes as f64 / GIB;
    let (all, share) = (gib(s.card), s.share);
    match refused {
        Refused::Startup { free } => format!(
            "ValueError: Free memory on device cuda:0 ({:.2}/{all:.2} GiB) on startup is less than desired GPU memory utilization ({share}, {:.2} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n",
            gib(free),
            all * share,
        ),
        Refused::Cache { there: 0, .. } => "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n".to_owned(),
        Refused::Cache { needed, there } => format!(
            "ValueError: To serve at least one request with the models's max seq len ({}), ({:.2} GiB KV cache is needed, which is larger than the available KV cache memory ({:.2} GiB). Based on the available memory, the estimated maximum model length is {}.\n",
            s.engine_context,
            gib(needed),
            gib(there),
            s.engine_context * there / needed.max(1),
        ),
        Refused::Graphs { requested, free } => format!(
            "Traceback (most recent call last):\n  File \"/opt/env/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py\", line 2301, in capture_model\n  File \"/opt/env/lib/python3.11/site-packages/torch/cuda/graphs.py\", line 186, in __enter__\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {all:.2} GiB of which {} is free.\n",
            size(requested),
            size(free),
        ),
        Refused::Sampler => format!(
            "RuntimeError: CUDA out of memory occurred when warming up sampler with {} dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n",
            s.engine_sequences
        ),
        Refused::Sync { requested, free } => format!(
            "{}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {all:.2} GiB of which {} is free.\n",
            frames(Program::Grpo, Phase::WakeUp),
            size(requested),
            size(free),
        ),
        Refused::Wake => "Traceback (most recent call last):\n  File \"/opt/env/lib/python3.11/site-packages/vllm/device_allocator/cumem.py\", line 228, in wake_up\nRuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n".to_owned(),
    }
}
