//! The questions of `oomctl init --interactive`. Nothing is written here: who stops answering leaves nothing behind.

use std::io::IsTerminal;
use std::path::Path;

use crate::cli::init::draft::Draft;
use crate::cli::session::Session;
use crate::core::config::parse_preset;
use crate::core::recipe::{Knob, PresetFile, Scalar};
use crate::core::request::Request;
use crate::io::library::{Library, LibraryFolder};
use crate::view::{CommandFailure, print};
use oomctl_base::{Role, Value};
use oomctl_gpu::nvml::Driver;
use oomctl_memory::{GPU_MEMORY, Unknown};

/// Batches below the computed one that are tried for a legal one.
const MOST_TRIED: i64 = 4_096;

/// The text of a project file for `folder`, from what the user answers. `set` is settled already.
pub fn answered(
    folder: &Path,
    preset: Option<&str>,
    set: &[String],
) -> Result<String, CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let what = "standard input is not a terminal, so oomctl cannot ask";
        let hint =
            "drop --interactive, or give the answers: `oomctl init --preset NAME --set KNOB=VALUE`";
        return Err(CommandFailure::usage(what).hint(hint));
    }
    let memory = show_gpus();
    let preset = match preset {
        Some(name) => name.to_owned(),
        None => ask_preset(&Session::empty(folder)?.library, folder)?,
    };
    let mut draft = Draft::new(folder, &preset, set)?;
    let file = draft.preset()?;
    ask_files(&mut draft, &file)?;
    let request = draft.request()?;
    let knobs = &request.preset().knobs;
    if let Some(knob) = knobs.iter().find(|k| k.name == GPU_MEMORY) {
        let question =
            "Memory of the GPU that the job will have, such as 24GiB; leave it empty if unknown.";
        ask_once(&mut draft, knob, question, memory.as_deref().unwrap_or(""))?;
    }
    for knob in knobs {
        match knob.role {
            // It is asked for when everything is known that it depends on.
            Some(Role::MicroBatch | Role::TrainBatch) if knob.required => {
                draft.assume(&knob.name, "1")?
            }
            Some(Role::ModelVariant) if is_known(&draft, knob) => {}
            Some(Role::ModelVariant) => ask_once(&mut draft, knob, &knob.doc, "")?,
            _ if knob.required => ask_once(&mut draft, knob, &knob.doc, "")?,
            _ => {}
        }
    }
    ask_precision(&mut draft)?;
    ask_batch(&mut draft)?;
    draft.checked()
}

/// Shows the file, and asks whether it is to be written.
pub fn wanted(path: &Path, text: &str, exists: bool) -> Result<bool, CommandFailure> {
    print::talk(&format!("\n{text}"));
    let (question, default) = match exists {
        true => ("already exists; replace it with this?", "n"),
        false => ("write this?", "y"),
    };
    let question = format!("{}: {question} y or n", path.display());
    until_taken(&question, default, |answer| match answer {
        "y" | "Y" | "yes" => Ok(true),
        "n" | "N" | "no" => Ok(false),
        _ => Err(CommandFailure::usage(format!("{answer:?}: answer y or n"))),
    })
}

/// Asks until an answer is taken. Who gives the same answer again after it was refused has no other.
fn until_taken<T>(
    question: &str,
    default: &str,
    mut take: impl FnMut(&str) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    let mut refused = None;
    loop {
        let answer = ask(question, default)?;
        match take(&answer) {
            Ok(taken) => return Ok(taken),
            Err(failure) => drop(failure.report()),
        }
        if refused.replace(answer.clone()) == Some(answer) {
            let what = "the same answer was refused twice; nothing was written";
            let hint = "give the answers: `oomctl init --preset NAME --set KNOB=VALUE`";
            return Err(CommandFailure::usage(what).hint(hint));
        }
    }
}

