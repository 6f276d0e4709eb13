//! In which phase of training a failure happened, from the frames around it.
//!
//! Markers are data (`presets/signatures/phases.yaml`). Each has a weight: where a traceback shows several, the heaviest wins, and among
//! equals the innermost. A phase of the reinforcement-learning loop is heavier than the forward or
//! backward pass inside it; the optimizer's step is heavier than the actor's update around it, for the
//! states that it creates are memory of their own.

mod markers;

use std::sync::LazyLock;

use serde::Deserialize;

use super::frame::Frame;
use super::tables::{read, table};
use markers::fits;

use oomctl_base::word_list;

/// Text in a line that tells the phase.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marker {
    /// Phase, in the words of [`super::Incident::phase`].
    pub phase: String,
    /// The heaviest marker of a traceback wins.
    pub weight: u8,
    /// Any of these.
    pub contains: Vec<String>,
}

impl Marker {
    fn found(&'static self) -> PhaseMention {
        PhaseMention {
            phase: &self.phase,
            weight: self.weight,
        }
    }
}

/// What tells a phase, as the table has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Markers {
    /// Functions and source text of a traceback.
    frames: Vec<Marker>,
    /// Lines that are no frames: progress bars and notices.
    pub announced: Vec<Marker>,
    /// What a message is about.
    messages: Vec<Marker>,
    /// Functions and source text that hold one number for each word of the vocabulary.
    pub logits: Vec<String>,
    /// Needles of frames and source lines that hold one number for each class, or word of a vocabulary.
    pub class_scores: Vec<String>,
    /// Needles of frames and source lines of a program whose classes are words of a vocabulary.
    pub vocabulary: Vec<String>,
    /// Needles of frames and source lines of attention that holds a score for each pair of positions.
    pub attention_scores: Vec<String>,
    /// Needles of frames and source lines of attention that may hold them.
    pub attention_calls: Vec<String>,
    /// Needles of frames and source lines that compute a layer.
    pub layers: Vec<String>,
    /// Needles of frames and source lines of an evaluation whose samples have a loader of their own.
    pub evaluation_loaders: Vec<String>,
}

pub(crate) static MARKERS: LazyLock<Markers> = LazyLock::new(|| read(table!("phases")));

/// Where a phase was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PhaseMention {
    pub phase: &'static str,
    pub weight: u8,
}

/// From this weight on a phase is one of the training loop itself, and nothing inside it is heavier.
pub(crate) const LOOP: u8 = 60;

/// The heaviest marker in one line of a traceback: a frame, or the source line below one.
pub(crate) fn in_frame(line: &str, frame: Option<&Frame>) -> Option<PhaseMention> {
    // `loss.backward(); optimizer.step()`: which of them ran is in the frames below.
    if frame.is_none() && line.contains("; ") {
        return None;
    }
    let canonical = frame.map(Frame::canonical);
    let line = canonical.as_deref().unwrap_or(line);
    let marked = markers::heaviest(line).map(Marker::found);
    marked.or_else(|| named_after_a_layer(frame?))
}

/// Do any of these stand in a canonical frame, or in the source line below one?
pub(crate) fn any_fits(needles: &[String], line: &str) -> bool {
    needles.iter().any(|needle| fits(needle, line))
}

/// A function that computes a layer, in a program that no table knows.
fn named_after_a_layer(frame: &Frame) -> Option<PhaseMention> {
    const WORDS: [&str; 14] = word_list(
        "matmul linear attn attention conv embedding layer_norm layernorm rms_norm softmax mlp
         einsum gemm rotary",
    );
    let name = frame.function.to_ascii_lowercase();
    let forward = WORDS.iter().any(|word| name.contains(word));
    forward.then_some(PhaseMention {
        phase: "forward",
        weight: 27,
    })
}

/// Does the frame run a step of training that an optimizer's step called (a closure)? Then what is
/// below it is not the optimizer's.
pub(crate) fn leaves_the_optimizer(line: &str) -> bool {
    line.ends_with("in closure") || line.contains("closure()") || line.contains("in _wrap_closure")
}

/// The phase of a marker of [`Markers::announced`].
pub(crate) fn announced(marker: u8) -> PhaseMention {
    let rows = &MARKERS.announced;
    rows[usize::from(marker).min(rows.len() - 1)].found()
}

/// The phase that a message tells by what it is about, for one without frames.
pub(crate) fn in_message(text: &str) -> Option<PhaseMention> {
    let about = |row: &&Marker| row.contains.iter().any(|needle| fits(needle, text));
    MARKERS.messages.iter().find(about).map(Marker::found)
}

/// The phase of this name, if any marker tells it.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    let Markers {
        frames,
        announced,
        messages,
        ..
    } = &*MARKERS;
    let mut rows = announced.iter().chain(frames).chain(messages);
    rows.find(|row| row.phase == name)
        .map(|row| row.phase.as_str())
}

