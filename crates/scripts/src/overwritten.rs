//! Options whose value the code gives again: `opt = parser.parse_args()`, then `opt.workers = 1`. The word says nothing any more.

use super::accumulation::alias;
use super::code_value::{CodeValue, PythonFile};
use super::declared::DeclaredOption;
use super::program_text::computed;
use super::python::{
    PythonToken, TokenKind, arguments, assigned, calls, headers, is_conditional, keyword,
    statements,
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
    if !is_own || !sign.is("=") || follows {
        return None;
    }
    if is_conditional(tokens, at) {
        // Which of the values counts depends on others: `if args.batch_size >= 16: args.accum = 4`. One that fills in what is unset, or
        // belongs to a switch, is not for a run that says something else.
        return compares(tokens, at, &option.name)
            .then(|| CodeValue::plain(computed(file, &tokens[at])));
    }
    let written = CodeValue::written(file, value).filter(|_| all.next().is_none());
    Some(written.unwrap_or_else(|| CodeValue::plain(computed(file, &tokens[at]))))
}

/// The default that code gives an option beside its declaration: `parser.set_defaults(batch_size=32)`. Of several, or where a
/// parser has others below it, nobody knows which one counts.
pub(super) fn default_set(
    files: &[PythonFile<'_>],
    option: &DeclaredOption<'_, '_>,
) -> Option<CodeValue> {
    let mut all = files.iter().flat_map(|file| {
        let places = calls(&file.tokens, |t| t.is("set_defaults"));
        places.filter_map(move |at| {
            let value = keyword(&arguments(&file.tokens[at + 2..]), &option.name)?;
            Some((file, at, value))
        })
    });
    let (file, at, value) = all.next()?;
    let is_one = all.next().is_none();
    let mut tokens = files.iter().flat_map(|file| &file.tokens);
    let is_known = is_one && !tokens.any(|t| t.is("add_subparsers"));
    let written = CodeValue::written(file, value).filter(|_| is_known);
    Some(written.unwrap_or_else(|| CodeValue::plain(computed(file, &file.tokens[at]))))
}

/// Whether a value at a place depends on a comparison of other values than this one.
fn compares(tokens: &[PythonToken<'_>], at: usize, name: &str) -> bool {
    let mut headers = headers(tokens, at);
    headers.any(|(_, header)| {
        let is_if = ["if", "elif"].iter().any(|word| header[0].is(word));
        let orders = header.iter().any(|t| t.is("<") || t.is(">"));
        let equals = header.windows(2).any(|w| w[0].is("=") && w[1].is("="));
        is_if && (orders || equals) && !header.iter().any(|t| t.is(name))
    })
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
