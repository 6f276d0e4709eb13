//! What the text and the words of a program say beside its knobs: one process for several GPUs, further jobs.

use std::collections::BTreeSet;

use super::code::names_in;
use super::configured::{ConfigClasses, Configured};
use super::devices::DeviceScript;
use super::python::tokens;
use super::walk::Reading;

/// The override that lets each point of a Hydra multirun be a job of its own.
const HYDRA_LAUNCHER: &str = "hydra/launcher=submitit_slurm";

/// Whether a Python program submits jobs with submitit.
fn submits(text: &str) -> bool {
    text.contains("submitit") && text.contains("Executor(") && text.contains(".submit(")
}

/// Looks at the program of a call, whose path and text are given where they are there.
pub(super) fn look_at(
    reading: &mut Reading,
    at: usize,
    program: Option<(&String, &String)>,
    (wanted, classes): (&BTreeSet<&str>, &ConfigClasses<'_>),
) {
    if let Some((path, text)) = program {
        let tokens = tokens(text);
        let names = names_in(text, &tokens, wanted);
        let one_process = DeviceScript::is_of_one_process(text);
        let submits = submits(text);
        if one_process || submits || !names.is_empty() {
            let file = reading.add_source(path, text);
            reading.calls[at].configured = Configured::read(&tokens, file, classes);
        }
        reading.calls[at].one_process = one_process;
        reading.calls[at].names = Some(names);
        if submits {
            reading.submits.insert(format!("submitit in {path}"));
        }
    }
    let words = reading.calls[at].words.iter().map(|w| w.text.text());
    let launches: Vec<String> = words.filter(|w| w.starts_with(HYDRA_LAUNCHER)).collect();
    reading.submits.extend(launches);
}
