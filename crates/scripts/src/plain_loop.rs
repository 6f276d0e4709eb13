//! Whether the text of a program shows that smaller micro batches with more accumulation train the same.
//!
//! Rule: only what was understood is the same. A plain loop is: each micro batch goes through a model of layers that know
//! nothing of its other samples, a loss that is a mean over samples goes backward, and all else waits for the
//! optimizer's step. What is none of it is a doubt, with the place that raised it.

mod batches;
mod counted;
mod harmless;
mod lines;
mod losses;
mod means;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::declared::DeclaredOption;
use super::python::{
    PythonToken, TokenKind, arguments, bracket, calls, headers, is_named, line_of, rest_of_line,
};
use lines::{assignment, calls_in, is_optimizer, lines_in, shows};
use means::{is_over_samples, mixes_samples};
use oomctl_base::word_list;

/// What the name of a doubt begins with, among the names of a program's text. What follows says why.
pub const DOUBT: &str = "<unclear> ";

const NO_LOOP: &str = "its training loop was not found";
const NO_WAIT: &str = "where its optimizer waits for the accumulation was not found";
const EACH: &str = "this runs after each micro batch";
const COUNT: &str = "this counts micro batches";
const SPLIT: &str = "this splits a batch of the loader by the accumulation";
const KEPT: &str = "this is kept from one micro batch to the next";
const CALL: &str = "what this call makes of a micro batch was not read";
const MIXED: &str = "this mixes the samples of a micro batch";
const MODEL: &str = "whether this model has batch norm was not read";
const BATCH: &str = "this is computed from the batch size";
const LENGTH: &str = "this is computed from the number of micro batches";

