//! What speaks against a success: the job ended well by its own word, and its log shows that work is missing.

use crate::core::engine::{Attempt, History, Outcome};
use oomctl_diagnose::{Class, EMPTY_LOG, Evidence, EvidenceRole, Progress};

/// Places of survived failures that are named.
const MOST_NAMED: usize = 3;

/// Remarks about a run that succeeded, each a sentence without its full stop.
pub fn remarks(history: &History) -> Vec<String> {
    let last = history.attempts.last();
    let last = last.filter(|_| history.outcome == Some(Outcome::Succeeded));
    let remarks = |a: &Attempt| {
        let progress = a.progress.as_ref().and_then(ended_early);
        untold(a)
            .into_iter()
            .chain(survived(a))
            .chain(unsurvived(a))
            .chain(progress)
            .chain(diverged(a))
            .collect()
    };
    last.map_or_else(Vec::new, remarks)
}

/// Nothing shows that it trained, or oomctl cannot read what does.
fn untold(attempt: &Attempt) -> Option<String> {
    let counted = attempt.progress.as_ref().is_some_and(|p| p.done() > 0)
        || attempt
            .incident
            .as_ref()
            .is_some_and(|i| i.first_step == Some(false));
    match attempt.printed_nothing() {
        true => Some(EMPTY_LOG.to_owned()),
        false if counted => None,
        false => Some("oomctl finds no step in its log: look whether it trained".to_owned()),
    }
}

/// A loop that catches an out-of-memory may go on without the batch.
fn survived(attempt: &Attempt) -> Option<String> {
    let incident = attempt.incident.as_ref()?;
    let survived = incident.evidence.iter();
    let survived: Vec<&Evidence> = survived
        .filter(|e| e.role == EvidenceRole::Survived)
        .collect();
    let places = survived.iter().take(MOST_NAMED);
    let places: Vec<String> = places.map(|e| format!("{}:{}", e.file, e.line)).collect();
    (!places.is_empty()).then(|| {
        format!(
            "the log of attempt {} shows a failure ({}{}), and the job went on: it may have skipped work",
            attempt.number,
            places.join(", "),
            if survived.len() > MOST_NAMED {
                ", …"
            } else {
                ""
            },
        )
    })
}

/// Its exit code says that it ended well, and nothing in its log that it survived.
fn unsurvived(attempt: &Attempt) -> Option<String> {
    let incident = attempt.incident.as_ref()?;
    let place = incident.evidence.first()?;
    (incident.fatal && incident.class != Class::NotOom).then(|| {
        format!(
            "its log ends with an out-of-memory ({}:{}): look whether it trained to its end",
            place.file, place.line
        )
    })
}

/// The last line about a step says `loss nan`.
fn diverged(attempt: &Attempt) -> Option<String> {
    let line = attempt.incident.as_ref()?.progress_line.as_ref()?;
    let line = line.to_lowercase();
    let words: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let mut pairs = words.windows(2);
    let is_nan = pairs.any(|pair| pair[0].ends_with("loss") && pair[1] == "nan");
    is_nan.then(|| "the loss of the last step in its log is not a number (nan)".to_owned())
}

/// Its last step is far from what its log calls the end. Early stopping looks the same.
fn ended_early(progress: &Progress) -> Option<String> {
    let total = progress
        .total
        .filter(|total| progress.step < total - total / 10)?;
    Some(format!(
        "the last step in its log is {} of {total}: look whether it trained to its end",
        progress.step
    ))
}
