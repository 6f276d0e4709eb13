//! What is run under which condition.

use std::rc::Rc;

use super::MAX_DEPTH;
use super::commands::{Redirect, SimpleCommand};
use super::lexer::{Lexer, ShellToken};
use super::word::{Word, WordPiece};

/// A script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellScript {
    /// What is run, in order.
    pub blocks: Vec<ScriptBlock>,
    /// Bodies of here-documents, which redirections name by number.
    pub heres: Vec<Vec<WordPiece>>,
    /// Bytes at which something stands that is no shell as far as is known here.
    pub faults: Vec<usize>,
}

/// A piece of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptBlock {
    /// A simple command.
    Command(SimpleCommand),
    /// One of several; none of them, too, unless they are `whole`.
    Branches {
        /// What is run in each case.
        branches: Vec<Vec<ScriptBlock>>,
        /// One of them is always taken.
        whole: bool,
        /// The word that chooses, and the patterns of each branch.
        case: Option<(Word, Vec<Vec<Word>>)>,
        /// The simple commands whose success takes each branch, unless one before it is taken; none where others decide.
        tests: Vec<Vec<ScriptBlock>>,
    },
    /// Run several times, or not at all.
    Loop {
        /// The variable that takes each of the words.
        variable: Option<(String, Vec<Word>)>,
        /// What is run to see whether it goes on.
        condition: Vec<ScriptBlock>,
        /// What is run each time.
        body: Vec<ScriptBlock>,
        /// Where its head stands.
        head: (usize, usize),
    },
    /// Run without an effect on the variables of what follows.
    Subshell(Vec<ScriptBlock>),
    /// Each run in a shell of its own, and handed what the one before it prints.
    Pipeline(Vec<Vec<ScriptBlock>>),
    /// Run with its streams going elsewhere.
    Redirected {
        /// What is run.
        inner: Vec<ScriptBlock>,
        /// Where its streams go.
        redirects: Vec<Redirect>,
    },
    /// Run where the command before it ended in success, or did not.
    Maybe(Vec<ScriptBlock>),
    /// `[[ … ]]` and `(( … ))`, which use variables and run nothing.
    Test {
        /// First byte.
        start: usize,
        /// The byte behind the last.
        end: usize,
    },
    /// Defined now and run when it is called.
    Function {
        /// Its name.
        name: String,
        /// What is run; shared, because it is remembered wherever the function is defined.
        body: Rc<Vec<ScriptBlock>>,
    },
}

/// Reads a script. Any text is one.
pub fn read(text: &str) -> ShellScript {
    let mut lexer = Lexer::new(text);
    let mut blocks = Vec::new();
    loop {
        lexer.read_blocks(&[], &mut blocks);
        if *lexer.peek() == ShellToken::End {
            break;
        }
        // A closing word that nothing opened.
        lexer.fault();
        lexer.take();
    }
    ShellScript {
        blocks,
        heres: lexer.heres.into_iter().map(|here| here.pieces).collect(),
        faults: lexer.faults,
    }
}

/// Words that end a block wherever they stand as a command.
const CLOSING: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];

