//! What a Python program has for its options where no word gives them: `argparse`, dataclasses, keyword arguments.
//!
//! Rule: a name that the text gives two values, or one that is computed, has a value that is not known.

use std::collections::BTreeMap;

use super::declared::{DeclaredOption, Takes, declared};
use super::literal::product;
use super::python::{PythonToken, TokenKind, arguments, keyword, place, tokens};
use oomctl_base::Value;

/// Most tokens of an annotation or of a call.
const LONGEST: usize = 400;

/// The value that a program gives a name.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramDefault {
    /// The value; `None` where the program computes it or gives several.
    pub value: Option<Value>,
    /// Line and column of the value, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// The values of all names of a program, with `_` for `-`.
pub fn program_defaults(text: &str) -> BTreeMap<String, ProgramDefault> {
    let tokens = tokens(text);
    let mut found = BTreeMap::new();
    let options = declared(&tokens);
    let mut next = options.iter().peekable();
    let mut read = 0;
    for (at, token) in tokens.iter().enumerate() {
        while let Some(option) = next.next_if(|option| option.range.0 <= token.from) {
            let given = given(option);
            for name in option.names() {
                note(&mut found, text, name, &given);
            }
            read = option.range.1;
        }
        if token.from < read {
            continue;
        }
        if let Some((name, value)) = assignment(&tokens, at) {
            note(&mut found, text, name.replace('-', "_"), &value);
        }
    }
    found
}

/// A value as it stands in the text.
struct Given {
    value: Option<Value>,
    from: usize,
}

fn note(found: &mut BTreeMap<String, ProgramDefault>, text: &str, name: String, given: &Given) {
    let (line, column) = place(text, given.from);
    let new = ProgramDefault {
        value: given.value.clone(),
        line,
        column,
    };
    let first = found.entry(name).or_insert(new);
    if first.value != given.value {
        first.value = None;
    }
}

/// The default of an option.
fn given(option: &DeclaredOption<'_, '_>) -> Given {
    let value = match (option.default, option.takes) {
        (Some(given), _) => literal(given),
        (None, Takes::TurnsOn) => Some(Value::Bool(false)),
        (None, Takes::TurnsOff) => Some(Value::Bool(true)),
        (None, _) => None,
    };
    let from = option.default.map_or(option.range.0, |d| d[0].from);
    Given { value, from }
}

/// `name = …`, `name: type = …` or `"name": …` at `at`. What hands on a value of the same name says nothing new.
fn assignment<'t>(tokens: &[PythonToken<'t>], at: usize) -> Option<(&'t str, Given)> {
    let (name, next) = (&tokens[at], tokens.get(at + 1)?);
    let value = match name.kind {
        TokenKind::Name if next.is("=") => at + 2,
        TokenKind::Name if next.is(":") => annotated(tokens, at + 2)?,
        TokenKind::Text if next.is(":") => at + 2,
        _ => return None,
    };
    // `a == b` compares.
    let given = tokens.get(value).filter(|t| !t.is("="))?;
    let end = ending(tokens, value);
    let words = &tokens[value..end];
    let field = ["field", "Field"].iter().any(|word| given.is(word));
    if field && words.get(1).is_some_and(|t| t.is("(")) {
        let default = keyword(&arguments(&words[2..]), "default").and_then(literal);
        return Some((
            name.text,
            Given {
                value: default,
                from: given.from,
            },
        ));
    }
    let value = literal(words);
    let handed_on = || words.iter().any(|t| t.text == name.text);
    if value.is_none() && (words.is_empty() || handed_on()) {
        return None;
    }
    Some((
        name.text,
        Given {
            value,
            from: given.from,
        },
    ))
}

