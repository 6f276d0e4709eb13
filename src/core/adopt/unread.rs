//! What a rung does to the training of a program that nobody could read, or whose loop was not understood.

use crate::core::ladder::NEARLY_SAME;
use crate::core::recipe::Preset;
use oomctl_base::{Effect, Role};
use oomctl_scripts::{
    Adoption, Call, CallTarget, DOUBT, NEARLY, RECOMPUTED_DOUBT, Span, TRAINER_DOUBT,
    UNDIVIDED_DOUBT,
};

/// Most characters of a program's line that are shown.
const LONGEST: usize = 60;

/// Why nobody knows what a program does.
const UNREAD: &str = "the program was not read";

/// Says of the rungs that cut a batch into smaller parts, or compute a part twice, that their effect is unknown, where the text of a
/// program does not show that training stays the same. The rung says why.
pub fn doubt(preset: &mut Preset, adoption: &Adoption<'_>) {
    let own = adoption.stack.is_some_and(|stack| stack.has_own_loops());
    // The loop of a framework is known; what the program does itself beside it is not.
    let why = match own {
        true => reason(adoption),
        false => {
            let call = adoption.calls().next();
            let of = |sort: &str| call.and_then(|call| of_call(adoption, call, sort));
            let newer = || of(UNDIVIDED_DOUBT).filter(|_| leaves_division_to_models(preset));
            let users = adoption
                .stack
                .is_some_and(|s| !s.recognise.configured_by.is_empty());
            let unread = || UNREAD.to_owned();
            let absent = || call.filter(|c| users && is_absent(c)).map(|_| unread());
            of(TRAINER_DOUBT).or_else(newer).or_else(absent)
        }
    };
    let of_any = |sort: &str| {
        let mut calls = adoption.calls();
        calls.find_map(|call| of_call(adoption, call, sort))
    };
    let nearly = of_any(NEARLY).filter(|_| own);
    let nearly = nearly.map(|why| format!("{NEARLY_SAME}{why}"));
    let cut = knobs_of(preset, &[Role::MicroBatch, Role::GradAccumulation]);
    let recomputed = knobs_of(preset, &[Role::GradientCheckpointing]);
    let twice = of_any(RECOMPUTED_DOUBT);
    let steps = preset.tune.iter_mut().map(|tuning| &mut tuning.step);
    for rung in preset.ladder.iter_mut().chain(steps) {
        let moves = |knobs: &[String]| knobs.iter().any(|knob| rung.moves(knob, None));
        // What a rung says of no effect follows from its knobs.
        let why = match (moves(&cut), moves(&recomputed), rung.effect) {
            (true, _, Some(Effect::SameMath)) => &why,
            (false, true, None | Some(Effect::SameMath)) => &twice,
            _ => continue,
        };
        match why {
            Some(why) => {
                rung.effect = Some(Effect::Unknown);
                rung.doubt = Some(why.clone());
            }
            None if moves(&cut) => rung.notes.extend(nearly.clone()),
            None => {}
        }
    }
}

/// Whether a call starts a file that was not read.
fn is_absent(call: &Call) -> bool {
    let is_file = matches!(&call.target, CallTarget::Script(_)) || call.program.is_some();
    call.names.is_none() && is_file
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

/// Why nobody knows what smaller micro batches do, where that is so.
fn reason(adoption: &Adoption<'_>) -> Option<String> {
    let mut calls = adoption.calls();
    calls.find_map(|call| match call.names {
        None => Some(UNREAD.to_owned()),
        Some(_) => of_call(adoption, call, DOUBT),
    })
}

/// The doubt of this sort that the text of a program raises.
fn of_call(adoption: &Adoption<'_>, call: &Call, sort: &str) -> Option<String> {
    let mut names = call.names.iter().flatten();
    let (why, span) = names.find_map(|(name, span)| Some((name.strip_prefix(sort)?, span)))?;
    Some(match adoption.reading.place(*span) {
        // What is said of a program as a whole has no line.
        Some(place) if span.end == 0 => {
            let file = place.rsplit_once(':').map_or(&place[..], |(file, _)| file);
            format!("{why} ({file})")
        }
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
