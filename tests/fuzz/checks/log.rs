//! A log, whatever is in it: the same diagnosis however it is cut into pieces, bounded memory, nothing
//! shown that drives a terminal.

use jiff::Timestamp;
use oomctl::view::IncidentView;
use oomctl_base::job::{ExitStatus, JobId, JobState, JobStatus};
use oomctl_diagnose::{Digest, Incident, ProgressPattern, Scanner};

use super::allocations::within;
use super::random::Random;

/// Bytes that a scanner may hold while it reads and judges, however long the log is.
const MOST_MEMORY: usize = 16 << 20;
/// Characters of a line of evidence.
const MOST_EVIDENCE: usize = 1_000;

/// What a log says at its end.
#[derive(Debug, PartialEq)]
struct Said {
    growing: Digest,
    alone: Incident,
    with_job: Incident,
}

pub fn check(input: &[u8]) {
    let mut random = Random::of(input);
    let job = job(&mut random);
    // An earlier part of the job ends here, in one log of four.
    let restart = if random.once_in(4) {
        random.below(input.len() + 1)
    } else {
        0
    };
    let whole = within(MOST_MEMORY, || said(&[input], restart, &job));
    let pieces = cut(input, &mut random);
    let pieced = within(MOST_MEMORY, || said(&pieces, restart, &job));
    assert_eq!(
        whole,
        pieced,
        "cut into pieces of {:?}",
        pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>()
    );
    for incident in [&whole.alone, &whole.with_job]
        .into_iter()
        .chain(&whole.growing.incident)
    {
        proven(incident, input);
        shown(incident);
    }
    harmless("the last line", &whole.growing.last_line);
}

/// One of the words that a scheduler may have about the job.
fn job(random: &mut Random) -> JobStatus {
    let state = match random.below(6) {
        0 => JobState::Completed,
        1 => JobState::OutOfMemory,
        2 => JobState::Timeout,
        3 => JobState::Unknown("TELEPORTED".to_owned()),
        _ => JobState::Failed,
    };
    let mut job = JobStatus::bare(JobId("4711".to_owned()), state);
    job.exit = Some(*random.pick(&[
        ExitStatus { code: 1, signal: 0 },
        ExitStatus { code: 0, signal: 9 },
        ExitStatus {
            code: 137,
            signal: 0,
        },
    ]));
    job.ended = Timestamp::from_second(1_795_235_046).ok();
    job
}

/// The input in pieces of random length, some of them empty.
fn cut<'a>(input: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let longest = *random.pick(&[3, 40, 700, 20_000, 300_000]);
    let longest = longest.max(input.len() / 2_000);
    let mut pieces = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(random.below(longest + 1).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

fn said(pieces: &[&[u8]], restart: usize, job: &JobStatus) -> Said {
    let mut scanner = Scanner::new(&ProgressPattern::built_in());
    let source = scanner.source("log");
    let mut offset = 0;
    for piece in pieces {
        let border = restart.saturating_sub(offset).min(piece.len());
        for (part, starts) in [
            (&piece[..border], false),
            (&piece[border..], offset < restart),
        ] {
            if starts && offset == restart {
                scanner.restart(source);
            }
            scanner.feed(source, offset as u64, part);
            offset += part.len();
        }
    }
    let growing = scanner.digest();
    scanner.finish_source(source);
    Said {
        growing,
        alone: scanner.verdict(None),
        with_job: scanner.verdict(Some(job)),
    }
}

/// Every line of evidence is a line of this log.
fn proven(incident: &Incident, log: &[u8]) {
    for proof in incident.evidence.iter().chain(&incident.consequences) {
        assert!(proof.text.chars().count() <= MOST_EVIDENCE, "{proof:?}");
        if proof.file.is_empty() {
            continue;
        }
        let offset = usize::try_from(proof.offset).unwrap();
        assert!(offset <= log.len(), "behind the end of the log: {proof:?}");
        let before = log[..offset].iter();
        let newlines = before.filter(|byte| **byte == b'\n').count() as u64;
        assert_eq!(proof.line, newlines + 1, "the line's number: {proof:?}");
    }
}

/// As text and as JSON, an incident holds no control character but the line ends of the text, and
/// colours of ours that are taken out where there is no terminal.
pub fn shown(incident: &Incident) {
    let view = IncidentView::new("log".to_owned(), vec!["log".to_owned()], incident);
    strings(&serde_json::to_value(&view).unwrap());
    let text = view.text(incident, true);
    let plain = anstream::adapter::strip_str(&text).to_string();
    harmless("the text", &plain.replace('\n', ""));
}

fn strings(value: &serde_json::Value) {
    match value {
        serde_json::Value::String(text) => harmless("the document", text),
        serde_json::Value::Array(items) => items.iter().for_each(strings),
        serde_json::Value::Object(fields) => fields.values().for_each(strings),
        _ => {}
    }
}

/// No control character, and no mark that shows text in another order than it has.
pub fn harmless(what: &str, text: &str) {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(harmful), "{what} holds a control: {text:?}");
}
