//! Whether a call makes of a micro batch something else than a mean over its samples.

use super::super::python::{
    PythonToken, TokenKind, arguments, bracket, brackets, closed_call, keyword, line_of,
    rest_of_line,
};
use super::lines::shows;
use super::{CURVE, MIXED, MODEL, SUMMED, WEIGHED};
use oomctl_base::word_list;

/// Why the call at `at` is no mean over the samples of a micro batch, each by itself.
pub(super) fn is_no_mean(tokens: &[PythonToken<'_>], at: usize) -> Option<&'static str> {
    let mixed = is_over_samples(tokens[at].text) && mixes_samples(tokens, at);
    match () {
        () if mixed || pairs(tokens, at) || is_extreme(tokens, at) => Some(MIXED),
        () if balances(tokens, at) || bends_a_mean(tokens, at) => Some(CURVE),
        () => weighs(tokens, at).or_else(|| adds_up(tokens, at)),
    }
}

/// `main.detach() / aux.detach()`: a factor by what a micro batch came to.
fn balances(tokens: &[PythonToken<'_>], at: usize) -> bool {
    if !["detach", "item"].contains(&tokens[at].text) {
        return false;
    }
    let factor = |t: Option<&PythonToken<'_>>| t.is_some_and(|t| t.is("*") || t.is("/"));
    let mut object = tokens[..at].iter().rev();
    let before = object.find(|t| !(t.is(".") || t.kind == TokenKind::Name));
    factor(behind_call(tokens, at).first()) || factor(before)
}

/// What stands behind the brackets of the call at `at`; nothing where they do not close.
pub(super) fn behind_call<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
) -> &'a [PythonToken<'t>] {
    let rest = &tokens[at + 2..];
    let end = closed_call(rest).and_then(|(_, end)| rest.iter().position(|t| t.from >= end));
    end.map_or(&[][..], |end| &rest[end..])
}

/// Of these lines, the first that puts a mean over a whole micro batch into a call: `kl = rewards.mean()`, then `sigmoid(rewards - kl)`.
pub(super) fn nests_a_mean(tokens: &[PythonToken<'_>], lines: &[usize]) -> Option<usize> {
    let whole = |line: &[PythonToken<'_>]| {
        line.windows(4).any(|w| {
            w[0].is(".") && ["mean", "sum"].contains(&w[1].text) && w[2].is("(") && w[3].is(")")
        })
    };
    let means = lines
        .iter()
        .filter_map(|at| match rest_of_line(&tokens[*at..]) {
            [name, equals, value @ ..]
                if equals.is("=") && whole(value) && !name.text.contains("loss") =>
            {
                Some((*at, name.text))
            }
            _ => None,
        });
    let means: Vec<(usize, &str)> = means.collect();
    let nests = |at: &usize| {
        let used = |of: usize| {
            let name = means
                .iter()
                .any(|(made, name)| made < at && tokens[of].is(name));
            let is_call = |open: usize| {
                open.checked_sub(1)
                    .is_some_and(|at| tokens[at].kind == TokenKind::Name)
            };
            name && brackets(tokens, of).any(is_call)
        };
        let length = rest_of_line(&tokens[*at..]).len();
        !shows(&tokens[*at..at + length]) && (*at..at + length).any(used)
    };
    lines.iter().copied().find(nests)
}

/// `x.unsqueeze(0)` beside `x.unsqueeze(1)` makes pairs of samples; `arange(len(x)) / len(x)` numbers them.
fn pairs(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let given = arguments(&tokens[at + 2..]);
    let first = |text: &str| matches!(given.first(), Some([one]) if one.is(text));
    let numbers = || {
        let next = behind_call(tokens, at).first();
        let counts = given
            .iter()
            .flat_map(|value| value.iter())
            .any(|t| COUNTS.contains(&t.text));
        counts && next.is_some_and(|t| ["/", "*", "+", "-", "<", ">"].iter().any(|sign| t.is(sign)))
    };
    match tokens[at].text {
        "unsqueeze" => first("0"),
        "arange" => numbers(),
        _ => false,
    }
}

/// Calls that go along an axis.
const ALONG: [&str; 34] = word_list(
    "mean sum max min softmax log_softmax softmin gumbel_softmax logsumexp flip roll sort argsort topk norm normalize std var \
     std_mean var_mean amax amin median quantile prod cumsum cumprod cummax cummin logcumsumexp diff Softmax LogSoftmax Softmin",
);
/// Parts of names of what has an entry for each row or axis, and where they begin is a sum; and what makes a constant.
const LENGTHS: [&str; 7] = word_list("len count num dim size _per_ tensor");

/// Modules whose functions are handed what they are of.
const MODULES: [&str; 3] = ["torch", "F", "np"];

pub(super) fn is_over_samples(name: &str) -> bool {
    ALONG.contains(&name)
}

/// The names of what a call is of, where it stands alone: `x` of `x.cumsum(0)` and of `torch.cumsum(x, 0)`.
fn object_of<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
) -> impl Iterator<Item = &'a PythonToken<'t>> {
    let before = at.checked_sub(2).map(|at| &tokens[at..=at]);
    let of_module = before.is_none_or(|of| of.iter().any(|t| MODULES.contains(&t.text)));
    let given = || arguments(&tokens[at + 2..]).first().copied();
    let of = if of_module { given() } else { before };
    of.unwrap_or_default().iter()
}

/// What may name the axes of a call, and whether it does so by its keyword: `x.mean(0)`, `torch.flip(x, dims=[0])`.
pub(super) fn axes<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
) -> impl Iterator<Item = (bool, &'a [PythonToken<'t>])> {
    let of = at.checked_sub(2).map_or("", |at| tokens[at].text);
    let skipped = usize::from(MODULES.contains(&of));
    let all = arguments(&tokens[at + 2..]).into_iter().skip(skipped);
    all.filter_map(|argument| match argument {
        [key, equals, value @ ..] if equals.is("=") => {
            let names = ["dim", "axis", "dims"].contains(&key.text);
            names.then_some((true, value))
        }
        value => Some((false, value)),
    })
}

