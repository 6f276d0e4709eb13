//! What the user's own scripts call the knobs that are changed.

use crate::core::ladder::Change;
use oomctl_scripts::{Adoption, Patch};

/// Gives changes the scripts' own words, as they stand there or as the patch appends them.
pub fn called<'c>(
    changes: impl Iterator<Item = &'c mut Change>,
    adoption: &Adoption<'_>,
    patch: &Patch,
) {
    let given = adoption.knobs();
    for change in changes {
        let mut given = given.iter();
        let given = given.find(|(knob, _)| knob.name == change.knob);
        let word = given.and_then(|(knob, found)| adoption.word_of(knob, found));
        change.called = word.or_else(|| patch.options.get(&change.knob).cloned());
    }
}
