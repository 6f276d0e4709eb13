//! Code that keeps the graph of every step: PyTorch then frees nothing that it needs.
//!
//! Rule: a place is named only where the text shows what is kept, that nothing lets go of it, and that no gradient is computed
//! of it later. Source: PyTorch documentation, `notes/faq` ("My model reports cuda runtime error(2): out of memory").

mod evaluation;
mod flow;
mod lines;
mod program;
mod stores;
#[cfg(test)]
mod tests;
mod together;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::adopt::Adoption;
use super::imports::{modules, own_packages};
use super::in_program::{InProgram, in_program};
use super::walk::folder_of_file;
pub use evaluation::EvaluationLines;
use evaluation::{evaluations, same_file};
use lines::CodeText;
use oomctl_base::line_and_column;
use program::ProgramLines;

/// Characters of a statement that are shown.
const SHOWN: usize = 80;

/// Most places of a program that are named.
const PLACES: usize = 4;

/// What a line does that keeps memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeping {
    /// It adds losses up, each with its graph.
    Sum,
    /// It collects tensors, each with its graph.
    Collection,
    /// It hands the state of one step, with its graph, to the next.
    State,
    /// It computes an evaluation with graphs.
    Evaluation,
    /// It loads a checkpoint onto the GPU.
    Checkpoint,
    /// It stores what it is handed in a buffer.
    Buffer,
    /// It has Lightning keep what each step returns.
    Outputs,
}

/// A place of a program that keeps memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptMemory {
    /// What it does.
    pub what: Keeping,
    /// File, as the job names it.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// The statement, in one line.
    pub text: String,
    /// The function in which it stands; empty outside of any.
    pub function: String,
}

impl KeptMemory {
    /// Whether it stands in the file that a frame of a traceback names.
    pub fn stands_in(&self, file: &str) -> bool {
        same_file(&self.path, file)
    }

    /// What it does, and what to do about it.
    pub fn sentence(&self) -> String {
        let Self {
            path, line, text, ..
        } = self;
        let said = match self.what {
            Keeping::Sum => {
                "adds up losses with their graphs, so memory grows every step: add `loss.item()` or `loss.detach()`"
            }
            Keeping::Collection => {
                "keeps tensors with their graphs, so memory grows every step: compute them under `torch.no_grad()`, or keep `.detach().cpu()`"
            }
            Keeping::State => {
                "hands a state with its graph to the next step, so memory grows every step: `.detach()` it between steps"
            }
            Keeping::Evaluation => {
                "evaluates with graphs for gradients: put it below `with torch.no_grad():`"
            }
            Keeping::Buffer => {
                "stores what it is handed as it is, and a tensor holds its memory on the GPU and its graph: store `.detach().cpu()`"
            }
            Keeping::Outputs => {
                "has Lightning keep on the GPU what each training_step returns, until the epoch ends: return the loss alone, or remove this method (Lightning 2.0 has none)"
            }
            Keeping::Checkpoint => {
                "loads the checkpoint onto the GPU, beside the model: use `map_location=\"cpu\"`, and delete it once it is loaded"
            }
        };
        format!("{path}:{line} `{text}` {said}")
    }
}

/// What the text of a program shows.
#[derive(Debug, Clone, Default)]
pub struct OwnText {
    /// Places that keep memory, in the order of its files and lines.
    pub kept: Vec<KeptMemory>,
    /// Lines that evaluate.
    pub evaluations: Vec<EvaluationLines>,
    /// Values that it gives names.
    pub in_program: InProgram,
}

impl Adoption<'_> {
    /// What the program's own text shows.
    pub fn own_text(&self) -> OwnText {
        let files = self.reading.with_created(self.given.files);
        let call = self.calls().next().or(self.reading.calls.last());
        let program = call.and_then(|call| call.program.as_ref());
        let Some(program) = program.and_then(|path| files.get_key_value(path)) else {
            return OwnText::default();
        };
        let root = folder_of_file(program.0);
        let here = call
            .and_then(own_packages)
            .unwrap_or_else(|| root.to_owned());
        let (own, _) = modules(program, (root, &here), &files);
        let texts: Vec<CodeText<'_, '_>> = own
            .iter()
            .map(|file| CodeText::new(file.path, file.text, &file.tokens))
            .collect();
        OwnText {
            kept: kept(&texts),
            evaluations: evaluations(&texts),
            in_program: in_program(&own),
        }
    }
}

/// The places of a program with these files.
fn kept(texts: &[CodeText<'_, '_>]) -> Vec<KeptMemory> {
    let program = ProgramLines::of(texts);
    let mut found = Vec::new();
    for text in texts {
        let mut functions = BTreeMap::new();
        for at in 0..text.lines.len() {
            if let Some(what) = program.keeping(text, at, &mut functions) {
                found.push(shown(text, at, what));
            }
        }
    }
    found.truncate(PLACES);
    found
}

fn shown(text: &CodeText<'_, '_>, at: usize, what: Keeping) -> KeptMemory {
    let line = &text.lines[at];
    let (from, to) = (line.tokens[0].from, line.tokens.last().map_or(0, |t| t.to));
    let statement = text.text.get(from..to).unwrap_or_default();
    let words: Vec<&str> = statement.split_whitespace().collect();
    KeptMemory {
        what,
        path: text.path.to_owned(),
        line: line_and_column(text.text, from).0,
        text: words.join(" ").chars().take(SHOWN).collect(),
        function: line
            .function
            .map_or_else(String::new, |function| text.name_of(function).to_owned()),
    }
}
