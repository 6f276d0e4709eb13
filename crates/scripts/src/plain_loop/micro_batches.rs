//! One loop over micro batches: which lines run for each of them, and which wait for the optimizer's step.

use std::collections::BTreeSet;

use super::called_function::CalledFunction;
use super::conditions::{SYNCS, StepConditions};
use super::libraries::names_a_task;
use super::lines::{
    assignment, calls_in, has_sign_or_mean, is_optimizer, lines_in, reduces_to_a_sum, shows,
};
use super::sliced::is_sliced;
use super::windows::is_window;
use super::{
    DoubtPlace, EACH, KEPT, LoopProgram, PLAIN, PythonToken, TokenKind, UNDIVIDED, arguments,
    is_named, line_of, rest_of_line,
};
use oomctl_base::word_list;

const TURNS: &str = "this loss leaves gradients in what another optimizer trains, until all micro batches were seen";

/// Changes in place.
pub(super) const IN_PLACE: [&str; 6] = word_list("mul_ add_ copy_ lerp_ div_ sub_");

/// A loop over micro batches.
pub(super) struct LoopOfBatches<'a, 't> {
    pub(super) program: &'a LoopProgram<'a, 't>,
    pub(super) file: usize,
    pub(super) tokens: &'a [PythonToken<'t>],
    /// The token that begins its header.
    pub(super) begin: usize,
    /// The lines that run for each micro batch.
    pub(super) lines: Vec<usize>,
    /// The lines that wait for the accumulation.
    pub(super) waits: Vec<usize>,
    /// Calls by which an object takes the loss backward and waits for the accumulation ([`super::scalers`]).
    told: BTreeSet<usize>,
    /// Its header goes over the accumulation.
    pub(super) accumulates: bool,
    /// Something else than the loss goes backward with it: `accelerator.backward(loss)`.
    pub(super) handed: bool,
    /// The function that it calls and in which the backward pass stands.
    pub(super) function: Option<CalledFunction<'a, 't>>,
}

impl<'a, 't> LoopOfBatches<'a, 't> {
    pub(super) fn new(program: &'a LoopProgram<'a, 't>, file: usize, begin: usize) -> Self {
        Self::through(program, file, begin, None)
    }

