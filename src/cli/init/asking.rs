//! The questions of `oomctl init --interactive`. No project file is written here; answers of somebody who stops are kept.

use std::io::IsTerminal;
use std::path::Path;

use super::answers::Answers;
use super::draft::Draft;
use super::next::word;
use super::starter::{self, Starter};
use super::surroundings::Surroundings;
use crate::cli::session::Session;
use crate::core::recipe::{Knob, PresetFile, Scalar};
use crate::core::request::Request;
use crate::io::library::{Library, LibraryFolder};
use crate::view::{CommandFailure, print};
use oomctl_base::{Role, Value, meant};
use oomctl_memory::{GPU_MEMORY, Unknown};

/// Batches below the computed one that are tried for a legal one.
const MOST_TRIED: i64 = 4_096;
/// How often one question is asked.
const MOST_ASKED: usize = 20;

/// The files for `folder`: a job script for a program that lies there, where that is wanted, or a project file from what was found and what the user answers. `set` is settled already.
pub fn answered(
    folder: &Path,
    preset: Option<&str>,
    set: &[String],
) -> Result<Starter, CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let what = "standard input is not a terminal, so oomctl cannot ask";
        let hint =
            "drop --interactive, or give the answers: `oomctl init --preset NAME --set KNOB=VALUE`";
        return Err(CommandFailure::usage(what).hint(hint));
    }
    let found = Surroundings::of(folder);
    let library = Session::empty(folder)?.library;
    starter::tell(&found, &library)?;
    let kept = Answers::read(folder).filter(|kept| preset.is_none_or(|p| p == kept.preset));
    if let (None, None, [], Some(job)) = (preset, &kept, set, job_script(folder, &found, &library))
        && until_taken(&job.0, "y", yes_or_no)?
    {
        return Ok(job.1);
    }
    let mut draft = match (preset, kept) {
        (_, Some(kept)) => {
            print::say(&format!(
                "going on with your earlier answers: preset {} {}",
                kept.preset,
                kept.set.join(" ")
            ));
            Draft::new(folder, &kept.preset, &[set, &kept.set[..]].concat())?
        }
        (Some(name), None) => Draft::new(folder, name, set)?,
        (None, None) => Draft::new(folder, &ask_preset(&library, folder, &found)?, set)?,
    };
    ask_all(&mut draft, &found)?;
    let text = match draft.missing()?.is_empty() {
        true => draft.checked(),
        false => draft.text(),
    };
    Ok(Starter::file(text?))
}

/// The job script that `init` would write without questions, and whether it is wanted.
fn job_script(folder: &Path, found: &Surroundings, library: &Library) -> Option<(String, Starter)> {
    let job = starter::starter(folder, found, library).ok()?;
    let [(name, text)] = job.files.as_slice() else {
        return None;
    };
    let question = format!("{text}\n{name}: write this job script, and ask nothing more?");
    Some((question, job))
}

/// What a preset needs, in its order, and what decides about memory.
fn ask_all(draft: &mut Draft, found: &Surroundings) -> Result<(), CommandFailure> {
    let file = draft.preset()?;
    ask_files(draft, &file)?;
    let request = draft.request()?;
    let knobs = &request.preset().knobs;
    if let Some(knob) = knobs.iter().find(|k| k.name == GPU_MEMORY) {
        let question =
            "Memory of the GPU that the job will have, such as 24GiB; leave it empty if unknown.";
        let here = found.gpu_memory().filter(|_| found.slurm.is_err());
        ask_once(draft, knob, question, &here.unwrap_or_default())?;
    }
    // Without the memory of a GPU nothing is compared, and what only an estimate reads is not asked for.
    let estimates = draft.has(GPU_MEMORY);
    starter::fill(draft, found)?;
    for knob in knobs {
        match knob.role {
            // It is asked for when everything is known that it depends on.
            Some(Role::MicroBatch | Role::TrainBatch) if knob.required => {
                draft.assume(&knob.name, "1")?
            }
            Some(Role::ModelVariant) if !estimates && only_estimated(knob) => {}
            Some(Role::ModelVariant) if is_known(draft, knob) => {}
            Some(Role::ModelVariant) => ask_once(draft, knob, &knob.doc, "")?,
            _ if knob.required => ask_once(draft, knob, &knob.doc, &usual(knob))?,
            _ => {}
        }
    }
    // Without a value that is left for later nothing can be computed.
    if draft.request()?.recipe(&[]).is_err() {
        return Ok(());
    }
    ask_precision(draft, estimates)?;
    ask_batch(draft)
}

/// Whether only an estimate reads it: the program is not told.
fn only_estimated(knob: &Knob) -> bool {
    knob.spelling.is_none() && !knob.required
}

