//! What the lines of a program mean for one another: which names are models, where no graph is kept.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::lines::{CodeText, GivenValue, behind_bracket, dotted};
use super::stores::{handed, keeps_outputs, stores};
use super::together::ReturnedTogether;
use super::words::{appended, called, frees, is_loss, names, trains};
use super::{
    super::python::{PythonToken, TokenKind, calls, calls_backward},
    Keeping,
};
use oomctl_base::word_list;

/// Methods of a model.
const OF_MODELS: [&str; 3] = ["parameters", "eval", "train"];

/// Words of a function that evaluates.
const EVALUATES: [&str; 6] = word_list("eval valid test infer predict validate");

/// Words that switch gradients off.
const OFF: [&str; 2] = ["no_grad", "inference_mode"];

/// Words that keep numbers only, in a class that adds up.
const METERS: [&str; 2] = ["update", "add"];

/// All files of a program.
pub(super) struct ProgramLines<'t> {
    /// Names of models, by what is called of them.
    pub nets: BTreeSet<&'t str>,
    /// Functions of the program whose results have no graph.
    pub plain: BTreeSet<&'t str>,
    /// Functions that run without gradients.
    quiet: BTreeSet<&'t str>,
    /// What the functions of the program return together.
    pub returned: BTreeMap<&'t str, Vec<ReturnedTogether>>,
    /// Methods by which buffers are handed values.
    pub handed: BTreeSet<&'t str>,
    /// A method of the program adds up what it gets as it is.
    meters: bool,
    /// It computes gradients somewhere.
    trains: bool,
}

/// The lines of one function, or those outside of any.
pub(super) struct FunctionLines<'p, 'a, 't> {
    pub program: &'p ProgramLines<'t>,
    pub text: &'p CodeText<'a, 't>,
    pub lines: Vec<usize>,
    /// Names in lines that compute gradients.
    pub backward: BTreeSet<String>,
    /// What its lines give names where graphs are kept, and where each name stands among it.
    pub given: Vec<GivenValue<'a, 't>>,
    pub places: BTreeMap<String, Vec<usize>>,
    /// Names whose graph was looked for so deep, and whether they carry one.
    pub carrying: RefCell<BTreeMap<(usize, String), bool>>,
}

impl<'t> ProgramLines<'t> {
    pub(super) fn of(texts: &[CodeText<'_, 't>]) -> Self {
        let mut found = Self {
            nets: BTreeSet::new(),
            plain: BTreeSet::new(),
            quiet: BTreeSet::new(),
            returned: BTreeMap::new(),
            handed: BTreeSet::new(),
            meters: false,
            trains: false,
        };
        for text in texts {
            for (at, line) in text.lines.iter().enumerate() {
                found.models(line.tokens);
                found.handed.extend(handed(line.tokens));
                if let Some((name, together)) = ReturnedTogether::read(text, at) {
                    found.returned.entry(name).or_default().push(together);
                }
                found.trains |= trains(line.tokens);
                found.functions(text, at);
            }
        }
        found
    }

