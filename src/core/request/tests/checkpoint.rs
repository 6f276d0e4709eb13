//! What lies in a folder of checkpoints, and how an attempt goes on from it.

use super::*;
use crate::core::request::tests::start::request;
use crate::core::request::{Inputs, Listing, NamedText, Resumption};

/// A framework with verl's checkpoints.
const PRESET: &str = "
preset: toy
summary: a made-up framework
files: [{ name: job.sh, template: job.sh.j2, entry: true }]
knobs:
  - { name: gpus, type: int, default: 8, effect: resources, doc: d }
  - { name: save_freq, role: checkpoint_interval, type: int, default: 10, effect: resources, doc: d }
  - { name: out, type: text, default: ckpt, effect: resources, doc: d }
  - { name: resume_mode, type: text, choices: [auto, disable, resume_path], default: auto, effect: resources, doc: d }
  - { name: resume_from_path, type: text, effect: resources, doc: d }
checkpoint:
  written_when: save_freq > 0
  survives_resharding: 'false'
  lost: Adam's states
  on_disk:
    used_when: resume_mode == \"auto\"
    folder: out
    newest: latest_checkpointed_iteration.txt
    step: 'global_step_(?P<step>\\d+)'
    shard: 'actor/(?P<kind>model|optim|extra_state)_world_size_(?P<world>\\d+)_rank_(?P<rank>\\d+)\\.pt'
    world: gpus
    from: { resume_mode: resume_path, resume_from_path: '{path}' }
    afresh: { resume_mode: disable }
";

fn asked(set: &[(&str, &str)]) -> Request {
    let toy = request("r", &[], &[]);
    let mut text = PRESET.to_owned();
    for (from, to) in set {
        text = text.replace(from, to);
    }
    let path = "toy.yaml".to_owned();
    Request::new(Inputs {
        preset: NamedText { path, text }.into(),
        ladder: Vec::new().into(),
        layers: Vec::new(),
        ..toy.inputs().clone()
    })
    .unwrap()
}

/// A folder with checkpoints of verl's, each of a step and a number of GPUs.
fn verl(newest: Option<&str>, steps: &[(u64, u64)]) -> Listing {
    let mut files = BTreeMap::new();
    for (step, world) in steps {
        for rank in 0..*world {
            for kind in ["model", "optim", "extra_state"] {
                let name = format!("{kind}_world_size_{world}_rank_{rank}.pt");
                files.insert(format!("global_step_{step}/actor/{name}"), 7);
            }
        }
        files.insert(format!("global_step_{step}/data.pt"), 7);
    }
    Listing {
        folder: "/p/ckpt".into(),
        files,
        newest: newest.map(str::to_owned),
    }
}

/// Attempt 2 of a run of verl on 8 GPUs.
fn attempt(listing: &Listing) -> Option<Resumption> {
    asked(&[]).resumption(&[], Some(listing), 2)
}

fn value(resumption: &Resumption, knob: &str) -> Option<String> {
    let setting = resumption.layer.as_ref()?.settings.get(knob)?;
    Some(setting.value.to_string())
}

#[test]
fn only_where_the_program_would_look_by_itself_it_is_looked_for() {
    let shelf = asked(&[]).shelf(&[]).unwrap();
    assert_eq!(shelf.folder, "ckpt");
    let newest = shelf.newest.as_deref();
    assert_eq!(newest, Some("latest_checkpointed_iteration.txt"));
    assert_eq!(
        asked(&[("default: auto", "default: disable")]).shelf(&[]),
        None
    );
    assert_eq!(
        asked(&[("default: ckpt", "default: 's3://b/c'")]).shelf(&[]),
        None
    );
}

#[test]
fn shards_that_load_on_any_number_of_gpus_are_gone_on_from() {
    let request = asked(&[(
        "survives_resharding: 'false'",
        "survives_resharding: 'true'",
    )]);
    let found = request.resumption(&[], Some(&verl(Some("20"), &[(20, 4)])), 2);
    assert_eq!(found.unwrap().layer, None);
}

#[test]
fn a_pattern_without_its_groups_and_a_knob_that_does_not_exist_are_refused() {
    for (from, to, what) in [
        ("(?P<step>", "(", "has no group `step`"),
        (
            "{ resume_mode: disable }",
            "{ resumes: disable }",
            "no knob named resumes",
        ),
        (
            "{ resume_mode: disable }",
            "{ resume_mode: [] }",
            "resume_mode: expected",
        ),
    ] {
        let text = PRESET.replace(from, to);
        let file = crate::core::config::parse_preset("toy.yaml", &text).unwrap();
        let refusal = crate::core::recipe::Preset::assemble(file, Vec::new(), None);
        let refusal = refusal.unwrap_err().to_string();
        assert!(refusal.contains(what), "{refusal}");
    }
}

