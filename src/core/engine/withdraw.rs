//! Rungs that a program refuses: it died before it came as far as the attempt whose failure they answer.
//!
//! Rule: the next answer to that failure is made without them. Who dies of the same again died of something else.

use super::ending::answered_incident;
use super::outcome::{Verdict, Withdrawn};
use super::queue_choice::with_past;
use super::state::{Attempt, Run};
use crate::core::ladder::{Change, Decision, Step, moves_knob};
use crate::core::recipe::RungSpec;
use oomctl_base::Value;
use oomctl_base::job::JobState;
use oomctl_diagnose::{Class, Incident};

/// Kinds of failure that lie in the program and its settings.
const OF_THE_PROGRAM: [&str; 3] = ["config", "code_bug", "other"];
/// Phases of a program that has not begun to train.
const BEFORE_TRAINING: [&str; 2] = ["init", "load"];
/// Names shorter than this are words of other things, too.
const SHORTEST_NAME: usize = 5;

/// What follows from an attempt whose program did not take what was changed for it. `None` where it cannot be told that the
/// change was the cause.
pub(super) fn withdraw(run: &Run, attempt: &Attempt) -> Option<Verdict> {
    let incident = attempt.incident.as_ref()?;
    if !may_be_refusal(run, attempt, incident) {
        return None;
    }
    let (before, to) = answered(run)?;
    let because = incident.headline();
    let same = before.incident.as_ref().map(Incident::headline);
    if same.as_ref() == Some(&because) {
        return None;
    }
    let measured = run.history.phantoms(attempt.number).flat_map(|c| &c.steps);
    let steps: Vec<&Step> = before.steps().iter().chain(measured).collect();
    let withdrawn = Withdrawn {
        to: to.number,
        rungs: suspects(run, &steps, to, attempt)?,
        because,
    };
    let mut left_out = run.history.left_out();
    left_out.extend(withdrawn.skipped(attempt.number));
    let then = run.history.at_the_end_of(to.number);
    let (rungs, failure) = (then.rungs(), answered_incident(to)?);
    let decided = with_past(&then, to, &left_out, |past| {
        run.request
            .ascend(&rungs, past, Some(&failure), attempt.number)
    });
    match decided.ok()? {
        Decision::Climb {
            steps,
            skipped,
            expects,
        } => Some(Verdict::Climb {
            steps,
            skipped,
            expects,
            withdrawn: Some(withdrawn),
        }),
        Decision::Exhausted { .. } => None,
    }
}

/// Did the program end by itself, for a reason that its settings can have?
fn may_be_refusal(run: &Run, attempt: &Attempt, incident: &Incident) -> bool {
    let state = attempt.status.as_ref().map(|s| &s.state);
    let failed = matches!(state, None | Some(JobState::Failed));
    let of_program = OF_THE_PROGRAM.contains(&incident.kind.as_str());
    let fatal = incident.fatal && incident.class == Class::NotOom && of_program;
    run.request.supervision().resubmit && failed && fatal && !attempt.stalled && !trained(attempt)
}

/// The attempt that was followed by the rungs of the present one, and the one whose failure they answer.
fn answered(run: &Run) -> Option<(&Attempt, &Attempt)> {
    let attempts = &run.history.attempts;
    let again = |a: &&Attempt| !matches!(a.verdict, Some(Verdict::Again { .. }));
    let before = attempts.iter().rev().skip(1).find(again)?;
    let to = before.withdrawn().map_or(before.number, |w| w.to);
    Some((before, attempts.iter().find(|a| a.number == to)?))
}

fn trained(attempt: &Attempt) -> bool {
    attempt.progress.as_ref().is_some_and(|p| p.done() > 0)
}

