//! The last row: what the keys do, what is typed; and what is asked or told, in as many rows as that needs.

use std::borrow::Cow;

use ratatui::layout::Rect;

use super::painter::{Ink, Pen};
use super::scene::Scene;
use super::state::Mode;

/// The keys that are told where nothing else is.
const KEYS: [(&str, &str); 10] = [
    ("?", "help"),
    ("q", "detach"),
    ("c", "cancel"),
    ("e", "escalate"),
    ("s", "skip rung"),
    ("r", "report"),
    ("/", "search"),
    ("o", "other log"),
    ("v", "evidence"),
    ("f", "filter"),
];

/// Rows at most.
const ROWS_MAX: usize = 4;
/// What the keys do while something is asked.
const ANSWERS: &str = "[y/N]";

/// How many rows there are to be.
pub fn rows(scene: Scene<'_>, width: u16) -> u16 {
    let rows = message(scene, width).len().max(1);
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// What is asked or told, in rows: nobody can agree to a question that is cut, or open a path.
fn message(scene: Scene<'_>, width: u16) -> Vec<String> {
    let text = match (&scene.state.mode, &scene.state.told) {
        (Mode::Asked(question), _) => format!("{ANSWERS} {}", question.text()),
        (Mode::Commands | Mode::Help, Some(told)) => told.clone(),
        _ => return Vec::new(),
    };
    let wrapped = textwrap::wrap(&text, usize::from(width)).into_iter();
    let mut rows: Vec<String> = wrapped.map(Cow::into_owned).collect();
    if rows.len() > ROWS_MAX {
        // Drawn, it is cut, and shows that.
        let rest = rows.split_off(ROWS_MAX - 1);
        rows.push(rest.join(" "));
    }
    rows
}

/// Draws it.
pub fn draw(pen: &mut Pen<'_>, area: Rect, scene: Scene<'_>) {
    let cursor = if pen.look.unicode { "█" } else { "_" };
    match &scene.state.mode {
        Mode::Filter(text) => pen.row(
            area,
            0,
            &[
                ("show runs with: ", Ink::Title),
                (text, Ink::Plain),
                (cursor, Ink::Dim),
            ],
        ),
        Mode::Search(text) => pen.row(
            area,
            0,
            &[
                ("search: ", Ink::Title),
                (text, Ink::Plain),
                (cursor, Ink::Dim),
            ],
        ),
        Mode::Commands | Mode::Help if scene.state.told.is_none() => keys(pen, area),
        Mode::Asked(_) | Mode::Commands | Mode::Help => {
            for (row, text) in (0..).zip(message(scene, area.width)) {
                let (answers, text) = match text.strip_prefix(ANSWERS) {
                    Some(text) => (ANSWERS, text),
                    None => ("", text.as_str()),
                };
                pen.row(area, row, &[(answers, Ink::Title), (text, Ink::Warn)]);
            }
        }
    }
}

/// As many as fit.
fn keys(pen: &mut Pen<'_>, area: Rect) {
    let mut pieces: Vec<(String, Ink)> = Vec::new();
    let mut used = 0;
    for (key, does) in KEYS {
        let does = format!(" {does}  ");
        used += key.len() + does.len();
        if used > usize::from(area.width) {
            break;
        }
        pieces.push((key.to_owned(), Ink::Title));
        pieces.push((does, Ink::Dim));
    }
    let pieces: Vec<(&str, Ink)> = pieces.iter().map(|(t, i)| (t.as_str(), *i)).collect();
    pen.row(area, 0, &pieces);
}
