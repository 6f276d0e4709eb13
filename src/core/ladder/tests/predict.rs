//! The policy `predict` on the shipped preset.

use super::shipped::{Stack, grpo};
use super::{incident, values};
use crate::core::ladder::predict::predict;
use crate::core::ladder::{
    ClimbContext, Decision, Past, PastAttempt, Posterior, Priors, Shortfall, Step, ascend,
};
use crate::core::memory::spec_of;
use crate::core::recipe::{Knob, Layer, LayerKind};
use oomctl_base::units::{Bytes, GIB};
use oomctl_base::{Effect, Origin, Value, word_list};
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::Spec;

/// A model of 7.6 billion parameters on GPUs of 80 GB, with more.
pub(super) fn job(more: &[&str]) -> Stack {
    let given = word_list::<20>(
        "model.layers=28 model.hidden=3584 model.intermediate=18944 model.heads=28
         model.kv_heads=4 model.head_dim=128 model.vocab=152064 model.params=7615616512
         model.max_position_embeddings=32768 gpu_memory=79.18GiB n_gpus_per_node=8
         train_batch_size=256 ppo_mini_batch_size=128 rollout.n=8 ppo_micro_batch_size_per_gpu=32
         rollout.log_prob_micro_batch_size_per_gpu=32 ref.log_prob_micro_batch_size_per_gpu=32
         max_prompt_length=1024 max_response_length=3072 gpu_memory_utilization=0.5",
    );
    let all = given.iter().chain(more).map(|s| (*s).to_owned());
    grpo(&all.collect::<Vec<_>>())
}

fn died(phase: &str) -> Incident {
    Incident {
        requested_bytes: Some(Bytes::from_gib(18.0)),
        free_bytes: Some(Bytes::from_gib(9.0)),
        total_bytes: Some(Bytes::from_gib(79.18)),
        step: Some(1),
        ..incident(Class::GpuOom, phase)
    }
}

fn ask(stack: &Stack, failure: &Incident, min_fit_probability: f64) -> Decision {
    ask_after(stack, &[], failure, min_fit_probability)
}

/// The same after attempts that died before.
fn ask_after(
    stack: &Stack,
    earlier: &[PastAttempt],
    failure: &Incident,
    min_fit_probability: f64,
) -> Decision {
    let outlook = Priors {
        profile: &stack.profile,
        min_fit_probability,
        past: Past {
            earlier,
            ..Past::default()
        },
    };
    let decision = predict(&stack.context(), &outlook, Some(failure)).unwrap();
    decision.expect("the model knows the job")
}

/// The job as the memory model sees it, with more rungs.
pub(super) fn spec(stack: &Stack, rungs: &[Layer]) -> Spec {
    let spec = spec_of(&stack.preset, &stack.shape(rungs), &stack.profile);
    spec.unwrap().unwrap()
}

/// What is expected of a job before and after its failure is known.
fn around(stack: &Stack, spec: &Spec, failure: &Incident) -> [f64; 2] {
    let mut posterior = Posterior::new(spec, &stack.profile);
    let before = posterior.fits(spec, &stack.profile).unwrap();
    posterior.learn(spec, Some(failure), &[], &stack.profile);
    [before, posterior.fits(spec, &stack.profile).unwrap()]
}

fn climb(decision: Decision) -> (Vec<Step>, f64) {
    match decision {
        Decision::Climb { steps, expects, .. } => {
            (steps, expects.map_or(0.0, |e| e.fits_probability))
        }
        Decision::Exhausted { skipped, .. } => panic!("exhausted: {skipped:?}"),
    }
}

fn layers(steps: &[Step]) -> Vec<Layer> {
    steps.iter().map(|s| s.layer.clone()).collect()
}

