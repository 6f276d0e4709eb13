//! What calls give of what they are handed: functions and losses of PyTorch, and functions of the program's own.

use super::super::python::arguments;
use super::expressions::{COUNTS, QuantityReader};
use super::lines::lines_in;
use super::means::is_of_all;
use super::quantities::{BatchQuantity, BatchValue, TextSpan, split};
use super::{DEPTH, PLAIN, PythonToken, TokenKind, line_of, rest_of_line};
use BatchQuantity::{Each, Free, Mean, Unread};
use oomctl_base::word_list;

/// Calls of which a sum of multiples stays one.
const LINEAR: [&str; 58] = word_list(
    "to cuda cpu float half bfloat16 double type detach item clone contiguous squeeze unsqueeze stack cat concat concatenate tensor \
     as_tensor list tuple dict sum mean values items get pop keys scale expand zip enumerate reversed next iter copy deepcopy \
     nan_to_num append extend update add sub view reshape flatten transpose permute repeat neg gather to_device numpy tolist scale_loss full_tensor",
);
/// Losses of PyTorch, as functions and as classes.
pub(super) const LOSSES: [&str; 20] = word_list(
    "cross_entropy CrossEntropyLoss mse_loss MSELoss l1_loss L1Loss smooth_l1_loss SmoothL1Loss huber_loss HuberLoss nll_loss \
     NLLLoss binary_cross_entropy binary_cross_entropy_with_logits BCELoss BCEWithLogitsLoss kl_div KLDivLoss GaussianNLLLoss \
     gaussian_nll_loss",
);

/// What a call hands over, each by its name where it has one.
type GivenValues<'t> = [(Option<&'t str>, BatchValue)];

impl<'t> QuantityReader<'_, '_, 't> {
    /// The values that a call is handed, by their names.
    fn given(&mut self, span: TextSpan) -> Vec<(Option<&'t str>, BatchValue)> {
        let tokens = self.tokens;
        let items = split(tokens, span, |at| usize::from(tokens[at].is(",")));
        let items = items.into_iter().filter(|(_, (from, to))| from < to);
        let named = items.map(|(_, (from, to))| match &tokens[from..to] {
            [name, equals, after, ..] if equals.is("=") && !after.is("=") => {
                (Some(name.text), self.value((from + 2, to)))
            }
            [star, again, _, ..] if star.is("*") && again.is("*") => {
                (None, self.value((from + 2, to)))
            }
            [star, _, ..] if star.is("*") => (None, self.value((from + 1, to))),
            _ => (None, self.value((from, to))),
        });
        named.collect()
    }

    pub(super) fn called(&mut self, (from, open): TextSpan, span: TextSpan) -> BatchValue {
        let tokens = self.tokens;
        let at = open - 1;
        let given = self.given(span);
        let object = match at
            .checked_sub(1)
            .filter(|dot| *dot > from && tokens[*dot].is("."))
        {
            Some(dot) => (from, dot),
            None => (from, from),
        };
        let of_object = self.value(object).whole;
        let all = given.iter().map(|(_, value)| value.whole).max();
        let all = all.unwrap_or_default().max(of_object);
        let (name, place) = (tokens[at].text, (self.file, at));
        if self.program.goes_backward(self.file, at) {
            self.backward = self.backward.max(all);
            return BatchValue::default();
        }
        if ["append", "extend", "update", "insert"].contains(&name)
            && let Some(key) = self.key(object)
        {
            let held = self.names.entry(key).or_default();
            *held = std::mem::take(held).or(&all.into());
        }
        let method = object.0 < object.1;
        let known = PLAIN.contains(&name) || LINEAR.contains(&name) || COUNTS.contains(&name);
        let own = !method || tokens[from].is("self") && at == from + 2 || !known;
        let functions = if own {
            self.functions_of(name)
        } else {
            Vec::new()
        };
        if !functions.is_empty() {
            let values = functions.into_iter().map(|place| self.enter(place, &given));
            let values: Vec<BatchValue> = values.collect();
            let all = values.into_iter().reduce(|one, other| one.or(&other));
            return all.unwrap_or_default();
        }
        let reduces = ["mean", "sum"].contains(&name) && is_of_all(tokens, at);
        match name {
            _ if COUNTS.contains(&name) => BatchValue::default(),
            _ if LOSSES.contains(&name) => loss(all, &tokens[span.0..span.1], place).into(),
            "mul" | "div" | "multiply" | "divide" => {
                let given = given.iter().map(|(_, value)| value.whole);
                let times = |a: BatchQuantity, b| a.times(b, name.starts_with("div"), place);
                let values = method.then_some(of_object).into_iter().chain(given);
                values.reduce(times).unwrap_or_default().into()
            }
            "grad" => all.min(Each).into(),
            _ if reduces && all != Free => all.max(Mean).into(),
            _ if LINEAR.contains(&name) => all.into(),
            _ if PLAIN.contains(&name) => all.bent(place).into(),
            _ => self.made(name, all, &given, place),
        }
    }

