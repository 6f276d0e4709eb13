//! Python text to tokens: as much of the grammar as it takes to find calls, imports and assignments.
//!
//! Source: the Python language reference, "Lexical analysis". Indentation is not needed and not read.

mod assigned;
mod blocks;

pub(super) use assigned::assigned;
pub(super) use blocks::{
    block, definition, ends_block, functions_around, headers, is_conditional, is_loop, is_main,
    lines_in, mark_lines,
};
use oomctl_base::word_list;

/// Largest script that is read, in bytes; what stands behind is not looked at.
pub(super) const LONGEST: usize = 1 << 20;
/// Most tokens of a script.
const MOST: usize = 200_000;
/// Words that begin a line whose colon is followed by what it guards.
const HEADERS: [&str; 14] =
    word_list("if elif else for while with try except finally def class async match case");

/// Most tokens of a call.
const CALL: usize = 2_000;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name or a keyword.
    Name,
    /// A number.
    Number,
    /// A string without prefix and quotes; `f` and `b` strings are [`TokenKind::Other`].
    Text,
    /// The end of a logical line.
    End,
    /// An operator, a delimiter, or what is none of these.
    Other,
}

/// A token, with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PythonToken<'t> {
    pub kind: TokenKind,
    /// The text; of a string what stands between its quotes.
    pub text: &'t str,
    /// Byte at which it begins, and the one behind it.
    pub from: usize,
    pub to: usize,
    /// Tokens before it in its line.
    in_line: usize,
    /// Of the first of a line: tokens from the head of the block in which the line stands; 0 at the left margin.
    below: usize,
}

impl PythonToken<'_> {
    pub(super) fn is(&self, text: &str) -> bool {
        self.kind != TokenKind::Text && self.text == text
    }

    /// Whether it opens a bracket.
    pub(super) fn opens(&self) -> bool {
        ["(", "[", "{"].iter().any(|bracket| self.is(bracket))
    }

    /// Whether it closes a bracket.
    pub(super) fn closes(&self) -> bool {
        [")", "]", "}"].iter().any(|bracket| self.is(bracket))
    }

    /// How many brackets are open behind it, where `depth` are before it.
    pub(super) fn depth_after(&self, depth: usize) -> usize {
        (depth + usize::from(self.opens())).saturating_sub(usize::from(self.closes()))
    }

    /// The bytes of its text, which of a string stand between its quotes.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let around = (self.to - self.from).saturating_sub(self.text.len());
        let quotes = match (self.kind, around) {
            (TokenKind::Text, 6..) => 3,
            (TokenKind::Text, _) => around.min(1),
            _ => 0,
        };
        let end = self.to - quotes;
        (end - self.text.len(), end)
    }
}

/// The tokens of a text. A bracket holds lines together; a text that ends inside a string ends there.
pub(super) fn tokens(text: &str) -> Vec<PythonToken<'_>> {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    let mut found: Vec<PythonToken<'_>> = Vec::new();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if found.len() == MOST {
            break;
        }
        let (kind, length) = next(rest);
        let token = |kind, text| PythonToken {
            kind,
            text,
            from: at,
            to: at + length,
            in_line: found.len() - line_of(&found, found.len()),
            below: 0,
        };
        match (kind, rest.as_bytes()[0]) {
            (None, b'\n') if depth == 0 => found.push(token(TokenKind::End, &rest[..1])),
            (None, _) => {}
            (Some(_), b';') if depth == 0 && !begins_a_block(&found) => {
                found.push(token(TokenKind::End, &rest[..1]));
            }
            (Some(kind), first) => {
                depth = match first {
                    b'(' | b'[' | b'{' => depth + 1,
                    b')' | b']' | b'}' => depth.saturating_sub(1),
                    _ => depth,
                };
                let shown = match kind {
                    TokenKind::Text => inside(&rest[..length]),
                    _ => &rest[..length],
                };
                found.push(token(kind, shown));
            }
        }
        at += length;
    }
    mark_lines(&mut found);
    found
}