/// Sequences of a micro batch of the update with these steps.
fn micro_batch(stack: &Stack, steps: &[Step]) -> i64 {
    let rungs: Vec<Layer> = stack.rungs.iter().cloned().chain(layers(steps)).collect();
    let shape = stack.shape(&rungs);
    let value = shape.recipe().value("ppo_micro_batch_size_per_gpu");
    match value {
        Value::Int(n) => *n,
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_chosen_fits_as_surely_as_was_asked_and_keeps_the_experiment() {
    let stack = job(&[]);
    for phase in ["actor_update", "old_logprob", "wake_up"] {
        for min_fit_probability in [0.5, 0.8, 0.9] {
            let (steps, fits) = climb(ask(&stack, &died(phase), min_fit_probability));
            assert!(
                fits >= min_fit_probability,
                "{phase}: {fits} of {min_fit_probability}"
            );
            let experiment = steps.iter().all(|s| s.effect == Effect::SameMath);
            assert!(experiment, "{phase}: {:?}", values(&steps[0]));
            // The framework's own rules hold.
            stack.shape(&layers(&steps));
        }
    }
}

#[test]
fn values_between_the_rungs_are_taken_and_a_lower_risk_takes_larger_ones() {
    let mut stack = job(&[]);
    let batches = |rung: &str| rung.starts_with("halve");
    stack.preset.ladder.retain(|rung| batches(&rung.rung));
    let micro = |min_fit_probability: f64| {
        let (steps, _) = climb(ask(&stack, &died("actor_update"), min_fit_probability));
        micro_batch(&stack, &steps)
    };
    let (bold, careful) = (micro(0.5), micro(0.99));
    assert!(
        1 <= careful && careful <= bold && bold < 32,
        "{careful} {bold}"
    );
}

#[test]
fn how_surely_an_engine_starts_with_its_least_share_bounds_no_other_value() {
    // Either GPU holds the optimizer's states and a micro batch beside them, with the share that the engine really gets.
    for gib in [48.0, 94.0] {
        let stack = job(&[
            &format!("gpu_memory={gib}GiB"),
            "gpu_memory_utilization=0.4",
            "rollout.log_prob_micro_batch_size_per_gpu=64",
        ]);
        let failure = Incident {
            total_bytes: Some(Bytes::from_gib(gib)),
            free_bytes: Some(Bytes::from_gib(1.0)),
            requested_bytes: Some(Bytes::from_gib(8.0)),
            ..died("old_logprob")
        };
        let (steps, fits) = climb(ask(&stack, &failure, 0.9));
        let changes: Vec<String> = steps.iter().flat_map(values).collect();
        let offload = changes.iter().any(|c| c.starts_with("optimizer_offload"));
        assert!(!offload && fits >= 0.9, "{gib} GiB: {changes:?}");
    }
}

#[test]
fn the_answer_is_the_same_each_time() {
    let stack = job(&[]);
    let first = ask(&stack, &died("old_logprob"), 0.9);
    assert_eq!(ask(&stack, &died("old_logprob"), 0.9), first);
}

#[test]
fn a_decision_says_what_every_phase_needs_and_what_it_costs() {
    let decision = ask(&job(&[]), &died("old_logprob"), 0.9);
    let Decision::Climb {
        expects: Some(expects),
        ..
    } = decision
    else {
        panic!("{decision:?}")
    };
    let most = expects.phases.iter().map(|p| p.bytes).max();
    assert_eq!(most, Some(expects.peak_bytes));
    let slower = expects.slower.unwrap();
    assert!(slower > 0.0 && slower < 1.0, "{slower}");
}

#[test]
fn where_nothing_fits_the_smallest_request_is_named() {
    // 72 billion parameters on two GPUs, with no more in the cluster.
    let stack = job(&word_list::<8>(
        "model.layers=80 model.hidden=8192 model.intermediate=29568 model.heads=64
         model.kv_heads=8 model.params=72706203648 n_gpus_per_node=2 tensor_model_parallel_size=2",
    ));
    let decision = ask(&stack, &died("load"), 0.9);
    let Decision::Exhausted {
        shortfall: Some(shortfall),
        skipped,
    } = decision
    else {
        panic!("{decision:?}")
    };
    let Shortfall {
        enough_gpus,
        least_bytes,
        gpu_bytes,
        gpus,
        ..
    } = shortfall;
    assert_eq!(gpus, 2);
    assert!(least_bytes > gpu_bytes, "{least_bytes:?} {gpu_bytes:?}");
    let enough = enough_gpus.expect("a number of GPUs does");
    assert!((8..=64).contains(&enough), "{enough}");
    assert!(skipped.iter().any(|s| s.rung == "more-gpus"));
}

#[test]
fn a_node_without_the_memory_for_it_refuses_offload_with_the_figures() {
    let mut stack = job(&["mem=100G"]);
    stack.cluster.node_memory = Some("120G".to_owned());
    let failure = died("wake_up");
    let outlook = Priors {
        profile: &stack.profile,
        min_fit_probability: 0.999_999,
        past: Past::default(),
    };
    let only: Vec<_> = stack.preset.ladder.clone();
    let only: Vec<_> = only.into_iter().filter(|r| r.rung == "offload").collect();
    let context = crate::core::ladder::ClimbContext {
        ladder: &only,
        ..stack.context()
    };
    let decision = ascend(&context, &outlook, Some(&failure)).unwrap();
    let Decision::Exhausted { skipped, .. } = decision else {
        panic!("{decision:?}")
    };
    let offload = skipped.iter().find(|s| s.rung == "offload");
    let reason = &offload.expect("it was passed over").reason;
    assert!(reason.contains("GiB of host memory"), "{reason}");
    // With a larger node the same rung is taken.
    stack.cluster.node_memory = Some("1900G".to_owned());
    let context = crate::core::ladder::ClimbContext {
        ladder: &only,
        ..stack.context()
    };
    let (steps, _) = climb(ascend(&context, &outlook, Some(&failure)).unwrap());
    assert_eq!(steps[0].rung, "offload");
}

#[test]
fn the_engine_keeps_a_share_that_holds_its_weights() {
    let stack = job(&["free_cache_engine=false"]);
    let (steps, _) = climb(ask(&stack, &died("actor_update"), 0.9));
    let spec = spec(&stack, &layers(&steps));
    let share = spec.rollout.unwrap().memory_fraction * spec.gpu_bytes.unwrap();
    assert!(share > 2.0 * spec.model.params, "{share}");
}

/// The micro batch of the update that is chosen after old log-probabilities did not fit.
fn update_batch(more: &[&str]) -> i64 {
    let stack = job(more);
    let (steps, _) = climb(ask(&stack, &died("old_logprob"), 0.9));
    micro_batch(&stack, &steps)
}

#[test]
fn an_entropy_in_the_update_leaves_room_for_fewer_sequences() {
    let without = update_batch(&[]);
    assert!(without > update_batch(&["entropy_coeff=0.001"]));
    assert_eq!(without, update_batch(&["entropy_coeff=0"]));
}

#[test]
fn after_a_failure_of_the_gpu_nothing_goes_back_to_it() {
    let offloaded = word_list::<7>(
        "param_offload=true optimizer_offload=true model.params=1543714304 model.hidden=1536
         model.intermediate=8960 model.heads=12 model.kv_heads=2",
    );
    let stack = job(&offloaded);
    let (steps, fits) = climb(ask(&stack, &died("old_logprob"), 0.9));
    assert!(fits >= 0.9);
    let shape = stack.shape(&layers(&steps));
    for knob in ["param_offload", "optimizer_offload"] {
        assert_eq!(*shape.recipe().value(knob), Value::Bool(true), "{knob}");
    }
}

/// The rung that set these whole numbers for an earlier failure.
fn rung(values: &[(&str, i64)]) -> Layer {
    let mut layer = Layer::new(LayerKind::Rung);
    for (knob, value) in values {
        let origin = Origin::Rung {
            rung: "predict".to_owned(),
            attempt: 2,
        };
        layer.set(*knob, Value::Int(*value), origin);
    }
    layer
}

#[test]
fn a_micro_batch_that_was_cut_in_vain_grows_again_up_to_the_users_own() {
    let mut stack = job(&[
        "gpu_memory_utilization=0.9",
        "ppo_micro_batch_size_per_gpu=4",
    ]);
    stack.rungs = vec![rung(&[("ppo_micro_batch_size_per_gpu", 1)])];
    let (steps, fits) = climb(ask(&stack, &died("wake_up"), 0.9));
    assert!(fits >= 0.9, "{fits}");
    assert_eq!(micro_batch(&stack, &steps), 4);
}

#[test]
fn what_died_though_it_was_expected_to_fit_is_not_expected_to_fit_again() {
    // Adam's step takes far less than the GPU here.
    let stack = job(&[
        "ppo_micro_batch_size_per_gpu=1",
        "rollout.log_prob_micro_batch_size_per_gpu=2",
        "ref.log_prob_micro_batch_size_per_gpu=2",
    ]);
    let spec = spec(&stack, &[]);
    let failure = died("optimizer_step");
    let [before, after] = around(&stack, &spec, &failure);
    assert!(before > 0.9 && after < 0.01, "{before} {after}");
    // So the answer is another configuration, not that there is none.
    let (steps, _) = climb(ask(&stack, &failure, 0.9));
    assert!(!steps.is_empty());
}

#[test]
fn what_died_without_figures_in_its_fullest_phase_needs_more_than_there_is() {
    let stack = job(&word_list::<4>(
        "ppo_micro_batch_size_per_gpu=1 rollout.log_prob_micro_batch_size_per_gpu=2
         ref.log_prob_micro_batch_size_per_gpu=2 gpu_memory=50GiB",
    ));
    let spec = spec(&stack, &[]);
    let failure = Incident {
        step: Some(19),
        ..incident(Class::GpuOom, "rollout")
    };
    let [before, after] = around(&stack, &spec, &failure);
    assert!(before > 0.9 && after < 0.01, "{before} {after}");
}

#[test]
fn where_nothing_is_likely_to_fit_nothing_that_saves_memory_is_given_up() {
    let stack = job(&word_list::<11>(
        "param_offload=true optimizer_offload=true model.layers=48 model.hidden=5120
         model.intermediate=13824 model.heads=40 model.kv_heads=8 model.params=14770033664
         ppo_micro_batch_size_per_gpu=1 n_gpus_per_node=4 gpu_memory_utilization=0.6",
    ));
    let (steps, fits) = climb(ask(&stack, &died("actor_update"), 0.9));
    assert!(fits < 0.5, "{fits}");
    let shape = stack.shape(&layers(&steps));
    for knob in ["param_offload", "optimizer_offload"] {
        assert_eq!(*shape.recipe().value(knob), Value::Bool(true), "{knob}");
    }
}

#[test]
fn what_died_once_is_not_submitted_again() {
    let stack = job(&[]);
    let failure = died("actor_update");
    let (first, _) = climb(ask(&stack, &failure, 0.9));
    // Without a limit of host memory this tells nothing: as far as the model knows, it would fit.
    let killed = incident(Class::HostOom, "unknown");
    let tried = PastAttempt::new(layers(&first), killed, Vec::new());
    let (second, _) = climb(ask_after(&stack, &[tried], &failure, 0.9));
    let shape = |steps: &[Step]| stack.shape(&layers(steps));
    let differ = |k: &Knob| {
        let [a, b] = [&first, &second].map(|s| shape(s).recipe().value(&k.name).clone());
        a != b
    };
    assert!(stack.preset.knobs.iter().any(differ));
}

/// A job on small GPUs, with all that saves memory; its micro batch was cut for an earlier failure.
fn small() -> Stack {
    let mut stack = job(&word_list::<10>(
        "param_offload=true optimizer_offload=true max_prompt_length=512 max_response_length=512
         ppo_micro_batch_size_per_gpu=8 rollout.log_prob_micro_batch_size_per_gpu=1
         ref.log_prob_micro_batch_size_per_gpu=1 tensor_model_parallel_size=4
         gpu_memory_utilization=0.35 gpu_memory=29GiB",
    ));
    stack.rungs = vec![rung(&[("ppo_micro_batch_size_per_gpu", 1)])];
    stack
}

/// More than enough is free for so many gradients of the embeddings, but in pieces.
fn in_pieces(spec: &Spec, gradients: f64) -> Incident {
    let gradient = 8.0 * spec.model.vocab * spec.model.hidden / GIB;
    Incident {
        requested_bytes: Some(Bytes::from_gib(gradients * gradient)),
        free_bytes: Some(Bytes::from_gib(2.2)),
        total_bytes: Some(Bytes::from_gib(29.0)),
        allocated_bytes: Some(Bytes::from_gib(18.7)),
        reserved_unallocated_bytes: Some(Bytes::from_gib(3.9)),
        ..died("actor_update")
    }
}

#[test]
fn where_the_least_micro_batch_died_of_pieces_a_larger_one_is_tried() {
    let stack = small();
    let spec = spec(&stack, &stack.rungs);
    let (steps, fits) = climb(ask(&stack, &in_pieces(&spec, 1.0), 0.9));
    assert!(
        micro_batch(&stack, &steps) > 1,
        "{fits} {:?}",
        steps.iter().map(values).collect::<Vec<_>>()
    );
}

#[test]
fn what_was_in_pieces_for_the_last_gradient_says_little_of_other_lengths() {
    let stack = small();
    let spec = spec(&stack, &stack.rungs);
    let longer = Spec {
        sequence: spec.sequence * 1.1,
        ..spec.clone()
    };
    let fits = |requested: f64| {
        let failure = in_pieces(&spec, requested);
        let mut posterior = Posterior::new(&spec, &stack.profile);
        posterior.learn(&spec, Some(&failure), &[], &stack.profile);
        [&spec, &longer].map(|spec| posterior.fits(spec, &stack.profile).unwrap())
    };
    let (pieces, other) = (fits(1.0), fits(1.02));
    assert!(pieces[0] < 0.1, "{pieces:?}");
    assert!(
        pieces[1] > pieces[0] + 0.1 && pieces[1] > other[1] + 0.1,
        "{pieces:?} {other:?}"
    );
}

#[test]
fn a_share_that_moves_by_next_to_nothing_is_no_attempt() {
    for (share, taken) in [("0.21", false), ("0.4", true)] {
        let share = format!("gpu_memory_utilization={share}");
        let stack = job(&["free_cache_engine=false", "gpu_memory=16GiB", &share]);
        let outlook = Priors {
            profile: &stack.profile,
            min_fit_probability: 0.9,
            past: Past::default(),
        };
        let only: Vec<_> = stack.preset.ladder.clone();
        let only: Vec<_> = only
            .into_iter()
            .filter(|r| r.rung == "smaller-rollout-share")
            .collect();
        let context = crate::core::ladder::ClimbContext {
            ladder: &only,
            ..stack.context()
        };
        let mut decision = ascend(&context, &outlook, Some(&died("rollout"))).unwrap();
        let climbs = matches!(decision, Decision::Climb { .. });
        assert_eq!(climbs, taken, "{decision:?}");
        let skipped = decision.skipped_mut();
        let little = skipped
            .iter()
            .any(|s| s.reason.contains("0.21 -> 0.2 is too little"));
        assert_eq!(little, !taken, "{skipped:?}");
    }
}

#[test]
fn a_named_share_is_tried_alone_unless_the_trainer_is_sure_to_run_out_next() {
    let free = super::engine::STARTUP.replace("10.50/", "64.00/");
    let startup = super::engine::died(&free.replace("(0.5, 39.63", "(0.9, 71.33"));
    let moved = |stack: &Stack, decide: &dyn Fn(&Stack) -> Decision| {
        let Decision::Climb { steps, .. } = decide(stack) else {
            panic!("nothing is left");
        };
        let changes = steps.into_iter().flat_map(|step| step.changes);
        changes.map(|change| change.knob).collect::<Vec<String>>()
    };
    let predicted = |stack: &Stack| ask(stack, &startup, 0.9);
    let climbed = |stack: &Stack| {
        let outlook = Priors {
            profile: &stack.profile,
            min_fit_probability: 0.9,
            past: Past::default(),
        };
        ascend(&stack.context(), &outlook, Some(&startup)).unwrap()
    };
    let small = job(&word_list::<6>(
        "gpu_memory_utilization=0.9 param_offload=true optimizer_offload=true
         ppo_micro_batch_size_per_gpu=1 rollout.log_prob_micro_batch_size_per_gpu=1
         ref.log_prob_micro_batch_size_per_gpu=1",
    ));
    let large = job(&[
        "gpu_memory_utilization=0.9",
        "ppo_micro_batch_size_per_gpu=128",
    ]);
    for decide in [&predicted as &dyn Fn(&Stack) -> Decision, &climbed] {
        assert_eq!(moved(&small, decide), ["gpu_memory_utilization"]);
        let knobs = moved(&large, decide);
        let has = |knob: &str| knobs.iter().any(|k| k == knob);
        assert!(has("gpu_memory_utilization"), "{knobs:?}");
        assert!(has("ppo_micro_batch_size_per_gpu"), "{knobs:?}");
    }
}

#[test]
fn where_no_rung_is_left_the_values_between_the_rungs_are_tried() {
    let stack = job(&[]);
    let halve = stack
        .preset
        .ladder
        .iter()
        .filter(|r| r.rung == "halve-batches");
    let ladder: Vec<_> = halve.cloned().collect();
    let failure = died("actor_update");
    let outlook = Priors {
        profile: &stack.profile,
        min_fit_probability: 0.9,
        past: Past::default(),
    };
    let ask = |rungs: &[Layer], whole_rungs: bool| {
        let context = ClimbContext {
            ladder: &ladder,
            rungs,
            whole_rungs,
            ..stack.context()
        };
        ascend(&context, &outlook, Some(&failure)).unwrap()
    };
    let mut rungs: Vec<Layer> = Vec::new();
    let last = loop {
        match ask(&rungs, false) {
            Decision::Climb { steps, .. } if steps.iter().all(|s| s.rung == "halve-batches") => {
                rungs.extend(steps.into_iter().map(|s| s.layer));
            }
            other => break other,
        }
    };
    let Decision::Climb { steps, .. } = last else {
        panic!("given up: {last:?}");
    };
    assert_eq!(steps.last().unwrap().rung, "predict", "{steps:?}");
    let whole = ask(&rungs, true);
    assert!(matches!(whole, Decision::Exhausted { .. }), "{whole:?}");
}
