//! What names of a program are made of its batch for: the accumulation, an evaluation, a learning rate.

use std::collections::BTreeSet;

use super::super::accumulation::is_rate;
use super::super::python::{
    argument_with, arguments, assigned, brackets, callee, calls, is_named, keyword, line,
};
use super::lines::{assignment, shows};
use super::{DEPTH, LoopProgram, PythonToken, TokenKind, word_list};

/// What acts by the figures of an evaluation.
pub(super) const STOPS: [&str; 2] = ["EarlyStopping", "ReduceLROnPlateau"];
/// Parts of the names of what belongs to an evaluation.
const EVALUATES: [&str; 5] = word_list("eval val valid validation test");

/// The name that a line gives a value.
pub(super) fn target_of<'t>(line: &[PythonToken<'t>]) -> Option<&'t str> {
    assignment(line).filter(|sign| *sign == 1)?;
    Some(line[0].text)
}

/// Whether a name counts the micro batches of a step or the batches of an evaluation, and nothing else.
pub(super) fn counts_only(program: &LoopProgram<'_, '_>, name: &str) -> bool {
    only_evaluates(program, name) || only_accumulates(program, name, DEPTH)
}

/// Whether a name has an evaluation in it and is only handed to one, or counts its batches: `for _ in range(eval_steps)`. The size of
/// a set that is cut off the data is none.
fn only_evaluates(program: &LoopProgram<'_, '_>, name: &str) -> bool {
    let of_evaluation = |name: &str| name.split('_').any(|part| EVALUATES.contains(&part));
    let mut places = program.places(name).iter();
    of_evaluation(name)
        && !program.uses(&STOPS)
        && places.all(|(file, at)| {
            let tokens = program.files[*file];
            let line = line(tokens, *at);
            let callee = callee(tokens, *at);
            let callee = callee.map_or("", |at| tokens[at].text);
            let evaluates = || {
                callee
                    .to_lowercase()
                    .split('_')
                    .any(|p| p.starts_with("eval") || EVALUATES.contains(&p))
            };
            target_of(line) == Some(name)
                || is_excused(program, tokens, *at)
                || callee == "range"
                || evaluates()
        })
}

/// Whether a name is used for the accumulation, and beside it only for what is shown and checked: `tokens = args.batch_size * length`
/// with `accum = args.total // tokens`.
fn only_accumulates(program: &LoopProgram<'_, '_>, name: &str, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let places = program.places(name).iter();
    let places = places.map(|(file, at)| (program.files[*file], *at));
    let used: Vec<_> = places
        .filter(|(tokens, at)| target_of(line(tokens, *at)) != Some(name))
        .collect();
    let leads = |(tokens, at): &(&[PythonToken<'_>], usize)| {
        let (line, part) = (line(tokens, *at), part(tokens, *at));
        let next = || target_of(line).is_some_and(|next| only_accumulates(program, next, depth));
        part.iter().any(|t| program.is_accumulation(t)) || part.len() == line.len() && next()
    };
    let harmless =
        |place: &(&[PythonToken<'_>], usize)| is_excused(program, place.0, place.1) || leads(place);
    // A weight of the loss is none, although the loss is divided beside it.
    let weighs = used.iter().any(|(tokens, at)| {
        let line = line(tokens, *at);
        line.iter().any(|t| t.text.contains("loss")) && !shows(line)
    });
    !weighs && used.iter().all(harmless) && used.iter().any(leads)
}

/// `args.total_batch_size`, an option that stays when a micro batch becomes smaller; but not where the program computes it.
pub(super) fn is_of_all(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'_>],
    at: usize,
) -> bool {
    let name = tokens[at].text;
    let lower = name.to_lowercase();
    let mut files = program.files.iter();
    ["total_b", "global_b", "effective_b"]
        .iter()
        .any(|part| lower.contains(part))
        && at.checked_sub(1).is_some_and(|at| tokens[at].is("."))
        && is_option(program, name)
        && program.bodies(name).is_empty()
        && !files.any(|tokens| assigned(tokens, name, true).next().is_some())
}

/// Whether a text of the program is an option of this name: `--total-batch-size`.
fn is_option(program: &LoopProgram<'_, '_>, name: &str) -> bool {
    let mut all = program.files.iter().flat_map(|tokens| tokens.iter());
    all.any(|t| {
        let option = t
            .text
            .strip_prefix("--")
            .filter(|_| t.kind == TokenKind::Text);
        option.is_some_and(|option| option.replace('-', "_") == name)
    })
}

/// `args.samples` where a loader gets it as its batch.
pub(super) fn is_loader_batch(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'_>],
    at: usize,
) -> bool {
    let member = at.checked_sub(1).is_some_and(|at| tokens[at].is("."));
    member && program.loader_batches.contains(tokens[at].text)
}

/// The names of attributes that give loaders their batch: `DataLoader(data, batch_size=args.samples)`.
pub(super) fn loader_batches<'t>(tokens: &[PythonToken<'t>]) -> Vec<&'t str> {
    let loaders = calls(tokens, |t| t.text.ends_with("DataLoader"));
    let named =
        loaders.filter_map(
            |at| match keyword(&arguments(&tokens[at + 2..]), "batch_size")? {
                [_, dot, name] if dot.is(".") => Some(name.text),
                _ => None,
            },
        );
    named.collect()
}

