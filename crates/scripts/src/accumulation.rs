//! Whether a program that accumulates gradients by an option also divides its loss by it.
//!
//! A loop that only adds up losses trains otherwise with half the batch and twice the accumulation, and one that never looks at
//! its option trains with half the batch. What the text leaves open counts as divided.

use super::declared::{DeclaredOption, OF_GPUS};
use super::python::{
    PythonToken, TokenKind, bracket, callee, calls, calls_backward, is_keyword, line_of, path_begin,
};
use super::spelling::OF_EVALUATION;

/// Functions that hand nothing on.
const PLAIN: [&str; 10] = [
    "range", "int", "float", "str", "max", "min", "len", "round", "print", "vars",
];
/// Parts of the names of functions that measure the speed.
const MEASURES: [&str; 4] = ["mfu", "flops", "throughput", "tokens_per"];
/// Most names through which a value is followed.
const DEPTH: usize = 3;

/// The name under which such an option counts among the names of a program's text ([`super::CodeRule`]).
pub(super) const SUM_OF_LOSSES: &str = "<sum of losses>";

/// The name under which it counts that a batch of training is divided by an accumulation.
pub(super) const BY_ACCUMULATION: &str = "<batch by accumulation>";
/// The names under which it counts that a batch of training is divided by an accumulation, or by GPUs alone.
const DIVIDED_BATCH: [(&str, &[&str]); 2] =
    [(BY_ACCUMULATION, &["acc"]), ("<batch by GPUs>", &OF_GPUS)];
/// The same of the batch of an evaluation.
const DIVIDED_EVALUATION: &str = "<evaluation batch by GPUs>";

/// Where batches are divided: `batch_size // (accum * world)`. By which of the names it counts, the file, and the bytes of the batch.
pub(super) fn divided_batches<'f>(
    files: &'f [&[PythonToken<'_>]],
) -> impl Iterator<Item = (&'static str, usize, (usize, usize))> + 'f {
    let divided_by = |parts: &[&str], evaluates: bool| {
        let is_named = |t: &PythonToken<'_>, parts: &[&str]| {
            let name = t.text.to_lowercase();
            t.kind == TokenKind::Name && parts.iter().any(|part| name.contains(part))
        };
        files.iter().enumerate().find_map(|(number, tokens)| {
            let mut lines = tokens.split(|t| t.kind == TokenKind::End);
            lines.find_map(|line| {
                let slash = line.iter().position(|t| t.is("/"))?;
                let batch = line[..slash].iter().rfind(|t| is_named(t, &["batch"]))?;
                let mut words = batch.text.split('_');
                // `fit(batch // gpus, accum)`: the next argument divides nothing.
                let mut divisor = line[slash..].iter().take_while(|t| !t.is(","));
                let divided = divisor.any(|t| is_named(t, parts))
                    && words.any(|word| OF_EVALUATION.contains(&word)) == evaluates;
                divided.then_some((number, (batch.from, batch.to)))
            })
        })
    };
    let training = DIVIDED_BATCH.iter().find_map(|(name, parts)| {
        let (file, bytes) = divided_by(parts, false)?;
        Some((*name, file, bytes))
    });
    let evaluation = divided_by(&OF_GPUS, true);
    let evaluation = evaluation.map(|(file, bytes)| (DIVIDED_EVALUATION, file, bytes));
    training.into_iter().chain(evaluation)
}

