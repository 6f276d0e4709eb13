//! What goes into a name, and which of the values that a function returns together are parts of another.

use std::collections::BTreeSet;

use super::lines::{CodeText, GivenValue};
use super::words::{appended, frees, is_loss, names};
use crate::python::PythonToken;

/// Most rounds in which names are found that a gradient is computed of.
const ROUNDS: usize = 6;

/// What goes into some names by these lines, and they themselves.
pub(super) fn flowing_into(
    text: &CodeText<'_, '_>,
    lines: &[usize],
    mut found: BTreeSet<String>,
) -> BTreeSet<String> {
    for _ in 0..ROUNDS {
        let known = found.len();
        for at in lines {
            let line = text.lines[*at].tokens;
            let given = GivenValue::read(line).map(|g| (g.targets, g.value));
            let given = given.or_else(|| appended(line).map(|(to, what)| (vec![to], what)));
            if let Some((targets, value)) = given
                && targets.iter().any(|target| found.contains(target))
            {
                found.extend(names(value));
            }
        }
        if found.len() == known {
            break;
        }
    }
    found
}

/// What a function returns together: `return loss, coarse, fine`.
pub(super) struct ReturnedTogether {
    /// How many values.
    pub count: usize,
    /// The places of two of them, of which the first is computed of the second with its graph.
    pub parts: BTreeSet<(usize, usize)>,
}

impl ReturnedTogether {
    /// By the line that returns, with the name of its function.
    pub(super) fn read<'t>(text: &CodeText<'_, 't>, at: usize) -> Option<(&'t str, Self)> {
        let line = &text.lines[at];
        let function = line.function.filter(|_| line.tokens[0].is("return"))?;
        let values: Vec<&[PythonToken<'_>]> = line.tokens[1..].split(|t| t.is(",")).collect();
        let losses = values.iter().filter(|v| v.iter().any(|t| is_loss(t.text)));
        if values.len() < 2 || losses.count() < 2 {
            return None;
        }
        let name = |value: &[PythonToken<'_>]| match value {
            [one] => Some(one.text.to_owned()),
            _ => None,
        };
        let lines = text.lines_of(Some(function));
        let freed = |name: &String| {
            let given = lines.iter().map(|at| text.lines[*at].tokens);
            let mut given = given.filter_map(GivenValue::read);
            given.any(|g| g.targets.contains(name) && frees(g.value))
        };
        let mut parts = BTreeSet::new();
        for (whole, value) in values.iter().enumerate() {
            let into = flowing_into(text, &lines, name(value).into_iter().collect());
            let of = values.iter().enumerate().filter(|(part, value)| {
                let made = name(value).filter(|n| into.contains(n) && !freed(n));
                *part != whole && made.is_some()
            });
            parts.extend(of.map(|(part, _)| (whole, part)));
        }
        let count = values.len();
        Some((text.name_of(function), Self { count, parts }))
    }
}
