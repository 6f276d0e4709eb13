//! The ladder of a job whose scripts are the user's own.
//!
//! Rule: what the scripts say is a layer like any other, and what they compute is never changed; a rung is a
//! patch of the scripts, or it is not taken.

mod array;
mod attempt;
mod broken;
mod called;
mod comparable;
mod evidence;
mod exit_code;
mod job;
mod logged;
mod outputs;
mod resumes;
mod scripts;
mod unread;
pub mod version;

use std::collections::BTreeMap;

use crate::core::ladder::{CHOSEN, IN_SCRIPTS, MAY_SET};
use crate::core::recipe::{FileSpec, KnobSetFile, Layer, LayerKind, Preset, PresetFile};
use oomctl_base::{Origin, Refusal, Role, Value, ValueKind, line_and_column};
use oomctl_scripts::{
    Adoption, Ask, DIFF_CONTEXT, FoundKnob, KnobForm, KnobState, Patch, PatchError, SCRIPT,
    ScriptSource, Span, Spelling, StackKnob, Submission, Why, unified_diff,
};

pub use array::{TaskList, is_array};
pub use attempt::{CLAIM, PATCH, files};
pub use broken::{broken, cut};
pub use called::called;
pub use comparable::comparable;
pub use evidence::loosen;
pub use exit_code::{goes_on, hidden, hidden_remark};
pub use job::{
    JOB_NUMBER, JobIds, LogPattern, Resources, array, bad_directive, export, given, gives,
    has_error_log, impossible, job_name, logs, resources, workdir,
};
pub use logged::{Likely, Logged};
pub use outputs::{ProgramLog, output_path, output_remarks, readable_outputs};
pub use resumes::resumes;
pub use scripts::{Scripts, UNKNOWN, command};
pub use unread::doubt;

/// The preset for scripts of the user's own: what a template has to be told may stand anywhere in them, and one file
/// stands for them all.
///
/// # Errors
/// Faults of the preset.
pub fn assemble(
    file: PresetFile,
    sets: Vec<KnobSetFile>,
    version: Option<&str>,
) -> Result<Preset, Refusal> {
    let mut file = file.with(sets).with_framework_defaults(version)?;
    let asked: Vec<&String> = file.memory.iter().flat_map(|m| m.asks.values()).collect();
    for knob in &mut file.knobs {
        knob.required = false;
        // A guess that a project file can see and correct is no fact about a script.
        if knob.spelling.is_none() && asked.contains(&&knob.name) {
            (knob.default, knob.default_expr) = (None, None);
        }
    }
    file.files = vec![FileSpec::stand_in("scripts")];
    Preset::assemble(file, Vec::new(), version)
}

/// The scripts with other values of these knobs. Where a knob is the scheduler's, its option is changed.
///
/// # Errors
/// Every value that cannot be put into the scripts, and why.
pub fn patched(
    preset: &Preset,
    adoption: &Adoption<'_>,
    changes: &BTreeMap<String, Value>,
) -> Result<Patch, Vec<PatchError>> {
    let (mut wishes, mut asks) = (Vec::new(), Vec::new());
    for (name, value) in changes {
        let spelled = adoption.stack.is_some_and(|s| s.knob(name).is_some());
        let role = preset.knobs.iter().find(|k| k.name == *name);
        let ask = role.and_then(|k| Ask::of(k.role?, value));
        if spelled || ask.is_none() {
            wishes.push((name.as_str(), value.clone()));
        }
        asks.extend(ask);
    }
    adoption.change(&wishes, &asks)
}

/// The knob of the preset that a message about a resource is about.
pub fn knob_of<'p>(preset: &'p Preset, noun: &str) -> Option<&'p str> {
    let roles = [
        (Role::GpusPerNode, Ask::GpusPerNode(0)),
        (Role::Nodes, Ask::Nodes(0)),
        (Role::HostMemory, Ask::Memory(String::new())),
    ];
    let role = roles.into_iter().find(|(_, ask)| ask.noun() == noun)?.0;
    preset.with_role(role).next().map(|k| k.name.as_str())
}

/// The values that scripts give; those that they compute are pinned. What is asked of the scheduler counts where the
/// words of the program do not say it.
pub fn layer(preset: &Preset, adoption: &Adoption<'_>) -> Layer {
    let mut layer = Layer::new(LayerKind::Program);
    let sources = &adoption.reading.sources;
    for (knob, found) in adoption.knobs() {
        if !preset.knobs.iter().any(|k| k.name == knob.name) {
            continue;
        }
        let origin = origin(sources, found.place());
        // `auto` leaves it to the others, so it is known to say nothing.
        let open = found.state == KnobState::Text("auto".to_owned());
        let is_chosen = is_chosen(&found);
        match known(found) {
            None if open => {
                layer.set(&knob.name, Value::Null, origin.clone());
                layer.pins.insert(knob.name.clone(), origin);
            }
            Some(value) => {
                evidence::keep(preset, &mut layer, (&knob.name, &value), &origin);
                layer.set(&knob.name, value, origin);
            }
            None => {
                layer
                    .pins
                    .insert(knob.name.clone(), stays(is_chosen, origin));
            }
        }
    }
    if let Some(knob) = preset.with_role(Role::ModelVariant).next() {
        let found = adoption.calls().find_map(|call| adoption.model(call));
        if let (None, Some(found)) = (layer.settings.get(&knob.name), found) {
            let origin = origin(sources, found.place());
            let pin = stays(is_chosen(&found), origin.clone());
            match known(found) {
                Some(value) => layer.set(&knob.name, value, origin),
                None => drop(layer.pins.insert(knob.name.clone(), pin)),
            }
        }
    }
    for (role, value, span) in job::asked_for(&adoption.reading) {
        let Some(knob) = preset.with_role(role).next() else {
            continue;
        };
        let given = layer.gives(&knob.name);
        if let (false, Ok(value)) = (given, knob.kind.parse(&value)) {
            let origin = origin(sources, Some(span));
            layer.set(&knob.name, value, origin);
        }
    }
    of_code(preset, adoption, &mut layer);
    for knob in adoption.stack.iter().flat_map(|s| &s.knobs) {
        let given = layer.gives(&knob.name);
        let there = preset.knobs.iter().any(|k| k.name == knob.name);
        if let (false, true, Some(path)) = (given, there, adoption.hidden(knob)) {
            let text = format!("{IN_SCRIPTS}{path}{MAY_SET}");
            layer.pins.insert(knob.name.clone(), Origin::Flag { text });
        }
    }
    layer
}

