//! Words in Hydra's override grammar: which key, and which bytes are the value.
//!
//! Overrides are applied in the order of the command line, so of several for one key the last one counts
//! (hydra-core, `ConfigLoaderImpl._apply_overrides_to_config`).

use std::ops::Range;

/// An override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overrides<'w> {
    /// ``, `+`, `++` or `~`.
    pub sign: &'w str,
    /// The key, without its sign and package.
    pub key: &'w str,
    /// The bytes of the value; None for a deletion without one.
    pub value: Option<Range<usize>>,
    /// What kind of text the value is.
    pub form: Form,
}

/// What kind of text a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text, a number, a boolean, null.
    Bare,
    /// Text between quotes.
    Quoted,
    /// `[…]` or `{…}`.
    Compound,
    /// `${…}`, which Hydra resolves.
    Interpolation,
    /// Several values, each for a job of its own.
    Sweep,
}

/// Reads a word as an override; None where it is none.
pub fn read(word: &str) -> Option<Overrides<'_>> {
    let sign = ["++", "+", "~"].into_iter().find(|s| word.starts_with(s));
    let sign = sign.unwrap_or_default();
    let rest = &word[sign.len()..];
    let (key, value) = match rest.find('=') {
        Some(at) => (&rest[..at], Some(sign.len() + at + 1..word.len())),
        None if sign == "~" => (rest, None),
        None => return None,
    };
    let key = key.split('@').next().unwrap_or(key);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-/$*".contains(c);
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !key.starts_with(starts) || !key.chars().all(plain) {
        return None;
    }
    let form = value.clone().map_or(Form::Bare, |at| form(&word[at]));
    Some(Overrides {
        sign: &word[..sign.len()],
        key,
        value,
        form,
    })
}

/// The override of this key, if the word is one. Most words do not hold the key and are not read.
pub fn of<'a>(word: &'a str, key: &str) -> Option<Overrides<'a>> {
    let held = word.contains(key).then(|| read(word))?;
    held.filter(|o| o.key == key)
}

fn form(value: &str) -> Form {
    let value = value.trim();
    let (mut depth, mut quote, mut escaped) = (0_u32, None, false);
    for c in value.chars() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (c, Some(q)) if c == q => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            ('[' | '{' | '(', None) => depth += 1,
            (']' | '}' | ')', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => return Form::Sweep,
            _ => {}
        }
    }
    let called = ["choice(", "range(", "interval(", "glob("];
    if called.iter().any(|c| value.starts_with(c)) {
        Form::Sweep
    } else if value.contains("${") {
        Form::Interpolation
    } else if value.starts_with(['[', '{']) {
        Form::Compound
    } else if value.starts_with(['\'', '"']) {
        Form::Quoted
    } else {
        Form::Bare
    }
}

/// The text that a bare or quoted value means.
pub fn meaning(value: &str) -> String {
    let value = value.trim();
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(inner) = quote.and_then(|q| value.strip_prefix(q)?.strip_suffix(q)) else {
        return value.replace("\\,", ",").replace("\\=", "=");
    };
    inner.replace("\\'", "'").replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, sign: &str, key: &str, value: Option<&str>, form: Form) {
        let read = read(word).unwrap();
        let found = read.value.clone().map(|at| &word[at]);
        assert_eq!(
            (read.sign, read.key, found, read.form),
            (sign, key, value, form),
            "{word}"
        );
    }

    #[test]
    fn overrides_are_read_in_all_their_forms() {
        check("a.b=32", "", "a.b", Some("32"), Form::Bare);
        check("+a.b=x y", "+", "a.b", Some("x y"), Form::Bare);
        check("++a.b='x,y'", "++", "a.b", Some("'x,y'"), Form::Quoted);
        check("~a.b", "~", "a.b", None, Form::Bare);
        check("~a.b=1", "~", "a.b", Some("1"), Form::Bare);
        check("a=[1,2]", "", "a", Some("[1,2]"), Form::Compound);
        check(
            "a={b: 1, c: 2}",
            "",
            "a",
            Some("{b: 1, c: 2}"),
            Form::Compound,
        );
        check("a=${b.c}", "", "a", Some("${b.c}"), Form::Interpolation);
        check(
            "a=${div:${b},2}",
            "",
            "a",
            Some("${div:${b},2}"),
            Form::Interpolation,
        );
        check("a=1,2", "", "a", Some("1,2"), Form::Sweep);
        check("a=choice(1,2)", "", "a", Some("choice(1,2)"), Form::Sweep);
        check("a=range(1,9)", "", "a", Some("range(1,9)"), Form::Sweep);
        check("a=x\\,y", "", "a", Some("x\\,y"), Form::Bare);
        check("group@pkg=opt", "", "group", Some("opt"), Form::Bare);
        check("a/b=opt", "", "a/b", Some("opt"), Form::Bare);
        check("a=", "", "a", Some(""), Form::Bare);
        for word in ["train.py", "--x=1", "-m", "/data/x=1", "=1", "a b=1", ""] {
            assert_eq!(read(word), None, "{word}");
        }
        assert_eq!(meaning("'it\\'s'"), "it's");
        assert_eq!(meaning("x\\,y"), "x,y");
    }
}