/// Where the value stands behind an annotation.
fn annotated(tokens: &[PythonToken<'_>], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from).take(LONGEST) {
        match token.text {
            _ if token.kind == TokenKind::Text => {}
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            "=" if depth == 0 => return Some(at + 1),
            "," | ":" if depth == 0 => return None,
            _ if token.kind == TokenKind::End && depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The end of the value that begins at `from`.
fn ending(tokens: &[PythonToken<'_>], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from).take(LONGEST) {
        match token.text {
            _ if token.kind == TokenKind::End && depth == 0 => return at,
            _ if token.kind != TokenKind::Other => {}
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return at,
            ")" | "]" | "}" => depth -= 1,
            "," | ";" if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len().min(from + LONGEST)
}

/// The value of a literal.
fn literal(words: &[PythonToken<'_>]) -> Option<Value> {
    if let [number, sign, power] = words
        && number.kind == TokenKind::Number
        && number.text.ends_with(['e', 'E'])
        && sign.to == power.from
    {
        // The exponent of `1e-4` is a token of its own.
        let text = format!("{}{}{}", number.text, sign.text, power.text);
        return text.parse().ok().map(Value::Float);
    }
    if let Some(number) = product(words) {
        return Some(Value::Int(number));
    }
    let (sign, word) = match words {
        [word] => (1, word),
        [minus, word] if minus.is("-") && word.kind == TokenKind::Number => (-1, word),
        _ => return None,
    };
    match (word.kind, word.text) {
        (TokenKind::Text, text) => Some(Value::Text(text.to_owned())),
        (TokenKind::Name, "True") => Some(Value::Bool(true)),
        (TokenKind::Name, "False") => Some(Value::Bool(false)),
        (TokenKind::Name, "None") => Some(Value::Null),
        (TokenKind::Number, text) => {
            let plain = text.replace('_', "");
            let whole = plain.parse::<i64>().ok().map(|n| Value::Int(sign * n));
            let float = || {
                plain
                    .parse::<f64>()
                    .ok()
                    .map(|x| Value::Float(sign as f64 * x))
            };
            whole.or_else(float)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, name: &str) -> Option<Option<Value>> {
        program_defaults(text).remove(name).map(|d| d.value)
    }

    #[test]
    fn options_fields_keywords_and_keys_have_their_values() {
        let text = "p.add_argument('-b', '--batch-size', type=int, default=64, help=f(1, 'x'))\n\
                    p.add_argument('--fp16', action='store_true')\n\
                    class A:\n  lr: Optional[float] = field(default=1e-4, metadata={'help': 'x'})\n  steps: int = 5\n\
                    TrainingArguments(seed=1, logging_steps=-1)\n\
                    wandb.init(config={'width': 256})\n";
        let cases = [
            ("batch_size", Value::Int(64)),
            ("b", Value::Int(64)),
            ("fp16", Value::Bool(false)),
            ("lr", Value::Float(1e-4)),
            ("steps", Value::Int(5)),
            ("seed", Value::Int(1)),
            ("logging_steps", Value::Int(-1)),
            ("width", Value::Int(256)),
        ];
        for (name, wanted) in cases {
            assert_eq!(value(text, name), Some(Some(wanted)), "{name}");
        }
        let first = &program_defaults(text)["batch_size"];
        assert_eq!((first.line, first.column), (1, 56));
    }

    #[test]
    fn what_is_computed_or_given_twice_is_not_known() {
        let text = "x = f(8)\ny = 1\ny = 2\np.add_argument('--z', type=int)\nn = 4\nA(n=args.n)\n\
                    if m == 3: pass\n";
        assert_eq!(value(text, "x"), Some(None));
        assert_eq!(value(text, "y"), Some(None));
        assert_eq!(value(text, "z"), Some(None));
        assert_eq!(value(text, "n"), Some(Some(Value::Int(4))), "handed on");
        assert_eq!(value(text, "m"), None, "compared");
    }

    #[test]
    fn a_text_that_ends_early_is_read_as_far_as_it_goes() {
        for text in [
            "add_argument(",
            "a: b[",
            "x =",
            "x = (",
            "add_argument('--a', default=",
        ] {
            let _ = program_defaults(text);
        }
    }
}