    /// One with a function that it calls, whose lines are as good as its own.
    pub(super) fn through(
        program: &'a LoopProgram<'a, 't>,
        file: usize,
        begin: usize,
        function: Option<CalledFunction<'a, 't>>,
    ) -> Self {
        let tokens = program.files[file];
        let mut all = lines_in(tokens, begin);
        all.extend(function.iter().flat_map(|f| &f.lines));
        let line = |at: usize| rest_of_line(&tokens[at..]);
        let mut conditions = StepConditions::new(program, tokens, begin, &all);
        // `self.run(x, y, update=(i + 1) % accum == 0)`
        let handed = function.iter().flat_map(|f| &f.parameters);
        for (name, given) in handed.filter_map(|(name, given)| Some((name, (*given)?))) {
            conditions.name(name, given);
        }
        let hands = |at: &usize| {
            let given = arguments(&tokens[at + 2..]);
            tokens[*at].is("backward") && given.first().is_some_and(|given| !is_named(given))
        };
        let mut calls = all
            .iter()
            .flat_map(|at| calls_in(tokens, *at, line(*at).len()));
        let handed = calls.any(|at| hands(&at));
        let calls = all
            .iter()
            .flat_map(|at| calls_in(tokens, *at, line(*at).len()));
        let told = calls.filter(|at| {
            let told = program.told_at(file, *at);
            told.is_some_and(|told| conditions.holds(told) == Some(true))
        });
        let told = told.collect();
        let waiting = conditions.waiting(&all);
        let (waits, lines): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|at| waiting.contains(at));
        let counts = |t: &PythonToken<'_>| program.is_accumulation(t) || t.is(SYNCS);
        let accumulates = line(begin).iter().any(counts);
        Self {
            program,
            file,
            tokens,
            begin,
            lines,
            waits,
            told,
            accumulates: accumulates
                || is_sliced(tokens, begin)
                || is_window(program, tokens, begin),
            handed,
            function,
        }
    }

    pub(super) fn line(&self, at: usize) -> &'a [PythonToken<'t>] {
        rest_of_line(&self.tokens[at..])
    }

    /// Whether something in it waits for the accumulation, or a framework does.
    pub(super) fn waits(&self) -> bool {
        self.accumulates || !self.waits.is_empty() || !self.told.is_empty() || self.is_framework()
    }

    /// Whether a framework accumulates, and steps only then.
    pub(super) fn is_framework(&self) -> bool {
        self.program
            .uses(&["accumulate_grad_batches", "LightningCLI"])
            || self.program.fills_a_trainer_of_lightning()
            || self.handed && self.program.uses(&["deepspeed"])
            || self.handed
                && self.program.uses(&["Accelerator"])
                && self.program.uses(&["accumulate"])
    }

    /// Whether a framework lets this step only with the last micro batch. Accelerate does so for what was prepared
    /// (accelerate, optimizer.py and scheduler.py).
    fn is_held_back(&self, object: &str) -> bool {
        let knows = |t: &PythonToken<'_>| t.is(object) || t.is("*");
        self.is_framework()
            && (!self.program.uses(&["Accelerator"])
                || is_optimizer(object)
                || self.program.is_handed("prepare", knows))
    }

    pub(super) fn doubt(&self) -> Option<DoubtPlace> {
        let states = || self.lines.iter().find_map(|at| self.state(*at));
        let found = self.over().or_else(|| self.counted()).or_else(states);
        let found = found.or_else(|| self.steps_in_turns());
        let found = found.or_else(|| self.uses().or_else(|| self.counted_behind()));
        found
            .map(|(why, at)| (why, self.file, at))
            .or_else(|| self.loss())
    }

    /// Where its loss goes backward, or is returned to a framework; else where it begins.
    pub(super) fn backward_pass(&self) -> usize {
        let all = || self.lines.iter().chain(&self.waits).copied();
        let mut calls = all().flat_map(|at| calls_in(self.tokens, at, self.line(at).len()));
        let backward = calls.find(|at| self.program.goes_backward(self.file, *at));
        let returned = || all().rfind(|at| self.tokens[*at].is("return"));
        backward.or_else(returned).unwrap_or(self.begin)
    }

    /// `loss = each.sum()`: a sum over samples that nothing of a micro batch divides is the same in parts.
    pub(super) fn adds_losses_up(&self) -> bool {
        let adds = |begin: usize, at: usize| {
            let [.., before] = &self.tokens[begin..at] else {
                return false;
            };
            let is_method = before.is(".") && self.tokens[at].is("sum");
            let is_text = self.tokens[at].kind == TokenKind::Text;
            let is_reduction = is_text && self.tokens[at].text == "sum";
            is_reduction || is_method && !self.program.is_of_parameters(self.file, at)
        };
        let sizes = |t: &PythonToken<'_>| {
            let batch = t.text.contains("batch") || self.program.loader_batches.contains(t.text);
            t.kind == TokenKind::Name && (batch || self.is_given(t.text))
        };
        self.lines.iter().any(|begin| {
            let line = self.line(*begin);
            let mut all = *begin..begin + line.len();
            let mut divisor = line.iter().skip_while(|t| !t.is("/"));
            line[0].text.contains("loss") && !divisor.any(sizes) && all.any(|at| adds(*begin, at))
        })
    }

    /// `loss = loss + aux` below `loss = ce / accum`: a term of the loss that was not divided with the one at `at`.
    pub(super) fn adds_undivided(&self, file: usize, at: usize) -> Option<DoubtPlace> {
        let begin = line_of(self.tokens, at);
        if file != self.file || !self.lines.contains(&begin) {
            return None;
        }
        let line = self.line(begin);
        let sign = assignment(line)?;
        let name = line[..sign].iter().find(|t| t.kind == TokenKind::Name)?;
        let later = self.lines.iter().filter(|at| **at > begin);
        let mut later = later.map(|at| (at, self.line(*at)));
        let adds = |line: &[PythonToken<'_>]| {
            line[0].is(name.text)
                && assignment(line).is_some_and(|sign| line[sign - 1..].iter().any(|t| t.is("+")))
                && !line.iter().any(|t| self.program.is_accumulation(t))
        };
        let added = later.find(|(_, line)| adds(line));
        added.map(|(at, _)| (UNDIVIDED, self.file, *at))
    }

    /// A loss of one's own that leaves out by how many tokens transformers divides, of a model that takes that number. The Trainer
    /// then divides it by nothing (trainer.py, 4.46 to 5.x: `model_accepts_loss_kwargs`).
    pub(super) fn undivided(&self) -> Option<DoubtPlace> {
        let hands_on = self.lines.iter().flat_map(|at| self.line(*at));
        let mut hands_on =
            hands_on.filter(|t| t.is("num_items_in_batch") || t.text.ends_with("kwargs"));
        let of_library = self.program.places.keys().any(|name| {
            let loads = ["LMHead", "from_pretrained", "from_config"];
            loads.iter().any(|part| name.contains(part))
                || names_a_task(name) && self.program.bodies(name).is_empty()
        });
        let calls_model = self.lines.iter().find(|at| {
            self.line(**at)
                .windows(2)
                .any(|w| w[0].is("model") && w[1].is("("))
        });
        let place = calls_model.filter(|_| of_library && hands_on.next().is_none());
        place.map(|at| (UNDIVIDED, self.file, *at))
    }

    /// `F.cross_entropy(x, y, reduction="sum") / num_items_in_batch`, and nothing beside it: the mean over a whole step.
    pub(super) fn divides_a_sum(&self) -> bool {
        let lines = || self.lines.iter().map(|at| self.line(*at));
        let sums = lines().any(reduces_to_a_sum);
        let divides = lines().any(|line| {
            line.windows(2)
                .any(|w| w[0].is("/") && w[1].is("num_items_in_batch"))
        });
        // A further term would not be divided.
        let adds = |line| has_sign_or_mean(line, ["+", "-"]);
        let of_loss = |t: &PythonToken<'_>| t.text.contains("loss");
        let changes = |line: &[PythonToken<'_>]| {
            let made = assignment(line).is_some() && of_loss(&line[0]);
            let plain = line.iter().any(|t| t.is("/") || t.is("reduction"));
            let mut calls = line.windows(2);
            let returns = line[0].is("return") && line.iter().any(of_loss);
            made && !plain
                || returns
                    && calls
                        .any(|w| w[0].kind == TokenKind::Name && w[1].is("(") && !w[0].is("return"))
        };
        sums && divides && !lines().any(adds) && !lines().any(changes)
    }

    /// Losses that go backward one after the other, each for an optimizer of its own: the gradients of the second reach what the
    /// first one trains, and stay there until all micro batches were seen.
    fn steps_in_turns(&self) -> Option<(&'static str, usize)> {
        let all = || self.lines.iter().chain(&self.waits);
        let called = |wanted: &'static str| {
            let calls = all().flat_map(|at| calls_in(self.tokens, *at, self.line(*at).len()));
            calls.filter(move |at| self.tokens[*at].is(wanted))
        };
        // `scaler.step(optimizer)`
        let optimizers = called("step").filter_map(|at| match arguments(&self.tokens[at + 2..]) {
            given if given.is_empty() => at.checked_sub(2).map(|at| self.tokens[at].text),
            given => given[0].last().map(|t| t.text),
        });
        let optimizers: BTreeSet<&str> = optimizers.filter(|name| is_optimizer(name)).collect();
        let second = called("backward").nth(1);
        second
            .filter(|_| optimizers.len() > 1)
            .map(|at| (TURNS, at))
    }

    /// A model of one's own that takes `**kwargs`, by which the Trainer believes that it divides its loss (trainer.py,
    /// `model_accepts_loss_kwargs`), and that hands them to nobody.
    pub(super) fn uncounted(&self) -> Option<DoubtPlace> {
        let header = self.line(self.begin);
        let mut pairs = header.windows(3);
        let kwargs = pairs.find(|w| w[0].is("*") && w[1].is("*"))?[2].text;
        let mut all = self.lines.iter().flat_map(|at| self.line(*at));
        let hands_on = all.any(|t| t.is(kwargs) || t.is("num_items_in_batch"));
        (!hands_on).then_some((UNDIVIDED, self.file, self.begin))
    }

    /// What a line that runs for each micro batch does beside the backward pass.
    fn state(&self, begin: usize) -> Option<(&'static str, usize)> {
        let line = self.line(begin);
        let has = |text: &str| line.iter().any(|t| t.is(text));
        let groups = has("param_groups") && !self.reads_groups(begin);
        if groups && !self.sets_by_steps(begin) {
            return Some((EACH, begin));
        }
        let sign = assignment(line);
        let is_element = line.len() > 1 && line[0].kind == TokenKind::Name && line[1].is("[");
        let is_element = is_element && !self.is_of_groups(begin);
        if sign.is_some() && is_element && !self.is_given(line[0].text) && !shows(line) {
            return Some((KEPT, begin));
        }
        let mut all = calls_in(self.tokens, begin, line.len());
        all.find_map(|at| {
            let name = self.tokens[at].text;
            let object = at.checked_sub(2).map_or("", |at| self.tokens[at].text);
            let profiles = object.contains("prof");
            let steps = ["step", "zero_grad"].contains(&name);
            let steps = steps && !profiles && !self.is_held_back(object);
            let clips = name.starts_with("clip_grad_");
            let keeps = !object.contains("loss") && !self.is_fresh(object);
            let shown = shows(&line[..at.saturating_sub(begin)]);
            let updates = name.starts_with("update") && !shown && keeps;
            let given = arguments(&self.tokens[at + 2..]);
            let mut given = given.iter().filter_map(|all| all.first());
            let is_plain = PLAIN.contains(&name) || name == "step" || clips;
            let optimizer = given.any(|t| is_optimizer(t.text)) && !is_plain;
            let optimizer = optimizer && !self.only_saves(name);
            if self.program.is_scaler(self.file, at) {
                return (!self.told.contains(&at)).then_some((EACH, at));
            }
            match (IN_PLACE.contains(&name), optimizer && !self.is_framework()) {
                (true, _) => Some((KEPT, at)),
                (_, true) => Some((EACH, at)),
                _ => (steps || updates || clips).then_some((EACH, at)),
            }
        })
    }

    /// Whether a name counts micro batches: `for i, … in enumerate(…)`, `n += 1`.
    pub(super) fn is_counter(&self, name: &str) -> bool {
        let header = self.line(self.begin);
        let enumerated =
            header.iter().any(|t| t.is("enumerate")) && header.get(1).is_some_and(|t| t.is(name));
        // `def training_step(self, batch, batch_idx)`
        let mut parameters = header.iter().filter(|t| t.kind == TokenKind::Name).skip(2);
        let enumerated = enumerated
            || header.get(1).is_some_and(|t| t.is("training_step"))
                && parameters.nth(2).is_some_and(|t| t.is(name));
        let added = self.lines.iter().any(|at| {
            matches!(self.line(*at), [first, plus, equals, one]
                if first.is(name) && plus.is("+") && equals.is("=") && one.is("1"))
        });
        // `it = epoch * len(loader) + i`
        let made = self.lines.iter().any(|at| {
            let line = self.line(*at);
            let number = header
                .get(1)
                .filter(|_| header.iter().any(|t| t.is("enumerate")));
            let of_number = number.is_some_and(|number| line.iter().any(|t| t.is(number.text)));
            // `last = i == len(loader) - 1` is none.
            let compares = line.windows(2).any(|w| w[0].is("=") && w[1].is("="));
            line[0].is(name)
                && !compares
                && assignment(line) == Some(1)
                && of_number
                && line.iter().any(|t| t.is("len"))
        });
        enumerated || added || made
    }

    /// What the function is handed that it calls.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &'t str> {
        let all = self.function.iter().flat_map(|f| &f.parameters);
        all.map(|(name, _)| *name)
    }

    /// Whether the loop gives a name its value for each micro batch.
    pub(super) fn is_given(&self, name: &str) -> bool {
        let header = self.line(self.begin);
        let targets = header.iter().take_while(|t| !t.is("in"));
        let mut lines = self.lines.iter().map(|at| self.line(*at));
        targets.into_iter().any(|t| t.is(name))
            || self.parameters().any(|parameter| parameter == name)
            || lines.any(|line| {
                line[0].is(name)
                    && assignment(line).is_some_and(|sign| line[..sign].iter().all(|t| !t.is("[")))
            })
    }
}
