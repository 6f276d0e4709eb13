//! What the expressions of a program have of a micro batch: names, members, sums, products and powers.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::quantities::{BatchQuantity, BatchValue, TextSpan, is_between, power, product, split};
use super::{LoopProgram, PythonToken, TokenKind, bracket};
use BatchQuantity::{Each, Free, Mean, Unread};
use oomctl_base::word_list;

/// Calls and members that are no value of a sample.
pub(super) const COUNTS: [&str; 13] = word_list(
    "len size shape numel dim ndim device dtype range isinstance hasattr ones_like zeros_like",
);
/// Most brackets and functions that are gone into.
const NESTED: usize = 40;

/// What functions gave: of a place, how deep it was entered, and with what.
pub(super) type EnteredValues =
    RefCell<BTreeMap<(usize, usize, usize, Vec<BatchQuantity>), BatchValue>>;

/// What reads lines in their order.
pub(super) struct QuantityReader<'r, 'a, 't> {
    pub(super) program: &'r LoopProgram<'a, 't>,
    pub(super) entered: &'r EnteredValues,
    pub(super) file: usize,
    pub(super) tokens: &'a [PythonToken<'t>],
    /// What each name has, of `self` or not.
    pub(super) names: BTreeMap<(bool, &'t str), BatchValue>,
    pub(super) returned: Option<BatchValue>,
    pub(super) backward: BatchQuantity,
    pub(super) functions: usize,
    pub(super) nested: usize,
}

impl<'r, 'a, 't> QuantityReader<'r, 'a, 't> {
    pub(super) fn new(
        program: &'r LoopProgram<'a, 't>,
        file: usize,
        entered: &'r EnteredValues,
    ) -> Self {
        Self {
            program,
            entered,
            file,
            tokens: program.files[file],
            names: BTreeMap::new(),
            returned: None,
            backward: Free,
            functions: 0,
            nested: 0,
        }
    }

    /// Gives the names of a span a value, which of one that `may` be given is one of two.
    pub(super) fn give(&mut self, (from, to): TextSpan, value: BatchValue, may: bool) {
        let tokens = self.tokens;
        let bracketed = match &tokens[from..to] {
            [first, _, ..] => first.opens(),
            _ => false,
        };
        let span = match bracketed {
            true => (from + 1, to - 1),
            false => (from, to),
        };
        let targets = split(tokens, span, |at| usize::from(tokens[at].is(",")));
        let fits = targets.len() == value.parts.len();
        if targets.len() == 1 {
            let part = tokens[span.0..span.1].iter().any(|t| t.is("["));
            if let Some(key) = self.key(span) {
                let before = self.names.get(&key).filter(|_| may || part);
                let value = before.map_or(value.clone(), |before| value.or(before));
                self.names.insert(key, value);
            }
            return;
        }
        for (number, (_, target)) in targets.into_iter().enumerate() {
            let part = value.parts.get(number).filter(|_| fits);
            let part = part.copied().unwrap_or(value.whole);
            if target.0 < target.1 {
                self.give(target, part.into(), may);
            }
        }
    }

    /// The name at the root of a target or an object: `loss`, `self.loss`, `losses["ce"]`.
    pub(super) fn key(&self, (from, to): TextSpan) -> Option<(bool, &'t str)> {
        match &self.tokens[from..to] {
            [own, dot, name, ..] if own.is("self") && dot.is(".") => Some((true, name.text)),
            [star, name] if star.is("*") => Some((false, name.text)),
            [name, ..] if name.kind == TokenKind::Name => Some((false, name.text)),
            _ => None,
        }
    }

    pub(super) fn known(&self, span: TextSpan) -> BatchValue {
        let key = self.key(span);
        let known = key.and_then(|key| self.names.get(&key));
        known.cloned().unwrap_or_default()
    }

    pub(super) fn most(&mut self, parts: Vec<(usize, TextSpan)>) -> BatchQuantity {
        let all = parts.into_iter().map(|(_, span)| self.value(span).whole);
        all.max().unwrap_or_default()
    }

    /// What an expression has of a micro batch.
    pub(super) fn value(&mut self, span: TextSpan) -> BatchValue {
        if self.nested >= NESTED || span.0 >= span.1 {
            return BatchValue::default();
        }
        self.nested += 1;
        let value = self.expression(span);
        self.nested -= 1;
        value
    }

