//! Every JSON document that a story sees is what `oomctl schema COMMAND --output` says, and nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::place::{Done, Place};
use super::weaver;

static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());

/// Checks what a command printed, where it was asked for JSON and printed a document.
pub fn check(arguments: &[&str], done: &Done) {
    let ours = arguments.iter().take_while(|word| **word != "--");
    let asked = ours.into_iter().any(|word| ["--json", "-j"].contains(word));
    let (Some(command), Ok(document)) = (arguments.first(), serde_json::from_str(&done.out)) else {
        return;
    };
    if asked && *command != "--json" {
        let faults = faults(command, &document);
        assert!(
            faults.is_empty(),
            "{arguments:?}: {faults:#?}\n{}",
            done.out
        );
    }
}

fn faults(command: &str, document: &Value) -> Vec<String> {
    let known = VALIDATORS.lock().unwrap().get(command).cloned();
    let validator = known.unwrap_or_else(|| {
        let made = Arc::new(validator(command));
        let mut all = VALIDATORS.lock().unwrap();
        all.entry(command.to_owned()).or_insert(made).clone()
    });
    let faults = validator.iter_errors(document);
    faults
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect()
}

fn validator(command: &str) -> Validator {
    let mut oomctl = Command::new(env!("CARGO_BIN_EXE_oomctl"));
    let said = oomctl
        .args(["schema", command, "--output"])
        .current_dir("/");
    let done: Done = said.output().unwrap().into();
    let mut schema: Value = done.ends(0).json();
    assert!(jsonschema::draft7::meta::is_valid(&schema), "{command}");
    closed(&mut schema);
    jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("{command}: {e}"))
}

/// Lets no object have a field that its schema does not name. One that is put together of several is left open.
fn closed(schema: &mut Value) {
    const TOGETHER: [&str; 3] = ["anyOf", "oneOf", "allOf"];
    match schema {
        Value::Object(map) => {
            let fields = map.contains_key("properties");
            let mixed = fields && TOGETHER.iter().any(|key| map.contains_key(*key));
            if fields && !mixed {
                map.entry("additionalProperties").or_insert(json!(false));
            }
            // The branches of such an object see the fields that stand beside them.
            let parts = map.iter_mut();
            parts
                .filter(|(key, _)| !(mixed && TOGETHER.contains(&key.as_str())))
                .for_each(|(_, part)| closed(part));
        }
        Value::Array(parts) => parts.iter_mut().for_each(closed),
        _ => {}
    }
}

/// The commands that the schema knows, as a wrong name lists them.
fn described() -> BTreeSet<String> {
    let told = Place::bare()
        .run(&["schema", "nope", "--output"])
        .ends(2)
        .err;
    let list = told.split("[possible values: ").nth(1).unwrap();
    let names = list.split(']').next().unwrap().split(", ");
    let files = super::schema::KINDS;
    names
        .map(str::to_owned)
        .filter(|name| !files.contains(&name.as_str()))
        .collect()
}

/// One call of every command that has `--json`; `Place::run` checks what each printed. Stories of `retry` and `tune` have
/// runs that can be gone on with.
#[test]
fn every_command_prints_what_its_schema_says() {
    let mut place = weaver::project("knobs: { threads: 8 }");
    place.set("WEAVER", "fits 4");
    place.write(
        "sweep.yaml",
        "parameters: { threads: { values: [4, 8] } }\n",
    );
    place.write(
        "job.slurm",
        "#!/bin/bash\n#SBATCH --gpus=1\npython train.py --per_device_train_batch_size 8\n",
    );
    let local = ["--backend", "local"];
    let calls: [(&[&str], &[&str]); 24] = [
        (&["submit", "--watch"], &local),
        (&["submit", "-n"], &local),
        (&["submit", "-n", "--preset", "hf-trainer"], &["job.slurm"]),
        (&["status"], &[]),
        (&["watch", "weaver-1"], &[]),
        (&["history"], &[]),
        (&["report"], &[]),
        (&["explain"], &[]),
        (&["explain", "threads"], &[]),
        (&["plan"], &[]),
        (&["plan", "--after", "weaver-1"], &[]),
        (&["plan", "--preset", "hf-trainer"], &["job.slurm"]),
        (&["render"], &[]),
        (&["presets"], &[]),
        (&["diagnose", "weaver-1"], &[]),
        (&["fix", "weaver-1"], &[]),
        (&["gpus"], &[]),
        (&["sweep", "check", "sweep.yaml"], &[]),
        (&["sweep", "fix", "sweep.yaml"], &[]),
        (&["sweep", "submit", "sweep.yaml", "-n"], &[]),
        (&["measure"], &["--", "true"]),
        (&["run", "--allow-cpu"], &["--", "true"]),
        (&["doctor"], &[]),
        (&["prune", "--dry-run"], &[]),
    ];
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::from(["retry", "tune"].map(str::to_owned));
    for (words, rest) in calls {
        let done = place.run(&[words, &["--json"][..], rest].concat());
        if serde_json::from_str::<Value>(&done.out).is_err() {
            wrong.push(format!("{words:?} {}", done.told()));
        }
        seen.insert(words[0].to_owned());
    }
    Place::example().run(&["estimate", "--json"]).json();
    seen.insert("estimate".to_owned());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen, described());
}
