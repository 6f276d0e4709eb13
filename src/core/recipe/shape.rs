//! A shape: a recipe that passed the framework's own arithmetic.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use minijinja::Value as Jinja;

use super::cluster::ClusterFacts;
use super::depends::knobs_of;
use super::expr::{Expressions, Prepared, Scope};
use super::layer::Layer;
use super::needs::Needs;
use super::preset::Rule;
use super::resolve::Resolver;
use super::resolved::Recipe;
use super::stack::Preset;
use oomctl_base::{Problem, ProblemPlace, Refusal};

/// A recipe for which every rule holds. Only a shape is estimated, rendered or submitted.
#[derive(Debug, Clone)]
pub struct Shape {
    recipe: Recipe,
    scope: Scope,
}

impl Shape {
    /// Resolves layers and checks every rule.
    ///
    /// # Errors
    /// All problems found in values, or else all rules that are broken.
    pub fn new(
        preset: &Preset,
        layers: &[Layer],
        cluster: &ClusterFacts,
        cluster_name: Option<&str>,
    ) -> Result<Self, Refusal> {
        Shaper::new(preset, cluster, cluster_name).shape(layers)
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Names and values for expressions and templates.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The same for expressions that see one thing more.
    #[must_use]
    pub fn seen_with(mut self, name: &str, value: Jinja) -> Self {
        self.scope.set(name, value);
        self
    }
}

/// A shape, and the rules that it breaks.
pub type Judged<'a> = (Shape, Vec<(&'a Rule, Problem)>);

/// A preset's expressions and rules, prepared for many shapes on one cluster.
pub struct Shaper<'a> {
    pub(super) resolver: Resolver<'a>,
    cluster_name: Option<&'a str>,
    rules: Vec<PreparedRule<'a>>,
    /// What was compiled so far.
    pub expressions: Expressions<'a>,
    /// What expressions need, by their texts and the knobs that are computed.
    pub(super) needs: RefCell<BTreeMap<(String, String), Rc<Needs<'a>>>>,
}

struct PreparedRule<'a> {
    rule: &'a Rule,
    when: Option<Prepared<'a>>,
    must: Prepared<'a>,
}

impl<'a> Shaper<'a> {
    /// Compiles a preset's expressions.
    pub fn new(
        preset: &'a Preset,
        cluster: &'a ClusterFacts,
        cluster_name: Option<&'a str>,
    ) -> Self {
        let expressions = Expressions::new(preset.env());
        let prepared = |text: &'a String| expressions.prepared(text);
        let rules = preset.rules.iter().map(|rule| PreparedRule {
            rule,
            when: rule.when.as_ref().map(prepared),
            must: prepared(&rule.must),
        });
        Self {
            resolver: Resolver::new(preset, cluster, &expressions),
            cluster_name,
            rules: rules.collect(),
            expressions,
            needs: RefCell::default(),
        }
    }

    /// The preset.
    pub fn preset(&self) -> &'a Preset {
        self.resolver.preset
    }

    /// As [`Shape::new`].
    ///
    /// # Errors
    /// As there.
    pub fn shape<'l>(&self, layers: impl IntoIterator<Item = &'l Layer>) -> Result<Shape, Refusal> {
        let (shape, broken) = self.judged(layers)?;
        match broken.is_empty() {
            true => Ok(shape),
            false => Err(Refusal(broken.into_iter().map(|(_, what)| what).collect())),
        }
    }

    /// The same, with the rules that are broken. A rule that looks at a knob which is not known says nothing.
    ///
    /// # Errors
    /// Problems found in values.
    pub fn judged<'l>(
        &self,
        layers: impl IntoIterator<Item = &'l Layer>,
    ) -> Result<Judged<'a>, Refusal> {
        let recipe = self.resolver.resolve(layers)?;
        let scope = self.resolver.scope(&recipe, self.cluster_name);
        let open = |rule: &Rule| {
            let texts = rule.when.iter().chain([&rule.must]).map(String::as_str);
            !recipe.unknown.is_empty()
                && self
                    .unknown_in(&recipe, &texts.collect::<Vec<_>>())
                    .is_some()
        };
        let rules = self.rules.iter().filter(|prepared| !open(prepared.rule));
        let broken = rules.filter_map(|prepared| {
            let what = prepared.broken(self.resolver.preset, &scope, &recipe)?;
            Some((prepared.rule, what))
        });
        let broken = broken.collect();
        Ok((Shape { recipe, scope }, broken))
    }

    /// What some expressions need, found out once for a preset and those knobs that are computed.
    pub(super) fn needs(&self, recipe: &Recipe, computed: &str, texts: &[&str]) -> Rc<Needs<'a>> {
        let key = (texts.join("\n"), computed.to_owned());
        let mut known = self.needs.borrow_mut();
        let new = || Rc::new(Needs::new(&self.expressions, self.preset(), recipe, texts));
        Rc::clone(known.entry(key).or_insert_with(new))
    }
}

impl PreparedRule<'_> {
    fn broken(&self, preset: &Preset, scope: &Scope, recipe: &Recipe) -> Option<Problem> {
        match self.breaks(scope) {
            Ok(false) => None,
            Ok(true) => Some(explain(preset, self.rule, scope, recipe)),
            Err(what) => Some(Problem::new(format!(
                "rule {} of preset {} cannot be checked: {what}",
                self.rule.name, preset.name
            ))),
        }
    }

    fn breaks(&self, scope: &Scope) -> Result<bool, String> {
        if let Some(when) = &self.when
            && !when.evaluate(scope)?.is_true()
        {
            return Ok(false);
        }
        Ok(!self.must.evaluate(scope)?.is_true())
    }
}

/// Names and values of a recipe for expressions: knobs, derived values, version, cluster.
pub fn scope_of(
    preset: &Preset,
    recipe: &Recipe,
    cluster: &ClusterFacts,
    cluster_name: Option<&str>,
) -> Scope {
    let expressions = Expressions::new(preset.env());
    Resolver::new(preset, cluster, &expressions).scope(recipe, cluster_name)
}

fn explain(preset: &Preset, rule: &Rule, scope: &Scope, recipe: &Recipe) -> Problem {
    let text = |template: &str| {
        preset
            .env()
            .render_str(template, scope.context())
            .unwrap_or_else(|_| template.to_owned())
    };
    let mut problem = Problem::new(format!("{} ({})", text(&rule.message), rule.source));
    problem.hint = rule.hint.as_deref().map(text);
    let given = |p: &ProblemPlace| !p.origin.is_of_preset();
    problem.places = knobs_of(preset, rule)
        .into_iter()
        .filter_map(|name| {
            let resolved = recipe.values.get(&name)?;
            Some(ProblemPlace {
                label: format!("{name} = {}", resolved.value),
                origin: resolved.origin.clone(),
            })
        })
        .collect();
    // Values that nobody gave are shown only when nobody gave any.
    if problem.places.iter().any(given) {
        problem.places.retain(given);
    }
    problem
}
