//! A submission as a whole: what it starts, the knobs that it gives, and the same with other values.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::ask::{Ask, ask};
use super::change::{Means, PatchError, TextEdit};
use super::code_value::ConfigClasses;
use super::configs::{add_inner, compose};
use super::context::SubmissionContext;
use super::edit::edits;
use super::knobs::{FoundKnob, all, find};
use super::likely::recognise;
use super::patched::{Patch, applied};
use super::recognise::package;
use super::remembered::{Understood, remembered};
use super::stack::{Likeness, Stack, StackKnob};
use super::submits::look_at;
use super::walk::{COMMAND_LINE, Call, ENVIRONMENT, Reading, Submission, UnreadFile, follow};
use crate::{SettingsReader, Spelling};
use oomctl_base::Value;

/// Likeness from which a call surely starts the program of a stack, so that options can be added to it which it
/// does not have yet.
const SURE: usize = 100;

/// What was understood of a submission.
#[derive(Debug, Clone)]
pub struct Adoption<'a> {
    pub(super) given: SubmissionContext<'a>,
    /// What was read.
    pub reading: Rc<Reading>,
    /// The stack, where one was recognised.
    pub stack: Option<&'a Stack>,
    calls: Vec<usize>,
    sure: bool,
}

impl<'a> Adoption<'a> {
    /// Reads a submission.
    pub fn read(given: SubmissionContext<'a>) -> Self {
        let understood = remembered(given, || Self::understand(given));
        Self {
            given,
            reading: understood.reading,
            stack: understood.stack.map(|at| &given.stacks[at]),
            calls: understood.calls,
            sure: understood.sure,
        }
    }

    fn understand(given: SubmissionContext<'_>) -> Understood {
        let programs = given.stacks.iter().flat_map(|s| &s.recognise.programs);
        let first = |p: &String| p.split(' ').next().unwrap_or(p).to_owned();
        let names: BTreeSet<String> = programs.map(first).collect();
        let mut reading = follow(given.submission, given.files, given.launchers, &names);
        compose(&mut reading, given.files);
        let wanted: BTreeSet<&str> = given
            .stacks
            .iter()
            .flat_map(|s| s.recognise.names())
            .collect();
        let known: Vec<_> = given.stacks.iter().map(|s| &s.recognise).collect();
        let classes = ConfigClasses::of(&known);
        let shipped = given.stacks.iter().flat_map(|s| &s.recognise.modules);
        let shipped = shipped.map(|module| package(module)).collect();
        let files = reading.with_created(given.files);
        for at in 0..reading.calls.len() {
            look_at(&mut reading, at, &files, (&wanted, &classes, &shipped));
            if let Some(words) = reading.calls[at].unknown_words() {
                let unread = UnreadFile::of(SettingsReader::Program, words);
                reading.calls[at].unread.push(unread);
            }
            for name in reading.calls[at].variables_of_code() {
                inherit(&mut reading, &name, given.submission);
            }
        }
        let recognised = recognise(&reading, given.stacks);
        let (number, calls) = recognised.unzip();
        let stack = number.map(|at: usize| &given.stacks[at]);
        let calls: Vec<usize> = calls.unwrap_or_default();
        if let Some(stack) = stack {
            for at in &calls {
                look_inside(&mut reading, *at, given, stack);
            }
            for spelling in stack.knobs.iter().flat_map(|k| &k.spellings) {
                if let Spelling::Env(name) = spelling
                    && !name.starts_with("SLURM_")
                {
                    inherit(&mut reading, name, given.submission);
                }
            }
        }
        let sure = stack.is_some_and(|s| {
            let likeness = calls.iter().map(|at| s.likeness(&reading.calls[*at]));
            // Nothing speaks for a stack that was named, and its name is enough.
            let mut weights = likeness.map(Likeness::weight);
            weights.all(|weight| weight == 0 || weight >= SURE)
        });
        Understood {
            reading: Rc::new(reading),
            stack: number,
            calls,
            sure,
        }
    }

