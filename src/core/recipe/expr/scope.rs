//! Names and values for expressions and templates.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value as Jinja;
use minijinja::value::{Enumerator, Object};

/// Names to values, dotted names as groups: `rollout.n` is attribute `n` of `rollout`. A copy costs
/// nothing; what one of the two sets afterwards lies above what they share.
#[derive(Debug, Clone, Default)]
pub struct Scope(Arc<Names>);

/// Levels that lie on each other at most: beyond, they are made one.
const MOST_LEVELS: usize = 4;

#[derive(Debug, Clone, Default)]
struct Names {
    own: BTreeMap<String, ScopeEntry>,
    below: Option<Arc<Names>>,
    /// Levels below.
    levels: usize,
}

/// What a name stands for; a group hides a value of the same name.
#[derive(Debug, Clone)]
enum ScopeEntry {
    Value(Jinja),
    Group(Arc<ScopeGroup>),
}

#[derive(Debug, Clone, Default)]
struct ScopeGroup(BTreeMap<String, Jinja>);

impl Scope {
    /// Sets a name; a dotted one becomes an attribute of its group.
    pub fn set(&mut self, name: &str, value: Jinja) {
        let names = self.above();
        match name.split_once('.') {
            Some((group, member)) => names.set_member(group, member, value),
            None if matches!(names.get(name), Some(ScopeEntry::Group(_))) => {}
            None => drop(names.own.insert(name.to_owned(), ScopeEntry::Value(value))),
        }
    }

    /// The scope as a template context.
    pub fn context(&self) -> Jinja {
        Jinja::from_dyn_object(Arc::clone(&self.0))
    }

    /// Names that nobody else has: these, or a level above them.
    fn above(&mut self) -> &mut Names {
        if Arc::get_mut(&mut self.0).is_none() {
            let above = match self.0.levels < MOST_LEVELS {
                true => Names {
                    own: BTreeMap::new(),
                    levels: self.0.levels + 1,
                    below: Some(Arc::clone(&self.0)),
                },
                false => self.0.merged(),
            };
            self.0 = Arc::new(above);
        }
        Arc::make_mut(&mut self.0)
    }
}

impl Names {
    fn get(&self, name: &str) -> Option<&ScopeEntry> {
        let below = || self.below.as_ref()?.get(name);
        self.own.get(name).or_else(below)
    }

    fn set_member(&mut self, group: &str, member: &str, value: Jinja) {
        if !self.own.contains_key(group) {
            let known = self.get(group).cloned();
            let known = known.unwrap_or_else(|| ScopeEntry::Group(Arc::default()));
            self.own.insert(group.to_owned(), known);
        }
        let Some(named) = self.own.get_mut(group) else {
            return;
        };
        if let ScopeEntry::Value(_) = named {
            *named = ScopeEntry::Group(Arc::default());
        }
        if let ScopeEntry::Group(members) = named {
            Arc::make_mut(members).0.insert(member.to_owned(), value);
        }
    }

    /// All levels as one.
    fn merged(&self) -> Self {
        let mut own = self
            .below
            .as_ref()
            .map_or_else(BTreeMap::new, |b| b.merged().own);
        own.extend(self.own.clone());
        Self {
            own,
            ..Self::default()
        }
    }
}

impl Object for Names {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Jinja> {
        match self.get(key)? {
            ScopeEntry::Group(group) => Some(Jinja::from_dyn_object(Arc::clone(group))),
            ScopeEntry::Value(value) => Some(value.clone()),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.merged().own.into_keys();
        Enumerator::Values(names.map(Jinja::from).collect())
    }
}

impl Object for ScopeGroup {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        self.0.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Jinja> {
        self.0.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys().map(|n| Jinja::from(n.as_str())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(scope: &Scope, name: &str) -> Option<Jinja> {
        let value = scope.context().get_attr(name).unwrap();
        (!value.is_undefined()).then_some(value)
    }

    #[test]
    fn what_is_set_in_a_copy_is_not_seen_in_the_other() {
        let mut first = Scope::default();
        first.set("a", Jinja::from(1));
        first.set("group.x", Jinja::from(1));
        let mut second = first.clone();
        second.set("a", Jinja::from(2));
        second.set("group.y", Jinja::from(2));
        first.set("b", Jinja::from(1));
        assert_eq!(get(&first, "a"), Some(Jinja::from(1)));
        assert_eq!(get(&second, "a"), Some(Jinja::from(2)));
        assert_eq!(get(&second, "b"), None);
        let members = |scope: &Scope| get(scope, "group").unwrap().len();
        assert_eq!([members(&first), members(&second)], [Some(1), Some(2)]);
    }

    #[test]
    fn copies_of_copies_keep_all_names() {
        let mut scope = Scope::default();
        let mut kept = Vec::new();
        for i in 0..20 {
            scope.set(&format!("n{i}"), Jinja::from(i));
            scope.set(&format!("group.n{i}"), Jinja::from(i));
            kept.push(scope.clone());
        }
        for (i, scope) in kept.iter().enumerate() {
            assert_eq!(scope.context().try_iter().unwrap().count(), i + 2);
            assert_eq!(get(scope, "group").unwrap().len(), Some(i + 1));
            assert_eq!(get(scope, "n0"), Some(Jinja::from(0)));
        }
    }

    #[test]
    fn a_group_hides_a_value_of_its_name() {
        let mut scope = Scope::default();
        scope.set("a", Jinja::from(1));
        scope.set("a.x", Jinja::from(2));
        scope.set("a", Jinja::from(3));
        let member = get(&scope, "a").unwrap().get_attr("x").unwrap();
        assert_eq!(member, Jinja::from(2));
    }
}
