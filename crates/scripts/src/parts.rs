//! An accumulation that a program computes of two of its settings: `accum = cfg.batch_size // cfg.micro_batch_size`.

use std::collections::BTreeSet;

use super::python::{PythonToken, TokenKind, assigned, assignment, line_begins, rest_of_line};
use super::slices::widths;
use oomctl_base::only;

/// What the name of a remark begins with: of which settings the accumulation is computed, as `part of whole`.
pub(super) const PARTS: &str = "<accumulation> ";

/// What parts the two keys.
pub(super) const OF: &str = " of ";

/// The keys of the part and the whole, without the object in which they stand, and where the accumulation gets its value (the file, and
/// the bytes of its name), if nothing else gives it one.
pub(super) fn parts(files: &[&[PythonToken<'_>]]) -> Option<(String, usize, (usize, usize))> {
    let mut lines = files.iter().enumerate().flat_map(|(file, tokens)| {
        line_begins(tokens).map(move |at| (file, rest_of_line(&tokens[at..])))
    });
    lines.find_map(|(file, line)| {
        let sign = assignment(line).filter(|sign| *sign == 1)?;
        let value = &line[sign + 1..];
        let slashes = value.windows(2);
        let slash = slashes
            .enumerate()
            .find(|(_, w)| w[0].is("/") && w[1].is("/"))?
            .0;
        let (whole, part) = (keys(&value[..slash])?, keys(&value[slash + 2..])?);
        let once = files
            .iter()
            .flat_map(|tokens| assigned(tokens, line[0].text, false));
        let width = || {
            value
                .last()
                .is_some_and(|t| widths(files[file]).contains(t.text))
        };
        let ours = (is_accumulation(line[0].text) || width()) && only(once).is_some();
        ours.then(|| (format!("{part}{OF}{whole}"), file, line[0].bytes()))
    })
}

/// Whether a name says that it is an accumulation.
pub(super) fn is_accumulation(name: &str) -> bool {
    let name = name.to_lowercase();
    let parts = ["accum", "grad_acc", "acc_step", "acc_iter", "update_freq"];
    parts.iter().any(|part| name.contains(part)) || ["gas", "iter_size", "acc"].contains(&&*name)
}

/// The names of what one forward takes and of the batch of a step, where an accumulation is computed of them: `accum = total // (B *
/// T * world)`. `B` is the batch beside `T`, the length of a sequence.
pub(super) fn part_and_whole<'t>(
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

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn an_accumulation_that_is_computed_of_two_settings_is_found() {
        let of = |text: &str| parts(&[&tokens(text)]).map(|(keys, ..)| keys);
        let found = Some("train.micro of train.batch".to_owned());
        let computed = "accum = cfg.train.batch // cfg['train']['micro']\n";
        assert_eq!(of(computed), found);
        assert_eq!(of(&computed.replace("accum", "rows")), None);
        assert_eq!(of(&format!("{computed}accum = 1\n")), None);
        assert_eq!(of("accum = len(x) // cfg.micro\n"), None);
    }
}
