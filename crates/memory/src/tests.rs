//! What an estimate must get right whatever its constants.

use super::*;
use oomctl_base::units::GIB;

/// A 7B model that trains in bf16 on one GPU of 80 GB.
const ROW: &str = r#"{
    "params_b": 7.0, "layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008, "vocab": 32000, "gpus": 1,
    "gpu_total_gib": 79.18, "micro_batch": 2, "seq_len": 2048, "grad_checkpointing": "full", "metric": "allocated"
}"#;

fn row(changes: serde_json::Value) -> MeasurementRow {
    let mut row: serde_json::Value = serde_json::from_str(ROW).unwrap();
    for (field, value) in changes.as_object().unwrap() {
        row[field] = value.clone();
    }
    serde_json::from_value(row).unwrap()
}

fn of(changes: serde_json::Value) -> Estimate {
    let profile = Profile::default();
    estimate(&row(changes).spec(&profile).unwrap(), &profile)
}

fn term(estimate: &Estimate, phase: Phase, name: &str) -> f64 {
    let phase = estimate.phases.iter().find(|p| p.phase == phase).unwrap();
    phase
        .terms
        .iter()
        .filter(|t| t.name == name)
        .map(|t| t.bytes)
        .sum()
}

/// Relative difference.
fn off(a: f64, b: f64) -> f64 {
    (a - b).abs() / b
}

#[test]
fn states_of_pure_bf16_are_eight_bytes_a_parameter() {
    let e = of(serde_json::json!({}));
    let step = Phase::OptimizerStep;
    let states =
        term(&e, step, "weights") + term(&e, step, "gradients") + term(&e, step, "optimizer");
    assert!(off(states, 8.0 * 7e9) < 1e-9, "{states}");
}

#[test]
fn fsdp_shards_sixteen_bytes_a_parameter() {
    let e =
        of(serde_json::json!({ "precision": "fsdp_mp", "sharding": "fsdp", "dp": 8, "gpus": 8 }));
    let step = Phase::OptimizerStep;
    let states =
        term(&e, step, "weights") + term(&e, step, "gradients") + term(&e, step, "optimizer");
    assert!(off(states, 2.0 * 7e9) < 1e-9, "{states}");
}

#[test]
fn one_sequence_leaves_the_gradients_of_the_embeddings() {
    let backward = |micro: u32, whole: bool| {
        let profile = Profile {
            reduces_embeddings: whole,
            ..Profile::default()
        };
        let row = row(serde_json::json!({
            "precision": "fsdp_mp", "sharding": "fsdp", "dp": 8, "gpus": 8, "vocab": 152_064, "seq_len": 512,
            "micro_batch": micro,
        }));
        let e = estimate(&row.spec(&profile).unwrap(), &profile);
        let backward = e.phases.iter().find(|p| p.phase == Phase::Backward);
        backward.unwrap().bytes
    };
    // Two matrices in 16 bits, and in fp32 once more, whatever the batch.
    assert!(backward(1, true) > backward(1, false) + GIB);
    assert!(off(backward(64, true), backward(64, false)) < 1e-9);
}

#[test]
fn states_that_stay_on_the_host_are_nowhere_on_the_gpu() {
    let states = |offload: &str| {
        let e = of(serde_json::json!({
            "task": "grpo", "precision": "fsdp_mp", "sharding": "fsdp", "dp": 8, "gpus": 8, "engine_share": 0.4,
            "offload": offload,
        }));
        let of = |p: &PhaseEstimate| term(&e, p.phase, "weights") + term(&e, p.phase, "optimizer");
        e.phases.iter().map(of).fold(0.0, f64::max)
    };
    assert!(states("param+optimizer") > GIB);
    assert!(states("always") < 1.0);
}

#[test]
fn zero_stages_shard_more_and_more() {
    let peak = |stage: &str| {
        let row =
            serde_json::json!({ "precision": "ds_bf16", "sharding": stage, "dp": 8, "gpus": 8 });
        term(&of(row.clone()), Phase::OptimizerStep, "optimizer")
            + term(&of(row.clone()), Phase::OptimizerStep, "gradients")
            + term(&of(row), Phase::OptimizerStep, "weights")
    };
    let peaks = ["ddp", "zero1", "zero2", "zero3"].map(peak);
    assert!(peaks.is_sorted_by(|a, b| a > b), "{peaks:?}");
    assert!(off(peaks[0], 16.0 * 7e9) < 1e-9 && off(peaks[3], 2.0 * 7e9) < 1e-9);
}

