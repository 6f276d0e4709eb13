//! Single lines of the story of a run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::measured_plan_view::check_line;
use super::outcome::{hint, reason};
use super::rung_view::change_lines;
use super::snapshot_view;
use super::spool::without_spool;
use super::style::{BAD, DIM, NAME, Paint, WARN};
use crate::core::engine::{ChangedFile, Fact, Foreseen, RunPhase, Withdrawn};
use crate::core::ladder::{Change, DOUBTED, MAY_SET, Step};
use crate::drive::Supervisor;
use crate::io::scheduler::Dependent;
use oomctl_base::job::JobId;
use oomctl_diagnose::{Evidence, HIDDEN_EXIT, Incident, Link, sanitize};

/// What a failure's own line has no room for: that an exit code is hidden, and which places of the code hold the memory.
pub(super) fn remarks(incident: &Incident) -> impl Iterator<Item = String> {
    let hidden = incident.notes.iter().filter(|note| *note == HIDDEN_EXIT);
    let hidden = hidden.map(|note| format!("note: {note}"));
    hidden.chain(incident.own_code.iter().cloned())
}

/// Names with how often they follow each other: `halve-batches (2x), offload`.
pub fn each_once(names: &[String]) -> String {
    let groups = names.chunk_by(|a, b| a == b).map(|same| match same {
        [one] => one.clone(),
        same => format!("{} ({}x)", same[0], same.len()),
    });
    groups.collect::<Vec<String>>().join(", ")
}

/// Lines of evidence shown for an incident; all of them are in `verdict.json`.
const EVIDENCE_SHOWN: usize = 1;
/// Characters of a line of evidence that are shown.
const MOST_EVIDENCE: usize = 200;

/// A job that is ended because it hangs, and what that saves.
pub fn hangs(attempt: u32, quiet_s: u64, saved_gpu_seconds: Option<u64>) -> String {
    let hours = saved_gpu_seconds.map(|s| s as f64 / 3_600.0);
    let saved = hours.map_or_else(String::new, |hours| {
        format!(": up to {hours:.1} GPU-hours until its time limit")
    });
    format!(
        "attempt {attempt}  {} no sign of life for {quiet_s} s; cancelling the job to free its GPUs{saved}",
        Paint(WARN, "hangs:")
    )
}

/// A job that waits for an attempt which job `to` replaces.
pub fn dependent(job: &Dependent, moved: bool, to: &JobId) -> String {
    let waits_for = sanitize(job.waits_for.as_bytes());
    let id = &job.id;
    match moved {
        true => format!("job {id} now waits for job {to}, not {waits_for}"),
        false => format!(
            "job {id} still waits for {waits_for}; job {to} replaces that one: `scontrol update JobId={id} \
             Dependency=afterok:{to}`, or `supervision: {{ move_dependents: true }}`"
        ),
    }
}

/// A submission that was refused for now, a job that is given up, and what somebody at the live view asked for.
pub fn steered(fact: &Fact) -> Option<String> {
    match fact {
        Fact::SubmitRefused {
            attempt,
            reason,
            again_s: Some(pause_s),
            ..
        } => Some(format!(
            "attempt {attempt}  {} {reason}; submitted again in {pause_s} s",
            Paint(WARN, "refused for now:")
        )),
        Fact::SubmitAgain { attempt, by } => Some(match by {
            Some(by) => format!("attempt {attempt}  submitted again, requested by {by}"),
            None => format!("attempt {attempt}  submitted again"),
        }),
        Fact::NodesExcluded { attempt, excluded } => {
            let told = excluded
                .nodes
                .iter()
                .map(|bad| format!("attempt {attempt}  {bad}"));
            Some(told.collect::<Vec<_>>().join("\n           "))
        }
        Fact::FilesChanged { attempt, files } => {
            let note = |file: &ChangedFile| format!("{} {file}", Paint(WARN, "note:"));
            let told: Vec<String> = files.iter().map(note).collect();
            Some(format!("attempt {attempt}  {}", told.join("\n           ")))
        }
        Fact::PhantomMeasured { attempt, check } => {
            Some(format!("attempt {attempt}  {}", check_line(check)))
        }
        Fact::VersionFound { attempt, found } => {
            Some(format!("attempt {attempt}  {}", found.described))
        }
        Fact::RetryRequested { by } => Some(format!("the run goes on, as {by} asked")),
        Fact::NeverStarts { attempt, reason } => Some(format!(
            "attempt {attempt}  {} {reason} will not pass; cancelling the job",
            Paint(WARN, "never starts:")
        )),
        Fact::EscalationRequested { attempt, by } => Some(format!(
            "attempt {attempt}  ended for the next rung, requested by {by}"
        )),
        Fact::RungLeftOut { attempt, rung, by } => Some(format!(
            "attempt {attempt}  {} is skipped from now on, requested by {by}",
            Paint(NAME, rung)
        )),
        _ => None,
    }
}

