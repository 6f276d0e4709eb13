//! How a program spells its knobs: as it is told, or as the words of its command suggest.

use std::collections::{BTreeMap, BTreeSet};

use super::stored::{Composed, RunProgram};
use super::words::{find, has_placeholder, has_switch};
use crate::core::recipe::{Knob, PresetFile};
use oomctl_base::{Origin, Problem, Refusal, Role, meant};
use oomctl_scripts::{Spelling, same_flag};

/// Gives the knobs of a preset the spellings that fit a command: those of `told` (`batch=--bs`; nothing
/// behind the `=` for a knob that the program lacks), else those of the preset's style that most of the
/// command's words are of. A knob for which there is neither, nor a place in the command, has no value: the
/// program could not be told.
///
/// # Errors
/// Every entry of `told` that is no assignment or names no knob.
pub(super) fn spell(file: &mut PresetFile, given: &RunProgram) -> Result<(), Refusal> {
    let (command, told) = (&given.command, &given.spellings);
    let style = style(&file.spellings, given).cloned().unwrap_or_default();
    let styled: BTreeSet<String> = file
        .spellings
        .iter()
        .flat_map(|s| s.keys().cloned())
        .collect();
    let mut knobs: Vec<&mut Knob> = file.knobs.iter_mut().collect();
    for knob in &mut knobs {
        if styled.contains(&knob.name) {
            let styled = style.get(&knob.name).map(|text| Spelling::read(text));
            knob.spelling = styled.and_then(|spelling| taken(spelling, given));
        }
    }
    let names: Vec<String> = knobs.iter().map(|k| k.name.clone()).collect();
    let mut problems: Vec<Problem> = styled
        .iter()
        .filter(|name| !names.contains(name))
        .map(|name| no_knob("spellings", &file.preset, name, &names))
        .collect();
    for text in told {
        let (name, spelled) = text.split_once('=').unwrap_or((text, ""));
        let knob = knobs.iter_mut().find(|k| k.name == name);
        match knob {
            Some(knob) if text.contains('=') => {
                knob.spelling = (!spelled.is_empty()).then(|| Spelling::read(spelled));
            }
            Some(_) => problems.push(
                Problem::new(format!(
                    "`--knob {text}` does not say how the program spells {name}"
                ))
                .hint(format!(
                    "write --knob {name}=training.{name} or --knob {name}=--{name}"
                )),
            ),
            None => problems.push(no_knob("--knob", &file.preset, name, &names)),
        }
    }
    if !problems.is_empty() {
        return Err(Refusal(problems));
    }
    for knob in knobs {
        let untold = knob.spelling.is_none() && !has_placeholder(command, &knob.name);
        // Whether there is a GPU is ours to say, too.
        if untold && styled.contains(&knob.name) && knob.role != Some(Role::Device) {
            (knob.default, knob.default_expr) = (None, None);
        }
    }
    Ok(())
}

/// The same spelling as the program declares it; none for an option that it would refuse.
fn taken(spelling: Spelling, given: &RunProgram) -> Option<Spelling> {
    let (Spelling::Flag(flag), Some(all)) = (&spelling, &given.takes) else {
        return Some(spelling);
    };
    if find(&given.command, &spelling).is_some() {
        return Some(spelling);
    }
    let declared = all.iter().find(|form| same_flag(form, flag))?;
    Some(Spelling::Flag(declared.clone()))
}

fn no_knob(place: &str, preset: &str, name: &str, names: &[String]) -> Problem {
    let problem = Problem::new(format!("{place}: preset {preset} has no knob named {name}"));
    let question = meant(name, names.iter().map(String::as_str));
    problem.hint(question.unwrap_or_else(|| format!("`oomctl presets {preset}` lists its knobs")))
}

/// The style of which most knobs are found in the command; where none is, that of its words: flags, or
/// `key=value`. A command that has neither has no style, for nobody knows what it would make of another word.
fn style<'a>(
    styles: &'a [BTreeMap<String, String>],
    given: &RunProgram,
) -> Option<&'a BTreeMap<String, String>> {
    let command = &given.command;
    let there = |s: &Spelling| find(command, s).is_some() || composed(s, &given.composed).is_some();
    let count = |style: &BTreeMap<String, String>| {
        let spelled = style.values().map(|text| Spelling::read(text));
        spelled.filter(there).count()
    };
    let mut best = None;
    for style in styles {
        let found = count(style);
        if found > best.map_or(0, |(_, most)| most) {
            best = Some((style, found));
        }
    }
    if let Some((style, _)) = best {
        return Some(style);
    }
    // Words behind a shell's script are the script's own arguments, which it may not look at.
    let script = command.iter().any(|w| w == "-c");
    let flags = !script && command.iter().any(|w| w.starts_with("--"));
    let pairs = !script && command.iter().any(|w| is_pair(w));
    let is_of_flags = |style: &BTreeMap<String, String>| style.values().any(|t| t.starts_with('-'));
    match (flags, pairs) {
        (_, true) => styles.iter().find(|s| !is_of_flags(s)),
        (true, false) => styles.iter().find(|s| is_of_flags(s)),
        (false, false) => None,
    }
}

/// Is it `key=value`, and no piece of a script?
fn is_pair(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+~@/".contains(c);
    let key = word.split_once('=').map(|(key, _)| key);
    let blank = word.contains(char::is_whitespace);
    key.is_some_and(|k| !blank && !k.is_empty() && !k.starts_with('-') && k.chars().all(plain))
}

/// What a command and an environment say about a knob: the text, and where it stands.
pub(super) fn said(
    knob: &Knob,
    command: &[String],
    variables: &BTreeMap<String, String>,
) -> Option<(String, String)> {
    match knob.spelling.as_ref()? {
        Spelling::Env(name) => {
            let value = variables.get(name)?;
            Some((value.clone(), format!("{name}={value}")))
        }
        Spelling::Switch(flag) => {
            has_switch(command, flag).then(|| ("true".to_owned(), flag.clone()))
        }
        other => {
            let value = find(command, other)?;
            Some((value.to_owned(), format!("{} {value}", other.name())))
        }
    }
}

/// What the files of a command's configuration say about a knob: the text, and where it stands.
pub(super) fn in_files(knob: &Knob, files: &Composed) -> Option<(String, Origin)> {
    composed(knob.spelling.as_ref()?, files).cloned()
}

fn composed<'a>(spelling: &Spelling, files: &'a Composed) -> Option<&'a (String, Origin)> {
    match spelling {
        Spelling::Hydra(key) => files.get(key),
        _ => None,
    }
}

/// Knobs for which the command has a place to be filled.
pub(super) fn placeholders<'a>(
    knobs: impl Iterator<Item = &'a Knob>,
    command: &[String],
) -> BTreeSet<String> {
    let names = knobs.map(|k| k.name.clone());
    names
        .filter(|name| has_placeholder(command, name))
        .collect()
}
