//! In which phase of training a failure happened, from the frames around it.
//!
//! Markers are data. Each has a weight: where a traceback shows several, the heaviest wins, and among
//! equals the innermost. A phase of the reinforcement-learning loop is heavier than the forward or
//! backward pass inside it; the optimizer's step is heavier than the actor's update around it, for the
//! states that it creates are memory of their own.

mod frames;
mod markers;

use super::frame::Frame;
use frames::FRAMES;
use markers::fits;

/// Text in a line that tells the phase.
pub(crate) struct Marker {
    /// Phase, in the words of [`super::Incident::phase`].
    pub phase: &'static str,
    /// The heaviest marker of a traceback wins.
    pub weight: u8,
    /// Any of these.
    pub needles: &'static [&'static str],
}

/// Where a phase was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub phase: &'static str,
    pub weight: u8,
}

/// From this weight on a phase is one of the training loop itself, and nothing inside it is heavier.
pub(crate) const LOOP: u8 = 60;

/// Lines that are no frames: progress bars and notices. They count when there are no frames.
pub(crate) const AMBIENT: &[Marker] = &[
    ambient(
        "load",
        &[
            "Loading checkpoint shards",
            "Loading safetensors checkpoint",
            "Load weight begin",
            "Loading pipeline components",
            "Starting to load model",
        ],
    ),
    ambient(
        "cuda_graph",
        &[
            "Capturing CUDA graph",
            "Capturing cudagraphs",
            "Capture cuda graph begin",
            "Capturing batches (",
            "Capturing the model for CUDA graphs",
        ],
    ),
    ambient(
        "checkpoint",
        &[
            "Saving checkpoint",
            "Saving model checkpoint",
            "saving checkpoint",
            "Saving FSDP model",
        ],
    ),
    ambient(
        "eval",
        &[
            "Running Evaluation",
            "INFO:tensorflow:Evaluation [",
            "Sanity Checking",
            "Validation DataLoader",
            "Validating: ",
            "Evaluating: ",
        ],
    ),
    ambient(
        "rollout",
        &[
            "Rollout generation:",
            "Generating: ",
            "Processed prompts:",
            "Decode batch. #running-req",
            "Decode batch, #running-req",
            "Prefill batch. #new-seq",
            "Prefill batch, #new-seq",
            "preempted by PreemptionMode",
            "Preempting request",
        ],
    ),
    ambient(
        "dataloader",
        &[
            "Generating train split",
            "Tokenizing train dataset",
            "Running tokenizer on",
            "Map (num_proc=",
        ],
    ),
    ambient(
        "init",
        &[
            "Initializing a V1 LLM engine",
            "Initializing an LLM engine",
            "Init torch distributed begin",
            "by rematerialization",
            "queued and waiting for resources",
        ],
    ),
    ambient(
        "optimizer_step",
        &["allocator cache flushes since last step"],
    ),
    ambient("forward", &["Error in replica "]),
    ambient("actor_update", &["Train epoch ["]),
    ambient("kv_cache", &["init cache memory allocated"]),
];