/// Shows the file, and asks whether it is to be written.
pub fn wanted(path: &Path, text: &str, exists: bool) -> Result<bool, CommandFailure> {
    print::say(&format!("\n{text}"));
    let (question, default) = match exists {
        true => ("already exists; replace it with this?", "n"),
        false => ("write this?", "y"),
    };
    let question = format!("{}: {question}", path.display());
    until_taken(&question, default, yes_or_no)
}

/// Asks whether lab mates may read the runs.
pub fn group_reads() -> Result<bool, CommandFailure> {
    let question = "Let your group read this project's runs (status, logs, report)?";
    until_taken(question, "n", yes_or_no)
}

fn yes_or_no(answer: &str) -> Result<bool, CommandFailure> {
    match answer {
        "y" | "Y" | "yes" => Ok(true),
        "n" | "N" | "no" => Ok(false),
        _ => Err(CommandFailure::usage(format!("{answer:?}: answer y or n"))),
    }
}

/// Asks until an answer is taken.
fn until_taken<T>(
    question: &str,
    default: &str,
    mut take: impl FnMut(&str) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    for _ in 0..MOST_ASKED {
        match take(&ask(question, default)?) {
            Ok(taken) => return Ok(taken),
            Err(failure) => drop(failure.report()),
        }
    }
    let what = format!("{MOST_ASKED} answers were refused; nothing was written");
    let hint = "give the answers: `oomctl init --preset NAME --set KNOB=VALUE`";
    Err(CommandFailure::usage(what).hint(hint))
}

/// One line of answer; an empty one is the default.
fn ask(question: &str, default: &str) -> Result<String, CommandFailure> {
    print::prompt(&match default {
        "" => format!("{question}: "),
        "y" => format!("{question} [Y/n]: "),
        "n" => format!("{question} [y/N]: "),
        default => format!("{question} [{default}]: "),
    });
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(1..) => {}
        Ok(0) => {
            return Err(CommandFailure::usage("no answer; nothing was written"));
        }
        Err(e) => {
            return Err(CommandFailure::usage(format!(
                "standard input: {e}; nothing was written"
            )));
        }
    }
    let answer = line.trim();
    Ok(if answer.is_empty() { default } else { answer }.to_owned())
}

/// The preset: by default one that fits what lies here.
fn ask_preset(
    library: &Library,
    folder: &Path,
    found: &Surroundings,
) -> Result<String, CommandFailure> {
    let (default, why) = starter::preset(folder, found, library)?;
    let files = starter::rendering(library)?;
    if let Some(script) = found.scripts.first() {
        print::say(&format!(
            "{script} is a job script: `oomctl submit -w {}` runs it without a project file (Ctrl-C ends these questions).",
            word(script)
        ));
    }
    print::say("Presets for a job that oomctl writes:");
    for file in &files {
        let here = match file.preset == default {
            true => format!(" ({})", why.as_deref().unwrap_or("the default")),
            false => String::new(),
        };
        print::say(&format!("  {:<14}  {}{here}", file.preset, file.summary));
    }
    let names = files.iter().map(|file| file.preset.as_str());
    let shipped = library.names(LibraryFolder::Presets);
    until_taken("preset", &default, |name| {
        let mut begin = names.clone().filter(|known| known.starts_with(name));
        match (
            names.clone().find(|known| *known == name),
            begin.next(),
            begin.next(),
        ) {
            (Some(known), ..) | (None, Some(known), None) => Ok(known.to_owned()),
            _ if shipped.iter().any(|known| known == name) => {
                let failure =
                    CommandFailure::usage(format!("oomctl writes no job script for {name}"));
                Err(failure.hint("write your own, then `oomctl submit SCRIPT`"))
            }
            _ => {
                let failure = CommandFailure::usage(format!("no preset named {name:?}"));
                let all = || format!("one of {}", names.clone().collect::<Vec<_>>().join(", "));
                Err(failure.hint(meant(name, names.clone()).unwrap_or_else(all)))
            }
        }
    })
}

/// The files that the preset copies, where they are not where it expects them.
fn ask_files(draft: &mut Draft, file: &PresetFile) -> Result<(), CommandFailure> {
    for knob in file.files.iter().filter_map(|f| f.copy.as_ref()) {
        let path = starter::default_path(file, knob).unwrap_or_default();
        if draft.folder().join(&path).is_file() && !path.is_empty() || draft.has(knob) {
            continue;
        }
        let question = format!("{knob} (there is no {path} here)");
        until_taken(&question, "", |path| draft.set(knob, path, |_| Ok(())))?;
    }
    Ok(())
}

