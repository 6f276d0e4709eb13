//! What goes into the loss of a loop over micro batches, and what its gradients go through.

use std::collections::BTreeSet;

use super::super::python::{bracket, functions_around, is_keyword};
use super::lines::{assignment, calls_in, keeps, shows};
use super::means::{is_no_mean, nests_a_mean};
use super::uses::{DECIDES, DRAWN, draws_once};
use super::{
    CALL, COMPUTE_LOSS, COUNT, DEPTH, DoubtPlace, KEPT, LOADS, LoopOfBatches, LoopProgram, MIXED,
    PLAIN, PythonToken, SUMMED, TOKENS, TokenKind, WEIGHED, headers, line_of, rest_of_line,
};

/// What lines begin with that compute nothing of the loss.
const TELLS: [&str; 5] = ["raise", "assert", "print", "logger", "logging"];
/// Parts of names of models whose loss is a mean over tokens (transformers, models/auto).
const LANGUAGE: [&str; 6] = [
    "ForCausalLM",
    "LMHead",
    "ForConditionalGeneration",
    "ForMaskedLM",
    "ForSeq2SeqLM",
    "ForTokenClassification",
];
/// Methods by which objects hand out the next data.
const NEXT: [&str; 3] = ["next_batch", "get_batch", "next_train_batch"];

impl LoopOfBatches<'_, '_> {
    /// A part of the loss that was not understood, or that looks at several samples.
    pub(super) fn loss(&self) -> Option<DoubtPlace> {
        let ends = |begin: usize| {
            let mut all = begin..begin + self.line(begin).len();
            all.any(|at| self.program.goes_backward(self.file, at))
        };
        let lines: Vec<&[PythonToken<'_>]> = self.lines.iter().map(|at| self.line(*at)).collect();
        // Lightning's step returns its loss.
        let returns = |line: &[PythonToken<'_>]| line[0].is("return");
        let is_step = self.tokens[self.begin].is("def");
        let last = |begin: usize| ends(begin) || is_step && returns(self.line(begin));
        let names = |line: &[PythonToken<'_>]| -> BTreeSet<String> {
            let names = line.iter().filter(|t| t.kind == TokenKind::Name);
            names.map(|t| t.text.to_owned()).collect()
        };
        let ended = self.lines.iter().filter(|at| last(**at));
        let mut wanted: BTreeSet<String> = ended.flat_map(|at| names(self.line(*at))).collect();
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        loop {
            let next = lines.iter().enumerate().find(|(at, line)| {
                let is_wanted =
                    |t: &PythonToken<'_>| wanted.contains(t.text) && t.kind == TokenKind::Name;
                let sign = assignment(line);
                let gives = sign.is_some_and(|sign| line[..sign].iter().any(is_wanted));
                // `with amp.scale_loss(loss, optimizer) as scaled_loss:`
                let named = line[0].is("with")
                    && line
                        .windows(2)
                        .any(|pair| pair[0].is("as") && is_wanted(&pair[1]));
                let gives = gives || named;
                !taken.contains(at) && (last(self.lines[*at]) || gives)
            });
            let Some((at, line)) = next else { break };
            taken.insert(at);
            wanted.extend(names(line));
        }
        // `if i == accum - 1: loss = loss + term`
        let later = self.waits.iter().find(|at| {
            let line = self.line(**at);
            let is_wanted =
                |t: &PythonToken<'_>| t.kind == TokenKind::Name && wanted.contains(t.text);
            assignment(line).is_some_and(|sign| {
                let name = &line[0];
                let adds = line[sign - 1].kind == TokenKind::Other;
                is_wanted(name) && (adds || line[sign..].iter().any(|t| t.is(name.text)))
            })
        });
        let later = later.map(|at| (DECIDES, self.file, *at));
        let nested = nests_a_mean(self.tokens, &self.lines).map(|at| (MIXED, self.file, at));
        let counted = self.counts_its_window();
        let mut taken = taken.into_iter();
        let found = taken.find_map(|at| {
            let begin = self.lines[at];
            let counts = self.is_scaled_by_a_count(begin);
            let counts = counts.then_some((COUNT, self.file, begin));
            let line = self.line(begin);
            let counts_on = line.last().is_some_and(|t| t.is("1"));
            let keeps = keeps(line) && !counts_on && !shows(line);
            let keeps = keeps || self.takes_its_last(at);
            let kept = || keeps.then_some((KEPT, self.file, begin));
            let found = counts.or_else(kept);
            found.or_else(|| match counted {
                true => self.program.beside_a_count(self.file, begin, 0),
                false => self.program.line(self.file, begin, 0),
            })
        });
        found.or(nested).or(later)
    }

    /// `out, h = model(x, h)`: whether a line makes a value of what the micro batch before left in it.
    fn takes_its_last(&self, number: usize) -> bool {
        let line = self.line(self.lines[number]);
        let Some(sign) = assignment(line) else {
            return false;
        };
        let header = self.line(self.begin);
        let mut given: Vec<&str> = targets(header).chain(self.parameters()).collect();
        for at in &self.lines[..number] {
            let line = self.line(*at);
            given.extend(
                assignment(line)
                    .into_iter()
                    .flat_map(|sign| targets(&line[..sign])),
            );
        }
        let adds = line[sign - 1].kind == TokenKind::Other;
        let read = |name: &str| {
            let mut value = (sign + 1..line.len()).filter(|at| line[*at].is(name));
            value.any(|at| !line[at - 1].is(".") && !line.get(at + 1).is_some_and(|t| t.is("=")))
        };
        targets(&line[..sign]).any(|name| !given.contains(&name) && (adds || read(name)))
    }

    /// `beta = min(1, step / 10000)`: whether the number of micro batches is a factor, outside any index.
    fn is_scaled_by_a_count(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let scales = |at: usize| {
            let sign = |at: Option<usize>| {
                at.and_then(|at| line.get(at))
                    .is_some_and(|t| t.is("*") || t.is("/"))
            };
            let index = bracket(self.tokens, begin + at).map(|open| &self.tokens[open]);
            (sign(at.checked_sub(1)) || sign(Some(at + 1))) && !index.is_some_and(|t| t.is("["))
        };
        let mut names = (0..line.len()).filter(|at| line[*at].kind == TokenKind::Name);
        names.any(|at| scales(at) && self.is_counter(line[at].text))
    }
}

impl<'t> LoopProgram<'_, 't> {
    /// The first call of a line that makes something else of a micro batch than each of its samples by itself.
    fn line(&self, file: usize, begin: usize, depth: usize) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let line = rest_of_line(&tokens[begin..]);
        if TELLS.contains(&line[0].text) {
            return None;
        }
        if self.is_over_tokens(line) {
            return Some((TOKENS, file, begin));
        }
        if let Some(at) = self.picks_rows(file, begin) {
            return Some((WEIGHED, file, at));
        }
        self.calls_of(file, begin, |at| self.call(file, at, depth))
    }

