//! Commands that hold others: branches, loops, cases, functions.

use std::rc::Rc;

use super::blocks::ScriptBlock;
use super::lexer::{Lexer, ShellToken};
use super::word::Word;

impl Lexer<'_> {
    pub(super) fn read_arithmetic(&mut self, start: usize, blocks: &mut Vec<ScriptBlock>) {
        self.take();
        let inner = self.code_end(start);
        self.at = (inner + 1).min(self.bytes.len());
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
        let end = self.at;
        blocks.push(ScriptBlock::Test { start, end });
    }

    pub(super) fn read_if(&mut self, blocks: &mut Vec<ScriptBlock>) {
        self.take();
        let (before, start) = (blocks.len(), self.at);
        let (mut branches, mut whole) = (Vec::new(), false);
        self.read_blocks(&[], blocks);
        let condition = self.text.get(start..self.at).unwrap_or_default();
        let never = asks_for_an_npu(condition);
        let mut tests = vec![test(blocks.get(before..).unwrap_or_default())];
        self.close("then");
        let mut branch = Vec::new();
        loop {
            self.read_blocks(&[], &mut branch);
            branches.push(std::mem::take(&mut branch));
            if self.is_word("elif") {
                self.take();
                self.read_blocks(&[], &mut branch);
                tests.push(test(&branch));
                self.close("then");
            } else if self.is_word("else") && !whole {
                self.take();
                whole = true;
            } else {
                break;
            }
        }
        self.close("fi");
        if never {
            branches.remove(0);
            tests.remove(0);
        }
        match (branches.len(), whole) {
            (0, _) => return,
            (1, true) if never => return blocks.append(&mut branches[0]),
            _ => {}
        }
        blocks.push(ScriptBlock::Branches {
            branches,
            whole,
            case: None,
            tests,
        });
        self.read_trailing_redirects(before, blocks);
    }

    pub(super) fn read_for(&mut self, blocks: &mut Vec<ScriptBlock>) {
        let start = self.at;
        self.take();
        let mut variable = None;
        let text = self.text;
        if let ShellToken::Operator("((", at) = *self.peek() {
            self.read_arithmetic(at, blocks);
        } else if let ShellToken::Word(name) = self.next() {
            let mut words = Vec::new();
            while self.is("\n") {
                self.take();
            }
            if self.is_word("in") {
                self.take();
                while let ShellToken::Word(word) = self.peek().clone() {
                    self.take();
                    words.push(word);
                }
            }
            variable = name.bare(text).map(|name| (name.to_owned(), words));
        }
        self.read_loop(variable, Vec::new(), (start, self.at), blocks);
    }

    pub(super) fn read_while(&mut self, blocks: &mut Vec<ScriptBlock>) {
        let start = self.at;
        self.take();
        let mut condition = Vec::new();
        self.read_blocks(&[], &mut condition);
        self.read_loop(None, condition, (start, self.at), blocks);
    }

    fn read_loop(
        &mut self,
        variable: Option<(String, Vec<Word>)>,
        condition: Vec<ScriptBlock>,
        head: (usize, usize),
        blocks: &mut Vec<ScriptBlock>,
    ) {
        while self.is("\n") || self.is(";") {
            self.take();
        }
        let mut body = Vec::new();
        let closing = if self.is_word("{") { "}" } else { "done" };
        match closing {
            "}" => self.take(),
            _ => self.close("do"),
        }
        self.read_blocks(&[closing], &mut body);
        self.close(closing);
        blocks.push(ScriptBlock::Loop {
            variable,
            condition,
            body,
            head,
        });
        self.read_trailing_redirects(blocks.len() - 1, blocks);
    }

    pub(super) fn read_case(&mut self, blocks: &mut Vec<ScriptBlock>) {
        self.take();
        let subject = match self.next() {
            ShellToken::Word(subject) => subject,
            _ => Word::default(),
        };
        while self.is("\n") {
            self.take();
        }
        self.close("in");
        let (mut branches, mut patterns, mut whole) = (Vec::new(), Vec::new(), false);
        loop {
            while self.is("\n") || self.is(";;") || self.is(";&") || self.is(";;&") {
                self.take();
            }
            if self.is_word("esac") || *self.peek() == ShellToken::End {
                break;
            }
            let words = self.read_patterns();
            whole |= words.iter().any(|w| w.bare(self.text) == Some("*"));
            patterns.push(words);
            let mut branch = Vec::new();
            self.read_blocks(&[], &mut branch);
            branches.push(branch);
            if !self.is(";;") && !self.is(";&") && !self.is(";;&") {
                break;
            }
        }
        self.close("esac");
        blocks.push(ScriptBlock::Branches {
            branches,
            whole,
            case: Some((subject, patterns)),
            tests: Vec::new(),
        });
        self.read_trailing_redirects(blocks.len() - 1, blocks);
    }

    /// The patterns of a case up to their parenthesis.
    fn read_patterns(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        if self.is("(") {
            self.take();
        }
        loop {
            match self.next() {
                ShellToken::Word(word) => words.push(word),
                ShellToken::Operator("|" | "||" | "(", _) => {}
                ShellToken::Operator(")", _) => return words,
                ShellToken::Operator(..) | ShellToken::End => {
                    self.fault();
                    return words;
                }
            }
        }
    }

    /// `[[ … ]]`.
    pub(super) fn read_test(&mut self, blocks: &mut Vec<ScriptBlock>) {
        let start = match self.peek() {
            ShellToken::Word(word) => word.start,
            _ => self.at,
        };
        while !self.is_word("]]") && *self.peek() != ShellToken::End {
            self.take();
        }
        self.close("]]");
        let end = self.at;
        blocks.push(ScriptBlock::Test { start, end });
    }

    pub(super) fn read_function(&mut self, blocks: &mut Vec<ScriptBlock>) {
        let text = self.text;
        let name = match self.next() {
            ShellToken::Word(name) => name.bare(text).unwrap_or_default().to_owned(),
            _ => return self.fault(),
        };
        self.read_body(name, blocks);
    }

    /// What stands behind the name of a function.
    pub(super) fn read_body(&mut self, name: String, blocks: &mut Vec<ScriptBlock>) {
        while self.is("(") || self.is(")") || self.is("\n") {
            self.take();
        }
        let mut body = Vec::new();
        self.read_block(&mut body);
        let body = Rc::new(body);
        blocks.push(ScriptBlock::Function { name, body });
    }
}

/// A condition of simple commands; nothing of one that holds others, which may hold others without end.
fn test(condition: &[ScriptBlock]) -> Vec<ScriptBlock> {
    let is_simple =
        |b: &ScriptBlock| matches!(b, ScriptBlock::Command(_) | ScriptBlock::Test { .. });
    let is_flat = |block: &ScriptBlock| match block {
        ScriptBlock::Maybe(inner) => inner.iter().all(is_simple),
        block => is_simple(block),
    };
    match condition.iter().all(is_flat) {
        true => condition.to_vec(),
        false => Vec::new(),
    }
}

/// Whether a test holds on an NPU alone, which is no GPU: `[ "$device" == "npu" ]`, as in verl's examples.
fn asks_for_an_npu(condition: &str) -> bool {
    let plain = condition.replace(['"', '\''], "");
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is = |pair: &[&str]| matches!(pair[0], "=" | "==") && pair[1] == "npu";
    let denied = words.iter().any(|word| matches!(*word, "!" | "||"));
    !denied && words.windows(2).any(is)
}
