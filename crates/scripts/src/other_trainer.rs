//! Trainers of packages that are built on a framework's: `SentenceTransformerTrainer(args=SentenceTransformerTrainingArguments(…))`.
//!
//! Rule: a class that is named like a framework's is one where a Trainer gets it that the program does not declare itself. The loop is
//! then the framework's; of the loss of a package that nobody here knows nothing is said.

use std::collections::BTreeSet;

use super::python::{PythonToken, TokenKind, arguments, calls, line_of, statements};
use oomctl_base::word_list;

/// What the names of such classes end in.
const TRAINER: &str = "Trainer";
/// Packages whose Trainers have the loss of transformers' models, or one that is known.
const KNOWN: [&str; 3] = word_list("transformers trl unsloth");

/// Why nobody knows what a smaller micro batch does there.
pub(super) const OTHER_LOSS: &str =
    "this Trainer is another package's, whose loss may compare the samples of a micro batch";

/// A Trainer of another package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherTrainer<'c> {
    /// The framework's class whose fields its arguments have.
    pub class: &'c str,
    /// The file, and the bytes of the name of what is filled.
    pub arguments: (usize, (usize, usize)),
    /// The same of the Trainer, where it is imported from a package that is not known.
    pub trainer: Option<(usize, (usize, usize))>,
}

/// The Trainers that get a class named like one of these, none of which the program declares itself.
pub(super) fn other_trainers<'c>(
    texts: &[&[PythonToken<'_>]],
    classes: &BTreeSet<&'c str>,
    own: &BTreeSet<&str>,
) -> Vec<OtherTrainer<'c>> {
    let mut found = Vec::new();
    for (file, tokens) in texts.iter().enumerate() {
        let of = |t: &PythonToken<'_>| {
            let mut all = classes.iter();
            let is_name = t.kind == TokenKind::Name && !own.contains(t.text);
            all.find(|class| t.text.ends_with(**class))
                .filter(|_| is_name)
        };
        for at in calls(tokens, |t| of(t).is_some()) {
            let taker = taker(texts, (file, at)).filter(|(of, at)| {
                let name = texts[*of][*at].text;
                !own.contains(name) || is_derived(texts, name)
            });
            let (Some((of_file, trainer)), Some(class)) = (taker, of(&tokens[at])) else {
                continue;
            };
            let package = package(texts, texts[of_file], trainer);
            let known = package.is_none_or(|name| KNOWN.contains(&name));
            let bytes = |t: &PythonToken<'_>| (t.from, t.to);
            let place = (of_file, bytes(&texts[of_file][trainer]));
            found.push(OtherTrainer {
                class,
                arguments: (file, bytes(&tokens[at])),
                trainer: (!known).then_some(place),
            });
        }
    }
    found
}

/// The Trainer that gets what a call makes: the call stands among its arguments, or the name does that it is given.
fn taker(texts: &[&[PythonToken<'_>]], (file, at): (usize, usize)) -> Option<(usize, usize)> {
    let tokens = texts[file];
    let begin = line_of(tokens, at);
    let before = tokens.get(begin..at)?;
    let name = before.iter().position(|t| t.is("=")).and_then(|equals| {
        let is_typed = before.get(1).is_some_and(|t| t.is(":"));
        let at = if is_typed { 0 } else { equals.checked_sub(1)? };
        (before[at].kind == TokenKind::Name).then_some(before[at].text)
    });
    let is_trainer = |t: &PythonToken<'_>| t.kind == TokenKind::Name && t.text.ends_with(TRAINER);
    texts.iter().enumerate().find_map(|(other, tokens)| {
        let mut found = calls(tokens, is_trainer);
        let gets = |trainer: &usize| {
            let all = arguments(&tokens[*trainer + 2..]);
            let mut inner = all.iter().flat_map(|argument| argument.iter());
            inner.any(|t| {
                let itself = other == file && t.from == texts[file][at].from;
                let by_name = t.kind == TokenKind::Name && Some(t.text) == name;
                itself || by_name
            })
        };
        found.find(gets).map(|trainer| (other, trainer))
    })
}

/// Whether the program makes a class of another Trainer.
fn is_derived(texts: &[&[PythonToken<'_>]], name: &str) -> bool {
    let mut lines = texts.iter().flat_map(|tokens| statements(tokens));
    lines.any(|line| match line {
        [class, own, bases @ ..] if class.is("class") && own.is(name) => {
            bases.iter().any(|base| base.text.ends_with(TRAINER))
        }
        _ => false,
    })
}

/// The package from which the text imports what a token names.
pub(super) fn package<'t>(
    texts: &[&[PythonToken<'t>]],
    own: &[PythonToken<'t>],
    at: usize,
) -> Option<&'t str> {
    // `st.SentenceTransformerTrainer(…)`
    let module = at.checked_sub(2).filter(|_| own[at - 1].is("."));
    let name = own[module.unwrap_or(at)].text;
    let declared = |line: &[PythonToken<'t>]| matches!(line, [class, own, ..] if class.is("class") && own.is(name));
    let mut lines = texts.iter().flat_map(|tokens| statements(tokens));
    if lines.any(declared) {
        return None;
    }
    statements(own).find_map(|line| {
        let is_of = line.iter().skip(2).any(|t| t.is(name));
        match line {
            [from, package, ..] if from.is("from") && is_of => {
                (!package.is(".")).then_some(package.text)
            }
            [import, package, ..] if import.is("import") && (is_of || package.is(name)) => {
                Some(package.text)
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    fn found(text: &str, own: &[&str]) -> Option<bool> {
        let all = tokens(text);
        let classes = ["TrainingArguments"].into();
        let found = other_trainers(&[&all], &classes, &own.iter().copied().collect());
        Some(found.first()?.trainer.is_some())
    }

    #[test]
    fn a_trainer_of_another_package_is_one_by_the_class_that_it_gets() {
        for (text, is_other) in [
            (
                "from lab import LabTrainer\na = LabTrainingArguments(x=1)\nLabTrainer(args=a)\n",
                Some(true),
            ),
            (
                "from lab import LabTrainer\nLabTrainer(m, LabTrainingArguments(x=1))\n",
                Some(true),
            ),
            (
                "import lab as l\na = l.LabTrainingArguments(x=1)\nl.LabTrainer(args=a)\n",
                Some(true),
            ),
            (
                "from setfit import Trainer\na = TrainingArguments(x=1)\nTrainer(args=a)\n",
                Some(true),
            ),
            (
                "from transformers import Trainer\na = LabTrainingArguments(x=1)\nTrainer(args=a)\n",
                Some(false),
            ),
            (
                "class T(Trainer):\n    pass\na = LabTrainingArguments(x=1)\nMyTrainer(args=a)\n",
                Some(false),
            ),
            ("a = LabTrainingArguments(x=1)\ntrain(args=a)\n", None),
            ("a = LabTrainingArguments(x=1)\nLabTrainer(model)\n", None),
        ] {
            assert_eq!(found(text, &[]), is_other, "{text}");
        }
        let own = "a = OwnTrainingArguments(x=1)\nLabTrainer(args=a)\n";
        assert_eq!(found(own, &["OwnTrainingArguments"]), None);
    }
}
