//! Rules checked over and over while values are tried: compiled once, with only the names they need.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use minijinja::{Expression, Value as Jinja};

use super::expr::{Scope, to_jinja};
use super::named::Named;
use super::preset::Rule;
use super::resolve::{Recipe, add_ambient};
use super::shape::Shaper;
use super::stack::Preset;
use super::value::{Key, Value, key};

/// The rules that look at one of some knobs whose values are being tried.
pub struct Checker<'a> {
    rules: Vec<Compiled<'a>>,
    /// Answers so far, by the number of the rule and the values that it looks at.
    known: RefCell<BTreeMap<(usize, Key), bool>>,
}

struct Compiled<'a> {
    rule: &'a Rule,
    lens: Lens<'a>,
    when: Option<Rc<Expression<'a, 'static>>>,
    must: Rc<Expression<'a, 'static>>,
}

/// An expression of a preset for values under trial.
pub struct Formula<'a> {
    lens: Lens<'a>,
    expression: Rc<Expression<'a, 'static>>,
}

/// The names that some expressions need while knobs are under trial.
struct Lens<'a> {
    /// Knobs under trial that they look at, through derived values too.
    tried: BTreeSet<String>,
    /// Everything else that they look at.
    fixed: Scope,
    /// Derived values and computed knobs in the order in which they build on each other.
    steps: Vec<(String, Rc<Expression<'a, 'static>>)>,
}

/// What an expression needs: leaves (knobs with given values) and steps (computed ones).
#[derive(Default)]
struct Needs {
    leaves: BTreeSet<String>,
    steps: Vec<(String, String)>,
    seen: BTreeSet<String>,
}

impl<'a> Checker<'a> {
    /// Compiles the rules of a preset that look at one of `tried`.
    #[must_use]
    pub fn new(shaper: &Shaper<'a>, recipe: &Recipe, tried: &BTreeSet<String>) -> Self {
        let rules = shaper.preset().rules.iter();
        let rules = rules.filter_map(|rule| Compiled::new(shaper, recipe, tried, rule));
        Self {
            rules: rules.collect(),
            known: RefCell::default(),
        }
    }

    /// The first rule about `just` that the values in `trial` break, among those rules all of whose
    /// knobs under trial have a value there.
    #[must_use]
    pub fn broken_by(&self, just: &str, trial: &BTreeMap<String, Value>) -> Option<&'a Rule> {
        let about = self.rules.iter().enumerate();
        let mut about = about.filter(|(_, c)| c.lens.tried.contains(just));
        about.find_map(|(rule, c)| {
            let knobs = c.lens.tried.iter();
            let values: Option<Vec<_>> = knobs
                .map(|knob| Some((knob.as_str(), trial.get(knob)?)))
                .collect();
            (!self.answer(rule, &values?)).then_some(c.rule)
        })
    }

    /// Those of a knob's values that break no rule, beside the values in `trial` of all others.
    #[must_use]
    pub fn unbroken(
        &self,
        knob: &str,
        values: &[Value],
        trial: &BTreeMap<String, Value>,
    ) -> Vec<Value> {
        let known = |k: &String| k == knob || trial.contains_key(k);
        let rules = self.rules.iter().enumerate();
        let about = rules.filter(|(_, c)| c.lens.tried.contains(knob));
        let about: Vec<_> = about
            .filter(|(_, c)| c.lens.tried.iter().all(known))
            .collect();
        let holds = |value: &&Value| {
            about.iter().all(|(rule, c)| {
                let knobs = c.lens.tried.iter();
                let values = knobs.filter_map(|k| match k == knob {
                    true => Some((k.as_str(), *value)),
                    false => Some((k.as_str(), trial.get(k)?)),
                });
                self.answer(*rule, &values.collect::<Vec<_>>())
            })
        };
        values.iter().filter(holds).cloned().collect()
    }

    /// What a rule says of values that it may have been asked about before.
    fn answer(&self, rule: usize, values: &[(&str, &Value)]) -> bool {
        let key = key(values.iter().map(|(_, value)| *value));
        let ask = || self.holds(rule, values.iter().copied());
        let mut known = self.known.borrow_mut();
        *known.entry((rule, key)).or_insert_with(ask)
    }

    /// For each rule the knobs under trial that it looks at.
    pub fn knobs(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        self.rules.iter().map(|c| &c.lens.tried)
    }

    /// Whether a rule, by its number in the order of `knobs`, holds for values of the knobs that it
    /// looks at.
    #[must_use]
    pub fn holds<'v>(
        &self,
        rule: usize,
        values: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> bool {
        self.rules.get(rule).is_none_or(|c| c.holds(values))
    }
}

