//! Layers to a recipe: for every knob the value that wins, where it came from and what it beat.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use minijinja::Value as Jinja;
use regex::Regex;

use super::bounds::bounds_by;
use super::cluster::ClusterFacts;
use super::depends::knobs_in;
use super::derived::DerivedValues;
use super::expr::{self, Expressions, Prepared, Scope};
use super::knob::{Knob, default_value};
use super::layer::{Layer, Override, Setting};
use super::resolved::{Recipe, Resolved};
use super::stack::Preset;
use oomctl_base::{Origin, Problem, Refusal, Value, ValueKind};

/// The expressions of a preset, prepared for many recipes on one cluster.
pub struct Resolver<'a> {
    pub(super) preset: &'a Preset,
    pub(super) cluster: &'a ClusterFacts,
    derived: DerivedValues<'a>,
    knobs: BTreeMap<&'a str, &'a Knob>,
    /// What every scope has: version and cluster, and all knobs as `none`.
    blank: Scope,
    /// Computed defaults, by knob.
    computed: BTreeMap<&'a str, Prepared<'a>>,
    patterns: BTreeMap<&'a str, OnceCell<Option<Regex>>>,
}

/// Resolves `layers` over the preset's defaults, as `Resolver::resolve` does.
///
/// # Errors
/// As there.
pub fn resolve(
    preset: &Preset,
    layers: &[Layer],
    cluster: &ClusterFacts,
) -> Result<Recipe, Refusal> {
    Resolver::new(preset, cluster, &Expressions::new(preset.env())).resolve(layers)
}

impl<'a> Resolver<'a> {
    /// Compiles a preset's expressions.
    pub fn new(
        preset: &'a Preset,
        cluster: &'a ClusterFacts,
        expressions: &Expressions<'a>,
    ) -> Self {
        let computed = preset.knobs.iter().filter_map(|knob| {
            let text = knob.default_expr.as_deref()?;
            Some((knob.name.as_str(), expressions.prepared(text)))
        });
        let patterned = preset.knobs.iter().filter(|k| k.pattern.is_some());
        Self {
            preset,
            cluster,
            derived: DerivedValues::of(preset, expressions),
            knobs: preset.knobs.iter().map(|k| (k.name.as_str(), k)).collect(),
            blank: blank(preset, cluster),
            computed: computed.collect(),
            patterns: patterned
                .map(|k| (k.name.as_str(), OnceCell::new()))
                .collect(),
        }
    }

