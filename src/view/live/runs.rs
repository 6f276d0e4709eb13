//! How all runs stand: a line about all of them, and the list.

use std::collections::BTreeMap;

use ratatui::layout::Rect;

use super::super::figures::duration;
use super::attempts;
use super::model::RunCard;
use super::painter::{Ink, Pen};
use super::scene::Scene;

/// What all are doing, and what does not work.
pub fn header(pen: &mut Pen<'_>, area: Rect, scene: Scene<'_>) {
    let cards = scene.board.cards();
    let told = match cards {
        [one] => format!("{}  {}", one.name(), told_of_one(one, scene)),
        all => format!("{} runs: {}", all.len(), counts(all)),
    };
    let mut pieces = vec![("oomctl watch  ", Ink::Title), (told.as_str(), Ink::Plain)];
    let trouble = scene.board.trouble.as_ref().map(|t| format!("  {t}"));
    if let Some(trouble) = &trouble {
        pieces.push((trouble, Ink::Warn));
    }
    pen.row(area, 0, &pieces);
}

fn told_of_one(card: &RunCard, scene: Scene<'_>) -> String {
    let used = card.history.gpu_seconds(scene.now) / 3_600.0;
    let made = card.history.created.unwrap_or(scene.now);
    let age = scene.now.duration_since(made).as_secs().max(0);
    format!("{}  {}  {used:.2} GPU-hours", card.state, duration(age))
}

fn counts(cards: &[RunCard]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for card in cards {
        *counts.entry(&card.state).or_default() += 1;
    }
    let counts = counts.iter().map(|(state, n)| format!("{n} {state}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// The list of runs, scrolled so that the chosen one is on it.
pub fn draw(pen: &mut Pen<'_>, area: Rect, scene: Scene<'_>) {
    if area.height < 3 {
        return;
    }
    let listed = scene.state.listed(scene.board);
    let cards = scene.board.cards();
    let chosen = scene.state.card(scene.board).map(RunCard::name);
    let at = listed.iter().position(|i| Some(cards[*i].name()) == chosen);
    let rows = usize::from(area.height) - 2;
    let at = at.unwrap_or(0);
    // The chosen row in the middle, but no empty rows at either end.
    let top = at
        .saturating_sub(rows / 2)
        .min(listed.len().saturating_sub(rows));
    let place = match listed.len() {
        0 => "none".to_owned(),
        n => format!("{} of {n}", at + 1),
    };
    let filter = match scene.state.filter.as_str() {
        "" => String::new(),
        words => format!(", with \"{words}\""),
    };
    let focus = if scene.state.is_in_log(scene.board) {
        ""
    } else {
        " (arrows)"
    };
    pen.title(area, &format!("runs{focus}"), &format!("{place}{filter}"));
    let width = cards.iter().map(|c| c.name().len()).max().unwrap_or(3);
    let width = width.clamp(3, usize::from(area.width) / 3);
    let heading = format!(
        "  {:<width$}  {:<13} {:>3}  {}",
        "RUN", "STATE", "ATT", "LAST"
    );
    pen.row(area, 1, &[(&heading, Ink::Dim)]);
    for (row, place) in listed.iter().skip(top).take(rows).enumerate() {
        let row = u16::try_from(row + 2).unwrap_or(u16::MAX);
        one(pen, area, row, width, &cards[*place]);
        if top + usize::from(row) - 2 == at {
            pen.mark(area, row, Ink::Chosen);
        }
    }
}

fn one(pen: &mut Pen<'_>, area: Rect, row: u16, width: usize, card: &RunCard) {
    let name: String = card.name().chars().take(width).collect();
    let name = format!("  {name:<width$}  ");
    let state = format!("{:<13} ", card.state);
    let count = format!("{:>3}  ", card.history.attempts.len());
    let last = card.history.attempt();
    let last = last.map(|a| attempts::told(card, a));
    let (told, ink) = match (&card.error, last) {
        (Some(error), _) => (error.clone(), Ink::Bad),
        (None, Some((told, ink))) => (told, ink),
        (None, None) => (String::new(), Ink::Plain),
    };
    let pieces = [
        (name.as_str(), Ink::Name),
        (state.as_str(), ink_of(&card.state)),
        (count.as_str(), Ink::Plain),
        (told.as_str(), ink),
    ];
    pen.row(area, row, &pieces);
}

/// The colour of a word for where a run stands.
fn ink_of(state: &str) -> Ink {
    match state {
        "succeeded" => Ink::Good,
        "running" => Ink::Plain,
        "waiting" | "pending" | "submitted" | "submitting" | "completing" => Ink::Dim,
        "cancelled" | "pruned" | "unclear" | "ended" | "budget_spent" => Ink::Warn,
        _ => Ink::Bad,
    }
}