/// Whether a call goes along the samples of a batch: `x.mean(0)`, `x.flip(dims=[0])`.
pub(super) fn mixes_samples(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let reduces = ["sum", "mean", "norm"].contains(&tokens[at].text);
    let mut of = object_of(tokens, at);
    let is_length = |t: &PythonToken<'_>| LENGTHS.iter().any(|part| t.text.contains(part));
    if tokens[at].text.starts_with("cum") && of.any(is_length) {
        return false;
    }
    axes(tokens, at).any(|(named, value)| match value {
        [one] if one.is("0") => true,
        // `x.sum(dim=dims)` may go along any.
        [one] => named && reduces && one.kind == TokenKind::Name && !one.is("None"),
        // `x.mean((0, 2))`
        [open, axes @ .., close] => {
            open.opens()
                && close.closes()
                && axes
                    .split(|t| t.is(","))
                    .any(|axis| matches!(axis, [one] if one.is("0")))
        }
        _ => false,
    })
}

/// `h @ h.t()`: each sample beside each other; weights are transposed as well.
pub(super) fn transposes_samples(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let [.., of, object, dot] = &tokens[..at] else {
        return false;
    };
    tokens[at].is("t")
        && dot.is(".")
        && object.kind == TokenKind::Name
        && !of.is(".")
        && !names_a_weight(object.text)
        && arguments(&tokens[at + 2..]).is_empty()
}

/// `losses.max()`
fn is_extreme(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let method = at.checked_sub(1).is_some_and(|at| tokens[at].is("."));
    let all = || arguments(&tokens[at + 2..]);
    method && ["max", "min"].contains(&tokens[at].text) && all().is_empty()
}

/// Whether a name is that of what all samples share.
pub(super) fn names_a_weight(name: &str) -> bool {
    const WEIGHTS: [&str; 7] = word_list("weight emb kernel proto matrix codebook expert");
    let name = name.to_lowercase();
    WEIGHTS.iter().any(|part| name.contains(part))
}

