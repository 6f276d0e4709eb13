//! The screen: who gets which rows, and what stands in them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::model::RunCard;
use super::painter::{Pen, TerminalFeatures};
use super::scene::Scene;
use super::state::{Mode, Rows};
use super::{attempts, footer, help, log, memory, runs};

/// The smallest screen that anything is drawn on.
const LEAST: (u16, u16) = (40, 10);
/// From this width on, memory stands beside the attempts.
const WIDE: u16 = 140;

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
        pen.row(area, 0, &[(&text, super::painter::Ink::Plain)]);
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
    footer::draw(&mut pen, areas.footer, scene);
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
    let footer = take_last(&mut rest, footer::rows(scene, area.width));
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
