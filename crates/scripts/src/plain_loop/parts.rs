//! An accumulation that a program computes of two of its settings: `accum = cfg.batch_size // cfg.micro_batch_size`.

use std::collections::BTreeSet;

use super::super::python::{assigned, line_begins};
use super::lines::assignment;
use super::{DoubtPlace, LoopProgram, PythonToken, TokenKind, rest_of_line};
use oomctl_base::only;

/// What parts the two keys.
pub(in super::super) const OF: &str = " of ";

impl LoopProgram<'_, '_> {
    /// The keys of the part and the whole, without the object in which they stand, and where the accumulation gets its value, if
    /// nothing else gives it one.
    pub(super) fn parts(&self) -> Option<(String, DoubtPlace)> {
        let mut lines = self.files.iter().enumerate().flat_map(|(file, tokens)| {
            line_begins(tokens).map(move |at| (file, at, rest_of_line(&tokens[at..])))
        });
        lines.find_map(|(file, at, line)| {
            let sign = assignment(line).filter(|sign| *sign == 1)?;
            let value = &line[sign + 1..];
            let slash = value
                .windows(2)
                .position(|w| w[0].is("/") && w[1].is("/"))?;
            let (whole, part) = (keys(&value[..slash])?, keys(&value[slash + 2..])?);
            let once = self
                .files
                .iter()
                .flat_map(|tokens| assigned(tokens, line[0].text, false));
            let ours = self.is_accumulation(&line[0]) && only(once).is_some();
            ours.then(|| (format!("{part}{OF}{whole}"), ("", file, at)))
        })
    }
}

/// The names of what one forward takes and of the batch of a step, where an accumulation is computed of them: `accum = total // (B *
/// T * world)`. `B` is the batch beside `T`, the length of a sequence.
pub(in super::super) fn part_and_whole<'t>(
    tokens: &[PythonToken<'t>],
    accumulations: &BTreeSet<&str>,
) -> Option<(&'t str, &'t str)> {
    let names_batch = |t: &&PythonToken<'_>| {
        let name = t.text.to_lowercase();
        ["b", "bs", "bsz"].contains(&name.as_str()) || name.contains("batch")
    };
    let lines = line_begins(tokens).map(|at| rest_of_line(&tokens[at..]));
    let computed = lines.filter_map(|line| match line {
        [name, equals, whole, slash, second, parts @ ..]
            if equals.is("=") && slash.is("/") && second.is("/") =>
        {
            let names = parts.iter().filter(|t| t.kind == TokenKind::Name);
            let part = only(names.filter(names_batch))?;
            accumulations
                .contains(name.text)
                .then_some((part.text, whole.text))
        }
        _ => None,
    });
    only(computed)
}

/// `cfg.train.batch_size` and `cfg["train"]["batch_size"]` are `train.batch_size`.
fn keys(value: &[PythonToken<'_>]) -> Option<String> {
    let (object, mut rest) = value.split_first()?;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (key, length) = match rest {
            [dot, key, ..] if dot.is(".") && key.kind == TokenKind::Name => (key, 2),
            [open, key, close, ..]
                if open.is("[") && close.is("]") && key.kind == TokenKind::Text =>
            {
                (key, 3)
            }
            _ => return None,
        };
        keys.push(key.text);
        rest = &rest[length..];
    }
    (object.kind == TokenKind::Name && !keys.is_empty()).then(|| keys.join("."))
}
