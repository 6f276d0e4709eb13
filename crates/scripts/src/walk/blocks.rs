//! Branches, loops, functions.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::call::Arg;
use super::doc::Doc;
use super::scope::{Function, ShellScope, VariableValue};
use super::{MAX_STEPS, Walker, arithmetic};
use crate::shell::{ScriptBlock, Word};
use crate::traced::Why;

/// Times that a loop over a script's own arguments is followed.
const MAX_TURNS: usize = 256;

impl Walker<'_> {
    pub(super) fn run_blocks(&mut self, blocks: &[ScriptBlock], doc: &Rc<Doc>) {
        for (at, block) in blocks.iter().enumerate() {
            self.steps += 1;
            if self.steps > MAX_STEPS || !self.spend(0) {
                self.out.cut = true;
                return;
            }
            if self.scope.ended {
                return;
            }
            match block {
                ScriptBlock::Maybe(inner) => match self.goes_on(&blocks[..at], doc) {
                    None => self.run_block(block, doc),
                    Some(true) => self.run_blocks(inner, doc),
                    Some(false) => {}
                },
                _ => self.run_block(block, doc),
            }
        }
    }

    fn run_block(&mut self, block: &ScriptBlock, doc: &Rc<Doc>) {
        match block {
            ScriptBlock::Command(command) => self.run_command(command, doc),
            ScriptBlock::Branches {
                branches,
                whole,
                case,
                tests,
            } => {
                let (ways, whole) = match case {
                    Some((subject, patterns)) => {
                        let text = self.text_of(&subject.pieces, doc).known();
                        let chosen = text.and_then(|text| choose(&text, patterns, doc));
                        chosen.map(|at| {
                            (
                                at.and_then(|at| branches.get(at)).into_iter().collect(),
                                true,
                            )
                        })
                    }
                    None => self.ways(tests, branches, *whole, doc),
                }
                .unwrap_or_else(|| (branches.iter().collect(), *whole));
                match ways[..] {
                    [only] if whole => self.run_blocks(only, doc),
                    [] => {}
                    _ => self.run_branches(&ways, whole, doc),
                }
            }
            ScriptBlock::Loop {
                variable,
                condition,
                body,
                head,
            } => {
                let head = doc.text.get(head.0..head.1).unwrap_or_default();
                match variable {
                    Some((name, words)) => self.run_for(name, words, body, doc),
                    None if head.contains("$#") || head.contains("${1") || head.contains("$1") => {
                        self.run_over_args(condition, body, doc);
                    }
                    None => self.run_loop(condition, body, doc),
                }
            }
            ScriptBlock::Subshell(inner) => self.run_apart(inner, doc),
            ScriptBlock::Pipeline(parts) => self.run_pipeline(parts, doc),
            ScriptBlock::Redirected { inner, redirects } => {
                let outside = self.outputs.len();
                let files = self.outputs_of(redirects, doc);
                self.outputs.extend(files);
                self.run_blocks(inner, doc);
                self.outputs.truncate(outside);
            }
            ScriptBlock::Test { start, end } => {
                let code = doc.code(*start, *end, Why::Code);
                self.note_code(&code, doc);
                let text = code.text();
                let assigned = arithmetic::inside(&text).map(arithmetic::assigned);
                let place = doc.place(*start, *end, false).0;
                self.forget_names(&assigned.unwrap_or_default(), place);
            }
            ScriptBlock::Maybe(inner) => self.run_branches(&[inner], false, doc),
            ScriptBlock::Function { name, body } => {
                let function = Function {
                    doc: Rc::clone(doc),
                    body: Rc::clone(body),
                };
                self.scope.functions.insert(name.clone(), function);
            }
        }
    }

    /// Runs each part in a shell of its own; those behind it may write what it prints into files.
    fn run_pipeline(&mut self, parts: &[Vec<ScriptBlock>], doc: &Rc<Doc>) {
        for (at, part) in parts.iter().enumerate() {
            let outside = self.outputs.len();
            let files = self.outputs_behind(&parts[at + 1..], doc);
            self.outputs.extend(files);
            self.run_apart(part, doc);
            self.outputs.truncate(outside);
        }
    }

    /// Runs commands in a shell of their own.
    fn run_apart(&mut self, inner: &[ScriptBlock], doc: &Rc<Doc>) {
        let (before, outside) = (self.copied(), self.outputs.len());
        self.run_blocks(inner, doc);
        self.scope = before;
        self.outputs.truncate(outside);
    }

    /// The present scope, to come back to.
    pub(super) fn copied(&mut self) -> ShellScope {
        self.spend(self.scope.cost());
        self.scope.clone()
    }

    fn run_branches(&mut self, branches: &[&Vec<ScriptBlock>], whole: bool, doc: &Rc<Doc>) {
        let before = self.copied();
        let mut ways = Vec::new();
        for branch in branches {
            self.spend(before.cost());
            self.scope = before.clone();
            self.run_blocks(branch, doc);
            ways.push(std::mem::take(&mut self.scope));
        }
        if !whole {
            ways.push(before);
        }
        self.scope = ShellScope::merged(ways);
    }

    /// A loop that takes the script's arguments one after the other: as many turns as there are any.
    fn run_over_args(&mut self, condition: &[ScriptBlock], body: &[ScriptBlock], doc: &Rc<Doc>) {
        for _ in 0..MAX_TURNS {
            if self.scope.args.is_empty() || self.scope.ended {
                return;
            }
            if self.scope.args.iter().any(|arg| arg.maybe) {
                break;
            }
            let before = self.scope.args.len();
            self.run_blocks(body, doc);
            if self.scope.args.len() >= before {
                break;
            }
        }
        self.run_loop(condition, body, doc);
    }

    fn run_for(&mut self, name: &str, words: &[Word], body: &[ScriptBlock], doc: &Rc<Doc>) {
        let items = match words {
            [] => self.scope.args.clone(),
            words => self.expand_all(words, doc),
        };
        match items.as_slice() {
            [] => {}
            [only] if !only.maybe => {
                let value = VariableValue::Text(only.text.clone());
                self.scope.set(name, value, false);
                self.run_loop(&[], body, doc);
            }
            [first, ..] => {
                let Some(span) = first.text.place() else {
                    return;
                };
                let code = format!("${{{name}}}");
                let value = super::Traced::computed(&code, span, Why::Loop);
                self.scope.set(name, VariableValue::Text(value), false);
                self.run_loop(&[], body, doc);
            }
        }
    }

    /// A loop whose turns are not counted. What its body does to variables is seen first, so that what it calls
    /// is handed what holds in any turn.
    fn run_loop(&mut self, condition: &[ScriptBlock], body: &[ScriptBlock], doc: &Rc<Doc>) {
        let before = self.copied();
        self.muted += 1;
        self.run_blocks(condition, doc);
        self.run_blocks(body, doc);
        self.muted -= 1;
        let mut after = std::mem::take(&mut self.scope);
        after.ended = false;
        self.scope = ShellScope::merged(vec![before, after]);
        let before = self.copied();
        self.run_blocks(condition, doc);
        self.run_blocks(body, doc);
        let mut after = std::mem::take(&mut self.scope);
        after.ended = false;
        self.scope = ShellScope::merged(vec![before, after]);
    }

    /// Calls a function with these arguments.
    pub(super) fn call(&mut self, function: &Function, args: Vec<Arg>) {
        if self.depth >= super::MAX_CALLS_DEEP {
            self.out.cut = true;
            return;
        }
        let args = std::mem::replace(&mut self.scope.args, args);
        self.depth += 1;
        self.locals.push(BTreeMap::new());
        self.run_blocks(&function.body, &function.doc);
        for (name, before) in self.locals.pop().unwrap_or_default() {
            match before {
                Some(value) => drop(self.scope.variables.insert(name, value)),
                None => drop(self.scope.variables.remove(&name)),
            }
        }
        self.depth -= 1;
        self.scope.args = args;
        self.scope.ended = false;
    }
}

/// The branch of a case that a text takes; `None` inside where it takes none. Nothing where a pattern is more than
/// text and `*`.
fn choose(text: &str, patterns: &[Vec<Word>], doc: &Doc) -> Option<Option<usize>> {
    for (at, words) in patterns.iter().enumerate() {
        for word in words {
            let pattern = word.plain(&doc.text)?;
            if pattern.contains(['?', '[', '\\']) {
                return None;
            }
            if matches(&pattern, text) {
                return Some(Some(at));
            }
        }
    }
    Some(None)
}

/// Whether a text is what a pattern with `*` says.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            match rest.find(before) {
                Some(found) => rest = &rest[found + before.len()..],
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}
