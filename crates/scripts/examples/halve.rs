//! Halves `--batch_size` of what a script starts, and shows the change:
//! `cargo run -p oomctl-scripts --example halve -- train.sbatch`.

#![allow(
    clippy::disallowed_methods,
    reason = "an example reads its words and files"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use oomctl_base::{Effect, Role, Value, ValueKind};
use oomctl_scripts::{
    Adoption, KnobState, Launchers, Recognise, SettingsReader, Spelling, Stack, StackKnob,
    Submission, SubmissionContext,
};

/// That `python` starts a script; presets/launchers/known.yaml has many more.
const PYTHON: &str =
    "launchers: [{programs: [python*], values: [-W, -X], module: [-m], starts: script}]";

/// Any Python program, and its batch.
fn stack() -> Stack {
    let batch = StackKnob {
        name: "batch_size".to_owned(),
        role: Some(Role::MicroBatch),
        kind: ValueKind::Int,
        effect: Effect::ChangesTraining,
        reader: SettingsReader::Any,
        spellings: vec![Spelling::Flag("--batch_size".to_owned())],
        styles: vec![0],
        endings: Vec::new(),
    };
    Stack {
        name: "any".to_owned(),
        recognise: Recognise {
            launchers: vec!["python*".to_owned(), "torchrun".to_owned()],
            ..Recognise::default()
        },
        knobs: vec![batch],
    }
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let submission = Submission {
        script: path.clone(),
        ..Submission::default()
    };
    let files = BTreeMap::from([(path.clone(), std::fs::read_to_string(&path)?)]);
    let launchers: Launchers = serde_yaml::from_str(PYTHON).map_err(std::io::Error::other)?;
    let stacks = Arc::new(vec![stack()]);
    let adoption = Adoption::read(SubmissionContext {
        submission: &submission,
        files: &files,
        launchers: &launchers,
        stacks: &stacks,
    });
    let knobs = adoption.knobs();
    let batch = knobs.iter().find_map(|(_, found)| match &found.state {
        KnobState::Known(Value::Int(batch)) => Some(*batch),
        _ => None,
    });
    let Some(batch) = batch else {
        println!("{path} gives no --batch_size that can be read");
        return Ok(());
    };
    match adoption.change(&[("batch_size", Value::Int(batch / 2))], &[]) {
        Ok(patch) => print!("{}", patch.diff()),
        Err(refused) => println!("{refused:?}"),
    }
    Ok(())
}