    pub(super) fn expression(&mut self, (from, to): TextSpan) -> BatchValue {
        let tokens = self.tokens;
        let is = |at: usize, words: &[&str]| usize::from(words.iter().any(|w| tokens[at].is(w)));
        let parted = |words: &[&str]| split(tokens, (from, to), |at| is(at, words));
        if tokens[from].is("lambda") {
            return BatchValue::default();
        }
        if is(from, &["-", "+", "~", "*", "await", "not", "yield"]) == 1 && to - from == 2 {
            return self.value((from + 1, to));
        }
        let items = parted(&[","]);
        if items.len() > 1 {
            let items = items.into_iter().filter(|(_, (from, to))| from < to);
            let parts: Vec<BatchQuantity> = items.map(|(_, item)| self.value(item).whole).collect();
            let whole = parts.iter().max().copied().unwrap_or_default();
            return BatchValue { whole, parts };
        }
        if let [(_, first), (at, _), ..] = parted(&["for"])[..] {
            self.comprehended((at, to));
            return self.value(first).whole.into();
        }
        if let [(_, yes), (at, asked), (_, no)] = parted(&["if", "else"])[..] {
            let value = self.value(yes).or(&self.value(no));
            let asked = self.value(asked).whole.bent((self.file, at));
            return match asked {
                BatchQuantity::Curve(..) => value.whole.max(asked).into(),
                _ => value,
            };
        }
        let either = parted(&["and", "or"]);
        if either.len() > 1 {
            return self.most(either).into();
        }
        if parted(&["is", "in"]).len() > 1 {
            return BatchValue::default();
        }
        let compared = parted(&["<", ">", "=", "!", "&", "|", "^"]);
        if let [_, (at, _), ..] = compared[..] {
            return self.most(compared).bent((self.file, at)).into();
        }
        self.computed((from, to))
    }

    /// Binds the targets of `for a, b in c`, and of those behind it.
    pub(super) fn comprehended(&mut self, (from, to): TextSpan) {
        let tokens = self.tokens;
        let is = |at: usize, words: &[&str]| usize::from(words.iter().any(|w| tokens[at].is(w)));
        for (_, part) in split(tokens, (from, to), |at| is(at, &["for", "if", "async"])) {
            if let [(_, targets), (_, over)] = split(tokens, part, |at| is(at, &["in"]))[..] {
                let over = self.value(over).whole;
                self.give(targets, over.into(), false);
            }
        }
    }

    /// Sums, products and powers.
    pub(super) fn computed(&mut self, (from, to): TextSpan) -> BatchValue {
        let tokens = self.tokens;
        let is_sum = |at: usize| tokens[at].is("+") || tokens[at].is("-");
        let sums = split(tokens, (from, to), |at| {
            usize::from(is_sum(at) && is_between(tokens, from, at))
        });
        if sums.len() > 1 {
            return self.most(sums).into();
        }
        let factors = split(tokens, (from, to), |at| product(tokens, from, at));
        if let [(_, first), ..] = factors[..]
            && factors.len() > 1
        {
            let first = self.value(first).whole;
            let rest = factors.into_iter().skip(1);
            let all = rest.fold(first, |before, (at, span)| {
                let next = self.value(span).whole;
                let place = (self.file, at);
                let rounds = span.0 > at + 1 || tokens[at].is("%") || tokens[at].is("@");
                let both = before.times(next, tokens[at].is("/"), place);
                if rounds { both.bent(place) } else { both }
            });
            return all.into();
        }
        if is_sum(from) || tokens[from].is("~") || tokens[from].is("not") {
            return self.value((from + 1, to));
        }
        let raised = split(tokens, (from, to), |at| power(tokens, at));
        if let [_, (at, _), ..] = raised[..] {
            return self.most(raised).bent((self.file, at)).into();
        }
        self.taken((from, to))
    }

    /// A name, a member, a call, an index or a bracket.
    pub(super) fn taken(&mut self, (from, to): TextSpan) -> BatchValue {
        let tokens = self.tokens;
        let last = &tokens[to - 1];
        let open = bracket(tokens, to - 1).filter(|open| last.closes() && *open >= from);
        let (object, key) = match open {
            Some(open) if open == from => return self.bracketed((from + 1, to - 1)),
            Some(open) if last.is("]") => ((from, open), &tokens[open + 1..to - 1]),
            Some(open) => return self.called((from, open), (open + 1, to - 1)),
            None if to - from < 2 => return self.known((from, to)),
            None if tokens[to - 2].is(".") => ((from, to - 2), &tokens[to - 1..to]),
            None => return BatchValue::default(),
        };
        let is_loss = matches!(key, [one] if one.text == "loss" || one.text.ends_with("_loss"));
        if open.is_none() && tokens[from].is("self") && to - from == 3 {
            return self.known((from, to));
        }
        if open.is_none() && COUNTS.contains(&last.text) {
            return BatchValue::default();
        }
        let value = self.value(object);
        let number = match key {
            [one] if one.kind == TokenKind::Number => one.text.parse::<usize>().ok(),
            _ => None,
        };
        let part = number.and_then(|number| value.parts.get(number));
        match (part, value.whole) {
            (Some(part), _) => (*part).into(),
            (_, Unread | Each) if is_loss => Mean.into(),
            (_, whole) => whole.into(),
        }
    }

    /// `(a + b)`, `[a, b]`, `{"a": b}`
    pub(super) fn bracketed(&mut self, span: TextSpan) -> BatchValue {
        let tokens = self.tokens;
        let is = |at: usize, text: &str| usize::from(tokens[at].is(text));
        let items = split(tokens, span, |at| is(at, ","));
        let keyed = items
            .iter()
            .any(|(_, item)| split(tokens, *item, |at| is(at, ":")).len() > 1);
        if !keyed || tokens[span.0].is("lambda") {
            return self.value(span);
        }
        let values = items
            .into_iter()
            .filter_map(|(_, item)| split(tokens, item, |at| is(at, ":")).pop());
        let values = values.collect();
        self.most(values).into()
    }
}
