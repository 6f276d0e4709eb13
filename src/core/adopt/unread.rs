//! What a rung does to the training of a program of the user's own, which oomctl does not read.

use crate::core::recipe::Preset;
use oomctl_base::{Effect, Role};
use oomctl_scripts::{
    Adoption, Call, CallTarget, RECOMPUTED_DOUBT, Recognise, Span, TRAINER_DOUBT, UNDIVIDED_DOUBT,
};

/// Most characters of a program's line that are shown.
const LONGEST: usize = 60;

/// Why nobody knows what a program does.
const UNREAD: &str = "the program was not read";

/// What to check where a program has a loop of its own.
const OWN_LOOP: &str = "oomctl does not read training loops. Check that the loss is a mean over samples and is divided by the accumulation, \
    that the optimizer and the scheduler wait for all micro batches, and that there is no batch norm";

/// Says of the rungs that cut a batch into smaller parts, or compute a part twice, that their effect is unknown, where the loop is the
/// user's own, or something beside a framework's loop. The rung says why.
pub fn doubt(preset: &mut Preset, adoption: &Adoption<'_>) {
    let own = adoption.stack.is_some_and(|stack| stack.has_own_loops());
    // The loop of a framework is known; what the program does itself beside it is not.
    let why = match own {
        true => Some(OWN_LOOP.to_owned()),
        false => {
            let call = adoption.calls().next();
            let of = |sort: &str| call.and_then(|call| of_call(adoption, call, sort));
            let newer = || of(UNDIVIDED_DOUBT).filter(|_| leaves_division_to_models(preset));
            let recognise = adoption.stack.map(|stack| &stack.recognise);
            let users = recognise.filter(|r| !r.configured_by.is_empty());
            let absent = || {
                let unread = users.zip(call).is_some_and(|(r, c)| is_absent(r, c));
                unread.then(|| UNREAD.to_owned())
            };
            of(TRAINER_DOUBT).or_else(newer).or_else(absent)
        }
    };
    let cut = knobs_of(preset, &[Role::MicroBatch, Role::GradAccumulation]);
    let recomputed = knobs_of(preset, &[Role::GradientCheckpointing]);
    let mut calls = adoption.calls();
    let twice = calls.find_map(|call| of_call(adoption, call, RECOMPUTED_DOUBT));
    let steps = preset.tune.iter_mut().map(|tuning| &mut tuning.step);
    for rung in preset.ladder.iter_mut().chain(steps) {
        let moves = |knobs: &[String]| knobs.iter().any(|knob| rung.moves(knob, None));
        // What a rung says of no effect follows from its knobs.
        let why = match (moves(&cut), moves(&recomputed), rung.effect) {
            (true, _, Some(Effect::SameMath)) => &why,
            (false, true, None | Some(Effect::SameMath)) => &twice,
            _ => continue,
        };
        if let Some(why) = why {
            rung.effect = Some(Effect::Unknown);
            rung.doubt = Some(why.clone());
        }
    }
}

/// Whether a call starts a program that was not read, and is none of the framework's own.
fn is_absent(recognise: &Recognise, call: &Call) -> bool {
    let is_users = match &call.target {
        CallTarget::Script(_) => true,
        CallTarget::Module(name) => !recognise.has_module(name),
        _ => call.program.is_some(),
    };
    call.names.is_none() && is_users
}

fn knobs_of(preset: &Preset, roles: &[Role]) -> Vec<String> {
    let knobs = roles.iter().flat_map(|role| preset.with_role(*role));
    knobs.map(|knob| knob.name.clone()).collect()
}

fn leaves_division_to_models(preset: &Preset) -> bool {
    let since = preset.framework.as_ref();
    let since = since.and_then(|framework| framework.models_divide_since.as_ref());
    since.is_some_and(|since| preset.version.as_ref().is_none_or(|is| is >= since))
}

/// The doubt of this sort that the text of a program raises.
fn of_call(adoption: &Adoption<'_>, call: &Call, sort: &str) -> Option<String> {
    let mut names = call.names.iter().flatten();
    let (why, span) = names.find_map(|(name, span)| Some((name.strip_prefix(sort)?, span)))?;
    Some(match adoption.reading.place(*span) {
        Some(place) => format!("{why} ({place}){}", line(adoption, *span)),
        None => why.to_owned(),
    })
}

/// The line of a program on which a place stands.
fn line(adoption: &Adoption<'_>, span: Span) -> String {
    let line = adoption.reading.line(span);
    let (line, cut) = match line.char_indices().nth(LONGEST) {
        Some((at, _)) => (&line[..at], "…"),
        None => (line, ""),
    };
    match line {
        "" => String::new(),
        line => format!(": `{line}{cut}`"),
    }
}
