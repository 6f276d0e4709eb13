//! Knobs as the words that are handed to the program.

use crate::core::recipe::expr::Expressions;
use crate::core::recipe::{Knob, Override, Preset, Shape};
use oomctl_base::Value;
use oomctl_scripts::Spelling;

use super::quote::hydra_value;

/// What a program is handed, in the order of the preset's knobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ProgramArguments {
    /// Hydra override words, the user's free-form ones last.
    pub overrides: Vec<String>,
    /// Words of flags and switches.
    pub flags: Vec<String>,
    /// Environment variables, name and value.
    pub env: Vec<(String, String)>,
}

/// The words of a shape. Null knobs, and those whose `render_when` is false, are not handed over.
///
/// # Errors
/// An expression that cannot be evaluated.
pub fn words(preset: &Preset, shape: &Shape) -> Result<ProgramArguments, String> {
    by(&Expressions::new(preset.env()), preset, shape)
}

/// The same with expressions that were compiled before.
pub(super) fn by(
    expressions: &Expressions<'_>,
    preset: &Preset,
    shape: &Shape,
) -> Result<ProgramArguments, String> {
    let mut words = ProgramArguments::default();
    for knob in &preset.knobs {
        let value = shape.recipe().value(&knob.name);
        let Some(spelling) = &knob.spelling else {
            continue;
        };
        if value.is_null() || !is_rendered(expressions, shape, knob)? {
            continue;
        }
        match spelling {
            Spelling::Env(name) => {
                let name = variable(preset, shape, name)?;
                words.env.push((name, value.to_string()));
            }
            _ => push(&mut words, spelling, value),
        }
    }
    words
        .overrides
        .extend(shape.recipe().overrides.iter().map(free_form));
    Ok(words)
}

fn is_rendered(expressions: &Expressions<'_>, shape: &Shape, knob: &Knob) -> Result<bool, String> {
    match &knob.render_when {
        Some(when) => expressions.holds(when, shape.scope()),
        None => Ok(true),
    }
}

/// The name of a variable. One with `{{ }}` depends on other knobs: what it is called in a version of a library.
///
/// # Errors
/// A name that cannot be made.
pub fn variable(preset: &Preset, shape: &Shape, name: &str) -> Result<String, String> {
    if !name.contains("{{") {
        return Ok(name.to_owned());
    }
    let made = preset.env().render_str(name, shape.scope().context());
    made.map_err(|e| format!("the variable `{name}`: {e}"))
}

fn push(words: &mut ProgramArguments, spelling: &Spelling, value: &Value) {
    match spelling {
        Spelling::Hydra(path) => words
            .overrides
            .push(format!("{path}={}", hydra_value(value))),
        Spelling::HydraAdd(path) => {
            words
                .overrides
                .push(format!("+{path}={}", hydra_value(value)));
        }
        Spelling::HydraForce(path) => {
            words
                .overrides
                .push(format!("++{path}={}", hydra_value(value)));
        }
        Spelling::Flag(flag) if flag.ends_with('=') => words.flags.push(format!("{flag}{value}")),
        Spelling::Flag(flag) => {
            words.flags.push(flag.clone());
            match value {
                Value::List(items) => words.flags.extend(items.iter().cloned()),
                _ => words.flags.push(value.to_string()),
            }
        }
        Spelling::Switch(flag) => {
            if *value == Value::Bool(true) {
                words.flags.push(flag.clone());
            }
        }
        // They are no words: one is in the environment, the others in a file.
        Spelling::Env(_) | Spelling::Yaml(_) | Spelling::Key(_) => {}
    }
}

/// A free-form override, its value as the user wrote it.
fn free_form(o: &Override) -> String {
    if o.key.starts_with('~') && o.value.is_empty() {
        o.key.clone()
    } else {
        format!("{}={}", o.key, o.value)
    }
}
