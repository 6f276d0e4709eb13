//! The lines of a Python text, with the blocks in which they stand.

use super::super::python::{PythonToken, TokenKind, definition};

/// A statement, or the head of a block.
pub(super) struct CodeLine<'a, 't> {
    /// Its tokens.
    pub tokens: &'a [PythonToken<'t>],
    /// Bytes before it in its line.
    pub indent: usize,
    /// The head of the block in which it stands.
    head: Option<usize>,
    /// The line of the function in which it stands.
    pub function: Option<usize>,
}

/// A file of a program.
pub(super) struct CodeText<'a, 't> {
    /// Its path.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Its lines that are not blank.
    pub lines: Vec<CodeLine<'a, 't>>,
}

impl<'a, 't> CodeText<'a, 't> {
    pub(super) fn new(path: &'a str, text: &'a str, tokens: &'a [PythonToken<'t>]) -> Self {
        let mut lines: Vec<CodeLine<'a, 't>> = Vec::new();
        // The functions around the line that is read, the innermost last.
        let mut open: Vec<usize> = Vec::new();
        // The lines above, each further in than the one before.
        let mut above: Vec<usize> = Vec::new();
        for line in tokens.split(|t| t.kind == TokenKind::End) {
            let Some(first) = line.first() else { continue };
            let before = text.get(..first.from).unwrap_or_default();
            let indent = first.from - before.rfind('\n').map_or(0, |end| end + 1);
            while open.last().is_some_and(|at| lines[*at].indent >= indent) {
                open.pop();
            }
            while above.last().is_some_and(|at| lines[*at].indent >= indent) {
                above.pop();
            }
            lines.push(CodeLine {
                tokens: line,
                indent,
                head: above.last().copied(),
                function: open.last().copied(),
            });
            above.push(lines.len() - 1);
            if definition(line).is_some() {
                open.push(lines.len() - 1);
            }
        }
        Self { path, text, lines }
    }

    /// The heads of the blocks in which a line stands, the innermost first.
    pub(super) fn heads(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.lines[at].head, |head| self.lines[*head].head)
    }

    /// The innermost loop of its function in which a line stands.
    pub(super) fn around(&self, at: usize) -> Option<usize> {
        let function = self.lines[at].function;
        let mut heads = self.heads(at).take_while(|head| Some(*head) != function);
        heads.find(|head| ["for", "while"].contains(&self.lines[*head].tokens[0].text))
    }

    /// The lines of the block below a head.
    pub(super) fn below(&self, head: usize) -> impl Iterator<Item = usize> {
        let indent = self.lines[head].indent;
        (head + 1..self.lines.len()).take_while(move |at| self.lines[*at].indent > indent)
    }

    /// The lines of a function, or else those outside of any.
    pub(super) fn lines_of(&self, function: Option<usize>) -> Vec<usize> {
        let same = |at: &usize| self.lines[*at].function == function;
        (0..self.lines.len()).filter(same).collect()
    }

    /// The name of a function.
    pub(super) fn name_of(&self, function: usize) -> &'t str {
        let mut names = self.lines[function].tokens.iter();
        names.find(|t| t.is("def"));
        names.next().map_or("", |name| name.text)
    }

    /// The decorators of a function.
    pub(super) fn decorators(&self, function: usize) -> impl Iterator<Item = usize> {
        let above = (0..function).rev();
        above.take_while(|at| self.lines[*at].tokens[0].is("@"))
    }
}

/// A dotted name that begins at `at`, and the place behind it: `self.model`.
pub(super) fn dotted(tokens: &[PythonToken<'_>], at: usize) -> Option<(String, usize)> {
    let name = |at: usize| tokens.get(at).filter(|t| t.kind == TokenKind::Name);
    let follows = at > 0 && tokens[at - 1].is(".");
    let mut path = name(at).filter(|_| !follows)?.text.to_owned();
    let mut end = at + 1;
    while tokens.get(end).is_some_and(|t| t.is("."))
        && let Some(next) = name(end + 1)
    {
        path.push('.');
        path.push_str(next.text);
        end += 2;
    }
    Some((path, end))
}

/// The place behind the bracket that closes the one at `open`.
pub(super) fn behind_bracket(tokens: &[PythonToken<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        depth = token.depth_after(depth);
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// What a line gives a value to, and that value.
pub(super) struct GivenValue<'a, 't> {
    /// Dotted names.
    pub targets: Vec<String>,
    /// It adds to what was there: `+=`.
    pub adds: bool,
    /// The expression.
    pub value: &'a [PythonToken<'t>],
}

impl<'a, 't> GivenValue<'a, 't> {
    /// `a = …`, `a, b = …`, `a["x"] += …`, `for a in …`.
    pub(super) fn read(line: &'a [PythonToken<'t>]) -> Option<Self> {
        if line.first()?.is("for") {
            let into = line.iter().position(|t| t.is("in"))?;
            return Some(Self {
                targets: targets(&line[1..into]),
                adds: false,
                value: &line[into + 1..],
            });
        }
        let mut depth = 0;
        let equals = line.iter().enumerate().position(|(at, token)| {
            let here = depth;
            depth = token.depth_after(depth);
            let compares = |t: &PythonToken<'_>| ["=", "<", ">", "!"].iter().any(|sign| t.is(sign));
            let before = at.checked_sub(1).map(|at| &line[at]);
            let twice = line.get(at + 1).is_some_and(|t| t.is("="));
            here == 0 && token.is("=") && !twice && !before.is_some_and(compares)
        })?;
        let adds = equals > 0 && line[equals - 1].is("+");
        let names = targets(&line[..equals - usize::from(adds)]);
        (!names.is_empty()).then(|| Self {
            targets: names,
            adds,
            value: &line[equals + 1..],
        })
    }
}

/// The dotted names of a list of targets; what stands in brackets or behind a colon is none.
fn targets(tokens: &[PythonToken<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() && !tokens[at].is(":") {
        match dotted(tokens, at) {
            Some((name, end)) => {
                found.push(name);
                at = end;
            }
            None if tokens[at].is("[") && at > 0 => at = behind_bracket(tokens, at),
            None => at += 1,
        }
    }
    found
}