/// Whether the last line is one as `if done: stop(); break`, all of which runs or nothing.
fn begins_a_block(tokens: &[PythonToken<'_>]) -> bool {
    let first = tokens.get(line_of(tokens, tokens.len()));
    first.is_some_and(|t| HEADERS.contains(&t.text))
}

/// Kind and length of what a text begins with; no kind for blanks, comments and line ends.
fn next(rest: &str) -> (Option<TokenKind>, usize) {
    let first = rest.chars().next().unwrap_or('\n');
    let run = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
    match first {
        '#' => (None, rest.find('\n').unwrap_or(rest.len())),
        '\\' if rest.starts_with("\\\n") => (None, 2),
        '\n' => (None, 1),
        // A file may begin with a byte-order mark.
        c if c.is_whitespace() || c == '\u{feff}' => (None, c.len_utf8()),
        '"' | '\'' => (Some(TokenKind::Text), string(rest)),
        c if c.is_ascii_digit() => (
            Some(TokenKind::Number),
            run(|c| c.is_alphanumeric() || c == '_' || c == '.'),
        ),
        c if c.is_alphabetic() || c == '_' => {
            let name = run(|c| c.is_alphanumeric() || c == '_');
            if name > 2 || !rest[name..].starts_with(['"', '\'']) {
                return (Some(TokenKind::Name), name);
            }
            let plain = matches!(&rest[..name], "r" | "R" | "u" | "U");
            let kind = if plain {
                TokenKind::Text
            } else {
                TokenKind::Other
            };
            (Some(kind), name + string(&rest[name..]))
        }
        c => (Some(TokenKind::Other), c.len_utf8()),
    }
}

/// Length of the string that a text begins with.
fn string(rest: &str) -> usize {
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    let (quote, long) = match rest.starts_with(&triple) {
        true => (triple.as_str(), true),
        false => (quote, false),
    };
    let mut at = quote.len();
    while let Some(inner) = rest.get(at..).filter(|inner| !inner.is_empty()) {
        if inner.starts_with(quote) {
            return at + quote.len();
        }
        let mut chars = inner.chars();
        match chars.next() {
            Some('\n') if !long => return at,
            Some('\\') => at += 1 + chars.next().map_or(0, char::len_utf8),
            Some(c) => at += c.len_utf8(),
            None => break,
        }
    }
    rest.len()
}

/// A string without its prefix and its quotes.
fn inside(text: &str) -> &str {
    let bare = text.trim_start_matches(|c: char| c.is_alphabetic());
    for quote in ["\"\"\"", "'''", "\"", "'"] {
        if let Some(rest) = bare.strip_prefix(quote) {
            return rest.strip_suffix(quote).unwrap_or(rest);
        }
    }
    bare
}

/// Where the path begins in which a name stands: `args` of `args.train.batch`.
pub(super) fn path_begin(tokens: &[PythonToken<'_>], mut at: usize) -> usize {
    while at >= 2 && tokens[at - 1].is(".") {
        at -= 2;
    }
    at
}

/// The places of names that are called, and not declared.
pub(super) fn calls<'a>(
    tokens: &'a [PythonToken<'_>],
    wanted: impl Fn(&PythonToken<'_>) -> bool + 'a,
) -> impl Iterator<Item = usize> + 'a {
    (0..tokens.len()).filter(move |at| {
        let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        let declared = before.is_some_and(|t| t.is("class") || t.is("def"));
        tokens[*at].kind == TokenKind::Name && called && !declared && wanted(&tokens[*at])
    })
}

/// Whether a text calls a backward pass: PyTorch's, or that of Lightning where the program optimises by itself.
pub(super) fn calls_backward(tokens: &[PythonToken<'_>]) -> bool {
    let is_backward = |t: &PythonToken<'_>| t.is("backward") || t.is("manual_backward");
    calls(tokens, is_backward).next().is_some()
}

/// Whether a word before a bracket is one of the language, and calls nothing.
pub(super) fn is_keyword(word: &str) -> bool {
    [
        "if", "in", "and", "or", "not", "return", "while", "elif", "for", "assert", "with",
        "lambda",
    ]
    .contains(&word)
}

/// The tokens up to the end of their line.
pub(super) fn rest_of_line<'a, 't>(tokens: &'a [PythonToken<'t>]) -> &'a [PythonToken<'t>] {
    let end = tokens.iter().position(|t| t.kind == TokenKind::End);
    &tokens[..end.unwrap_or(tokens.len())]
}

/// The line of a token.
pub(super) fn line<'a, 't>(tokens: &'a [PythonToken<'t>], at: usize) -> &'a [PythonToken<'t>] {
    rest_of_line(&tokens[line_of(tokens, at)..])
}

/// The place of the sign by which a line gives its first names a value: `a = b`, `a, b = c`, `a /= b`.
pub(crate) fn assignment(line: &[PythonToken<'_>]) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in line.iter().enumerate() {
        let is = |at: Option<usize>, sign: &str| {
            at.and_then(|at| line.get(at)).is_some_and(|t| t.is(sign))
        };
        let before = at.checked_sub(1);
        let compares = is(Some(at + 1), "=") || ["=", "<", ">", "!"].iter().any(|s| is(before, s));
        if depth == 0 && token.is("=") {
            return (!compares).then_some(at);
        }
        depth = token.depth_after(depth);
    }
    None
}

/// The statements of a text; several may stand in a line.
pub(super) fn statements<'a, 't>(
    tokens: &'a [PythonToken<'t>],
) -> impl Iterator<Item = &'a [PythonToken<'t>]> {
    tokens.split(|t| t.kind == TokenKind::End || t.is(";"))
}