impl Lexer<'_> {
    /// Commands up to one of the words `ends`, which stays, or a closing parenthesis.
    pub(super) fn read_blocks(&mut self, ends: &[&str], blocks: &mut Vec<ScriptBlock>) {
        loop {
            let text = self.text;
            match self.peek() {
                ShellToken::End | ShellToken::Operator(")" | ";;" | ";&" | ";;&", _) => return,
                ShellToken::Operator("\n" | ";" | "&" | "&&" | "||" | "|" | "|&", _) => self.take(),
                ShellToken::Word(word) => {
                    let bare = word.bare(text).unwrap_or_default();
                    if ends.contains(&bare) || CLOSING.contains(&bare) {
                        return;
                    }
                    self.read_chain(blocks);
                }
                ShellToken::Operator(..) => self.read_chain(blocks),
            }
        }
    }

    /// Commands joined by `&&` and `||`.
    fn read_chain(&mut self, blocks: &mut Vec<ScriptBlock>) {
        self.read_pipeline(blocks);
        while self.is("&&") || self.is("||") {
            self.take();
            while self.is("\n") {
                self.take();
            }
            let mut then = Vec::new();
            self.read_pipeline(&mut then);
            blocks.push(ScriptBlock::Maybe(then));
        }
    }

    fn read_pipeline(&mut self, blocks: &mut Vec<ScriptBlock>) {
        while self.is_word("!") {
            self.take();
        }
        let mut first = Vec::new();
        self.read_block(&mut first);
        if !self.is("|") && !self.is("|&") {
            blocks.append(&mut first);
            return;
        }
        let mut parts = vec![first];
        while self.is("|") || self.is("|&") {
            self.take();
            while self.is("\n") {
                self.take();
            }
            let mut next = Vec::new();
            self.read_block(&mut next);
            parts.push(next);
        }
        blocks.push(ScriptBlock::Pipeline(parts));
    }

    /// One command of any kind. Takes at least one token, unless there is none or a block ends.
    pub(super) fn read_block(&mut self, blocks: &mut Vec<ScriptBlock>) {
        let text = self.text;
        let faults = self.faults.len();
        let (start, word, paren) = match self.peek() {
            ShellToken::Word(word) => {
                let bare = word.bare(text).unwrap_or_default();
                (word.start, bare.to_owned(), 0)
            }
            ShellToken::Operator("(", start) => (*start, String::new(), 1),
            ShellToken::Operator("((", start) => (*start, String::new(), 2 + *start),
            _ => (text.len(), String::new(), 0),
        };
        if self.depth >= MAX_DEPTH {
            self.fault();
            return self.read_simple(blocks);
        }
        self.depth += 1;
        let before = blocks.len();
        match (word.as_str(), paren) {
            (_, 1) => {
                let mut inner = Vec::new();
                self.take();
                self.read_blocks(&[], &mut inner);
                self.close(")");
                blocks.push(ScriptBlock::Subshell(inner));
                self.read_trailing_redirects(before, blocks);
            }
            (_, 2..) => self.read_arithmetic(paren - 2, blocks),
            ("{", _) => {
                self.take();
                self.read_blocks(&["}"], blocks);
                self.close("}");
                self.read_trailing_redirects(before, blocks);
            }
            ("if", _) => self.read_if(blocks),
            ("for" | "select", _) => self.read_for(blocks),
            ("while" | "until", _) => self.read_while(blocks),
            ("case", _) => self.read_case(blocks),
            ("[[", _) => self.read_test(blocks),
            ("function", _) => {
                self.take();
                self.read_function(blocks);
            }
            _ => self.read_simple(blocks),
        }
        // What the end of the text leaves open is wrong where it begins.
        let open = self.faults[faults..].iter_mut();
        open.filter(|at| **at >= text.len())
            .for_each(|at| *at = start);
        self.depth -= 1;
    }

    /// The next token if it is this operator or word; a fault else.
    pub(super) fn close(&mut self, what: &str) {
        match self.is(what) || self.is_word(what) {
            true => self.take(),
            false => self.fault(),
        }
    }

    /// Redirections behind a block: they are of all that was read since there were so many blocks.
    pub(super) fn read_trailing_redirects(&mut self, before: usize, blocks: &mut Vec<ScriptBlock>) {
        let mut redirects = Vec::new();
        while matches!(self.peek(), ShellToken::Operator(o, _) if o.contains(['<', '>'])) {
            redirects.extend(self.read_command().redirects);
        }
        if !redirects.is_empty() {
            let inner = blocks.split_off(before.min(blocks.len()));
            blocks.push(ScriptBlock::Redirected { inner, redirects });
        }
    }

    fn read_simple(&mut self, blocks: &mut Vec<ScriptBlock>) {
        let command = self.read_command();
        let text = self.text;
        let name = match command.words.as_slice() {
            // Without the bound a function could be the body of another without end.
            [name] if command.assignments.is_empty() && self.depth < MAX_DEPTH && self.is("(") => {
                name.bare(text)
            }
            _ => None,
        };
        let nothing = command.words.is_empty()
            && command.assignments.is_empty()
            && command.redirects.is_empty();
        match name.map(str::to_owned) {
            Some(name) => self.read_body(name, blocks),
            None if nothing => {
                let ends = matches!(
                    self.peek(),
                    ShellToken::End | ShellToken::Operator(")" | ";;" | ";&" | ";;&" | "\n", _)
                );
                if !ends {
                    self.fault();
                    self.take();
                }
            }
            None => {
                // A parenthesis behind words is none that a command can have.
                if self.is("(") || self.is("((") {
                    self.fault();
                    self.take();
                }
                blocks.push(ScriptBlock::Command(command));
            }
        }
    }
}
