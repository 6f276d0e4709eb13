//! Values without samples: parameters of a model.

use super::super::python::closed_call;
use super::statistics::object;
use super::{LoopProgram, PythonToken, TokenKind, arguments, headers, rest_of_line};

impl LoopProgram<'_, '_> {
    /// Whether a call is of parameters alone: `q.pow(2).sum()` with `for q in model.parameters()`, `log_var.sum()`.
    pub(super) fn is_of_parameters(&self, file: usize, at: usize) -> bool {
        let tokens = self.files[file];
        let first = object(tokens, at).unwrap_or(at);
        let modules = ["torch", "np", "math", "F", "linalg"];
        let of_module = at
            .checked_sub(2)
            .is_none_or(|of| modules.contains(&tokens[of].text));
        let given = arguments(&tokens[at + 2..]);
        let parts: Vec<&[PythonToken<'_>]> = match of_module || first == at {
            true => given,
            false => [&tokens[first..at - 1]].into_iter().chain(given).collect(),
        };
        let mut names = parts.iter().flat_map(|part| data(part)).peekable();
        names.peek().is_some() && names.all(|t| self.is_parameter(file, at, t))
    }

    /// Whether a name is that of a parameter, or goes over those of a model.
    fn is_parameter(&self, file: usize, at: usize, name: &PythonToken<'_>) -> bool {
        let tokens = self.files[file];
        let of_model = |all: &[PythonToken<'_>]| {
            let all = all.iter();
            let names = ["parameters", "named_parameters"];
            all.take_while(|t| !t.is("if"))
                .any(|t| names.contains(&t.text))
        };
        let goes_over = |line: &[PythonToken<'_>]| {
            let targets = line.iter().take_while(|t| !t.is("in")).count();
            let is_target = line[..targets].iter().any(|t| t.is(name.text));
            // `for q, o in zip(model.parameters(), outs)` goes over something else, too.
            let beside = line.iter().any(|t| t.is("zip"));
            is_target && !beside && of_model(&line[targets..])
        };
        // `for q in model.parameters()`, in a bracket or before a block.
        let rest = rest_of_line(&tokens[at..]);
        let own = rest.iter().position(|t| t.is("for"));
        let own = own.and_then(|own| rest.get(own..));
        let made = self.made_by(name.text);
        let makes = |value: &[PythonToken<'_>]| {
            let path = value.iter().take_while(|t| !t.opens()).count();
            let given = value.get(path + 1..).and_then(closed_call);
            let whole = given.is_some_and(|(_, end)| value.last().is_some_and(|t| t.to == end));
            whole && begins_as_parameter(value)
        };
        own.is_some_and(goes_over)
            || headers(tokens, at).any(|(_, header)| header[0].is("for") && goes_over(header))
            || !made.is_empty() && made.iter().all(|(.., value)| makes(value))
    }
}

/// `nn.Parameter(…)`: whether a value begins with it.
pub(in super::super) fn begins_as_parameter(value: &[PythonToken<'_>]) -> bool {
    let head = value.iter().take_while(|t| !t.opens());
    head.last().is_some_and(|t| t.is("Parameter"))
}

/// The names in a value that stand for data: of `q.pow(2)` and `model.q` it is `q`.
fn data<'a, 't>(value: &'a [PythonToken<'t>]) -> impl Iterator<Item = &'a PythonToken<'t>> {
    let is = |at: usize, text: &str| value.get(at).is_some_and(|t| t.is(text));
    let own = value.iter().take_while(|t| !t.is("for")).enumerate();
    let named = own.filter(move |(at, token)| {
        let key = is(at + 1, "=");
        let of = is(at + 1, ".") && !is(at + 3, "(");
        token.kind == TokenKind::Name && !is(at + 1, "(") && !key && !of
    });
    named.map(|(_, token)| token)
}
