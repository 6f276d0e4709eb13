//! A sweep for which no preset is chosen: its own command is read as a job script would be.
//!
//! Rule: what neither words, files nor the program's text say is not known, whatever a preset has as its default.

use std::collections::BTreeMap;

use crate::cli::args::Configuration;
use crate::cli::request::known::model_knob;
use crate::cli::request::load;
use crate::cli::script::{self, Read, Shelves, text_of};
use crate::cli::session::Session;
use crate::core::recipe::{Knob, Layer, LayerKind, Preset, knobs_in};
use crate::core::render::shell_word;
use crate::core::request::Request;
use crate::core::sweep::Sweep;
use crate::view::CommandFailure;
use oomctl_base::{Origin, Role, Value, ValueKind};
use oomctl_scripts::{
    Adoption, Call, KnobState, ProgramDefault, Spelling, Stack, StackKnob, Submission,
    program_defaults,
};

/// What the command is called where a value of it is shown.
const COMMAND: &str = "the sweep's command";

/// Whether a sweep names a program and nobody chose a preset for it.
pub fn is_plain(
    session: &Session,
    flags: &Configuration,
    sweep: &Sweep,
) -> Result<bool, CommandFailure> {
    let chosen = load::named(session, "preset", flags.preset.as_deref())?.is_some()
        || load::named(session, "dataset", flags.dataset.as_deref())?.is_some();
    Ok(!chosen && !sweep.command.is_empty())
}

/// That a sweep starts a program of another preset than the one that the project's file names for its cells.
pub fn of_another(
    session: &Session,
    flags: &Configuration,
    sweep: &Sweep,
) -> Result<Option<String>, CommandFailure> {
    let of_project = load::named(session, "preset", None)?.filter(|_| flags.preset.is_none());
    let Some(project) = of_project.filter(|_| !sweep.command.is_empty()) else {
        return Ok(None);
    };
    let (read, shelves) = reading(session, sweep)?;
    let stack = read.adoption(&shelves).stack;
    let other = stack.filter(|s| s.name != project && !s.is_of_any_program());
    let file = session.document.path();
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
    };
    let shelves = Shelves::of(&session.library, None)?;
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
    let program = ProgramText::of(&read.adoption(&shelves), &read);
    let request = script::over(
        session,
        flags,
        "sweep",
        (&read, &shelves),
        |preset, adoption| Some(program.as_ref()?.layer(preset, adoption)),
    )?;
    let doubt = doubt(&request, &read.adoption(&shelves), program.as_ref(), sweep);
    Ok((request, doubt))
}

/// The text of a program, as the values that it gives names.
struct ProgramText {
    path: String,
    defaults: BTreeMap<String, ProgramDefault>,
}

impl ProgramText {
    fn of(adoption: &Adoption<'_>, read: &Read) -> Option<Self> {
        let path = adoption.calls().next()?.program.clone()?;
        let text = text_of(&read.workdir.join(&path))?;
        Some(Self {
            defaults: program_defaults(&text),
            path,
        })
    }

    fn default(&self, flag: &str) -> Option<&ProgramDefault> {
        let name = flag.trim_start_matches('-').trim_end_matches('=');
        self.defaults.get(&name.replace('-', "_"))
    }

    fn origin(&self, default: &ProgramDefault) -> Origin {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Origin::file(&self.path, number(default.line), number(default.column))
    }

    /// What the text says of knobs; one of which it says more than one value is pinned, as what a script computes.
    fn layer(&self, preset: &Preset, adoption: &Adoption<'_>) -> Layer {
        let mut layer = Layer::new(LayerKind::Program);
        let Some((stack, call)) = adoption.stack.zip(adoption.calls().next()) else {
            return layer;
        };
        let given = adoption.knobs();
        let knobs = stack
            .knobs
            .iter()
            .filter(|k| preset.knob(&k.name).is_some());
        let open = knobs.filter(|k| !given.iter().any(|(g, _)| g.name == k.name));
        for knob in open {
            let flags = knob.spellings.iter().filter_map(|s| match s {
                Spelling::Flag(flag) | Spelling::Switch(flag) => Some(flag.as_str()),
                _ => None,
            });
            self.put(&mut layer, knob, flags);
        }
        // No launcher starts several of it: it is one process, on one GPU.
        let alone = adoption.program().is_ok_and(|p| !p.plays_a_rank) && !call.one_process;
        let gpus = preset.with_role(Role::GpusPerNode).next();
        if let Some(knob) = gpus.filter(|_| alone) {
            let origin = Origin::Flag {
                text: COMMAND.to_owned(),
            };
            layer.set(&knob.name, Value::Int(1), origin);
        }
        if let Some(name) = model_knob(preset) {
            let knob = StackKnob::bare(name, ValueKind::Text, Spelling::Flag(String::new()));
            let flags = stack.recognise.model.iter().map(String::as_str);
            match flags.clone().find_map(|f| word(adoption, call, f)) {
                Some(text) => {
                    let origin = Origin::Flag {
                        text: COMMAND.to_owned(),
                    };
                    layer.set(name, Value::Text(text), origin);
                }
                None => self.put(&mut layer, &knob, flags),
            }
        }
        layer
    }

    fn put<'f>(
        &self,
        layer: &mut Layer,
        knob: &StackKnob,
        mut flags: impl Iterator<Item = &'f str>,
    ) {
        let Some(default) = flags.find_map(|flag| self.default(flag)) else {
            return;
        };
        let text = default
            .value
            .as_ref()
            .filter(|v| !v.is_null())
            .map(Value::to_string);
        match text.and_then(|text| knob.kind.parse(&text).ok()) {
            Some(value) => {
                layer.set(&knob.name, value, self.origin(default));
            }
            None => {
                layer.pins.insert(knob.name.clone(), self.origin(default));
            }
        }
    }
}

/// The text behind a flag of the command.
fn word(adoption: &Adoption<'_>, call: &Call, flag: &str) -> Option<String> {
    let knob = StackKnob::bare(flag, ValueKind::Text, Spelling::Flag(flag.to_owned()));
    match adoption.given_by(call, &knob)?.state {
        KnobState::Known(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Why the memory of the cells is not known: what would have to be read, or said.
fn doubt(
    request: &Request,
    adoption: &Adoption<'_>,
    program: Option<&ProgramText>,
    sweep: &Sweep,
) -> Option<String> {
    let command = sweep.command.iter().filter(|w| !w.starts_with("${"));
    let command = command.map(String::as_str).collect::<Vec<_>>().join(" ");
    let Some(stack) = adoption.stack else {
        return Some(format!("no preset knows what `{command}` starts"));
    };
    if !stack.is_of_any_program() {
        return None;
    }
    let Some(program) = program else {
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
            "{} does not say {}; `--set NAME=VALUE` does",
            program.path,
            names.join(", ")
        )
    })
}
