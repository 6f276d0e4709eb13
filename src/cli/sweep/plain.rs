//! A sweep for which no preset is chosen: its own command is read as a job script would be.
//!
//! Rule: what neither words, files nor the program's text say is not known, whatever a preset has as its default.

use std::collections::BTreeMap;

use crate::cli::args::Configuration;
use crate::cli::request::profile::named;
use crate::cli::script::{self, Read, Shelves, text_of};
use crate::cli::session::Session;
use crate::core::recipe::{Knob, Layer, LayerKind, Preset, knobs_in};
use crate::core::render::shell_word;
use crate::core::request::Request;
use crate::core::sweep::Sweep;
use crate::view::CommandFailure;
use oomctl_base::{Origin, Role, Value};
use oomctl_scripts::{Adoption, Stack, Submission};

/// What the command is called where a value of it is shown.
const COMMAND: &str = "the sweep's command";

/// Whether a sweep names a program and nobody chose a preset for it.
pub fn is_plain(
    session: &Session,
    flags: &Configuration,
    sweep: &Sweep,
) -> Result<bool, CommandFailure> {
    let chosen = named(session, "preset", flags.preset.as_deref())?.is_some()
        || named(session, "dataset", flags.dataset.as_deref())?.is_some();
    Ok(!chosen && !sweep.command.is_empty())
}

/// That a sweep starts a program of another preset than the one that the project's file names for its cells.
pub fn of_another(
    session: &Session,
    flags: &Configuration,
    sweep: &Sweep,
) -> Result<Option<String>, CommandFailure> {
    let of_project = named(session, "preset", None)?.filter(|_| flags.preset.is_none());
    let Some(project) = of_project.filter(|_| !sweep.command.is_empty()) else {
        return Ok(None);
    };
    let (read, shelves) = reading(session, sweep)?;
    let stack = read.adoption(&shelves).stack;
    let other = stack.filter(|s| s.name != project && !s.is_of_any_program());
    let file = &session.document.path;
    Ok(other.map(|Stack { name, .. }| {
        format!(
            "note: the sweep starts a program of {name}, but {file} says `preset: {project}`, by which its cells are judged. \
             `--preset {name}` judges them as what they are"
        )
    }))
}

/// The sweep's command, read as a script of one line.
fn reading(session: &Session, sweep: &Sweep) -> Result<(Read, Shelves), CommandFailure> {
    let words = sweep.first_words();
    let words: Result<Vec<String>, _> = words.iter().map(|w| shell_word(w)).collect();
    let words = words.map_err(CommandFailure::configuration)?;
    let submission = Submission {
        options: Vec::new(),
        script: COMMAND.to_owned(),
        args: Vec::new(),
        variables: BTreeMap::new(),
        is_foreign: false,
    };
    let shelves = Shelves::of_project(session, None)?;
    let text = format!("#!/bin/sh\n{}\n", words.join(" "));
    let read = Read::new(submission, text, session.folder.clone(), &shelves);
    Ok((read, shelves))
}

/// The request of its first cell, and why the memory of its cells is not known.
pub fn read(
    session: &Session,
    flags: &Configuration,
    sweep: &Sweep,
) -> Result<(Request, Option<String>), CommandFailure> {
    let (read, shelves) = reading(session, sweep)?;
    let request = script::over(
        session,
        flags,
        "sweep",
        (&read, &shelves),
        |preset, adoption| Some(alone(preset, adoption)),
    )?;
    let doubt = doubt(&request, &read.adoption(&shelves), &read, sweep);
    Ok((request, doubt))
}

/// The GPU of a program of which no launcher starts several: it is one process, on one GPU.
fn alone(preset: &Preset, adoption: &Adoption<'_>) -> Layer {
    let mut layer = Layer::new(LayerKind::Program);
    let one_process = adoption.calls().any(|call| call.one_process);
    let alone = adoption.program().is_ok_and(|p| !p.plays_a_rank) && !one_process;
    let gpus = preset.with_role(Role::GpusPerNode).next();
    if let Some(knob) = gpus.filter(|_| alone) {
        let text = COMMAND.to_owned();
        layer.set(&knob.name, Value::Int(1), Origin::Flag { text });
    }
    layer
}

/// Why the memory of the cells is not known: what would have to be read, or said.
fn doubt(request: &Request, adoption: &Adoption<'_>, read: &Read, sweep: &Sweep) -> Option<String> {
    let command = sweep.command.iter().filter(|w| !w.starts_with("${"));
    let command = command.map(String::as_str).collect::<Vec<_>>().join(" ");
    let Some(stack) = adoption.stack else {
        return Some(format!("no preset knows what `{command}` starts"));
    };
    if !stack.is_of_any_program() {
        return None;
    }
    let program = adoption.calls().find_map(|call| call.program.as_ref());
    let Some(program) = program.filter(|path| text_of(&read.workdir.join(path)).is_some()) else {
        return Some(format!("the program of `{command}` cannot be read"));
    };
    let preset = request.preset();
    let fields = preset.memory.as_ref()?.fields.values();
    let asked = knobs_in(preset, fields.map(String::as_str));
    let layers = &request.inputs().layers;
    let said = |knob: &Knob| {
        let swept = sweep
            .axes
            .iter()
            .any(|a| preset.knob(&a.name).is_some_and(|k| k.name == knob.name));
        swept || layers.iter().any(|l| l.settings.contains_key(&knob.name))
    };
    let of_machine = [Role::Nodes, Role::GradAccumulation, Role::TrainBatch].map(Some);
    let open = preset.knobs.iter().filter(|k| {
        let of_model = k.name.starts_with("model.") && k.role.is_none();
        asked.contains(&k.name) && !of_model && !of_machine.contains(&k.role) && !said(k)
    });
    let names: Vec<&str> = open.map(|k| k.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{program} does not say {}; `--set NAME=VALUE` does",
            names.join(", ")
        )
    })
}
