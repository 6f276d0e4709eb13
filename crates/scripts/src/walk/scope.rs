//! Variables, and what becomes of them where a script branches.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::call::Arg;
use super::doc::Doc;
use crate::containers::Container;
use crate::shell::ScriptBlock;
use crate::traced::{Span, Traced, Why};

/// Elements of a list, words of a command.
const MAX_WORDS: usize = 8_192;

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VariableValue {
    Text(Traced),
    List(Vec<Arg>),
}

impl VariableValue {
    /// The element of this number, none where the list is shorter; None outside where the place of elements is unknown.
    pub fn element(self, at: usize) -> Option<Option<Traced>> {
        match self {
            Self::Text(text) => Some(Some(text).filter(|_| at == 0)),
            // `([3]=a)` names the places of its elements, and words that may be there move those behind them.
            Self::List(items) => {
                let named = items.iter().any(|item| item.text.text().starts_with('['));
                let moved = items.iter().take(at + 1).any(|item| item.maybe);
                (!named && !moved).then(|| items.into_iter().nth(at).map(|item| item.text))
            }
        }
    }
}

/// A function of a script.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub doc: Rc<Doc>,
    pub body: Rc<Vec<ScriptBlock>>,
}

/// What holds at one place of a script.
#[derive(Debug, Clone, Default)]
pub(super) struct ShellScope {
    pub variables: BTreeMap<String, VariableValue>,
    pub exported: BTreeSet<String>,
    pub functions: BTreeMap<String, Function>,
    pub args: Vec<Arg>,
    /// The folder in which commands run, relative to that of the job; None where it is not known.
    pub folder: Option<String>,
    /// The container in which commands run.
    pub container: Option<Rc<Container>>,
    /// The script has ended here.
    pub ended: bool,
    /// Whatever is set is exported (`set -a`).
    pub exports_all: bool,
    /// Variables that calculate with what they are given (`declare -i`).
    pub numbers: BTreeSet<String>,
    /// Code that may have set any variable.
    pub clouded: Option<Traced>,
    /// A file was sourced that is not read: what nothing else sets it may have set.
    pub unread: Option<Traced>,
}

/// Bytes that one name of a scope takes, roughly.
const COST_OF_NAME: usize = 64;

impl ShellScope {
    /// Bytes that a copy takes, roughly; the texts of variables are shared.
    pub fn cost(&self) -> usize {
        let lists = self.variables.values().map(|v| match v {
            VariableValue::Text(_) => 1,
            VariableValue::List(items) => 1 + items.len(),
        });
        COST_OF_NAME * (lists.sum::<usize>() + self.functions.len() + self.args.len())
    }

    /// Gives a variable a value, or more of one.
    pub fn set(&mut self, name: &str, value: VariableValue, append: bool) {
        let old = match append {
            true => self.variables.remove(name),
            false => None,
        };
        let mut value = match (old, value) {
            (None, new) => new,
            (Some(VariableValue::Text(mut old)), VariableValue::Text(new)) => {
                old.push(&new);
                VariableValue::Text(old)
            }
            (Some(VariableValue::List(mut old)), VariableValue::List(new)) => {
                old.extend(new);
                VariableValue::List(old)
            }
            (Some(VariableValue::Text(old)), VariableValue::List(mut new)) => {
                new.insert(0, Arg::of(old));
                VariableValue::List(new)
            }
            (Some(VariableValue::List(mut old)), VariableValue::Text(new)) => {
                match old.first_mut() {
                    Some(first) => first.text.push(&new),
                    None => old.push(Arg::of(new)),
                }
                VariableValue::List(old)
            }
        };
        if let VariableValue::List(items) = &mut value {
            items.truncate(MAX_WORDS);
        }
        self.variables.insert(name.to_owned(), value);
        if self.exports_all {
            self.exported.insert(name.to_owned());
        }
    }

    /// Code was run that may have set any variable.
    pub fn cloud(&mut self, code: &Traced) {
        let texts = self.variables.values_mut();
        for value in texts.filter(|v| matches!(v, VariableValue::Text(_))) {
            *value = VariableValue::Text(code.clone());
        }
        self.clouded = Some(code.clone());
    }

