//! Where names of Python text get values.

use super::{PythonToken, TokenKind};

/// The places at which a name gets a value: `name =`, `name +=`, `for name in`; `name=name` hands it on.
pub(crate) fn assigned<'a>(
    tokens: &'a [PythonToken<'_>],
    name: &'a str,
    attribute: bool,
) -> impl Iterator<Item = usize> + 'a {
    (0..tokens.len()).filter(move |at| {
        let (token, next) = (&tokens[*at], |n: usize| tokens.get(at + n));
        let is = |n: usize, text: &str| next(n).is_some_and(|t| t.is(text));
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        if token.kind != TokenKind::Name
            || token.text != name
            || before.is_some_and(|t| t.is(".")) != attribute
        {
            return false;
        }
        let handed_on = next(2).is_some_and(|t| t.text == name) && (is(3, ",") || is(3, ")"));
        let plain = is(1, "=") && !is(2, "=") && !handed_on;
        let sign = |n: usize| ["+", "-", "*", "/", "%"].iter().any(|sign| is(n, sign));
        let further = sign(1) && (is(2, "=") || sign(2) && is(3, "="));
        plain || further || before.is_some_and(|t| t.is("for"))
    })
}
