//! A row of the table of attempts: what changes, and what that does to training, memory and speed.

use std::collections::BTreeSet;

use textwrap::core::display_width;

use super::figures::percent;
use super::rung_view::{MemoryForecast, RungForecast};
use super::style::DIM;
use super::{NAME, Paint, fold};
use crate::core::ladder::Change;
use oomctl_base::Effect;

/// What a place ends with where a row changes many files, and what stands between the names of two.
const FILES: &str = " files";
const AND: &str = " and ";
/// Values of a knob that stand in one row.
const MOST_VALUES: usize = 5;

/// An attempt, or several by the same rung.
pub(super) struct ChangeRow<'a> {
    pub attempts: (u32, u32),
    /// The rungs, each lap of its own.
    pub rungs: Vec<&'a RungForecast>,
    /// The knobs that change.
    pub changes: Vec<KnobChange<'a>>,
    pub effect: Effect,
    pub memory: Option<(&'a MemoryForecast, &'a MemoryForecast)>,
    pub slower: Option<f64>,
    /// Whether the memory model sees what it does.
    pub seen: bool,
    /// Whether it frees a GiB where memory is fullest, as far as the memory model sees it, or changes training: of that
    /// everybody should know.
    pub helps: bool,
}

/// A knob that changes.
pub(super) struct KnobChange<'a> {
    pub knob: &'a str,
    /// What people call it.
    pub name: &'a str,
    /// Its values in order.
    pub values: Vec<String>,
    /// Where it is given.
    pub place: String,
    pub effect: Effect,
}

impl KnobChange<'_> {
    /// `16 -> 8 -> 4`; of many values, or where `short`, the first and the last.
    pub fn values(&self, short: bool) -> String {
        match &self.values[..] {
            [first, .., last] if short || self.values.len() > MOST_VALUES => {
                format!("{first} -> {last}")
            }
            all => all.join(" -> "),
        }
    }
}

impl<'a> ChangeRow<'a> {
    pub fn new(
        attempt: u32,
        rungs: &'a [RungForecast],
        before: Option<&'a MemoryForecast>,
        place: &impl Fn(&str, u32) -> String,
    ) -> Self {
        let effect = rungs.iter().map(|r| r.step.effect).max();
        let effect = effect.unwrap_or_default();
        let mut all: Vec<&Change> = rungs.iter().flat_map(|r| &r.step.changes).collect();
        all.sort_by_key(|c| c.effect != effect);
        let mut changes: Vec<KnobChange<'_>> = Vec::new();
        for change in all {
            let [from, to] = [change.from.shown(), change.to.shown()];
            match changes.iter_mut().find(|c| c.knob == change.knob) {
                Some(known) => known.values[1] = to,
                None => changes.push(KnobChange {
                    knob: &change.knob,
                    name: change.name(),
                    values: vec![from, to],
                    place: place(&change.knob, attempt),
                    effect: change.effect,
                }),
            }
        }
        let memory = before.zip(rungs.last().and_then(|r| r.memory.as_ref()));
        let seen = rungs.iter().any(|r| r.frees.is_some());
        let frees = !seen || memory.is_none_or(|(before, after)| before.shown() != after.shown());
        Self {
            attempts: (attempt, attempt),
            effect,
            memory,
            slower: rungs.iter().filter_map(|r| r.slower).fold(None, more_slow),
            seen,
            helps: effect == Effect::ChangesTraining
                || frees && rungs.iter().any(RungForecast::helps),
            rungs: rungs.iter().collect(),
            changes,
        }
    }

    /// What a lack of host memory changes of training, as a row without a number; none where it changes nothing of it.
    pub fn after_host_oom(all: &'a [Change], place: impl Fn(&str, u32) -> String) -> Option<Self> {
        let all = all.iter().filter(|c| c.effect.is_other());
        let changes = all.map(|change| KnobChange {
            knob: &change.knob,
            name: change.name(),
            values: vec![change.from.shown(), change.to.shown()],
            place: place(&change.knob, 0),
            effect: change.effect,
        });
        let changes: Vec<KnobChange<'_>> = changes.collect();
        Some(Self {
            attempts: (0, 0),
            effect: changes.iter().map(|c| c.effect).max()?,
            changes,
            rungs: Vec::new(),
            memory: None,
            slower: None,
            seen: false,
            helps: true,
        })
    }

