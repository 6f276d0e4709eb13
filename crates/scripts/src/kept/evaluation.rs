//! Which lines of a program evaluate: what memory they need is of the evaluation's data, not of a training batch.
//!
//! Gradients that are switched off say too little alone: a teacher, a frozen encoder and a rollout run without them beside a step of
//! training. So the mode of the model that trains, a loader of the evaluation's data or a name must say it as well.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::lines::CodeText;
use super::program::{evaluates_by_name, is_quiet};
use crate::python::{PythonToken, TokenKind, calls, calls_backward};
use crate::spelling::OF_EVALUATION;
use oomctl_base::{line_and_column, word_list};

/// What may follow one of them in the same word: `valloader`.
const HOLDERS: [&str; 6] = word_list("loader dataloader set dataset data dl");

/// Most stretches of a program that are kept.
const MOST: usize = 64;

/// Lines of a program that evaluate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluationLines {
    /// File, as the job names it.
    pub path: String,
    /// First line, from 1.
    pub from: u64,
    /// Last line.
    pub to: u64,
    /// The function in which they stand; empty outside of any.
    pub function: String,
    /// They are in a loop of the evaluation: it goes over its data in pieces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_looped: bool,
}

impl EvaluationLines {
    /// Whether a frame of a traceback is one of them.
    pub fn hold(&self, file: &str, line: u64, function: &str) -> bool {
        let own = match function {
            "<module>" => self.function.is_empty(),
            // What a comprehension computes has a frame of its own in older versions of Python.
            "<listcomp>" | "<dictcomp>" | "<setcomp>" | "<genexpr>" => true,
            named => self.function == named,
        };
        own && (self.from..=self.to).contains(&line) && same_file(&self.path, file)
    }
}

/// Whether two paths end in the same file: the job may name it from another folder than the traceback.
pub(super) fn same_file(one: &str, other: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !["", "."].contains(part));
        parts.rev().map(str::to_owned).collect()
    };
    let (one, other) = (parts(one), parts(other));
    !one.is_empty() && one.iter().zip(&other).all(|(a, b)| a == b)
}

/// The lines of a program with these files that evaluate.
pub(super) fn evaluations(texts: &[CodeText<'_, '_>]) -> Vec<EvaluationLines> {
    let trained = trained(texts);
    let mut found = Vec::new();
    for text in texts {
        let mut before = None;
        for at in 0..text.lines.len() {
            let own = EvaluatedText {
                text,
                trained: &trained,
            };
            if !own.evaluates(at) {
                continue;
            }
            let lines = EvaluationLines {
                is_looped: own.is_looped(at),
                ..lines_of(text, at)
            };
            match found.last_mut() {
                Some(last) if before.is_some_and(|b| b + 1 == at) && continues(last, &lines) => {
                    last.to = lines.to;
                }
                _ => found.push(lines),
            }
            before = Some(at);
        }
    }
    found.truncate(MOST);
    found
}

fn continues(last: &EvaluationLines, next: &EvaluationLines) -> bool {
    (&last.path, &last.function, last.is_looped) == (&next.path, &next.function, next.is_looped)
}

fn lines_of(text: &CodeText<'_, '_>, at: usize) -> EvaluationLines {
    let line = &text.lines[at];
    let number =
        |byte: usize| u64::try_from(line_and_column(text.text, byte).0).unwrap_or(u64::MAX);
    let last = line.tokens.last();
    EvaluationLines {
        path: text.path.to_owned(),
        from: number(line.tokens[0].from),
        to: last.map_or(0, |token| number(token.to.saturating_sub(1))),
        function: line
            .function
            .map_or_else(String::new, |function| text.name_of(function).to_owned()),
        is_looped: false,
    }
}

/// Models that the program trains: it puts them into that mode, or hands their weights to an optimizer.
fn trained<'t>(texts: &[CodeText<'_, 't>]) -> BTreeSet<&'t str> {
    let lines = texts.iter().flat_map(|text| &text.lines);
    let of_line = |tokens: &[PythonToken<'t>]| -> Vec<&'t str> {
        let mut optimizers = tokens.iter().filter(|t| t.kind == TokenKind::Name);
        let optimizer = optimizers.any(|t| t.is("lr") || t.text.to_lowercase().contains("optim"));
        let mut found = objects(tokens, "train");
        if optimizer {
            found.extend(objects(tokens, "parameters"));
        }
        found
    };
    lines.flat_map(|line| of_line(line.tokens)).collect()
}

/// The names of which a line calls this method: `net` of `self.net.eval()`.
fn objects<'t>(tokens: &[PythonToken<'t>], method: &str) -> Vec<&'t str> {
    let called = calls(tokens, |t| t.is(method));
    let of = called.filter_map(|at| {
        let object = at.checked_sub(2).map(|object| &tokens[object])?;
        (tokens[at - 1].is(".") && object.kind == TokenKind::Name).then_some(object.text)
    });
    of.collect()
}

/// What a statement makes of a model.
enum ModelMode {
    Training,
    /// Of a model that the program trains, or of another one.
    Evaluation {
        trained: bool,
    },
}

