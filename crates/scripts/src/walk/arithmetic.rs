//! Calculations of the shell with whole numbers (`$((A * 2))`).

use crate::shell::in_name;

/// Parentheses within parentheses.
const MAX_DEPTH: usize = 32;

/// The inside of `$(( … ))` or `(( … ))`; None for anything else.
pub(super) fn inside(code: &str) -> Option<&str> {
    let code = code.strip_prefix('$').unwrap_or(code);
    code.strip_prefix("((")?.strip_suffix("))")
}

/// The result of a calculation with `+ - * / %` and parentheses. `value` tells what a name stands for. None for any other
/// operator, for a name that stands for no number, and for a result that the shell would not have.
pub(super) fn result(text: &str, value: &mut dyn FnMut(&str) -> Option<i64>) -> Option<i64> {
    let mut sum = Sum {
        rest: text.trim_start(),
        depth: 0,
        value,
    };
    let result = sum.terms()?;
    sum.rest.is_empty().then_some(result)
}

/// The names to which a calculation gives another value (`X = 2`, `X *= 2`, `X++`).
pub(super) fn assigned(text: &str) -> Vec<&str> {
    let (mut names, mut at) = (Vec::new(), 0);
    while let Some(start) = text[at..].find(in_name).map(|n| at + n) {
        let end = text[start..].find(|c| !in_name(c));
        let end = end.map_or(text.len(), |n| start + n);
        let before = text[..start].trim_end();
        let behind = text[end..].trim_start();
        let counted = [before.ends_with("++"), before.ends_with("--")];
        let counts =
            counted.contains(&true) || behind.starts_with("++") || behind.starts_with("--");
        let operator =
            behind.trim_start_matches(['+', '-', '*', '/', '%', '<', '>', '&', '^', '|']);
        let compares =
            behind.starts_with("<=") || behind.starts_with(">=") || behind.starts_with("==");
        let gets = operator.starts_with('=') && !compares && !operator.starts_with("==");
        if (counts || gets) && !text[start..].starts_with(|c: char| c.is_ascii_digit()) {
            names.push(&text[start..end]);
        }
        at = end;
    }
    names
}

struct Sum<'t, 'v> {
    rest: &'t str,
    depth: usize,
    value: &'v mut dyn FnMut(&str) -> Option<i64>,
}

impl Sum<'_, '_> {
    fn take(&mut self, mark: char) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }

    fn terms(&mut self) -> Option<i64> {
        let mut all = self.factors()?;
        loop {
            all = match (self.take('+'), self.take('-')) {
                (true, _) => all.checked_add(self.factors()?)?,
                (_, true) => all.checked_sub(self.factors()?)?,
                _ => return Some(all),
            };
        }
    }

    fn factors(&mut self) -> Option<i64> {
        let mut all = self.one()?;
        loop {
            all = if self.take('*') {
                all.checked_mul(self.one()?)?
            } else if self.take('/') {
                all.checked_div(self.one()?)?
            } else if self.take('%') {
                all.checked_rem(self.one()?)?
            } else {
                return Some(all);
            };
        }
    }

    fn one(&mut self) -> Option<i64> {
        if self.take('(') {
            self.depth += 1;
            let inner = (self.depth <= MAX_DEPTH).then(|| self.terms())??;
            self.depth -= 1;
            return self.take(')').then_some(inner);
        }
        let braced = self.rest.starts_with("${");
        let rest = self.rest.trim_start_matches(['$', '{']);
        let sign = self.rest.len() - rest.len();
        if sign > if braced { 2 } else { 1 } {
            return None;
        }
        let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        let (word, mut behind) = rest.split_at(end);
        if braced {
            behind = behind.strip_prefix('}')?;
        }
        self.rest = behind.trim_start();
        let number = sign == 0 && word.starts_with(|c: char| c.is_ascii_digit());
        match (number, word) {
            // The shell takes a leading zero for a number to the base of 8.
            (true, "0") => Some(0),
            (true, _) if word.starts_with('0') => None,
            (true, _) => word.parse().ok(),
            (false, "") => None,
            (false, name) => (self.value)(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calculation_has_the_result_that_the_shell_gives_it() {
        let mut value = |name: &str| match name {
            "A" => Some(4),
            "B" => Some(3),
            _ => None,
        };
        let cases = [
            ("A * B", Some(12)),
            ("$A*(${B} + 2) - 1", Some(19)),
            (" 7 / 2 % 2 ", Some(1)),
            ("A / 0", None),
            ("2 ** 3", None),
            ("010 + 1", None),
            ("A > 2 ? 1 : 0", None),
            ("C + 1", None),
            ("A--B", None),
            ("${A:-1}", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(result(text, &mut value), wanted, "{text}");
        }
    }

    #[test]
    fn names_that_get_another_value_are_told_from_those_that_are_compared() {
        assert_eq!(assigned("A*=2, B = 3"), ["A", "B"]);
        assert_eq!(assigned("i++ + --j"), ["i", "j"]);
        assert_eq!(assigned("A <<= 1"), ["A"]);
        assert!(assigned("A == 2 && B <= 3 || C != 1").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[$A-B0-9{}()+*/% =<>-]{0,40}") {
            let _ = (result(&text, &mut |_| Some(i64::MAX)), assigned(&text), inside(&text));
        }
    }
}
