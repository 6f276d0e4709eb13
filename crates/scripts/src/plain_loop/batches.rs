//! What a program computes from its batch size and from the number of its micro batches.

use std::collections::BTreeSet;

use super::super::python::{callee, line};
use super::by_use::{CUTS, cuts};
use super::computed::{
    STOPS, computes, counts_only, is_batch, is_excused, is_loader_batch, is_of_all, part,
    scales_a_rate, target_of,
};
use super::lengths::{is_length, is_progress, is_told};
use super::of_accumulation::of_accumulation;
use super::windows::is_window;
use super::{
    ACCUMULATED, BATCH, COUNT, DoubtPlace, LENGTH, LoopOfBatches, LoopProgram, PythonToken, SPLIT,
    TokenKind, rest_of_line, word_list,
};

pub(super) const OTHER: &str = "this takes data of another loader, whose batch stays";
const SAME: &str = "this loop takes the same micro batch each time";
/// Calls that take so many.
const COUNTED: [&str; 2] = ["islice", "take"];

impl<'t> LoopOfBatches<'_, 't> {
    /// What its header goes over: parts of a batch, or so many micro batches.
    pub(super) fn over(&self) -> Option<(&'static str, usize)> {
        let header = self.line(self.begin);
        let has = |names: &[&str]| header.iter().any(|t| names.contains(&t.text));
        match self.accumulates {
            true => {
                let cut =
                    has(&CUTS) || cuts(self.program.files, |t| self.program.is_accumulation(t));
                let cut = cut.then_some((SPLIT, self.begin));
                cut.or_else(|| self.takes_none().then_some((SAME, self.begin)))
            }
            false => {
                let counted = has(&COUNTED) || self.goes_over_a_count() || self.is_cut();
                let found = counted.then_some((COUNT, self.begin));
                let other = || has(&["zip"]) || self.takes_of_another();
                found.or_else(|| other().then_some((OTHER, self.begin)))
            }
        }
    }

    /// Whether a loop over the accumulation, `for micro in range(accum)`, takes no other data each time.
    fn takes_none(&self) -> bool {
        const TAKES: [&str; 6] = word_list("next batch sample loader iter data");
        let header = self.line(self.begin);
        let number = header.get(1).map_or("", |t| t.text);
        let takes = |t: &PythonToken<'_>| {
            let name = t.text.to_lowercase();
            t.is(number) || TAKES.iter().any(|part| name.contains(part))
        };
        let mut all = self.lines.iter().chain(&self.waits);
        header.iter().any(|t| t.is("range")) && !all.any(|at| self.line(*at).iter().any(takes))
    }

    /// What it takes its micro batches of: `for i, (x, y) in enumerate(tqdm(self.data)):`
    pub(super) fn goes_through(&self) -> Option<&'t str> {
        const HANDS_ON: [&str; 4] = word_list("enumerate tqdm iter track");
        let header = self.line(self.begin);
        let within = header.iter().position(|t| t.is("in"))?;
        let mut over = &header[within + 1..];
        while let [name, open, rest @ ..] = over {
            if !open.is("(") || !HANDS_ON.contains(&name.text) {
                break;
            }
            over = rest;
        }
        let path = over
            .iter()
            .take_while(|t| t.kind == TokenKind::Name || t.is("."));
        let length = path.count();
        let is_call = over.get(length).is_some_and(|t| t.is("("));
        let name = over[..length]
            .last()
            .filter(|_| header[0].is("for") && !is_call)?;
        // A window holds the micro batches of one step, and its length is their number.
        (!is_window(self.program, self.tokens, self.begin)).then_some(name.text)
    }

    /// Whether what it goes over was made as so many micro batches: `batches = list(islice(loader, 8))`.
    fn is_cut(&self) -> bool {
        let header = self.line(self.begin);
        let mut over = header
            .iter()
            .skip_while(|t| !t.is("in"))
            .filter(|t| t.kind == TokenKind::Name);
        over.any(|t| {
            let made = self.program.made_by(t.text);
            made.iter().any(|(.., value)| {
                let has = |name: &str| value.iter().any(|t| t.is(name));
                value.iter().any(|t| COUNTED.contains(&t.text)) || has("range") && has("next")
            })
        })
    }

    /// Whether it takes data of a loader whose batch is not that of the program, nor one of evaluation.
    fn takes_of_another(&self) -> bool {
        let of_ours = |value: &[PythonToken<'_>]| {
            let none = BTreeSet::new();
            let given = (0..value.len()).any(|at| is_batch(value, at, &none));
            let sized = value.iter().any(|t| t.is("batch_size"));
            let loads = value.iter().any(|t| t.text.ends_with("DataLoader"));
            !(loads && sized) || given && !value.iter().any(|t| t.is("*") || t.is("/"))
        };
        let makes = |name: &str| {
            let made = self.program.made_by(name);
            made.iter().any(|(.., value)| !of_ours(value))
        };
        let mut all = self
            .lines
            .iter()
            .chain(&self.waits)
            .flat_map(|at| self.line(*at));
        all.any(|t| {
            t.kind == TokenKind::Name
                && (makes(t.text) || {
                    let through = self.program.made_by(t.text);
                    through.iter().any(|(.., value)| {
                        value
                            .first()
                            .is_some_and(|t| ["iter", "cycle", "itertools"].contains(&t.text))
                            && value
                                .iter()
                                .any(|t| t.kind == TokenKind::Name && makes(t.text))
                    })
                })
        })
    }
}

