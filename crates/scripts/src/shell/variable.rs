//! The pieces of a word: quotes, escapes, variables, code.

use super::lexer::Lexer;
use super::word::{Operation, ParameterExpansion, Subscript, WordPiece};
use super::{MAX_DEPTH, in_name};
use crate::traced::Quote;

impl Lexer<'_> {
    /// One piece outside quotes, or all that one pair of quotes holds. `stops` are the bytes before which text
    /// ends.
    pub(super) fn read_piece(&mut self, pieces: &mut Vec<WordPiece>, stops: &[u8]) {
        let start = self.at;
        match (self.byte(0), self.byte(1)) {
            (b'\'', _) => self.read_single(pieces),
            (b'"', _) | (b'$', b'"') => {
                self.at += usize::from(self.byte(0) == b'$');
                self.read_double(pieces);
            }
            (b'$', b'\'') => self.read_code(pieces, false),
            (b'$' | b'`', _) | (b'<' | b'>', b'(') => self.read_dollar(pieces, Quote::Bare),
            (b'\\', b'\n') => self.at += 2,
            (b'\\', _) => self.read_escape(pieces, Quote::Bare),
            _ => {
                let special = |b: u8| b"'\"$`\\".contains(&b) || stops.contains(&b);
                let rest = &self.bytes[self.at + 1..];
                let length = rest.iter().position(|b| special(*b)).unwrap_or(rest.len());
                self.at += 1 + length;
                pieces.push(WordPiece::text(start..self.at, Quote::Bare));
            }
        }
    }

    fn read_single(&mut self, pieces: &mut Vec<WordPiece>) {
        let start = self.at + 1;
        let rest = &self.bytes[start..];
        let length = memchr::memchr(b'\'', rest);
        let end = start + length.unwrap_or(rest.len());
        self.at = end;
        match length {
            Some(_) => self.at += 1,
            None => self.fault(),
        }
        pieces.push(WordPiece::text(start..end, Quote::Single));
    }

    fn read_double(&mut self, pieces: &mut Vec<WordPiece>) {
        self.at += 1;
        let (before, start) = (pieces.len(), self.at);
        loop {
            if self.at_end() {
                self.fault();
                break;
            }
            if self.byte(0) == b'"' {
                self.at += 1;
                break;
            }
            self.read_quoted_piece(pieces, Quote::Double, self.bytes.len());
        }
        if pieces.len() == before {
            pieces.push(WordPiece::text(start..start, Quote::Double));
        }
    }

    /// One piece between double quotes or in a here-document, where text ends at `end` at the latest.
    pub(super) fn read_quoted_piece(
        &mut self,
        pieces: &mut Vec<WordPiece>,
        quote: Quote,
        end: usize,
    ) {
        let start = self.at;
        match (self.byte(0), self.byte(1)) {
            (b'\\', b'\n') => self.at += 2,
            (b'\\', b'$' | b'`' | b'\\') => self.read_escape(pieces, quote),
            (b'\\', b'"') if quote == Quote::Double => self.read_escape(pieces, quote),
            (b'$' | b'`', _) => self.read_dollar(pieces, quote),
            _ => {
                let special = |b: u8| b"$`\\".contains(&b) || (b == b'"' && quote == Quote::Double);
                let rest = &self.bytes[self.at + 1..end.max(self.at + 1)];
                let length = rest.iter().position(|b| special(*b)).unwrap_or(rest.len());
                self.at += 1 + length;
                pieces.push(WordPiece::text(start..self.at, quote));
            }
        }
    }

    /// A backslash and the character behind it.
    fn read_escape(&mut self, pieces: &mut Vec<WordPiece>, quote: Quote) {
        let start = self.at;
        let rest = &self.text[self.at + 1..];
        let character = rest.chars().next();
        self.at += 1 + character.map_or(0, char::len_utf8);
        pieces.push(WordPiece::Escape {
            start,
            end: self.at,
            text: character.unwrap_or('\\').to_string(),
            quote,
        });
    }

    /// What a dollar sign, a backtick or a process substitution begins.
    fn read_dollar(&mut self, pieces: &mut Vec<WordPiece>, quote: Quote) {
        let quoted = quote != Quote::Bare;
        match self.byte(1) {
            _ if self.byte(0) != b'$' => self.read_code(pieces, quoted),
            b'(' | b'[' => self.read_code(pieces, quoted),
            b'{' => self.read_braces(pieces, quoted),
            c if c.is_ascii_alphabetic() || c == b'_' => {
                let name = self.name_at(self.at + 1).to_owned();
                self.plain_variable(pieces, name, quoted);
            }
            c if c.is_ascii_digit() || b"@*#?!$-".contains(&c) => {
                let name = char::from(c).to_string();
                self.plain_variable(pieces, name, quoted);
            }
            _ => {
                let start = self.at;
                self.at += 1;
                pieces.push(WordPiece::text(start..self.at, quote));
            }
        }
    }

    fn name_at(&self, start: usize) -> &str {
        let rest = &self.text[start..];
        let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        &rest[..end]
    }

    fn plain_variable(&mut self, pieces: &mut Vec<WordPiece>, name: String, quoted: bool) {
        let start = self.at;
        self.at += 1 + name.len();
        let index = match name.as_str() {
            "@" => Subscript::Each,
            "*" => Subscript::Joined,
            _ => Subscript::First,
        };
        pieces.push(WordPiece::Variable(Box::new(ParameterExpansion {
            name: if name == "*" { "@".to_owned() } else { name },
            index,
            operation: Operation::Plain,
            start,
            end: self.at,
            quoted,
        })));
    }

    /// `${ … }`.
    fn read_braces(&mut self, pieces: &mut Vec<WordPiece>, quoted: bool) {
        let start = self.at;
        let end = self.code_end(start);
        let variable = match self.depth < MAX_DEPTH {
            true => self.variable_in_braces(start, quoted),
            false => None,
        };
        match variable {
            // What was read and where the code ends must agree, or it is something else.
            Some(variable) if self.at == end => {
                pieces.push(WordPiece::Variable(Box::new(variable)))
            }
            _ => {
                self.at = end;
                pieces.push(WordPiece::Code { start, end, quoted });
            }
        }
    }

    fn variable_in_braces(&mut self, start: usize, quoted: bool) -> Option<ParameterExpansion> {
        self.at = start + 2;
        let special = matches!(self.byte(0), b'@' | b'*');
        let name = match special {
            true => "@".to_owned(),
            false => self.name_at(self.at).to_owned(),
        };
        if name.is_empty() {
            return None;
        }
        let joined = special && self.byte(0) == b'*';
        self.at += name.len();
        let index = match (special, joined) {
            (true, true) => Subscript::Joined,
            (true, false) => Subscript::Each,
            _ => self.read_index(),
        };
        let operation = self.read_operation(quoted);
        if self.byte(0) != b'}' {
            return None;
        }
        self.at += 1;
        Some(ParameterExpansion {
            name,
            index,
            operation,
            start,
            end: self.at,
            quoted,
        })
    }

    fn read_index(&mut self) -> Subscript {
        if self.byte(0) != b'[' {
            return Subscript::First;
        }
        let start = self.at + 1;
        let rest = &self.text[start..];
        let whole = |text: &str| {
            let is_closed = text.matches('{').count() == text.matches('}').count();
            is_closed && !text.contains(['\n', '[', '`', '"', '\''])
        };
        let Some(length) = rest.find(']').filter(|l| whole(&rest[..*l])) else {
            return Subscript::Other;
        };
        let end = start + length;
        let index = match &rest[..length] {
            "@" => Subscript::Each,
            "*" => Subscript::Joined,
            number => number
                .parse()
                .map_or(Subscript::Computed { start, end }, Subscript::At),
        };
        self.at += length + 2;
        index
    }

    fn read_operation(&mut self, quoted: bool) -> Operation {
        let colon = self.byte(0) == b':';
        let sign = self.byte(usize::from(colon));
        if !b"-=+?".contains(&sign) {
            if self.byte(0) != b'}' {
                self.skip_to_brace();
                return Operation::Other;
            }
            return Operation::Plain;
        }
        self.at += 1 + usize::from(colon);
        let other = self.read_alternative(quoted);
        match sign {
            b'-' => Operation::Default { colon, other },
            b'=' => Operation::Assign { colon, other },
            b'+' => Operation::Alternative { colon, other },
            _ => Operation::Required,
        }
    }

    /// The text behind the sign, up to the closing brace, which stays.
    fn read_alternative(&mut self, quoted: bool) -> Vec<WordPiece> {
        let mut pieces = Vec::new();
        let start = self.at;
        // Where text ends at the latest, looked for once for all pieces before it.
        let mut end = start;
        self.depth += 1;
        while !self.at_end() && self.byte(0) != b'}' {
            match quoted {
                true if self.byte(0) == b'"' => self.read_double(&mut pieces),
                true => {
                    if self.at >= end {
                        let rest = &self.bytes[self.at..];
                        let length = rest.iter().position(|b| matches!(b, b'}' | b'"'));
                        end = self.at + length.unwrap_or(rest.len());
                    }
                    self.read_quoted_piece(&mut pieces, Quote::Double, end);
                }
                false => self.read_piece(&mut pieces, b"}"),
            }
        }
        self.depth -= 1;
        if pieces.is_empty() {
            let quote = if quoted { Quote::Double } else { Quote::Bare };
            pieces.push(WordPiece::text(start..start, quote));
        }
        pieces
    }

    fn skip_to_brace(&mut self) {
        // `code_end` knows where the braces end; here it suffices to get there when nothing is nested.
        let rest = &self.bytes[self.at..];
        self.at += memchr::memchr(b'}', rest).unwrap_or(rest.len());
    }

    /// Code as one piece.
    fn read_code(&mut self, pieces: &mut Vec<WordPiece>, quoted: bool) {
        let start = self.at;
        let end = self.code_end(start);
        self.at = end;
        pieces.push(WordPiece::Code { start, end, quoted });
    }

    /// Where the code ends that begins at `start` with `$(`, `${`, `$[`, `$'`, `<(` or a backtick.
    pub(super) fn code_end(&mut self, start: usize) -> usize {
        let first = self.bytes.get(start).copied().unwrap_or(0);
        let second = self.bytes.get(start + 1).copied().unwrap_or(0);
        let (mut closing, mut at) = match (first, second) {
            (b'`', _) => (vec![b'`'], start + 1),
            (_, b'{') => (vec![b'}'], start + 2),
            (_, b'[') => (vec![b']'], start + 2),
            (_, b'\'') => (vec![b'\''], start + 2),
            _ => (vec![b')'], start + 2),
        };
        while let (Some(close), Some(byte)) = (closing.last().copied(), self.bytes.get(at).copied())
        {
            let next = self.bytes.get(at + 1).copied().unwrap_or(0);
            at += 1;
            let literal = close == b'\'' && second != b'\'';
            match byte {
                b'\\' if !literal => at += 1,
                _ if byte == close => {
                    closing.pop();
                }
                _ if close == b'\'' || closing.len() >= 4 * MAX_DEPTH => {}
                b'\'' if close != b'"' => closing.push(b'\''),
                b'"' => closing.push(b'"'),
                b'`' => closing.push(b'`'),
                b'$' if next == b'(' || next == b'{' => {
                    closing.push(if next == b'(' { b')' } else { b'}' });
                    at += 1;
                }
                b'(' if close == b')' => closing.push(b')'),
                _ => {}
            }
        }
        if !closing.is_empty() {
            self.fault();
        }
        self.text.len().min(at)
    }
}
