//! What the text and the words of a program say beside its knobs: one process for several GPUs, further jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::code::names_in;
use super::code_value::{ConfigClasses, PythonFile};
use super::configured::ProgramCode;
use super::devices::DeviceScript;
use super::imports::modules;
use super::walk::Reading;

/// The override that lets each point of a Hydra multirun be a job of its own.
const HYDRA_LAUNCHER: &str = "hydra/launcher=submitit_slurm";

/// Whether a Python program submits jobs with submitit.
fn submits(text: &str) -> bool {
    text.contains("submitit") && text.contains("Executor(") && text.contains(".submit(")
}

/// Looks at the program of a call, which is among the files where it is there.
pub(super) fn look_at(
    reading: &mut Reading,
    at: usize,
    files: &BTreeMap<String, String>,
    (wanted, classes): (&BTreeSet<&str>, &ConfigClasses<'_>),
) {
    let program = reading.calls[at].program.as_ref();
    if let Some((path, text)) = program.and_then(|path| files.get_key_value(path)) {
        let (own, sought) = modules((path, text), files);
        let names = own.first().map(|own| names_in(text, &own.tokens, wanted));
        let names = names.unwrap_or_default();
        let one_process = DeviceScript::is_of_one_process(text);
        let submits = submits(text);
        if one_process || submits || !names.is_empty() {
            reading.add_source(path, text);
        }
        let own = own.into_iter();
        let own = own.filter(|file| PythonFile::matters(file.text, classes));
        let own = own.map(|file| PythonFile {
            number: reading.add_source(file.path, file.text),
            path: file.path,
            tokens: file.tokens,
        });
        let own: Vec<_> = own.collect();
        reading.calls[at].code = (!own.is_empty()).then(|| ProgramCode::read(&own, classes));
        reading.sought.extend(sought);
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