const fn ambient(phase: &'static str, needles: &'static [&'static str]) -> Marker {
    Marker {
        phase,
        weight: 10,
        needles,
    }
}

/// The heaviest marker in one line of a traceback: a frame, or the source line below one.
pub(crate) fn in_frame(line: &str, frame: Option<&Frame>) -> Option<Found> {
    let canonical = frame.map(Frame::canonical);
    let line = canonical.as_deref().unwrap_or(line);
    let marked = markers::heaviest(line).map(|row| Found {
        phase: row.phase,
        weight: row.weight,
    });
    marked.or_else(|| named_after_a_layer(frame?))
}

/// A function that computes a layer, in a program that no table knows.
fn named_after_a_layer(frame: &Frame) -> Option<Found> {
    const WORDS: [&str; 14] = [
        "matmul",
        "linear",
        "attn",
        "attention",
        "conv",
        "embedding",
        "layer_norm",
        "layernorm",
        "rms_norm",
        "softmax",
        "mlp",
        "einsum",
        "gemm",
        "rotary",
    ];
    let name = frame.function.to_ascii_lowercase();
    let forward = WORDS.iter().any(|word| name.contains(word));
    forward.then_some(Found {
        phase: "forward",
        weight: 27,
    })
}

/// Does the frame run a step of training that an optimizer's step called (a closure)? Then what is
/// below it is not the optimizer's.
pub(crate) fn leaves_the_optimizer(line: &str) -> bool {
    line.ends_with("in closure") || line.contains("closure()") || line.contains("in _wrap_closure")
}

/// The phase of a marker of [`AMBIENT`].
pub(crate) fn announced(marker: u8) -> Found {
    let row = &AMBIENT[usize::from(marker).min(AMBIENT.len() - 1)];
    Found {
        phase: row.phase,
        weight: row.weight,
    }
}

/// The phase that a message tells by what it is about, for one without frames.
pub(crate) fn in_message(text: &str) -> Option<Found> {
    MESSAGES
        .iter()
        .find(|(_, needles)| needles.split(" | ").any(|n| fits(n, text)))
        .map(|(phase, _)| Found { phase, weight: 8 })
}

/// What a message is about, when nothing else tells the phase. The first that fits.
const MESSAGES: [(&str, &str); 7] = [
    (
        "backward",
        "Backward0 | BackpropFilter | BackpropInput | gradient_tape/ | gradients/ | cudnnConvolutionBackward | conv_grad_ | _grad_ops.cc | _grad_op.cc | [Op:*Grad]",
    ),
    (
        "init",
        "failed initializing StreamExecutor | cuDevicePrimaryCtxRetain | failed call to cuInit | op_kernel.cc*assign_op.h | Variable/Assign | initialization failed | failed to initialize",
    ),
    (
        "load",
        "/Restore | RestoreV2 | load_state_dict | Error(s) in loading state_dict",
    ),
    (
        "forward",
        "cannot be multiplied | cudnnConvolutionForward | Caught RuntimeError in replica | out of resource: shared memory | out of resource: triton | indexSelectLargeIndex | indexSelectSmallIndex | must match the size of tensor b | Expected all tensors to be on the same device | Expected input batch_size | cublasGemm | cublasSgemm | cublasLtMatmul",
    ),
    ("checkpoint", "PytorchStreamWriter | aving checkpoint"),
    ("dataloader", "DataLoader worker"),
    (
        "nccl",
        "ncclCommInitRank | ncclInternalError | ncclUnhandledCudaError | ncclSystemError | ProcessGroupNCCL | NCCL WARN | socketStartConnect | socketProgress | socketPoll",
    ),
];

/// The phase of this name, if any marker tells it.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    let tables = AMBIENT
        .iter()
        .map(|row| row.phase)
        .chain(FRAMES.iter().map(|row| row.phase))
        .chain(MESSAGES.iter().map(|row| row.0));
    tables.into_iter().find(|phase| *phase == name)
}

/// The phase of a traceback: the heaviest, among equals the innermost (last).
pub(crate) fn of(frames: &[Found]) -> Option<Found> {
    frames.iter().copied().max_by_key(|found| found.weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_frames(lines: &[&str]) -> &'static str {
        let found: Vec<_> = lines
            .iter()
            .filter_map(|l| in_frame(l, Frame::read(l).map(|(frame, _)| frame).as_ref()))
            .collect();
        of(&found).map_or("unknown", |f| f.phase)
    }

    #[test]
    fn the_loop_wins_over_the_pass_inside_it() {
        assert_eq!(
            of_frames(&[
                r#"File "/x/verl/workers/fsdp_workers.py", line 1, in update_actor"#,
                r#"File "/x/verl/workers/actor/dp_actor.py", line 2, in update_policy"#,
                "loss.backward()",
                r#"File "/x/torch/autograd/graph.py", line 3, in _engine_run_backward"#,
            ]),
            "actor_update"
        );
        assert_eq!(
            of_frames(&[
                r#"File "/x/verl/workers/fsdp_workers.py", line 1, in compute_ref_log_prob"#,
                "output, _ = self.ref_policy.compute_log_prob(data=data)",
                r#"File "/x/verl/workers/actor/dp_actor.py", line 2, in compute_log_prob"#,
                r#"File "/x/torch/nn/modules/module.py", line 3, in _call_impl"#,
            ]),
            "ref_logprob"
        );
    }

    #[test]
    fn the_optimizer_step_inside_an_update_is_named() {
        assert_eq!(
            of_frames(&[
                "ray::WorkerDict.actor_rollout_update_actor()",
                r#"File "/x/verl/workers/actor/dp_actor.py", line 2, in _optimizer_step"#,
                r#"File "/x/torch/optim/adamw.py", line 3, in step"#,
            ]),
            "optimizer_step"
        );
        assert_eq!(
            of_frames(&[r#"File "/x/zero/stage3.py", line 3, in fetch"#]),
            "unknown"
        );
    }

    #[test]
    fn every_phase_of_the_contract_has_a_marker() {
        for phase in [
            "init",
            "load",
            "rollout",
            "kv_cache",
            "cuda_graph",
            "wake_up",
            "old_logprob",
            "ref_logprob",
            "critic",
            "actor_update",
            "optimizer_step",
            "forward",
            "backward",
            "checkpoint",
            "dataloader",
            "eval",
            "nccl",
        ] {
            assert!(FRAMES.iter().any(|m| m.phase == phase), "{phase}");
        }
    }
}
