//! The last row: what the keys do, what is typed, what is asked.

use ratatui::layout::Rect;

use super::pen::{Ink, Pen};
use super::screen::Scene;
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
        Mode::Asked(question) => {
            // What the keys do stands first: the question may be longer than the row.
            let text = question.text();
            pen.row(
                area,
                0,
                &[("[y yes, other keys no] ", Ink::Title), (&text, Ink::Warn)],
            );
        }
        Mode::Commands | Mode::Help => match &scene.state.told {
            Some(told) => pen.row(area, 0, &[(told, Ink::Warn)]),
            None => keys(pen, area),
        },
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