    /// Takes the models of a line.
    fn models(&mut self, line: &[PythonToken<'t>]) {
        for at in 2..line.len() {
            let called = line.get(at + 1).is_some_and(|t| t.is("("));
            let (object, dot) = (&line[at - 2], &line[at - 1]);
            if called
                && dot.is(".")
                && OF_MODELS.contains(&line[at].text)
                && object.kind == TokenKind::Name
                && object.text != "self"
            {
                self.nets.insert(object.text);
            }
        }
    }

    /// Takes what a line says of functions.
    fn functions(&mut self, text: &CodeText<'_, 't>, at: usize) {
        let line = text.lines[at].tokens;
        if is_quiet(line) && line[0].is("with") {
            for below in text.below(at) {
                let tokens = text.lines[below].tokens;
                let called = calls(tokens, |_| true);
                self.quiet.extend(called.map(|at| tokens[at].text));
            }
        }
        let Some(function) = text.lines[at].function else {
            return;
        };
        let name = text.name_of(function);
        let decorated = text
            .decorators(function)
            .any(|at| is_quiet(text.lines[at].tokens));
        if decorated {
            self.quiet.insert(name);
        }
        let returns = line[0].is("return");
        if returns && (frees(line) || decorated) {
            self.plain.insert(name);
        }
        let adds = GivenValue::read(line).is_some_and(|g| g.adds && !frees(g.value));
        self.meters |= adds && METERS.contains(&name);
    }

    /// What a line does that keeps memory, in one of the `functions` of its file that were read.
    pub(super) fn keeping<'p, 'a>(
        &'p self,
        text: &'p CodeText<'a, 't>,
        at: usize,
        functions: &mut BTreeMap<Option<usize>, FunctionLines<'p, 'a, 't>>,
    ) -> Option<Keeping> {
        let line = &text.lines[at];
        if line.tokens[0].is("import") || line.tokens[0].is("from") {
            return None;
        }
        if loads_onto_the_gpu(line.tokens) {
            return Some(Keeping::Checkpoint);
        }
        if keeps_outputs(text, at) {
            return Some(Keeping::Outputs);
        }
        if stores(&self.handed, text, at) {
            return Some(Keeping::Buffer);
        }
        if self.is_without_graphs(text, at) {
            return None;
        }
        let function = functions.entry(line.function);
        let function = function.or_insert_with_key(|at| FunctionLines::of(self, text, *at));
        function.kept(at)
    }

    /// Whether no graph is kept where a line stands.
    fn is_without_graphs(&self, text: &CodeText<'_, 't>, at: usize) -> bool {
        let function = text.lines[at].function;
        let within = |head: usize| is_quiet(text.lines[head].tokens);
        let switched = |line: &usize| {
            let tokens = text.lines[*line].tokens;
            tokens.iter().any(|t| t.is("set_grad_enabled")) && tokens.iter().any(|t| t.is("False"))
        };
        let of = function.map(|function| text.name_of(function));
        let mut same = text.lines_of(function);
        same.extend(text.lines_of(None));
        text.heads(at).any(within)
            || of.is_some_and(|name| self.quiet.contains(name) || name == "forward")
            || same.iter().any(switched)
    }
}

impl<'p, 'a, 't> FunctionLines<'p, 'a, 't> {
    fn of(
        program: &'p ProgramLines<'t>,
        text: &'p CodeText<'a, 't>,
        function: Option<usize>,
    ) -> Self {
        let lines = text.lines_of(function);
        let tokens = lines.iter().map(|at| text.lines[*at].tokens);
        let backward = tokens.filter(|line| calls_backward(line));
        let within = |head: usize| is_quiet(text.lines[head].tokens);
        let loud = lines.iter().filter(|at| !text.heads(**at).any(within));
        let given = loud.filter_map(|at| GivenValue::read(text.lines[*at].tokens));
        let given: Vec<GivenValue<'a, 't>> = given.collect();
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, one) in given.iter().enumerate() {
            let targets: BTreeSet<&String> = one.targets.iter().collect();
            for target in targets {
                places.entry(target.clone()).or_default().push(at);
            }
        }
        Self {
            program,
            text,
            backward: backward.flat_map(names).collect(),
            lines,
            given,
            places,
            carrying: RefCell::default(),
        }
    }