/// The first of the `options` for accumulation by which a program with these files divides no loss: the file, and the bytes of
/// its declaration.
pub(super) fn sum_of_losses(
    files: &[&[PythonToken<'_>]],
    options: &[Vec<DeclaredOption<'_, '_>>],
) -> Option<(usize, (usize, usize))> {
    let all = options.iter().enumerate();
    let mut options = all.flat_map(|(number, options)| options.iter().map(move |o| (number, o)));
    let first = options.find(|(_, o)| o.name.contains("acc") && divides_no_loss(files, &o.name));
    first.map(|(number, option)| (number, option.range))
}

/// Whether the text shows that the value of this option divides no loss and reaches no library that may do it.
fn divides_no_loss(files: &[&[PythonToken<'_>]], name: &str) -> bool {
    let any = |holds: &dyn Fn(&[PythonToken<'_>]) -> bool| files.iter().any(|tokens| holds(tokens));
    let is_own_loop = any(&|tokens| calls_backward(tokens));
    let may_act = any(&divides_a_loss)
        || any(&|tokens| {
            tokens
                .iter()
                .any(|t| t.kind == TokenKind::Text && t.text == name)
        })
        || any(&|tokens| acts(tokens, name, 0));
    let is_used = any(&|tokens| tokens.iter().any(|t| t.is(name)));
    is_own_loop && !may_act && (is_used || !any(&|tokens| hands_all_on(tokens, files)))
}

/// `loss = loss / n`, `loss /= n`, `(loss / n).backward()`.
fn divides_a_loss(tokens: &[PythonToken<'_>]) -> bool {
    let ends = |t: &PythonToken<'_>| t.kind == TokenKind::End;
    let of_loss = |t: &PythonToken<'_>| t.kind == TokenKind::Name && t.text.contains("loss");
    tokens.split(ends).any(|line| {
        let divided = (0..line.len()).any(|at| line[at].is("/") && !is_double(line, at));
        divided && line.iter().any(of_loss)
    })
}

/// `//`, which counts steps.
fn is_double(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let is = |at: Option<usize>| at.and_then(|at| tokens.get(at)).is_some_and(|t| t.is("/"));
    is(at.checked_sub(1)) || is(Some(at + 1))
}

/// Whether a value divides something, or goes to a call that may divide by it, under this name or another.
fn acts(tokens: &[PythonToken<'_>], name: &str, depth: usize) -> bool {
    let uses = (0..tokens.len()).filter(|at| tokens[*at].is(name));
    let mut uses = uses.filter(|at| !is_measured(tokens, *at));
    uses.any(|at| {
        let divides = is_divisor(tokens, at);
        let alias = || alias(tokens, at).filter(|alias| *alias != name && depth < DEPTH);
        divides || is_handed_on(tokens, at) || alias().is_some_and(|a| acts(tokens, a, depth + 1))
    })
}

/// `x / args.n`, `x /= args.n`.
pub(super) fn is_divisor(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let first = path_begin(tokens, at);
    let before = |n: usize| first.checked_sub(n).filter(|at| tokens[*at].is("/"));
    let assigned = first.checked_sub(1).is_some_and(|at| tokens[at].is("="));
    let slash = if assigned { before(2) } else { before(1) };
    slash.is_some_and(|at| !is_double(tokens, at))
}

/// Whether it stands in a list, a map, or a call of something else than Python's own small functions.
fn is_handed_on(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let Some(open) = bracket(tokens, at) else {
        return false;
    };
    let callee = open.checked_sub(1).map(|at| &tokens[at]);
    let is_call = callee.is_some_and(|t| t.kind == TokenKind::Name && !is_keyword(t.text));
    match tokens[open].is("(") {
        true if is_call => !callee.is_some_and(|t| PLAIN.contains(&t.text)),
        // A bracket around a part of an expression.
        true => is_handed_on(tokens, open),
        false => true,
    }
}

/// Whether it goes to a function that measures the speed.
fn is_measured(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let Some(open) = bracket(tokens, at) else {
        return false;
    };
    let callee = open.checked_sub(1).map_or("", |at| tokens[at].text);
    MEASURES.iter().any(|part| callee.contains(part)) || is_measured(tokens, open)
}

/// Whether a name is of a learning rate.
pub(super) fn is_rate(name: &str) -> bool {
    let name = name.to_lowercase();
    let mut parts = name.split('_');
    parts.any(|part| part == "lr") || name.contains("learning_rate")
}

/// The name that a line gives a value.
pub(super) fn alias<'t>(tokens: &[PythonToken<'t>], at: usize) -> Option<&'t str> {
    let name = assigned_to(tokens, at)?.last()?;
    (name.kind == TokenKind::Name).then_some(name.text)
}

/// What a line gives a value, before the first sign.
pub(super) fn assigned_to<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
) -> Option<&'a [PythonToken<'t>]> {
    let line = &tokens[line_of(tokens, at)..at];
    let sign = line.iter().position(|t| t.is("="))?;
    Some(&line[..sign])
}

/// Whether all options together go to code that cannot be read.
fn hands_all_on(tokens: &[PythonToken<'_>], files: &[&[PythonToken<'_>]]) -> bool {
    let parses = |t: &PythonToken<'_>| t.is("parse_args") || t.is("parse_known_args");
    let is_defined = |name: &str| {
        files.iter().any(|tokens| {
            let mut pairs = tokens.windows(2);
            pairs.any(|pair| pair[0].is("def") && pair[1].is(name))
        })
    };
    calls(tokens, parses).any(|at| {
        let Some(all) = alias(tokens, at) else {
            return true;
        };
        (0..tokens.len()).any(|at| {
            let whole = tokens[at].is(all) && !tokens.get(at + 1).is_some_and(|t| t.is("."));
            let to = callee(tokens, at);
            let to_ours = to.is_some_and(|to| is_defined(tokens[to].text));
            whole && is_handed_on(tokens, at) && !to_ours
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::listed_options::declared_by;
    use super::super::python::tokens;
    use super::*;

    fn adds_up(body: &str) -> bool {
        let head = "p.add_argument('--grad-accum', type=int, default=1)\nargs = p.parse_args()\n";
        let text = format!("{head}{body}\n");
        let all = tokens(&text);
        sum_of_losses(&[&all], &declared_by(&[&all])).is_some()
    }

    #[test]
    fn an_option_that_divides_nothing_is_found() {
        for body in [
            "print(args)\nloss.backward()",
            "for i in range(args.grad_accum):\n  loss = f(x)\n  loss.backward()\nopt.step()",
            "loss.backward()\nif (i + 1) % args.grad_accum == 0:\n  opt.step()",
            "n = len(data) // args.grad_accum\nloss.backward()",
            "def train(a):\n  loss.backward()\ntrain(args)",
            "for i in range(args.grad_accum):\n  loss.backward()\nmfu = m.estimate_mfu(b * args.grad_accum, dt)\nlog({'mfu': mfu})",
            "k = max(1, args.grad_accum)\nfor i in range(k):\n  loss.backward()",
        ] {
            assert!(adds_up(body), "{body}");
        }
    }

    #[test]
    fn what_divides_or_may_divide_is_left_alone() {
        for body in [
            "loss = loss / args.grad_accum\nloss.backward()",
            "loss /= args.grad_accum\nloss.backward()",
            "(f(x) / args.grad_accum).backward()",
            "k = args.grad_accum\nloss = f(x) / k\nloss.backward()",
            "self.k = int(args.grad_accum)\ny = f(x) / self.k\ny.backward()",
            "a = Accelerator(gradient_accumulation_steps=args.grad_accum)\na.backward(loss)",
            "ds = {'gradient_accumulation_steps': args.grad_accum}\nengine.backward(loss)",
            "for i in range(args.grad_accum):\n  loss = total_loss / tokens\n  loss.backward()",
            "k = getattr(args, 'grad_accum')\nloss.backward()",
            "trainer = make(args)\nloss.backward()",
            "trainer.fit(range(args.grad_accum))",
        ] {
            assert!(!adds_up(body), "{body}");
        }
    }
}
