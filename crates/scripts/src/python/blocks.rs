//! The blocks in which a token of Python text stands, by the indentation of its lines.

use super::{PythonToken, TokenKind, line, line_of, rest_of_line};

/// Whether the token `at` stands in a branch of its function: below `if`, `else` and the like, or in `a if b else c`.
pub(crate) fn is_conditional(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let line = line(tokens, at);
    if line.iter().skip(1).any(|t| t.is("if")) && line.iter().any(|t| t.is("else")) {
        return true;
    }
    let words = headers(tokens, at).filter(|(_, header)| !is_main(header));
    let mut words = words.map(|(_, header)| header[0].text);
    let decides = |word: &&str| {
        let of_function = ["def", "class", "async"].contains(word);
        of_function || ["if", "elif", "else", "case", "except"].contains(word)
    };
    let first = words.find(decides);
    first.is_some_and(|word| !["def", "class", "async"].contains(&word))
}

/// The word that begins the block in which the token `at` stands, with its place; None at the left margin and below `if __name__`.
pub(crate) fn block<'t>(tokens: &[PythonToken<'t>], at: usize) -> Option<(usize, &'t str)> {
    let (begin, header) = headers(tokens, at).next()?;
    (!is_main(header)).then_some((begin, header[0].text))
}

/// The lines that begin the blocks in which the token `at` stands, the innermost first, each with the place of its first token.
pub(crate) fn headers<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
) -> impl Iterator<Item = (usize, &'a [PythonToken<'t>])> {
    let mut begin = line_of(tokens, at);
    std::iter::from_fn(move || {
        let below = tokens.get(begin)?.below;
        begin = begin.checked_sub(below).filter(|_| below > 0)?;
        Some((begin, rest_of_line(&tokens[begin..])))
    })
}

/// Notes of each token where its line begins, and of each line the head of its block.
pub(crate) fn mark_lines(tokens: &mut [PythonToken<'_>]) {
    let mut begin = 0;
    for (at, token) in tokens.iter_mut().enumerate() {
        token.in_line = at - begin;
        if token.kind == TokenKind::End {
            begin = at + 1;
        }
    }
    // The lines above, each further in than the one before.
    let mut above: Vec<(usize, usize)> = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].in_line > 0 {
            continue;
        }
        let indent = indentation(tokens, at);
        let is_blank = tokens[at].kind == TokenKind::End;
        let outer = above.iter().rposition(|(_, other)| *other < indent);
        tokens[at].below = outer.map_or(0, |outer| at - above[outer].0);
        if !is_blank {
            above.truncate(outer.map_or(0, |outer| outer + 1));
            above.push((at, indent));
        }
    }
}

/// `if __name__ == "__main__"`.
pub(crate) fn is_main(header: &[PythonToken<'_>]) -> bool {
    let begins = header.first().is_some_and(|t| t.is("if"));
    begins && header.iter().any(|t| t.is("__name__"))
}

/// Whether the line behind the end `at` of another is no longer in the block that begins at `begin`.
pub(crate) fn ends_block(tokens: &[PythonToken<'_>], begin: usize, at: usize) -> bool {
    let next = tokens.get(at + 1).filter(|t| t.kind != TokenKind::End);
    next.is_some() && indentation(tokens, at + 1) <= indentation(tokens, begin)
}

/// The places of the lines of a block, without the one that begins it.
pub(crate) fn lines_in(tokens: &[PythonToken<'_>], begin: usize) -> Vec<usize> {
    let ends = (begin..tokens.len()).filter(|at| tokens[*at].kind == TokenKind::End);
    let inside = ends.take_while(|at| !ends_block(tokens, begin, *at));
    let lines = inside.map(|at| at + 1);
    let lines = lines.filter(|at| tokens.get(*at).is_some_and(|t| t.kind != TokenKind::End));
    lines.collect()
}

/// The part of a line that declares a function: from `def` on.
pub(crate) fn definition<'a, 't>(line: &'a [PythonToken<'t>]) -> Option<&'a [PythonToken<'t>]> {
    let is_async = line.first().is_some_and(|t| t.is("async"));
    let line = &line[usize::from(is_async)..];
    line.first().is_some_and(|t| t.is("def")).then_some(line)
}

/// The functions in which the token `at` stands, the innermost first: where each begins, and its line from `def` on.
pub(crate) fn functions_around<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
) -> impl Iterator<Item = (usize, &'a [PythonToken<'t>])> {
    headers(tokens, at).filter_map(|(begin, header)| Some((begin, definition(header)?)))
}

/// Whether a line begins a loop.
pub(crate) fn is_loop(header: &[PythonToken<'_>]) -> bool {
    header[0].is("for") || header[0].is("while")
}

/// Bytes between the end of the line before and the token that begins a line. What stands behind a `;` has those of what is before it.
fn indentation(tokens: &[PythonToken<'_>], begin: usize) -> usize {
    let mut begin = begin;
    while let Some(end) = begin.checked_sub(1).filter(|end| tokens[*end].is(";")) {
        begin = line_of(tokens, end);
    }
    let before = begin.checked_sub(1).map_or(0, |end| tokens[end].to);
    tokens
        .get(begin)
        .map_or(0, |t| t.from.saturating_sub(before))
}