    /// The variables that a program started here inherits, and nothing else.
    pub fn inherited(&self) -> Self {
        let mut scope = Self {
            exported: self.exported.clone(),
            folder: self.folder.clone(),
            container: self.container.clone(),
            clouded: self.clouded.clone(),
            unread: self.unread.clone(),
            ..Self::default()
        };
        let variables = self.variables.iter();
        let exported = variables.filter(|(name, _)| self.exported.contains(*name));
        scope.variables = exported.map(|(n, v)| (n.clone(), v.clone())).collect();
        scope
    }

    /// What holds where several ways come together.
    pub fn merged(mut ways: Vec<Self>) -> Self {
        if ways.iter().any(|way| !way.ended) {
            ways.retain(|way| !way.ended);
        }
        let mut ways = ways.into_iter();
        let Some(mut merged) = ways.next() else {
            return Self::default();
        };
        for way in ways {
            merged.merge(way);
        }
        merged
    }

    fn merge(&mut self, other: Self) {
        let mut names: BTreeSet<String> = self.variables.keys().cloned().collect();
        names.extend(other.variables.keys().cloned());
        let mut theirs = other.variables;
        for name in names {
            let (a, b) = (self.variables.remove(&name), theirs.remove(&name));
            if let Some(value) = either(&name, a, b) {
                self.variables.insert(name, value);
            }
        }
        self.exported.extend(other.exported);
        self.exports_all |= other.exports_all;
        self.numbers.extend(other.numbers);
        self.clouded = self.clouded.take().or(other.clouded);
        self.unread = self.unread.take().or(other.unread);
        self.functions.extend(other.functions);
        if self.args != other.args {
            self.args = joined(std::mem::take(&mut self.args), other.args);
        }
        if self.folder != other.folder {
            self.folder = None;
        }
    }
}

/// A value that is one of two, or is not there at all.
fn either(name: &str, a: Option<VariableValue>, b: Option<VariableValue>) -> Option<VariableValue> {
    match (a, b) {
        (a, b) if a == b => a,
        (Some(VariableValue::List(a)), Some(VariableValue::List(b))) => {
            Some(VariableValue::List(joined(a, b)))
        }
        (Some(VariableValue::List(list)), None) | (None, Some(VariableValue::List(list))) => {
            Some(VariableValue::List(joined(list, Vec::new())))
        }
        (Some(VariableValue::Text(a)), Some(VariableValue::Text(b))) => {
            Some(VariableValue::Text(one_of(name, a, b)))
        }
        (Some(VariableValue::Text(text)), _) | (_, Some(VariableValue::Text(text))) => {
            Some(VariableValue::Text(unclear(name, text.place())))
        }
        (None, None) => None,
    }
}

/// The words that two lists begin with alike, and the others of both, which may be there.
fn joined(a: Vec<Arg>, b: Vec<Arg>) -> Vec<Arg> {
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let mut all = a;
    all.extend(b.into_iter().skip(same));
    for arg in all.iter_mut().skip(same) {
        arg.maybe = true;
    }
    all.truncate(MAX_WORDS);
    all
}

/// A text that is one of two. Where one goes on from the other, only how is not clear.
fn one_of(name: &str, a: Traced, b: Traced) -> Traced {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let rest = long.text();
    match rest.strip_prefix(&short.text()) {
        Some(rest) if !short.is_empty() && !rest.is_empty() => {
            let more = long.slice(short.len(), long.len());
            let mut all = short;
            if let Some(span) = more.place() {
                all.push(&Traced::computed(rest, span, Why::Condition));
            }
            all
        }
        _ => unclear(name, long.place()),
    }
}

fn unclear(name: &str, place: Option<Span>) -> Traced {
    let code = format!("${{{name}}}");
    let nowhere = Span::empty(0, 0);
    Traced::computed(&code, place.unwrap_or(nowhere), Why::Condition)
}