#[test]
fn more_of_anything_never_takes_less() {
    for field in "micro_batch seq_len layers hidden ffn vocab params_b".split_whitespace() {
        let value = |factor: f64| {
            let present: serde_json::Value = serde_json::from_str(ROW).unwrap();
            let more = present[field].as_f64().unwrap() * factor;
            // Only one of both may say how large the model is.
            let changes = match field {
                "params_b" => serde_json::json!({ field: more }),
                _ => serde_json::json!({ field: more, "params_b": null }),
            };
            of(changes).peak_bytes
        };
        assert!(value(2.0) >= value(1.0), "{field}");
    }
}

#[test]
fn every_remedy_of_the_ladder_helps_where_it_acts() {
    let big = |more: serde_json::Value| {
        let mut changes = serde_json::json!({ "task": "grpo", "gpus": 4, "sharding": "fsdp", "precision": "fsdp_mp",
            "engine_share": 0.6, "micro_batch": 8, "rollout_tp": 2 });
        for (field, value) in more.as_object().unwrap() {
            changes[field] = value.clone();
        }
        of(changes)
    };
    let bytes =
        |e: &Estimate, phase: Phase| e.phases.iter().find(|p| p.phase == phase).unwrap().bytes;
    let before = big(serde_json::json!({}));
    let halved = big(serde_json::json!({ "micro_batch": 4 }));
    assert!(bytes(&halved, Phase::Forward) < bytes(&before, Phase::Forward));
    assert!(
        off(
            bytes(&halved, Phase::Rollout),
            bytes(&before, Phase::Rollout)
        ) < 1e-9
    );
    let share = big(serde_json::json!({ "engine_share": 0.4 }));
    assert!(bytes(&share, Phase::Rollout) < bytes(&before, Phase::Rollout));
    assert!(
        off(
            bytes(&share, Phase::Forward),
            bytes(&before, Phase::Forward)
        ) < 1e-9
    );
    let offloaded = big(serde_json::json!({ "offload": "param+optimizer" }));
    assert!(bytes(&offloaded, Phase::Rollout) < bytes(&before, Phase::Rollout));
    assert!(offloaded.phases[0].host_bytes > before.phases[0].host_bytes);
}

#[test]
fn the_interval_holds_the_middle_and_decides_what_fits() {
    let small = of(serde_json::json!({ "micro_batch": 1, "seq_len": 512 }));
    assert!(small.low_bytes < small.peak_bytes && small.peak_bytes < small.high_bytes);
    assert!(
        small.fits_probability.unwrap() > 0.9,
        "{:?}",
        small.fits_probability
    );
    let large = of(serde_json::json!({ "micro_batch": 64, "seq_len": 8192 }));
    assert!(
        large.fits_probability.unwrap() < 0.1,
        "{:?}",
        large.fits_probability
    );
    assert_eq!(
        of(serde_json::json!({ "gpu_total_gib": null })).fits_probability,
        None
    );
}

#[test]
fn a_field_that_is_missing_or_absurd_is_named() {
    let profile = Profile::default();
    for (changes, field) in [
        (serde_json::json!({ "layers": null }), "layers"),
        (serde_json::json!({ "hidden": -1 }), "hidden"),
        (serde_json::json!({ "micro_batch": 1e300 }), "micro_batch"),
        (serde_json::json!({ "sharding": "zero9" }), "sharding"),
        (serde_json::json!({ "offload": "everything" }), "offload"),
        (
            serde_json::json!({ "lora_r": 8, "lora_targets": "q,zz" }),
            "lora_targets",
        ),
        (serde_json::json!({ "gpu_total_gib": 0 }), "gpu_total_gib"),
    ] {
        let unknown = row(changes).spec(&profile).unwrap_err();
        assert_eq!(unknown.field, field, "{unknown}");
    }
}

