//! Knobs of which nobody knows the value: a script computes it, or a file that is not read may give it.
//!
//! Rule: a default never stands in for what was not read. What depends on such a knob is asked for every value that
//! the knob may have; where that does not settle it, it is not settled.

use std::collections::BTreeSet;

use super::check::{World, worlds};
use super::expr::Scope;
use super::needs::Lens;
use super::resolved::{Recipe, computed};
use super::shape::Shaper;

impl Shaper<'_> {
    /// A knob that is not known and on which one of some expressions depends.
    pub fn unknown_in(&self, recipe: &Recipe, texts: &[&str]) -> Option<String> {
        self.unknowns(recipe, texts).into_iter().next()
    }

    fn unknowns(&self, recipe: &Recipe, texts: &[&str]) -> BTreeSet<String> {
        match recipe.unknown.is_empty() {
            true => BTreeSet::new(),
            false => self
                .needs(recipe, &computed(recipe), texts)
                .unknown(&recipe.unknown),
        }
    }

    /// What some expressions may see; None where that are too many scopes.
    pub fn scopes(&self, recipe: &Recipe, scope: &Scope, texts: &[&str]) -> Option<Vec<Scope>> {
        let unknown = self.unknowns(recipe, texts);
        let needs = self.needs(recipe, &computed(recipe), texts);
        let all = worlds(self.preset(), &unknown)?;
        let lens = Lens::new(scope, unknown, &needs);
        let seen = |world: &World| lens.scope(world.iter().map(|(name, v)| (name.as_str(), v)));
        Some(all.iter().map(seen).collect())
    }
}
