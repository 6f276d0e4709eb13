//! Options that a program calls as it likes, known by what it does with them.

use std::collections::BTreeSet;

use super::accumulation::{BY_ACCUMULATION, is_divisor};
use super::declared::DeclaredOption;
use super::handed_on::HandedOn;
use super::python::{
    PythonToken, TokenKind, arguments, assignment, calls, line, line_of, lines_in, rest_of_line,
};

/// What takes the next data.
const NEXT: [&str; 5] = ["next", "next_batch", "get_batch", "get_batches", "sample"];
/// Calls that cut a batch.
const CUTS: [&str; 4] = ["chunk", "split", "tensor_split", "array_split"];

/// The options that accumulate, by their names or by their use.
pub(super) fn accumulations<'o>(
    files: &[&[PythonToken<'_>]],
    options: &'o [Vec<DeclaredOption<'_, '_>>],
) -> Vec<&'o str> {
    let used = used_accumulations(files);
    let names = options.iter().flatten().map(|o| o.name.as_str());
    let names = names.filter(|name| name.contains("acc") || used.contains(name));
    names.collect()
}

/// Names of values that are an accumulation by their use: a loss is divided by them before it goes backward, and a step waits for them
/// or a loop over micro batches goes over them. A loss that is only shown is divided by an interval of its log.
pub(super) fn used_accumulations<'t>(files: &[&[PythonToken<'t>]]) -> BTreeSet<&'t str> {
    let mut found = BTreeSet::new();
    let backward = backward(files);
    for tokens in files {
        let names = (0..tokens.len()).filter(|at| tokens[*at].kind == TokenKind::Name);
        let names = names.filter(|at| !is_size(tokens[*at].text));
        let divides = names.filter(|at| is_divisor(tokens, *at));
        let divides = divides.filter(|at| goes_backward(&backward, tokens, *at));
        found.extend(divides.map(|at| tokens[at].text));
    }
    let is_counted = |name: &str, tokens: &[PythonToken<'_>]| {
        let mut places = (0..tokens.len()).filter(|at| tokens[*at].is(name));
        places.any(|at| counts(tokens, at, cuts(files, |t| t.is(name))))
    };
    found.retain(|name| files.iter().any(|tokens| is_counted(name, tokens)));
    HandedOn::of(files).with_sources(found)
}

/// Whether a name is of a number of samples, not of batches. A loop over it goes over samples.
fn is_size(name: &str) -> bool {
    let name = name.to_lowercase();
    let counts = ["batches", "chunk", "split", "acc"];
    name.contains("batch") && !counts.iter().any(|part| name.contains(part))
}