pub(super) fn scales_a_rate(line: &[PythonToken<'_>]) -> bool {
    let target = assignment(line).map_or(&[][..], |sign| &line[..sign]);
    target
        .iter()
        .any(|t| t.kind == TokenKind::Name && is_rate(t.text))
}

/// Whether a place stands in a line that shows or checks something, or beside the accumulation: in one argument, where it stands in
/// one that is named.
pub(super) fn is_excused(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'_>],
    at: usize,
) -> bool {
    let mut part = part(tokens, at).iter();
    is_aside(tokens, at) || part.any(|t| program.is_accumulation(t))
}

/// Whether a place stands in a line, or in a named argument, that shows or checks something.
pub(super) fn is_aside(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let checks = ["assert", "raise", "def", "class", "import", "from"];
    let line = line(tokens, at);
    let part = part(tokens, at);
    // `logging_steps` beside it shows nothing of an argument.
    let called = line.iter().position(PythonToken::opens).unwrap_or(0);
    let around = if part.len() < line.len() {
        &line[..called]
    } else {
        line
    };
    shows(around)
        || shows(part)
        || line.first().is_some_and(|t| checks.contains(&t.text))
        || is_harmless(part)
}

/// Whether an argument is a batch itself, or only says where and when something is shown or saved.
fn is_harmless(part: &[PythonToken<'_>]) -> bool {
    const PARTS: [&str; 5] = word_list("batch log save name dir");
    let name = part.first().filter(|_| is_named(part));
    name.is_some_and(|name| PARTS.iter().any(|part| name.text.contains(part)))
}

/// The named argument in which a place stands, the innermost one: `warmup_steps=1000 // a.batch_size`; else its line.
pub(super) fn part<'a, 't>(tokens: &'a [PythonToken<'t>], at: usize) -> &'a [PythonToken<'t>] {
    let around = brackets(tokens, at).filter_map(|open| argument_with(tokens, open, at));
    let mut named = around.filter(|part| is_named(part));
    named.next().unwrap_or_else(|| line(tokens, at))
}

/// `args.batch_size`, `cfg["batch_size"]`, or a name that was given one of them.
pub(super) fn is_batch(tokens: &[PythonToken<'_>], at: usize, names: &BTreeSet<&str>) -> bool {
    let token = &tokens[at];
    let name = token.text.to_lowercase();
    let is = |name: &str| {
        (name.contains("batch_size")
            || name.contains("batchsize")
            || name.contains("micro_b")
            || name.contains("batch_gpu")
            || ["bs", "bsz", "mbs"].contains(&name))
            && !["eval", "val", "test"]
                .iter()
                .any(|part| name.contains(part))
    };
    let before = |text: &str| at.checked_sub(1).is_some_and(|at| tokens[at].is(text));
    match token.kind {
        TokenKind::Name => before(".") && is(&name) || !before(".") && names.contains(token.text),
        TokenKind::Text => before("[") && is(&name),
        _ => false,
    }
}

/// The places before and behind a value with the object that it is taken of: of `accum` in `2 * args.accum`, those of `*` and of the end.
pub(super) fn neighbours(tokens: &[PythonToken<'_>], at: usize) -> (Option<usize>, Option<usize>) {
    let mut first = at;
    while first > 0
        && (tokens[first - 1].is(".")
            || tokens[first - 1].is("[")
            || first < at && tokens[first - 1].kind == TokenKind::Name)
    {
        first -= 1;
    }
    let mut last = at + 1;
    while tokens.get(last).is_some_and(|t| t.is("]")) {
        last += 1;
    }
    (first.checked_sub(1), Some(last))
}

/// Whether a place stands in an expression that computes a number.
pub(super) fn computes(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let (before, behind) = neighbours(tokens, at);
    let signs = ["*", "/", "%", "<", ">", "-"];
    let is = |at: Option<usize>| {
        at.and_then(|at| tokens.get(at))
            .is_some_and(|t| signs.iter().any(|s| t.is(s)))
    };
    let rooted = callee(tokens, at)
        .is_some_and(|at| ["sqrt", "log", "log2", "pow"].contains(&tokens[at].text));
    // `[""] * args.batch_size` makes data.
    let repeats = match &tokens[..before.map_or(0, |at| at + 1)] {
        [.., name, open, _, close, times] if times.is("*") && close.is("]") => {
            open.is("[") && name.kind != TokenKind::Name
        }
        _ => false,
    };
    !repeats && (is(before) || is(behind)) || rooted
}