/// The phase of a traceback: the heaviest, among equals the innermost (last).
pub(crate) fn of(frames: &[PhaseMention]) -> Option<PhaseMention> {
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
            of_frames(&[
                r#"File "/x/train.py", line 25, in <module>"#,
                "loss = f(x); loss.backward(); optimizer.step()",
                r#"File "/x/torch/autograd/graph.py", line 3, in _engine_run_backward"#,
            ]),
            "backward"
        );
        assert_eq!(
            of_frames(&[r#"File "/x/zero/stage3.py", line 3, in fetch"#]),
            "unknown"
        );
    }

    const APPLY: &str = r#"File "/x/torch/autograd/function.py", line 574, in apply"#;
    const NO_GRAD: &str = r#"File "/x/torch/autograd/grad_mode.py", line 27, in decorate_context"#;
    const CALL: &str = r#"File "/x/torch/nn/modules/module.py", line 1511, in _call_impl"#;

    #[test]
    fn what_belongs_to_autograd_is_a_backward_pass_only_where_its_engine_runs() {
        let forward = r#"File "/x/torch/utils/checkpoint.py", line 263, in forward"#;
        assert_eq!(of_frames(&[CALL, APPLY, forward]), "forward");
        assert_eq!(of_frames(&[NO_GRAD, CALL]), "forward");
        let engine = r#"File "/x/torch/autograd/graph.py", line 3, in _engine_run_backward"#;
        assert_eq!(of_frames(&[engine, APPLY, CALL]), "backward");
        let grad = r#"File "/x/torch/autograd/__init__.py", line 412, in grad"#;
        assert_eq!(
            of_frames(&["g = torch.autograd.grad(y, x)", grad]),
            "backward"
        );
    }

    #[test]
    fn a_validation_is_none_of_training() {
        for function in [
            r#""/x/mmcv/runner/hooks/evaluation.py", line 262, in _do_evaluate"#,
            r#""/x/mmseg/apis/test.py", line 208, in multi_gpu_test"#,
            r#""/x/detectron2/evaluation/evaluator.py", line 165, in inference_on_dataset"#,
            r#""/x/ultralytics/engine/validator.py", line 195, in __call__"#,
            r#""/x/diffusers/train_dreambooth.py", line 150, in log_validation"#,
            r#""/x/pytorch_lightning/loops/epoch/evaluation_epoch_loop.py", line 128, in advance"#,
            r#""train.py", line 90, in validate"#,
            r#""train.py", line 90, in val"#,
            r#""train.py", line 90, in test"#,
            r#""train.py", line 90, in eval_one_epoch"#,
            r#""train.py", line 90, in val_epoch"#,
            r#""train.py", line 216, in estimate_loss"#,
        ] {
            let frame = format!("File {function}");
            assert_eq!(of_frames(&[&frame, NO_GRAD, CALL]), "eval", "{function}");
        }
        let step = "outputs = self.runner.model.val_step(data_batch)";
        assert_eq!(of_frames(&[step, CALL]), "eval");
    }

    #[test]
    fn a_function_that_does_both_is_told_apart_by_what_it_is_handed() {
        for call in [
            "run(test_loader, train=False)",
            "run(epoch,data,train = False)",
            "epoch('x', is_training=False)",
            "self.step(batch, mode='val')",
            "process(val_loader, model)",
        ] {
            assert_eq!(of_frames(&[call, CALL]), "eval", "{call}");
            let trains = of_frames(&[call, "loss.backward()"]);
            assert_eq!(trains, "backward", "{call}");
        }
        for call in [
            "fit(train_loader, val_loader)",
            "build(x, pretrain=False)",
            "run(loader, train=True)",
        ] {
            assert_ne!(of_frames(&[call, CALL]), "eval", "{call}");
        }
    }

    #[test]
    fn a_wake_up_is_one_whoever_asked_for_it() {
        let trainer = r#"File "/x/openrlhf/trainer/ray/ppo_actor.py", line 161, in ppo_train"#;
        let mapped = r#"File "/x/vllm/device_allocator/cumem.py", line 207, in wake_up"#;
        assert_eq!(of_frames(&[trainer, mapped]), "wake_up");
        assert_eq!(of_frames(&[trainer, CALL]), "actor_update");
    }

    #[test]
    fn a_function_of_ones_own_that_trains_is_no_validation() {
        let test = r#"File "train.py", line 90, in test"#;
        assert_eq!(of_frames(&[test, CALL, "loss.backward()"]), "backward");
        let checks = r#"File "train.py", line 9, in validate_config"#;
        assert_eq!(of_frames(&[checks]), "init");
        let part = r#"File "tune.py", line 71, in _forward_backward_step"#;
        let gathers = r#"File "/env/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", line 58, in allocate"#;
        assert_eq!(of_frames(&[part, gathers]), "forward");
        let values = r#"File "train.py", line 9, in value_loss"#;
        assert_eq!(of_frames(&[values]), "unknown");
    }

    #[test]
    fn every_phase_of_the_contract_has_a_marker() {
        for phase in "init load rollout kv_cache cuda_graph wake_up old_logprob ref_logprob critic
             actor_update optimizer_step forward backward checkpoint dataloader preprocessing eval nccl"
            .split_whitespace()
        {
            assert!(MARKERS.frames.iter().any(|m| m.phase == phase), "{phase}");
        }
    }
}
