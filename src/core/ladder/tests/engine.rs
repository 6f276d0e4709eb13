//! An engine whose cache does not hold one sequence, by its own figures.

use super::shipped::grpo;
use crate::core::ladder::{Decision, Step, climb};
use oomctl_base::{Value, word_list};
use oomctl_diagnose::{Incident, Scanner};

pub(super) fn died(message: &str) -> Incident {
    let mut scanner = Scanner::new(&[]);
    let source = scanner.source("job.err");
    scanner.feed(source, 0, format!("ValueError: {message}\n").as_bytes());
    scanner.finish_source(source);
    scanner.verdict(None)
}

/// vLLM 0.11 `v1/core/kv_cache_utils.py`.
fn short_of(gib: f64, holds: u64) -> Incident {
    died(&format!(
        "To serve at least one request with the models's max seq len (9216), ({:.2} GiB KV cache is needed, which is larger than the available KV cache memory (1.00 GiB). Based on the available memory, the estimated maximum model length is {holds}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        1.0 + gib
    ))
}

fn first(set: &[&str], incident: &Incident) -> (Step, Vec<String>) {
    let all = [
        "max_prompt_length=1024",
        "max_response_length=8192",
        "rollout.max_model_len=9216",
    ];
    let all: Vec<String> = all.iter().chain(set).map(|s| (*s).to_owned()).collect();
    let job = grpo(&all);
    let decision = climb(&job.context(), Some(incident)).unwrap();
    let Decision::Climb {
        mut steps, skipped, ..
    } = decision
    else {
        panic!("{decision:?}");
    };
    let skipped = skipped
        .into_iter()
        .map(|s| format!("{}: {}", s.rung, s.reason));
    (steps.remove(0), skipped.collect())
}

#[test]
fn the_smallest_share_that_holds_one_sequence() {
    // 2 of 80 GiB are missing: 0.025, and a hundredth beyond.
    let set = ["gpu_memory_utilization=0.5", "gpu_memory=80GiB"];
    let (step, _) = first(&set, &short_of(2.0, 5_000));
    assert_eq!(step.rung, "larger-rollout-share");
    assert_eq!(step.changes[0].to, Value::Float(0.54));
    // More than the ladder's own tenth, in one step.
    let (step, _) = first(&set, &short_of(20.0, 600));
    assert_eq!(step.changes[0].to, Value::Float(0.76));
}

#[test]
fn a_gpu_that_nobody_knows_leaves_the_ladders_own_step() {
    let (step, _) = first(&["gpu_memory_utilization=0.5"], &short_of(2.0, 5_000));
    assert_eq!(step.changes[0].to, Value::Float(0.6));
}

#[test]
fn a_share_that_would_not_be_enough_is_not_tried() {
    let set = ["gpu_memory_utilization=0.8", "gpu_memory=80GiB"];
    let (step, skipped) = first(&set, &short_of(16.0, 2_000));
    assert_ne!(step.rung, "larger-rollout-share");
    let reason =
        "tokens needs gpu_memory_utilization of 1.01 by the log's figures, and 0.9 is the most";
    assert!(skipped.iter().any(|s| s.contains(reason)), "{skipped:?}");
}

#[test]
fn responses_become_as_short_as_the_cache_asks_for_and_no_shorter() {
    let set = word_list::<8>(
        "gpu_memory_utilization=0.9 max_num_seqs=16 max_num_batched_tokens=9216 n_gpus_per_node=1
         gpu_memory=80GiB enforce_eager=true param_offload=true optimizer_offload=true",
    );
    let (step, skipped) = first(&set, &short_of(0.2, 8_000));
    assert_eq!(step.rung, "shorter-responses", "{skipped:?}");
    let to = |knob: &str| {
        let change = step.changes.iter().find(|c| c.knob == knob);
        change.map(|c| c.to.clone())
    };
    assert_eq!(to("max_response_length"), Some(Value::Int(8_192 - 1_216)));
    assert_eq!(to("rollout.max_model_len"), Some(Value::Int(8_000)));
}

/// The text of a log with two failures.
fn both(first: &str, second: &str) -> Incident {
    died(&format!("{first}\n{second}"))
}

const OOM: &str = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.18 GiB of which 0.20 GiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";
const NO_BLOCKS: &str = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.";
pub(super) const STARTUP: &str = "Free memory on device cuda:1 (10.50/79.25 GiB) on startup is less than desired GPU memory utilization (0.5, 39.63 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.";

#[test]
fn what_makes_another_failure_of_the_log_worse_is_not_done() {
    let (step, skipped) = first(&[], &both(NO_BLOCKS, OOM));
    let touches = |knob: &str| step.changes.iter().any(|c| c.knob == knob);
    assert!(!touches("gpu_memory_utilization"), "{step:?}");
    let why = "larger-rollout-share: it makes another failure of the same log worse";
    assert!(skipped.iter().any(|s| s.starts_with(why)), "{skipped:?}");
    // One engine finds no room for its share, another too little in it: no share is right for both.
    let kv = format!("ValueError: {NO_BLOCKS}");
    let (step, skipped) = first(&[], &both(STARTUP, &kv));
    let touches = |knob: &str| step.changes.iter().any(|c| c.knob == knob);
    assert!(!touches("gpu_memory_utilization"), "{step:?}");
    assert!(
        skipped.iter().any(|s| s.contains("another failure")),
        "{skipped:?}"
    );
}

#[test]
fn a_gpu_that_somebody_else_holds_is_no_matter_of_shares() {
    let full = STARTUP.replace("10.50/", "0.50/");
    let (step, skipped) = first(&[], &died(&full));
    assert_ne!(step.rung, "smaller-rollout-share");
    let why = "smaller-rollout-share: gpu_memory_utilization is at least 0.05";
    assert!(skipped.iter().any(|s| s.starts_with(why)), "{skipped:?}");
    // Where a share would do, it is that.
    let (step, _) = first(&[], &died(STARTUP));
    assert_eq!(step.changes[0].to, Value::Float(0.11));
}
