//! Curves over the mean of a micro batch, whatever names and functions it went through: `ce = F.cross_entropy(out, y)`, then
//! `(1 - torch.exp(-ce)) ** 2 * ce`.
//!
//! Rule: what a mean goes through on its way into the loss is followed. Sums, multiples and what hands a value on leave a mean a mean; any
//! other known function makes a curve of it, and so does a product with another value of the micro batch.

use super::super::python::is_conditional;
use super::expressions::{EnteredValues, QuantityReader};
use super::lines::assignment;
use super::quantities::{BatchQuantity, TextSpan, split};
use super::{CURVE, DoubtPlace, LoopOfBatches, PythonToken, TokenKind, rest_of_line};

/// Most tokens of a line that is read.
const LONG: usize = 600;

impl LoopOfBatches<'_, '_> {
    /// Where a mean over the micro batch goes through a curve before it goes backward.
    pub(super) fn curve(&self) -> Option<DoubtPlace> {
        let entered = EnteredValues::default();
        let mut reader = QuantityReader::new(self.program, self.file, &entered);
        let header = self.line(self.begin);
        let targets = header.iter().take_while(|t| !t.is("in"));
        let names = targets.filter(|t| t.kind == TokenKind::Name && !t.is("self"));
        // `num_items_in_batch` is a count.
        let counts = |name: &str| self.is_counter(name) || name.starts_with("num_");
        for name in names.filter(|t| !counts(t.text)) {
            reader
                .names
                .insert((false, name.text), BatchQuantity::Each.into());
        }
        let mut function = self.function.as_ref();
        for at in &self.lines {
            if let Some(entered) = function.filter(|f| f.lines.contains(at)) {
                reader.bind(&entered.parameters);
                function = None;
            }
            reader.line(*at);
        }
        let is_step = header.first().is_some_and(|t| t.is("def"));
        let returned = reader.returned.filter(|_| is_step).unwrap_or_default();
        match reader.backward.max(returned.whole) {
            BatchQuantity::Curve(file, at) => Some((CURVE, file, at)),
            _ => None,
        }
    }
}

impl<'a, 't> QuantityReader<'_, 'a, 't> {
    /// Gives parameters what a call hands them.
    fn bind(&mut self, parameters: &[(&'t str, Option<&'a [PythonToken<'t>]>)]) {
        for (name, given) in parameters {
            let first = given.and_then(|given| given.first());
            let from = first.and_then(|t| self.tokens.iter().position(|own| own.from == t.from));
            let length = given.map_or(0, <[_]>::len);
            let value = from.map(|from| self.value((from, from + length)));
            self.names.insert((false, name), value.unwrap_or_default());
        }
    }

    pub(super) fn line(&mut self, begin: usize) {
        let tokens = self.tokens;
        let length = rest_of_line(&tokens[begin..]).len();
        let end = begin + length;
        if length == 0 || length > LONG {
            return;
        }
        let is = |at: usize, text: &str| usize::from(tokens[at].is(text));
        match tokens[begin].text {
            "return" => {
                let value = self.value((begin + 1, end));
                let value = match self.returned.take() {
                    Some(before) => before.or(&value),
                    None => value,
                };
                self.returned = Some(value);
            }
            "for" => {
                let end = end - is(end - 1, ":");
                self.comprehended((begin, end));
            }
            "with" => {
                let end = end - is(end - 1, ":");
                for (_, item) in split(tokens, (begin + 1, end), |at| is(at, ",")) {
                    let parts = split(tokens, item, |at| is(at, "as"));
                    let value = self.value(parts.first().map_or(item, |(_, span)| *span));
                    if let [_, (_, target)] = parts[..] {
                        self.give(target, value, false);
                    }
                }
            }
            "if" | "elif" | "else" | "while" | "try" | "except" | "def" | "class" => {
                let parts = split(tokens, (begin, end), |at| is(at, ":"));
                if let [_, (_, statement)] = parts[..] {
                    self.statement(statement, true);
                }
            }
            _ => self.statement((begin, end), is_conditional(tokens, begin)),
        }
    }

    fn statement(&mut self, (from, to): TextSpan, may: bool) {
        let tokens = self.tokens;
        let Some(sign) = assignment(&tokens[from..to]).map(|sign| from + sign) else {
            self.value((from, to));
            return;
        };
        let mut value = self.value((sign + 1, to));
        let changes = |text: &str| tokens[from..sign].last().is_some_and(|t| t.is(text));
        let place = (self.file, sign.saturating_sub(1));
        let mut end = sign;
        if ["+", "-", "*", "/", "%", "@"]
            .iter()
            .any(|sign| changes(sign))
        {
            end = from
                + tokens[from..sign]
                    .iter()
                    .take_while(|t| t.kind == TokenKind::Name || t.is("."))
                    .count();
            let before = self.value((from, end));
            let raised = sign >= end + 2 && tokens[sign - 2].is("*");
            let whole = match () {
                () if changes("+") || changes("-") => before.whole.max(value.whole),
                () if raised => before.whole.max(value.whole).bent(place),
                () => before.whole.times(value.whole, changes("/"), place),
            };
            value = whole.into();
        }
        // `loss: Tensor = …`, and a type is no target.
        let mut all = split(tokens, (from, end), |at| usize::from(tokens[at].is(":")));
        all.truncate(1);
        for (_, target) in all {
            self.give(target, value.clone(), may);
        }
    }
}
