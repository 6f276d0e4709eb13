//! A shape to the files of an attempt.
//!
//! Rule: only a shape is rendered; every value that reaches a shell is quoted, every name in a
//! template must exist.

mod array;
mod quote;
mod templates;
mod words;

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{Environment, Value as Jinja};
use serde::{Deserialize, Serialize};

use crate::core::recipe::expr::{self, Expressions};
use crate::core::recipe::{CHOSEN, Preset, Shape};
use oomctl_base::Origin;
use oomctl_scripts::{DIFF_CONTEXT, unified_diff};

pub use array::{directives, dispatcher};
pub use quote::{comment, hydra_value, sbatch_word, shell_word};
pub use templates::TemplateError;
pub use words::{ProgramArguments, variable, words};

/// Where an attempt lives: what templates may say about it as `attempt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPlace {
    /// Name of the run.
    pub run: String,
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Token of the attempt.
    pub token: String,
    /// Absolute path of the attempt's folder.
    pub dir: String,
    /// Absolute path of the working directory.
    pub workdir: String,
    /// `slurm` or `local`.
    pub backend: String,
    /// Absolute path of oomctl itself, where it can be named: the scripts start its sampler.
    pub program: Option<String>,
}

impl AttemptPlace {
    /// The place of an attempt that is only tried out.
    pub fn anywhere(project: &str, backend: &str) -> Self {
        Self {
            run: "preview".to_owned(),
            number: 1,
            token: "oomctl-preview-1-00000000".to_owned(),
            dir: format!("{project}/.oomctl/runs/preview/attempt-1"),
            workdir: project.to_owned(),
            backend: backend.to_owned(),
            program: None,
        }
    }
}

/// A rendered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Name in the attempt's folder.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The one that is handed to the scheduler.
    pub entry: bool,
    /// The path of the user's file that it is a copy of.
    pub original: Option<String>,
}

/// Renders those files of an attempt that have a template, from `templates` (name to text).
///
/// # Errors
/// The first template that cannot be rendered, with its line.
pub fn render(
    preset: &Preset,
    shape: &Shape,
    templates: &BTreeMap<String, String>,
    place: &AttemptPlace,
) -> Result<Vec<RenderedFile>, TemplateError> {
    Renderer::new(preset, templates)?.render(shape, place)
}

/// The templates of a preset, read once for many shapes.
pub struct Renderer<'a> {
    preset: &'a Preset,
    env: Environment<'static>,
    expressions: Expressions<'a>,
}

impl<'a> Renderer<'a> {
    /// Reads `templates` (name to text).
    ///
    /// # Errors
    /// The first template that does not parse.
    pub fn new(
        preset: &'a Preset,
        templates: &BTreeMap<String, String>,
    ) -> Result<Self, TemplateError> {
        Ok(Self {
            preset,
            env: templates::environment(templates, preset.version.as_ref())?,
            expressions: Expressions::new(preset.env()),
        })
    }

    /// As [`render`].
    ///
    /// # Errors
    /// As there.
    pub fn render(
        &self,
        shape: &Shape,
        place: &AttemptPlace,
    ) -> Result<Vec<RenderedFile>, TemplateError> {
        let context = context(self.preset, &self.expressions, shape, place)?;
        let files = self.preset.files.iter();
        files
            .filter_map(|file| Some((file, file.template.as_ref()?)))
            .map(|(file, template)| {
                Ok(RenderedFile {
                    name: file.name.clone(),
                    text: templates::render(&self.env, template, &context)?,
                    entry: file.entry,
                    original: None,
                })
            })
            .collect()
    }
}

fn context(
    preset: &Preset,
    expressions: &Expressions<'_>,
    shape: &Shape,
    place: &AttemptPlace,
) -> Result<Jinja, TemplateError> {
    let words = words::by(expressions, preset, shape).map_err(|what| TemplateError {
        template: format!("preset {}", preset.name),
        line: None,
        what,
    })?;
    let env: Vec<BTreeMap<&str, String>> = words
        .env
        .into_iter()
        .map(|(name, value)| BTreeMap::from([("name", name), ("value", value)]))
        .collect();
    let files: BTreeMap<String, String> = preset
        .files
        .iter()
        .map(|f| (f.name.clone(), format!("{}/{}", place.dir, f.name)))
        .collect();
    let mut scope = shape.scope().clone();
    scope.set("overrides", Jinja::from(words.overrides));
    scope.set("flags", Jinja::from(words.flags));
    scope.set("env", Jinja::from(Serde(env)));
    scope.set("backend", Jinja::from(place.backend.as_str()));
    let mut attempt: BTreeMap<&str, Jinja> = BTreeMap::new();
    attempt.insert("run", expr::to_jinja(&text(&place.run)));
    attempt.insert("number", Jinja::from(place.number));
    attempt.insert("token", expr::to_jinja(&text(&place.token)));
    attempt.insert("dir", expr::to_jinja(&text(&place.dir)));
    attempt.insert("workdir", expr::to_jinja(&text(&place.workdir)));
    attempt.insert("program", Jinja::from(place.program.as_deref()));
    attempt.insert("files", Jinja::from(files));
    attempt.insert("checkpoint_chosen", Jinja::from(checkpoint_chosen(shape)));
    scope.set("attempt", Jinja::from(attempt));
    Ok(scope.context())
}

/// Was it set for the attempt what it goes on from, where the program would have taken something else?
fn checkpoint_chosen(shape: &Shape) -> bool {
    let chosen = |origin: &Origin| matches!(origin, Origin::Rung { rung, .. } if rung == CHOSEN);
    shape.recipe().values.values().any(|r| chosen(&r.origin))
}

fn text(t: &str) -> oomctl_base::Value {
    oomctl_base::Value::Text(t.to_owned())
}

/// A unified diff of two sets of rendered files; empty when nothing differs.
pub fn diff(before: &[RenderedFile], after: &[RenderedFile]) -> String {
    let mut out = String::new();
    for new in after {
        let old = before.iter().find(|f| f.name == new.name);
        let old_text = old.map_or("", |f| f.text.as_str());
        out += &unified_diff((&new.name, &new.name), old_text, &new.text, DIFF_CONTEXT);
    }
    out
}