/// The rungs that the program refused: those that its message names; or, where it did not come to train and did before,
/// the only one, or all that do more than lower a number.
fn suspects(run: &Run, steps: &[&Step], to: &Attempt, attempt: &Attempt) -> Option<Vec<String>> {
    let incident = attempt.incident.as_ref()?;
    let text = words(&text_of(incident));
    let changes = || {
        steps
            .iter()
            .flat_map(|s| s.changes.iter().map(move |c| (*s, c)))
    };
    let named = changes().filter(|(step, change)| is_named(run, step, change, &text));
    // The message may mean the value: no other rung brings the program to it again.
    let mut found = rungs(run, named, true);
    if found.is_empty() && came_further(to, incident) {
        let more = |change: &Change| {
            !matches!(change.from, Value::Int(_) | Value::Float(_)) || steps.len() == 1
        };
        found = rungs(run, changes().filter(|(_, change)| more(change)), false);
    }
    (!found.is_empty()).then_some(found)
}

/// Had the earlier attempt begun to train, where this one had not?
fn came_further(to: &Attempt, incident: &Incident) -> bool {
    let early = |phase: &str| BEFORE_TRAINING.contains(&phase);
    let phase = to.incident.as_ref().map_or("unknown", |i| i.phase.as_str());
    let began = trained(to) || !early(phase) && phase != "unknown";
    began && early(&incident.phase)
}

/// Does the message name the option that was changed, or a package that it needs?
fn is_named(run: &Run, step: &Step, change: &Change, text: &str) -> bool {
    let knob = run.request.preset().knob(&change.knob);
    let spelled = knob.and_then(|k| k.spelling.as_ref()).map(|s| s.name());
    let ladder = run.request.inputs().ladder.iter();
    let packages = ladder
        .filter(|rung| rung.rung == step.rung)
        .flat_map(|rung| rung.packages.iter().map(String::as_str));
    let mut names = [Some(change.knob.as_str()), spelled]
        .into_iter()
        .flatten()
        .map(|name| name.rsplit('.').next().unwrap_or(name))
        .chain(packages);
    names.any(|name| {
        let name = words(name);
        let name = name.trim();
        name.len() >= SHORTEST_NAME && text.contains(&format!(" {name} "))
    })
}

/// The rungs of the ladder to which changes belong, with `all` each that moves such a knob. What was put together of several rungs is
/// taken back with each of them that does.
fn rungs<'s>(
    run: &Run,
    changes: impl Iterator<Item = (&'s Step, &'s Change)>,
    all: bool,
) -> Vec<String> {
    let (preset, ladder) = (run.request.preset(), &run.request.inputs().ladder);
    let mut found: Vec<String> = Vec::new();
    for (step, change) in changes {
        let own = |rung: &RungSpec| rung.rung == step.rung;
        let moves = |rung: &RungSpec| {
            rung.moves
                .iter()
                .any(|m| moves_knob(preset, m, &change.knob))
        };
        let is_rung = ladder.iter().any(own);
        let of = ladder
            .iter()
            .filter(|r| own(r) || (all || !is_rung) && moves(r));
        for rung in of {
            if !found.contains(&rung.rung) {
                found.push(rung.rung.clone());
            }
        }
    }
    found
}

/// What the program died of, and the line that said so. The last lines of a log do not count: they often repeat the whole command.
fn text_of(incident: &Incident) -> String {
    let evidence = incident.evidence.iter().map(|e| e.text.as_str());
    let refuses = |code: &&str| code.starts_with("assert ") || code.starts_with("raise ");
    let code = incident.frame.as_ref().map(|f| f.code.trim());
    let code = code.filter(refuses);
    let all: Vec<&str> = evidence
        .chain(incident.exception.as_deref())
        .chain(code)
        .collect();
    all.join(" ")
}

/// A text as words between single spaces: `--use-liger-kernel` is the same as `use_liger_kernel`.
fn words(text: &str) -> String {
    let plain = text.to_ascii_lowercase().replace('-', "_");
    let parts = plain.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let parts = parts.map(|p| p.trim_matches('_')).filter(|p| !p.is_empty());
    format!(" {} ", parts.collect::<Vec<_>>().join(" "))
}
