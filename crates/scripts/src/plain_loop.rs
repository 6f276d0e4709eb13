//! Whether the text of a program shows that smaller micro batches with more accumulation train the same.
//!
//! Rule: only what was understood is the same. A plain loop is: each micro batch goes through a model of layers that know
//! nothing of its other samples, a loss that is a mean over samples goes backward, and all else waits for the
//! optimizer's step. What is none of it is a doubt, with the place that raised it.

mod batches;
mod by_index;
mod by_sample;
mod by_use;
mod called_function;
mod called_values;
mod collators;
mod computed;
mod conditions;
mod counted;
mod curves;
mod division;
mod expressions;
mod harmless;
mod hooks;
mod layers;
mod lengths;
mod libraries;
mod lines;
mod losses;
mod made;
mod masked;
mod means;
mod meets;
mod micro_batches;
mod of_accumulation;
mod padded;
mod parameters;
mod parts;
mod picked;
mod quantities;
mod scalers;
mod sliced;
mod statistics;
mod tail;
#[cfg(test)]
mod tests;
mod trainer;
mod uses;
mod windows;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::declared::DeclaredOption;
use super::python::{
    PythonToken, TokenKind, argument, arguments, bracket, calls, functions_around, headers,
    is_loop, is_named, line_of, rest_of_line,
};
pub(super) use by_use::{accumulations, cuts, used_accumulations};
use called_function::CalledFunction;
use lines::{assignment, lines_in, value_of};
use micro_batches::LoopOfBatches;
use oomctl_base::word_list;
pub(super) use parameters::begins_as_parameter;
pub(super) use parts::{OF, part_and_whole};
use scalers::Scalers;
pub(super) use sliced::{first_slices, widths};
use trainer::COMPUTE_LOSS;

/// What the name of a doubt begins with, among the names of a program's text. What follows says why.
pub const DOUBT: &str = "<unclear> ";

/// What the name of a doubt begins with that is raised by what a program does itself beside a Trainer of transformers.
pub const TRAINER_DOUBT: &str = "<unclear beside a trainer> ";

/// What the name of a doubt begins with about what computing a part twice does.
pub const RECOMPUTED_DOUBT: &str = "<unclear when computed again> ";

/// What the name of a doubt begins with about a model whose loss a newer Trainer may not divide by the accumulation.
pub const UNDIVIDED_DOUBT: &str = "<undivided beside a newer trainer> ";

const NO_LOOP: &str = "its training loop was not found";
const NOT_AROUND: &str =
    "no loop stands around this backward pass, and those that call it were not read";
const NO_WAIT: &str = "no line was found where the optimizer waits for all micro batches of a step";
const UNDIVIDED: &str = "this loss was not seen divided by the accumulation";
const DIVIDED: &str = "this divides by the accumulation, and Accelerate does so, too";
const EACH: &str = "this runs after each micro batch";
const COUNT: &str = "this counts micro batches";
const SPLIT: &str = "this splits a batch of the loader by the accumulation";
const KEPT: &str = "this is kept from one micro batch to the next";
const CALL: &str = "what this call makes of a micro batch was not read";
const MIXED: &str = "this mixes the samples of a micro batch";
const CURVE: &str =
    "this is a curve over the mean of a micro batch, and the mean of the curves is another number";
const WEIGHED: &str = "this is a mean over what counts in a micro batch, and micro batches with less of it weigh as much";
const SUMMED: &str =
    "this adds a micro batch up, and no count of its samples was seen to divide the sum";
const TOKENS: &str =
    "this is a mean over the tokens of a micro batch that count, and padding differs";
const MODEL: &str = "what this model or loss is made of was not read";
const BATCH: &str = "this is computed from the batch size";
const ACCUMULATED: &str = "this is computed from the accumulation";
const LENGTH: &str = "this is computed from the number of micro batches";

/// What the name of a remark begins with: what changes little with more accumulation.
pub const NEARLY: &str = "<nearly the same> ";

/// What the name of a remark begins with: of which settings the accumulation is computed, as `part of whole`.
pub(super) const PARTS: &str = "<accumulation> ";

