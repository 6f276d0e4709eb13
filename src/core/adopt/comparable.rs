//! What must be equal for two jobs of scripts to be compared, beside what knobs say.
//!
//! Rule: what is not known of a job is not taken for equal. A word or a key that no knob is counts, unless the preset
//! says that it makes no difference to the memory of a GPU.

use std::collections::BTreeMap;

use super::job::{array, resources};
use oomctl_base::Effect;
use oomctl_scripts::{Adoption, Call, CallTarget, KnobState, directives, hydra, is_key_of, wins};

/// Words and keys that are compared.
const MOST: usize = 512;
/// Options of the job that say on which GPUs it runs.
const PLACES: [&str; 3] = ["partition", "constraint", "gres"];
/// The name under which the model stands among the facts.
const MODEL: &str = "model";
/// The name under which the program stands among them.
const PROGRAM: &str = "program";

/// The facts by name.
///
/// # Errors
/// What is not known of the job, for people.
pub fn comparable(adoption: &Adoption<'_>) -> Result<BTreeMap<String, String>, String> {
    let Some(stack) = adoption.stack else {
        return Err("its program is unknown".to_owned());
    };
    if adoption.reading.cut {
        return Err("its scripts are too long to read completely".to_owned());
    }
    let calls: Vec<&Call> = adoption.calls().collect();
    let [call] = calls.as_slice() else {
        return Err("it starts its program several times".to_owned());
    };
    if let Some(unread) = call.all_unread().next() {
        return Err(format!("{unread} is not read"));
    }
    let mut facts = BTreeMap::new();
    for (knob, found) in adoption.knobs() {
        let counted = knob.effect == Effect::Resources;
        let clear = !found.maybe && found.value.known().is_some();
        if !counted && !clear {
            return Err(format!("{} is computed", knob.name));
        }
        // What the program resolves itself is no value of the knob.
        if matches!(found.state, KnobState::Text(_)) {
            facts.insert(knob.name.clone(), found.value.text());
        }
    }
    let gpus = resources(&adoption.reading).gpus;
    if gpus == 0 {
        return Err("its number of GPUs is unknown".to_owned());
    }
    facts.extend(given(adoption, call)?);
    let model = adoption.model(call).and_then(|found| found.value.known());
    // Where any program may be meant, two of them have nothing in common.
    let own = stack.is_of_any_program().then(|| program(call)).flatten();
    facts.extend(own.clone().map(|program| (PROGRAM.to_owned(), program)));
    let model = model.or_else(|| own.map(|program| format!("that of {program}")));
    let model = model.ok_or("its model is unknown")?;
    facts.insert(MODEL.to_owned(), model);
    facts.insert("gpus".to_owned(), gpus.to_string());
    // What a program does with its index nobody knows.
    let index = array(&adoption.reading);
    facts.extend(index.map(|index| ("--array".to_owned(), index)));
    let options = directives(&adoption.reading);
    for place in PLACES {
        let value = wins(&options, place).and_then(|d| d.value.as_ref());
        facts.extend(value.map(|v| (format!("--{place}"), v.text())));
    }
    Ok(facts)
}

/// The program that is started, where it is known which one.
fn program(call: &Call) -> Option<String> {
    match &call.target {
        CallTarget::Module(name) | CallTarget::Program(name) => Some(name.clone()),
        CallTarget::Script(_) => call.program.clone(),
        CallTarget::Code => None,
    }
}

/// The words and keys that no knob is.
fn given(adoption: &Adoption<'_>, call: &Call) -> Result<BTreeMap<String, String>, String> {
    let mut facts = BTreeMap::new();
    let mut keep = |key: &str, value: &str| {
        if counts(adoption, key) {
            facts.insert(format!("given {key}"), value.to_owned());
        }
        (facts.len() <= MOST)
            .then_some(())
            .ok_or("it has settings that oomctl does not compare")
    };
    for file in &call.settings {
        for (key, value) in file.leaves() {
            keep(&key, &value)?;
        }
    }
    let words = call.own_texts();
    let (mut at, mut places) = (0, 0);
    while let Some(word) = words.get(at) {
        at += 1;
        let flag = word.starts_with('-');
        match (word.split_once('='), hydra::read(word)) {
            (Some((key, value)), read) if flag || read.is_some() => {
                keep(read.map_or(key, |r| r.key), value)?;
            }
            (None, _) if flag => {
                let value = words.get(at).filter(|next| !next.starts_with('-'));
                at += usize::from(value.is_some());
                keep(word, value.map_or("", String::as_str))?;
            }
            _ if call
                .settings
                .iter()
                .any(|file| file.path.ends_with(word.as_str())) => {}
            _ => {
                places += 1;
                keep(&format!("word {places}"), word)?;
            }
        }
    }
    Ok(facts)
}

/// Whether a key decides, as far as is known.
fn counts(adoption: &Adoption<'_>, key: &str) -> bool {
    let Some(stack) = adoption.stack else {
        return true;
    };
    let mut knobs = stack.knobs.iter().flat_map(|k| &k.spellings);
    let r = &stack.recognise;
    let mut others = r.model.iter().chain(&r.file_keys).chain(&r.below_key);
    !knobs.any(|s| is_key_of(s.name(), key))
        && !others.any(|known| is_key_of(known, key))
        && !r.is_indifferent(key)
        && !is_key_of("defaults", key)
}