impl LoopProgram<'_, '_> {
    /// Whether a name is given what loads data in batches: `dl = DataLoader(…)`.
    pub(super) fn loads(&self, name: &str) -> bool {
        let made = self.made_by(name);
        let mut values = made.iter().map(|(.., value)| value);
        values.any(|value| {
            let mut calls = value.windows(2).filter(|w| w[1].is("("));
            calls.any(|w| w[0].text.to_lowercase().contains("loader"))
        })
    }
}

/// The first place where something else than data is computed from the batch or from the loader's length. With the accumulation
/// beside it, the product stays. `loaders` are what loops go through.
pub(super) fn doubt(program: &LoopProgram<'_, '_>, loaders: &BTreeSet<&str>) -> Option<DoubtPlace> {
    let stops = program.uses(&STOPS);
    let validates = program
        .places("val_check_interval")
        .first()
        .filter(|_| stops);
    let validates = validates.map(|(file, at)| (COUNT, *file, *at));
    let found = sampler(program).or_else(|| own_batches(program));
    let found = found.or_else(|| computed(program, loaders));
    found.or(validates)
}

fn computed(program: &LoopProgram<'_, '_>, loaders: &BTreeSet<&str>) -> Option<DoubtPlace> {
    program.files.iter().enumerate().find_map(|(file, tokens)| {
        let mut names = BTreeSet::new();
        let mut found = None;
        // A name for the batch is the batch.
        for _ in 0..3 {
            let before = names.len();
            let is =
                |at: &usize| is_batch(tokens, *at, &names) || is_loader_batch(program, tokens, *at);
            let places = (0..tokens.len()).filter(is);
            let places = places.filter(|at| !is_of_all(program, tokens, *at));
            let places = places.filter(|at| !program.divides_full_batches(file, *at));
            let places: Vec<usize> = places.collect();
            found = places.into_iter().find(|at| {
                let line = line(tokens, *at);
                let ours = is_excused(program, tokens, *at);
                match (ours, computes(tokens, *at)) {
                    (true, _) => false,
                    (false, computed) => {
                        let part = part(tokens, *at);
                        let spread = part.iter().any(|t| {
                            is_number_of_processes(t.text)
                                && !program.loader_batches.contains(t.text)
                        });
                        let target = target_of(line);
                        let counts = target.is_some_and(|name| counts_only(program, name));
                        // `i + args.micro_batch` is where a slice ends.
                        let ends = line.iter().any(|t| t.is("+"));
                        let names_it = (!computed || spread) && !counts && !ends;
                        if let Some(name) = target.filter(|_| names_it) {
                            names.insert(name);
                        }
                        // The rate is scaled where its line has no accumulation, however many processes there are.
                        computed && (!spread || scales_a_rate(part)) && !counts
                    }
                }
            });
            if names.len() == before {
                break;
            }
        }
        let length = || {
            (0..tokens.len()).find(|at| {
                is_length(program, tokens, *at, loaders)
                    && (!is_excused(program, tokens, *at) || is_told(program, tokens, *at))
                    && !is_progress(tokens, *at)
            })
        };
        let accumulated = || of_accumulation(program, tokens).map(|at| (ACCUMULATED, file, at));
        let batch = found.map(|at| (BATCH, file, at)).or_else(accumulated);
        batch.or_else(|| length().map(|at| (LENGTH, file, at)))
    })
}

const SAMPLER: &str = "what this sampler makes of the batch size was not read";
/// PyTorch's sampler that makes batches of what another one gives.
const PLAIN_SAMPLER: &str = "BatchSampler";

/// `DataLoader(data, batch_sampler=own)`: a sampler that makes whole batches as it likes.
fn sampler(program: &LoopProgram<'_, '_>) -> Option<DoubtPlace> {
    let mut places = program.places("batch_sampler").iter();
    let found = places.find(|(file, at)| {
        let tokens = program.files[*file];
        let call = callee(tokens, *at);
        let loads = call.is_some_and(|at| tokens[at].text.ends_with("Loader"));
        let equals = tokens.get(at + 1).is_some_and(|t| t.is("="));
        let Some(value) = tokens.get(at + 2).filter(|_| loads && equals) else {
            return false;
        };
        let plain = |tokens: &[PythonToken<'_>]| tokens.iter().any(|t| t.is(PLAIN_SAMPLER));
        let made = program.made_by(value.text);
        let plain = plain(rest_of_line(&tokens[*at..]))
            || !made.is_empty() && made.iter().all(|(.., value)| plain(value));
        !value.is("None") && !plain
    });
    found.map(|(file, at)| (SAMPLER, *file, *at))
}

const BATCHES: &str = "this data makes its batches itself, and how many was not read";

/// `DataLoader(stream, batch_size=None)`: data that comes in batches, of which an epoch may have as many as before.
fn own_batches(program: &LoopProgram<'_, '_>) -> Option<DoubtPlace> {
    let mut places = program.places("batch_size").iter();
    let none = |(file, at): &&(usize, usize)| {
        let rest = &program.files[*file][at + 1..];
        matches!(rest, [equals, none, ..] if equals.is("=") && none.is("None"))
    };
    let loads = |(file, at): &&(usize, usize)| {
        let tokens = program.files[*file];
        let call = callee(tokens, *at);
        call.is_some_and(|at| tokens[at].text.ends_with("Loader"))
    };
    let found = places.find(|place| none(place) && loads(place));
    // WebDataset's epoch of so many batches.
    let epochs = || program.places("with_epoch").first();
    let found = found.or_else(epochs);
    found.map(|(file, at)| (BATCHES, *file, *at))
}

fn is_number_of_processes(name: &str) -> bool {
    const PARTS: [&str; 7] = word_list("gpu world rank process device replica shard");
    let name = name.to_lowercase();
    // `per_device_train_batch_size` is a batch.
    !name.contains("batch") && PARTS.iter().any(|part| name.contains(part))
}