#[test]
fn every_term_says_what_it_is() {
    let rows = [
        serde_json::json!({}),
        serde_json::json!({ "task": "infer" }),
        serde_json::json!({ "task": "grpo", "gpus": 8, "sharding": "fsdp", "engine_share": 0.5, "cuda_graphs": true }),
        serde_json::json!({ "sharding": "dp", "gpus": 4 }),
        serde_json::json!({ "lora_r": 8, "quant": "nf4", "metric": "nvidia-smi", "precision": "amp" }),
    ];
    for changes in rows {
        for phase in of(changes).phases {
            for term in phase.terms {
                assert!(
                    TERMS.iter().any(|[name, ..]| *name == term.name),
                    "{}",
                    term.name
                );
            }
        }
    }
}

#[test]
fn tied_embeddings_are_told_from_the_number_of_parameters() {
    let small = serde_json::json!({ "params_b": 0.494, "layers": 24, "hidden": 896, "heads": 14, "kv_heads": 2,
        "head_dim": 64, "ffn": 4864, "vocab": 151936 });
    let profile = Profile::default();
    assert!(row(small).spec(&profile).unwrap().model.tied);
    assert!(
        !row(serde_json::json!({}))
            .spec(&profile)
            .unwrap()
            .model
            .tied
    );
}

fn with(profile: &str, changes: serde_json::Value) -> Estimate {
    let profile: Profile = serde_json::from_str(profile).unwrap();
    estimate(&row(changes).spec(&profile).unwrap(), &profile)
}

fn bytes(estimate: &Estimate, phase: Phase) -> f64 {
    let phase = estimate.phases.iter().find(|p| p.phase == phase).unwrap();
    phase.bytes
}

#[test]
fn gradients_of_one_micro_batch_come_as_its_checkpoints_go() {
    let long = |accumulation: f64| {
        of(
            serde_json::json!({ "seq_len": 8192, "precision": "fsdp_mp", "sharding": "fsdp", "dp": 8, "gpus": 8,
            "grad_accum": accumulation }),
        )
    };
    let (single, accumulated) = (long(1.0), long(4.0));
    let gradients = term(&accumulated, Phase::Backward, "gradients");
    let checkpoints = term(&accumulated, Phase::Backward, "checkpoints");
    let less = bytes(&accumulated, Phase::Backward) - bytes(&single, Phase::Backward);
    assert!(gradients > 0.0 && checkpoints > 0.0);
    assert!(less > 0.9 * gradients.min(checkpoints), "{less}");
}

#[test]
fn gradients_wait_whole_where_micro_batches_do_not_reduce_them() {
    let job = |accumulation: u32, bytes: u32| {
        let row = serde_json::json!({ "precision": "fsdp_mp", "sharding": "fsdp", "dp": 8, "gpus": 8,
            "grad_accum": accumulation, "no_sync_bytes": bytes });
        let job = of(row);
        let gradients = |phase| term(&job, phase, "gradients") / GIB;
        [Phase::Forward, Phase::Backward, Phase::OptimizerStep].map(gradients)
    };
    let whole = 8.0 * job(4, 0)[2] / 2.0;
    assert_eq!(job(1, 2), job(1, 0));
    let [forward, backward, step] = job(4, 2);
    assert!((forward / whole - 1.0).abs() < 1e-6, "{forward} {whole}");
    assert!((backward / whole - 1.0).abs() < 1e-6, "{backward} {whole}");
    assert_eq!(step, job(4, 0)[2]);
    assert!((job(4, 4)[0] / whole - 2.0).abs() < 1e-6);
}

