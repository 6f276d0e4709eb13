//! What shapes and files of a preset are made with, for all that one decision looks at.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use minijinja::Value as Jinja;

use super::context::ClimbContext;
use super::incident::to_jinja;
use crate::core::memory::spec_by;
use crate::core::recipe::copies::edits;
use crate::core::recipe::{Layer, Preset, Shape, Shaper};
use crate::core::render::{AttemptPlace, Renderer, TemplateError};
use oomctl_base::{Problem, Refusal};
use oomctl_diagnose::Incident;
use oomctl_memory::{Profile, Spec};

/// A preset, its templates and the layers below the rungs, each expression and each template read once.
pub(super) struct EvaluationCache<'a> {
    /// What makes shapes of the preset.
    pub shaper: Shaper<'a>,
    /// Constants of the training stack, where the memory model may be asked.
    pub profile: Option<&'a Profile>,
    layers: &'a [Layer],
    templates: &'a BTreeMap<String, String>,
    /// The incident that is answered: the memory model's fields see it.
    incident: Jinja,
    renderer: OnceCell<Result<Renderer<'a>, TemplateError>>,
    known: RefCell<Vec<Rc<Evaluation>>>,
}

/// A configuration that is looked at, with what was found out about it.
pub(super) struct Evaluation {
    /// The configuration.
    pub shape: Shape,
    /// Layers of its rungs.
    rungs: Vec<Layer>,
    files: OnceCell<Vec<String>>,
    spec: OnceCell<Option<Spec>>,
}

impl<'a> EvaluationCache<'a> {
    /// For the context's preset on its cluster, after `failure`.
    pub fn new(
        context: &ClimbContext<'a>,
        profile: Option<&'a Profile>,
        failure: Option<&Incident>,
    ) -> Self {
        Self {
            profile,
            incident: to_jinja(failure),
            shaper: Shaper::new(context.preset, context.cluster, context.cluster_name),
            layers: context.layers,
            templates: context.templates,
            renderer: OnceCell::new(),
            known: RefCell::default(),
        }
    }

    /// The preset.
    pub fn preset(&self) -> &'a Preset {
        self.shaper.preset()
    }

    /// The configuration with these rungs.
    ///
    /// # Errors
    /// Where it is not legal.
    pub fn shape(&self, rungs: &[&Layer]) -> Result<Shape, Refusal> {
        let rungs = rungs.iter().copied();
        let shape = self.shaper.shape(self.layers.iter().chain(rungs))?;
        Ok(shape.seen_with("incident", self.incident.clone()))
    }

    /// The same, remembered for the next time that it is asked for.
    ///
    /// # Errors
    /// As `shape`.
    pub fn look(&self, rungs: &[&Layer]) -> Result<Rc<Evaluation>, Refusal> {
        let same = |look: &&Rc<Evaluation>| look.rungs.iter().eq(rungs.iter().copied());
        if let Some(look) = self.known.borrow().iter().find(same) {
            return Ok(Rc::clone(look));
        }
        let look = Rc::new(Evaluation {
            shape: self.shape(rungs)?,
            rungs: rungs.iter().copied().cloned().collect(),
            files: OnceCell::new(),
            spec: OnceCell::new(),
        });
        self.known.borrow_mut().push(Rc::clone(&look));
        Ok(look)
    }

    /// The job that a configuration describes to the memory model; `None` where that cannot be asked.
    pub fn spec<'l>(&self, look: &'l Evaluation) -> Option<&'l Spec> {
        let (expressions, profile) = (&self.shaper.expressions, self.profile?);
        let read = || spec_by(expressions, self.preset(), &look.shape, profile)?.ok();
        look.spec.get_or_init(read).as_ref()
    }

    /// The texts of the files, for a place that is the same for every attempt; of a copy only what is written into it.
    ///
    /// # Errors
    /// The first template that cannot be rendered.
    pub fn files<'l>(&self, look: &'l Evaluation) -> Result<&'l [String], Refusal> {
        if look.files.get().is_none() {
            let files = self.rendered(&look.shape)?;
            look.files.get_or_init(|| files);
        }
        Ok(look.files.get().map_or(&[], Vec::as_slice))
    }

    fn rendered(&self, shape: &Shape) -> Result<Vec<String>, Refusal> {
        let place = AttemptPlace::anywhere("/work", "slurm");
        let read = || Renderer::new(self.preset(), self.templates);
        let renderer = self.renderer.get_or_init(read).as_ref();
        let rendered = renderer
            .map_err(Clone::clone)
            .and_then(|renderer| renderer.render(shape, &place))
            .map_err(|e| Problem::new(e.to_string()))?;
        let copied = edits(self.preset(), shape).into_iter();
        let copied = copied.map(|e| format!("{} {}: {}", e.place.file, e.place.path, e.value));
        Ok(rendered.into_iter().map(|f| f.text).chain(copied).collect())
    }
}
