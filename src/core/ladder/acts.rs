//! Whether a single move frees memory of the GPU where it ran out, as the memory model sees it.

use std::cell::RefCell;
use std::rc::Rc;

use super::bounds;
use super::context::ClimbContext;
use super::evaluations::EvaluationCache;
use super::incident::FailureContext;
use super::model_cache::{ModelCache, ModelledJob};
use crate::core::recipe::{Shape, UnderTrial, Values};
use oomctl_base::Value;
use oomctl_diagnose::Class;
use oomctl_memory::{Phase, Profile, phases};

/// Part of a phase's need that a move must free to count: less is lost in the doubt of the formulas, and in messages
/// before and after are the same figure.
const COUNTS: f64 = 0.005;

/// The memory model at one configuration.
pub(super) struct Acts<'a> {
    model_cache: RefCell<ModelCache<'a>>,
    profile: &'a Profile,
    values: Values,
    present: Rc<ModelledJob>,
    /// Phases of which one must need less; empty for any.
    asked: &'static [Phase],
}

impl<'a> Acts<'a> {
    /// At `shape`, after a failure; `None` where the model cannot be asked, or memory of the GPU is not what ran out.
    pub fn new(
        evaluations: &EvaluationCache<'a>,
        context: &ClimbContext<'_>,
        shape: &Shape,
        failure: &FailureContext,
    ) -> Option<Self> {
        let profile = evaluations
            .profile
            .filter(|_| failure.class == Class::GpuOom)?;
        let tried = bounds::tried(context);
        let (recipe, scope) = (shape.recipe(), shape.scope());
        let trial = UnderTrial::new(&evaluations.shaper, recipe, scope, &tried);
        let mut model_cache = ModelCache::new(evaluations.preset(), &trial, profile)?;
        let all = tried.iter().map(|knob| (knob.clone(), Value::Null));
        let values = all
            .collect::<Values>()
            .with(|knob| recipe.value(knob).clone());
        Some(Self {
            present: model_cache.job(&values)?,
            model_cache: RefCell::new(model_cache),
            profile,
            values,
            asked: failure.fatal,
        })
    }

    /// Whether a phase needs less with this value; `None` where the model sees no difference.
    pub fn frees(&self, knob: &str, to: &Value) -> Option<bool> {
        let mut values = self.values.clone();
        values.set(knob, to.clone());
        let after = self.model_cache.borrow_mut().job(&values)?;
        if after.spec == self.present.spec {
            return None;
        }
        let needs = |job: &ModelledJob| {
            let all = phases(&job.spec, self.profile).into_iter();
            let asked = all.filter(|p| self.asked.is_empty() || self.asked.contains(&p.phase));
            asked
                .map(|p| p.terms.iter().map(|t| t.bytes).sum::<f64>())
                .collect::<Vec<f64>>()
        };
        let (before, after) = (needs(&self.present), needs(&after));
        let mut pairs = before.iter().zip(&after);
        Some(pairs.any(|(before, after)| *after < before * (1.0 - COUNTS)))
    }
}
