//! Statistics over a whole micro batch inside a model: `x - x.mean()`, `x / x.norm()`.

use super::super::python::callee;
use super::means::{behind_call, is_of_all};
use super::{PythonToken, TokenKind, bracket, headers, line_of, rest_of_line};
use oomctl_base::word_list;

/// What is one number of all places where it is told no axis.
const STATISTICS: [&str; 11] =
    word_list("mean std var norm max min amax amin median quantile std_mean");
/// Parts of names of what counts places, whose largest says only how long rows are.
const COUNTS: [&str; 5] = ["len", "idx", "index", "ids", "pos"];

/// Whether a call takes one number of a whole micro batch, with which its line or a later one of the function computes.
pub(super) fn takes_a_statistic(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let Some(first) = object(tokens, at).filter(|_| is_statistic(tokens, at)) else {
        return false;
    };
    let begin = line_of(tokens, at);
    let line = rest_of_line(&tokens[begin..]);
    let of_loss = |t: &PythonToken<'_>| t.kind == TokenKind::Name && t.text.contains("loss");
    if tokens[first].is("self") || line.iter().any(of_loss) {
        return false;
    }
    let behind = behind_call(tokens, at).first();
    let before = first.checked_sub(1).map(|at| &tokens[at]);
    if behind.is_some_and(computes) || before.is_some_and(computes) {
        return true;
    }
    // `m = x.mean()`, then `x - m`
    match line {
        [name, equals, ..] if equals.is("=") && first == begin + 2 => {
            let function = headers(tokens, at).next().map_or(0, |(begin, _)| begin);
            let later = begin + line.len()..tokens.len();
            let same = later.filter(|at| tokens[*at].is(name.text));
            let mut same = same.take_while(|at| headers(tokens, *at).any(|(b, _)| b == function));
            same.any(|at| {
                let around = [at.checked_sub(1), Some(at + 1)];
                let mut around = around.into_iter().flatten().filter_map(|at| tokens.get(at));
                around.any(computes)
            })
        }
        _ => false,
    }
}

fn computes(token: &PythonToken<'_>) -> bool {
    ["-", "/", "*"].iter().any(|sign| token.is(sign))
}

/// `x.mean()`, `torch.std(x)`, and no `lengths.max()`.
fn is_statistic(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let of = at.checked_sub(2).map_or("", |at| tokens[at].text);
    let name = of.to_lowercase();
    let counts = COUNTS.iter().any(|part| name.contains(part));
    STATISTICS.contains(&tokens[at].text) && !counts && is_of_all(tokens, at)
}

/// Where the object of a method begins: `x.abs().mean()` at `x`; of a function where its module does.
pub(super) fn object(tokens: &[PythonToken<'_>], at: usize) -> Option<usize> {
    let mut first = at;
    while let Some(before) = first.checked_sub(1) {
        let token = &tokens[before];
        let has_member = tokens[first].is(".");
        first = if token.is(".") || token.kind == TokenKind::Name && has_member {
            before
        } else if token.closes() && has_member {
            // `(…)` behind a name or alone
            let is_called =
                |at: &usize| tokens[*at].kind == TokenKind::Name && !tokens[*at].is("return");
            callee(tokens, before)
                .filter(is_called)
                .or_else(|| bracket(tokens, before))?
        } else {
            break;
        };
    }
    (first < at).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::super::python::tokens;
    use super::*;

    #[test]
    fn a_number_of_all_places_with_which_a_model_computes_is_found() {
        let takes = |forward: &str| {
            let text = format!(
                "class Net(nn.Module):\n  def forward(self, x):\n    {forward}\n    return x\n"
            );
            let all = tokens(&text);
            (0..all.len()).any(|at| takes_a_statistic(&all, at))
        };
        for forward in [
            "x = x - x.mean()",
            "x = (x - x.mean()) / x.std()",
            "x = x / x.norm()",
            "x = x / torch.norm(x)",
            "m = x.mean()\n    x = x - m",
            "x = (x - x.min()) / (x.max() - x.min())",
            "x = x * (1 / x.abs().max())",
        ] {
            assert!(takes(forward), "{forward}");
        }
        for forward in [
            "x = x - x.mean(-1, keepdim=True)",
            "x = x / self.scale.max()",
            "self.loss = self.loss + 0.1 * x.mean()",
            "m = torch.arange(lengths.max() - 1)",
            "print(x.mean())",
            "m = x.mean()\n    self.log(m)",
        ] {
            assert!(!takes(forward), "{forward}");
        }
    }
}
