//! The variables of the environment that a program reads where it takes no option for them: `os.environ.get("BATCH_SIZE", 32)`.

use super::code_value::{CodeValue, PythonFile};
use super::program_text::CodeFiles;
use super::python::{PythonToken, TokenKind, closed_call};

/// A variable that a program reads.
pub(super) struct ReadVariable {
    /// The option of this name, in small letters.
    pub flag: String,
    /// The variable, with the value that counts without it.
    pub value: CodeValue,
    /// The code divides it.
    pub is_global: bool,
}

impl CodeFiles<'_, '_> {
    /// Those that the program gives no value itself.
    pub(super) fn read_variables(&self) -> Vec<ReadVariable> {
        let all = self.files.iter().flat_map(|file| {
            let places = (0..file.tokens.len())
                .filter(|at| file.tokens[*at].is("environ") || file.tokens[*at].is("getenv"));
            places.filter_map(|at| self.read_at(file, at))
        });
        let all: Vec<(ReadVariable, bool)> = all.collect();
        let is_set = |one: &ReadVariable| {
            let mut same = all.iter().filter(|(other, _)| other.flag == one.flag);
            same.any(|(_, is_set)| *is_set)
        };
        let is_set: Vec<bool> = all.iter().map(|(one, _)| is_set(one)).collect();
        let all = all.into_iter().zip(is_set);
        all.filter_map(|((one, _), is_set)| (!is_set).then_some(one))
            .collect()
    }

    /// The variable that is read at a token, and whether it is set there.
    fn read_at(&self, file: &PythonFile<'_>, at: usize) -> Option<(ReadVariable, bool)> {
        let tokens = &file.tokens;
        let is = |at: usize, text: &str| tokens.get(at).is_some_and(|t| t.is(text));
        let open = match is(at + 1, ".") && is(at + 2, "get") {
            true => at + 3,
            false => at + 1,
        };
        let inner = tokens.get(open + 1..)?;
        let (_, end) = closed_call(inner)?;
        let close = open + 1 + inner.iter().position(|t| t.to == end)?;
        let name = tokens.get(open + 1).filter(|t| t.kind == TokenKind::Text)?;
        let value = self.variable(file, &tokens[at..=close], 0)?;
        let behind = tokens[close + 1..].iter();
        let mut behind = behind.skip_while(|t: &&PythonToken<'_>| t.is(")"));
        let next = behind.next();
        let is_set = is(close + 1, "=") && !is(close + 2, "=");
        let found = ReadVariable {
            flag: format!("--{}", name.text.to_lowercase()),
            value,
            is_global: next.is_some_and(|t| t.is("/")),
        };
        Some((found, is_set))
    }
}
