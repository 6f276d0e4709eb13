//! What a program computes of its accumulation besides its loss: `AdamW(…, lr=args.lr / args.accum)`.
//!
//! Rule: the change raises the accumulation, so what is a multiple of it is another number. With the batch, a length or a counter of
//! micro batches beside it, it counts steps. What says when something is done, or is shown, trains nothing.

use super::super::python::{
    argument_with, brackets, callee, functions_around, is_keyword, line, line_begins,
};
use super::computed::{is_aside, neighbours, part, target_of};
use super::lines::{assignment, shows};
use super::quantities::split;
use super::{DIVISOR, LoopProgram, PythonToken, TokenKind, arguments, rest_of_line, word_list};

/// Words of lines that decide, say or go over something.
const DECIDES: [&str; 8] = word_list("if elif while for assert raise import from");
/// Calls that take so many micro batches.
const COUNTED: [&str; 5] = word_list("range islice trange take tqdm");
/// Parts of names of what follows the batch, or of what only a resumed run takes.
const FOLLOWS: [&str; 6] = word_list("batch loader dataset resume token sample");
/// Names of a batch, and of how many rows there are.
const BATCHES: [&str; 6] = word_list("len b bs bsz mbs mb");

/// Where something else than a loss is computed of the accumulation.
pub(super) fn of_accumulation(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'_>],
) -> Option<usize> {
    (0..tokens.len()).find(|at| {
        is_a_number(program, tokens, *at)
            && is_factor(tokens, *at)
            && (is_term(program, tokens, *at) || !is_known(program, tokens, *at))
    })
}

