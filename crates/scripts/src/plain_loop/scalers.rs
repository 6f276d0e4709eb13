//! Objects that take a loss backward and let the optimizer step where they are told to: `loss_scaler(loss, opt, update_grad=last)`.

use std::collections::BTreeMap;

use super::super::python::{closed_call, line};
use super::lines::{assignment, calls_in, lines_in};
use super::{
    LoopProgram, PythonToken, TokenKind, argument, arguments, headers, line_of, rest_of_line,
};
use oomctl_base::{only, word_list};

/// The classes of timm that do so (timm/utils/cuda.py), with the argument that tells them, and its place.
const OF_TIMM: [&str; 2] = word_list("NativeScaler ApexScaler");
const TELLS_TIMM: (&str, usize) = ("need_update", 6);
const SCALES: [&str; 2] = word_list("GradScaler ShardedGradScaler");

/// The argument by which such an object is told to let the optimizer step, and its place.
type Told<'t> = (&'t str, usize);
/// A file, and a token.
type Place = (usize, usize);

#[derive(Default)]
pub(super) struct Scalers<'t> {
    objects: BTreeMap<&'t str, Told<'t>>,
    /// The lines of backward passes that these objects make.
    inside: Vec<Place>,
}

impl<'t> LoopProgram<'_, 't> {
    /// The objects of such classes, by name, and the places of the backward passes that only they call.
    pub(super) fn scalers(&self) -> Scalers<'t> {
        let mut found = Scalers::default();
        let classes = self.scaling_classes();
        for (class, (told, inside)) in &classes {
            let mut all = true;
            for (file, at) in self
                .places(class)
                .iter()
                .filter(|place| self.makes(**place))
            {
                let line = line(self.files[*file], *at);
                let name = assignment(line).and_then(|sign| line[..sign].last());
                // Whatever else the name may be is told in the same way.
                let same = |value: &[PythonToken<'_>]| {
                    let open = value.iter().position(|t| t.is("("));
                    let call = open.and_then(|at| Some((at, closed_call(&value[at + 1..])?.1)));
                    let last = value.last().map(|t| t.to);
                    let whole = call.filter(|(_, end)| last == Some(*end));
                    let callee = whole.and_then(|(at, _)| value[..at].last());
                    let class = callee.and_then(|t| classes.get(t.text));
                    let none = matches!(value, [none] if none.is("None"));
                    none || class.is_some_and(|(known, _)| known == told)
                };
                let is_called = |name: &str| {
                    let mut places = self.places(name).iter();
                    places.any(|place| self.makes(*place))
                };
                let name = name.filter(|t| t.kind == TokenKind::Name && is_called(t.text));
                let name =
                    name.filter(|t| self.made_by(t.text).iter().all(|(.., value)| same(value)));
                all &= name.is_some();
                found.objects.extend(name.map(|t| (t.text, *told)));
            }
            found.inside.extend(inside.filter(|_| all));
        }
        found
    }

    /// Whether a name is called at a place, and not declared.
    fn makes(&self, (file, at): (usize, usize)) -> bool {
        let tokens = self.files[file];
        let declares = |t: &PythonToken<'_>| t.is("def") || t.is("class");
        let declared = at.checked_sub(1).is_some_and(|at| declares(&tokens[at]));
        tokens.get(at + 1).is_some_and(|t| t.is("(")) && !declared
    }

    /// The classes, under all names that the program has for them.
    fn scaling_classes(&self) -> BTreeMap<&'t str, (Told<'t>, Option<Place>)> {
        let mut found = BTreeMap::new();
        let declared = self.places("__call__").iter();
        for (file, at) in declared {
            let tokens = self.files[*file];
            let class = headers(tokens, *at).next();
            let class = class.filter(|(_, header)| header[0].is("class"));
            let name = class.and_then(|(_, header)| header.get(1));
            let told = name.and_then(|_| self.told(*file, line_of(tokens, *at)));
            if let Some((name, (told, inside))) = name.zip(told)
                && self.bodies(name.text).len() == 1
            {
                found.insert(name.text, (told, Some((*file, inside))));
            }
        }
        for name in OF_TIMM {
            if self.bodies(name).is_empty() && !self.places("timm").is_empty() {
                found.insert(name, (TELLS_TIMM, None));
            }
        }
        // `from util.misc import NativeScalerWithGradNormCount as NativeScaler`
        for (name, told) in found.clone() {
            for (file, at) in self.places(name) {
                if let [sign, alias, ..] = &self.files[*file][at + 1..]
                    && sign.is("as")
                    && self.bodies(alias.text).is_empty()
                {
                    found.insert(alias.text, told);
                }
            }
        }
        found
    }

    /// What tells a `__call__`, declared on the line at `begin`, to let the optimizer step, where it takes its loss backward as it is and
    /// does nothing else without being told; with the line of its backward pass.
    fn told(&self, file: usize, begin: usize) -> Option<(Told<'t>, usize)> {
        let tokens = self.files[file];
        let header = rest_of_line(&tokens[begin..]);
        let declared = arguments(header.get(3..)?);
        let parameters: Vec<&'t str> = declared.iter().skip(1).map(|one| one[0].text).collect();
        let loss = *parameters.first()?;
        let lines = lines_in(tokens, begin);
        let condition = lines
            .iter()
            .find_map(|at| match rest_of_line(&tokens[*at..]) {
                [first, name, colon] if first.is("if") && colon.is(":") => {
                    parameters.iter().position(|known| name.is(known))
                }
                _ => None,
            })?;
        let told = parameters[condition];
        let asks = |line: &[PythonToken<'_>]| matches!(line, [first, name, _] if first.is("if") && name.is(told));
        let waits = |at: usize| {
            let mut around = headers(tokens, at).take_while(|(above, _)| *above != begin);
            around.any(|(_, header)| asks(header))
        };
        let mut backward = Vec::new();
        for at in lines.into_iter().filter(|at| !waits(*at)) {
            let line = rest_of_line(&tokens[at..]);
            let calls = calls_in(tokens, at, line.len()).next().is_some();
            let direct = headers(tokens, at)
                .next()
                .is_some_and(|(above, _)| above == begin);
            match line {
                _ if direct && self.goes_backward_as_it_is(line, loss) => backward.push(at),
                [first, ..] if first.is("else") || asks(line) => {}
                [text] if text.kind == TokenKind::Text => {}
                [first, ..] if first.is("return") && !calls => {}
                [name, equals, none]
                    if equals.is("=") && none.is("None") && !parameters.contains(&name.text) => {}
                _ => return None,
            }
        }
        Some(((told, condition), only(backward.into_iter())?))
    }

    /// `self._scaler.scale(loss).backward()`, `loss.backward()`
    fn goes_backward_as_it_is(&self, line: &[PythonToken<'_>], loss: &str) -> bool {
        let scales = |name: &str| {
            let made = self.made_by(name);
            let scales = |value: &[PythonToken<'_>]| value.iter().any(|t| SCALES.contains(&t.text));
            !made.is_empty() && made.iter().all(|(.., value)| scales(value))
        };
        let texts: Vec<&str> = line.iter().map(|t| t.text).collect();
        match texts[..] {
            [first, ".", "backward", "(", ..] => first == loss,
            [
                "self",
                ".",
                scaler,
                ".",
                "scale",
                "(",
                first,
                ")",
                ".",
                "backward",
                "(",
                ..,
            ] => first == loss && scales(scaler),
            _ => false,
        }
    }

    /// Whether a name at a place is such an object that is called.
    pub(super) fn is_scaler(&self, file: usize, at: usize) -> bool {
        let name = self.files[file][at].text;
        self.scalers.objects.contains_key(name) && self.makes((file, at))
    }

    /// Whether a backward pass is one that only such objects make.
    pub(super) fn is_of_scalers(&self, file: usize, at: usize) -> bool {
        let line = line_of(self.files[file], at);
        self.scalers.inside.contains(&(file, line))
    }

    /// What the call of such an object at a place is told.
    pub(super) fn told_at(&self, file: usize, at: usize) -> Option<&[PythonToken<'t>]> {
        let tokens = self.files[file];
        let (name, place) = self.scalers.objects.get(tokens[at].text)?;
        argument(&arguments(&tokens[at + 2..]), name, *place)
    }
}