    /// What an object gives that the program made, a loss or a model: `criterion(out, y)`.
    fn made(
        &mut self,
        name: &str,
        all: BatchQuantity,
        given: &GivenValues<'t>,
        place: (usize, usize),
    ) -> BatchValue {
        let mut found: Option<BatchValue> = None;
        for (.., value) in self.program.made_by(name) {
            let calls = value
                .windows(2)
                .filter(|w| w[1].is("(") && w[0].kind == TokenKind::Name);
            let own: Vec<_> = calls.flat_map(|w| self.functions_of(w[0].text)).collect();
            let of_loss = value.iter().any(|t| LOSSES.contains(&t.text));
            let own: Vec<BatchValue> = match own.is_empty() {
                true if of_loss => vec![loss(all, value, place).into()],
                _ => own
                    .into_iter()
                    .map(|place| self.enter(place, given))
                    .collect(),
            };
            found = found
                .into_iter()
                .chain(own)
                .reduce(|one, other| one.or(&other));
        }
        found.unwrap_or_else(|| all.max(Unread).into())
    }

    /// Where the functions of a name are declared, of a class what it does when it is called: the file, and their `def`.
    fn functions_of(&self, name: &str) -> Vec<(usize, usize)> {
        let places = self.program.places(name).iter();
        let declared = places.filter_map(|(file, at)| {
            let tokens = self.program.files[*file];
            let begin = at.checked_sub(1)?;
            if tokens[begin].is("def") {
                return Some((*file, begin));
            }
            let is_call = |at: &usize| {
                let name = tokens.get(at + 1).map_or("", |t| t.text);
                tokens[*at].is("def") && ["forward", "__call__"].contains(&name)
            };
            let inside = || lines_in(tokens, line_of(tokens, begin)).into_iter();
            let class = tokens[begin].is("class").then(inside)?;
            class.into_iter().find(is_call).map(|at| (*file, at))
        });
        declared.collect()
    }

    /// What a function returns for what it is given.
    fn enter(&mut self, (file, at): (usize, usize), given: &GivenValues<'t>) -> BatchValue {
        let values = || given.iter().map(|(_, value)| value.whole);
        if self.functions >= DEPTH {
            return values().max().unwrap_or_default().max(Unread).into();
        }
        let key = (file, at, self.functions, values().collect::<Vec<_>>());
        if let Some(known) = self.entered.borrow().get(&key) {
            return known.clone();
        }
        let mut reader = QuantityReader::new(self.program, file, self.entered);
        reader.functions = self.functions + 1;
        let header = rest_of_line(&reader.tokens[at..]);
        let declared = arguments(header.get(3..).unwrap_or_default());
        let names = declared.iter().filter_map(|one| one.first());
        let names = names.filter(|t| t.kind == TokenKind::Name && !t.is("self") && !t.is("cls"));
        for (place, name) in names.enumerate() {
            let named = given.iter().find(|(key, _)| *key == Some(name.text));
            let placed = || given.get(place).filter(|(key, _)| key.is_none());
            let value = named.or_else(placed).map(|(_, value)| value.clone());
            reader
                .names
                .insert((false, name.text), value.unwrap_or_default());
        }
        for line in lines_in(reader.tokens, line_of(reader.tokens, at)) {
            reader.line(line);
        }
        self.backward = self.backward.max(reader.backward);
        let mut value = reader.returned.unwrap_or_default();
        value.whole = value.whole.max(Unread);
        self.entered.borrow_mut().insert(key, value.clone());
        value
    }
}

/// What a loss of PyTorch gives: a mean, or with `reduction="none"` a value for each sample.
fn loss(all: BatchQuantity, given: &[PythonToken<'_>], place: (usize, usize)) -> BatchQuantity {
    let none = given
        .iter()
        .any(|t| t.kind == TokenKind::Text && t.text == "none");
    match all.bent(place) {
        curve @ BatchQuantity::Curve(..) => curve,
        _ if none => Each,
        _ => Mean,
    }
}
