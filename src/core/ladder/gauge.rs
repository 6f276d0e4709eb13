//! What the memory model says of values under trial, asked hundreds of times for one decision.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;

use super::forecast::Job;
use crate::core::memory::{Profile, Spec, phases, spec_from};
use crate::core::recipe::{ClusterFacts, Formula, Preset, Recipe, Value};

/// The bridge of a preset to the memory model, compiled for some knobs under trial.
pub(super) struct Gauge<'a> {
    preset: &'a str,
    profile: &'a Profile,
    fields: Vec<Field<'a>>,
    /// Knobs under trial that the fields look at.
    knobs: BTreeSet<String>,
    /// Jobs looked at so far, by the values of these.
    known: BTreeMap<String, Option<Rc<Gauged>>>,
}

/// A job as the memory model sees it.
pub(super) struct Gauged {
    /// What it is.
    pub spec: Spec,
    /// What its phases need.
    pub job: Job,
    /// Probability that they fit the GPU, once it was asked for.
    fits: OnceCell<f64>,
    /// Memory of the host per GPU, in bytes.
    pub host_bytes: f64,
}

/// A field of the memory model's specification.
struct Field<'a> {
    name: &'a str,
    formula: Formula<'a>,
    /// Values found so far, by those of the knobs that it looks at.
    known: BTreeMap<String, serde_json::Value>,
}

impl<'a> Gauge<'a> {
    /// Compiles the bridge of `preset`; `None` where it has none.
    pub fn new(
        preset: &'a Preset,
        recipe: &Recipe,
        cluster: &ClusterFacts,
        tried: &BTreeSet<String>,
        profile: &'a Profile,
    ) -> Option<Self> {
        let field = |(name, text): (&'a String, &'a String)| {
            Some(Field {
                name,
                formula: Formula::new(preset, recipe, cluster, tried, text)?,
                known: BTreeMap::new(),
            })
        };
        let fields = preset.memory.as_ref()?.fields.iter();
        let fields: Vec<Field<'a>> = fields.filter_map(field).collect();
        let knobs = fields.iter().flat_map(|f| f.formula.knobs());
        Some(Self {
            preset: &preset.name,
            profile,
            knobs: knobs.cloned().collect(),
            fields,
            known: BTreeMap::new(),
        })
    }

    /// The job with these values; `None` where the model cannot be asked about it.
    pub fn job(&mut self, values: &BTreeMap<String, Value>) -> Option<Rc<Gauged>> {
        let key = key(self.knobs.iter().filter_map(|knob| values.get(knob)));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let job = self.gauged(values).map(Rc::new);
        self.known.insert(key, job.clone());
        job
    }

    fn gauged(&mut self, values: &BTreeMap<String, Value>) -> Option<Gauged> {
        let fields = self.fields.iter_mut();
        let fields: serde_json::Map<_, _> = fields
            .map(|field| (field.name.to_owned(), field.value(values)))
            .collect();
        let spec = spec_from(self.preset, fields, self.profile).ok()?;
        let phases = phases(&spec, self.profile);
        Some(Gauged {
            job: Job::new(&spec, &phases),
            fits: OnceCell::new(),
            host_bytes: phases.first().map_or(0.0, |p| p.host_bytes),
            spec,
        })
    }
}

impl Gauged {
    /// What `ask` says of its phases, which is asked once.
    pub fn fits(&self, ask: impl FnOnce(&Job) -> f64) -> f64 {
        *self.fits.get_or_init(|| ask(&self.job))
    }
}

impl Field<'_> {
    fn value(&mut self, values: &BTreeMap<String, Value>) -> serde_json::Value {
        let knobs = self.formula.knobs().iter();
        let seen: Vec<(&str, &Value)> = knobs
            .filter_map(|knob| Some((knob.as_str(), values.get(knob)?)))
            .collect();
        let key = key(seen.iter().map(|(_, value)| *value));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let value = self.formula.value(seen.into_iter());
        let value = value.and_then(|v| serde_json::to_value(v).ok());
        let value = value.unwrap_or_default();
        self.known.insert(key, value.clone());
        value
    }
}

/// Values in one text.
fn key<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let mut key = String::new();
    for value in values {
        // Writing to a string does not fail.
        let _ = write!(key, "{value};");
    }
    key
}
