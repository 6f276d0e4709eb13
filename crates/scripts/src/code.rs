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
    /// Names (`SFTTrainer`), arguments with their value (`dtype=bfloat16`), and programs or modules of the framework
    /// (`trl sft`). An empty list holds for a text that was read and has no name of the other rules.
    pub names: Vec<String>,
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
        let given = argument(&tokens[at..]).map(|value| format!("{}={value}", token.text));
        for name in [Some(token.text.to_owned()), given].into_iter().flatten() {
            if wanted.contains(name.as_str()) && !found.contains_key(&name) {
                found.insert(name, (token.from, token.to));
            }
        }
    }
    found
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
                    m = load(p, torch_dtype=torch.bfloat16, dtype=\"float32\")\n";
        let wanted = word_list::<6>(
            "SFTTrainer DPOTrainer GRPOTrainer torch_dtype=bfloat16 dtype=float32 dtype=bfloat16",
        );
        let found = names_in(&tokens(text), &wanted.into());
        let line = |from: usize| text[..from].matches('\n').count() + 1;
        let names = found.iter().map(|(n, (from, _))| (n.as_str(), line(*from)));
        let names: Vec<(&str, usize)> = names.collect();
        assert_eq!(
            names,
            [
                ("SFTTrainer", 2),
                ("dtype=float32", 4),
                ("torch_dtype=bfloat16", 4)
            ]
        );
    }

    #[test]
    fn a_text_that_ends_early_has_no_value() {
        for text in ["dtype=", "dtype=torch.", "dtype"] {
            let _ = names_in(&tokens(text), &["dtype=bfloat16"].into());
        }
    }
}