/// Parts of names of losses, which are means unless a reduction says otherwise.
pub(super) const LOSSES: [&str; 3] = word_list("loss cross_entropy criterion");
/// Functions of which a mean over samples is no mean any more.
const BENDS: [&str; 11] = word_list("sqrt rsqrt log log1p exp pow square norm clamp clip clamp_");

/// Whether a call is no mean over samples although what it is of is one: `torch.sqrt(F.mse_loss(a, b))`, `x.mean() ** 2`.
fn bends_a_mean(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let name = tokens[at].text;
    let before = |n: usize| at.checked_sub(n).map(|at| &tokens[at]);
    let of_loss = |t: &PythonToken<'_>| {
        let name = t.text.to_lowercase();
        t.kind == TokenKind::Name && LOSSES.iter().any(|part| name.contains(part))
    };
    let method = before(1).is_some_and(|t| t.is("."));
    let object = before(2).filter(|_| method);
    let power = || matches!(behind_call(tokens, at), [a, b, ..] if a.is("*") && b.is("*"));
    let raised = is_whole_mean(tokens, at) && power();
    if raised || !BENDS.contains(&name) {
        return raised;
    }
    let rest = &tokens[at + 2..];
    let end = closed_call(rest).map_or(tokens[at].to, |(_, end)| end);
    let mut inside = (at + 2..tokens.len()).take_while(|inner| tokens[*inner].to <= end);
    let of_module = object.is_none_or(|t| ["torch", "np", "math", "F"].contains(&t.text));
    let mut of_mean = || {
        inside.any(|inner| {
            let of_loss = of_loss(&tokens[inner]) && !is_unreduced(tokens, inner);
            of_loss || is_whole_mean(tokens, inner)
        })
    };
    // `x.mean().sqrt()`
    let behind_mean = || {
        let whole = |n: usize| {
            at.checked_sub(n)
                .is_some_and(|at| is_whole_mean(tokens, at))
        };
        method && before(2).is_some_and(|t| t.closes()) && (whole(4) || whole(5))
    };
    // `criterion(out, y).clamp(max=1)`
    let behind_loss = || {
        let open = before(2)
            .filter(|t| method && t.is(")"))
            .and_then(|_| bracket(tokens, at - 2));
        let called = open.and_then(|open| open.checked_sub(1));
        called.is_some_and(|at| of_loss(&tokens[at]))
    };
    object.is_some_and(of_loss) || of_module && of_mean() || behind_mean() || behind_loss()
}

/// Whether a loss gives one value for each sample: `reduction="none"`.
pub(super) fn is_unreduced(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let given = arguments(tokens.get(at + 2..).unwrap_or_default());
    let reduction = keyword(&given, "reduction");
    reduction.is_some_and(|value| matches!(value, [one] if one.text == "none"))
}