/// A doubt: why, the file, and its bytes.
pub(super) type ProgramDoubt = (Cow<'static, str>, usize, (usize, usize));

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
/// Modules whose models have no batch norm: layers of PyTorch that have it, and models of transformers, are known by their names.
const LAYERS: [&str; 4] = word_list("nn transformers peft diffusers");
/// What a `from_pretrained` of transformers belongs to.
const LOADS: [&str; 2] = word_list("from_pretrained from_config");
/// Most tokens behind a sign of division that may be the accumulation.
const DIVISOR: usize = 8;
/// Most functions that are entered in each other.
const DEPTH: usize = 4;

/// The first doubt about a program with these files and these `options`.
pub(super) fn doubt(
    files: &[&[PythonToken<'_>]],
    options: &[Vec<DeclaredOption<'_, '_>>],
) -> Option<ProgramDoubt> {
    let program = LoopProgram::new(files, accumulations(files, options));
    let loops = program.loops();
    let Some(first) = loops.first() else {
        let backward = program.places("backward").first();
        let found = backward.map(|(file, at)| placed(files, (NOT_AROUND, *file, *at)));
        // It is said of the program as a whole.
        return found.or(Some((NO_LOOP.into(), 0, (0, 0))));
    };
    let waits = loops.iter().any(|one| one.waits());
    let found = program.outside(&loops);
    let found = found.or((!waits).then_some((NO_WAIT, first.file, first.begin)));
    let found = found.or_else(|| loops.iter().find_map(LoopOfBatches::doubt));
    let found = found.or_else(|| program.division(first));
    let found = found.or_else(|| program.models().or_else(|| program.hooks()));
    let found = found.or_else(|| program.meetings().or_else(|| program.loaded()));
    let found = found.or_else(|| program.layers());
    let found = found.or_else(|| program.collators().or_else(|| program.joins()));
    let found = found.or_else(|| program.padded().or_else(|| program.unmasked()));
    let loaders = loops.iter().flat_map(LoopOfBatches::goes_through);
    let loaders: BTreeSet<&str> = loaders.collect();
    let found = found.or_else(|| batches::doubt(&program, &loaders));
    let found = found.or_else(|| loops.iter().find_map(LoopOfBatches::curve));
    found.map(|found| placed(files, found))
}

/// What a program with these files raises whatever its options are: the sort of each doubt or remark, and the first one of it.
pub(super) fn doubts_beside(
    files: &[&[PythonToken<'_>]],
) -> [(&'static str, Option<ProgramDoubt>); 5] {
    let program = LoopProgram::new(files, Vec::new());
    let parts = program.parts().map(|(keys, place)| {
        let (_, file, bytes) = placed(files, place);
        (keys.into(), file, bytes)
    });
    let of = |found: Option<DoubtPlace>| found.map(|found| placed(files, found));
    [
        (TRAINER_DOUBT, of(program.beside_a_trainer())),
        (UNDIVIDED_DOUBT, of(program.uncounted())),
        (RECOMPUTED_DOUBT, of(program.norms())),
        (NEARLY, of(program.tail())),
        (PARTS, parts),
    ]
}

/// A doubt with the bytes of the token that raised it.
fn placed(files: &[&[PythonToken<'_>]], (why, file, at): DoubtPlace) -> ProgramDoubt {
    let token = &files[file][at];
    (why.into(), file, (token.from, token.to))
}

/// A place in a file that raises a doubt.
type DoubtPlace = (&'static str, usize, usize);

/// A function by its name, how deep it was entered, and whether as a loss.
type EnteredFunction<'t> = (&'t str, usize, bool);

/// The files of a program.
struct LoopProgram<'a, 't> {
    files: &'a [&'a [PythonToken<'t>]],
    accumulations: Vec<&'a str>,
    /// Names that give loaders their batch.
    loader_batches: BTreeSet<&'t str>,
    /// Where each name stands: the file, and the token.
    places: BTreeMap<&'t str, Vec<(usize, usize)>>,
    scalers: Scalers<'t>,
    /// What was found in functions: each is gone through once.
    entered: RefCell<BTreeMap<EnteredFunction<'t>, Option<DoubtPlace>>>,
}

impl<'a, 't> LoopProgram<'a, 't> {
    fn new(files: &'a [&'a [PythonToken<'t>]], mut accumulations: Vec<&'a str>) -> Self {
        accumulations.extend(files.iter().flat_map(|tokens| sliced::counts(tokens)));
        let mut places: BTreeMap<&'t str, Vec<(usize, usize)>> = BTreeMap::new();
        for (file, tokens) in files.iter().enumerate() {
            let names = tokens.iter().enumerate();
            for (at, name) in names.filter(|(_, t)| t.kind == TokenKind::Name) {
                places.entry(name.text).or_default().push((file, at));
            }
        }
        let mut program = Self {
            files,
            accumulations,
            loader_batches: files
                .iter()
                .flat_map(|tokens| computed::loader_batches(tokens))
                .collect(),
            places,
            scalers: Scalers::default(),
            entered: RefCell::default(),
        };
        program.scalers = program.scalers();
        program
    }

    /// Where a name stands.
    fn places(&self, name: &str) -> &[(usize, usize)] {
        self.places.get(name).map_or(&[], Vec::as_slice)
    }

    /// The loops over micro batches: those around a backward pass, and Lightning's step.
    fn loops(&'a self) -> Vec<LoopOfBatches<'a, 't>> {
        let mut found: Vec<LoopOfBatches<'a, 't>> = Vec::new();
        for (file, tokens) in self.files.iter().enumerate() {
            let backward = (0..tokens.len()).filter(|at| self.goes_backward(file, *at));
            let around = backward.filter_map(|at| {
                let mut all = headers(tokens, at);
                let own = all.find(|(_, header)| is_loop(header));
                let own = own.map(|(begin, _)| (begin, None));
                own.or_else(|| {
                    let function = CalledFunction::around(tokens, at)?;
                    let one = self.bodies(function.name).len() == 1;
                    let function = one.then_some(function)?;
                    Some((function.in_loop(tokens)?, Some(function)))
                })
            });
            let steps = tokens.windows(2).enumerate();
            let steps = steps.filter(|(_, pair)| pair[0].is("def") && pair[1].is("training_step"));
            for (begin, function) in around.chain(steps.map(|(at, _)| (at, None))) {
                if found.iter().all(|l| (l.file, l.begin) != (file, begin)) {
                    found.push(LoopOfBatches::through(self, file, begin, function));
                }
            }
        }
        found
    }

    /// A backward pass in none of these loops, in a function that something calls.
    fn outside(&self, loops: &[LoopOfBatches<'_, '_>]) -> Option<DoubtPlace> {
        let within = |file: usize, at: usize| {
            loops.iter().any(|one| {
                let line = line_of(self.files[file], at);
                let mut lines = one.lines.iter().chain(&one.waits);
                one.file == file && lines.any(|known| *known == line)
            })
        };
        let is_called = |file: usize, at: usize| {
            let function = functions_around(self.files[file], at).next();
            let name = function.and_then(|(_, line)| line.get(1));
            name.is_none_or(|name| self.places(name.text).len() > 1)
        };
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            let all = (0..tokens.len()).filter(|at| self.goes_backward(file, *at));
            let mut all = all.filter(|at| !self.is_of_scalers(file, *at));
            let found = all.find(|at| !within(file, *at) && is_called(file, *at))?;
            Some((NOT_AROUND, file, found))
        })
    }

    /// Whether a loss goes backward at a place.
    fn goes_backward(&self, file: usize, at: usize) -> bool {
        let tokens = self.files[file];
        let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
        let declared = at.checked_sub(1).is_some_and(|at| tokens[at].is("def"));
        tokens[at].is("backward") && called && !declared || self.is_scaler(file, at)
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

    /// Whether a call of this name is handed such a word.
    fn is_handed(&self, name: &str, is_meant: impl Fn(&PythonToken<'_>) -> bool) -> bool {
        self.places(name).iter().any(|(file, at)| {
            let called = match self.files[*file].get(at + 1..) {
                Some([open, given @ ..]) if open.is("(") => given,
                _ => return false,
            };
            let given = arguments(called);
            given.iter().flat_map(|value| value.iter()).any(&is_meant)
        })
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
            let (from, value) = value_of(rest, at - line).filter(|_| is_made)?;
            Some((*file, line + from, value))
        });
        let made: Vec<_> = made.collect();
        match made.is_empty() {
            true => self.handed_to(name),
            false => made,
        }
    }
}
