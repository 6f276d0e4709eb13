//! The attempts of a run: what each was, how it stands, and why it failed, in one line.

use jiff::Timestamp;
use ratatui::layout::Rect;
use textwrap::core::display_width;

use super::super::bars::bar;
use super::super::figures::duration;
use super::super::outcome::reason;
use super::super::run_view::total;
use super::super::{measured, waiting};
use super::model::RunCard;
use super::painter::{Ink, Pen};
use super::scene::Scene;
use crate::core::engine::{Attempt, Outcome, Verdict};
use oomctl_base::job::{JobState, Stage};
use oomctl_diagnose::{Class, Incident};

/// Cells of the bar of progress.
const BAR: usize = 20;
/// Blanks before what stands below the attempts.
const INDENT: u16 = 5;
/// Characters of the names of an attempt's rungs.
const RUNGS_MAX: usize = 27;
/// Lines below the attempts about the one that is shown, where it failed.
const BELOW: usize = 2;
/// The least rows for which a line of heads is given up none of the attempts.
const WITH_HEADS: u16 = 4;
const HEADS: [&str; 5] = ["  #  JOB", "STATE", "TIME", "RUNGS", "WHY, OR HOW FAR"];

/// Rows for all that is there: a title, heads, the attempts, and what is below.
pub fn rows(scene: Scene<'_>, card: Option<&RunCard>) -> usize {
    let attempts = card.map_or(0, |card| card.history.attempts.len()).max(1);
    let shown = card.and_then(|card| scene.state.attempt(card));
    let failed = shown.is_some_and(|attempt| attempt.incident.as_ref().is_some_and(says_why));
    2 + attempts + if failed { BELOW } else { 1 }
}

/// The attempts, the last ones where there are too many, and a line about the one that is shown.
pub fn draw(pen: &mut Pen<'_>, area: Rect, scene: Scene<'_>, card: &RunCard) {
    let attempts = &card.history.attempts;
    let heads = u16::from(area.height >= WITH_HEADS);
    let rows = usize::from(area.height.saturating_sub(2 + heads));
    let shown = scene.state.attempt(card);
    let at = shown.and_then(|s| attempts.iter().position(|a| a.number == s.number));
    let last = attempts.len().saturating_sub(rows);
    let top = at.map_or(last, |at| at.min(last));
    let tail = match attempts.len() {
        0 | 1 => String::new(),
        n => format!("{} of {n}", at.map_or(n, |at| at + 1)),
    };
    pen.title(area, &format!("attempts of {}", card.name()), &tail);
    if attempts.is_empty() {
        pen.row(area, 1, &[("  none yet: waiting for other runs", Ink::Dim)]);
        return;
    }
    let chosen = at.filter(|_| attempts.len() > 1);
    let seen = attempts.iter().skip(top).take(rows);
    let columns: Vec<Columns> = seen
        .map(|a| Columns::of(card, a, scene.now, area.width))
        .collect();
    let widths = columns.iter().map(Columns::widths);
    let named = std::array::from_fn(|i| usize::from(heads) * HEADS[i].len());
    let widths = widths.fold(named, |all, one| {
        std::array::from_fn(|i| all[i].max(one[i]))
    });
    if heads > 0 {
        let names = Columns::heads();
        one(
            pen,
            area,
            1,
            (&names, widths),
            [Ink::Dim; 4],
            (HEADS[4], Ink::Dim),
        );
    }
    for ((place, attempt), columns) in attempts.iter().enumerate().skip(top).zip(&columns) {
        let row = u16::try_from(place - top + 1).unwrap_or(u16::MAX) + heads;
        let (told, ink) = told(card, attempt);
        let inks = [Ink::Plain, word(attempt).1, Ink::Dim, Ink::Name];
        one(pen, area, row, (columns, widths), inks, (&told, ink));
        if Some(place) == chosen {
            pen.mark(area, row, Ink::Chosen);
        }
    }
    if let Some(attempt) = shown {
        let begins = u16::try_from(attempts.len().min(rows) + 1).unwrap_or(u16::MAX) + heads;
        // Behind each column are two blanks.
        let room = usize::from(area.width).saturating_sub(widths.iter().sum::<usize>() + 8);
        let rest = Rect {
            y: area.y + begins,
            height: area.height.saturating_sub(begins),
            ..area
        };
        below(pen, rest, room, card, attempt);
    }
}

