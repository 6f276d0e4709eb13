//! Options whose value the code gives again: `opt = parser.parse_args()`, then `opt.workers = 1`. The word says nothing any more.

use super::accumulation::alias;
use super::code_value::{CodeValue, PythonFile};
use super::declared::DeclaredOption;
use super::program_text::computed;
use super::python::{
    PythonToken, TokenKind, arguments, assigned, calls, headers, is_conditional, statements,
};

/// The value that code gives an option whatever the words say.
pub(super) fn overwritten(
    files: &[PythonFile<'_>],
    option: &DeclaredOption<'_, '_>,
) -> Option<CodeValue> {
    if option.is_parameter {
        return None;
    }
    let mut all = files.iter().flat_map(|file| {
        let places = assigned(&file.tokens, &option.name, true);
        places.map(move |at| (file, at))
    });
    let (file, at) = all.next()?;
    let parsed: Vec<&str> = files.iter().flat_map(parsed).collect();
    let tokens = &file.tokens;
    let object = at.checked_sub(2).map(|at| &tokens[at])?;
    let begins = at
        .checked_sub(3)
        .is_none_or(|at| tokens[at].kind == TokenKind::End || tokens[at].is(";"));
    let is_own = begins && parsed.contains(&object.text);
    let rest = tokens.get(at + 1..)?;
    let (sign, rest) = rest.split_first()?;
    let value = statements(rest).next().unwrap_or_default();
    // What it computes of the word still follows it.
    let follows = value.iter().any(|t| t.text == option.name);
    if !is_own || !sign.is("=") || follows || is_conditional(tokens, at) {
        return None;
    }
    let written = CodeValue::written(file, value).filter(|_| all.next().is_none());
    Some(written.unwrap_or_else(|| CodeValue::plain(computed(file, &tokens[at]))))
}

/// The names of what parsers return.
fn parsed<'t>(file: &PythonFile<'t>) -> Vec<&'t str> {
    let tokens = &file.tokens;
    // `cli` is tyro's.
    let parses = |t: &PythonToken<'_>| ["parse_args", "parse_known_args", "cli"].contains(&t.text);
    let calls = calls(tokens, parses);
    calls.filter_map(|at| alias(tokens, at)).collect()
}

/// Whether the options that were read get other values, whatever they are: `for k, v in settings.items(): setattr(args, k, v)`,
/// `vars(args).update(settings)`, `args.__dict__.update(settings)`.
pub(super) fn sets_all(file: &PythonFile<'_>) -> bool {
    let (tokens, parsed) = (&file.tokens, parsed(file));
    let is_parsed = |t: &PythonToken<'_>| parsed.contains(&t.text);
    let updated = tokens.windows(7).any(|w| {
        let by_vars = w[0].is("vars") && is_parsed(&w[2]) && w[5].is("update");
        by_vars || is_parsed(&w[0]) && w[2].is("__dict__") && w[4].is("update")
    });
    if updated {
        return true;
    }
    let mut sets = calls(tokens, |t| t.is("setattr"));
    sets.any(|at| {
        let given = arguments(&tokens[at + 2..]);
        let of_options = matches!(given.first(), Some([one]) if parsed.contains(&one.text));
        let around = headers(tokens, at).next();
        of_options && around.is_some_and(|(_, header)| header[0].is("for"))
    })
}
