//! Shell scripts as people submit them: words with the bytes that they stand in, and what is run when.
//!
//! Rule: nothing is run and nothing is refused. What is not understood is code, which has a place and no value;
//! every loop ends with the text, and what is nested too deep is code, too.

mod blocks;
mod commands;
mod compound;
mod lexer;
#[cfg(test)]
mod tests;
mod variable;
mod word;

pub use blocks::{ScriptBlock, ShellScript, read};
pub use commands::{Assignment, Redirect, RedirectTarget, SimpleCommand};
pub use word::{Operation, ParameterExpansion, Subscript, Word, WordPiece};

/// Can a character stand in the name of a variable?
pub(crate) fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// How deep words and blocks are read that stand in each other.
const MAX_DEPTH: usize = 40;
