//! Simple commands: assignments, words, redirections.

use super::in_name;
use super::lexer::{Lexer, ShellToken};
use super::word::{Word, WordPiece};
use crate::traced::Quote;

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// Assignments before the first word.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Where its streams go.
    pub redirects: Vec<Redirect>,
    /// First byte.
    pub start: usize,
}

/// `NAME=value`, `NAME+=value`, `NAME=( … )`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the variable.
    pub name: String,
    /// Appended to what the variable has.
    pub append: bool,
    /// To one element of a list.
    pub element: bool,
    /// What stands behind the `=`.
    pub value: Word,
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The operator, such as `>` or `>>`.
    pub operator: &'static str,
    /// The number of the stream before it.
    pub stream: Option<u8>,
    /// Where to, or where from.
    pub target: RedirectTarget,
}

/// The other end of a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectTarget {
    /// A file, or the number of a stream.
    File(Word),
    /// The here-document of this number.
    Here(usize),
    /// A here-string.
    Text(Word),
}

impl Assignment {
    /// The assignment that a word is, if it is one.
    pub fn of(word: &Word, script: &str) -> Option<Self> {
        let Some(WordPiece::Text {
            start,
            end,
            quote: Quote::Bare,
        }) = word.pieces.first()
        else {
            return None;
        };
        let (head, _) = script.get(*start..*end)?.split_once('=')?;
        let append = head.ends_with('+');
        let target = head.strip_suffix('+').unwrap_or(head);
        let (name, element) = match target.split_once('[') {
            Some((name, rest)) if rest.ends_with(']') => (name, true),
            Some(_) => return None,
            None => (target, false),
        };
        let mut letters = name.chars();
        let first = letters.next()?;
        let is_name = (first.is_ascii_alphabetic() || first == '_') && letters.all(in_name);
        if !is_name {
            return None;
        }
        let behind = start + head.len() + 1;
        let mut pieces = word.pieces.clone();
        match behind < *end || pieces.len() == 1 {
            true => {
                pieces[0] = WordPiece::text(behind..*end, Quote::Bare);
            }
            false => {
                pieces.remove(0);
            }
        }
        Some(Self {
            name: name.to_owned(),
            append,
            element,
            value: Word {
                start: behind,
                end: word.end,
                pieces,
                list: word.list.clone(),
            },
        })
    }
}

impl Lexer<'_> {
    /// A simple command; it may be empty where something else begins.
    pub(super) fn read_command(&mut self) -> SimpleCommand {
        let mut command = SimpleCommand {
            start: self.at,
            ..SimpleCommand::default()
        };
        let mut first = true;
        loop {
            match self.peek().clone() {
                ShellToken::Word(word) => {
                    self.take();
                    if std::mem::take(&mut first) {
                        command.start = word.start;
                    }
                    let script = self.text;
                    let assigned = match command.words.is_empty() {
                        true => Assignment::of(&word, script),
                        false => None,
                    };
                    match assigned {
                        Some(assignment) => command.assignments.push(assignment),
                        None => command.words.push(word),
                    }
                }
                ShellToken::Operator(operator, start) if is_redirect(operator) => {
                    self.take();
                    self.read_redirect(&mut command, operator, start);
                }
                ShellToken::Operator(..) | ShellToken::End => return command,
            }
        }
    }

    fn read_redirect(&mut self, command: &mut SimpleCommand, operator: &'static str, start: usize) {
        // The number of a stream is no argument.
        let script = self.text;
        let number = command.words.pop_if(|word| {
            let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit()) || t.starts_with('{');
            word.end == start && !operator.starts_with('&') && word.bare(script).is_some_and(digits)
        });
        let stream = number.and_then(|word| word.bare(script)?.parse().ok());
        let ShellToken::Word(word) = self.peek().clone() else {
            self.fault();
            return;
        };
        // Announced before the token is taken, so that the end of the line finds it.
        let target = match operator {
            "<<" | "<<-" => RedirectTarget::Here(self.announce(&word, operator == "<<-")),
            "<<<" => RedirectTarget::Text(word),
            _ => RedirectTarget::File(word),
        };
        self.take();
        command.redirects.push(Redirect {
            operator,
            stream,
            target,
        });
    }
}

fn is_redirect(operator: &str) -> bool {
    operator.contains(['<', '>'])
}
