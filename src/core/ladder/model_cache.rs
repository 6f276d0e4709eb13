//! What the memory model says of values under trial, asked hundreds of times for one decision.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::need::JobNeeds;
use super::particle::Particle;
use crate::core::memory::spec_from;
use crate::core::recipe::{Formula, KnobPlaces, Preset, UnderTrial, Values};
use oomctl_base::{Value, ValueKey, key};
use oomctl_memory::{Profile, Spec, phases};

/// The bridge of a preset to the memory model, compiled for some knobs under trial.
pub(super) struct ModelCache<'a> {
    preset: &'a str,
    profile: &'a Profile,
    fields: Vec<Field<'a>>,
    /// Knobs under trial that the fields look at, in the order of their names.
    knobs: Vec<String>,
    places: KnobPlaces,
    /// Jobs looked at so far, by the values of these.
    known: HashMap<ValueKey, Option<Rc<ModelledJob>>>,
}

/// A job as the memory model sees it.
pub(super) struct ModelledJob {
    /// What it is.
    pub spec: Spec,
    /// What its phases need.
    job: JobNeeds,
    /// How surely they fit the GPU and how near they come, once it was asked for.
    fits: OnceCell<f64>,
    near: OnceCell<f64>,
    /// Memory of the host per GPU, in bytes.
    pub host_bytes: f64,
}

/// A field of the memory model's specification.
struct Field<'a> {
    name: &'a str,
    formula: Formula<'a>,
    /// Places among the cache's knobs of those that it looks at.
    knobs: Vec<usize>,
    /// Values found so far, by those of the knobs.
    known: HashMap<ValueKey, serde_json::Value>,
    /// The one asked for last, with the values that the knobs had; most jobs differ from the one before in a single knob.
    last: Option<(Vec<Value>, serde_json::Value)>,
}

impl<'a> ModelCache<'a> {
    /// Compiles the bridge of a preset; `None` where it has none.
    pub fn new(
        preset: &'a Preset,
        trial: &UnderTrial<'_, 'a>,
        profile: &'a Profile,
    ) -> Option<Self> {
        let fields = preset.memory.as_ref()?.fields.iter();
        let formulas = fields.filter_map(|(name, text)| Some((name, Formula::new(trial, text)?)));
        let formulas: Vec<(&String, Formula<'a>)> = formulas.collect();
        let knobs = formulas.iter().flat_map(|(_, formula)| formula.knobs());
        let knobs: BTreeSet<String> = knobs.cloned().collect();
        let place = |knob: &String| knobs.iter().position(|k| k == knob);
        let field = |(name, formula): (&'a String, Formula<'a>)| Field {
            name,
            knobs: formula.knobs().iter().filter_map(place).collect(),
            formula,
            known: HashMap::new(),
            last: None,
        };
        Some(Self {
            preset: &preset.name,
            profile,
            fields: formulas.into_iter().map(field).collect(),
            knobs: knobs.into_iter().collect(),
            places: KnobPlaces::default(),
            known: HashMap::new(),
        })
    }

    /// The job with these values; `None` where the model cannot be asked about it.
    pub fn job(&mut self, values: &Values) -> Option<Rc<ModelledJob>> {
        let seen = values.of(&self.knobs, &mut self.places);
        let key = key(seen.iter().copied());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let job = self.gauged(&seen).map(Rc::new);
        self.known.insert(key, job.clone());
        job
    }

    /// The job whose knobs have these values.
    fn gauged(&mut self, seen: &[&Value]) -> Option<ModelledJob> {
        let fields = self.fields.iter_mut();
        let fields = fields.map(|field| (field.name, field.value(seen)));
        let spec = spec_from(self.preset, fields, self.profile).ok()?;
        let phases = phases(&spec, self.profile);
        Some(ModelledJob {
            job: JobNeeds::new(&spec, &phases),
            fits: OnceCell::new(),
            near: OnceCell::new(),
            host_bytes: phases.first().map_or(0.0, |p| p.host_bytes),
            spec,
        })
    }
}

impl ModelledJob {
    /// Probability that its phases fit the GPU under these particles, which is asked once.
    pub fn fits(&self, particles: &[Particle]) -> f64 {
        *self.fits.get_or_init(|| self.job.fits(particles))
    }

    /// How near they come to that, asked once too.
    pub fn near(&self, particles: &[Particle]) -> f64 {
        *self.near.get_or_init(|| self.job.near(particles))
    }
}

impl Field<'_> {
    /// Its value for a job whose knobs have these.
    fn value(&mut self, seen: &[&Value]) -> &serde_json::Value {
        let values = self.knobs.iter().map(|at| seen[*at]);
        let last = self.last.take();
        let last = last.filter(|(of, _)| of.iter().eq(values.clone()));
        let now = last.unwrap_or_else(|| {
            let known = self.known.entry(key(values.clone()));
            let value = known.or_insert_with(|| {
                let names = self.formula.knobs().iter().map(String::as_str);
                let value = self.formula.value(names.zip(values.clone()));
                let value = value.and_then(|v| serde_json::to_value(v).ok());
                value.unwrap_or_default()
            });
            (values.cloned().collect(), value.clone())
        });
        &self.last.insert(now).1
    }
}