/// A doubt: why, the file, and its bytes.
pub(super) type ProgramDoubt = (&'static str, usize, (usize, usize));

/// Calls that compute each sample by itself, means over samples, noise, and what moves data.
const PLAIN: [&str; 189] = word_list(
    "no_grad inference_mode set_grad_enabled enable_grad no_sync nullcontext record_function synchronize perf_counter time scale_loss \
     replace join round ceil floor random choice uniform memmap from_numpy astype deepcopy repeat_interleave multinomial bernoulli \
     Generator manual_seed dropout interpolate full_tensor add_noise get_velocity compute_snr encode_prompt to_device unwrap_model parameters named_parameters concat concatenate \
     add sub mul div new_zeros new_ones new_tensor nonzero slice finfo map mode compute_density_for_timestep_sampling compute_loss_weighting_for_sd3 \
     cuda to cpu float half bfloat16 double long int bool type detach item backward scale unscale_ enumerate range len zip next iter \
     size shape view reshape flatten unsqueeze squeeze transpose permute contiguous clone expand expand_as repeat chunk split \
     unbind cat stack pad ones zeros ones_like zeros_like empty full full_like arange tensor as_tensor rand randn randint randn_like \
     rand_like randint_like get items keys values pop dict list tuple str isinstance getattr hasattr min max clamp clip \
     cross_entropy CrossEntropyLoss mse_loss MSELoss l1_loss L1Loss smooth_l1_loss SmoothL1Loss huber_loss HuberLoss nll_loss \
     NLLLoss binary_cross_entropy binary_cross_entropy_with_logits BCELoss BCEWithLogitsLoss kl_div KLDivLoss \
     GaussianNLLLoss mean sum log_softmax softmax logsigmoid sigmoid tanh relu gelu silu exp log log1p sqrt rsqrt pow abs \
     square sin cos where masked_fill eq ne gt lt ge le logical_and logical_or logical_not argmax gather one_hot norm \
     normalize autocast encode decode sample pin_memory",
);
/// Calls that hand a model on.
const WRAPPERS: [&str; 31] = word_list(
    "to cuda cpu half float bfloat16 double compile DDP DistributedDataParallel DataParallel FSDP FullyShardedDataParallel \
     fully_shard prepare prepare_model initialize setup setup_module get_peft_model train eval requires_grad_ apply \
     load_state_dict gradient_checkpointing_enable enable_input_require_grads prepare_model_for_kbit_training unwrap_model \
     module parallelize_module",
);
/// Modules whose models have no batch norm: layers of PyTorch that have it are known by their names.
const LAYERS: [&str; 3] = word_list("nn transformers peft");
/// What a `from_pretrained` of transformers belongs to.
const LOADS: [&str; 2] = word_list("from_pretrained from_config");
/// Calls that make a model by a name, whatever it is made of.
const BY_NAME: [&str; 4] = word_list("create_model create_model_and_transforms get_model hub");
/// Calls, in a module of one's own, that look at the samples of a batch together.
const MIXES: [&str; 6] =
    word_list("cdist pdist randperm all_gather gather_all all_gather_into_tensor");
/// What ends a loop.
const LEAVES: [&str; 5] = word_list("break return raise exit quit");
/// Changes in place.
const IN_PLACE: [&str; 6] = word_list("mul_ add_ copy_ lerp_ div_ sub_");
/// Most functions that are entered in each other.
const DEPTH: usize = 4;

/// The first doubt about a program with these files and these `options`.
pub(super) fn doubt(
    files: &[&[PythonToken<'_>]],
    options: &[Vec<DeclaredOption<'_, '_>>],
) -> Option<ProgramDoubt> {
    let names = options.iter().flatten().map(|o| o.name.as_str());
    let accumulations = names.filter(|name| name.contains("acc")).collect();
    let program = LoopProgram::new(files, accumulations);
    let loops = program.loops();
    let Some(first) = loops.first() else {
        let begin = files.first()?.first()?;
        return Some((NO_LOOP, 0, (begin.from, begin.to)));
    };
    let waits = loops.iter().any(|one| one.waits());
    let found = (!waits).then_some((NO_WAIT, first.file, first.begin));
    let found = found.or_else(|| loops.iter().find_map(LoopOfBatches::doubt));
    let found = found.or_else(|| program.models().or_else(|| program.hooks()));
    let found = found.or_else(|| batches::doubt(&program));
    found.map(|(why, file, at)| {
        let token = &files[file][at];
        (why, file, (token.from, token.to))
    })
}

/// A place in a file that raises a doubt.
type DoubtPlace = (&'static str, usize, usize);

/// The files of a program.
struct LoopProgram<'a, 't> {
    files: &'a [&'a [PythonToken<'t>]],
    accumulations: Vec<&'a str>,
    /// Where each name stands: the file, and the token.
    places: BTreeMap<&'t str, Vec<(usize, usize)>>,
    /// What was found in functions, by their names and how deep they were entered: each is gone through once.
    entered: RefCell<BTreeMap<(&'t str, usize), Option<DoubtPlace>>>,
}

impl<'a, 't> LoopProgram<'a, 't> {
    fn new(files: &'a [&'a [PythonToken<'t>]], accumulations: Vec<&'a str>) -> Self {
        let mut places: BTreeMap<&'t str, Vec<(usize, usize)>> = BTreeMap::new();
        for (file, tokens) in files.iter().enumerate() {
            let names = tokens.iter().enumerate();
            for (at, name) in names.filter(|(_, t)| t.kind == TokenKind::Name) {
                places.entry(name.text).or_default().push((file, at));
            }
        }
        Self {
            files,
            accumulations,
            places,
            entered: RefCell::default(),
        }
    }

    /// Where a name stands.
    fn places(&self, name: &str) -> &[(usize, usize)] {
        self.places.get(name).map_or(&[], Vec::as_slice)
    }

    /// The loops over micro batches: those around a backward pass, and Lightning's step.
    fn loops(&'a self) -> Vec<LoopOfBatches<'a, 't>> {
        let mut found: Vec<LoopOfBatches<'a, 't>> = Vec::new();
        for (file, tokens) in self.files.iter().enumerate() {
            let backward = calls(tokens, |t| t.is("backward"));
            let around = backward.filter_map(|at| {
                let mut all = headers(tokens, at);
                let is_loop = |(_, header): &(usize, &[PythonToken<'_>])| {
                    header[0].is("for") || header[0].is("while")
                };
                all.find(is_loop).map(|(begin, _)| begin)
            });
            let steps = tokens.windows(2).enumerate();
            let steps = steps.filter(|(_, pair)| pair[0].is("def") && pair[1].is("training_step"));
            for begin in around.chain(steps.map(|(at, _)| at)) {
                if found.iter().all(|l| (l.file, l.begin) != (file, begin)) {
                    found.push(LoopOfBatches::new(self, file, begin));
                }
            }
        }
        found
    }

    fn is_accumulation(&self, token: &PythonToken<'_>) -> bool {
        let name = token.text.to_lowercase();
        let parts = ["accum", "grad_acc", "acc_step", "acc_iter", "update_freq"];
        let whole = ["gas", "iter_size", "acc"];
        matches!(token.kind, TokenKind::Name | TokenKind::Text)
            && name.len() < 48
            && (parts.iter().any(|part| name.contains(part))
                || whole.contains(&name.as_str())
                || self.accumulations.contains(&token.text) && !name.contains("accura"))
    }

    /// Whether the code uses one of these names.
    fn uses(&self, names: &[&str]) -> bool {
        names.iter().any(|name| !self.places(name).is_empty())
    }

    /// The bodies of functions and classes of a name: their file, and the lines of each.
    fn bodies(&self, name: &str) -> Vec<(usize, Vec<usize>)> {
        let defined = self.places(name).iter().filter(|(file, at)| {
            let before = at.checked_sub(1).map(|at| &self.files[*file][at]);
            before.is_some_and(|t| t.is("def") || t.is("class"))
        });
        let body = |(file, at): &(usize, usize)| {
            let tokens = self.files[*file];
            (*file, lines_in(tokens, line_of(tokens, *at)))
        };
        defined.map(body).collect()
    }

    /// What a name is made by: the tokens behind `name =`, each with their file.
    fn made_by(&self, name: &str) -> Vec<(usize, usize, &'a [PythonToken<'t>])> {
        let made = self.places(name).iter().filter_map(|(file, at)| {
            let tokens = self.files[*file];
            let line = line_of(tokens, *at);
            let rest = rest_of_line(&tokens[line..]);
            let from = line + assignment(rest)? + 1;
            // `model.flag = x` makes no model.
            let is_part = tokens.get(at + 1).is_some_and(|t| t.is("."));
            let is_target = at + 1 < from && !is_part && bracket(tokens, *at).is_none();
            let is_made = is_target && rest[0].kind == TokenKind::Name;
            is_made.then(|| (*file, from, &tokens[from..line + rest.len()]))
        });
        made.collect()
    }

    /// A model that is not made of layers whose text was read.
    fn models(&self) -> Option<DoubtPlace> {
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            let by_name = |t: &PythonToken<'_>| BY_NAME.contains(&t.text);
            let names = (0..tokens.len()).filter(|at| {
                let hub = tokens[*at].is("hub") && tokens.get(at + 1).is_some_and(|t| t.is("."));
                by_name(&tokens[*at]) && (hub || tokens.get(at + 1).is_some_and(|t| t.is("(")))
            });
            let mut foreign = names.filter(|at| self.bodies(tokens[*at].text).is_empty());
            let mixes = || {
                let mut all = calls(tokens, |t| {
                    MIXES.contains(&t.text) || is_over_samples(t.text)
                });
                all.find(|at| {
                    let module = headers(tokens, *at)
                        .any(|(_, h)| h[0].is("class") && h.iter().any(|t| t.is("Module")));
                    module && (MIXES.contains(&tokens[*at].text) || mixes_samples(tokens, *at))
                })
            };
            let model = foreign.next().map(|at| (MODEL, file, at));
            model.or_else(|| mixes().map(|at| (MIXED, file, at)))
        })
    }
}

/// A loop over micro batches.
struct LoopOfBatches<'a, 't> {
    program: &'a LoopProgram<'a, 't>,
    file: usize,
    tokens: &'a [PythonToken<'t>],
    /// The token that begins its header.
    begin: usize,
    /// The lines that run for each micro batch.
    lines: Vec<usize>,
    /// The lines that wait for the accumulation.
    waits: Vec<usize>,
    /// Its header goes over the accumulation.
    accumulates: bool,
    /// Something else than the loss goes backward with it: `accelerator.backward(loss)`.
    handed: bool,
}

impl<'a, 't> LoopOfBatches<'a, 't> {
    fn new(program: &'a LoopProgram<'a, 't>, file: usize, begin: usize) -> Self {
        let tokens = program.files[file];
        let all = lines_in(tokens, begin);
        let line = |at: usize| rest_of_line(&tokens[at..]);
        let of_accumulation = |line: &[PythonToken<'_>]| {
            line.iter()
                .any(|t| program.is_accumulation(t) || t.is("sync_gradients"))
        };
        // `is_update = (i + 1) % accum == 0`
        let named = all
            .iter()
            .map(|at| line(*at))
            .filter(|line| line.get(1).is_some_and(|t| t.is("=")) && of_accumulation(line));
        let named = named
            .filter(|l| l.iter().any(|t| t.is("%")) || l.iter().any(|t| t.is("sync_gradients")));
        let named: Vec<&str> = named.map(|line| line[0].text).collect();
        let guards = |line: &[PythonToken<'_>]| {
            (line[0].is("if") || line[0].is("elif"))
                && (of_accumulation(line) || line.iter().any(|t| named.contains(&t.text)))
        };
        let guarded = |at: &usize| {
            let mut around = headers(tokens, *at).take_while(|(b, _)| *b != begin);
            guards(line(*at)) || around.any(|(_, header)| guards(header))
        };
        let hands = |at: &usize| {
            let given = arguments(&tokens[at + 2..]);
            tokens[*at].is("backward") && given.first().is_some_and(|given| !is_named(given))
        };
        let mut calls = all
            .iter()
            .flat_map(|at| calls_in(tokens, *at, line(*at).len()));
        let handed = calls.any(|at| hands(&at));
        let (waits, lines): (Vec<usize>, Vec<usize>) = all.iter().partition(|at| guarded(at));
        let counted = of_accumulation(rest_of_line(&tokens[begin..]));
        Self {
            program,
            file,
            tokens,
            begin,
            lines,
            waits,
            accumulates: counted,
            handed,
        }
    }

    fn line(&self, at: usize) -> &'a [PythonToken<'t>] {
        rest_of_line(&self.tokens[at..])
    }

    /// Whether something in it waits for the accumulation, or a framework does.
    fn waits(&self) -> bool {
        self.accumulates || !self.waits.is_empty() || self.is_framework()
    }

    /// Whether a framework accumulates, and steps only then.
    fn is_framework(&self) -> bool {
        self.program
            .uses(&["accumulate_grad_batches", "LightningCLI"])
            || self.handed && self.program.uses(&["Accelerator", "deepspeed"])
    }

    fn doubt(&self) -> Option<DoubtPlace> {
        let states = || self.lines.iter().find_map(|at| self.state(*at));
        let found = self.over().or_else(|| self.counted()).or_else(states);
        found
            .map(|(why, at)| (why, self.file, at))
            .or_else(|| self.loss())
    }

    /// What a line that runs for each micro batch does beside the backward pass.
    fn state(&self, begin: usize) -> Option<(&'static str, usize)> {
        let line = self.line(begin);
        let has = |text: &str| line.iter().any(|t| t.is(text));
        let compares = has("<") || has(">");
        let condition = (line[0].is("if") || line[0].is("while")) && self.names_a_counter(line);
        let ends = condition && self.has_in_it(begin, &LEAVES);
        if condition && (compares || ends) && !self.is_beside(begin, ends) {
            return Some((COUNT, begin));
        }
        if has("param_groups") && !self.sets_by_steps(begin) {
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
            let steps = steps && !profiles && !self.is_framework();
            let keeps = !object.contains("loss") && !self.is_fresh(object);
            let updates = name.starts_with("update") && !shows(line) && keeps;
            let given = arguments(&self.tokens[at + 2..]);
            let mut given = given.iter().filter_map(|all| all.first());
            let is_plain = PLAIN.contains(&name) || name == "step" || name.starts_with("clip_grad");
            let optimizer = given.any(|t| is_optimizer(t.text)) && !is_plain;
            match (IN_PLACE.contains(&name), optimizer && !self.is_framework()) {
                (true, _) => Some((KEPT, at)),
                (_, true) => Some((EACH, at)),
                _ => (steps || updates).then_some((EACH, at)),
            }
        })
    }

    /// Whether a name counts micro batches: `for i, … in enumerate(…)`, `n += 1`.
    fn is_counter(&self, name: &str) -> bool {
        let header = self.line(self.begin);
        let enumerated =
            header.iter().any(|t| t.is("enumerate")) && header.get(1).is_some_and(|t| t.is(name));
        let added = self.lines.iter().any(|at| {
            matches!(self.line(*at), [first, plus, equals, one]
                if first.is(name) && plus.is("+") && equals.is("=") && one.is("1"))
        });
        // `it = epoch * len(loader) + i`
        let made = self.lines.iter().any(|at| {
            let line = self.line(*at);
            line[0].is(name) && assignment(line) == Some(1) && line.iter().any(|t| t.is("len"))
        });
        enumerated || added || made
    }

    /// Whether the loop gives a name its value for each micro batch.
    fn is_given(&self, name: &str) -> bool {
        let header = self.line(self.begin);
        let targets = header.iter().take_while(|t| !t.is("in"));
        let mut lines = self.lines.iter().map(|at| self.line(*at));
        targets.into_iter().any(|t| t.is(name))
            || lines.any(|line| {
                line[0].is(name)
                    && assignment(line).is_some_and(|sign| line[..sign].iter().all(|t| !t.is("[")))
            })
    }
}