/// Does a file or a default give it?
fn is_known(draft: &Draft, knob: &Knob) -> bool {
    let recipe = draft.request().ok().and_then(|r| r.recipe(&[]).ok());
    recipe.is_some_and(|r| !r.value(&knob.name).is_null())
}

/// The default of a knob, as an answer.
fn usual(knob: &Knob) -> String {
    match &knob.default {
        Some(Scalar::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

/// The choices of a knob, a line each.
fn choices(knob: &Knob) -> String {
    let line = |choice: &String| match knob.choice_docs.get(choice) {
        Some(doc) => format!("\n  {choice:<9}  {doc}"),
        None => format!("\n  {choice}"),
    };
    knob.choices.iter().map(line).collect()
}

/// A knob that is not settled yet; no answer leaves one unset that need not be given.
fn ask_once(
    draft: &mut Draft,
    knob: &Knob,
    question: &str,
    default: &str,
) -> Result<(), CommandFailure> {
    if draft.has(&knob.name) {
        return Ok(());
    }
    let later = match knob.required && default.is_empty() {
        true => " (Enter: fill it in later)",
        false => "",
    };
    let question = format!("{question}{}\n{}{later}", choices(knob), knob.name);
    until_taken(&question, default, |answer| match answer {
        // A required one is marked in the file.
        "" => Ok(()),
        _ => draft.set(&knob.name, answer, |_| Ok(())),
    })?;
    // Ctrl-C at the next question ends the process.
    Answers::keep(draft);
    Ok(())
}

/// A knob that has a value; another one only where the whole is legal with it.
fn ask_legal(
    draft: &mut Draft,
    knob: &Knob,
    present: &str,
    default: &str,
) -> Result<(), CommandFailure> {
    let question = format!("{}{}\n{}", knob.doc, choices(knob), knob.name);
    let assumed = draft.assumes(&knob.name);
    let legal = |request: &Request| Ok(request.shape(&[]).map(drop)?);
    until_taken(&question, default, |answer| {
        match answer == present && !assumed {
            true => Ok(()),
            false => draft.set(&knob.name, answer, legal),
        }
    })?;
    Answers::keep(draft);
    Ok(())
}

fn ask_precision(draft: &mut Draft, estimates: bool) -> Result<(), CommandFailure> {
    let request = draft.request()?;
    let recipe = request.recipe(&[])?;
    let mut knobs = request.preset().with_role(Role::Precision);
    let Some(knob) = knobs.find(|k| !recipe.value(&k.name).is_null() && !draft.has(&k.name)) else {
        return Ok(());
    };
    if !estimates && only_estimated(knob) {
        return Ok(());
    }
    let present = recipe.value(&knob.name).to_string();
    ask_legal(draft, knob, &present, &present)
}

/// The batch, with what the memory model says of it.
fn ask_batch(draft: &mut Draft) -> Result<(), CommandFailure> {
    let request = draft.request()?;
    let recipe = request.recipe(&[])?;
    let preset = request.preset();
    let roles = [Role::MicroBatch, Role::TrainBatch].into_iter();
    let mut candidates = roles.flat_map(|role| preset.with_role(role));
    let Some(knob) = candidates.find(|k| matches!(recipe.value(&k.name), Value::Int(_))) else {
        return Ok(());
    };
    if draft.has(&knob.name) && !draft.assumes(&knob.name) {
        return Ok(());
    }
    let present = recipe.value(&knob.name).to_string();
    let by_model = request.largest(&knob.name);
    let told = match (by_model, request.estimate(&[])) {
        (Some(0), _) => format!(
            "memory model: no {} fits with probability {}",
            knob.name,
            request.inputs().min_fit_probability
        ),
        (Some(batch), _) => format!("memory model: {} {batch} at most", knob.name),
        (None, Some(Err(Unknown { field, why }))) if draft.has(GPU_MEMORY) => {
            format!("memory model: no answer, {field} {why}")
        }
        (None, _) if draft.has(GPU_MEMORY) => "memory model: no answer".to_owned(),
        // Nothing was said that it could compare.
        (None, _) => String::new(),
    };
    if !told.is_empty() {
        print::say(&told);
    }
    let default = by_model.and_then(|most| legal(&request, &knob.name, most.max(1)));
    let default = default.map_or_else(|| present.clone(), |batch| batch.to_string());
    ask_legal(draft, knob, &present, &default)
}

/// The largest legal batch up to `most`.
fn legal(request: &Request, knob: &str, most: i64) -> Option<i64> {
    let least = most.saturating_sub(MOST_TRIED).max(1);
    let mut batches = (least..=most).rev();
    batches.find(|batch| request.shape(&[Request::trial(knob, *batch)]).is_ok())
}
