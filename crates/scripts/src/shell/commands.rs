//! Simple commands: assignments, words, redirections.

use super::in_name;
use super::lexer::{Lexer, Token};
use super::word::{Piece, Word};
use crate::traced::Quote;

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
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
    /// Where to, or where from.
    pub target: Target,
}

/// The other end of a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file, or the number of a stream.
    File(Word),
    /// The here-document of this number.
    Here(usize),
    /// A here-string.
    Text(Word),
}

impl Assignment {
    /// The assignment that a word is, if it is one.
    #[must_use]
    pub fn of(word: &Word, script: &str) -> Option<Self> {
        let Some(Piece::Text {
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
                pieces[0] = Piece::Text {
                    start: behind,
                    end: *end,
                    quote: Quote::Bare,
                };
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
    pub(super) fn read_command(&mut self) -> Command {
        let mut command = Command {
            start: self.at,
            ..Command::default()
        };
        let mut first = true;
        loop {
            match self.peek().clone() {
                Token::Word(word) => {
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
                Token::Operator(operator, start) if is_redirect(operator) => {
                    self.take();
                    self.read_redirect(&mut command, operator, start);
                }
                Token::Operator(..) | Token::End => return command,
            }
        }
    }

    fn read_redirect(&mut self, command: &mut Command, operator: &'static str, start: usize) {
        // The number of a stream is no argument.
        let script = self.text;
        command.words.pop_if(|word| {
            let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit()) || t.starts_with('{');
            word.end == start && !operator.starts_with('&') && word.bare(script).is_some_and(digits)
        });
        let Token::Word(word) = self.peek().clone() else {
            self.fault();
            return;
        };
        // Announced before the token is taken, so that the end of the line finds it.
        let target = match operator {
            "<<" | "<<-" => Target::Here(self.announce(&word, operator == "<<-")),
            "<<<" => Target::Text(word),
            _ => Target::File(word),
        };
        self.take();
        command.redirects.push(Redirect { operator, target });
    }
}

fn is_redirect(operator: &str) -> bool {
    operator.contains(['<', '>'])
}
