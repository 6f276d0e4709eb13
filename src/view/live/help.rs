//! What the keys do.

use ratatui::layout::Rect;

use super::painter::{Ink, Pen};

/// Keys, and what they do.
pub const LINES: [(&str, &str); 16] = [
    ("up down, k j", "one run or one line further"),
    ("page up, page down", "a page (b and space too)"),
    (
        "home end, g G",
        "to the first, to the last; the end of a log is followed",
    ),
    ("tab", "move the runs, or the log"),
    ("left right, [ ]", "the previous attempt, the next one"),
    ("enter, z", "the log on the whole screen, and back"),
    ("o", "the other log (standard output, standard error)"),
    ("v", "the line that proves why the attempt failed"),
    ("/ n N", "search in the log; the next one, the one before"),
    ("f", "show only runs with these words in name or state"),
    ("esc", "show all runs again, mark nothing"),
    ("r", "make the run's report, and open it if possible"),
    ("c", "cancel: end the run and its job"),
    ("e", "escalate now: end this attempt, climb the next rung"),
    ("s", "skip a rung: the next escalation does not use it"),
    (
        "q, ctrl-c",
        "detach (code 130): jobs go on; `oomctl watch` continues",
    ),
];

/// Draws it over everything else.
pub fn draw(pen: &mut Pen<'_>, area: Rect) {
    let rows = u16::try_from(LINES.len() + 2).unwrap_or(u16::MAX);
    let (width, height) = (area.width.min(78), area.height.min(rows));
    let over = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    pen.clear(over);
    pen.title(over, "keys", "");
    for (row, (keys, does)) in LINES.iter().enumerate() {
        let row = u16::try_from(row + 1).unwrap_or(u16::MAX);
        if row + 1 < height {
            let keys = format!("  {keys:<19}");
            pen.row(over, row, &[(&keys, Ink::Name), (does, Ink::Plain)]);
        }
    }
    let end = Rect {
        y: over.bottom().saturating_sub(1),
        height: 1,
        ..over
    };
    pen.title(end, "any key closes this", "");
}