/// The token that begins the line of a token.
pub(super) fn line_of(tokens: &[PythonToken<'_>], at: usize) -> usize {
    match (tokens.get(at), tokens.last()) {
        (Some(token), _) => at.saturating_sub(token.in_line),
        (None, Some(last)) if last.kind != TokenKind::End => {
            tokens.len().saturating_sub(last.in_line + 1)
        }
        _ => tokens.len(),
    }
}

/// The places of the tokens that begin lines.
pub(super) fn line_begins(tokens: &[PythonToken<'_>]) -> impl Iterator<Item = usize> {
    (0..tokens.len()).filter(|at| {
        at.checked_sub(1)
            .is_none_or(|at| tokens[at].kind == TokenKind::End)
    })
}

/// The brackets that are open at a place, the innermost first.
pub(super) fn brackets(tokens: &[PythonToken<'_>], at: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(bracket(tokens, at), |open| bracket(tokens, *open))
}

/// The argument of a bracket's in which a place stands.
pub(super) fn argument_with<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    open: usize,
    at: usize,
) -> Option<&'a [PythonToken<'t>]> {
    let place = tokens[at].from;
    let mut all = arguments(&tokens[open + 1..]).into_iter();
    all.find(|argument| argument.iter().any(|t| t.from == place))
}

/// The bracket that is open at a place.
pub(super) fn bracket(tokens: &[PythonToken<'_>], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for before in (0..at).rev() {
        let token = &tokens[before];
        if token.kind == TokenKind::End && depth == 0 {
            return None;
        }
        match (token.opens(), token.closes(), depth) {
            (true, _, 0) => return Some(before),
            (true, ..) => depth -= 1,
            (_, true, _) => depth += 1,
            _ => {}
        }
    }
    None
}

/// What is called with the token `at` among its arguments: the token before the bracket.
pub(super) fn callee(tokens: &[PythonToken<'_>], at: usize) -> Option<usize> {
    bracket(tokens, at)?.checked_sub(1)
}

/// The arguments of a call, of the tokens behind its bracket up to the one that closes it; empty ones are left out.
pub(super) fn arguments<'a, 't>(all: &'a [PythonToken<'t>]) -> Vec<&'a [PythonToken<'t>]> {
    until_closed(all).0
}

/// The same of a call that ends, with the byte behind its last bracket.
pub(super) fn closed_call<'a, 't>(
    all: &'a [PythonToken<'t>],
) -> Option<(Vec<&'a [PythonToken<'t>]>, usize)> {
    let (arguments, end) = until_closed(all);
    Some((arguments, end?))
}

fn until_closed<'a, 't>(all: &'a [PythonToken<'t>]) -> (Vec<&'a [PythonToken<'t>]>, Option<usize>) {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, token) in all.iter().enumerate().take(CALL) {
        let closes = token.closes();
        if depth == 0 && (closes || token.is(",")) {
            if at > start {
                found.push(&all[start..at]);
            }
            if closes {
                return (found, Some(token.to));
            }
            start = at + 1;
        }
        depth = token.depth_after(depth);
    }
    (found, None)
}

/// Whether an argument of a call is named.
pub(super) fn is_named(argument: &[PythonToken<'_>]) -> bool {
    argument.get(1).is_some_and(|t| t.is("="))
}

/// The argument of this name, or at this place.
pub(super) fn argument<'a, 't>(
    arguments: &[&'a [PythonToken<'t>]],
    name: &str,
    place: usize,
) -> Option<&'a [PythonToken<'t>]> {
    let placed = arguments.get(place).copied();
    let placed = placed.filter(|a| !is_named(a));
    keyword(arguments, name).or(placed)
}

/// The value of a keyword argument.
pub(super) fn keyword<'a, 't>(
    arguments: &[&'a [PythonToken<'t>]],
    name: &str,
) -> Option<&'a [PythonToken<'t>]> {
    arguments.iter().find_map(|argument| match argument {
        [key, equals, value @ ..] if key.is(name) && equals.is("=") && !value.is_empty() => {
            Some(value)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).iter().map(|t| t.text).collect()
    }

    #[test]
    fn strings_comments_and_continued_lines_are_what_python_takes_them_for() {
        assert_eq!(
            texts("a = f(1, 'x # no', # c\n  [2])\nb"),
            [
                "a", "=", "f", "(", "1", ",", "x # no", ",", "[", "2", "]", ")", "\n", "b"
            ]
        );
        assert_eq!(
            texts("\"\"\"DataParallel(\n\"\"\"\nx"),
            ["DataParallel(\n", "\n", "x"]
        );
        assert_eq!(texts("r'a\\'b' f'{x}'"), ["a\\'b", "f'{x}'"]);
        assert_eq!(texts("x \\\n y"), ["x", "y"]);
        assert_eq!(texts("'open\ny"), ["open", "\n", "y"]);
        assert_eq!(texts("'\\"), ["\\"]);
    }

    #[test]
    fn a_function_may_be_declared_behind_async() {
        let all = tokens("async def train(x):");
        assert_eq!(definition(&all).map(|line| line[1].text), Some("train"));
        assert_eq!(definition(&tokens("async for x in y:")), None);
    }

    #[test]
    fn a_backward_pass_may_be_lightnings() {
        assert!(calls_backward(&tokens("self.manual_backward(loss)")));
        assert!(!calls_backward(&tokens("loss.backward")));
    }
}
