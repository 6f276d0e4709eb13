//! What a word consists of.

use std::ops::Range;

use crate::traced::Quote;

/// A word: pieces that touch each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// First byte.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
    /// What it consists of.
    pub pieces: Vec<WordPiece>,
    /// The words between the parentheses of `NAME=( … )`.
    pub list: Option<Vec<Word>>,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPiece {
    /// Bytes that stand for themselves.
    Text {
        /// First byte.
        start: usize,
        /// The byte behind the last.
        end: usize,
        /// In which quotes.
        quote: Quote,
    },
    /// Bytes that stand for another text, such as a backslash and the character behind it.
    Escape {
        /// First byte.
        start: usize,
        /// The byte behind the last.
        end: usize,
        /// What they stand for.
        text: String,
        /// In which quotes.
        quote: Quote,
    },
    /// The value of a variable.
    Variable(Box<ParameterExpansion>),
    /// A command or a calculation.
    Code {
        /// First byte.
        start: usize,
        /// The byte behind the last.
        end: usize,
        /// In double quotes.
        quoted: bool,
    },
}

impl WordPiece {
    /// Bytes that stand for themselves.
    pub(super) fn text(bytes: Range<usize>, quote: Quote) -> Self {
        let (start, end) = (bytes.start, bytes.end);
        Self::Text { start, end, quote }
    }
}

/// A variable whose value is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterExpansion {
    /// Its name; a number or `@` for the script's own arguments.
    pub name: String,
    /// Which elements, where it is a list.
    pub index: Subscript,
    /// What is made of the value.
    pub operation: Operation,
    /// First byte, the `$`.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
    /// In double quotes.
    pub quoted: bool,
}

/// Which elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscript {
    /// The first, or the value of what is no list.
    First,
    /// All, each a word of its own.
    Each,
    /// All, as one word.
    Joined,
    /// One.
    At(usize),
    /// The one whose number is calculated from the text between these bytes.
    Computed {
        /// First byte.
        start: usize,
        /// The byte behind the last.
        end: usize,
    },
    /// One for which a command has to be run.
    Other,
}

/// What is made of a variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Nothing.
    Plain,
    /// `:-` and `-`: another where it is not set (with the colon: or empty).
    Default {
        /// Empty counts as not set.
        colon: bool,
        /// The other.
        other: Vec<WordPiece>,
    },
    /// `:=` and `=`: the same, and the variable has it from now on.
    Assign {
        /// Empty counts as not set.
        colon: bool,
        /// The other.
        other: Vec<WordPiece>,
    },
    /// `:+` and `+`: another where it is set.
    Alternative {
        /// Empty counts as not set.
        colon: bool,
        /// The other.
        other: Vec<WordPiece>,
    },
    /// `:?` and `?`: the script ends where it is not set.
    Required,
    /// Anything else, which computes.
    Other,
}

impl Word {
    /// The text, where the word consists of nothing but text.
    pub fn plain(&self, script: &str) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                WordPiece::Text { start, end, .. } => text.push_str(script.get(*start..*end)?),
                WordPiece::Escape { text: escaped, .. } => text.push_str(escaped),
                WordPiece::Variable(_) | WordPiece::Code { .. } => return None,
            }
        }
        Some(text)
    }

    /// The text of a word without any quotes, as reserved words are written.
    pub fn bare<'s>(&self, script: &'s str) -> Option<&'s str> {
        match self.pieces.as_slice() {
            [
                WordPiece::Text {
                    start,
                    end,
                    quote: Quote::Bare,
                },
            ] => script.get(*start..*end),
            _ => None,
        }
    }
}
