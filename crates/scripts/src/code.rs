//! What the Python text of a program says by the names that it uses: which trainer it makes, whether it adds a LoRA adapter.
//!
//! Rule: names in comments and strings do not count; two names with different values say nothing.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use super::python::{PythonToken, TokenKind};

/// A value that names in the program's text stand for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeRule {
    /// Names (`SFTTrainer`), calls (`make()`, which an import is not), members (`torchvision.models`), arguments with their value (`dtype=bfloat16`), and programs or
    /// modules of the framework (`trl sft`). `<sum of losses>` stands for an option for accumulation by which the program
    /// divides no loss, `<learning rate of the batch>`, `<negatives of the batch>`, `<statistics of the batch>`, `<sum over the
    /// batch>`, `<number of micro batches>` and `<each micro batch>` for what it computes of micro batches, `<model of its own>` for
    /// a Trainer that gets an `nn.Module` which the program declares. An empty list holds for a text that was read and has no name of the other rules.
    pub names: Vec<String>,
    /// Names beside which the rule does not hold: arguments that decide otherwise.
    #[serde(default)]
    pub unless: Vec<String>,
    /// The value of the knob.
    pub value: String,
}

/// An argument of a call in the program's text that says what a flag of the framework says elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeArgument {
    /// Name of the class or function.
    pub call: String,
    /// The argument's keyword.
    pub argument: String,
    /// The flag, without dashes.
    pub flag: String,
    /// The classes of which a parser takes the flag, where the classes that configure the framework have no such field.
    #[serde(default)]
    pub fields_of: Option<Vec<String>>,
}

/// Those of the wanted names that a text with these tokens uses, each with the bytes of its first place.
pub(super) fn names_in(
    tokens: &[PythonToken<'_>],
    wanted: &BTreeSet<&str>,
) -> BTreeMap<String, (usize, usize)> {
    let mut found = BTreeMap::new();
    for at in 0..tokens.len() {
        let token = tokens[at];
        if token.kind != TokenKind::Name {
            continue;
        }
        let rest = &tokens[at..];
        let given = argument(rest).map(|value| format!("{}={value}", token.text));
        let members = members(rest).map(|member| format!("{}.{member}", token.text));
        let called = is_called(tokens, at).then(|| format!("{}()", token.text));
        let names = std::iter::once(token.text.to_owned());
        let names = names.chain(given).chain(called);
        for name in names.chain(members) {
            if wanted.contains(name.as_str()) && !found.contains_key(&name) {
                found.insert(name, (token.from, token.to));
            }
        }
    }
    found
}

/// Whether the name at `at` is called, and not declared.
fn is_called(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).map(|at| &tokens[at]);
    let declared = before.is_some_and(|t| t.is("class") || t.is("def"));
    !declared && tokens.get(at + 1).is_some_and(|t| t.is("("))
}

/// What is taken of a name: `b` of `a.b`, and of `from a import b, c` both.
fn members<'t>(tokens: &'t [PythonToken<'t>]) -> impl Iterator<Item = &'t str> {
    let behind = |mark: &str| tokens.get(1).is_some_and(|token| token.is(mark));
    let most = if behind(".") {
        1
    } else if behind("import") {
        tokens.len()
    } else {
        0
    };
    let rest = tokens.iter().skip(2);
    let listed = rest.take_while(|token| token.kind == TokenKind::Name || token.is(","));
    let names = listed.filter(|token| token.kind == TokenKind::Name);
    names.take(most).map(|token| token.text)
}

/// The value of `name=value`: a string, or the last part of a dotted name.
fn argument<'t>(tokens: &[PythonToken<'t>]) -> Option<&'t str> {
    if !tokens.get(1)?.is("=") {
        return None;
    }
    match tokens.get(2)? {
        text if text.kind == TokenKind::Text => Some(text.text),
        name if name.kind == TokenKind::Name => match (tokens.get(3), tokens.get(4)) {
            (Some(dot), Some(last)) if dot.is(".") && last.kind == TokenKind::Name => {
                Some(last.text)
            }
            _ => Some(name.text),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;
    use oomctl_base::word_list;

    #[test]
    fn names_count_where_python_uses_them() {
        let text = "# DPOTrainer\nfrom trl import SFTTrainer\nx = 'GRPOTrainer'\n\
                    import a.b as c\nfrom d import e, f\n\
                    m = load(p, torch_dtype=torch.bfloat16, dtype=\"float32\")\n";
        let wanted = word_list::<10>(
            "SFTTrainer DPOTrainer GRPOTrainer torch_dtype=bfloat16 dtype=float32 dtype=bfloat16 a.b b.c d.e d.f",
        );
        let found = names_in(&tokens(text), &wanted.into());
        let line = |from: usize| text[..from].matches('\n').count() + 1;
        let names = found.iter().map(|(n, (from, _))| (n.as_str(), line(*from)));
        let names: Vec<(&str, usize)> = names.collect();
        assert_eq!(
            names,
            [
                ("SFTTrainer", 2),
                ("a.b", 4),
                ("d.e", 5),
                ("d.f", 5),
                ("dtype=float32", 6),
                ("torch_dtype=bfloat16", 6)
            ]
        );
    }

    #[test]
    fn a_call_is_no_import_and_no_declaration() {
        let text = "from peft import prepare, make\ndef make(): pass\nm = prepare(m)\n";
        let found = names_in(&tokens(text), &["prepare()", "make()"].into());
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["prepare()"]);
    }

    #[test]
    fn a_text_that_ends_early_has_no_value() {
        for text in ["dtype=", "dtype=torch.", "dtype"] {
            let _ = names_in(&tokens(text), &["dtype=bfloat16"].into());
        }
    }
}