    fn tokens(&self, at: usize) -> &'a [PythonToken<'t>] {
        self.text.lines[at].tokens
    }

    fn kept(&self, at: usize) -> Option<Keeping> {
        let line = self.tokens(at);
        let head = self.text.around(at);
        if head.is_some_and(|head| self.carries_state(line, head)) {
            return Some(Keeping::State);
        }
        let given = GivenValue::read(line);
        let own = given.as_ref().and_then(|given| {
            let [target] = &given.targets[..] else {
                return None;
            };
            let again = given.adds || names(given.value).contains(target);
            again.then(|| (target.clone(), given.value, Keeping::Sum))
        });
        let list = appended(line).map(|(to, what)| (to, what, Keeping::Collection));
        let meter = called(line, &METERS).filter(|_| self.program.meters);
        let meter = meter.map(|(to, what)| (to, what, Keeping::Sum));
        if let Some((target, value, what)) = own.or(list).or(meter)
            && self.stays(&target, head, at)
            && self.is_of_steps(head)
        {
            let loss = || names(value).iter().any(|name| is_loss(name));
            let of_sum = what == Keeping::Collection || loss();
            return (of_sum && self.is_kept(&target, value)).then_some(what);
        }
        let evaluates = head.is_some_and(|head| self.evaluates(line, head));
        evaluates.then_some(Keeping::Evaluation)
    }

    /// Whether the value carries a graph, and no gradient is computed of what it is added to.
    fn is_kept(&self, target: &str, value: &[PythonToken<'t>]) -> bool {
        let flowing = self.flowing();
        let of_backward = || {
            let names = names(value);
            let mut losses = names
                .iter()
                .filter(|name| is_loss(name) && flowing.contains(*name));
            !frees(value) && losses.any(|name| !self.is_freed(name))
        };
        !flowing.contains(target) && (self.carries(value, 0) || of_backward())
    }

    /// Whether a line of the function takes the graph off a name.
    fn is_freed(&self, name: &str) -> bool {
        let mut given = self
            .lines
            .iter()
            .filter_map(|at| GivenValue::read(self.tokens(*at)));
        given.any(|g| g.targets.iter().any(|t| t == name) && frees(g.value))
    }

    /// Whether what is added to a target is there at the next step: nothing gives it another value in the loop.
    fn stays(&self, target: &str, head: Option<usize>, at: usize) -> bool {
        let attribute = target.contains('.');
        let Some(head) = head else {
            return attribute && self.text.lines[at].function.is_some();
        };
        let begins = |line: &usize| {
            let given = GivenValue::read(self.tokens(*line));
            given.is_some_and(|g| !g.adds && g.targets.iter().any(|t| t == target))
        };
        let ends = |line: &usize| {
            let tokens = self.tokens(*line);
            let cleared = called_without(tokens, target, "clear");
            cleared || tokens[0].is("del") && names(tokens).iter().any(|name| name == target)
        };
        let mut inside = self.text.below(head).filter(|line| *line != at);
        let before = self.lines.iter().take_while(|line| **line < head);
        !inside.any(|line| begins(&line) || ends(&line))
            && (attribute || before.into_iter().any(begins))
    }

    /// Whether the function trains or evaluates, step by step.
    fn is_of_steps(&self, head: Option<usize>) -> bool {
        !self.backward.is_empty() || head.is_some_and(|head| self.is_evaluation(head))
    }

    /// Whether a loop evaluates: by the mode of the model before it, by its function's name, or because nothing trains.
    fn is_evaluation(&self, head: usize) -> bool {
        let trains = self.text.below(head).any(|at| trains(self.tokens(at)));
        let mode = |at: &usize| {
            let tokens = self.tokens(*at);
            let named = |name: &str| {
                let called = super::super::python::calls(tokens, |t| t.is(name));
                called
                    .into_iter()
                    .any(|at| at > 0 && tokens[at - 1].is("."))
            };
            match (named("eval"), named("train")) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            }
        };
        let before = self.lines.iter().filter(|at| **at < head);
        let mode = before.filter_map(mode).next_back();
        let name = self.text.lines[head].function.map(|f| self.text.name_of(f));
        let named = name.is_some_and(evaluates_by_name);
        // Layers of a model are no data.
        let over = GivenValue::read(self.tokens(head)).map(|given| names(given.value));
        let of_net = |name: &String| name.split('.').any(|part| self.program.nets.contains(part));
        let layers = over.is_some_and(|over| over.iter().any(of_net));
        !trains
            && !layers
            && (mode == Some(true) || mode.is_none() && (named || !self.program.trains))
    }

    /// Whether a line of a loop computes a model's output for an evaluation.
    fn evaluates(&self, line: &[PythonToken<'t>], head: usize) -> bool {
        let given = GivenValue::read(line).map_or(line, |given| given.value);
        let computes = dotted(given, 0).is_some_and(|(path, end)| {
            let last = path.rsplit('.').next().unwrap_or(&path);
            given.get(end).is_some_and(|t| t.is("(")) && self.program.nets.contains(last)
        });
        computes && !frees(given) && self.is_evaluation(head)
    }

    /// `out, hidden = model(x, hidden)` in a loop that never takes the graph off the state, beside `retain_graph=True`.
    fn carries_state(&self, line: &[PythonToken<'t>], head: usize) -> bool {
        let Some(given) = GivenValue::read(line) else {
            return false;
        };
        let Some((path, end)) = dotted(given.value, 0) else {
            return false;
        };
        let last = path.rsplit('.').next().unwrap_or(&path);
        let is_net =
            given.value.get(end).is_some_and(|t| t.is("(")) && self.program.nets.contains(last);
        let inner = given
            .value
            .get(end..behind_bracket(given.value, end))
            .unwrap_or_default();
        let handed = names(inner);
        let state = given.targets.iter().find(|target| handed.contains(*target));
        let retains = |at: &usize| {
            let tokens = self.tokens(*at);
            calls_backward(tokens) && tokens.iter().any(|t| t.is("retain_graph"))
        };
        let Some(state) = state.filter(|_| is_net && self.lines.iter().any(retains)) else {
            return false;
        };
        let renewed = self
            .text
            .below(head)
            .filter_map(|at| GivenValue::read(self.tokens(at)));
        let renewed = renewed.filter(|g| g.targets.contains(state));
        renewed.count() == 1
    }
}

/// `target.method()`.
fn called_without(line: &[PythonToken<'_>], target: &str, method: &str) -> bool {
    let path = dotted(line, 0).map(|(path, _)| path);
    path.is_some_and(|path| path == format!("{target}.{method}"))
}

/// Whether the name of a function says that it evaluates.
pub(super) fn evaluates_by_name(name: &str) -> bool {
    let name = name.to_lowercase();
    EVALUATES.iter().any(|word| name.contains(word))
}

/// Whether a line names what switches gradients off.
pub(super) fn is_quiet(line: &[PythonToken<'_>]) -> bool {
    let off = |t: &PythonToken<'_>| {
        t.kind == TokenKind::Name && OFF.iter().any(|word| t.text.contains(word))
    };
    let set = || line.iter().any(|t| t.is("set_grad_enabled"));
    line.iter().any(off) || set()
}

/// `torch.load(path)` without a place, or with one that is not the CPU.
fn loads_onto_the_gpu(line: &[PythonToken<'_>]) -> bool {
    let load = |at: usize| {
        dotted(line, at)
            .filter(|(path, end)| path == "torch.load" && line.get(*end).is_some_and(|t| t.is("(")))
    };
    let Some((_, open)) = (0..line.len()).find_map(load) else {
        return false;
    };
    let inside = &line[open..behind_bracket(line, open)];
    let to_host = |t: &PythonToken<'_>| {
        t.kind == TokenKind::Text && t.text == "cpu" || t.is("lambda") || t.is("mmap")
    };
    !inside.iter().any(to_host)
}
