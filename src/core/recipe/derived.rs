//! The derived values of a preset.

use std::cell::RefCell;
use std::collections::BTreeMap;

use minijinja::Value as Jinja;

use super::expr::{Expressions, Prepared, Scope};
use super::preset::Derived;
use super::stack::Preset;

/// The derived values of a preset, prepared to be computed several times.
pub(super) struct DerivedValues<'a> {
    preset: &'a Preset,
    all: Vec<(&'a str, Prepared<'a>)>,
    /// Numbers of those that a knob moves, directly or through others.
    moved: RefCell<BTreeMap<String, Vec<usize>>>,
}

impl<'a> DerivedValues<'a> {
    /// Compiles them.
    pub fn of(preset: &'a Preset, expressions: &Expressions<'a>) -> Self {
        let prepared = |d: &'a Derived| (d.name.as_str(), expressions.prepared(&d.expr));
        Self {
            preset,
            all: preset.derived.iter().map(prepared).collect(),
            moved: RefCell::default(),
        }
    }

    /// Sets them in their order. One that cannot be computed yet is `none`; the rules that need it will say so.
    pub fn add(&self, scope: &mut Scope) {
        (0..self.all.len()).for_each(|at| self.set(at, scope));
    }

    /// Sets those again that look at a knob which has got a value.
    pub fn add_after(&self, knob: &str, scope: &mut Scope) {
        let mut moved = self.moved.borrow_mut();
        let moved = moved
            .entry(knob.to_owned())
            .or_insert_with(|| self.moved_by(knob));
        moved.iter().for_each(|at| self.set(*at, scope));
    }

    fn set(&self, at: usize, scope: &mut Scope) {
        if let Some((name, prepared)) = self.all.get(at) {
            let value = prepared.evaluate(scope).ok();
            scope.set(name, value.unwrap_or(Jinja::from(())));
        }
    }

    fn moved_by(&self, knob: &str) -> Vec<usize> {
        let mut names = vec![knob];
        let mut moved = Vec::new();
        for (at, derived) in self.preset.derived.iter().enumerate() {
            let used = self.preset.names_in(&derived.expr);
            let mut pairs = used.iter().flat_map(|u| names.iter().map(move |n| (u, *n)));
            if pairs.any(|(used, name)| used == name || part(used, name) || part(name, used)) {
                names.push(&derived.name);
                moved.push(at);
            }
        }
        moved
    }
}

/// Is one name a part of what the other one names: `rollout.n` of `rollout`?
fn part(of: &str, name: &str) -> bool {
    of.strip_prefix(name)
        .is_some_and(|rest| rest.starts_with('.'))
}
