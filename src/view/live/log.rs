//! The log of an attempt: its end or a place in it, what was searched for, and the line that proves why it failed.

use ratatui::layout::Rect;

use super::model::RunCard;
use super::painter::{Ink, Pen};
use super::scene::Scene;
use super::state::evidence;
use super::text::{LogLine, LogPosition};

/// Draws the lines from the place that was chosen.
pub fn draw(pen: &mut Pen<'_>, area: Rect, scene: Scene<'_>, card: &RunCard) {
    if area.height < 2 {
        return;
    }
    let (state, shown) = (scene.state, scene.shown);
    let rows = usize::from(area.height) - 1;
    let name = shown
        .logs
        .get(shown.log)
        .map_or("no log yet", String::as_str);
    let focus = match state.is_in_log(scene.board) && scene.board.cards().len() > 1 {
        true => " (arrows)",
        false => "",
    };
    let top = shown.text.top(state.place, rows);
    pen.title(area, &format!("{name}{focus}"), &tail(scene, top));
    let proof = state.attempt(card).and_then(evidence);
    let proof = proof.filter(|e| e.file == name).map(|e| e.offset);
    for (row, line) in shown.text.lines.iter().skip(top).take(rows).enumerate() {
        let row = u16::try_from(row + 1).unwrap_or(u16::MAX);
        let ink = if proof == Some(line.offset) {
            Ink::Evidence
        } else {
            Ink::Plain
        };
        let pieces = pieces(line, &state.search, ink);
        pen.row(area, row, &pieces);
    }
}

/// Where in the file the screen stands.
fn tail(scene: Scene<'_>, top: usize) -> String {
    let (state, text) = (scene.state, &scene.shown.text);
    let place = match state.place {
        LogPosition::End => "end".to_owned(),
        LogPosition::At(_) => {
            let offset = text.lines.get(top).map_or(0, |l| l.offset);
            let percent = u128::from(offset) * 100 / u128::from(text.length.max(1));
            format!("{percent} %")
        }
    };
    match state.search.as_str() {
        "" => place,
        words => format!("\"{words}\", {place}"),
    }
}

/// A line with what was searched for marked.
fn pieces<'a>(line: &'a LogLine, search: &str, ink: Ink) -> Vec<(&'a str, Ink)> {
    let mut pieces = Vec::new();
    let mut rest = line.text.as_str();
    while let Some((at, length)) = found(rest, search) {
        pieces.push((&rest[..at], ink));
        pieces.push((&rest[at..at + length], Ink::Hit));
        rest = &rest[at + length..];
    }
    pieces.push((rest, ink));
    pieces
}

/// Where words stand in a text; capitals count only where there are some in the words.
pub fn found(text: &str, words: &str) -> Option<(usize, usize)> {
    if words.is_empty() {
        return None;
    }
    let at = match words.bytes().any(|b| b.is_ascii_uppercase()) {
        true => text.find(words),
        // Lower case of ASCII alone keeps every byte where it is.
        false => text.to_ascii_lowercase().find(&words.to_ascii_lowercase()),
    };
    at.map(|at| (at, words.len()))
}
