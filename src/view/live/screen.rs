//! The screen: who gets which rows, and what stands in them.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::model::RunCard;
use super::painter::{Ink, Pen, TerminalFeatures};
use super::scene::Scene;
use super::state::{Mode, Rows};
use super::{attempts, help, log, memory, runs};

/// The smallest screen that anything is drawn on.
const LEAST: (u16, u16) = (40, 10);
/// From this width on, memory stands beside the attempts.
const WIDE: u16 = 140;
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

/// Rows of the footer at most.
const FOOTER_MAX: usize = 4;
/// What the keys do while something is asked.
const ANSWERS: &str = "[y/N]";

/// Who gets which rows. Areas without rows are not drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Areas {
    header: Rect,
    runs: Rect,
    attempts: Rect,
    memory: Rect,
    log: Rect,
    footer: Rect,
}

/// Draws a screen, and says how many rows of what there are.
pub fn draw(buffer: &mut Buffer, look: TerminalFeatures, scene: Scene<'_>) -> Rows {
    let area = buffer.area;
    buffer.reset();
    let mut pen = Pen::new(buffer, look);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "the terminal is too small: at least {} x {} needed",
            LEAST.0, LEAST.1
        );
        pen.row(area, 0, &[(&text, Ink::Plain)]);
        return Rows::default();
    }
    let card = scene.state.card(scene.board);
    let areas = areas(area, scene, card);
    runs::header(&mut pen, areas.header, scene);
    runs::draw(&mut pen, areas.runs, scene);
    if let Some(card) = card {
        attempts::draw(&mut pen, areas.attempts, scene, card);
        memory::draw(&mut pen, areas.memory, &scene.shown.tracks);
        log::draw(&mut pen, areas.log, scene, card);
    }
    draw_footer(&mut pen, areas.footer, scene);
    if scene.state.mode == Mode::Help {
        help::draw(&mut pen, area);
    }
    Rows {
        runs: usize::from(areas.runs.height.saturating_sub(2)),
        log: usize::from(areas.log.height.saturating_sub(1)),
    }
}

/// The log gets what the others leave: they are lists of which the part that counts is shown.
fn areas(area: Rect, scene: Scene<'_>, card: Option<&RunCard>) -> Areas {
    let mut rest = area;
    let header = take(&mut rest, 1);
    let footer = take_last(&mut rest, footer_rows(scene, area.width));
    if scene.state.large {
        return Areas {
            header,
            log: rest,
            footer,
            ..Areas::default()
        };
    }
    let rows = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let third = (rest.height / 3).max(3);
    let listed = match scene.board.cards().len() {
        0 | 1 => 0,
        n => rows(n).saturating_add(2).min(third),
    };
    let runs = take(&mut rest, listed);
    let gpus = memory::rows(&scene.shown.tracks);
    let tried = rows(attempts::rows(scene, card));
    let quarter = (area.height / 4).max(4);
    if area.width >= WIDE && gpus > 0 {
        let mut both = take(
            &mut rest,
            tried.max(rows(gpus).saturating_add(1)).min(2 * quarter),
        );
        let memory = Rect {
            x: both.right() - both.width * 2 / 5,
            width: both.width * 2 / 5,
            ..both
        };
        both.width -= memory.width + 1;
        return Areas {
            header,
            runs,
            attempts: both,
            memory,
            log: rest,
            footer,
        };
    }
    let attempts = take(&mut rest, tried.min(third.max(5)));
    let memory = match gpus {
        0 => 0,
        n => rows(n).saturating_add(1).min(quarter),
    };
    Areas {
        header,
        runs,
        attempts,
        memory: take(&mut rest, memory),
        log: rest,
        footer,
    }
}

/// The first rows of an area, which no longer has them.
fn take(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    let taken = Rect {
        height: rows,
        ..*rest
    };
    rest.y += rows;
    rest.height -= rows;
    taken
}

/// The last rows of an area, which no longer has them.
fn take_last(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    rest.height -= rows;
    Rect {
        y: rest.bottom(),
        height: rows,
        ..*rest
    }
}

/// How many rows the footer needs.
fn footer_rows(scene: Scene<'_>, width: u16) -> u16 {
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
    if rows.len() > FOOTER_MAX {
        // Drawn, it is cut, and shows that.
        let rest = rows.split_off(FOOTER_MAX - 1);
        rows.push(rest.join(" "));
    }
    rows
}

/// Draws the last row: what the keys do, or what is typed, asked or told.
fn draw_footer(pen: &mut Pen<'_>, area: Rect, scene: Scene<'_>) {
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

/// The keys, as many as fit.
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
