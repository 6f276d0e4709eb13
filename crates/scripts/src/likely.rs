//! Which stack a submission starts.

use std::borrow::Cow;

use super::recognise::ends_a_key;
use super::stack::{Likeness, Stack};
use super::walk::{Call, Reading, SettingsFile};

/// The stack that a submission most probably starts, and the calls that start it: numbers in the two lists. Where
/// several calls are as likely, all of them. One stack alone was named by somebody, and is believed.
pub fn recognise(reading: &Reading, stacks: &[Stack]) -> Option<(usize, Vec<usize>)> {
    let named = || (stacks.len() == 1).then(|| Some((0, main_program(reading)?)));
    likely(reading, stacks).or_else(|| named().flatten())
}

/// The calls of the program that a launcher starts, or of the last one.
fn main_program(reading: &Reading) -> Option<Vec<usize>> {
    let calls = || reading.calls.iter().enumerate();
    let launched = calls().rfind(|(_, call)| !call.launchers.is_empty());
    let (_, main) = launched.or_else(|| calls().next_back())?;
    let same = calls().filter(|(_, call)| call.target == main.target);
    Some(same.map(|(at, _)| at).collect())
}

fn likely(reading: &Reading, stacks: &[Stack]) -> Option<(usize, Vec<usize>)> {
    let likeness = |stack: &Stack, call: &Call| stack.likeness(&seen_by(stack, stacks, call));
    let best = stacks.iter().enumerate().flat_map(|(at, stack)| {
        let calls = reading.calls.iter();
        calls.map(move |call| (likeness(stack, call), at))
    });
    // Of stacks that are as likely the first one counts.
    let (most, stack) = best
        .filter(|(likeness, _)| likeness.weight() > 0)
        .max_by_key(|(likeness, at)| (*likeness, std::cmp::Reverse(*at)))?;
    let calls = reading.calls.iter().enumerate();
    let sure = |likeness: Likeness| likeness.weight() * 2 >= most.weight();
    let calls = calls.filter(|(_, call)| sure(likeness(&stacks[stack], call)));
    Some((stack, calls.map(|(at, _)| at).collect()))
}

/// A call without the files that speak for other stacks alone: what the Trainer hands to DeepSpeed (`--deepspeed FILE`)
/// makes no script of DeepSpeed's own of it.
fn seen_by<'c>(stack: &Stack, stacks: &[Stack], call: &'c Call) -> Cow<'c, Call> {
    let names = |s: &Stack, file: &SettingsFile| ends_a_key(&s.recognise.file_keys, &file.option);
    let without = |files: &[&SettingsFile]| {
        let mut rest = call.clone();
        rest.settings.retain(|file| !files.contains(&file));
        rest
    };
    let foreign = |file: &&SettingsFile| {
        let mut others = stacks.iter().filter(|s| names(s, file));
        !names(stack, file) && others.any(|s| s.likeness(&without(&[*file])).words > 0)
    };
    let foreign: Vec<&SettingsFile> = call.settings.iter().filter(foreign).collect();
    match foreign[..] {
        [] => Cow::Borrowed(call),
        _ => Cow::Owned(without(&foreign)),
    }
}
