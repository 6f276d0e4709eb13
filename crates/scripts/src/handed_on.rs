//! Names under which a program's own functions take values: in `def fit(accum)` and `fit(args.steps_per_update)`, `accum` is
//! `steps_per_update`.

use std::collections::{BTreeMap, BTreeSet};

use super::python::{PythonToken, TokenKind, arguments, calls, is_named, keyword};

/// Functions through which a value is followed.
const DEPTH: usize = 3;

/// Parameters, each with the name of a value that a call gives it.
pub(super) struct HandedOn<'t>(Vec<(&'t str, &'t str)>);

impl<'t> HandedOn<'t> {
    /// Those of a program with these files.
    pub(super) fn of(files: &[&[PythonToken<'t>]]) -> Self {
        let functions = functions(files);
        let all = files.iter().flat_map(|tokens| {
            let own = calls(tokens, |t| functions.contains_key(t.text));
            own.flat_map(|at| {
                let given = arguments(&tokens[at + 2..]);
                let declared = functions[tokens[at].text].iter();
                let taken = declared.flat_map(|parameters| taken(parameters, &given));
                taken.collect::<Vec<_>>()
            })
        });
        Self(all.collect())
    }

    /// These names, with those of the values that calls give parameters of these names.
    pub(super) fn with_sources(&self, names: BTreeSet<&'t str>) -> BTreeSet<&'t str> {
        followed(names, &self.0)
    }

    /// A name, with the parameters that take its value.
    pub(super) fn aliases<'n>(&'n self, name: &'n str) -> BTreeSet<&'n str> {
        let pairs = self
            .0
            .iter()
            .map(|(parameter, source)| (*source, *parameter));
        let pairs: Vec<_> = pairs.collect();
        followed([name].into(), &pairs)
    }
}

/// The functions of a program by name, each with its parameters.
fn functions<'t>(files: &[&[PythonToken<'t>]]) -> BTreeMap<&'t str, Vec<Vec<&'t str>>> {
    let mut all: BTreeMap<&'t str, Vec<Vec<&'t str>>> = BTreeMap::new();
    for tokens in files {
        for (at, w) in tokens.windows(3).enumerate() {
            if w[0].is("def") && w[2].is("(") {
                let list = arguments(&tokens[at + 3..]);
                let parameters = list.iter().filter_map(|parameter| parameter.first());
                let parameters = parameters.filter(|t| !t.is("self")).map(|t| t.text);
                let of_name = all.entry(w[1].text).or_default();
                of_name.push(parameters.collect());
            }
        }
    }
    all
}

/// The parameters to which a call gives values that have names, with those.
fn taken<'p, 't>(
    parameters: &'p [&'t str],
    given: &'p [&[PythonToken<'t>]],
) -> impl Iterator<Item = (&'t str, &'t str)> + 'p {
    parameters
        .iter()
        .enumerate()
        .filter_map(|(place, parameter)| {
            let by_place = given.get(place).copied().filter(|value| !is_named(value));
            let value = keyword(given, parameter).or(by_place)?;
            let is_path = value.iter().all(|t| t.kind == TokenKind::Name || t.is("."));
            let last = value.last().filter(|_| is_path)?;
            Some((*parameter, last.text))
        })
}

/// Names, with what pairs lead to from them.
fn followed<'n>(mut names: BTreeSet<&'n str>, pairs: &[(&'n str, &'n str)]) -> BTreeSet<&'n str> {
    for _ in 0..DEPTH {
        let next = pairs.iter().filter(|(from, _)| names.contains(from));
        let next: Vec<&'n str> = next.map(|(_, to)| *to).collect();
        names.extend(next);
    }
    names
}