/// One line of answer; an empty one is the default.
fn ask(question: &str, default: &str) -> Result<String, CommandFailure> {
    print::prompt(&match default {
        "" => format!("{question}: "),
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

/// Shows the GPUs of this machine; the memory of the smallest one, as a knob takes it.
fn show_gpus() -> Option<String> {
    let machine = match Driver::open().and_then(|d| d.look()) {
        Ok(machine) if !machine.gpus.is_empty() => machine,
        Ok(_) => {
            print::talk("no GPU found on this machine");
            return None;
        }
        Err(e) => {
            print::talk(&format!("no GPU found: {e}"));
            return None;
        }
    };
    for gpu in &machine.gpus {
        let (total, free) = (gpu.memory.total.gib(), gpu.memory.free.gib());
        print::talk(&format!(
            "GPU {}  {}  {free:.1} of {total:.1} GiB free",
            gpu.index, gpu.name
        ));
    }
    let smallest = machine.gpus.iter().map(|g| g.memory.total.0).min()?;
    Some(format!("{}MiB", smallest >> 20))
}

/// The preset: by default one whose file lies here.
fn ask_preset(library: &Library, folder: &Path) -> Result<String, CommandFailure> {
    let mut default = library.default_preset().to_owned();
    let mut names = Vec::new();
    for name in library.names(LibraryFolder::Presets) {
        let source = library.get(LibraryFolder::Presets, &name)?;
        let file = parse_preset(&source.path, &source.text)?;
        // One without files is there for scripts that exist already.
        if file.files.is_empty() {
            continue;
        }
        names.push(name.clone());
        print::talk(&format!("preset {name:<10}  {}", file.summary));
        let mut copied = file
            .files
            .iter()
            .filter_map(|f| default_path(&file, f.copy.as_ref()?));
        if copied.any(|path| folder.join(path).is_file()) {
            default = name;
        }
    }
    until_taken("preset", &default, |name| {
        match names.iter().any(|known| known == name) {
            true => Ok(name.to_owned()),
            false => Err(CommandFailure::usage(format!("no preset named {name:?}"))),
        }
    })
}

fn default_path(file: &PresetFile, knob: &str) -> Option<String> {
    match &file.knobs.iter().find(|k| k.name == *knob)?.default {
        Some(Scalar::Text(path)) => Some(path.clone()),
        _ => None,
    }
}

/// The files that the preset copies, where they are not where it expects them.
fn ask_files(draft: &mut Draft, file: &PresetFile) -> Result<(), CommandFailure> {
    for knob in file.files.iter().filter_map(|f| f.copy.as_ref()) {
        let path = default_path(file, knob).unwrap_or_default();
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
    let question = format!("{question}\n{}", knob.name);
    until_taken(&question, default, |answer| match answer {
        "" if knob.required => Err(CommandFailure::usage(format!(
            "{} has no default",
            knob.name
        ))),
        "" => Ok(()),
        _ => draft.set(&knob.name, answer, |_| Ok(())),
    })
}

/// A knob that has a value; another one only where the whole is legal with it.
fn ask_legal(
    draft: &mut Draft,
    knob: &Knob,
    present: &str,
    default: &str,
) -> Result<(), CommandFailure> {
    let choices = match knob.choices.join(", ") {
        none if none.is_empty() => String::new(),
        choices => format!(" ({choices})"),
    };
    let question = format!("{}\n{}{choices}", knob.doc, knob.name);
    let legal = |request: &Request| Ok(request.shape(&[]).map(drop)?);
    until_taken(&question, default, |answer| match answer == present {
        true => Ok(()),
        false => draft.set(&knob.name, answer, legal),
    })
}

fn ask_precision(draft: &mut Draft) -> Result<(), CommandFailure> {
    let request = draft.request()?;
    let recipe = request.recipe(&[])?;
    let mut knobs = request.preset().with_role(Role::Precision);
    let Some(knob) = knobs.find(|k| !recipe.value(&k.name).is_null() && !draft.has(&k.name)) else {
        return Ok(());
    };
    let present = recipe.value(&knob.name).to_string();
    ask_legal(draft, knob, &present, &present)
}

/// The batch, with what the memory model and the rule of thumb say of it.
fn ask_batch(draft: &mut Draft) -> Result<(), CommandFailure> {
    let request = draft.request()?;
    let recipe = request.recipe(&[])?;
    let preset = request.preset();
    let thumb = request.thumb();
    let by_thumb = thumb.as_ref().and_then(|t| preset.knob(&t.knob));
    let by_role = [Role::MicroBatch, Role::TrainBatch].into_iter();
    let by_role = by_role.flat_map(|role| preset.with_role(role));
    let mut candidates = by_thumb.into_iter().chain(by_role);
    let Some(knob) = candidates.find(|k| matches!(recipe.value(&k.name), Value::Int(_))) else {
        return Ok(());
    };
    if draft.has(&knob.name) && !draft.assumes(&knob.name) {
        return Ok(());
    }
    let present = recipe.value(&knob.name).to_string();
    if let Some(thumb) = &thumb {
        print::talk(&format!(
            "rule of thumb: {} {} by {}",
            thumb.knob, thumb.by_rule, thumb.formula
        ));
    }
    let by_model = request.largest(&knob.name);
    print::talk(&match (by_model, request.estimate(&[])) {
        (Some(0), _) => format!(
            "memory model: no {} fits with probability {}",
            knob.name,
            request.inputs().risk
        ),
        (Some(batch), _) => format!("memory model: {} {batch} at most", knob.name),
        (None, Some(Err(Unknown { field, why }))) => {
            format!("memory model: no answer, {field} {why}")
        }
        (None, _) => "memory model: no answer".to_owned(),
    });
    let computed = match by_model {
        Some(batch) => Some(batch.max(1)),
        None => thumb.map(|t| t.by_rule),
    };
    let default = computed.and_then(|most| legal(&request, &knob.name, most));
    let default = default.map_or_else(|| present.clone(), |batch| batch.to_string());
    ask_legal(draft, knob, &present, &default)
}

/// The largest legal batch up to `most`.
fn legal(request: &Request, knob: &str, most: i64) -> Option<i64> {
    let least = most.saturating_sub(MOST_TRIED).max(1);
    let mut batches = (least..=most).rev();
    batches.find(|batch| request.shape(&[Request::trial(knob, *batch)]).is_ok())
}
