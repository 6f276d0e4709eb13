//! What a name in an expression stands for.

use super::preset::Derived;
use super::resolved::Recipe;
use super::stack::Preset;
use oomctl_base::Origin;

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
    #[must_use]
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