    /// The calls that start the stack's program.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().map(|at| &self.reading.calls[*at])
    }

    /// The value of something that may be no knob of the stack.
    pub fn given_by(&self, call: &Call, knob: &StackKnob) -> Option<FoundKnob> {
        find(&self.reading, call, knob)
    }

    /// The knobs that the first of the calls gives, in the preset's order.
    pub fn knobs(&self) -> Vec<(&'a StackKnob, FoundKnob)> {
        match (self.stack, self.calls().next()) {
            (Some(stack), Some(call)) => all(&self.reading, call, stack),
            _ => Vec::new(),
        }
    }

    /// Does a call give another value of a knob than the first one? Then there is no one value to start from.
    fn differs(&self, call: &Call, knob: &StackKnob) -> bool {
        let state = |call| find(&self.reading, call, knob).map(|found| found.state);
        let first = self.calls().next();
        first.is_some_and(|first| state(first) != state(call))
    }

    /// The submission with other values of knobs and other resources. What was written is read again: a patch
    /// that does not say exactly what was wished is none.
    ///
    /// # Errors
    /// Every change that cannot be made, and why.
    pub fn change(&self, wishes: &[(&str, Value)], asks: &[Ask]) -> Result<Patch, Vec<PatchError>> {
        let patch = self.patched(wishes, asks)?;
        let moved = self.verify(&patch, wishes, asks)?;
        if moved.is_empty() {
            return Ok(patch);
        }
        // Each turn has at least one wish more.
        let kept = moved
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        let all: Vec<(&str, Value)> = wishes.iter().cloned().chain(kept).collect();
        self.change(&all, asks)
    }

    /// The patch as it is written.
    fn patched(&self, wishes: &[(&str, Value)], asks: &[Ask]) -> Result<Patch, Vec<PatchError>> {
        let refused = |knob: &str, why: &str| PatchError::new(knob, why);
        let (mut problems, mut edited, mut made) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let mut options = BTreeMap::new();
        for call in self.calls() {
            let (mut known, mut missing) = (Vec::new(), Vec::new());
            for (name, value) in wishes {
                match self.stack.and_then(|s| s.knob(name)) {
                    None => missing.push(refused(name, "the program has no such knob")),
                    Some(knob) if self.differs(call, knob) => missing.push(refused(
                        name,
                        "the script starts the program several times, with different values of it",
                    )),
                    Some(knob) => match self
                        .unclear(call, knob)
                        .or_else(|| call.refuses_value(knob, value))
                    {
                        Some(why) => missing.push(refused(name, &why)),
                        None => known.push((knob, value)),
                    },
                }
            }
            problems.extend(missing);
            let Some(stack) = self.stack else { continue };
            match edits(&self.reading, call, stack, &known) {
                Ok(done) => {
                    for (name, edit, means) in done {
                        options.extend(option_of(&name, &edit, means));
                        made.entry(name).or_insert((means, edit.span));
                        edited.insert(edit);
                    }
                }
                Err(refused) => problems.push(refused),
            }
        }
        if self.calls.is_empty() {
            problems.extend(
                wishes
                    .iter()
                    .map(|(n, _)| refused(n, "no program was recognised")),
            );
        }
        for wish in asks {
            match ask(&self.reading, wish) {
                Ok(edit) => {
                    edited.extend(edit);
                }
                Err(refused) => problems.push(refused),
            }
        }
        if !problems.is_empty() {
            problems.dedup();
            return Err(problems);
        }
        let after = applied(&self.reading.sources, &edited).ok_or_else(|| {
            vec![refused(
                "",
                "several values come from one place of the script; write each out in the command",
            )]
        })?;
        let patch = Patch {
            before: self.reading.sources.clone(),
            after,
            edits: edited,
            made,
            options,
        };
        Ok(patch)
    }

    /// Variables of which nobody knows whether the environment of the submission set them, each with the value that counts where it
    /// did not: those of the scripts, and those that the program reads for a knob.
    pub fn open_variables(&self) -> BTreeMap<String, String> {
        let mut all = self.reading.open.clone();
        let knobs = self.stack.iter().flat_map(|stack| &stack.knobs);
        let coded = self.calls().flat_map(|call| {
            let coded = knobs.clone().filter_map(|knob| call.coded(knob));
            coded.map(move |coded| (call, coded))
        });
        for (call, coded) in coded {
            if let Some(Spelling::Env(name)) = &coded.option
                && self.reading.passed.may_set(name)
                && !call.variables.contains_key(name)
                && self.reading.inherited(name).is_none()
            {
                all.insert(name.clone(), coded.value.text());
            }
        }
        all
    }

    /// Whether a call gives a knob, or may be given it in any case: a variable that a program does not know does it no harm.
    pub(super) fn is_given_or_harmless(&self, call: &Call, knob: &StackKnob) -> bool {
        let by_variable = |s: &Spelling| matches!(s, Spelling::Env(_));
        find(&self.reading, call, knob).is_some() || knob.spellings.iter().all(by_variable)
    }

    /// Why a knob that a call does not give cannot be given to it.
    fn unclear(&self, call: &Call, knob: &StackKnob) -> Option<String> {
        if self.is_given_or_harmless(call, knob) {
            return None;
        }
        if let Some(path) = self.unread_of(call, knob) {
            return Some(format!("{path} may set it, but was not read"));
        }
        if let Some(code) = &call.code
            && code.decides(&knob.spellings)
            && call.as_read(knob).spellings.is_empty()
        {
            return code.lacks_room(&knob.spellings);
        }
        let why = "the script does not set it, and the program may not know it";
        (!self.sure && !call.declares(knob)).then(|| why.to_owned())
    }

    /// The submission and the files that a patch makes.
    pub fn resubmitted(&self, patch: &Patch) -> (Submission, BTreeMap<String, String>) {
        let mut submission = self.given.submission.clone();
        let mut files = self.given.files.clone();
        for (number, source) in patch.after.iter().enumerate() {
            match number {
                COMMAND_LINE => {
                    let mut words: Vec<String> = source
                        .text
                        .split_terminator('\0')
                        .map(str::to_owned)
                        .collect();
                    let options = submission.options.len().min(words.len());
                    let args = words.split_off((options + 1).min(words.len()));
                    words.truncate(options);
                    (submission.options, submission.args) = (words, args);
                }
                ENVIRONMENT => {
                    let entries = source.text.split_terminator('\0');
                    for (name, value) in entries.filter_map(|e| e.split_once('=')) {
                        submission
                            .variables
                            .insert(name.to_owned(), value.to_owned());
                    }
                }
                _ => {
                    files.insert(source.path.clone(), source.text.clone());
                }
            }
        }
        (submission, files)
    }
}

