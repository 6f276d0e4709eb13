//! Which names carry a graph, and which a gradient is computed of.

use std::collections::BTreeSet;

use super::super::python::PythonToken;
use super::lines::{GivenValue, behind_bracket, dotted};
use super::program::{FunctionLines, ProgramLines};
use super::together::flowing_into;
use super::words::{frees, is_loss, names};

/// What tells the size of a tensor.
const SIZES: [&str; 2] = ["size", "shape"];

/// Packages whose functions hand graphs on.
const TENSORS: [&str; 3] = ["torch", "F", "nn"];

/// Most names through which a value is followed.
const DEPTH: usize = 4;

impl FunctionLines<'_, '_, '_> {
    /// What is given to a name in this function, where graphs are kept.
    fn given(&self, name: &str) -> impl Iterator<Item = &GivenValue<'_, '_>> {
        let places = self.places.get(name).into_iter().flatten();
        places.filter_map(|at| self.given.get(*at))
    }

    /// Whether an expression carries a graph for certain.
    pub(super) fn carries(&self, value: &[PythonToken<'_>], depth: usize) -> bool {
        if depth > DEPTH || frees(value) {
            return false;
        }
        let mut at = 0;
        while at < value.len() {
            let Some((path, end)) = dotted(value, at) else {
                at += 1;
                continue;
            };
            let is = |text: &str| value.get(end).is_some_and(|t| t.is(text));
            let (root, last) = (first(&path), self.last(&path));
            if SIZES.contains(&last) {
                at = match is("(") || is("[") {
                    true => behind_bracket(value, end),
                    false => end,
                };
                continue;
            }
            if is("(") {
                let of_name = path
                    .rsplit_once('.')
                    .is_some_and(|(object, _)| self.name_carries(object, depth));
                let of_loss = self.program.computes(last) && !self.program.nets.contains(last);
                let arguments = &value[end..behind_bracket(value, end)];
                if of_loss && self.is_of_freed(arguments, depth) {
                    at = behind_bracket(value, end);
                    continue;
                }
                if self.program.computes(last) || of_name {
                    return true;
                }
                // What an unknown function makes of a tensor is unknown.
                at = match TENSORS.contains(&root) {
                    true => end + 1,
                    false => behind_bracket(value, end),
                };
                continue;
            }
            // The name of an argument is none.
            if !is("=") && (self.name_carries(&path, depth) || self.name_carries(root, depth)) {
                return true;
            }
            at = end;
            // What picks a part of it does not become one.
            while value.get(at).is_some_and(|t| t.is("[")) {
                at = behind_bracket(value, at);
            }
        }
        false
    }

    /// Whether a loss is computed of a prediction that was detached, and of nothing that carries a graph.
    fn is_of_freed(&self, arguments: &[PythonToken<'_>], depth: usize) -> bool {
        let freed = |name: &str| {
            let mut given = self.given(name).peekable();
            given.peek().is_some() && given.all(|g| frees(g.value))
        };
        names(arguments).first().is_some_and(|name| freed(name))
            && !self.carries(arguments, depth + 1)
    }

    fn last<'p>(&self, path: &'p str) -> &'p str {
        path.rsplit('.').next().unwrap_or(path)
    }

    /// Whether a name carries a graph wherever this function gives it a value.
    fn name_carries(&self, name: &str, depth: usize) -> bool {
        if name == "self" || self.program.nets.contains(self.last(name)) {
            return false;
        }
        let known = self
            .carrying
            .borrow()
            .get(&(depth, name.to_owned()))
            .copied();
        known.unwrap_or_else(|| {
            let carries = self.is_given_graphs(name, depth);
            self.carrying
                .borrow_mut()
                .insert((depth, name.to_owned()), carries);
            carries
        })
    }

    fn is_given_graphs(&self, name: &str, depth: usize) -> bool {
        let mut given = self
            .given(name)
            .filter(|g| !g.targets.contains(&"self".to_owned()));
        let Some(one) = given.next() else {
            return false;
        };
        let rest: Vec<&GivenValue<'_, '_>> = given.collect();
        let all = || std::iter::once(one).chain(rest.iter().copied());
        let backward = self.backward.contains(name);
        let known = backward && is_loss(name);
        // A loss that comes with others may be a number for people, unless the one with a gradient is made of it.
        let with_others = !backward && is_loss(name) && all().any(|g| g.targets.len() > 1);
        if with_others {
            return all().all(|g| self.is_part_of_the_loss(g, name));
        }
        !all().any(|g| frees(g.value)) && (known || all().any(|g| self.carries(g.value, depth + 1)))
    }

    /// Whether every function of the program that is called here makes what a gradient is computed of from what it returns as
    /// `name`.
    fn is_part_of_the_loss(&self, given: &GivenValue<'_, '_>, name: &str) -> bool {
        let called = dotted(given.value, 0).filter(|(_, end)| {
            let open = given.value.get(*end).is_some_and(|t| t.is("("));
            open && behind_bracket(given.value, *end) == given.value.len()
        });
        let called = called.map(|(path, _)| self.last(&path).to_owned());
        let functions = called.and_then(|called| self.program.returned.get(called.as_str()));
        let place = |of: &dyn Fn(&String) -> bool| given.targets.iter().position(of);
        let part = place(&|target| target == name);
        let whole = place(&|target| self.backward.contains(target));
        let (Some(functions), Some(part), Some(whole)) = (functions, part, whole) else {
            return false;
        };
        let count = given.targets.len();
        let mut functions = functions.iter();
        functions.all(|f| f.count == count && f.parts.contains(&(whole, part)))
    }

    /// Names that go into what a gradient is computed of.
    pub(super) fn flowing(&self) -> BTreeSet<String> {
        flowing_into(self.text, &self.lines, self.backward.clone())
    }
}

fn first(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

impl ProgramLines<'_> {
    /// Whether a function of this name computes with weights, or a loss.
    pub(super) fn computes(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        let loss = ["criterion", "loss", "cross_entropy"];
        let loss = loss.iter().any(|word| lower.contains(word));
        (loss || self.nets.contains(name)) && !self.plain.contains(name)
    }
}