/// What stands in the columns of an attempt, before what is told of it.
struct Columns {
    head: String,
    word: String,
    took: String,
    with: String,
}

impl Columns {
    fn of(card: &RunCard, attempt: &Attempt, now: Timestamp, width: u16) -> Self {
        let job = attempt.job.as_ref().map_or("-", |j| j.id.0.as_str());
        Self {
            head: format!("{:>3}  {job}", attempt.number),
            word: word(attempt).0.to_owned(),
            took: duration(seconds(attempt, now)),
            with: rungs_before(card, attempt)
                .chars()
                .take(RUNGS_MAX.max(usize::from(width) / 3))
                .collect(),
        }
    }

    fn heads() -> Self {
        let [head, word, took, with, _] = HEADS.map(str::to_owned);
        Self {
            head,
            word,
            took,
            with,
        }
    }

    fn widths(&self) -> [usize; 4] {
        [&self.head, &self.word, &self.took, &self.with].map(|text| text.chars().count())
    }
}

/// One line, in columns of these widths.
fn one(
    pen: &mut Pen<'_>,
    area: Rect,
    row: u16,
    (columns, [head, state, took, with]): (&Columns, [usize; 4]),
    inks: [Ink; 4],
    told: (&str, Ink),
) {
    let texts = [
        format!("{:<head$}  ", columns.head),
        format!("{:<state$}  ", columns.word),
        format!("{:>took$}  ", columns.took),
        format!("{:<with$}  ", columns.with),
    ];
    let mut pieces: Vec<(&str, Ink)> = texts.iter().map(String::as_str).zip(inks).collect();
    pieces.push(told);
    pen.row(area, row, &pieces);
}

/// The scheduler's word for an attempt.
fn word(attempt: &Attempt) -> (&str, Ink) {
    let Some(status) = &attempt.status else {
        let word = match (&attempt.job, attempt.refusal(), &attempt.unclear) {
            (Some(_), _, _) => "submitted",
            (None, Some(_), _) => "refused",
            (None, None, Some(_)) => "unclear",
            (None, None, None) => "submitting",
        };
        return (word, Ink::Dim);
    };
    let ink = match &status.state {
        JobState::Completed => Ink::Good,
        JobState::Running => Ink::Plain,
        state if matches!(state.stage(), Stage::Waiting | Stage::Ending) => Ink::Dim,
        JobState::Cancelled | JobState::Preempted | JobState::Unknown(_) => Ink::Warn,
        _ => Ink::Bad,
    };
    (status.state.word(), ink)
}

/// How long its job ran or runs, or how long it has been waited for.
fn seconds(attempt: &Attempt, now: Timestamp) -> i64 {
    let waited = || {
        attempt
            .over_at()
            .unwrap_or(now)
            .duration_since(attempt.intended_at)
    };
    let ran = attempt.ran_s(now);
    ran.unwrap_or_else(|| waited().as_secs().max(0))
}

/// The rungs that were taken for an attempt: `base` for the first.
fn rungs_before(card: &RunCard, attempt: &Attempt) -> String {
    let mut attempts = card.history.attempts.iter();
    let before = attempts.rfind(|a| a.number < attempt.number);
    let Some(before) = before else {
        return "base".to_owned();
    };
    match &before.verdict {
        Some(Verdict::Climb { steps, .. }) => {
            let rungs: Vec<&str> = steps.iter().map(|s| s.rung.as_str()).collect();
            rungs.join(", ")
        }
        _ => "the same".to_owned(),
    }
}

/// What there is to say of an attempt in one line: why it failed, or how far it is.
pub fn told(card: &RunCard, attempt: &Attempt) -> (String, Ink) {
    if let Some(incident) = attempt.incident.as_ref().filter(|i| says_why(i)) {
        return (incident.headline(), Ink::Bad);
    }
    if attempt.ended_at.is_some() {
        let steps = attempt.progress.as_ref();
        let steps = steps.map(|p| format!("step {}{}", p.step, total(p)));
        let peak = measured::peak(&attempt.measured).map(|p| format!("peak {p}"));
        let told: Vec<String> = steps.into_iter().chain(peak).collect();
        return match (&card.history.outcome, told.as_slice()) {
            (Some(Outcome::Succeeded) | None, _) => (told.join(", "), Ink::Plain),
            (Some(outcome), _) => (reason(outcome).unwrap_or_default(), Ink::Warn),
        };
    }
    if let Some(refused) = attempt.refusal() {
        return (refused.reason.clone(), Ink::Bad);
    }
    if let Some(unclear) = &attempt.unclear {
        return (unclear.clone(), Ink::Warn);
    }
    if let Some(class) = card.fatal {
        let what = match class {
            Class::HostOom => "host memory",
            _ => "GPU memory",
        };
        let text = format!("out of {what}, waiting for the job to end");
        return (text, Ink::Bad);
    }
    alive(card, attempt)
}

