//! Built-in patterns ask for ASCII only: what they match, programs print in it, and a class of all the
//! world's letters takes ten times the memory and the time to compile.

use std::fmt::Debug;
use std::str::FromStr;

/// A pattern whose `\d`, `\w`, `\s`, `\S` and `\b` know ASCII only.
pub(crate) fn ascii(pattern: &str) -> String {
    let mut out = String::with_capacity(2 * pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('d') => out.push_str("[0-9]"),
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('s') => out.push_str(r"[\t-\r\x20]"),
            Some('S') => out.push_str(r"[^\t-\r\x20]"),
            Some('b') => out.push_str(r"(?-u:\b)"),
            other => {
                out.push(c);
                out.extend(other);
            }
        }
    }
    out
}

/// Such a pattern, for text or for bytes. It is a constant of this library: a test of its file compiles it.
pub(crate) fn compiled<R: FromStr<Err: Debug>>(pattern: &str) -> R {
    let regex = ascii(pattern).parse();
    regex.expect("a constant, compiled by the tests of its file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_matched_in_ascii() {
        for (pattern, text) in [
            (r"^[\w.-]+: \d+\S\s\b(x|\\)$", "a.b-c: 12! x"),
            (r"^[^\s\]]\[\d\]$", "q[7]"),
            (r"^\\d\.$", r"\d."),
        ] {
            let regex = |pattern: &str| regex::Regex::new(pattern).unwrap();
            assert!(regex(pattern).is_match(text), "{pattern}");
            assert!(regex(&ascii(pattern)).is_match(text), "{pattern}");
        }
        assert!(
            !regex::Regex::new(&ascii(r"\d"))
                .unwrap()
                .is_match("\u{663}")
        );
    }
}
