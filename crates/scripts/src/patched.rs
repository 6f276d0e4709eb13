//! The texts of a submission with edits in them.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Means, TextEdit};
use super::traced::Span;
use super::walk::{ENVIRONMENT, SCRIPT, ScriptSource, place};

/// Lines around a change in a diff.
pub const DIFF_CONTEXT: usize = 3;

/// A unified diff of two texts, with their names and so many lines around a change; empty where nothing differs.
pub fn unified_diff(names: (&str, &str), before: &str, after: &str, context: usize) -> String {
    if before == after {
        return String::new();
    }
    let diff = similar::TextDiff::from_lines(before, after);
    let (from, to) = (
        names.0.trim_start_matches('/'),
        names.1.trim_start_matches('/'),
    );
    let (from, to) = (format!("a/{from}"), format!("b/{to}"));
    let mut diff = diff.unified_diff();
    diff.context_radius(context).header(&from, &to).to_string()
}

/// A submission with other values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The texts before, as the reading has them.
    pub before: Vec<ScriptSource>,
    /// The same texts after.
    pub after: Vec<ScriptSource>,
    /// The changes, each at its place in the texts before.
    pub edits: BTreeSet<TextEdit>,
    /// How each knob comes to its value, and where first.
    pub made: BTreeMap<String, (Means, Span)>,
    /// The option by which each knob is appended that is appended as one.
    pub options: BTreeMap<String, String>,
}

/// The texts with all edits; None where two of them overlap.
pub(super) fn applied(
    sources: &[ScriptSource],
    edits: &BTreeSet<TextEdit>,
) -> Option<Vec<ScriptSource>> {
    let mut all = sources.to_vec();
    let mut last: Option<&TextEdit> = None;
    // From the end to the beginning, so that no place moves before its turn.
    for edit in edits.iter().rev() {
        let span = edit.span;
        if let Some(after) = last.filter(|a| a.span.file == span.file) {
            let both_added = span.start == span.end && after.span == span;
            let overlaps = span.end > after.span.start || span.start == after.span.start;
            if overlaps && !both_added {
                return None;
            }
        }
        let text = &mut all.get_mut(span.file)?.text;
        text.get(span.start..span.end)?;
        text.replace_range(span.start..span.end, &edit.text);
        last = Some(edit);
    }
    Some(all)
}

impl Patch {
    /// Knobs whose value was added where it wins, because it could not be changed where it stands.
    pub fn appended(&self) -> impl Iterator<Item = &str> {
        let made = self.made.iter();
        let appended = made.filter(|(_, (means, _))| *means == Means::Appended);
        appended.map(|(knob, _)| knob.as_str())
    }

    /// Where each knob is changed: `job.sh:4`, or where it was not given there `job.sh:added`.
    pub fn places(&self) -> BTreeMap<String, String> {
        let made = self.made.iter();
        let places = made.filter_map(|(knob, (means, span))| {
            let place = match means {
                Means::Added | Means::Appended if span.file >= SCRIPT => {
                    format!("{}:added", self.before.get(span.file)?.path)
                }
                _ => place(&self.before, *span)?,
            };
            Some((knob.clone(), place))
        });
        places.collect()
    }

    /// What changed, as a unified diff over all texts.
    pub fn diff(&self) -> String {
        self.diffs(0..self.before.len())
    }

    /// What changed of the command line and of the environment.
    pub fn submission_diff(&self) -> String {
        self.diffs(0..SCRIPT)
    }

    fn diffs(&self, numbers: std::ops::Range<usize>) -> String {
        let mut all = String::new();
        let both = self.before.iter().zip(&self.after).enumerate();
        for (number, (old, new)) in both.filter(|(n, _)| numbers.contains(n)) {
            if old.text == new.text {
                continue;
            }
            // The words of the command line stand one a line; the other variables are nobody's business.
            let shown = |text: &str| match number < SCRIPT {
                true => text.replace('\0', "\n"),
                false => text.to_owned(),
            };
            let (before, after) = (shown(&old.text), shown(&new.text));
            let context = if number == ENVIRONMENT {
                0
            } else {
                DIFF_CONTEXT
            };
            all += &unified_diff((&old.path, &new.path), &before, &after, context);
        }
        all
    }
}
