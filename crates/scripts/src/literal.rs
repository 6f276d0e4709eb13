//! Numbers that a text writes out: `64`, `8 * 64`, `2**19`.

use super::code_value::{CodeValue, PythonFile};
use super::python::{PythonToken, TokenKind};
use super::traced::Traced;

/// The whole number that a product of literals comes to.
pub(super) fn product(words: &[PythonToken<'_>]) -> Option<i64> {
    let (first, mut rest) = words.split_first()?;
    let mut all = whole(first)?;
    let mut last = all;
    while let [sign, more @ ..] = rest {
        if !sign.is("*") {
            return None;
        }
        match more {
            [second, exponent, more @ ..] if second.is("*") => {
                let power = last.checked_pow(u32::try_from(whole(exponent)?).ok()?)?;
                // What the factor became a power of is in the product already.
                all = (all.checked_div(last)?).checked_mul(power)?;
                // Powers of powers are read from the right.
                (last, rest) = (0, more);
            }
            [factor, more @ ..] => {
                last = whole(factor)?;
                all = all.checked_mul(last)?;
                rest = more;
            }
            [] => return None,
        }
    }
    Some(all)
}

fn whole(token: &PythonToken<'_>) -> Option<i64> {
    let is_number = token.kind == TokenKind::Number;
    let text = token.text.replace('_', "");
    text.parse().ok().filter(|_| is_number)
}

/// Whether a default says that an option is not used: `None`, 0, or a number below.
pub(super) fn is_off(words: &[PythonToken<'_>]) -> bool {
    match words {
        [one] => one.is("None") || whole(one) == Some(0),
        [minus, one] => minus.is("-") && whole(one).is_some(),
        _ => false,
    }
}

impl CodeValue {
    /// A literal, or what a product of literals comes to.
    pub(super) fn written(file: &PythonFile<'_>, words: &[PythonToken<'_>]) -> Option<Self> {
        match words {
            [one]
                if is_literal(one) && (one.kind == TokenKind::Text || !one.text.contains('_')) =>
            {
                Some(Self::literal(file, one))
            }
            _ => Self::number(file, words, product(words)?),
        }
    }

    /// The number that an expression comes to.
    pub(super) fn number(
        file: &PythonFile<'_>,
        words: &[PythonToken<'_>],
        number: i64,
    ) -> Option<Self> {
        let place = file.content.slice(words.first()?.from, words.last()?.to);
        let (span, quote, via) = place.stretch()?;
        Some(Self {
            is_own: file.can_change && via.is_empty(),
            ..Self::plain(Traced::escape(span, &number.to_string(), quote))
        })
    }
}

/// A number, a text, or a truth value.
pub(super) fn is_literal(token: &PythonToken<'_>) -> bool {
    matches!(token.kind, TokenKind::Number | TokenKind::Text)
        || token.is("True")
        || token.is("False")
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn products_and_powers_of_literals_are_numbers() {
        let cases = [
            ("64", Some(64)),
            ("8*64", Some(512)),
            ("5 * 8 * 2", Some(80)),
            ("2**19", Some(524_288)),
            ("3 * 2**4 * 2", Some(96)),
            ("2**3**2", None),
            ("524_288", Some(524_288)),
            ("8 * n", None),
            ("8 *", None),
            ("8 + 8", None),
            ("2 ** 99", None),
            ("9999999999 * 9999999999", None),
            ("0 ** 0", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(product(&tokens(text)), expected, "{text}");
        }
    }
}