/// Whether a name is that of the accumulation, and not of a sum that grows: `loss_accum += loss.detach()`.
fn is_a_number(program: &LoopProgram<'_, '_>, tokens: &[PythonToken<'_>], at: usize) -> bool {
    const OTHERS: [&str; 5] = word_list("loss accumulated accumulator correct metric");
    let token = &tokens[at];
    let name = token.text.to_lowercase();
    let grows = |(file, at): &(usize, usize)| {
        let next = program.files[*file].get(at + 1..at + 3);
        next.is_some_and(|next| next[0].is("+") && next[1].is("="))
    };
    let is_key =
        token.kind == TokenKind::Name || at.checked_sub(1).is_some_and(|at| tokens[at].is("["));
    let is_call = tokens.get(at + 1).is_some_and(|t| t.is("(") || t.is("."));
    program.is_accumulation(token)
        && is_key
        && !is_call
        && (name != "acc" || program.accumulations.contains(&token.text))
        && !OTHERS.iter().any(|part| name.contains(part))
        && !program.places(token.text).iter().any(grows)
}

/// Whether it is multiplied, divided by, or raised.
fn is_factor(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let (before, behind) = neighbours(tokens, at);
    let scales = |at: Option<usize>| {
        at.and_then(|at| tokens.get(at))
            .is_some_and(|t| t.is("*") || t.is("/"))
    };
    let rooted = callee(tokens, at)
        .is_some_and(|at| ["sqrt", "log", "log2", "pow"].contains(&tokens[at].text));
    scales(before) || scales(behind) || rooted
}

/// Whether only one term of a sum has it: `loss = ce + 0.1 / args.accum * aux`.
fn is_term(program: &LoopProgram<'_, '_>, tokens: &[PythonToken<'_>], at: usize) -> bool {
    let own = line(tokens, at);
    let Some(sign) = assignment(own).filter(|sign| *sign == 1 && own[0].text.contains("loss"))
    else {
        return false;
    };
    let value = &own[sign + 1..];
    let adds = |at: usize| usize::from(value[at].is("+") && at > 0);
    let terms = split(value, (0, value.len()), adds);
    let has =
        |(from, to): (usize, usize)| value[from..to].iter().any(|t| program.is_accumulation(t));
    let again = value
        .iter()
        .any(|t| t.is(own[0].text) || t.is("item") || t.is("detach"));
    // `ce / accum + aux` lacks a division there.
    let weighs = |(from, to): (usize, usize)| {
        let term = value[from..to].iter();
        let weight: Vec<_> = term.take_while(|t| !program.is_accumulation(t)).collect();
        let divides = weight.iter().any(|t| t.is("/"));
        divides && weight.len() < DIVISOR && !weight.iter().any(|t| is_of_loss(t))
    };
    let (ours, others): (Vec<_>, Vec<_>) = terms
        .into_iter()
        .map(|(_, term)| term)
        .partition(|term| has(*term));
    !again && !others.is_empty() && ours.into_iter().any(weighs)
}

/// Whether such a number is known to leave training as it was.
fn is_known(program: &LoopProgram<'_, '_>, tokens: &[PythonToken<'_>], at: usize) -> bool {
    let (own, part) = (line(tokens, at), part(tokens, at));
    let word = own.first().map_or("", |t| t.text);
    let targets = assignment(own).map_or(&[][..], |sign| &own[..sign]);
    let counted = brackets(tokens, at).any(|open| {
        let called = open.checked_sub(1).map_or("", |at| tokens[at].text);
        COUNTED.contains(&called)
    });
    let is_argument = part.len() < own.len();
    DECIDES.contains(&word)
        || is_aside(tokens, at)
        || counted
        || targets
            .iter()
            .any(|t| program.is_accumulation(t) || has_part(&["resume"], t))
        || own.iter().any(|t| t.is("item"))
        || !is_argument
            && (word == "return" || own.iter().any(is_of_loss) || scales_a_loss(program, targets))
        || computed_with(tokens, at)
            .iter()
            .any(|t| follows(program, t))
        || counts(tokens, at)
        || target_of(own).is_some_and(|name| only_counts(program, name))
}

/// What a place is computed with: the argument of a call in which it stands, or what its line gives a name.
fn computed_with<'a, 't>(tokens: &'a [PythonToken<'t>], at: usize) -> &'a [PythonToken<'t>] {
    let is_call = |open: &usize| {
        let called = open.checked_sub(1).map(|at| &tokens[at]);
        called.is_some_and(|t| t.kind == TokenKind::Name && !is_keyword(t.text))
    };
    let call = brackets(tokens, at).find(is_call);
    let argument = call.and_then(|open| argument_with(tokens, open, at));
    argument.unwrap_or_else(|| {
        let own = line(tokens, at);
        assignment(own).map_or(own, |sign| &own[sign + 1..])
    })
}

/// Whether a name is of a loss, its gradients or the pass for them.
fn is_of_loss(token: &PythonToken<'_>) -> bool {
    has_part(&["loss", "backward"], token) || token.is("grad")
}

fn has_part(names: &[&str], token: &PythonToken<'_>) -> bool {
    let name = token.text.to_lowercase();
    token.kind == TokenKind::Name && names.iter().any(|part| name.contains(part))
}

/// `weight = 1 / args.accum`, with which a loss is multiplied.
fn scales_a_loss(program: &LoopProgram<'_, '_>, targets: &[PythonToken<'_>]) -> bool {
    let Some(name) = targets.iter().rfind(|t| t.kind == TokenKind::Name) else {
        return false;
    };
    let places = program.places(name.text).iter();
    let mut lines = places.map(|(file, at)| line(program.files[*file], *at));
    lines.any(|own| own.iter().any(is_of_loss))
}

/// Whether a name follows the batch or the number of rows, or is made of one that does: `per_epoch = len(rows) // batch`.
fn follows(program: &LoopProgram<'_, '_>, token: &PythonToken<'_>) -> bool {
    let does = |t: &PythonToken<'_>| {
        let name = t.text.to_lowercase();
        let is_name = [TokenKind::Name, TokenKind::Text].contains(&t.kind);
        let part = FOLLOWS.iter().any(|part| name.contains(part));
        is_name && !program.is_accumulation(t) && (part || BATCHES.contains(&name.as_str()))
    };
    let made = || {
        let made = program.made_by(token.text).into_iter();
        let mut made = made.flat_map(|(.., value)| value);
        made.any(does)
    };
    does(token) || token.kind == TokenKind::Name && !program.is_accumulation(token) && made()
}

/// Whether what stands beside it counts micro batches: `(i + 1) // args.accum` with the `i` of a loop, or an `it` that a function is
/// handed.
fn counts(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let is_target = |name: &PythonToken<'_>| {
        line_begins(tokens).any(|begin| {
            let line = rest_of_line(&tokens[begin..]);
            let targets = line.iter().take_while(|t| !t.is("in"));
            let raised = matches!(line, [.., first, plus, equals, _] if first.is(name.text) && plus.is("+") && equals.is("="));
            raised || line.first().is_some_and(|t| t.is("for")) && targets.into_iter().any(|t| t.is(name.text))
        })
    };
    let is_parameter = |name: &PythonToken<'_>| {
        const PARTS: [&str; 5] = word_list("step iter idx index micro");
        let header = functions_around(tokens, at).next();
        let given = header
            .and_then(|(_, header)| header.get(3..))
            .map(arguments);
        let mut given = given.into_iter().flatten().filter_map(|one| one.first());
        given.any(|t| t.is(name.text))
            && (has_part(&PARTS, name) || ["i", "it", "n"].contains(&name.text))
    };
    let value = computed_with(tokens, at);
    let mut names = value.iter().filter(|t| t.kind == TokenKind::Name);
    names.any(|t| is_target(t) || is_parameter(t))
}

/// Whether a name is only shown, compared, or says how many micro batches there are.
fn only_counts(program: &LoopProgram<'_, '_>, name: &str) -> bool {
    let places = program.places(name).iter();
    let mut others = places
        .filter(|(file, at)| target_of(line(program.files[*file], *at)) != Some(name))
        .peekable();
    others.peek().is_some()
        && others.all(|(file, at)| {
            let tokens = program.files[*file];
            let own = line(tokens, *at);
            let called = callee(tokens, *at).map_or("", |at| tokens[at].text);
            shows(own)
                || own.first().is_some_and(|t| DECIDES.contains(&t.text))
                || COUNTED.contains(&called)
        })
}