/// The same of one whose job lives.
fn alive(card: &RunCard, attempt: &Attempt) -> (String, Ink) {
    let stage = attempt.status.as_ref().map(|s| s.state.stage());
    if stage != Some(Stage::Running) {
        let reason = card
            .reason
            .as_deref()
            .filter(|r| !matches!(*r, "" | "None"));
        let reason = reason.unwrap_or_default();
        return match waiting::hint(reason) {
            Some(hint) => (format!("{reason}: {hint}"), Ink::Warn),
            None => (reason.to_owned(), Ink::Dim),
        };
    }
    let mut told = Vec::new();
    if attempt.steered.escalation.is_some() {
        told.push("is ended for the next rung".to_owned());
    }
    if let Some(idle_s) = attempt.idle_s {
        told.push(format!("no progress for {}", duration(signed(idle_s))));
    }
    if let Some(foreseen) = &attempt.foreseen {
        told.push(format!("memory full at step {}", foreseen.full_step));
    }
    if let Some(progress) = &card.course.progress {
        told.push(format!("step {}{}", progress.step, total(progress)));
    }
    told.extend(card.course.steps_per_s().map(speed));
    let left = card.course.left_s();
    told.extend(left.map(|s| format!("{} left", duration(s))));
    (told.join(" · "), Ink::Plain)
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Steps over time, in the unit in which it is a number that people say.
fn speed(steps_per_s: f64) -> String {
    match steps_per_s {
        s if s >= 1.0 => format!("{s:.1} steps/s"),
        s if s * 60.0 >= 1.0 => format!("{:.1} steps/min", s * 60.0),
        s => format!("{:.1} steps/h", s * 3_600.0),
    }
}

/// Does an incident say more than that a job failed?
fn says_why(incident: &Incident) -> bool {
    incident.fatal && incident.kind != "no_failure"
}

/// What does not fit into the line of the attempt that is shown: how far it is, what its rungs changed, what proves why
/// it failed.
fn below(pen: &mut Pen<'_>, area: Rect, room: usize, card: &RunCard, attempt: &Attempt) {
    let ended = attempt.ended_at.is_some();
    let progress = card.course.progress.as_ref().filter(|_| !ended);
    if let Some(total) = progress.and_then(|p| p.total.filter(|t| *t > 0)) {
        let step = progress.map_or(0, |p| p.step);
        let percent = u8::try_from((step.saturating_mul(100) / total).min(100)).unwrap_or(100);
        let bar = format!("     {} {percent} %  ", bar(percent, BAR, pen.look.unicode));
        let (told, ink) = told(card, attempt);
        pen.row(area, 0, &[(&bar, Ink::Good), (&told, ink)]);
        return;
    }
    let incident = attempt.incident.as_ref().filter(|i| says_why(i));
    let headline = incident.map(Incident::headline);
    if let Some(headline) = headline.filter(|text| display_width(text) > room) {
        let columns = usize::from(area.width.saturating_sub(INDENT));
        for (row, line) in textwrap::wrap(&headline, columns).iter().enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            pen.row(area, row, &[("     ", Ink::Plain), (line, Ink::Bad)]);
        }
        return;
    }
    if let Some(evidence) = super::state::evidence(attempt) {
        let text = format!(
            "     {}:{}: {}",
            evidence.file,
            evidence.line,
            evidence.text.trim()
        );
        pen.row(area, 0, &[(&text, Ink::Dim)]);
        return;
    }
    let mut attempts = card.history.attempts.iter();
    let before = attempts.rfind(|a| a.number < attempt.number);
    let changes = before.into_iter().flat_map(|a| a.steps());
    let changes = changes.flat_map(|s| &s.changes);
    let changes = changes.map(|c| format!("{} {}", c.name(), c.values("→")));
    let text = format!("     {}", changes.collect::<Vec<_>>().join(", "));
    pen.row(area, 0, &[(&text, Ink::Dim)]);
}
