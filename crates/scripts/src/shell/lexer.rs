//! Bytes to tokens: words, operators, ends of lines.

use super::MAX_DEPTH;
use super::word::{Word, WordPiece};
use crate::traced::Quote;

/// Operators, longest first.
const OPERATORS: [&str; 25] = [
    ";;&", "&>>", "<<-", "<<<", ";;", ";&", "&&", "||", "|&", "&>", "<<", "<&", "<>", ">>", ">&",
    ">|", "((", ";", "&", "|", "(", ")", "<", ">", "\n",
];

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShellToken {
    Word(Word),
    Operator(&'static str, usize),
    End,
}

/// A here-document: where its body is read to, once its line has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Here {
    end_word: String,
    /// Leading tabs do not belong to the text.
    tabs: bool,
    /// Nothing in it is replaced.
    quoted: bool,
    pub pieces: Vec<WordPiece>,
}

/// A script that is being read.
#[derive(Default)]
pub(super) struct Lexer<'s> {
    pub text: &'s str,
    pub bytes: &'s [u8],
    pub at: usize,
    pub depth: usize,
    /// Where something ended that should not have, such as a quote that is never closed.
    pub faults: Vec<usize>,
    pub heres: Vec<Here>,
    open: Vec<usize>,
    ahead: Option<ShellToken>,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            ..Self::default()
        }
    }

    pub(super) fn byte(&self, offset: usize) -> u8 {
        self.bytes.get(self.at + offset).copied().unwrap_or(0)
    }

    pub(super) fn starts(&self, text: &str) -> bool {
        self.bytes[self.at.min(self.bytes.len())..].starts_with(text.as_bytes())
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Remembers that something is wrong here; a few places are enough.
    pub(super) fn fault(&mut self) {
        if self.faults.len() < 16 {
            self.faults.push(self.at);
        }
    }

    /// The next token, which stays where it is.
    pub(super) fn peek(&mut self) -> &ShellToken {
        if self.ahead.is_none() {
            let token = self.read_token();
            self.ahead = Some(token);
        }
        self.ahead.as_ref().unwrap_or(&ShellToken::End)
    }

    /// The next token.
    pub(super) fn next(&mut self) -> ShellToken {
        match self.ahead.take() {
            Some(token) => token,
            None => self.read_token(),
        }
    }

    /// Takes the token that was looked at, which nothing stands behind that was read already.
    pub(super) fn take(&mut self) {
        self.ahead = None;
    }

    /// Whether the next token is this operator.
    pub(super) fn is(&mut self, operator: &str) -> bool {
        matches!(self.peek(), ShellToken::Operator(o, _) if *o == operator)
    }

    /// Whether the next token is this word, without quotes.
    pub(super) fn is_word(&mut self, word: &str) -> bool {
        let text = self.text;
        matches!(self.peek(), ShellToken::Word(w) if w.bare(text) == Some(word))
    }

    fn read_token(&mut self) -> ShellToken {
        self.skip_blanks();
        if self.at_end() {
            return ShellToken::End;
        }
        let start = self.at;
        if !self.starts("<(") && !self.starts(">(") {
            for operator in OPERATORS {
                if self.starts(operator) {
                    self.at += operator.len();
                    if operator == "\n" {
                        self.read_heres();
                    }
                    return ShellToken::Operator(operator, start);
                }
            }
        }
        ShellToken::Word(self.read_word())
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.byte(0) {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.byte(1) == b'\n' => self.at += 2,
                b'\\' if self.byte(1) == b'\r' && self.byte(2) == b'\n' => self.at += 3,
                b'#' => self.skip_line(),
                _ => return,
            }
            if self.at_end() {
                return;
            }
        }
    }

    /// To the end of the line, which stays.
    pub(super) fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        let line = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += line;
    }

    /// A word, of which at least one byte is taken.
    fn read_word(&mut self) -> Word {
        let mut word = Word {
            start: self.at,
            end: self.at,
            ..Word::default()
        };
        while !self.at_end() && !is_end(self.byte(0), self.byte(1)) {
            if matches!(self.byte(0), b'<' | b'>') && !self.starts("<(") && !self.starts(">(") {
                break;
            }
            if self.byte(0) == b'(' {
                if !self.read_list(&mut word) {
                    break;
                }
                continue;
            }
            self.read_piece(&mut word.pieces, b"()<>;&| \t\r\n");
        }
        if self.at == word.start {
            self.at += 1;
        }
        word.end = self.at;
        word
    }

    /// The words of `NAME=( … )`; false where the parenthesis is none of those.
    fn read_list(&mut self, word: &mut Word) -> bool {
        let before = &self.text[word.start..self.at];
        if !before.ends_with('=') || word.list.is_some() || self.depth >= MAX_DEPTH {
            return false;
        }
        self.at += 1;
        self.depth += 1;
        let ahead = self.ahead.take();
        let mut words = Vec::new();
        loop {
            match self.next() {
                ShellToken::Word(item) => words.push(item),
                ShellToken::Operator("\n", _) => {}
                ShellToken::Operator(")", _) => break,
                ShellToken::Operator(..) | ShellToken::End => {
                    self.fault();
                    break;
                }
            }
        }
        self.ahead = ahead;
        self.depth -= 1;
        word.list = Some(words);
        true
    }

    /// Announces a here-document: its body begins behind the end of this line.
    pub(super) fn announce(&mut self, end: &Word, tabs: bool) -> usize {
        let script = self.text;
        let bare = end.bare(script);
        let word = end.plain(script).unwrap_or_else(|| {
            let text = script.get(end.start..end.end);
            text.unwrap_or_default().to_owned()
        });
        self.heres.push(Here {
            end_word: word,
            tabs,
            quoted: bare.is_none(),
            pieces: Vec::new(),
        });
        self.open.push(self.heres.len() - 1);
        self.heres.len() - 1
    }

    /// Reads the bodies of the here-documents of the line that just ended.
    fn read_heres(&mut self) {
        for number in std::mem::take(&mut self.open) {
            let mut here = std::mem::take(&mut self.heres[number]);
            self.read_here(&mut here);
            self.heres[number] = here;
        }
    }

    fn read_here(&mut self, here: &mut Here) {
        let mut line_start = self.at;
        loop {
            if line_start >= self.bytes.len() {
                self.at = self.bytes.len();
                self.fault();
                return;
            }
            let rest = &self.bytes[line_start..];
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let skip = match here.tabs {
                true => rest.iter().take_while(|b| **b == b'\t').count(),
                false => 0,
            };
            let line = rest[..length]
                .strip_suffix(b"\r")
                .unwrap_or(&rest[..length]);
            if line.get(skip..) == Some(here.end_word.as_bytes()) {
                self.at = (line_start + length + 1).min(self.bytes.len());
                return;
            }
            let next = (line_start + length + 1).min(self.bytes.len());
            let body = (line_start + skip.min(length)).min(next);
            self.read_here_line(here, body, next);
            line_start = next;
        }
    }

    fn read_here_line(&mut self, here: &mut Here, start: usize, end: usize) {
        if here.quoted {
            here.pieces.push(WordPiece::text(start..end, Quote::Raw));
            return;
        }
        // Code that goes on over the line's end is read to its own end; the lines after it are text again.
        if self.at > end {
            return;
        }
        self.at = self.at.max(start);
        while self.at < end {
            self.read_quoted_piece(&mut here.pieces, Quote::Here, end);
        }
    }
}

/// Whether a word ends before this byte (and the one behind it).
fn is_end(byte: u8, next: u8) -> bool {
    match byte {
        b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' => true,
        b'\r' => next == b'\n' || next == 0,
        _ => false,
    }
}
