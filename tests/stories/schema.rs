//! Schemas for editors: every shipped file and every example is what they describe, and mistakes are not.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::place::Place;
use oomctl_base::word_list;

pub const KINDS: [&str; 8] =
    word_list("project preset knob-set cluster dataset memory signatures site");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file as an editor reads it.
fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The YAML files of a folder.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "yaml"));
    assert!(!paths.is_empty(), "{folder}");
    paths
}

fn schema(place: &Place, kind: &str) -> Value {
    serde_json::from_str(&place.run(&["schema", kind]).ends(0).out).unwrap()
}

fn validator(place: &Place, kind: &str) -> jsonschema::Validator {
    let schema = schema(place, kind);
    assert!(jsonschema::draft7::meta::is_valid(&schema), "{kind}");
    jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("{kind}: {e}"))
}

/// What is wrong with a document, each with its place.
fn faults(validator: &jsonschema::Validator, document: &Value) -> Vec<String> {
    let faults = validator.iter_errors(document);
    faults
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect()
}

#[test]
fn every_shipped_file_is_what_its_schema_says() {
    let place = Place::bare();
    for (kind, folder) in [
        ("preset", "presets"),
        ("knob-set", "presets/sets"),
        ("cluster", "presets/clusters"),
        ("dataset", "presets/datasets"),
        ("memory", "presets/memory"),
        ("preset", "examples/path-star/presets"),
    ] {
        let validator = validator(&place, kind);
        for path in files(folder) {
            let document = yaml(&fs::read_to_string(&path).unwrap());
            let faults = faults(&validator, &document);
            assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
        }
    }
}

#[test]
fn every_example_is_what_the_schema_of_a_project_says() {
    let mut seen = 0;
    for example in fs::read_dir(root().join("examples")).unwrap() {
        let path = example.unwrap().path().join("oomctl.yaml");
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let place = Place::bare();
        // Its own presets are part of what it may name.
        for own in files_below(&path.with_file_name("presets")) {
            let name = own.file_name().unwrap().to_str().unwrap();
            place.write(
                &format!("presets/{name}"),
                &fs::read_to_string(&own).unwrap(),
            );
        }
        place.write("oomctl.yaml", &text);
        let faults = faults(&validator(&place, "project"), &yaml(&text));
        assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|e| e.unwrap().path()).collect()
}

/// A typo that is marked while one types: the names come from the preset that the file names.
#[test]
fn a_mistake_in_a_project_is_marked_where_it_stands() {
    let validator = validator(&Place::bare(), "project");
    let ok = |text: &str| faults(&validator, &yaml(text));
    for right in [
        "preset: verl-grpo\nverl_version: 0.9.1\nknobs: { train_batch_size: 64, partition: gpu }\n",
        "preset: verl-grpo\nknobs: { actor_rollout_ref.rollout.n: 5, time_limit: 12:00:00, train_batch_size: null }\n",
        "dataset: diamonds-seed0\nknobs: { train_batch_size: 64 }\n",
        "preset: my-own\nknobs: { anything: 3 }\n",
        "preset: torchrun\npin: [batch_size]\nladder: [{ rung: mine, title: t, moves: [] }]\n",
        "limits: { attempts: 8, wall_time: 3d, gpu_hours: 2000 }\nsupervision: { poll: 10s, resubmit: false }\n",
        "signatures: [{ id: mine, kind: tile_oom, class: gpu_oom, contains: 'tile pool empty', helps: smaller tiles }]\n",
    ] {
        assert_eq!(ok(right), Vec::<String>::new(), "{right}");
    }
    for (wrong, told) in [
        (
            "preset: verl-grpo\nknobs: { train_batch_sizes: 64 }\n",
            "/knobs: Additional properties are not allowed ('train_batch_sizes' was unexpected)",
        ),
        (
            "preset: verl-grpo\nknobs: { train_batch_size: many }\n",
            "/knobs/train_batch_size: \"many\" is not of types",
        ),
        (
            "preset: verl-grpo\nknobs: { train_batch_size: 0 }\n",
            "/knobs/train_batch_size: 0 is less than the minimum of 1",
        ),
        (
            "preset: verl-grpo\nknobs: { gpu_memory_utilization: 1.5 }\n",
            "/knobs/gpu_memory_utilization: 1.5 is greater",
        ),
        (
            "dataset: diamonds-seed0\nknobs: { train_batch_size: many }\n",
            "/knobs/train_batch_size: ",
        ),
        ("knob: {}\n", "'knob' was unexpected"),
        (
            "policy: same_math\n",
            "/policy: \"same_math\" is not one of",
        ),
        ("limits: { attempt: 3 }\n", "'attempt' was unexpected"),
        ("supervision: { polls: 3s }\n", "'polls' was unexpected"),
        (
            "signatures: [{ id: mine }]\n",
            "\"kind\" is a required property",
        ),
        ("ladder: [{ rung: offload, lap: 2 }]\n", "/ladder/0: "),
    ] {
        let told_of = ok(wrong).join("\n");
        assert!(told_of.contains(told), "{wrong}: {told_of}");
    }
}

/// What the program accepts as keys is what the schema has, so that neither forgets one.
#[test]
fn the_schema_has_every_key_that_the_program_knows() {
    let place = Place::bare();
    let schema = schema(&place, "project");
    let keys = |at: &str| -> Vec<String> {
        let fields = schema.pointer(at).and_then(Value::as_object);
        let mut keys: Vec<String> = fields
            .unwrap_or_else(|| panic!("{at}"))
            .keys()
            .cloned()
            .collect();
        keys.sort();
        keys
    };
    for (file, at, own) in [
        ("zzqqx: 1\n", "/properties", "verl_version"),
        (
            "limits: { zzqqx: 1 }\n",
            "/properties/limits/properties",
            "",
        ),
        (
            "supervision: { zzqqx: 1 }\n",
            "/properties/supervision/properties",
            "",
        ),
    ] {
        place.write("oomctl.yaml", &format!("preset: verl-grpo\n{file}"));
        let told = place.run(&["plan"]).ends(5).err;
        let known = told.split("known keys here: ").nth(1).unwrap().trim();
        let mut known: Vec<&str> = known.split(", ").collect();
        known.sort_unstable();
        let mut keys = keys(at);
        // Other presets have a key for the version of their own framework.
        keys.retain(|k| !k.ends_with("_version") || k == own);
        assert_eq!(keys, known, "{file}");
    }
}

#[test]
fn init_writes_the_schemas_and_the_first_line_leads_to_one() {
    let place = Place::bare();
    place.write("train.py", "");
    for arguments in [
        &["init", "--preset", "verl-grpo"][..],
        &["init", "--force", "--preset", "robust"],
    ] {
        place.run(arguments).ends(0);
        let text = place.read("oomctl.yaml");
        let first = text.lines().next().unwrap();
        let path = first
            .strip_prefix("# yaml-language-server: $schema=")
            .unwrap();
        let written: Value = serde_json::from_str(&place.read(path)).unwrap();
        assert_eq!(written, schema(&place, "project"));
        assert_eq!(
            written["$schema"],
            json!("http://json-schema.org/draft-07/schema#")
        );
    }
    let done = place.run(&["schema", "--write"]).ends(0);
    assert!(
        done.out.trim().ends_with(".oomctl/schema"),
        "{}",
        done.told()
    );
    for kind in KINDS {
        let written: Value =
            serde_json::from_str(&place.read(&format!(".oomctl/schema/{kind}.json"))).unwrap();
        assert_eq!(written, schema(&place, kind), "{kind}");
    }
}
