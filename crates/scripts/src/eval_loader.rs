//! The batch of an evaluation that a program takes from that of training where it loads the data: `DataLoader(val, batch_size=4 *
//! args.batch_size)`. As a number there it is one of its own.

use super::code_value::{CodeValue, PythonFile};
use super::configured::ProgramCode;
use super::constants::{Constant, EVAL_BATCH, LoadedBatch, loaded_batches};
use super::knobs::{KnobState, in_words};
use super::literal::product;
use super::python::{PythonToken, TokenKind};
use super::walk::Arg;
use crate::Spelling;
use oomctl_base::{Value, ValueKind, only};

impl ProgramCode {
    /// Adds the batch of the evaluation to the constants of a program that is started with these words.
    pub(super) fn add_evaluation(&mut self, files: &[PythonFile<'_>], words: &[Arg]) {
        if self.class.is_some() || self.constants.contains_key(EVAL_BATCH) {
            return;
        }
        if let Some(batch) = self.evaluation(files, words) {
            self.constants.insert(EVAL_BATCH.to_owned(), batch);
        }
    }

    fn evaluation(&self, files: &[PythonFile<'_>], words: &[Arg]) -> Option<Constant> {
        let all = loaded_batches(files);
        let beside = all.iter().filter(|loaded| loaded.key == EVAL_BATCH);
        if let Some(fixed) = largest(beside.clone()) {
            return Some(fixed);
        }
        let LoadedBatch { file, value, .. } = only(beside)?;
        let (name, factor) = multiple(value)?;
        let batch = self.number(name, words)?.checked_mul(factor)?;
        Some(Constant {
            value: CodeValue {
                follows: true,
                ..CodeValue::number(file, value, batch)?
            },
            is_global: false,
        })
    }

    /// The number that words or the code give a name.
    fn number(&self, name: &str, words: &[Arg]) -> Option<i64> {
        let Some(option) = self.declared(&format!("--{name}")) else {
            let constant = self.constants.get(&name.to_lowercase())?;
            return constant.value.value.known()?.parse().ok();
        };
        let Some(Spelling::Flag(flag)) = &option.option else {
            return None;
        };
        let texts: Vec<String> = words.iter().map(|w| w.text.text()).collect();
        let forms = std::iter::once(flag.clone()).chain(self.other_forms(flag, &texts));
        let mut given =
            forms.filter_map(|form| in_words(words, &Spelling::Flag(form), ValueKind::Int));
        match given.next() {
            Some((_, found)) => match found.state {
                KnobState::Known(Value::Int(number)) if !found.maybe => Some(number),
                _ => None,
            },
            None => option.value.known()?.parse().ok(),
        }
    }
}

/// The largest of batches that are all written as numbers or left to the default: those of training do not change it.
fn largest<'l>(all: impl Iterator<Item = &'l LoadedBatch<'l, 'l>>) -> Option<Constant> {
    let number = |loaded: &LoadedBatch<'_, '_>| match loaded.is_default {
        true => Some(1),
        false => product(loaded.value),
    };
    let numbers: Option<Vec<(i64, &LoadedBatch<'_, '_>)>> =
        all.map(|loaded| Some((number(loaded)?, loaded))).collect();
    let (batch, loaded) = numbers?.into_iter().max_by_key(|(batch, _)| *batch)?;
    Some(Constant {
        value: CodeValue {
            is_own: false,
            ..CodeValue::number(loaded.file, loaded.value, batch)?
        },
        is_global: false,
    })
}

/// `args.batch_size`, `4 * batch_size`, `args.batch_size * 4`: the name, and what it is taken times.
fn multiple<'t>(value: &[PythonToken<'t>]) -> Option<(&'t str, i64)> {
    let is_number = |t: &PythonToken<'_>| t.kind == TokenKind::Number;
    let (named, factor) = match value {
        [factor, times, rest @ ..] | [rest @ .., times, factor]
            if is_number(factor) && times.is("*") =>
        {
            (rest, product(std::slice::from_ref(factor))?)
        }
        _ => (value, 1),
    };
    let name = match named {
        [name] => name,
        [object, dot, name] if object.kind == TokenKind::Name && dot.is(".") => name,
        _ => return None,
    };
    (name.kind == TokenKind::Name).then_some((name.text, factor))
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn a_multiple_of_a_name_is_read_from_either_side() {
        for (text, expected) in [
            ("args.batch_size", Some(("batch_size", 1))),
            ("4 * args.bs", Some(("bs", 4))),
            ("BATCH * 2", Some(("BATCH", 2))),
            ("4 * a.b // c", None),
            ("len(x)", None),
            ("a.b.c", None),
            ("1 * 2", None),
            ("x + 1", None),
        ] {
            assert_eq!(multiple(&tokens(text)), expected, "{text}");
        }
    }
}
