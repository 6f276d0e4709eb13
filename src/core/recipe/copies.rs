//! Knobs that stand in YAML files of the user's: what the files say of them, and the copies that an attempt gets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use oomctl_base::{Origin, Problem, Refusal, Value};
use oomctl_scripts::yaml::Yaml;
use oomctl_scripts::{Missing, Spelling, YamlPlace};

use super::expr;
use super::knob::Knob;
use super::layer::{Layer, LayerKind};
use super::shape::Shape;
use super::stack::Preset;

/// A file of the user's, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// Its path, as shown to the user.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Variables of the job's environment that the text asks for (`${oc.env:NAME}`) and that are set; no value where
    /// what they are set to is not known.
    #[serde(default)]
    pub variables: BTreeMap<String, Option<String>>,
}

/// What a value begins with that asks for a variable of the environment.
const VARIABLE: &str = "${oc.env:";

/// The names of the variables that a text asks for.
pub fn asked_variables(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.split(VARIABLE).skip(1);
    behind.map(|rest| rest[..rest.find([',', '}']).unwrap_or(rest.len())].trim())
}

impl Original {
    /// What a value means: that of the variable that it asks for, or the default beside it. None where it is computed in
    /// another way, or the variable's value is not known.
    ///
    /// Source: the resolver `oc.env` of OmegaConf 2.3.
    fn meaning(&self, text: &str) -> Option<String> {
        if !text.contains("${") {
            return Some(text.to_owned());
        }
        let inner = text.trim().strip_prefix(VARIABLE)?.strip_suffix('}')?;
        let (name, default) = match inner.split_once(',') {
            Some((name, default)) => (name, Some(default.trim())),
            None => (inner, None),
        };
        if let Some(value) = self.variables.get(name.trim()) {
            return value.clone();
        }
        let default = default.filter(|d| !d.contains(['$', '{', '}', '[']))?;
        let quoted = ['"', '\''].iter().find_map(|quote| {
            let inner = default.strip_prefix(*quote)?;
            inner.strip_suffix(*quote)
        });
        Some(quoted.unwrap_or(default).to_owned())
    }
}

/// A value that is to stand in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueEdit<'a> {
    /// The knob.
    pub knob: &'a Knob,
    /// Where it stands.
    pub place: &'a YamlPlace,
    /// Its value.
    pub value: &'a Value,
    /// Where that was given.
    pub origin: &'a Origin,
}

fn placed(preset: &Preset) -> impl Iterator<Item = (&Knob, &YamlPlace)> {
    preset.knobs.iter().filter_map(|knob| match &knob.spelling {
        Some(Spelling::Yaml(place)) => Some((knob, place)),
        _ => None,
    })
}

/// What the files (by their names in the preset) say of the knobs that stand in them. A value that the program itself
/// computes (`${…}`), but of a variable, is not known, and the knob keeps its default until somebody gives one.
///
/// # Errors
/// Every file that is no YAML, and every value that is not of its knob's kind, with file and line.
pub fn layer(preset: &Preset, originals: &BTreeMap<String, Original>) -> Result<Layer, Refusal> {
    let mut layer = Layer::new(LayerKind::Program);
    let mut problems = Vec::new();
    let mut files = BTreeMap::new();
    for (name, original) in originals {
        match Yaml::parse(&original.path, &original.text) {
            Ok(yaml) => drop(files.insert(name.as_str(), (yaml, original))),
            Err(problem) => problems.push(problem),
        }
    }
    for (knob, place) in placed(preset) {
        let Some((yaml, original)) = files.get(place.file.as_str()) else {
            continue;
        };
        let given = match yaml.get(&place.keys()) {
            Ok(Some(given)) => given,
            Ok(None) => continue,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let text = given.text.unwrap_or_else(|| "null".to_owned());
        let Some(text) = original.meaning(&text) else {
            continue;
        };
        let origin = Origin::file(&original.path, given.line, given.column);
        match knob.kind.parse(&text) {
            Ok(value) => layer.set(&knob.name, value, origin),
            Err(what) => problems.push(
                Problem::new(format!("{}: {what}", knob.name))
                    .at(format!("{}: {text}", place.path), origin)
                    .hint(knob.takes()),
            ),
        }
    }
    if problems.is_empty() {
        Ok(layer)
    } else {
        Err(Refusal(problems))
    }
}

/// The values of a shape that are written into files: those that somebody gave, and not the file itself.
pub fn edits<'a>(preset: &'a Preset, shape: &'a Shape) -> Vec<ValueEdit<'a>> {
    let mut edits = Vec::new();
    for (knob, place) in placed(preset) {
        let Some(resolved) = shape.recipe().values.get(&knob.name) else {
            continue;
        };
        let holds = |when: &String| expr::holds(preset.env(), when, shape.scope()) == Ok(true);
        let given = !resolved.origin.is_of_preset();
        if given && !resolved.value.is_null() && knob.render_when.as_ref().is_none_or(holds) {
            edits.push(ValueEdit {
                knob,
                place,
                value: &resolved.value,
                origin: &resolved.origin,
            });
        }
    }
    edits
}

/// The copies of the files (by their names in the preset) with the values of a shape in them.
///
/// # Errors
/// Every value that cannot be written, with file and line.
pub fn copies(
    preset: &Preset,
    shape: &Shape,
    originals: &BTreeMap<String, Original>,
) -> Result<Vec<(String, String)>, Refusal> {
    let mut problems = Vec::new();
    let mut copies = Vec::new();
    let edits = edits(preset, shape);
    for (name, original) in originals {
        let mut yaml = match Yaml::parse(&original.path, &original.text) {
            Ok(yaml) => yaml,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        for edit in edits.iter().filter(|e| e.place.file == *name) {
            match written(&yaml, edit, original) {
                Ok(Some(next)) => yaml = next,
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        copies.push((name.clone(), yaml.text().to_owned()));
    }
    if problems.is_empty() {
        Ok(copies)
    } else {
        Err(Refusal(problems))
    }
}

/// The file with one value in it; `None` where it says so already.
fn written(
    yaml: &Yaml,
    edit: &ValueEdit<'_>,
    original: &Original,
) -> Result<Option<Yaml>, Problem> {
    let file = &original.path;
    let keys = edit.place.keys();
    let given = yaml.get(&keys)?;
    if given.is_none() && edit.place.missing == Missing::Refuse {
        let what = format!(
            "{} cannot be written to {file}: it has no key {}, so the program would not read it",
            edit.knob.name, edit.place.path
        );
        return Err(Problem::new(what).at(
            format!("{} = {}", edit.knob.name, edit.value),
            edit.origin.clone(),
        ));
    }
    let text = given.and_then(|g| original.meaning(&g.text?));
    if text.is_some_and(|t| edit.knob.kind.parse(&t).as_ref() == Ok(edit.value)) {
        return Ok(None);
    }
    yaml.set(&keys, edit.value).map(Some)
}
