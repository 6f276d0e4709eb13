//! The words of a bare specification, and what they mean.

use super::row::Unknown;
use super::spec::{
    Attention, Checkpointing, Metric, Optimizer, Precision, Quantised, Sharding, Task,
};

pub(super) fn word<T: Copy>(
    field: &str,
    value: Option<&str>,
    default: T,
    words: &[(&str, T)],
) -> Result<T, Unknown> {
    let Some(text) = value else {
        return Ok(default);
    };
    let found = words.iter().find(|(name, _)| *name == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        Unknown::new(
            field,
            format!("`{text}` is not one of {}", names.join(", ")),
        )
    })
}

pub(super) fn task(given: Option<&str>) -> Result<Task, Unknown> {
    word(
        "task",
        given,
        Task::Train,
        &[
            ("sft", Task::Train),
            ("pretrain", Task::Train),
            ("grpo", Task::Train),
            ("ppo", Task::Train),
            ("dpo", Task::Train),
            ("infer", Task::Infer),
            ("serve", Task::Serve),
        ],
    )
}

pub(super) fn precision(given: Option<&str>) -> Result<Precision, Unknown> {
    let bytes = |weight, gradient, moments, master, compute, cast_copy, adapter| Precision {
        weight,
        gradient,
        moments,
        master,
        compute,
        cast_copy,
        adapter,
    };
    let pure = bytes(2.0, 2.0, 4.0, 0.0, 2.0, false, 8.0);
    word(
        "precision",
        given,
        pure,
        &[
            ("pure_bf16", pure),
            ("fp32", bytes(4.0, 4.0, 8.0, 0.0, 4.0, false, 16.0)),
            ("amp", bytes(4.0, 4.0, 8.0, 0.0, 2.0, true, 16.0)),
            ("amp_apex", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
            ("fsdp_mp", bytes(4.0, 4.0, 8.0, 0.0, 2.0, false, 16.0)),
            ("hf_bf16", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
            ("hf_fp16", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
            ("ds_bf16", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
            ("megatron", bytes(2.0, 4.0, 8.0, 4.0, 2.0, false, 18.0)),
            ("megatron_do", bytes(2.0, 4.0, 8.0, 4.0, 2.0, false, 18.0)),
        ],
    )
}

pub(super) fn optimizer(given: Option<&str>, moments: f64) -> Result<Optimizer, Unknown> {
    let kind = |moments, temporary, in_backward, paged| Optimizer {
        moments,
        temporary,
        in_backward,
        paged,
    };
    // 8-bit moments beside moments of 16 or of 32 bits each.
    let eight_bit = if moments > 4.0 { 0.25 } else { 0.5 };
    let adamw = kind(1.0, 1.0, false, false);
    word(
        "optimizer",
        given,
        adamw,
        &[
            ("adamw", adamw),
            ("adamw_fused", kind(1.0, 0.0, false, false)),
            ("adamw8bit", kind(eight_bit, 0.0, false, false)),
            ("paged_adamw8bit", kind(eight_bit, 0.0, false, true)),
            ("adamw_in_bwd", kind(1.0, 0.0, true, false)),
            ("adafactor", kind(0.01, 0.5, false, false)),
            ("muon", kind(0.5, 0.5, false, false)),
            ("sgd", kind(0.0, 0.0, false, false)),
            ("none", kind(0.0, 0.0, false, false)),
        ],
    )
}

pub(super) fn sharding(given: Option<&str>) -> Result<Sharding, Unknown> {
    word(
        "sharding",
        given,
        Sharding::None,
        &[
            ("none", Sharding::None),
            ("ddp", Sharding::Ddp),
            ("dp", Sharding::DataParallel),
            ("zero0", Sharding::Zero0),
            ("zero1", Sharding::Zero1),
            ("zero2", Sharding::Zero2),
            ("zero3", Sharding::Zero3),
            ("fsdp", Sharding::Fsdp),
            ("fsdp2", Sharding::Fsdp2),
            ("fsdp_grad_op", Sharding::FsdpGradOp),
        ],
    )
}

/// Whether weights, and whether the optimizer's states, wait in host memory; and whether they stay there while
/// the trainer computes, whatever the stack does else.
pub(super) fn offload(given: Option<&str>) -> Result<(bool, bool, bool), Unknown> {
    word(
        "offload",
        given,
        (false, false, false),
        &[
            ("none", (false, false, false)),
            ("optimizer", (false, true, false)),
            ("param", (true, false, false)),
            ("param+optimizer", (true, true, false)),
            ("always", (true, true, true)),
        ],
    )
}

pub(super) fn checkpointing(given: Option<&str>) -> Result<Checkpointing, Unknown> {
    word(
        "grad_checkpointing",
        given,
        Checkpointing::None,
        &[
            ("none", Checkpointing::None),
            ("selective", Checkpointing::Selective),
            ("full", Checkpointing::Full),
            ("offload", Checkpointing::Offload),
        ],
    )
}

pub(super) fn attention(given: Option<&str>) -> Result<Attention, Unknown> {
    word(
        "attention",
        given,
        Attention::Flash,
        &[
            ("flash", Attention::Flash),
            ("sdpa", Attention::Sdpa),
            ("eager", Attention::Eager),
        ],
    )
}

/// 4-bit formats with their scales (Dettmers 2023, section 3: one fp32 scale in 64 numbers, or 0.127 bit
/// with double quantisation), GPTQ with groups of 128, LLM.int8().
pub(super) fn quantised(given: Option<&str>) -> Result<Option<Quantised>, Unknown> {
    let format = |bytes, bitsandbytes| {
        Some(Quantised {
            bytes,
            keeps_inputs: bitsandbytes,
            casts_rest: bitsandbytes,
        })
    };
    word(
        "quant",
        given,
        None,
        &[
            ("none", None),
            ("nf4", format(0.5625, true)),
            ("nf4-dq", format(0.516, true)),
            ("gptq4", format(0.53, false)),
            ("gptq8", format(1.03, false)),
            ("int8", format(1.01, true)),
        ],
    )
}

pub(super) fn metric(given: Option<&str>) -> Result<Metric, Unknown> {
    word(
        "metric",
        given,
        Metric::Device,
        &[
            ("allocated", Metric::Allocated),
            ("active", Metric::Allocated),
            ("reserved", Metric::Reserved),
            ("nvidia-smi", Metric::Device),
            ("unspecified", Metric::Device),
            ("budget", Metric::Device),
        ],
    )
}
