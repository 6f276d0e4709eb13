//! A loop over slices of the batch of one step: `for i in range(0, len(ids), args.micro_batch):`, with the step behind it.

use std::collections::BTreeSet;

use super::python::{PythonToken, TokenKind, arguments, calls, headers, lines_in, rest_of_line};

/// Calls that count.
const RANGES: [&str; 2] = ["range", "trange"];

/// The name of the width of the slices that the loop at `begin` goes over, the last argument of its `range(0, n, width)`, where no
/// optimizer steps within it.
fn width<'t>(tokens: &[PythonToken<'t>], begin: usize) -> Option<&'t str> {
    let header = rest_of_line(&tokens[begin..]);
    let range = header.iter().position(|t| RANGES.contains(&t.text))?;
    let given = arguments(header.get(range + 2..)?);
    let [[zero], _, width] = given[..] else {
        return None;
    };
    let is_path = |t: &PythonToken<'_>| t.kind == TokenKind::Name || t.is(".");
    let name = width.last().filter(|_| width.iter().all(is_path))?;
    let steps = |call: &[PythonToken<'_>]| {
        let name = call[0].text.to_lowercase();
        call[1].is("(") && (name == "step" || name.contains("step") && name.contains("opt"))
    };
    let mut inside = lines_in(tokens, begin).into_iter();
    let steps = inside.any(|at| rest_of_line(&tokens[at..]).windows(2).any(steps));
    (header[0].is("for") && zero.is("0") && !steps).then_some(name.text)
}

/// The loops over slices that go backward one by one: where each begins, and the name of its width.
fn loops<'t>(tokens: &[PythonToken<'t>]) -> impl Iterator<Item = (usize, &'t str)> {
    let backward = calls(tokens, |t| t.is("backward"));
    backward.filter_map(|at| {
        let mut around = headers(tokens, at).map(|(begin, _)| begin);
        around.find_map(|begin| Some((begin, width(tokens, begin)?)))
    })
}

/// The names of the widths of slices that go backward one by one.
pub(super) fn widths<'t>(tokens: &[PythonToken<'t>]) -> BTreeSet<&'t str> {
    loops(tokens).map(|(_, width)| width).collect()
}

/// Where the first loop over such slices begins.
pub(super) fn first_slices(tokens: &[PythonToken<'_>]) -> Option<usize> {
    loops(tokens).next().map(|(begin, _)| begin)
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn slices_of_a_batch_go_backward_before_the_step() {
        let of = |range: &str, inside: &str| {
            let text = format!(
                "for step in range(9):\n  for i in {range}:\n    loss = f(ids[i:i + args.micro])\n    {inside}\n  opt.step()\n"
            );
            let all = tokens(&text);
            let found: Vec<&str> = widths(&all).into_iter().collect();
            assert_eq!(first_slices(&all).is_some(), !found.is_empty(), "{text}");
            found.join(" ")
        };
        let slices = "range(0, len(ids), args.micro)";
        assert_eq!(of(slices, "loss.backward()"), "micro");
        assert_eq!(
            of(&slices.replace("range", "trange"), "loss.backward()"),
            "micro"
        );
        for (range, inside) in [
            (slices, "print(loss)"),
            (slices, "loss.backward(); opt.step()"),
            (slices, "loss.backward(); optimizer_step(opt)"),
            ("range(len(ids))", "loss.backward()"),
            ("range(1, len(ids), args.micro)", "loss.backward()"),
        ] {
            assert_eq!(of(range, inside), "", "{range} {inside}");
        }
    }
}