/// Does an incident say more than the state that was told already?
pub fn is_news(incident: &Incident) -> bool {
    let from_log = incident.evidence.iter().any(|e| !e.file.is_empty());
    match incident.kind.as_str() {
        "no_failure" | "cancelled" => false,
        "other" => from_log || !incident.last_lines.is_empty(),
        _ => true,
    }
}

/// Rungs that are taken back, and why.
pub fn taken_back(withdrawn: &Withdrawn) -> String {
    format!(
        "withdraw   {}: the program failed with it, back to the settings of attempt {}",
        Paint(NAME, &withdrawn.rungs.join(", ")),
        withdrawn.to
    )
}

/// Rungs that are taken, each with what it changes and its remarks: laps of a rung as one, and no remark twice.
pub fn rungs(steps: &[Step]) -> Vec<String> {
    let mut said = BTreeSet::new();
    let changes = steps.iter().flat_map(|step| &step.changes);
    let changed: BTreeSet<&str> = changes.map(|c| c.knob.as_str()).collect();
    let rungs = steps.chunk_by(|a, b| a.rung == b.rung);
    let mut all: Vec<String> = rungs.map(|laps| rung(laps, &changed, &mut said)).collect();
    if let Some(first) = all.first_mut() {
        first.insert_str(0, "climb      ");
    }
    all
}

fn rung(laps: &[Step], changed: &BTreeSet<&str>, said: &mut BTreeSet<String>) -> String {
    let Some(step) = laps.last() else {
        return String::new();
    };
    let changes = Change::joined(laps.iter().flat_map(|lap| &lap.changes));
    let notes = || laps.iter().flat_map(|lap| &lap.notes);
    let doubted = notes().find_map(|note| doubted_at(note));
    let place = doubted.map_or_else(String::new, |at| format!(": {at}"));
    let mut text = format!(
        "{}: {} ({}{place})",
        Paint(NAME, &step.rung),
        step.title,
        step.effect.describe()
    );
    for line in change_lines(&changes, step.effect) {
        text.push_str(&format!("\n           {line}"));
    }
    // The plan says why; here the place is enough.
    let notes = notes().filter(|note| !note.starts_with(DOUBTED) && !note.ends_with(MAY_SET));
    for note in notes.filter_map(|note| still_true(note, changed)) {
        if said.insert(note.clone()) {
            text.push_str(&format!("\n           {} {note}", Paint(DIM, "note:")));
        }
    }
    text
}

/// The place that makes it unknown whether training stays the same: `train.py:24`.
pub fn doubted_at(note: &str) -> Option<&str> {
    let why = note.strip_prefix(DOUBTED)?;
    let mut places = why
        .split('(')
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    places.find_map(|(place, _)| {
        let (_, line) = place.rsplit_once(':')?;
        line.parse::<u32>().is_ok().then_some(place)
    })
}

/// A remark without the knobs that it says stay and that another lap or rung of the same decision changes.
fn still_true(note: &str, changed: &BTreeSet<&str>) -> Option<String> {
    let Some((names, rest)) = note.split_once(" stay") else {
        return Some(note.to_owned());
    };
    let all: Vec<&str> = names.split(", ").collect();
    let kept = all.iter().filter(|name| !changed.contains(**name));
    let kept: Vec<&str> = kept.copied().collect();
    let one = |rest: &str| {
        rest.replace("they free", "it frees")
            .replace("without them", "without it")
    };
    match kept[..] {
        [] => None,
        _ if kept.len() == all.len() => Some(note.to_owned()),
        [name] => Some(format!("{name} stays{}", one(rest))),
        _ => Some(format!("{} stay{rest}", kept.join(", "))),
    }
}

/// Pages of trackers, a line each, under their attempt.
pub fn links(links: &[Link]) -> String {
    links
        .iter()
        .map(|link| format!("      {} {}\n", Paint(DIM, link.tracker.name()), link.url))
        .collect()
}