/// What a program's configuration says under keys that a Hydra override could have: text and place. What the words
/// of its command say is not among it.
pub fn composed<'k>(
    adoption: &Adoption<'_>,
    keys: impl Iterator<Item = &'k str>,
) -> BTreeMap<String, (String, Origin)> {
    let Some(call) = adoption.reading.calls.last() else {
        return BTreeMap::new();
    };
    let sources = &adoption.reading.sources;
    let found = keys.filter_map(|key| {
        let knob = StackKnob::bare(key, ValueKind::Text, Spelling::Hydra(key.to_owned()));
        let found = adoption.given_by(call, &knob)?;
        let origin = origin(sources, found.place());
        let text = match (found.way, known(found)?) {
            (KnobForm::Composed, value) => value.to_string(),
            _ => return None,
        };
        Some((key.to_owned(), (text, origin)))
    });
    found.collect()
}

fn known(found: FoundKnob) -> Option<Value> {
    match found.state {
        KnobState::Known(value) if !found.maybe => Some(value),
        _ => None,
    }
}

/// Whether a value is one of several, as a condition says.
fn is_chosen(found: &FoundKnob) -> bool {
    found.maybe || matches!(found.state, KnobState::Computed(_, Why::Condition))
}

/// Why a value stays that is unknown: where it is computed, or that it is chosen there.
fn stays(is_chosen: bool, origin: Origin) -> Origin {
    match &origin {
        Origin::File { .. } if is_chosen => Origin::Flag {
            text: format!("{IN_SCRIPTS}{origin}{CHOSEN}"),
        },
        _ => origin,
    }
}

/// What the text of the program shows and nothing else gives.
fn of_code(preset: &Preset, adoption: &Adoption<'_>, layer: &mut Layer) {
    let (Some(stack), Some(call)) = (adoption.stack, adoption.calls().next()) else {
        return;
    };
    let program = call.program.as_deref().unwrap_or("the program");
    for name in stack.recognise.code.keys() {
        let (false, Some(knob), Some((text, place))) = (
            layer.gives(name),
            preset.knob(name),
            stack.of_code(call, name),
        ) else {
            continue;
        };
        let origin = match place {
            Some(place) => origin(&adoption.reading.sources, Some(place)),
            None => Origin::Flag {
                text: program.to_owned(),
            },
        };
        if let Ok(value) = knob.kind.parse(text) {
            layer.set(&knob.name, value, origin);
        }
    }
}

/// A place in the scripts.
fn origin(sources: &[ScriptSource], span: Option<Span>) -> Origin {
    let source = span.and_then(|s| Some((sources.get(s.file)?, s)));
    let flag = |text: &str| Origin::Flag {
        text: text.to_owned(),
    };
    let Some((source, span)) = source else {
        return flag("the script");
    };
    // The words of the command and the environment have no lines.
    if span.file < SCRIPT {
        return flag(&source.path);
    }
    let (line, column) = line_and_column(&source.text, span.start);
    Origin::file(
        &source.path,
        u32::try_from(line).unwrap_or(u32::MAX),
        u32::try_from(column).unwrap_or(u32::MAX),
    )
}

/// A diff from one submission of the user's scripts to the next, of the user's own lines only: options, arguments and variables one a line, then the files.
pub fn since(
    (before, files_before): &(Submission, BTreeMap<String, String>),
    (after, files_after): &(Submission, BTreeMap<String, String>),
) -> String {
    let words = |s: &Submission| {
        let words = s.options.iter().chain([&s.script]).chain(&s.args);
        words.map(|w| format!("{w}\n")).collect::<String>()
    };
    let variables = |s: &Submission| {
        let variables = s.variables.iter();
        variables
            .map(|(n, v)| format!("{n}={v}\n"))
            .collect::<String>()
    };
    let diff = |name, before: &str, after: &str, context| {
        unified_diff((name, name), before, after, context)
    };
    let mut all = diff("command line", &words(before), &words(after), DIFF_CONTEXT);
    // The other variables are nobody's business.
    all += &diff("environment", &variables(before), &variables(after), 0);
    for (path, text) in files_after {
        let old = files_before.get(path).map_or("", String::as_str);
        all += &diff(path, old, text, DIFF_CONTEXT);
    }
    all
}
