//! From out-of-memory to success: the example, and a framework that is nothing but files.

use serde_json::Value;

use super::place::Place;
use super::weaver;

const RUN: &str = ".oomctl/runs/diamonds-seed0-1";

fn diamonds(place: &Place) -> super::place::Done {
    place.run("submit --dataset diamonds-seed0 --watch --backend local")
}

#[test]
fn the_example_goes_from_out_of_memory_to_success() {
    let place = Place::example();
    let done = diamonds(&place).ends(0);
    insta::assert_snapshot!(place.steady(&done.told()));
    let intended = place.count("diamonds-seed0-1", "intended");
    assert!(intended >= 3, "{intended} attempts");
    let last = format!("{RUN}/attempt-{intended}");
    let script = place.read(&format!("{last}/run_grpo.sh"));
    for word in [
        "data.train_batch_size=512",
        "actor_rollout_ref.actor.ppo_mini_batch_size=128",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
    ] {
        assert!(script.contains(word), "{word} in\n{script}");
    }
    assert!(
        place
            .read(&format!("{last}/slurm.err"))
            .contains("trained to the end")
    );
}

#[test]
fn each_attempt_of_the_example_keeps_its_files_the_difference_and_the_evidence() {
    let place = Place::example();
    diamonds(&place).ends(0);
    let changed = place.read(&format!("{RUN}/attempt-2/changes.diff"));
    assert!(changed.contains("-  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32"));
    assert!(changed.contains("+  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16"));
    assert_eq!(place.read(&format!("{RUN}/attempt-1/changes.diff")), "");
    let verdict: Value =
        serde_json::from_str(&place.read(&format!("{RUN}/attempt-1/verdict.json"))).unwrap();
    assert_eq!(verdict["incident"]["phase"], "actor_update");
    let evidence = &verdict["incident"]["evidence"][0];
    let text = evidence["text"].as_str().unwrap();
    assert!(
        text.contains("CUDA out of memory. Tried to allocate"),
        "{text}"
    );
    // File, line and offset lead to that very line.
    let log = place.read(&format!("{RUN}/attempt-1/slurm.err"));
    let line = usize::try_from(evidence["line"].as_u64().unwrap()).unwrap();
    let told = log.split('\n').nth(line - 1).unwrap_or_default();
    assert!(told.contains("Tried to allocate"), "line {line}: {told}");
    let offset = usize::try_from(evidence["offset"].as_u64().unwrap()).unwrap();
    let rest = &log.as_bytes()[offset..];
    assert!(String::from_utf8_lossy(&rest[..80]).contains("OutOfMemoryError"));
    let recipe: Value =
        serde_json::from_str(&place.read(&format!("{RUN}/attempt-2/recipe.json"))).unwrap();
    let micro = &recipe["values"]["ppo_micro_batch_size_per_gpu"];
    assert_eq!(micro["value"], 16, "{micro}");
    assert!(place.has("logs/slurm-1.err") && place.has("logs/slurm-2.out"));
}

#[test]
fn the_example_survives_noise_of_other_ranks() {
    let mut place = Place::example();
    place.set("SIM_NCCL_NOISE", "1");
    diamonds(&place).ends(0).says(&["actor_update"]);
}

#[test]
fn a_users_files_are_never_edited() {
    let place = Place::example();
    let before = place.read("oomctl.yaml");
    diamonds(&place).ends(0);
    assert_eq!(place.read("oomctl.yaml"), before);
}

#[test]
fn a_framework_that_is_only_files_goes_from_out_of_memory_to_success() {
    let place = weaver::project("");
    let done = place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    insta::assert_snapshot!(place.steady(&done.told()));
    assert_eq!(
        weaver::words(&place, 3),
        ["--threads", "2", "--bundles", "4", "--cloth", "64"]
    );
}

#[test]
fn the_rules_of_a_framework_that_is_only_files_hold_on_the_ladder_too() {
    // 24 is no multiple of a row of 9: the rung that halves the cloth may only take legal values.
    let place = weaver::project("knobs: { threads: 8, cloth: 24 }\nladder: [narrow]");
    let mut place = place;
    place.set("WEAVER", "fits 1");
    let done = place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(3);
    for attempt in 1..=place.count("weaver-1", "submitted") {
        let words = weaver::words(&place, u32::try_from(attempt).unwrap());
        let cloth: u32 = words[5].parse().unwrap();
        assert_eq!(
            cloth % 8,
            0,
            "attempt {attempt}: {words:?}\n{}",
            done.told()
        );
    }
}