/// Whether a batch is cut by such a number: `torch.chunk(data, args.n)`, `x.split(len(x) // args.n)`.
pub(super) fn cuts(
    files: &[&[PythonToken<'_>]],
    is_number: impl Fn(&PythonToken<'_>) -> bool,
) -> bool {
    let mut cuts = files.iter().map(|tokens| cut_by(tokens, &is_number));
    cuts.any(|number| number.is_some())
}

/// The first such number by which a text cuts a batch.
fn cut_by<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    is_number: impl Fn(&PythonToken<'_>) -> bool,
) -> Option<&'a PythonToken<'t>> {
    let mut cuts = calls(tokens, |t| CUTS.contains(&t.text));
    cuts.find_map(|at| {
        let given = arguments(tokens.get(at + 2..).unwrap_or_default());
        given.into_iter().flatten().find(|t| is_number(t))
    })
}

/// Where a batch is cut into as many parts as an option accumulates: the file, and the bytes of the number.
pub(super) fn cut_batch(
    files: &[&[PythonToken<'_>]],
    options: &[Vec<DeclaredOption<'_, '_>>],
) -> Option<(&'static str, usize, (usize, usize))> {
    let handed_on = HandedOn::of(files);
    let names = accumulations(files, options).into_iter();
    let names: BTreeSet<&str> = names.flat_map(|name| handed_on.aliases(name)).collect();
    files.iter().enumerate().find_map(|(file, tokens)| {
        let is_number = |t: &PythonToken<'_>| t.kind == TokenKind::Name && names.contains(t.text);
        let number = cut_by(tokens, is_number)?;
        Some((BY_ACCUMULATION, file, (number.from, number.to)))
    })
}

/// The names that go backward: `loss.backward()`, `accelerator.backward(loss)`.
fn backward<'t>(files: &[&[PythonToken<'t>]]) -> BTreeSet<&'t str> {
    let named = files.iter().flat_map(|tokens| {
        let all = calls(tokens, |t| t.is("backward"));
        all.flat_map(|at| [at.checked_sub(2), Some(at + 2)].map(|at| tokens.get(at?)))
    });
    named.flatten().map(|t| t.text).collect()
}

/// Whether what the line of a place gives a value, or what it is, goes backward.
fn goes_backward(backward: &BTreeSet<&str>, tokens: &[PythonToken<'_>], at: usize) -> bool {
    let line = line(tokens, at);
    let target = assignment(line).map(|_| line[0].text);
    line.iter().any(|t| t.is("backward")) || target.is_some_and(|name| backward.contains(name))
}

/// `(i + 1) % n`, or `for micro in range(n)` around a backward pass.
/// A batch that is not cut into as many chunks takes further data there.
fn counts(tokens: &[PythonToken<'_>], at: usize, is_cut: bool) -> bool {
    let begin = line_of(tokens, at);
    let line = &tokens[begin..at];
    let rest = || line.iter().any(|t| t.is("%"));
    let loops = || {
        let inside = lines_in(tokens, begin).into_iter();
        let inside = inside.flat_map(|at| rest_of_line(&tokens[at..]));
        let names = inside.filter(|t| t.kind == TokenKind::Name);
        // One that takes no further data goes over something else than micro batches.
        let has = |wanted: &[&str]| names.clone().any(|t| wanted.contains(&t.text));
        has(&["backward"]) && (is_cut || has(&NEXT))
    };
    let ranges = || line.iter().any(|t| t.is("range"));
    // `for part in x.chunk(n)`
    let goes_over_parts = || is_cut && line.iter().any(|t| CUTS.contains(&t.text)) && loops();
    let is_loop = line.first().is_some_and(|t| t.is("for"));
    rest() || is_loop && (ranges() && loops() || goes_over_parts())
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn an_accumulation_is_known_by_its_use() {
        let is = |text: &str| used_accumulations(&[&tokens(text)]).contains("every");
        for text in [
            "loss = f(x) / args.every\nloss.backward()\nif (i + 1) % args.every == 0:\n  opt.step()\n",
            "for _ in range(self.every):\n  loss = self.model(next(dl))\n  (loss / self.every).backward()\n",
            "def fit(n):\n  for i, x in enumerate(dl):\n    (f(x) / n).backward()\n    if (i + 1) % n == 0: opt.step()\nfit(args.every)\n",
            "for _ in range(every):\n  with ctx():\n    loss = f(next(x))\n    loss = loss / every\n    acc.backward(loss)\n",
        ] {
            assert!(is(text), "{text}");
        }
        let chunks =
            "for i in range(a.batch_chunk):\n  loss = f(x[i]) / a.batch_chunk\n  loss.backward()\n";
        let cut = format!("x = torch.chunk(x, a.batch_chunk, 1)\n{chunks}");
        for (text, is) in [(chunks, false), (&cut, true)] {
            let used = used_accumulations(&[&tokens(text)]).contains("batch_chunk");
            assert_eq!(used, is, "{text}");
        }
        for text in [
            "loss.backward()\ntotal += loss.item()\nif i % args.every == 0:\n  print(total / args.every)\n",
            "shown = loss / args.every\nloss.backward()\nif i % args.every == 0:\n  print(shown)\n",
            "loss = f(x) / args.every\nloss.backward()\n",
            "loss = f(x) /",
            "for k in range(args.every):\n  loss = f(x[k:]) / args.every\n  loss.backward()\n",
        ] {
            assert!(!is(text), "{text}");
        }
        let batch = "for i in range(batch_size):\n  (f(x) / batch_size).backward()\n";
        assert!(!used_accumulations(&[&tokens(batch)]).contains("batch_size"));
    }
}
