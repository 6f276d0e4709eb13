//! What expressions need while values of knobs are tried: knobs, and what follows from them.

use std::collections::BTreeSet;
use std::rc::Rc;

use minijinja::{Expression, Value as Jinja};

use super::expr::{CompiledExpression, Expressions, Scope, to_jinja};
use super::preset::Derived;
use super::resolved::Recipe;
use super::stack::Preset;
use oomctl_base::{Origin, Value};

/// The names that some expressions need while knobs are under trial.
pub(super) struct Lens<'a> {
    /// Knobs under trial that they look at, through derived values too.
    pub(super) tried: BTreeSet<String>,
    /// Everything else that they look at.
    fixed: Scope,
    /// Derived values and computed knobs in the order in which they build on each other.
    steps: Vec<(String, Rc<Expression<'a, 'static>>)>,
}

impl<'a> Lens<'a> {
    /// For these knobs under trial; all else is as in the scope.
    pub(super) fn new(scope: &Scope, tried: BTreeSet<String>, needs: &Needs<'a>) -> Self {
        let mut moving: BTreeSet<&str> = BTreeSet::new();
        let mut steps = Vec::new();
        for step in &needs.steps {
            let moves = |name: &String| tried.contains(name) || moving.contains(name.as_str());
            // What does not move is in the scope already; a computed knob is there as its kind has it.
            if step.computed || step.uses.iter().any(moves) {
                moving.insert(&step.name);
                let expression = step.expression.iter();
                steps.extend(expression.map(|e| (step.name.clone(), Rc::clone(e))));
            }
        }
        Self {
            tried,
            fixed: scope.clone(),
            steps,
        }
    }

    pub(super) fn scope<'v>(&self, values: impl Iterator<Item = (&'v str, &'v Value)>) -> Scope {
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

/// What an expression needs: leaves (knobs with given values) and steps (computed ones).
#[derive(Default)]
pub(super) struct Needs<'a> {
    pub(super) leaves: BTreeSet<String>,
    steps: Vec<DerivedStep<'a>>,
    seen: BTreeSet<String>,
}

/// A value that follows from others.
struct DerivedStep<'a> {
    name: String,
    expression: CompiledExpression<'a>,
    /// A knob, not a derived value.
    computed: bool,
    /// What it looks at: knobs and steps.
    uses: BTreeSet<String>,
}

impl<'a> Needs<'a> {
    /// The leaves that are among knobs which are not known.
    pub(super) fn unknown(&self, unknown: &BTreeSet<String>) -> BTreeSet<String> {
        self.leaves.intersection(unknown).cloned().collect()
    }

    pub(super) fn new(
        expressions: &Expressions<'a>,
        preset: &'a Preset,
        recipe: &Recipe,
        texts: &[&str],
    ) -> Self {
        let mut needs = Self::default();
        for text in texts {
            needs.of(expressions, preset, recipe, text);
        }
        needs
    }

    /// Takes in what an expression looks at; the names of that.
    fn of(
        &mut self,
        expressions: &Expressions<'a>,
        preset: &'a Preset,
        recipe: &Recipe,
        text: &str,
    ) -> BTreeSet<String> {
        let mut uses = BTreeSet::new();
        for name in preset.names_in(text).iter() {
            self.name(expressions, preset, recipe, name, &mut uses);
        }
        uses
    }

    fn name(
        &mut self,
        expressions: &Expressions<'a>,
        preset: &'a Preset,
        recipe: &Recipe,
        name: &str,
        uses: &mut BTreeSet<String>,
    ) {
        let (used, text, computed) = match Binding::of(preset, recipe, name) {
            Binding::Knob(knob) => return self.leaf(knob, uses),
            Binding::Absent => return self.leaf(name, uses),
            Binding::Group(knobs) => {
                return knobs
                    .iter()
                    .for_each(|k| self.name(expressions, preset, recipe, k, uses));
            }
            Binding::Other => return,
            Binding::Computed(knob, text) => (knob, text, true),
            Binding::Derived(derived) => (derived.name.as_str(), derived.expr.as_str(), false),
        };
        uses.insert(used.to_owned());
        if self.seen.insert(used.to_owned()) {
            let uses = self.of(expressions, preset, recipe, text);
            self.steps.push(DerivedStep {
                name: used.to_owned(),
                expression: expressions.of(text),
                computed,
                uses,
            });
        }
    }

    fn leaf(&mut self, name: &str, uses: &mut BTreeSet<String>) {
        self.leaves.insert(name.to_owned());
        uses.insert(name.to_owned());
    }
}

/// What a name stands for in the expressions of a preset, over a recipe.
#[derive(Debug, Clone)]
pub enum Binding<'p, 'r> {
    /// A knob with a given value, by its full name.
    Knob(&'p str),
    /// A knob whose value follows from others, with the expression.
    Computed(&'p str, &'r str),
    /// A derived value.
    Derived(&'p Derived),
    /// A knob that this version of the framework lacks.
    Absent,
    /// A group such as `rollout`, used as a whole: every knob in it.
    Group(Vec<&'p str>),
    /// None of these: what is always there, or a function.
    Other,
}

impl<'p, 'r> Binding<'p, 'r> {
    /// Looks a name up; of a dotted one the first part may be what has the name.
    pub fn of(preset: &'p Preset, recipe: &'r Recipe, name: &str) -> Self {
        let first = name.split('.').next().unwrap_or(name);
        let mut knobs = preset.knobs.iter();
        if let Some(knob) = knobs.find(|k| k.name == name || k.name == first) {
            return match recipe.values.get(&knob.name).map(|r| &r.origin) {
                Some(Origin::Computed { expr }) => Self::Computed(&knob.name, expr),
                _ => Self::Knob(&knob.name),
            };
        }
        if let Some(derived) = preset.derived.iter().find(|d| d.name == first) {
            return Self::Derived(derived);
        }
        if preset.absent.contains_key(name) {
            return Self::Absent;
        }
        if name.contains('.') {
            return Self::Other;
        }
        let prefix = format!("{name}.");
        let knobs = preset.knobs.iter().map(|k| k.name.as_str());
        Self::Group(knobs.filter(|k| k.starts_with(&prefix)).collect())
    }
}
