//! The story of a run in three sentences, and how to have its end again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::gpu_hours;
use super::page::command_line;
use crate::core::engine::{Attempt, History, Outcome, PhantomCheck, Verdict};
use crate::core::ladder::{Change, Step};
use crate::core::report::Cost;
use crate::view::figures::duration;
use crate::view::lines::doubted_at;
use crate::view::outcome::reason;
use crate::view::run_view::RunView;
use oomctl_base::Effect;
use oomctl_diagnose::Class;

/// How it ended, what went wrong, what was changed.
pub fn story(history: &History, view: &RunView, cost: &Cost) -> Vec<String> {
    [
        ending(history, view, cost),
        failures(history),
        changes(history),
    ]
    .into_iter()
    .chain(
        view.remarks
            .iter()
            .map(|remark| capital(&format!("{remark}."))),
    )
    .chain(phantoms(history))
    .collect()
}

/// What was measured on phantom GPUs before its attempts.
fn phantoms(history: &History) -> Option<String> {
    let fits = |of| {
        let same = move |c: &&PhantomCheck| c.measurement.summary.fits == of;
        history.phantoms.iter().map(|(_, c)| c).filter(same).count()
    };
    let (all, not) = (history.phantoms.len(), fits(Some(false)));
    let unknown = fits(None);
    (all > 0).then(|| {
        format!("On phantom GPUs, before it was submitted: {all} measured configurations, {not} too large, {unknown} not measurable.")
    })
}

fn ending(history: &History, view: &RunView, cost: &Cost) -> String {
    let attempts = match history.attempts.len() {
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    };
    let end = match &history.outcome {
        None if view.state == "ended" => {
            format!(
                "The last job of {} is over, and its log is not read yet:",
                view.run
            )
        }
        None => format!("{} is not over ({}):", view.run, view.state),
        Some(Outcome::Succeeded) => format!("{} succeeded:", view.run),
        Some(outcome) => {
            let why = reason(outcome)
                .map(|r| format!(" ({r})"))
                .unwrap_or_default();
            format!("{} ended as {}{why}:", view.run, outcome.word())
        }
    };
    if !had_a_job(history) {
        return format!("{end} no job was submitted.");
    }
    format!(
        "{end} {attempts} in {}, of which {} in the queue, and {} GPU-hours.",
        duration(view.elapsed_s),
        duration(cost.waited_s),
        gpu_hours(cost.gpu_seconds)
    )
}

fn failures(history: &History) -> String {
    let mut causes: Vec<(String, Vec<u32>)> = Vec::new();
    for attempt in &history.attempts {
        let Some(cause) = cause(attempt) else {
            continue;
        };
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, numbers)) => numbers.push(attempt.number),
            None => causes.push((cause, vec![attempt.number])),
        }
    }
    let told = |(cause, numbers): &(String, Vec<u32>)| match numbers.as_slice() {
        [one] => format!("attempt {one} {cause}"),
        all => format!("attempts {} {cause}", listed(all)),
    };
    let told: Vec<String> = causes.iter().map(told).collect();
    match told.is_empty() {
        true if !had_a_job(history) => "Nothing ran.".to_owned(),
        true => "No attempt failed.".to_owned(),
        false => capital(&format!("{}.", told.join("; "))),
    }
}

fn had_a_job(history: &History) -> bool {
    history.attempts.iter().any(|a| a.job.is_some())
}

/// Why an attempt failed, after its number.
fn cause(attempt: &Attempt) -> Option<String> {
    let incident = attempt.incident.as_ref().filter(|i| i.fatal)?;
    let what = match incident.class {
        Class::GpuOom => "ran out of GPU memory",
        Class::EngineMemory => "did not fit the memory budget of its engine",
        Class::HostOom => "ran out of host memory",
        Class::Shm => "ran out of shared memory",
        Class::NotOom => return Some(format!("failed ({})", incident.headline())),
    };
    let course = incident.course.as_ref().filter(|c| c.is_over_steps());
    let course = course.map_or_else(String::new, |c| format!(", {}", c.sentence()));
    Some(match incident.phase.as_str() {
        "unknown" => format!("{what}{course}"),
        phase => format!("{what} in {phase}{course}"),
    })
}

fn changes(history: &History) -> String {
    let again = |a: &&Attempt| matches!(a.verdict, Some(Verdict::Again { .. }));
    let again = history.attempts.iter().filter(again).count();
    let mut text = match net(history).as_slice() {
        [] => "The configuration was not changed".to_owned(),
        all => {
            let told: Vec<String> = all
                .iter()
                .map(|c| format!("{} {}", c.name(), c.values("→")))
                .collect();
            format!("Changed: {}; {}", told.join(", "), effect(history))
        }
    };
    let now = history.ran_changed();
    if !now.is_empty() {
        let _ = write!(
            text,
            "; {} changed meanwhile outside oomctl, so the attempts did not run the same program",
            now.join(", ")
        );
    }
    if again > 0 {
        let times = if again == 1 { "once" } else { "more than once" };
        let _ = write!(text, "; submitted again unchanged {times}");
    }
    text.push('.');
    text
}

/// What all rungs together changed: each knob from its first value to its last.
fn net(history: &History) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for change in history.steps().flat_map(|s| &s.changes) {
        match all.iter_mut().find(|c| c.knob == change.knob) {
            Some(known) => known.to = change.to.clone(),
            None => all.push(change.clone()),
        }
    }
    all.retain(|c| c.from != c.to);
    all
}

fn effect(history: &History) -> String {
    let has = |effect: Effect| {
        let effects = |s: &Step| s.effect == effect || s.changes.iter().any(|c| c.effect == effect);
        history.steps().any(effects)
    };
    if !history.ran_changed().is_empty() {
        "whether this is the same experiment is unknown"
    } else if has(Effect::ChangesTraining) {
        "this is a different experiment from the one you submitted"
    } else if has(Effect::Unknown) {
        let mut notes = history.steps().flat_map(|step| &step.notes);
        let at = notes.find_map(|note| doubted_at(note));
        let at = at.map_or_else(String::new, |at| format!(" ({at})"));
        return format!("whether training is the same is unknown{at}");
    } else if has(Effect::Resources) {
        "the mathematics of training are the same, on other resources"
    } else {
        "the mathematics of training are the same"
    }
    .to_owned()
}

/// The command that starts with the configuration that the run ended with, for runs of `submit`; `None` where that is
/// the one that it began with.
pub fn reproduce(command: &[String], history: &History) -> Option<String> {
    let (program, rest) = command.split_first()?;
    let (subcommand, rest) = rest.split_first().filter(|(word, _)| *word == "submit")?;
    let values: BTreeMap<String, String> = net(history)
        .into_iter()
        .map(|c| (c.knob, c.to.to_string()))
        .collect();
    if values.is_empty() {
        return None;
    }
    let mut words = vec![program.clone(), subcommand.clone(), "--fresh".to_owned()];
    for (knob, value) in values {
        words.extend(["--set".to_owned(), format!("{knob}={value}")]);
    }
    words.extend(rest.iter().filter(|word| *word != "--fresh").cloned());
    Some(command_line(&words))
}

fn listed(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
