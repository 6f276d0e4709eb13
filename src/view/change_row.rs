//! A row of the table of attempts: what changes, and what that does to training, memory and speed.

use std::collections::BTreeSet;

use textwrap::core::display_width;

use super::figures::percent;
use super::fold;
use super::rung_view::{MemoryForecast, RungForecast};
use crate::core::ladder::Change;
use oomctl_base::Effect;

/// What a place ends with where a row changes several files.
pub(super) const FILES: &str = " files";
/// Values of a knob that stand in one row.
const MOST_VALUES: usize = 5;

/// An attempt, or several by the same rung.
pub(super) struct ChangeRow<'a> {
    pub attempts: (u32, u32),
    pub rungs: Vec<&'a str>,
    /// The knobs that change, each with its values in order.
    pub changes: Vec<(&'a str, Vec<String>)>,
    pub place: String,
    pub effect: Effect,
    pub memory: Option<(&'a MemoryForecast, &'a MemoryForecast)>,
    pub slower: Option<f64>,
    /// Whether the memory model sees what it does.
    pub seen: bool,
    /// Whether it frees a GiB where memory is fullest, as far as the memory model sees it, or changes training: of that
    /// everybody should know.
    pub helps: bool,
}

/// The first place of several; where they lie in several files, how many those are.
fn together(places: Vec<String>) -> String {
    let files = places.iter().filter_map(|p| Some(p.rsplit_once(':')?.0));
    match files.collect::<BTreeSet<_>>().len() {
        0 | 1 => places.into_iter().next().unwrap_or_default(),
        several => format!("{several}{FILES}"),
    }
}

impl<'a> ChangeRow<'a> {
    pub fn new(
        attempt: u32,
        rungs: &'a [RungForecast],
        before: Option<&'a MemoryForecast>,
        place: &impl Fn(&str, u32) -> String,
    ) -> Self {
        let effect = rungs
            .iter()
            .map(|r| r.step.effect)
            .max()
            .unwrap_or_default();
        let mut all: Vec<&Change> = rungs.iter().flat_map(|r| &r.step.changes).collect();
        all.sort_by_key(|c| c.effect != effect);
        let mut changes: Vec<(&str, Vec<String>)> = Vec::new();
        for change in all {
            let [from, to] = [change.from.shown(), change.to.shown()];
            match changes.iter_mut().find(|(knob, _)| *knob == change.knob) {
                Some((_, values)) => values[1] = to,
                None => changes.push((&change.knob, vec![from, to])),
            }
        }
        let places = changes.iter().map(|(knob, _)| place(knob, attempt));
        let memory = before.zip(rungs.last().and_then(|r| r.memory.as_ref()));
        let seen = rungs.iter().any(|r| r.frees.is_some());
        let frees = !seen || memory.is_none_or(|(before, after)| before.shown() != after.shown());
        Self {
            attempts: (attempt, attempt),
            rungs: rungs.iter().map(|r| r.step.rung.as_str()).collect(),
            place: together(places.collect()),
            effect,
            memory,
            slower: rungs.iter().filter_map(|r| r.slower).fold(None, more_slow),
            seen,
            helps: effect == Effect::ChangesTraining
                || frees && rungs.iter().any(RungForecast::helps),
            changes,
        }
    }

    /// Whether the next row takes the same rung once more.
    pub fn goes_on_in(&self, next: &Self) -> bool {
        let knobs = |row: &Self| {
            row.changes
                .iter()
                .map(|c| c.0.to_owned())
                .collect::<Vec<_>>()
        };
        self.rungs.last() == next.rungs.last()
            && self.rungs.len() == 1
            && next.rungs.len() == 1
            && self.helps == next.helps
            && knobs(self) == knobs(next)
    }

    pub fn join(&mut self, next: Self) {
        self.attempts.1 = next.attempts.1;
        for ((_, chain), (_, values)) in self.changes.iter_mut().zip(next.changes) {
            chain.extend(values.into_iter().skip(1));
        }
        self.memory = self.memory.zip(next.memory).map(|(a, b)| (a.0, b.1));
        let slower = self.slower;
        self.slower = next.slower.map_or(slower, |s| more_slow(slower, s));
    }

    /// All changes, or as many as fit into so many columns, at least the first.
    pub fn change(&self, room: usize, whole: bool) -> String {
        let shown = |(knob, values): &(&str, Vec<String>), long: bool| {
            let values = match (long && values.len() <= MOST_VALUES, &values[..]) {
                (false, [first, .., last]) => format!("{first} -> {last}"),
                _ => values.join(" -> "),
            };
            // The end of a long name says what it is.
            let end = knob
                .rsplit('.')
                .next()
                .filter(|_| display_width(knob) >= room);
            format!("{} {values}", end.unwrap_or(knob))
        };
        let rest = |left: usize| match left {
            0 => String::new(),
            1 => ", +1 change".to_owned(),
            n => format!(", +{n} changes"),
        };
        if whole {
            let all: Vec<String> = self.changes.iter().map(|c| shown(c, true)).collect();
            return fold::fold(&all.join(", "), 2, room);
        }
        let total = self.changes.len();
        let mut best = self.changes.first().map_or_else(String::new, |c| {
            let short = format!("{}{}", shown(c, false), rest(total - 1));
            let long = format!("{}{}", shown(c, true), rest(total - 1));
            if display_width(&long) <= room {
                long
            } else {
                short
            }
        });
        for count in 2..=total {
            let some = self.changes[..count].iter().map(|c| shown(c, true));
            let line = some.collect::<Vec<_>>().join(", ") + &rest(total - count);
            if display_width(&line) <= room {
                best = line;
            }
        }
        fold::fold(&best, 2, room)
    }

    pub fn memory_cell(&self) -> String {
        let seen = self.memory.filter(|_| self.seen);
        seen.map_or_else(
            || "?".to_owned(),
            |(before, after)| format!("{} -> {}", before.shown(), after.shown()),
        )
    }

    pub fn odds(&self) -> String {
        let odds = self.memory.and_then(|(_, after)| after.fits_probability());
        super::figures::odds(odds, "?")
    }

    pub fn speed(&self) -> String {
        match self.slower {
            Some(s) if s >= 0.005 => format!("-{}", percent(s)),
            Some(_) => "same".to_owned(),
            None => "?".to_owned(),
        }
    }
}

fn more_slow(so_far: Option<f64>, slower: f64) -> Option<f64> {
    Some(1.0 - (1.0 - so_far.unwrap_or(0.0)) * (1.0 - slower))
}
