//! A Trainer of transformers that gets an `nn.Module` of the program's own.
//!
//! The Trainer then runs as ever, but what only a `PreTrainedModel` has is missing: `gradient_checkpointing_enable`, and the
//! layers that liger-kernel replaces (transformers 5.23.0 trainer.py).

use std::collections::BTreeSet;

use super::python::{PythonToken, TokenKind, argument, arguments, assigned, calls};
use oomctl_base::only;

/// The name of it among the names of a program's text ([`super::CodeRule`]).
pub(super) const OWN_MODEL: &str = "<model of its own>";
/// A model that has one of these can recompute; the second is the first's name since transformers 5.23.
const CAN_RECOMPUTE: [&str; 2] = [
    "gradient_checkpointing_enable",
    "activation_checkpointing_enable",
];

/// The class whose object each Trainer of these files trains, where the program declares it: the file, and its bytes.
pub(super) fn own_model(files: &[&[PythonToken<'_>]]) -> Option<(usize, (usize, usize))> {
    let mut all = files.iter().flat_map(|tokens| tokens.iter());
    if all.any(|t| CAN_RECOMPUTE.contains(&t.text)) {
        return None;
    }
    let made: Option<BTreeSet<&str>> = files
        .iter()
        .flat_map(|tokens| trained(tokens))
        .map(|model| class_of(files, model))
        .collect();
    let classes = made.filter(|classes| classes.len() == 1)?;
    files.iter().enumerate().find_map(|(file, tokens)| {
        let at = (0..tokens.len()).find(|at| is_module(&tokens[*at..], &classes))?;
        Some((file, tokens[at + 1].bytes()))
    })
}

/// What the Trainers of a file get for a model.
pub(super) fn trained<'a, 't>(
    tokens: &'a [PythonToken<'t>],
) -> impl Iterator<Item = &'a [PythonToken<'t>]> + 'a {
    let trainers = calls(tokens, |t| t.text.ends_with("Trainer"));
    trainers.filter_map(|at| argument(&arguments(&tokens[at + 2..]), "model", 0))
}

/// The class of `Net(…)`, or of the one call that gives a name its value.
fn class_of<'t>(files: &[&[PythonToken<'t>]], model: &[PythonToken<'t>]) -> Option<&'t str> {
    match model {
        [class, open, ..] if class.kind == TokenKind::Name && open.is("(") => Some(class.text),
        [name] => {
            let made = files.iter().flat_map(|tokens| {
                let places = assigned(tokens, name.text, false);
                places.map(move |at| &tokens[at..])
            });
            let one = only(made)?;
            matches!(one, [_, equals, _, open, ..] if equals.is("=") && open.is("("))
                .then(|| one[2].text)
        }
        _ => None,
    }
}

/// `class Net(nn.Module)`, where `classes` has `Net`.
fn is_module(tokens: &[PythonToken<'_>], classes: &BTreeSet<&str>) -> bool {
    match tokens {
        [class, name, open, rest @ ..] if class.is("class") && open.is("(") => {
            let bases = rest.iter().take_while(|t| !t.is(")"));
            classes.contains(name.text) && bases.last().is_some_and(|t| t.is("Module"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    fn found(text: &str) -> Option<&str> {
        let (_, (from, to)) = own_model(&[&tokens(text)])?;
        Some(&text[from..to])
    }

    #[test]
    fn a_trainer_of_a_module_of_its_own_is_seen() {
        let net = "class Net(nn.Module):\n    pass\n";
        let of = |rest: &str| format!("{net}{rest}");
        let seen = [
            of("model = Net(8)\nTrainer(model=model, args=a)\n"),
            of("trainer = Trainer(Net(8), a)\n"),
        ];
        for text in seen {
            assert_eq!(found(&text), Some("Net"), "{text}");
        }
        let not_seen = [
            of("model = AutoModel.from_pretrained('x')\nTrainer(model=model)\n"),
            of("model = Net(8)\nmodel = wrap(model)\nTrainer(model=model)\n"),
            of("model = Net(8)\nmodel.gradient_checkpointing_enable()\nTrainer(model=model)\n"),
            of("Trainer(model_init=make)\n"),
            "class Net(PreTrainedModel):\n    pass\nTrainer(model=Net(8))\n".to_owned(),
        ];
        for text in not_seen {
            assert_eq!(found(&text), None, "{text}");
        }
    }
}
