//! The options of a program that size its batch, by their names or by what its code does with them.

use std::collections::BTreeSet;

use super::by_use::{cuts, used_accumulations};
use super::constants::loaded_option;
use super::declared::{OF_GPUS, Takes, is_by};
use super::handed_on::HandedOn;
use super::program_option::ProgramOption;
use super::program_text::CodeFiles;
use super::python::PythonToken;
use super::slices::widths;
use super::spelling::attribute;
use oomctl_base::{Role, only, word_list};

/// Names of the parts of a batch that one forward takes, and of the whole.
pub(super) const PART_NAMES: [&str; 9] = word_list(
    "microbatch micro_batch microbatch_size micro_batch_size micro_bsz batch_gpu batch_per_gpu batch_size_per_gpu max_batch_size",
);
pub(super) const WHOLE_NAMES: [&str; 2] = word_list("batch_size batch");

/// Names of values that size a batch by their use.
pub(super) struct UsedNames<'t> {
    pub accumulations: BTreeSet<&'t str>,
    /// Widths of the slices that a forward takes.
    pub widths: BTreeSet<&'t str>,
}

impl<'t> UsedNames<'t> {
    pub(super) fn of(text: &CodeFiles<'_, 't>) -> Self {
        let tokens = tokens(text);
        let mut accumulations = used_accumulations(&tokens);
        // DataParallel's batch is the one of a forward, whatever cuts it.
        if text.uses(&["DataParallel"].into()) {
            accumulations.retain(|name| !cuts(&tokens, |t| t.is(name)));
        }
        Self {
            accumulations,
            widths: tokens.iter().flat_map(|tokens| widths(tokens)).collect(),
        }
    }
}

/// The options of a program that size its batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BatchOptions {
    /// The one option for the parts into which it cuts a batch, and the one for the whole.
    parts: Option<(String, String)>,
    /// The one option for a batch that all GPUs share.
    global: Option<String>,
    /// The one option that accumulates by its use, whatever its name is.
    accumulation: Option<String>,
    /// Names of its values that accumulate by their use.
    accumulations: BTreeSet<String>,
    /// The one option for what a forward takes, whatever its name is: the width of slices, or the batch of training's loader.
    of_forward: Option<String>,
    /// Names under which it reads batches that it divides among GPUs: `args.batch_size // world_size`.
    shared: BTreeSet<String>,
}

impl BatchOptions {
    /// Those of a program. A framework that takes its options sizes the batch itself: there only names count.
    pub(super) fn read(
        text: &CodeFiles<'_, '_>,
        options: &[ProgramOption],
        used: &UsedNames<'_>,
        of_framework: bool,
    ) -> Self {
        let by_use = |is_meant: &dyn Fn(&str) -> bool| {
            let own = text.options.iter().filter(|_| !of_framework);
            let all = own.flat_map(|(_, options)| options);
            let meant = all.filter(|o| o.takes == Takes::Value && is_meant(&o.name));
            only(meant).map(|option| option.flag.clone())
        };
        let tokens = tokens(text);
        let loaded = loaded_option(text.files);
        let loaded = by_use(&|name| loaded == Some(name));
        let sliced = by_use(&|name| used.widths.contains(name));
        let parts = single(options, &PART_NAMES).zip(single(options, &WHOLE_NAMES));
        let parts = parts.or_else(|| sliced.clone().zip(loaded.clone()));
        let parts = parts.filter(|(part, whole)| part != whole);
        let accumulates = |name: &str| name.contains("acc") || used.accumulations.contains(name);
        let handed_on = HandedOn::of(&tokens);
        let is_cut = |name: &str| {
            let names = handed_on.aliases(name);
            cuts(&tokens, |t| names.iter().any(|name| t.is(name)))
        };
        let cut = by_use(&|name| accumulates(name) && is_cut(name));
        // Chunks of the batch of a step: what one forward takes follows from their number.
        let whole = cut.and_then(|_| loaded.clone().or_else(|| single(options, &WHOLE_NAMES)));
        let of_forward = sliced.or(loaded);
        Self {
            accumulation: by_use(&|name| used.accumulations.contains(name)),
            accumulations: used.accumulations.iter().map(|&n| n.to_owned()).collect(),
            of_forward: of_forward.filter(|option| whole.as_ref() != Some(option)),
            global: whole.or_else(|| global(options, parts.as_ref())),
            parts,
            shared: tokens.iter().flat_map(|tokens| shared(tokens)).collect(),
        }
    }

    /// Whether the batch that it reads under a name is of all GPUs.
    pub(super) fn is_shared(&self, name: &str) -> bool {
        self.shared.contains(name)
    }

    /// The one option for a batch that all GPUs share.
    pub(super) fn global(&self) -> Option<&str> {
        self.global.as_deref()
    }

    /// The one option that the code uses as a knob of this role, where none has a name that the knob is known by.
    pub(super) fn used_as(&self, role: Role) -> Option<&str> {
        match role {
            Role::GradAccumulation => self.accumulation.as_deref(),
            Role::MicroBatch => self.of_forward.as_deref(),
            _ => None,
        }
    }

    /// Whether a value of this name accumulates by its use.
    pub(super) fn accumulates_by(&self, name: &str) -> bool {
        self.accumulations.contains(name)
    }

    /// The one option for the parts into which the program cuts a batch, and the one for the whole.
    pub(super) fn parts(&self) -> Option<(&str, &str)> {
        let (part, whole) = self.parts.as_ref()?;
        Some((part, whole))
    }
}

fn shared(tokens: &[PythonToken<'_>]) -> impl Iterator<Item = String> {
    let read = tokens.windows(2).enumerate();
    let read = read.filter(|(_, pair)| pair[0].is(".") && pair[1].text.contains("batch"));
    let shared = read.filter(|(at, _)| is_by(&tokens[at + 2..], &OF_GPUS));
    shared.map(|(_, pair)| pair[1].text.to_owned())
}

fn tokens<'a, 't>(text: &CodeFiles<'a, 't>) -> Vec<&'a [PythonToken<'t>]> {
    text.files.iter().map(|f| &*f.tokens).collect()
}

/// The one option that has one of the names.
fn single(options: &[ProgramOption], names: &[&str]) -> Option<String> {
    let is_named = |o: &&ProgramOption| names.contains(&&*attribute(&o.flag));
    only(options.iter().filter(is_named)).map(|option| option.flag.clone())
}

fn global(options: &[ProgramOption], parts: Option<&(String, String)>) -> Option<String> {
    let is_batch = |o: &&ProgramOption| o.is_global && o.flag.contains("batch");
    let mut all = options.iter().filter(is_batch);
    match all.next() {
        Some(first) => all.next().is_none().then(|| first.flag.clone()),
        None => parts.map(|(_, whole)| whole.clone()),
    }
}