    /// The names of its rungs.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.rungs.iter().map(|r| r.step.rung.as_str())
    }

    /// Where it changes something: the first place, or where they lie in several files, their names where there is room, or how
    /// many they are.
    pub fn place(&self, wide: bool) -> String {
        let places = self.changes.iter().map(|c| c.place.as_str());
        let files = places.clone().filter_map(|p| Some(p.rsplit_once(':')?.0));
        let files: BTreeSet<&str> = files.collect();
        let names = files.iter().map(|file| file.rsplit('/').next());
        match files.len() {
            0 | 1 => places.map(str::to_owned).next().unwrap_or_default(),
            2 if wide => names.flatten().collect::<Vec<_>>().join(AND),
            several => format!("{several}{FILES}"),
        }
    }

    /// Whether it changes several files.
    pub fn is_in_several(place: &str) -> bool {
        place.ends_with(FILES) || place.contains(AND)
    }

    /// Whether the next row takes the same rung once more.
    pub fn goes_on_in(&self, next: &Self) -> bool {
        let one = |row: &Self| {
            let names: BTreeSet<&str> = row.names().collect();
            names.first().copied().filter(|_| names.len() == 1)
        };
        let knobs = |row: &Self| row.changes.iter().map(|c| c.knob).collect::<Vec<_>>();
        one(self).is_some()
            && one(self) == one(next)
            && self.helps == next.helps
            && knobs(self) == knobs(next)
    }

    pub fn join(&mut self, next: Self) {
        self.attempts.1 = next.attempts.1;
        for (known, change) in self.changes.iter_mut().zip(next.changes) {
            known.values.extend(change.values.into_iter().skip(1));
            known.effect = known.effect.max(change.effect);
        }
        self.effect = self.effect.max(next.effect);
        self.rungs.extend(next.rungs);
        self.memory = self.memory.zip(next.memory).map(|(a, b)| (a.0, b.1));
        let slower = self.slower;
        self.slower = next.slower.map_or(slower, |s| more_slow(slower, s));
    }

    /// All changes, or as many as fit into so many columns, at least the first.
    pub fn change(&self, room: usize, whole: bool) -> String {
        let shown = |change: &KnobChange<'_>, long: bool| {
            let knob = change.name;
            // The end of a long name says what it is.
            let end = knob
                .rsplit('.')
                .next()
                .filter(|_| display_width(knob) >= room);
            format!("{} {}", end.unwrap_or(knob), change.values(!long))
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

    /// The phase that is the fullest after it.
    pub fn phase(&self) -> &'static str {
        let seen = self.memory.filter(|_| self.seen);
        seen.map_or("", |(_, after)| after.phase.name())
    }

    pub fn speed(&self) -> String {
        self.slower.map_or_else(|| "?".to_owned(), lost)
    }

    /// What it and those before it cost.
    pub fn speed_so_far(&self) -> String {
        let last = self.rungs.last().filter(|_| self.slower.is_some());
        last.map_or_else(String::new, |rung| lost(rung.slower_so_far))
    }

    /// Its memory and speed in a line, as far as they are known.
    pub fn cost(&self) -> String {
        let (memory, fits) = (self.memory_cell(), self.odds());
        let phase = match self.phase() {
            "" => String::new(),
            phase => format!(" ({phase})"),
        };
        let memory = self
            .memory
            .map(|_| format!("memory {memory} GiB{phase}, fits {fits}"));
        let speed = self.slower.map(|_| format!("speed {}", self.speed()));
        memory
            .into_iter()
            .chain(speed)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Its rungs with their remarks, below that of the row `above`. What the same rung there has, and a remark that was `said`,
    /// is not said again.
    pub fn remarks(
        &self,
        above: Option<&RungForecast>,
        is_plan: bool,
        said: &mut BTreeSet<&'a str>,
    ) -> Vec<String> {
        let mut out = Vec::new();
        for laps in self.rungs.chunk_by(|a, b| a.step.rung == b.step.rung) {
            let (Some(first), Some(last)) = (laps.first(), laps.last()) else {
                continue;
            };
            let above = above.filter(|above| above.step.rung == first.step.rung);
            if above.is_none() {
                let name = Paint(NAME, &first.step.rung);
                out.push(format!("{name}: {}", first.step.title));
            }
            // The last lap knows what was left in the end.
            let notes = last.step.notes.iter().filter(|note| said.insert(note));
            out.extend(notes.map(|note| format!("{} {note}", Paint(DIM, "note:"))));
            let in_vain = first.in_vain().filter(|_| is_plan);
            out.extend(in_vain.filter(|why| above.and_then(|a| a.in_vain()).as_ref() != Some(why)));
        }
        out
    }
}

fn lost(share: f64) -> String {
    match share >= 0.005 {
        true => format!("-{}", percent(share)),
        false => "same".to_owned(),
    }
}

fn more_slow(so_far: Option<f64>, slower: f64) -> Option<f64> {
    Some(1.0 - (1.0 - so_far.unwrap_or(0.0)) * (1.0 - slower))
}
