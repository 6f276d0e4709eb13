//! How to climb, as flags and the project file say.

use clap::ValueEnum;

use crate::cli::args::{Configuration, PolicyName};
use crate::core::config::{ConfigDocument, PlacedText};
use crate::core::ladder::Policy;
use crate::core::request::MIN_FIT_PROBABILITY;
use crate::view::CommandFailure;
use oomctl_base::{Problem, Value, ValueKind};

/// The policy, and whether it climbs one rung at a time. `predict` is bound to no rungs, so the two exclude
/// each other: a flag beats what the project file says of the other, and in one place they are refused.
pub fn how(flags: &Configuration, doc: &ConfigDocument) -> Result<(Policy, bool), CommandFailure> {
    let (policy, written) = policy(flags, doc)?;
    if policy != Policy::Predict {
        return Ok((policy, one_rung(flags, doc)?));
    }
    match (written, flags.one_rung) {
        (None, true) => Err(
            Problem::new("--policy predict and --one-rung exclude each other")
                .hint("`predict` does not use single rungs; drop one of the two")
                .into(),
        ),
        (None, false) => Ok((policy, false)),
        (Some(_), true) => Ok((Policy::Ladder, true)),
        (Some(given), false) if one_rung(flags, doc)? => Err(Problem::new(
            "policy: predict and one_rung: true exclude each other",
        )
        .at(given.text, given.origin)
        .hint("`predict` does not use single rungs; drop one of the two lines")
        .into()),
        (Some(_), false) => Ok((policy, false)),
    }
}

/// The policy, and where it is written unless a flag or the default says it.
fn policy(
    flags: &Configuration,
    doc: &ConfigDocument,
) -> Result<(Policy, Option<PlacedText>), CommandFailure> {
    match (flags.policy, flags.same_math) {
        (Some(policy), _) => return Ok((policy.into(), None)),
        (None, true) => return Ok((Policy::SameMath, None)),
        (None, false) => {}
    }
    let Some(given) = doc.text("policy")? else {
        return Ok((Policy::Ladder, None));
    };
    match PolicyName::from_str(&given.text, false) {
        Ok(name) => Ok((name.into(), Some(given))),
        Err(_) => Err(Problem::new(format!("no policy named {:?}", given.text))
            .at(given.text, given.origin)
            .hint("policies: ladder, same-math, predict, soonest")
            .into()),
    }
}

/// One rung at a time: flag or project file.
fn one_rung(flags: &Configuration, doc: &ConfigDocument) -> Result<bool, CommandFailure> {
    match flags.one_rung {
        true => Ok(true),
        false => switch(doc, "one_rung", "one rung at a time"),
    }
}

/// The declared order and every move of a rung, whether it helps or not: the project file.
pub fn whole_rungs(doc: &ConfigDocument) -> Result<bool, CommandFailure> {
    switch(
        doc,
        "whole_rungs",
        "the declared order, and every move of a rung,",
    )
}

fn switch(doc: &ConfigDocument, key: &str, what: &str) -> Result<bool, CommandFailure> {
    let Some(given) = doc.text(key)? else {
        return Ok(false);
    };
    match ValueKind::Bool.parse(&given.text) {
        Ok(Value::Bool(yes)) => Ok(yes),
        _ => Err(Problem::new(format!("{key} is true or false"))
            .at(given.text.clone(), given.origin)
            .hint(format!("{what} is `true`; without the line it is `false`"))
            .into()),
    }
}

/// The least probability to fit that an attempt should have: flag or project file, where it was once called `risk`.
pub fn min_fit_probability(
    flags: &Configuration,
    doc: &ConfigDocument,
) -> Result<f64, CommandFailure> {
    let within = |p: &f64| (0.5..1.0).contains(p);
    let bad = || {
        Problem::new(
            "min_fit_probability is the least probability to fit, at least 0.5 and below 1",
        )
        .hint("0.9 is the default; who accepts a failure in 20 attempts writes 0.95")
    };
    if let Some(least) = flags.min_fit_probability {
        return match within(&least) {
            true => Ok(least),
            false => Err(bad().into()),
        };
    }
    let Some(given) = doc.text("min_fit_probability")?.or(doc.text("risk")?) else {
        return Ok(MIN_FIT_PROBABILITY);
    };
    let least = given.text.parse().ok().filter(within);
    least.ok_or_else(|| bad().at(given.text.clone(), given.origin).into())
}