    /// Resolves `layers` (in any order; their kind gives precedence, and rungs among themselves lie in
    /// the order given) over the preset's defaults.
    ///
    /// # Errors
    /// Every problem: unknown knobs, values outside their bounds, required values missing.
    pub fn resolve<'l>(
        &self,
        layers: impl IntoIterator<Item = &'l Layer>,
    ) -> Result<Recipe, Refusal> {
        let mut stack: Vec<&Layer> = layers.into_iter().collect();
        stack.sort_by_key(|l| l.kind);
        self.resolve_sorted(&stack)
    }

    fn resolve_sorted(&self, stack: &[&Layer]) -> Result<Recipe, Refusal> {
        let preset = self.preset;
        let mut problems = Vec::new();
        let mut settings: BTreeMap<&str, Vec<Setting>> = BTreeMap::new();
        let mut pins = BTreeMap::new();
        for layer in stack {
            for (name, setting) in &layer.settings {
                match self.knob(name) {
                    Some(knob) => settings
                        .entry(knob.name.as_str())
                        .or_default()
                        .push(setting.clone()),
                    None => problems.push(preset.unknown_knob(name).at(
                        format!("{name} = {}", setting.value),
                        setting.origin.clone(),
                    )),
                }
            }
            for (name, origin) in &layer.pins {
                match self.knob(name) {
                    Some(knob) => drop(pins.insert(knob.name.clone(), origin.clone())),
                    None => {
                        problems.push(preset.unknown_knob(name).at(name.clone(), origin.clone()));
                    }
                }
            }
        }
        let unknown = stack.iter().flat_map(|layer| layer.unknown());
        let unknown = unknown.filter(|knob| !settings.contains_key(knob.as_str()));
        let mut recipe = Recipe {
            values: BTreeMap::new(),
            unknown: unknown.cloned().collect(),
            pins,
            overrides: merge_overrides(stack),
        };
        let beyond = |knob: &str| stack.iter().any(|layer| layer.is_beyond(knob));
        self.fill(settings, &mut recipe, &beyond, &mut problems);
        if problems.is_empty() {
            Ok(recipe)
        } else {
            Err(Refusal(problems))
        }
    }

    /// As [`Preset::knob`].
    fn knob(&self, name: &str) -> Option<&'a Knob> {
        let own = self.knobs.get(name).copied();
        own.or_else(|| self.preset.knob(name))
    }

    /// Given values first, then defaults, then computed defaults, which may use all others. What depends on something
    /// that is not known is not known either.
    fn fill(
        &self,
        mut given: BTreeMap<&str, Vec<Setting>>,
        recipe: &mut Recipe,
        beyond: &dyn Fn(&str) -> bool,
        problems: &mut Vec<Problem>,
    ) {
        let preset = self.preset;
        let Recipe {
            values,
            unknown,
            pins,
            ..
        } = recipe;
        for knob in &preset.knobs {
            if unknown.contains(&knob.name) {
                let origin = pins.get(&knob.name).cloned();
                values.extend(origin.map(|origin| (knob.name.clone(), Resolved::null(origin))));
                continue;
            }
            let mut beaten = default_of(preset, knob);
            beaten.extend(given.remove(knob.name.as_str()).unwrap_or_default());
            let Some(top) = beaten.pop() else { continue };
            beaten.reverse();
            let bounds = self.bounds(knob, &top.value);
            let bounds = bounds.filter(|_| !beyond(&knob.name));
            problems.extend(bounds.map(|what| {
                Problem::new(what)
                    .at(format!("{} = {}", knob.name, top.value), top.origin.clone())
                    .hint(knob.takes())
            }));
            let resolved = Resolved {
                value: top.value,
                origin: top.origin,
                beat: beaten,
            };
            values.insert(knob.name.clone(), resolved);
        }
        let mut scope = self.knob_scope(values);
        self.derived.add(&mut scope);
        let mut missing = Vec::new();
        for knob in &preset.knobs {
            if values.contains_key(&knob.name) {
                continue;
            }
            let text = knob.default_expr.iter().map(String::as_str);
            if !unknown.is_empty() && !knobs_in(preset, text).is_disjoint(unknown) {
                let expr = knob.default_expr.clone().unwrap_or_default();
                unknown.insert(knob.name.clone());
                values.insert(knob.name.clone(), Resolved::null(Origin::Computed { expr }));
                continue;
            }
            match self.computed(knob, &scope) {
                Ok(resolved) => {
                    if !resolved.value.is_null() {
                        scope.set(&knob.name, expr::to_jinja(&resolved.value));
                        self.derived.add_after(&knob.name, &mut scope);
                    }
                    values.insert(knob.name.clone(), resolved);
                }
                Err(what) => problems.push(Problem::new(format!("{}: {what}", knob.name))),
            }
            if knob.required && values.get(&knob.name).is_none_or(|r| r.value.is_null()) {
                missing.push(knob);
            }
        }
        problems.extend(without_value(&missing, values));
    }

    fn bounds(&self, knob: &Knob, value: &Value) -> Option<String> {
        match self.patterns.get(knob.name.as_str()) {
            Some(pattern) => bounds_by(knob, value, pattern),
            None => bounds_by(knob, value, &OnceCell::new()),
        }
    }

    fn computed(&self, knob: &Knob, scope: &Scope) -> Result<Resolved, String> {
        let (Some(text), Some(prepared)) =
            (&knob.default_expr, self.computed.get(knob.name.as_str()))
        else {
            return Ok(Resolved::null(Origin::Default {
                preset: self.preset.name.clone(),
            }));
        };
        let result = prepared.evaluate(scope)?;
        let value = expr::from_jinja(&result).ok_or_else(|| {
            format!("the expression `{text}` gives {result}, which is not a value of a knob")
        })?;
        Ok(Resolved {
            value: as_kind(knob.kind, value),
            origin: Origin::Computed { expr: text.clone() },
            beat: Vec::new(),
        })
    }

    /// Names and values of a recipe for expressions: knobs, derived values, version, cluster.
    pub(super) fn scope(&self, recipe: &Recipe, cluster_name: Option<&str>) -> Scope {
        let mut scope = self.knob_scope(&recipe.values);
        scope.set("cluster", self.cluster.to_jinja(cluster_name));
        self.derived.add(&mut scope);
        scope
    }

    /// Knobs, version and cluster as names for expressions. Knobs that the version lacks, and those not
    /// resolved yet, are `none`.
    pub(super) fn knob_scope(&self, values: &BTreeMap<String, Resolved>) -> Scope {
        let mut scope = self.blank.clone();
        for (name, resolved) in values.iter().filter(|(_, r)| !r.value.is_null()) {
            scope.set(name, expr::to_jinja(&resolved.value));
        }
        scope
    }
}

