//! Names under which a program's own functions take values: in `def fit(accum)` and `fit(args.steps_per_update)`, `accum` is
//! `steps_per_update`.

use std::collections::BTreeSet;

use super::python::{PythonToken, TokenKind, arguments, calls, is_named, keyword};

/// Functions through which a value is followed.
const DEPTH: usize = 3;

/// Parameters, each with the name of a value that a call gives it.
pub(super) struct HandedOn<'t>(Vec<(&'t str, &'t str)>);

impl<'t> HandedOn<'t> {
    /// Those of a program with these files.
    pub(super) fn of(files: &[&[PythonToken<'t>]]) -> Self {
        let mut all = Vec::new();
        for tokens in files {
            for at in 0..tokens.len() {
                let [def, name, open, ..] = &tokens[at..] else {
                    break;
                };
                if def.is("def") && open.is("(") {
                    let list = arguments(&tokens[at + 3..]);
                    let parameters = list.iter().filter_map(|parameter| parameter.first());
                    let parameters = parameters.filter(|t| !t.is("self"));
                    let parameters: Vec<&'t str> = parameters.map(|t| t.text).collect();
                    let of_function =
                        |tokens: &&[PythonToken<'t>]| given(tokens, name.text, &parameters);
                    all.extend(files.iter().flat_map(of_function));
                }
            }
        }
        Self(all)
    }

    /// These names, with those of the values that calls give parameters of these names.
    pub(super) fn with_sources(&self, mut names: BTreeSet<&'t str>) -> BTreeSet<&'t str> {
        for _ in 0..DEPTH {
            let sources = self
                .0
                .iter()
                .filter(|(parameter, _)| names.contains(parameter));
            let sources: Vec<&'t str> = sources.map(|(_, source)| *source).collect();
            names.extend(sources);
        }
        names
    }

    /// A name, with the parameters that take its value.
    pub(super) fn aliases<'n>(&'n self, name: &'n str) -> BTreeSet<&'n str> {
        let mut names = BTreeSet::from([name]);
        for _ in 0..DEPTH {
            let taken = self.0.iter().filter(|(_, source)| names.contains(source));
            let taken: Vec<&str> = taken.map(|(parameter, _)| *parameter).collect();
            names.extend(taken);
        }
        names
    }
}

/// What the calls of a function give its parameters, where that has a name.
fn given<'t>(
    tokens: &[PythonToken<'t>],
    function: &str,
    parameters: &[&'t str],
) -> Vec<(&'t str, &'t str)> {
    let is_declared = |at: usize| at > 0 && tokens[at - 1].is("def");
    let calls = calls(tokens, |t| t.is(function)).filter(|at| !is_declared(*at));
    let all = calls.flat_map(|at| {
        let given = arguments(&tokens[at + 2..]);
        let of = |(place, parameter): (usize, &&'t str)| {
            let by_place = given.get(place).copied().filter(|value| !is_named(value));
            let value = keyword(&given, parameter).or(by_place)?;
            let is_path = value.iter().all(|t| t.kind == TokenKind::Name || t.is("."));
            let last = value.last().filter(|_| is_path)?;
            Some((*parameter, last.text))
        };
        parameters
            .iter()
            .enumerate()
            .filter_map(of)
            .collect::<Vec<_>>()
    });
    all.collect()
}