    /// The same of a sum that is divided by a count over all micro batches of a step, so that each may count as much as it likes.
    fn beside_a_count(&self, file: usize, begin: usize, depth: usize) -> Option<DoubtPlace> {
        let counts = |why: &str| [WEIGHED, SUMMED].contains(&why);
        let call = |at| self.call(file, at, depth);
        self.calls_of(file, begin, |at| call(at).filter(|(why, ..)| !counts(why)))
    }

    /// The first place of a line where samples meet, or of a call of it that is a doubt.
    fn calls_of(
        &self,
        file: usize,
        begin: usize,
        call: impl Fn(usize) -> Option<DoubtPlace>,
    ) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let line = rest_of_line(&tokens[begin..]);
        let transposed = (begin..begin + line.len()).find(|at| {
            let of_self = at.checked_sub(1).is_some_and(|at| tokens[at].is("self"));
            tokens[*at].is(".")
                && !of_self
                && tokens.get(at + 1).is_some_and(|t| t.is("T") || t.is("mT"))
        });
        if let Some(at) = transposed {
            return Some((MIXED, file, at));
        }
        let number = || self.takes_by_number(file, begin);
        let meets = number().or_else(|| self.halves_that_meet(file, begin));
        let meets = meets.map(|at| (MIXED, file, at));
        if let Some(found) = meets.or_else(|| self.meeting(file, begin)) {
            return Some(found);
        }
        let mut all = calls_in(tokens, begin, line.len());
        all.find_map(call)
    }

    /// Whether a line takes a mean over tokens, of which the program ignores some.
    fn is_over_tokens(&self, line: &[PythonToken<'_>]) -> bool {
        let entropy = line
            .iter()
            .any(|t| ["cross_entropy", "CrossEntropyLoss"].contains(&t.text));
        let of_model = line.windows(2).any(|w| w[0].is(".") && w[1].is("loss"));
        let all = || self.places.keys();
        let minus_100 = || {
            let mut places = self.files.iter().flat_map(|tokens| tokens.windows(2));
            places.any(|w| w[0].is("-") && w[1].is("100"))
        };
        let of_language = || all().any(|name| LANGUAGE.iter().any(|part| name.contains(part)));
        let pads = || all().any(|name| name.contains("pad_") || name.starts_with("DataCollator"));
        // What is padded to the longest of a batch counts in a mean, unless something masks it.
        let padded = self.places.contains_key("pad_sequence");
        let masks = || {
            all().any(|name| {
                ["mask", "length", "pack_"]
                    .iter()
                    .any(|part| name.to_lowercase().contains(part))
            })
        };
        padded && !masks() && (entropy || of_model)
            || entropy && minus_100()
            || of_model && of_language() && (pads() || minus_100())
    }

    fn call(&self, file: usize, at: usize, depth: usize) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let name = tokens[at].text;
        let before = |n: usize| at.checked_sub(n).map_or("", |at| tokens[at].text);
        if self.is_scaler(file, at) {
            return None;
        }
        if let Some(why) = is_no_mean(tokens, at) {
            let shared = self.is_of_parameters(file, at);
            let full = || why == SUMMED && self.divisor_of_full_batches(file, at).is_some();
            return (!shared && !full()).then_some((why, file, at));
        }
        if self.is_by_sample(file, at) {
            return None;
        }
        if draws_once(tokens, at) {
            return Some((DRAWN, file, at));
        }
        // A class makes one of itself; what it does then stands in its `forward`.
        let bodies = self.bodies(name);
        let is_own = !bodies.is_empty() && before(1) != ".";
        let is_plain = PLAIN.contains(&name) || LOADS.contains(&name) || name == "self";
        if is_keyword(name) || is_plain && !is_own {
            return None;
        }
        if !bodies.is_empty() && before(1) != "." || before(2) == "self" && !bodies.is_empty() {
            return self.enter(name, &bodies, (depth, false));
        }
        let mut made = self.made_by(name);
        if made.is_empty() && self.is_part_of_a_known_model(file, at) {
            return None;
        }
        // `self.loss(y)` is no local `loss`.
        let is_member = |(file, from): (usize, usize)| {
            let before = &self.files[file][..from];
            matches!(before, [.., dot, _, _] if dot.is("."))
        };
        if before(2) == "self" && made.iter().any(|one| is_member((one.0, one.1))) {
            made.retain(|one| is_member((one.0, one.1)));
        }
        let loads = made.is_empty() && before(1) == "." && NEXT.contains(&name);
        if loads || name.contains("tokenizer") {
            return None;
        }
        if made.is_empty() {
            let hands_on = ["forward", "module"].contains(&name) && before(1) == ".";
            let mut around = headers(tokens, at);
            let own_loss = around.any(|(_, header)| header.iter().any(|t| t.is(COMPUTE_LOSS)));
            let of_super = name == "super" || name == COMPUTE_LOSS && before(4) == "super";
            let given = own_loss && name == "model" || of_super;
            // What a model of transformers returns (`CausalLMOutputWithPast`) computes nothing.
            let tells = name.contains("Output");
            return (!hands_on && !given && !tells).then_some((CALL, file, at));
        }
        made.into_iter().find_map(|(file, from, value)| {
            self.maker(file, from, value, (depth, names_a_loss(name)))
        })
    }

    /// What a function does, or a class that is a loss; models have layers, whose names tell.
    pub(super) fn enter(
        &self,
        name: &'t str,
        bodies: &[(usize, Vec<usize>)],
        (depth, as_loss): (usize, bool),
    ) -> Option<DoubtPlace> {
        if depth >= DEPTH {
            return None;
        }
        let is_loss = as_loss || names_a_loss(name);
        let known = self.entered.borrow().get(&(name, depth, is_loss)).copied();
        if let Some(known) = known {
            return known;
        }
        let found = self.inside(bodies, (depth, is_loss));
        let mut entered = self.entered.borrow_mut();
        entered.insert((name, depth, is_loss), found);
        found
    }

    fn inside(
        &self,
        bodies: &[(usize, Vec<usize>)],
        (depth, is_loss): (usize, bool),
    ) -> Option<DoubtPlace> {
        bodies.iter().find_map(|(file, lines)| {
            let tokens = self.files[*file];
            let begin = lines.first()?.checked_sub(2)?;
            let is_class = tokens[line_of(tokens, begin)].is("class");
            let read = !is_class || is_loss;
            let nested = || nests_a_mean(tokens, lines).map(|at| (MIXED, *file, at));
            if let Some(found) = read.then(nested).flatten() {
                return Some(found);
            }
            let mut runs = lines
                .iter()
                .filter(|at| self.is_read(*file, **at, is_class));
            runs.find_map(|at| {
                let line = rest_of_line(&tokens[*at..]);
                let kept = is_class && keeps(line) && !shows(line);
                let kept = kept.then_some((KEPT, *file, *at));
                kept.or_else(|| read.then(|| self.line(*file, *at, depth + 1)).flatten())
            })
        })
    }

    /// Whether a line of a body runs when it is called: of a class, what stands in its `forward` or `__call__`.
    fn is_read(&self, file: usize, at: usize, is_class: bool) -> bool {
        let tokens = self.files[file];
        let called = || {
            let function = functions_around(tokens, at).next();
            let name = function.and_then(|(_, line)| line.get(1));
            name.is_some_and(|t| ["forward", "__call__"].contains(&t.text))
        };
        !tokens[at].is("def") && (!is_class || called())
    }
}

/// The names that a line gives a value: `a, (b, c)`, and no parts as `a.b` or `a[0]`.
fn targets<'t>(given: &[PythonToken<'t>]) -> impl Iterator<Item = &'t str> {
    let given = given.split(|t| t.is("in")).next().unwrap_or_default();
    let is_part = |at: Option<usize>| {
        let next = at.and_then(|at| given.get(at));
        next.is_some_and(|t| t.is(".") || t.is("["))
    };
    let names = (0..given.len()).filter(move |at| {
        let of = at.checked_sub(1).filter(|at| given[*at].is("."));
        given[*at].kind == TokenKind::Name && of.is_none() && !is_part(Some(at + 1))
    });
    names.map(|at| given[at].text)
}

/// Whether a name is that of a loss.
fn names_a_loss(name: &str) -> bool {
    let name = name.to_lowercase();
    name.contains("loss") || name.contains("criterion")
}