#[test]
fn a_whole_checkpoint_is_left_to_the_program() {
    let found = attempt(&verl(Some("20\n"), &[(10, 8), (20, 8)])).unwrap();
    assert_eq!(found.layer, None);
    assert_eq!(found.text, "resumes from step 20 (global_step_20)");
}

#[test]
fn of_one_that_lacks_a_shard_the_one_before_is_taken() {
    let mut listing = verl(Some("20"), &[(10, 8), (20, 8)]);
    let lost = "global_step_20/actor/optim_world_size_8_rank_5.pt";
    listing.files.remove(lost);
    let found = attempt(&listing).unwrap();
    assert_eq!(value(&found, "resume_mode").unwrap(), "resume_path");
    let path = value(&found, "resume_from_path").unwrap();
    assert_eq!(path, "/p/ckpt/global_step_10");
    assert!(
        found.text.contains("only 7 of its 8 optim exist"),
        "{}",
        found.text
    );
    // An empty file is what a full disk leaves.
    listing.files.insert(lost.into(), 0);
    assert_eq!(attempt(&listing).unwrap(), found);
}

#[test]
fn shards_of_another_number_of_gpus_are_not_gone_on_from() {
    let found = attempt(&verl(Some("20"), &[(20, 4)])).unwrap();
    assert_eq!(value(&found, "resume_mode").unwrap(), "disable");
    for part in ["it has 4 shards, and 8 GPUs load 8", "lost: Adam's states"] {
        assert!(found.text.contains(part), "{}", found.text);
    }
}

#[test]
fn a_step_after_the_newest_was_cut_off_while_it_was_written() {
    let mut listing = verl(Some("10"), &[(10, 8), (20, 8)]);
    listing
        .files
        .retain(|path, _| !path.contains("20/actor/extra_state"));
    let found = attempt(&listing).unwrap();
    assert_eq!(found.text, "resumes from step 10 (global_step_10)");
}

#[test]
fn one_that_is_named_and_gone_or_not_named_is_looked_for() {
    let gone = attempt(&verl(Some("30"), &[(20, 8)])).unwrap();
    assert!(
        gone.text.contains("names step 30, which does not exist"),
        "{}",
        gone.text
    );
    let unnamed = attempt(&verl(None, &[(20, 8)])).unwrap();
    for found in [gone, unnamed] {
        let path = value(&found, "resume_from_path").unwrap();
        assert_eq!(path, "/p/ckpt/global_step_20");
    }
}

#[test]
fn an_empty_folder_and_other_files_are_nothing_to_go_on_from() {
    let mut listing = verl(None, &[]);
    listing.files.insert("notes/global_step_x.txt".into(), 3);
    let found = attempt(&listing);
    assert!(found.is_none_or(|f| f.text.starts_with("starts at step 0")));
}

#[test]
fn the_layout_of_the_hugging_face_trainer_is_read_by_its_own_data() {
    let disk: OnDisk = crate::core::config::parse_data(
        "trainer.yaml",
        "
used_when: 'true'
folder: output_dir
step: 'checkpoint-(?P<step>\\d+)'
needs: [trainer_state.json]
from: { resume_from_checkpoint: '{path}' }
",
    )
    .unwrap();
    let files = [
        ("checkpoint-500/trainer_state.json", 90),
        ("checkpoint-500/model.safetensors", 9_000),
        ("checkpoint-1000/model.safetensors", 9_000),
        ("checkpoint-1000-old/trainer_state.json", 90),
    ];
    let listing = Listing {
        folder: "/p/out".into(),
        files: files.map(|(path, bytes)| (path.to_owned(), bytes)).into(),
        newest: None,
    };
    let saved = saved(&disk, &listing, None).unwrap();
    let told: Vec<(u64, Option<&str>)> =
        saved.iter().map(|s| (s.step, s.fault.as_deref())).collect();
    let missing = "trainer_state.json is missing or empty";
    assert_eq!(told, [(1000, Some(missing)), (500, None)]);
}

#[test]
fn a_checkpoint_is_there_once_its_interval_is_over() {
    let request = asked(&[]);
    assert!(!request.has_checkpoint(&[], 9));
    assert!(request.has_checkpoint(&[], 10));
    let never = asked(&[("default: 10", "default: -1")]);
    assert!(!never.has_checkpoint(&[], 500));
}