impl<'a> Compiled<'a> {
    fn new(
        shaper: &Shaper<'a>,
        recipe: &Recipe,
        tried: &BTreeSet<String>,
        rule: &'a Rule,
    ) -> Option<Self> {
        let texts = rule.when.iter().chain([&rule.must]).map(String::as_str);
        let needs = Needs::new(shaper.preset(), recipe, texts);
        if needs.leaves.is_disjoint(tried) {
            return None;
        }
        Some(Self {
            rule,
            lens: Lens::new(shaper, recipe, tried, needs),
            when: match &rule.when {
                Some(when) => Some(shaper.expressions.of(when)?),
                None => None,
            },
            must: shaper.expressions.of(&rule.must)?,
        })
    }

    /// An expression that fails counts as broken: an unproven configuration is not submitted.
    fn holds<'v>(&self, values: impl Iterator<Item = (&'v str, &'v Value)>) -> bool {
        let scope = self.lens.scope(values);
        let yes = |e: &Rc<Expression<'_, '_>>| e.eval(scope.context()).map(|v| v.is_true());
        match self.when.as_ref().map(yes) {
            Some(Ok(false)) => true,
            Some(Err(_)) => false,
            _ => yes(&self.must).unwrap_or(false),
        }
    }
}

impl<'a> Formula<'a> {
    /// Compiles an expression of a preset; `None` where it is none.
    #[must_use]
    pub fn new(
        shaper: &Shaper<'a>,
        recipe: &Recipe,
        tried: &BTreeSet<String>,
        text: &str,
    ) -> Option<Self> {
        let needs = Needs::new(shaper.preset(), recipe, std::iter::once(text));
        Some(Self {
            lens: Lens::new(shaper, recipe, tried, needs),
            expression: shaper.expressions.of(text)?,
        })
    }

    /// The knobs under trial that it looks at.
    #[must_use]
    pub fn knobs(&self) -> &BTreeSet<String> {
        &self.lens.tried
    }

    /// Its value; `None` where it cannot be evaluated.
    #[must_use]
    pub fn value<'v>(&self, values: impl Iterator<Item = (&'v str, &'v Value)>) -> Option<Jinja> {
        let scope = self.lens.scope(values);
        self.expression.eval(scope.context()).ok()
    }
}

impl<'a> Lens<'a> {
    fn new(shaper: &Shaper<'a>, recipe: &Recipe, tried: &BTreeSet<String>, needs: Needs) -> Self {
        let mut fixed = Scope::default();
        for name in needs.leaves.difference(tried) {
            fixed.set(name, to_jinja(recipe.value(name)));
        }
        add_ambient(shaper.preset(), shaper.resolver.cluster, &mut fixed);
        let steps = needs
            .steps
            .into_iter()
            .filter_map(|(name, text)| Some((name, shaper.expressions.of(&text)?)))
            .collect();
        Self {
            tried: needs.leaves.intersection(tried).cloned().collect(),
            fixed,
            steps,
        }
    }

    fn scope<'v>(&self, values: impl Iterator<Item = (&'v str, &'v Value)>) -> Scope {
        let mut scope = self.fixed.clone();
        for (name, value) in values.filter(|(name, _)| self.tried.contains(*name)) {
            scope.set(name, to_jinja(value));
        }
        for (name, step) in &self.steps {
            let value = step.eval(scope.context()).unwrap_or(Jinja::from(()));
            scope.set(name, value);
        }
        scope
    }
}

impl Needs {
    fn new<'t>(preset: &Preset, recipe: &Recipe, texts: impl Iterator<Item = &'t str>) -> Self {
        let mut needs = Self::default();
        for text in texts {
            needs.of(preset, recipe, text);
        }
        needs
    }

    fn of(&mut self, preset: &Preset, recipe: &Recipe, text: &str) {
        for name in preset.names_in(text).iter() {
            self.name(preset, recipe, name);
        }
    }

    fn name(&mut self, preset: &Preset, recipe: &Recipe, name: &str) {
        match Named::of(preset, recipe, name) {
            Named::Knob(knob) => {
                self.leaves.insert(knob.to_owned());
            }
            Named::Computed(knob, text) => self.step(preset, recipe, knob, text),
            Named::Derived(derived) => self.step(preset, recipe, &derived.name, &derived.expr),
            Named::Absent => drop(self.leaves.insert(name.to_owned())),
            Named::Group(knobs) => knobs.iter().for_each(|k| self.name(preset, recipe, k)),
            Named::Other => {}
        }
    }

    /// A value that follows from others, once, after those.
    fn step(&mut self, preset: &Preset, recipe: &Recipe, name: &str, text: &str) {
        if self.seen.insert(name.to_owned()) {
            self.of(preset, recipe, text);
            self.steps.push((name.to_owned(), text.to_owned()));
        }
    }
}
