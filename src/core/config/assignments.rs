//! Values from the command line and the environment: `--set`, `--override`, `OOMCTL_*`.

use crate::core::recipe::{Layer, LayerKind, Override, Preset, Setting};
use oomctl_base::{Origin, Problem, ProblemPlace, Refusal, Value, ValueKind, nearest, word_list};

/// What the names of our variables begin with.
const PREFIX: &str = "OOMCTL_";
/// Variables of ours that are no knobs.
const RESERVED: [&str; 13] = word_list(
    "OOMCTL_COMPLETE OOMCTL_INSIDE OOMCTL_NODE_IP OOMCTL_SITE OOMCTL_SITE_CONFIG OOMCTL_BACKEND
     OOMCTL_SHARED_ANSWERS OOMCTL_RUN OOMCTL_ATTEMPT OOMCTL_ATTEMPT_DIR OOMCTL_JOB_ID OOMCTL_LOG
     OOMCTL_TEST_SLURM",
);

/// The layer of `--set NAME=VALUE` and `--override KEY=VALUE`, as typed.
///
/// # Errors
/// Every assignment that is none, names no knob or has a value of the wrong kind.
pub fn from_flags(preset: &Preset, set: &[String], overrides: &[String]) -> Result<Layer, Refusal> {
    let mut layer = Layer::new(LayerKind::Flags);
    let mut problems = Vec::new();
    for text in set {
        let assigned = assignment("--set", text)
            .and_then(|(name, value, origin)| assign(preset, name, value, origin));
        match assigned {
            Ok((name, setting)) => drop(layer.settings.insert(name, setting)),
            Err(problem) => problems.push(problem),
        }
    }
    for text in overrides {
        match assignment("--override", text) {
            Ok((key, value, origin)) => layer.overrides.push(Override {
                key: key.to_owned(),
                value: value.to_owned(),
                origin,
            }),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(layer)
    } else {
        Err(Refusal(problems))
    }
}

/// Both sides of a flag's `NAME=VALUE`, and the flag as their origin.
fn assignment<'t>(flag: &str, text: &'t str) -> Result<(&'t str, &'t str, Origin), Problem> {
    let origin = Origin::Flag {
        text: format!("{flag} {text}"),
    };
    let what = match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => return Ok((name.trim(), value, origin)),
        Some(_) => format!("`{text}` does not say which knob"),
        None => format!("`{text}` is not an assignment"),
    };
    let problem = Problem::new(what).at(text.to_owned(), origin);
    Err(problem.hint(format!("write {flag} NAME=VALUE")))
}

fn assign(
    preset: &Preset,
    name: &str,
    text: &str,
    origin: Origin,
) -> Result<(String, Setting), Problem> {
    let place = ProblemPlace {
        label: format!("{name} = {text}"),
        origin: origin.clone(),
    };
    let Some(knob) = preset.knob(name) else {
        let mut problem = preset.unknown_knob(name);
        problem.places.push(place);
        if name.contains('.') || name.starts_with(['+', '~']) {
            problem.hint = Some(format!(
                "to pass a key that no knob describes, write --override {name}={text}"
            ));
        }
        return Err(problem);
    };
    let value = match knob.kind {
        ValueKind::List if !text.starts_with('[') => {
            Ok(Value::List(text.split(',').map(str::to_owned).collect()))
        }
        kind => kind.parse(text),
    };
    match value {
        Ok(value) => Ok((knob.name.clone(), Setting { value, origin })),
        Err(what) => {
            let mut problem = Problem::new(format!("{name}: {what}")).hint(knob.takes());
            problem.places.push(place);
            Err(problem)
        }
    }
}

/// The name of the environment variable that sets a knob: upper case, `.` as `__`.
pub fn variable(knob: &str) -> String {
    format!("{PREFIX}{}", knob.to_uppercase().replace('.', "__"))
}

/// Variables that look like those of knobs and set none, with the one that was meant.
pub fn near_misses<'a>(
    preset: &Preset,
    names: impl Iterator<Item = &'a str>,
) -> Vec<(&'a str, String)> {
    let known: Vec<String> = preset.knobs.iter().map(|k| variable(&k.name)).collect();
    let ours = |name: &str| RESERVED.contains(&name) || known.iter().any(|k| k == name);
    let unknown = names.filter(|name| name.starts_with(PREFIX) && !ours(name));
    let near = |name: &'a str| {
        let bare = name.strip_prefix(PREFIX)?;
        let known = known.iter().filter_map(|k| k.strip_prefix(PREFIX));
        Some((name, format!("{PREFIX}{}", nearest(bare, known)?)))
    };
    unknown.filter_map(near).collect()
}

/// The layer of `OOMCTL_*` variables. Variables that name no knob are not ours to judge.
///
/// # Errors
/// Values of the wrong kind.
pub fn from_environment<'a>(
    preset: &Preset,
    variables: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Layer, Refusal> {
    let mut layer = Layer::new(LayerKind::Environment);
    let mut problems = Vec::new();
    for (name, text) in variables.filter(|(n, _)| !RESERVED.contains(n)) {
        let Some(knob) = preset.knobs.iter().find(|k| variable(&k.name) == name) else {
            continue;
        };
        let origin = Origin::Env {
            name: name.to_owned(),
        };
        match assign(preset, &knob.name, text, origin) {
            Ok((name, setting)) => drop(layer.settings.insert(name, setting)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(layer)
    } else {
        Err(Refusal(problems))
    }
}