/// `x.mean()`, `torch.mean(x)`: a mean over all that there is.
fn is_whole_mean(tokens: &[PythonToken<'_>], at: usize) -> bool {
    tokens[at].is("mean") && is_of_all(tokens, at)
}

/// Whether a call is told no axis: `x.mean()`, `torch.std(x)`.
pub(super) fn is_of_all(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let is_call = tokens.get(at + 1).is_some_and(|t| t.is("("));
    let of = at.checked_sub(2).map_or("", |at| tokens[at].text);
    let most = usize::from(["torch", "np", "jnp", "linalg"].contains(&of));
    is_call && without_order(tokens, at) == most
}

/// How many arguments a call is handed; the order of a norm says nothing of its axes: `e.norm(2)`, `torch.norm(e, p=2)`.
fn without_order(tokens: &[PythonToken<'_>], at: usize) -> usize {
    let given = arguments(&tokens[at + 2..]);
    let order = |one: &&[PythonToken<'_>]| match one {
        [key, equals, ..] if equals.is("=") => ["p", "ord"].contains(&key.text),
        [one] => one.kind == TokenKind::Number || one.kind == TokenKind::Text,
        _ => false,
    };
    let numbers = given.iter().filter(|one| order(one)).count();
    given.len() - usize::from(tokens[at].is("norm") && numbers == 1)
}

/// What counts samples, or their values.
pub(super) const COUNTS: [&str; 4] = word_list("numel shape size len");
/// Most tokens behind a sum that can divide it by a count.
const DIVISOR: usize = 8;

/// Why a call that adds up a micro batch, or takes the norm of all of it, is no mean: no count of its samples divides the sum:
/// `(each * mask).sum()`.
pub(super) fn adds_up(tokens: &[PythonToken<'_>], at: usize) -> Option<&'static str> {
    let before = |n: usize, text: &str| at.checked_sub(n).is_some_and(|at| tokens[at].is(text));
    if !(tokens[at].is("sum") || tokens[at].is("norm")) || !before(1, ".") {
        return None;
    }
    if !is_of_all(tokens, at) {
        return None;
    }
    let behind = behind_call(tokens, at).iter();
    let mut behind = behind.skip_while(|t| t.closes()).take(DIVISOR);
    let next = behind.next();
    // A loss that is a sum is the same in parts; whether something divides it is asked elsewhere.
    let line = &tokens[line_of(tokens, at)..at];
    let is_loss = line.first().is_some_and(|t| t.text.ends_with("loss"));
    let whole = next.is_none_or(|t| t.kind == TokenKind::End);
    if is_loss && whole && tokens[at].is("sum") {
        return None;
    }
    let divided = next.is_some_and(|t| t.is("/"));
    let mut divisor = behind.take_while(|t| t.kind != TokenKind::End);
    match divided {
        true if divisor.any(|t| COUNTS.contains(&t.text)) => None,
        true => Some(WEIGHED),
        false if tokens[at].is("norm") => Some(MIXED),
        false => Some(SUMMED),
    }
}

/// Losses whose mean a weight of classes makes one over weights.
const CLASSES: [&str; 4] = ["CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss"];
/// Reductions that are no sum.
const REDUCTIONS: [&str; 3] = ["mean", "none", "batchmean"];

/// Why the call of a loss at `at` is no mean over its samples: `weight=classes`, `ignore_index=0`, `reduction=args.reduction`,
/// `losses[mask].mean()`.
pub(super) fn weighs(tokens: &[PythonToken<'_>], at: usize) -> Option<&'static str> {
    let all = arguments(&tokens[at + 2..]);
    let weighted = |argument: &&[PythonToken<'_>]| {
        let [key, equals, value @ ..] = argument else {
            return None;
        };
        let none = matches!(value, [one] if one.is("None"));
        match key.text {
            _ if !equals.is("=") => None,
            "reduction" => match value {
                [one] if one.kind == TokenKind::Text && one.text == "sum" => {
                    (!is_counted(tokens, at)).then_some(SUMMED)
                }
                [one] if one.kind == TokenKind::Text && REDUCTIONS.contains(&one.text) => None,
                _ => Some(MODEL),
            },
            "weight" if CLASSES.contains(&tokens[at].text) => (!none).then_some(WEIGHED),
            "ignore_index" => (!none).then_some(WEIGHED),
            _ => None,
        }
    };
    let of_a_mask = tokens[at].is("mean") && is_of_a_mask(tokens, at);
    all.iter()
        .find_map(weighted)
        .or(of_a_mask.then_some(WEIGHED))
}

/// `F.kl_div(a, b, reduction="sum") * t ** 2 / a.shape[0]`: a sum that its line divides by the count of its samples.
fn is_counted(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let behind = rest_of_line(behind_call(tokens, at));
    let plain = |t: &&PythonToken<'_>| !(t.is("+") || t.is("-"));
    let mut behind = behind.iter().take_while(plain).skip_while(|t| !t.is("/"));
    behind.any(|t| COUNTS.contains(&t.text))
}

/// `losses[mask].mean()`
fn is_of_a_mask(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let Some(before) = at.checked_sub(2).map(|end| &tokens[..=end]) else {
        return false;
    };
    let [.., close] = before else { return false };
    let open = before.iter().rposition(|t| t.is("["));
    let inner = open.map_or(&[][..], |open| &before[open + 1..before.len() - 1]);
    let is_name = |t: &PythonToken<'_>| t.kind == TokenKind::Name && !t.is("None");
    close.is("]")
        && inner.first().is_some_and(is_name)
        && !inner.iter().any(|t| t.is(":") || t.is(","))
}
