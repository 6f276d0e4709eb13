//! A name that somebody asks about and that is no knob: perhaps an option or a key of the script's own program.

use crate::core::recipe::Knob;
use crate::core::request::Request;
use crate::view::CommandFailure;
use oomctl_base::Role;
use oomctl_scripts::{Adoption, Call};

/// The knob of this name, or that the script calls so.
///
/// # Errors
/// There is none; what the script gives by that name is said.
pub fn knob_named<'r>(request: &'r Request, wanted: &str) -> Result<&'r Knob, CommandFailure> {
    let preset = request.preset();
    let called = || preset.knob(&called(request, wanted)?);
    let knob = preset.knob(wanted).or_else(|| preset.knob(&plain(wanted)));
    knob.or_else(called).ok_or_else(|| no_knob(request, wanted))
}

/// The knob that the script has under this name: `--accum`.
fn called(request: &Request, wanted: &str) -> Option<String> {
    let adoption = request.adoption()?;
    let given = adoption.knobs().into_iter();
    let mut named = given.filter_map(|(knob, found)| {
        let word = adoption.word_of(knob, &found)?;
        (plain(&word) == plain(wanted)).then(|| knob.name.clone())
    });
    named.next()
}

/// What people call a batch, where the knob has another name.
fn of_role(request: &Request, wanted: &str) -> Option<CommandFailure> {
    let preset = request.preset();
    let batches = [
        "batch",
        "batch_size",
        "micro_batch",
        "micro_batch_size",
        "bs",
    ];
    let mut knobs = [Role::MicroBatch, Role::TrainBatch].into_iter();
    let knob = knobs.find_map(|role| preset.with_role(role).next())?;
    let failure = || {
        let what = format!("preset {} has no knob named {wanted}", preset.name);
        CommandFailure::configuration(what).hint(format!("did you mean {}?", knob.name))
    };
    batches.contains(&wanted).then(failure)
}

fn no_knob(request: &Request, wanted: &str) -> CommandFailure {
    let failure = CommandFailure::from(request.preset().unknown_knob(wanted));
    let Some(adoption) = request.adoption() else {
        return failure;
    };
    let plain = plain(wanted);
    let given = |call: &Call| word(&adoption, call, &plain).or_else(|| key(call, &plain));
    match adoption.calls().find_map(given) {
        Some(given) => failure.hint(format!(
            "the script has {given} for its program; oomctl passes it on and never changes it"
        )),
        None => of_role(request, &plain).unwrap_or(failure),
    }
}

/// A name without dashes before it, with `_` for those in it.
fn plain(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}

/// `--lr 3e-4 (job.sh:8)`.
fn word(adoption: &Adoption<'_>, call: &Call, wanted: &str) -> Option<String> {
    let own = call.words.get(call.args..).unwrap_or_default();
    let is_it = |text: &str| plain(text.split('=').next().unwrap_or_default()) == wanted;
    let at = own.iter().position(|arg| is_it(&arg.text.text()))?;
    let text = own[at].text.text();
    let next = own.get(at + 1).map(|next| next.text.text());
    let value = next.filter(|next| !text.contains('=') && !next.starts_with("--"));
    let value: String = value.map(|v| format!(" {v}")).unwrap_or_default();
    let place = own[at].text.place();
    let place = place.and_then(|span| adoption.reading.place(span));
    let place: String = place.map(|p| format!(" ({p})")).unwrap_or_default();
    Some(format!("{text}{value}{place}"))
}

/// `optim.lr: 3e-4 (base.yaml)`.
fn key(call: &Call, wanted: &str) -> Option<String> {
    call.settings.iter().rev().find_map(|file| {
        let mut all = file.leaves().into_iter();
        let is_it = |key: &str| {
            plain(key) == wanted || plain(key.rsplit('.').next().unwrap_or(key)) == wanted
        };
        let (key, value) = all.find(|(key, _)| is_it(key))?;
        Some(format!("{key}: {value} ({})", file.path))
    })
}