#[test]
fn buckets_of_ddp_hold_the_gradients_once_more_from_the_start_on() {
    let buckets = |profile: &str, more: serde_json::Value| {
        let mut row =
            serde_json::json!({ "precision": "amp", "sharding": "ddp", "gpus": 2, "dp": 2 });
        row.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let job = with(profile, row);
        let term = |phase, name| term(&job, phase, name) / GIB;
        let (forward, gradients) = (
            term(Phase::Forward, "communication buffers"),
            term(Phase::OptimizerStep, "gradients"),
        );
        (forward, gradients)
    };
    let (forward, gradients) = buckets("{}", serde_json::json!({}));
    assert!(
        (forward / gradients - 1.0).abs() < 1e-6,
        "{forward} {gradients}"
    );
    assert_eq!(
        buckets(r#"{ "ddp_copies": 0 }"#, serde_json::json!({})).0,
        0.0
    );
    assert_eq!(buckets("{}", serde_json::json!({ "lora_r": 8 })).0, 0.0);
}

#[test]
fn only_the_low_memory_recipe_of_one_gpu_steps_inside_the_backward_pass() {
    let gradients = |optimizer: &str, gpus: u32| {
        let row =
            serde_json::json!({ "optimizer": optimizer, "gpus": gpus, "precision": "pure_bf16" });
        term(
            &with(r#"{ "steps_in_backward": true }"#, row),
            Phase::OptimizerStep,
            "gradients",
        ) / GIB
    };
    let (whole, one_layer) = (gradients("adamw", 1), gradients("paged_adamw8bit", 1));
    assert!(whole > 10.0 && one_layer < 1.0, "{whole} {one_layer}");
    assert!(gradients("paged_adamw8bit", 2) > 10.0);
}

#[test]
fn cached_blocks_never_make_a_job_fail() {
    let job = |total: f64| {
        of(serde_json::json!({ "micro_batch": 32, "metric": "reserved", "gpu_total_gib": total }))
    };
    let roomy = job(1000.0);
    let cache = term(&roomy, roomy.phase, "allocator cache");
    assert!(cache > 0.0);
    let gib = f64::from(1 << 30);
    let tight = (roomy.peak_bytes - 0.5 * cache) / gib;
    let squeezed = job(tight);
    assert!(squeezed.peak_bytes < tight * gib);
    assert!(squeezed.fits_probability.unwrap() > 0.5);
}

#[test]
fn a_gptq_base_keeps_its_embedding_in_16_bits_and_one_of_bitsandbytes_does_not() {
    let weights = |quant: &str| {
        let e = of(serde_json::json!({ "lora_r": 8, "quant": quant }));
        term(&e, Phase::Forward, "weights")
    };
    let embeddings = 2.0 * 32000.0 * 4096.0;
    let layers = 7e9 - embeddings;
    assert!(off(weights("gptq4"), layers * 0.53 + embeddings * 2.0) < 1e-9);
    assert!(off(weights("nf4"), layers * 0.5625 + embeddings * 4.0) < 1e-9);
}

#[test]
fn a_stack_that_unties_has_two_matrices() {
    let tied = serde_json::json!({ "tied": true, "params_b": 6.0 });
    let shared = with("{}", tied.clone());
    let apart = with(r#"{ "unties": true }"#, tied);
    let more = term(&apart, Phase::Load, "weights") - term(&shared, Phase::Load, "weights");
    assert!(off(more, 2.0 * 32000.0 * 4096.0) < 1e-9);
}

#[test]
fn a_peak_that_the_last_stage_prints_is_not_the_fullest_gpus() {
    let stages = |metric: &str| {
        serde_json::json!({ "pp": 4, "gpus": 4, "grad_accum": 8, "grad_checkpointing": "none", "seq_len": 4096,
            "metric": metric })
    };
    let prints = r#"{ "prints_last_stage": true }"#;
    let printed = bytes(&with(prints, stages("allocated")), Phase::Forward);
    let fullest = bytes(&with(prints, stages("nvidia-smi")), Phase::Forward);
    assert!(printed < 0.6 * fullest, "{printed} {fullest}");
}

#[test]
fn autocast_keeps_more_than_16_bits_and_less_than_fp32() {
    let kept = |precision: &str| {
        let changes = serde_json::json!({ "precision": precision, "grad_checkpointing": "none", "attention": "eager" });
        term(&of(changes), Phase::Forward, "activations")
    };
    let (half, mixed, full) = (kept("pure_bf16"), kept("amp"), kept("fp32"));
    assert!(half < mixed && mixed < full, "{half} {mixed} {full}");
}

#[test]
fn bytes_per_logit_may_depend_on_the_precision_and_on_tensor_parallelism() {
    let text = r#"{ "logits": { "hf": 13, "hf.hf_fp16": 9, "hf.tp": 20 } }"#;
    let logits = |changes: serde_json::Value| {
        let mut changes = changes;
        changes["loss_impl"] = "hf".into();
        term(&with(text, changes), Phase::Forward, "logits") / (4096.0 * 32000.0)
    };
    assert!(off(logits(serde_json::json!({})), 13.0) < 1e-9);
    assert!(off(logits(serde_json::json!({ "precision": "hf_fp16" })), 9.0) < 1e-9);
    assert!(off(logits(serde_json::json!({ "tp": 2, "gpus": 2 })), 10.0) < 1e-9);
}

#[test]
fn of_one_process_on_several_gpus_only_the_first_holds_optimizer_and_outputs() {
    let profile = Profile::default();
    let job = serde_json::json!({ "sharding": "dp", "dp": 4, "gpus": 4, "precision": "fp32" });
    let spec = row(job.clone()).spec(&profile).unwrap();
    let told = replicas(&spec, &profile).unwrap();
    assert!(off(told.first_bytes, of(job).peak_bytes) < 1e-9);
    assert!(told.other_bytes < told.first_bytes - 8.0 * 7e9, "{told:?}");
    assert!(
        told.only_first.iter().any(|t| t.name == "optimizer"),
        "{told:?}"
    );
    let many = row(serde_json::json!({ "sharding": "ddp", "dp": 4, "gpus": 4 }));
    assert_eq!(replicas(&many.spec(&profile).unwrap(), &profile), None);
}

#[test]
fn each_kind_of_log_probability_has_its_own_loss() {
    let text = r#"{ "logits": { "plain": 4 }, "logits_forward": { "entropy": 6, "plain": 3, "other": 5 } }"#;
    let engine = serde_json::json!({ "engine_share": 0.4, "loss_impl": "plain", "logprob_loss_impl": "entropy",
        "logprob_tokens": 1000.0, "ref_tokens": 1000.0 });
    let logits = |changes: &serde_json::Value, phase| {
        term(&with(text, changes.clone()), phase, "logits") / 32000.0
    };
    assert!(off(logits(&engine, Phase::Forward), 4.0 * 4096.0) < 1e-9);
    assert!(off(logits(&engine, Phase::OldLogprob), 6000.0) < 1e-9);
    assert!(off(logits(&engine, Phase::RefLogprob), 3000.0) < 1e-9);
    // A name that is not listed.
    let mut unknown = engine;
    unknown["ref_loss_impl"] = "new".into();
    assert!(off(logits(&unknown, Phase::RefLogprob), 5000.0) < 1e-9);
}

/// A critic as large as the policy, with one number for each token in place of logits.
#[test]
fn a_critic_lies_beside_the_policy_and_has_an_update_of_its_own() {
    let job = |critic: &serde_json::Value| {
        let mut fields = serde_json::json!({ "engine_share": 0.4, "sharding": "fsdp", "precision": "fsdp_mp", "gpus": 8,
            "dp": 8, "loss_impl": "other" });
        let more = critic.as_object().unwrap().clone();
        fields.as_object_mut().unwrap().extend(more);
        with("{}", fields)
    };
    let alone = job(&serde_json::json!({}));
    let here = serde_json::json!({ "critic": true, "critic_micro_batch": 1 });
    let both = job(&here);
    let states = term(&both, Phase::Rollout, "weights") + term(&both, Phase::Rollout, "optimizer");
    let critic = term(&both, Phase::Rollout, "critic");
    assert!((0.9..1.0).contains(&(critic / states)), "{critic} {states}");
    for phase in [
        Phase::WakeUp,
        Phase::OldLogprob,
        Phase::Forward,
        Phase::Checkpoint,
    ] {
        assert!(
            off(term(&both, phase, "critic"), critic) < 1e-9,
            "{phase:?}"
        );
    }
    assert!(alone.phases.iter().all(|p| p.phase != Phase::Critic));
    assert!(term(&both, Phase::Critic, "logits") < 1.0);
    let mut away = here.clone();
    away["critic_offload"] = "param+optimizer".into();
    assert!(term(&job(&away), Phase::Rollout, "critic") < 1.0);
    let silent = row(serde_json::json!({ "engine_share": 0.4, "critic": true }));
    let unknown = silent.spec(&Profile::default()).unwrap_err();
    assert_eq!(unknown.field, "critic_micro_batch");
}

#[test]
fn ways_through_the_code_take_what_the_profile_says_of_them() {
    let profile: Profile = serde_json::from_str(
        r#"{ "logits": { "a": 8 }, "logits_forward": { "a": 4 }, "loss_paths": [
            { "chance": 3, "logits": { "a": 2 }, "logits_forward": { "a": 4 } },
            { "chance": 1, "fp32": true, "logits": { "a": 16 } } ] }"#,
    )
    .unwrap();
    let chances: Vec<(f64, bool)> = profile.paths().iter().map(|p| (p.chance, p.fp32)).collect();
    assert_eq!(chances, [(0.75, false), (0.25, true)]);
    assert_eq!(*profile.loss("a", &[]).by_path, [0.25, 2.0]);
    // What a way does not say is as in the middle.
    assert_eq!(*profile.forward_loss("a").by_path, [1.0, 1.0]);
    assert_eq!(*profile.loss("fused", &[]).by_path, [1.0, 1.0]);
    // A stack of which nothing is said has the usual ways.
    let usual = Profile::default().paths();
    let all: f64 = usual.iter().map(|p| p.chance).sum();
    assert!(off(all, 1.0) < 1e-9 && usual.len() > 1);
}

#[test]
fn what_an_engine_keeps_in_its_sleep_is_there_while_weights_are_handed_over() {
    let woken = |graphs: bool| {
        let job = serde_json::json!({ "engine_share": 0.4, "cuda_graphs": graphs });
        bytes(&of(job), Phase::WakeUp)
    };
    assert!(woken(true) > woken(false) + 0.9 * GIB);
    let asleep = |profile: &str| {
        let job = serde_json::json!({ "engine_share": 0.4 });
        bytes(&with(profile, job), Phase::WakeUp)
    };
    assert!(asleep(r#"{ "asleep_gib": 4 }"#) > asleep("{}") + GIB);
}

/// FSDP gathers the embedding as it is stored, and a copy in 16 bits goes to the engine.
#[test]
fn the_largest_weight_is_whole_while_weights_are_handed_over() {
    let gathered = |precision: &str, gpus: u32| {
        let job = serde_json::json!({ "engine_share": 0.4, "sharding": "fsdp", "dp": gpus, "gpus": gpus,
            "precision": precision, "vocab": 100_000, "hidden": 1000, "heads": 10 });
        term(&of(job), Phase::WakeUp, "gathered weight")
    };
    assert!(off(gathered("fsdp_mp", 8), 6e8) < 1e-9);
    assert!(off(gathered("pure_bf16", 8), 4e8) < 1e-9);
    assert!(off(gathered("fsdp_mp", 1), 2e8) < 1e-9);
}

#[test]
fn each_kind_of_parallelism_and_an_engine_have_a_communicator_of_their_own() {
    let gib = |more: serde_json::Value| {
        let mut job = serde_json::json!({ "metric": "nvidia-smi", "gpus": 8, "dp": 8 });
        job.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        term(&of(job), Phase::Backward, "communication") / GIB
    };
    let one = gib(serde_json::json!({}));
    assert!(off(gib(serde_json::json!({ "tp": 2, "gpus": 16 })) - one, 0.5) < 1e-9);
    assert!(
        off(
            gib(serde_json::json!({ "tp": 2, "cp": 2, "gpus": 32, "engine_share": 0.4 })) - one,
            1.5
        ) < 1e-9
    );
    assert!(gib(serde_json::json!({ "gpus": 1, "dp": 1, "engine_share": 0.4 })) == 0.0);
}

#[test]
fn where_ways_through_the_code_decide_the_interval_holds_what_they_take() {
    let ways = |text: &str, gpu_gib: f64| {
        let text = format!(r#"{{ "logits": {{ "a": 10 }}, "loss_paths": [{text}] }}"#);
        let job =
            serde_json::json!({ "loss_impl": "a", "micro_batch": 64, "gpu_total_gib": gpu_gib });
        let estimate = with(&text, job);
        let forward = estimate.phases.iter().find(|p| p.phase == Phase::Forward);
        (forward.unwrap().clone(), estimate.fits_probability.unwrap())
    };
    let few = r#"{ "chance": 1, "logits": { "a": 4 } }"#;
    let many = r#"{ "chance": 1, "logits": { "a": 24 } }"#;
    let ((least, _), (most, _)) = (ways(few, 80.0), ways(many, 80.0));
    assert!(least.high_bytes < most.low_bytes);
    // A GPU between the two.
    let between = f64::midpoint(least.high_bytes, most.low_bytes) / GIB;
    let (both, half) = ways(&format!("{few}, {many}"), between);
    assert!((0.4..0.6).contains(&half), "{half}");
    // Each end lies in the interval of one of them, for a tenth of that is beyond both ends.
    assert!(least.low_bytes < both.low_bytes && both.low_bytes < least.high_bytes);
    assert!(most.low_bytes < both.high_bytes && both.high_bytes < most.high_bytes);
    assert!(off(both.bytes, least.bytes) < 1e-9);
}

#[test]
fn a_whole_gradient_at_the_end_finds_fragments() {
    let job =
        || serde_json::json!({ "sharding": "fsdp", "precision": "fsdp_mp", "dp": 8, "gpus": 8 });
    let pieces = |text| term(&with(text, job()), Phase::Backward, PIECES);
    let whole = pieces(r#"{ "reduces_embeddings": true }"#);
    assert!(whole > pieces("{}") + 0.2 * GIB, "{whole}");
}

/// A Llama-7B that the Trainer trains under ZeRO (transformers 5.23, `DeepSpeed` 0.19) with what phantom GPUs were asked for in GiB:
/// rows of `benches/data/phantom.jsonl`.
#[test]
fn zero_of_a_known_file_takes_what_deepspeed_asks_for() {
    for (peak, phase, stage, gpus, batch, length, optimizer, checkpoints, bucket) in [
        (
            19.20,
            Phase::OptimizerStep,
            "zero3",
            8,
            2,
            2048,
            "adamw",
            "full",
            4e8,
        ),
        (
            33.50,
            Phase::OptimizerStep,
            "zero3",
            4,
            2,
            2048,
            "adamw",
            "full",
            1e9,
        ),
        (
            27.62,
            Phase::Forward,
            "zero3",
            8,
            1,
            2048,
            "adamw",
            "none",
            1e9,
        ),
        (
            43.97,
            Phase::OptimizerStep,
            "zero2",
            4,
            1,
            2048,
            "adamw_fused",
            "full",
            2e9,
        ),
    ] {
        let row = serde_json::json!({ "params_b": 6.738, "precision": "ds_bf16", "sharding": stage, "gpus": gpus, "micro_batch": batch,
            "seq_len": length, "optimizer": optimizer, "grad_checkpointing": checkpoints, "loss_impl": "hf", "bucket_bytes": bucket });
        let job = with(r#"{ "logits": { "hf": 14.0 } }"#, row);
        let (found, gib) = (job.phase, job.peak_bytes / GIB);
        assert!(
            off(gib, peak) < 0.04 && found == phase,
            "{stage} on {gpus}: {gib} in {found:?}, not {peak}"
        );
    }
}

#[test]
fn a_mixture_under_zero_3_gathers_one_layer_of_experts() {
    let gathered = |known: bool| {
        let mut row = serde_json::json!({ "params_b": 3.16, "layers": 2, "kv_heads": 8, "ffn": 28672, "experts": 8, "tied": false,
            "precision": "ds_bf16", "sharding": "zero3", "gpus": 4, "loss_impl": "hf" });
        if known {
            row["bucket_bytes"] = 4e8.into();
        }
        let job = of(row);
        (
            term(&job, Phase::Backward, "gathered layers") / GIB,
            term(&job, Phase::Backward, "gathered gradients") / GIB,
        )
    };
    let (layers, gradients) = gathered(true);
    assert!(
        off(layers, gradients) < 1e-6 && layers > 2.0,
        "{layers} {gradients}"
    );
    assert!(off(gathered(false).0, 2.0 * layers) < 1e-6);
}