/// One problem for all required values that are missing, with the lines that give them and the file that gives others.
fn without_value(missing: &[&Knob], values: &BTreeMap<String, Resolved>) -> Option<Problem> {
    let first = missing.first()?;
    let file = values.values().find_map(|r| match &r.origin {
        Origin::File { path, .. } if path.ends_with(".yaml") && !path.contains('/') => {
            Some(path.as_str())
        }
        _ => None,
    });
    let file = file.unwrap_or("oomctl.yaml");
    let what = match missing.len() {
        1 => "a required value is missing. Give it".to_owned(),
        n => format!("{n} required values are missing. Give them"),
    };
    let lines = missing
        .iter()
        .map(|k| format!("\n  {}: …  # {}", k.name, k.doc));
    let lines: String = lines.collect();
    let problem = Problem::new(format!("{what} under `knobs:` in {file}:{lines}"));
    Some(problem.hint(format!(
        "or give each for one command: --set {}=…",
        first.name
    )))
}

/// The names of a preset's expressions before any knob has a value.
fn blank(preset: &Preset, cluster: &ClusterFacts) -> Scope {
    let mut scope = Scope::default();
    let knobs = preset.knobs.iter().map(|k| &k.name);
    for name in preset.absent.keys().chain(knobs) {
        scope.set(name, Jinja::from(()));
    }
    add_ambient(preset, cluster, &mut scope);
    scope
}

fn default_of(preset: &Preset, knob: &Knob) -> Vec<Setting> {
    if knob.default_expr.is_some() {
        return Vec::new();
    }
    let value = knob
        .default
        .as_ref()
        .and_then(|d| default_value(knob.kind, d).ok());
    value.map_or_else(Vec::new, |value| {
        vec![Setting {
            value,
            origin: Origin::Default {
                preset: preset.name.clone(),
            },
        }]
    })
}

/// An expression's number as a value of the knob's kind.
fn as_kind(kind: ValueKind, value: Value) -> Value {
    match (&value, kind) {
        (
            Value::Int(_) | Value::Float(_),
            ValueKind::Int
            | ValueKind::Float
            | ValueKind::Size
            | ValueKind::SlurmSize
            | ValueKind::Duration,
        ) => match value.number(kind) {
            Some(x) => Value::from_number(kind, x),
            None => value,
        },
        _ => value,
    }
}

/// Adds what expressions know besides knobs and derived values: version and cluster; incident and attempt are
/// `none` until there is one.
pub fn add_ambient(preset: &Preset, cluster: &ClusterFacts, scope: &mut Scope) {
    let version = preset.version.as_ref().map(ToString::to_string);
    scope.set("version", Jinja::from(version));
    scope.set("cluster", cluster.to_jinja(None));
    scope.set("incident", Jinja::from(()));
    scope.set("attempt", Jinja::from(()));
}

fn merge_overrides(stack: &[&Layer]) -> Vec<Override> {
    let mut all: Vec<Override> = Vec::new();
    for new in stack.iter().flat_map(|l| &l.overrides) {
        let bare = |k: &str| k.trim_start_matches(['+', '~']).to_owned();
        all.retain(|old| bare(&old.key) != bare(&new.key));
        all.push(new.clone());
    }
    all
}