/// The next command after a submission.
pub fn next_step(supervisor: &Supervisor, name: &str) -> String {
    let history = supervisor
        .runs()
        .find(|h| h.name() == name)
        .map(|h| h.history());
    let over = history.and_then(|h| h.outcome.as_ref());
    let unclear = history.is_some_and(|h| h.phase() == RunPhase::Searching);
    let refused = history.and_then(|h| h.attempt()?.refusal());
    match over {
        Some(outcome) => {
            let mut text = format!("{name}: {}", reason(outcome).unwrap_or_default());
            if let Some(hint) = history.and_then(|h| hint(outcome, h)) {
                let _ = write!(text, "\n\n{} {hint}", Paint(WARN, "hint:"));
            }
            text
        }
        None if unclear => format!(
            "{name}: the scheduler did not say whether it accepted the job. Do not submit again: `oomctl watch {name}` finds it"
        ),
        None if let Some(refused) = refused => format!(
            "{name}: refused for now: {}. `oomctl watch {name}` retries until it is accepted",
            refused.reason
        ),
        None => format!(
            "submitted as run {name}. Nothing watches it. To resubmit after an out-of-memory: `oomctl watch {name}` \
             (next time: `submit -w`, or `--supervise job`)"
        ),
    }
}

/// What memory did over the steps before an incident.
pub fn course(incident: &Incident) -> Option<String> {
    let course = incident.course.as_ref().filter(|c| c.is_over_steps())?;
    Some(format!("course     {}", course.sentence()))
}

/// An end of memory that is seen coming.
pub fn ahead(attempt: u32, foreseen: &Foreseen) -> String {
    let ahead = Paint(WARN, "ahead:");
    format!("attempt {attempt}  {ahead} {}", foreseen.sentence())
}

/// The bugs that an incident is, or may be, each with what helps.
pub fn bugs(incident: &Incident) -> Vec<String> {
    let told = incident.known_bugs.iter();
    told.flat_map(|bug| {
        [
            format!("bug        {}", bug.sentence()),
            format!("           {}", bug.remedy()),
        ]
    })
    .collect()
}

/// Why an attempt ended: the line that proves it, and where nothing explains it the last lines of its log.
pub fn died(attempt: u32, incident: &Incident) -> String {
    let headline = without_spool(&incident.headline());
    let mut text = format!("attempt {attempt}  {}", Paint(BAD, &headline));
    let shown = incident.evidence.iter().take(EVIDENCE_SHOWN);
    let repeats = |e: &Evidence| headline.contains(&without_spool(e.text.trim()));
    for line in shown.filter(|e| !repeats(e)) {
        text.push_str(&format!("\n           {}", evidence(line)));
    }
    let held = incident.snapshot.iter().flat_map(snapshot_view::lines);
    let held = held.map(|(_, line)| Paint(DIM, &line).to_string());
    for line in held.chain(course(incident)).chain(bugs(incident)) {
        text.push_str(&format!("\n           {line}"));
    }
    for line in &incident.last_lines {
        let shown = format!("| {line}");
        text.push_str(&format!("\n           {}", Paint(DIM, &shown)));
    }
    text
}

/// Evidence as `file:line: text`.
pub fn evidence(e: &Evidence) -> String {
    let text = sanitize(e.text.as_bytes());
    let mut text = without_spool(text.trim());
    if let Some((cut, _)) = text.char_indices().nth(MOST_EVIDENCE) {
        text.truncate(cut);
        text.push('…');
    }
    if e.file.is_empty() {
        text
    } else {
        format!("{} {text}", Paint(DIM, &format!("{}:{}:", e.file, e.line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_doubt_is_that_of_a_line() {
        let note = |why: &str| format!("{DOUBTED}{why}");
        assert_eq!(
            doubted_at(&note("a (b) c (train.py:24): `x(1)`")),
            Some("train.py:24")
        );
        assert_eq!(doubted_at(&note("nobody read it")), None);
        assert_eq!(doubted_at("save often (train.py:24)"), None);
    }

    #[test]
    fn a_knob_that_another_rung_changes_is_not_said_to_stay() {
        let changed = BTreeSet::from(["a", "b"]);
        let said = |note| still_true(note, &changed).unwrap_or_default();
        assert_eq!(
            said("c, a, d stay: they free no"),
            "c, d stay: they free no"
        );
        assert_eq!(said("c, a stay: they free no"), "c stays: it frees no");
        assert_eq!(said("a stays: it frees no"), "");
        assert_eq!(
            said("c stays 4: 2 is not legal"),
            "c stays 4: 2 is not legal"
        );
        assert_eq!(said("save often"), "save often");
    }
}