/// A knob, and the option by which an edit appends it, where it does.
fn option_of(knob: &str, edit: &TextEdit, means: Means) -> Option<(String, String)> {
    let mut words = edit
        .text
        .split_whitespace()
        .skip_while(|word| *word == "\\");
    let first = words.next().filter(|_| means == Means::Appended)?;
    let (second, third) = (words.next(), words.next());
    // Of an option that takes keys the key says more.
    let is_key = |word: &&str| word.starts_with(char::is_alphabetic) && word.contains(['.', '=']);
    let keyed = second.filter(is_key);
    let keyed = keyed.filter(|word| third.is_some() || word.contains('='));
    let option = keyed.filter(|_| first.starts_with('-')).unwrap_or(first);
    let option = option.split('=').next().unwrap_or(option);
    let is_key = keyed.is_some() || option.starts_with('-');
    is_key.then(|| (knob.to_owned(), option.to_owned()))
}

/// Adds the files that a call's files of settings name, and forgets what comes with the program: its values are those
/// that the knobs have anyway.
fn look_inside(reading: &mut Reading, at: usize, given: SubmissionContext<'_>, stack: &Stack) {
    let launchers = reading.calls[at].launchers.iter();
    let known = launchers.filter_map(|l| {
        let words: Vec<String> = l.split(' ').map(str::to_owned).collect();
        given.launchers.find(&words)
    });
    let keys: Vec<String> = known.flat_map(|(l, _)| l.file_keys.clone()).collect();
    add_inner(reading, at, given.files, &stack.recognise, &keys);
    let shipped = &stack.recognise.configs;
    let unread = std::mem::take(&mut reading.calls[at].unread);
    let call = &reading.calls[at];
    let (unread, others): (Vec<UnreadFile>, Vec<UnreadFile>) =
        unread.into_iter().partition(|file| {
            file.reader != SettingsReader::Program
                || !shipped.contains(&file.path)
                    && !call.has_for_data(file, &stack.recognise, &keys)
        });
    let data = others.into_iter().map(|file| file.path);
    reading.data.extend(data);
    let call = &mut reading.calls[at];
    call.unread = unread;
    let read = call.settings.len() + call.all_unread().count();
    if read == 0 && stack.is_told_by_files() {
        let program = call.program.as_deref().unwrap_or("the program");
        let inside = format!("a file of settings that {program} may name itself");
        call.unread
            .push(UnreadFile::of(SettingsReader::Program, inside));
    }
}

/// Adds a variable of the environment, where there is one.
fn inherit(reading: &mut Reading, name: &str, submission: &Submission) {
    let value = submission.variables.get(name);
    let Some(value) = value.filter(|_| reading.passed.inherits(name)) else {
        return;
    };
    let text = &mut reading.sources[ENVIRONMENT].text;
    let head = format!("{name}=");
    if !text.split('\0').any(|entry| entry.starts_with(&head)) {
        text.push_str(&format!("{head}{value}\0"));
    }
}