/// A file, and what the program trains.
struct EvaluatedText<'p, 'a, 't> {
    text: &'p CodeText<'a, 't>,
    trained: &'p BTreeSet<&'t str>,
}

impl EvaluatedText<'_, '_, '_> {
    /// Whether a line evaluates for certain.
    fn evaluates(&self, at: usize) -> bool {
        let text = self.text;
        let tokens = text.lines[at].tokens;
        let function = text.lines[at].function;
        let begins = tokens[0].is("def") || tokens[0].is("class");
        let trains = calls_backward(tokens) || self.trains(at);
        if begins || trains || !objects(tokens, "train").is_empty() {
            return false;
        }
        let heads: Vec<usize> = (text.heads(at))
            .take_while(|head| Some(*head) != function)
            .collect();
        let over_its_data = |head: &usize| {
            let line = text.lines[*head].tokens;
            line[0].is("for") && is_over_evaluation(line) && !self.trains(*head)
        };
        let mode = self.mode(at, &heads);
        if heads.iter().any(over_its_data)
            || matches!(mode, Some(ModelMode::Evaluation { trained: true }))
        {
            return true;
        }
        let decorated = |function| {
            let mut above = text.decorators(function);
            above.any(|line| is_quiet(text.lines[line].tokens))
        };
        let within = |head: &usize| {
            let line = text.lines[*head].tokens;
            line[0].is("with") && is_quiet(line)
        };
        let quiet = heads.iter().any(within) || function.is_some_and(decorated);
        let named = || function.is_some_and(|at| evaluates_by_name(text.name_of(at)));
        let aside = || !heads.iter().any(|head| self.trains(*head));
        quiet && (names_evaluation(tokens) || named() || mode.is_some_and(is_evaluation) && aside())
    }

    /// Whether a line stands in a loop that belongs to the evaluation.
    fn is_looped(&self, at: usize) -> bool {
        let function = self.text.lines[at].function;
        let own = self.text.heads(at);
        let mut own = own.take_while(|head| Some(*head) != function);
        own.any(|head| {
            let line = self.text.lines[head].tokens;
            let loops = line[0].is("for") || line[0].is("while");
            loops && (is_over_evaluation(line) || self.evaluates(head))
        })
    }

    /// Whether a gradient is computed below a head.
    fn trains(&self, head: usize) -> bool {
        let mut below = self.text.below(head);
        below.any(|at| calls_backward(self.text.lines[at].tokens))
    }

    /// The mode that the latest statement before a line sets, in its block or one around it. What stands before a loop that trains says
    /// nothing of the loop.
    fn mode(&self, at: usize, heads: &[usize]) -> Option<ModelMode> {
        let lines = &self.text.lines;
        let mut from = at;
        let outermost = self.text.lines[at].function;
        for head in heads.iter().copied().map(Some).chain([outermost]) {
            let begin = head.map_or(0, |head| head + 1);
            let block = (begin..from).rev();
            let same = block.filter(|line| lines[*line].function == lines[at].function);
            for line in same {
                let direct = lines[line].indent == lines[from].indent;
                let objects = objects(lines[line].tokens, "eval");
                if !self::objects(lines[line].tokens, "train").is_empty() {
                    return Some(ModelMode::Training);
                }
                if direct && !objects.is_empty() {
                    let trained = objects.iter().any(|name| self.trained.contains(name));
                    return Some(ModelMode::Evaluation { trained });
                }
            }
            let loops = |head: usize| ["for", "while"].contains(&lines[head].tokens[0].text);
            let head = head.filter(|head| !(loops(*head) && self.trains(*head)))?;
            from = head;
        }
        None
    }
}

fn is_evaluation(mode: ModelMode) -> bool {
    matches!(mode, ModelMode::Evaluation { .. })
}

/// `for batch in val_loader`, and no range of numbers.
fn is_over_evaluation(head: &[PythonToken<'_>]) -> bool {
    let behind = head.iter().position(|t| t.is("in")).map_or(0, |at| at + 1);
    let data = &head[behind..];
    let trains = data.iter().any(|t| t.text.to_lowercase().contains("train"));
    names_evaluation(data) && !trains && !data.iter().any(|t| t.is("range"))
}

/// Whether names or texts of an expression are of an evaluation: `val_loader`, `loaders["test"]`.
fn names_evaluation(tokens: &[PythonToken<'_>]) -> bool {
    let told = |at: usize| match tokens[at].kind {
        TokenKind::Name => tokens[at].text.split('_').any(is_of_evaluation),
        TokenKind::Text => OF_EVALUATION.contains(&tokens[at].text),
        _ => false,
    };
    // `teacher.eval()` is a mode, which says nothing of the data.
    let sets_mode = |at: usize| {
        let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
        tokens[at].is("eval") && called
    };
    (0..tokens.len()).any(|at| told(at) && !sets_mode(at))
}

fn is_of_evaluation(part: &str) -> bool {
    let part = part.to_lowercase();
    OF_EVALUATION.iter().any(|word| {
        let rest = part.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || HOLDERS.contains(&rest))
    })
}
