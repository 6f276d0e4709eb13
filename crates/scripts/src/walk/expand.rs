//! Words to the texts that a program is handed.

use std::collections::BTreeSet;

use super::call::Arg;
use super::doc::{Doc, quotes};
use super::scope::VariableValue;
use super::{Walker, arithmetic};
use crate::requested;
use crate::shell::{self, Operation, Subscript, Word, WordPiece, in_name};
use crate::traced::{PartOrigin, Quote, Span, Traced, Why};

/// Uses of variables that are remembered.
const MAX_USES: usize = 100_000;

/// Bytes of a number that is calculated with.
const MAX_DIGITS: usize = 20;

/// Words that are being put together.
#[derive(Default)]
struct WordFields {
    done: Vec<Arg>,
    current: Traced,
    open: bool,
    maybe: bool,
}

impl WordFields {
    fn push(&mut self, text: &Traced) {
        self.current.push(text);
        self.open = true;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            self.done.push(Arg {
                text: std::mem::take(&mut self.current),
                maybe: std::mem::take(&mut self.maybe),
            });
        }
    }

    /// Text outside quotes: blanks in it end words.
    fn split(&mut self, text: &Traced) {
        let mut start = 0;
        for part in text.parts() {
            let end = start + part.text.len();
            if let PartOrigin::Computed { .. } = part.from {
                if part.text.starts_with([' ', '\t', '\n']) {
                    self.end();
                }
                self.push(&text.slice(start, end));
                // Code outside quotes may be no word or several.
                self.maybe = true;
            } else {
                self.split_literal(text, &part.text, start);
            }
            start = end;
        }
    }

    fn split_literal(&mut self, whole: &Traced, text: &str, start: usize) {
        let mut at = 0;
        for word in text.split_inclusive([' ', '\t', '\n']) {
            let bare = word.trim_end_matches([' ', '\t', '\n']);
            if !bare.is_empty() {
                self.push(&whole.slice(start + at, start + at + bare.len()));
            }
            if bare.len() < word.len() {
                self.end();
            }
            at += word.len();
        }
    }
}

