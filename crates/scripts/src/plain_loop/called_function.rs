//! Functions of a program and their calls: the one in which the backward pass stands, and what each is handed.

use super::super::python::{
    PythonToken, TokenKind, argument, arguments, bracket, calls, definition, functions_around,
    headers, is_loop,
};
use super::LoopProgram;
use super::lines::lines_in;
use oomctl_base::only;

/// A function that a loop over micro batches calls, and in which the backward pass stands.
pub(super) struct CalledFunction<'a, 't> {
    pub(super) name: &'t str,
    /// The places of its lines.
    pub(super) lines: Vec<usize>,
    /// Its parameters, each with what the call hands it.
    pub(super) parameters: Vec<(&'t str, Option<&'a [PythonToken<'t>]>)>,
    begin: usize,
    call: usize,
}

impl<'a, 't> CalledFunction<'a, 't> {
    /// The function around a place, if one place of its file calls it.
    pub(super) fn around(tokens: &'a [PythonToken<'t>], at: usize) -> Option<Self> {
        let (begin, header) = functions_around(tokens, at).next()?;
        let [_, name, ..] = header else { return None };
        let call = only(calls(tokens, |t| t.is(name.text)))?;
        let declared = arguments(header.get(3..)?);
        let names = declared.iter().filter_map(|one| one.first());
        let is_name = |t: &&PythonToken<'t>| t.kind == TokenKind::Name && !t.is("self");
        let given = arguments(&tokens[call + 2..]);
        let bound = names.filter(is_name).enumerate();
        let bound = bound.map(|(place, name)| (name.text, argument(&given, name.text, place)));
        Some(Self {
            name: name.text,
            lines: lines_in(tokens, begin),
            parameters: bound.collect(),
            begin,
            call,
        })
    }

    /// Where the loop begins that calls it, by its name or as a method of its own object.
    pub(super) fn in_loop(&self, tokens: &[PythonToken<'_>]) -> Option<usize> {
        let before = |n: usize| self.call.checked_sub(n).map_or("", |at| tokens[at].text);
        let class = |at: usize| headers(tokens, at).find(is_class).map(|(begin, _)| begin);
        let ours = before(1) != "." || before(2) == "self";
        if !ours || class(self.call) != class(self.begin) {
            return None;
        }
        let around = headers(tokens, self.call);
        let mut around = around.take_while(|(_, header)| definition(header).is_none());
        let found = around.find(|(_, header)| is_loop(header));
        found.map(|(begin, _)| begin)
    }
}

/// Most calls whose arguments are followed.
const CALLS: usize = 8;

impl<'a, 't> LoopProgram<'a, 't> {
    /// What the calls of functions hand them under a name; nothing where a call hands over something else, or there are many.
    pub(super) fn handed_to(&self, name: &str) -> Vec<(usize, usize, &'a [PythonToken<'t>])> {
        let functions = self.places(name).iter().filter_map(|(file, at)| {
            let tokens = self.files[*file];
            let open = bracket(tokens, *at)?;
            let declares = open.checked_sub(2).is_some_and(|at| tokens[at].is("def"));
            let declared = arguments(&tokens[open + 1..]);
            let of_self = declared.first().is_some_and(|one| one[0].is("self"));
            let place = declared.iter().position(|one| one[0].is(name))?;
            let place = place.checked_sub(usize::from(of_self))?;
            let function = tokens[open.checked_sub(1)?].text;
            // A class is called by its name.
            let class = headers(tokens, *at).find(is_class);
            let class = class.and_then(|(_, header)| header.get(1));
            let called = match function {
                "__init__" => class?.text,
                function => function,
            };
            declares.then_some((called, place))
        });
        let mut found = Vec::new();
        for (function, place) in functions {
            let called = self.places(function).iter().filter(|(file, at)| {
                let tokens = self.files[*file];
                let before = at.checked_sub(1).map(|at| &tokens[at]);
                let declared = before.is_some_and(|t| t.is("def") || t.is("class"));
                !declared && tokens.get(at + 1).is_some_and(|t| t.is("("))
            });
            for (file, at) in called {
                match self.given(*file, *at, name, place) {
                    // A function hands its own parameter on.
                    Some((_, _, [one])) if one.is(name) => {}
                    Some(given) if found.len() < CALLS => found.push(given),
                    _ => return Vec::new(),
                }
            }
        }
        found
    }

    /// What a call hands a function under a name.
    fn given(
        &self,
        file: usize,
        at: usize,
        name: &str,
        place: usize,
    ) -> Option<(usize, usize, &'a [PythonToken<'t>])> {
        let tokens = self.files[file];
        let given = argument(&arguments(&tokens[at + 2..]), name, place)?;
        let from = tokens.iter().position(|t| t.from == given[0].from)?;
        Some((file, from, &tokens[from..from + given.len()]))
    }
}

fn is_class((_, header): &(usize, &[PythonToken<'_>])) -> bool {
    header[0].is("class")
}