impl Walker<'_> {
    /// The words of a command.
    pub(super) fn expand_all(&mut self, words: &[Word], doc: &Doc) -> Vec<Arg> {
        let mut args = Vec::new();
        // The place of each word is looked for among the parts of the script.
        self.spend(words.len() * doc.traced.parts().len());
        for word in words {
            args.extend(self.expand(word, doc));
        }
        args
    }

    fn expand(&mut self, word: &Word, doc: &Doc) -> Vec<Arg> {
        let mut fields = WordFields::default();
        for piece in &word.pieces {
            match piece {
                WordPiece::Variable(variable) => self.expand_variable(variable, doc, &mut fields),
                WordPiece::Code { quoted: false, .. } => {
                    let code = self.piece_text(piece, doc);
                    fields.split(&code);
                }
                _ => {
                    let text = self.piece_text(piece, doc);
                    fields.push(&text);
                }
            }
        }
        fields.end();
        fields.done
    }

    fn expand_variable(
        &mut self,
        variable: &shell::ParameterExpansion,
        doc: &Doc,
        fields: &mut WordFields,
    ) {
        let (span, quote) = doc.place(variable.start, variable.end, variable.quoted);
        // Without quotes `${A[*]}` is as many words as `${A[@]}`.
        let each = variable.index == Subscript::Each
            || variable.index == Subscript::Joined && !variable.quoted;
        if each && variable.operation == Operation::Plain {
            let items = self.items(variable);
            for (at, item) in items.into_iter().enumerate() {
                if !self.spend(item.text.cost()) {
                    break;
                }
                if at > 0 {
                    fields.end();
                }
                let name = format!("{}[{at}]", variable.name);
                let text = item.text.used(&name, span, quote);
                self.note(&text);
                match variable.quoted {
                    true => fields.push(&text),
                    false => fields.split(&text),
                }
                fields.maybe |= item.maybe;
            }
            return;
        }
        let text = self.variable_text(variable, doc);
        // Each word is looked for among all the parts.
        let words = 1 + text.len() / 8;
        match variable.quoted {
            true => fields.push(&text),
            false if self.spend(words * text.parts().len()) => fields.split(&text),
            false => fields.push(&doc.code(variable.start, variable.end, Why::TooLong)),
        }
    }

    /// The elements of a list.
    fn items(&mut self, variable: &shell::ParameterExpansion) -> Vec<Arg> {
        if variable.name == "@" {
            return self.scope.args.clone();
        }
        match self.value(&variable.name) {
            Some(VariableValue::List(items)) => items,
            // A list that a command reads may have any number of elements.
            Some(VariableValue::Text(text)) => vec![Arg {
                maybe: text.unknown().is_some(),
                text,
            }],
            // No environment holds a list.
            None => Vec::new(),
        }
    }

    /// A word as one text.
    pub(super) fn text_of(&mut self, pieces: &[WordPiece], doc: &Doc) -> Traced {
        let mut all = Traced::default();
        for piece in pieces {
            let text = self.piece_text(piece, doc);
            all.push(&text);
        }
        all
    }

    fn piece_text(&mut self, piece: &WordPiece, doc: &Doc) -> Traced {
        match piece {
            WordPiece::Text { start, end, quote } => doc.traced.slice(*start, *end).quoted(*quote),
            WordPiece::Escape {
                start,
                end,
                text,
                quote,
            } => doc.escape(*start, *end, text, *quote),
            WordPiece::Variable(variable) => self.variable_text(variable, doc),
            WordPiece::Code { start, end, quoted } => {
                let code = doc.code(*start, *end, Why::Code);
                self.note_code(&code, doc);
                let sum = code.text();
                let result = arithmetic::inside(&sum).and_then(|sum| self.calculated(sum, &code));
                let result = result.map(|number| number.to_string());
                let result = result.or_else(|| self.counted_gpus(&sum));
                match result.or_else(|| self.looked_up(*start, *end, doc)) {
                    Some(result) => doc.escape(*start, *end, &result, quotes(*quoted)),
                    None => code,
                }
            }
        }
    }

    /// Remembers by which ways the literals of a text came here.
    pub(super) fn note(&mut self, text: &Traced) {
        if self.quiet {
            return;
        }
        for part in text.parts() {
            if let PartOrigin::Literal { span, .. } = part.from {
                let way: Vec<Span> = part.via.iter().rev().map(|u| u.span).collect();
                match self.out.uses.len() < MAX_USES {
                    true => self.out.uses.insert((span, way)),
                    false => std::mem::replace(&mut self.out.cut, true),
                };
            }
        }
    }

    /// Remembers which variables are used by code that is not run.
    pub(super) fn note_code(&mut self, code: &Traced, doc: &Doc) {
        let text = code.text();
        let place = code.place().unwrap_or(doc.place(0, 0, false).0);
        let names: BTreeSet<&str> = text.split(|c| !in_name(c)).collect();
        for name in names {
            let value = match name.parse::<usize>() {
                Ok(number) => {
                    let arg = number.checked_sub(1).and_then(|at| self.scope.args.get(at));
                    arg.map(|arg| VariableValue::Text(arg.text.clone()))
                }
                Err(_) => self.scope.variables.get(name).cloned(),
            };
            let texts = match value {
                Some(VariableValue::Text(text)) => vec![text],
                Some(VariableValue::List(items)) => items.into_iter().map(|i| i.text).collect(),
                None => Vec::new(),
            };
            for text in texts {
                if !self.spend(text.cost()) {
                    return;
                }
                self.note(&text.used(name, place, Quote::Nested));
            }
        }
    }

    /// What a variable stands for, as one text.
    fn variable_text(&mut self, variable: &shell::ParameterExpansion, doc: &Doc) -> Traced {
        if !self.spend(0) {
            return doc.code(variable.start, variable.end, Why::TooLong);
        }
        let text = self.with_operation(variable, doc);
        self.spend(text.cost());
        self.note(&text);
        text
    }

    fn with_operation(&mut self, variable: &shell::ParameterExpansion, doc: &Doc) -> Traced {
        let value = self.plain_value(variable, doc);
        let (span, quote) = doc.place(variable.start, variable.end, variable.quoted);
        let used = |text: Traced| text.used(&variable.name, span, quote);
        let unset = || doc.code(variable.start, variable.end, Why::Environment);
        let may_be_set = value.is_none() && self.out.passed.may_set(&variable.name);
        match &variable.operation {
            Operation::Plain | Operation::Required => value.map_or_else(unset, used),
            Operation::Other => {
                let code = doc.code(variable.start, variable.end, Why::Code);
                self.note_code(&code, doc);
                code
            }
            Operation::Default { colon, other } => match value {
                Some(text) if !(*colon && text.is_empty()) => used(text),
                _ => self.default(variable, other, may_be_set, doc),
            },
            Operation::Assign { colon, other } => match value {
                Some(text) if !(*colon && text.is_empty()) => used(text),
                _ => {
                    let text = self.default(variable, other, may_be_set, doc);
                    let value = VariableValue::Text(text.clone());
                    self.scope.set(&variable.name, value, false);
                    text
                }
            },
            Operation::Alternative { colon, other } => match value {
                Some(text) if text.unknown().is_some() => {
                    doc.code(variable.start, variable.end, Why::Condition)
                }
                Some(text) if !(*colon && text.is_empty()) => self.text_of(other, doc),
                _ if may_be_set => doc.code(variable.start, variable.end, Why::Condition),
                _ => Traced::default(),
            },
        }
    }

    /// The value before anything is made of it; None where there is none.
    fn plain_value(&mut self, variable: &shell::ParameterExpansion, doc: &Doc) -> Option<Traced> {
        let code = |why| Some(doc.code(variable.start, variable.end, why));
        let name = variable.name.as_str();
        if let Ok(number) = name.parse::<usize>() {
            return match number.checked_sub(1) {
                None => code(Why::Code),
                Some(_) if self.scope.args.iter().any(|arg| arg.maybe) => code(Why::Condition),
                Some(at) => self.scope.args.get(at).map(|arg| arg.text.clone()),
            };
        }
        if matches!(name, "#" | "?" | "!" | "$" | "-") {
            return code(Why::Code);
        }
        if name.starts_with("SLURM") && !self.scope.variables.contains_key(name) {
            return match self.requested(name) {
                Some(asked) => {
                    let quote = quotes(variable.quoted);
                    Some(doc.escape(variable.start, variable.end, &asked, quote))
                }
                None => code(Why::Environment),
            };
        }
        let list = match name {
            "@" => Some(VariableValue::List(self.scope.args.clone())),
            _ => self.value(name),
        };
        match (list?, variable.index) {
            (VariableValue::Text(text), Subscript::Each | Subscript::Joined) => Some(text),
            (VariableValue::List(items), Subscript::Each | Subscript::Joined) => {
                Some(Arg::joined(&items))
            }
            (list, index) => match self.element(index, doc) {
                None => code(Why::Code),
                Some(at) => list.element(at).unwrap_or_else(|| code(Why::Code)),
            },
        }
    }

    /// The value of a variable that the script has, or that it inherits.
    fn value(&mut self, name: &str) -> Option<VariableValue> {
        if let Some(value) = self.scope.variables.get(name) {
            return Some(value.clone());
        }
        if let Some(code) = &self.scope.clouded {
            return Some(VariableValue::Text(code.clone()));
        }
        let text = self.inherited_text(name);
        text.or_else(|| self.scope.unread.clone())
            .map(VariableValue::Text)
    }

    /// What commands print that count the GPUs of a node, where the job asks for them: `$(nvidia-smi -L | wc -l)`.
    fn counted_gpus(&self, code: &str) -> Option<String> {
        let inner = code.strip_prefix("$(").and_then(|c| c.strip_suffix(')'));
        let inner = inner.or_else(|| code.strip_prefix('`')?.strip_suffix('`'))?;
        let limited = self.scope.variables.contains_key("CUDA_VISIBLE_DEVICES");
        let counts = requested::counts_gpus(inner) && !limited;
        self.requested("SLURM_GPUS_ON_NODE").filter(|_| counts)
    }

    /// What a calculation in `code` comes to, where all that it takes is known.
    pub(super) fn calculated(&mut self, sum: &str, code: &Traced) -> Option<i64> {
        let assigned = arithmetic::assigned(sum);
        if !assigned.is_empty() {
            self.forget_names(&assigned, code.place()?);
            return None;
        }
        let mut number = |name: &str| {
            let text = match self.requested(name) {
                Some(asked) => asked,
                None => match self.value(name)? {
                    VariableValue::Text(text) if text.len() <= MAX_DIGITS => text.known()?,
                    _ => return None,
                },
            };
            text.trim().parse().ok()
        };
        arithmetic::result(sum, &mut number)
    }

    /// Which element of a list is taken; None where its number is unknown.
    fn element(&mut self, index: Subscript, doc: &Doc) -> Option<usize> {
        match index {
            Subscript::First => Some(0),
            Subscript::At(at) => Some(at),
            Subscript::Computed { start, end } => {
                let code = doc.code(start, end, Why::Code);
                let text = code.text();
                let sum = arithmetic::inside(&text).unwrap_or(&text);
                self.calculated(sum, &code)?.try_into().ok()
            }
            Subscript::Each | Subscript::Joined | Subscript::Other => None,
        }
    }

    /// What Slurm sets a variable to, because the job asks for it. A script may set it to something else, and a step may have
    /// less than the job.
    fn requested(&self, name: &str) -> Option<String> {
        let text = self.requested.get(name)?;
        let other = self.scope.variables.contains_key(name);
        (!other && !requested::step_of_its_own(&self.around)).then(|| text.clone())
    }
}
