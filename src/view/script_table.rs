//! The attempts that may come in a table of few lines: what changes, where, what it does to training, memory and speed.

use std::collections::BTreeMap;

use anstyle::Style;
use textwrap::core::display_width;

use super::figures::percent;
use super::rung_view::{MemoryForecast, RungForecast};
use super::style::{DIM, WARN};
use super::table::{Side, Table, TableCell};
use super::{Paint, fold};
use crate::core::ladder::Change;
use oomctl_base::Effect;

/// Lines of the table at most.
const MOST_LINES: usize = 15;
/// From how many columns on a row has the probability to fit, too.
const WIDE: usize = 100;
/// The least room for a change.
const NARROW: usize = 24;
/// Values of a knob that stand in one row.
const MOST_VALUES: usize = 5;
/// What a plan by the memory model assumes.
const ASSUMED: &str = "assumes each attempt fails where memory is fullest; the real log decides";
/// What a line of text beside the rows stands behind.
const INDENT: usize = 7;

/// Rows in the order of the attempts.
pub struct ScriptTable<'a> {
    /// What the first attempt is, where it is one of ours.
    pub first: Option<&'a str>,
    rows: Vec<ChangeRow<'a>>,
    /// What is done without a question.
    pub unasked: String,
}

/// An attempt, or several by the same rung.
struct ChangeRow<'a> {
    attempts: (u32, u32),
    rungs: Vec<&'a str>,
    /// The knobs that change, each with its values in order.
    changes: Vec<(&'a str, Vec<String>)>,
    place: String,
    effect: Effect,
    memory: Option<(&'a MemoryForecast, &'a MemoryForecast)>,
    slower: Option<f64>,
    /// Whether the memory model sees what it does.
    seen: bool,
    /// Whether it frees memory where that is fullest, as far as the memory model sees it.
    helps: bool,
}

impl<'a> ScriptTable<'a> {
    /// The table of some attempts with their rungs. `place` says where the scripts give a knob.
    pub fn new(
        attempts: impl Iterator<Item = (u32, &'a [RungForecast])>,
        now: Option<&'a MemoryForecast>,
        place: impl Fn(&str, u32) -> String,
    ) -> Self {
        let mut rows: Vec<ChangeRow<'a>> = Vec::new();
        let mut before = now;
        for (attempt, rungs) in attempts.filter(|(_, rungs)| !rungs.is_empty()) {
            let row = ChangeRow::new(attempt, rungs, before, &place);
            before = rungs.last().and_then(|r| r.memory.as_ref());
            match rows.last_mut().filter(|last| last.goes_on_in(&row)) {
                Some(last) => last.join(row),
                None => rows.push(row),
            }
        }
        Self {
            first: None,
            rows,
            unasked: String::new(),
        }
    }

    /// Whether there is no rung.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table on so many columns, on at most 15 lines.
    pub fn text(&self, columns: usize) -> String {
        let mut below = self.in_vain(columns);
        let is_known = self.rows.iter().any(|r| r.memory.is_some());
        below += &wrapped("", if is_known { ASSUMED } else { "" }, columns);
        below += &wrapped("", &self.unasked, columns);
        let shown: Vec<&ChangeRow<'_>> = self.rows.iter().filter(|r| r.helps).collect();
        let room = MOST_LINES.saturating_sub(below.lines().count());
        let mut count = shown.len();
        loop {
            let more = self.more(&shown[count..], columns);
            let table = self.grid(&shown[..count], columns) + &more;
            if table.lines().count() <= room || count == 0 {
                return table + &below;
            }
            count -= 1;
        }
    }

    fn grid(&self, rows: &[&ChangeRow<'_>], columns: usize) -> String {
        let with_memory = rows.iter().any(|r| r.memory.is_some());
        let with_speed = rows.iter().any(|r| r.slower.is_some());
        let wide = columns >= WIDE;
        let places = places(rows, wide);
        let head = match places.1 {
            Some(_) => "line",
            None => "where",
        };
        let tail = |row: &ChangeRow<'_>, place: &str| {
            let mut cells: Vec<TableCell> = vec![place.into(), effect(row.effect)];
            if with_memory {
                cells.push(row.memory_cell().into());
                if wide {
                    cells.push(row.odds().into());
                }
            }
            if with_speed {
                cells.push(row.speed().into());
            }
            cells
        };
        let mut heads = vec![head, "training"];
        if with_memory {
            heads.push("GiB");
            heads.extend(wide.then_some("fits"));
        }
        heads.extend(with_speed.then_some("speed"));
        let tails: Vec<Vec<TableCell>> = rows
            .iter()
            .zip(&places.0)
            .map(|(row, place)| tail(row, place))
            .collect();
        let width = |at: usize| {
            let cells = tails.iter().map(|t| t[at].width());
            cells.chain([heads[at].len()]).max().unwrap_or(0)
        };
        let taken: usize = (0..heads.len()).map(|at| width(at) + 2).sum();
        let room = columns.saturating_sub(INDENT + taken).max(NARROW);
        let left = (0..heads.len()).map(|_| (Side::Left, 0));
        let mut table = Table::new(
            [(Side::Left, INDENT - 2), (Side::Left, NARROW)]
                .into_iter()
                .chain(left),
        );
        let named = places
            .1
            .map_or_else(|| "change".to_owned(), |file| format!("change in {file}"));
        let dim = |text: &str| TableCell::from(text).painted(Some(DIM));
        table.row(
            [dim("try"), dim(&named)]
                .into_iter()
                .chain(heads.iter().map(|h| dim(h))),
        );
        for (row, tail) in rows.iter().zip(tails) {
            let change = row.change(room);
            let mut lines = change.lines();
            let first = lines.next().unwrap_or_default().to_owned();
            let head: [TableCell; 2] = [numbers(row.attempts).into(), first.into()];
            table.row(head.into_iter().chain(tail));
            for line in lines {
                table.row(["", line]);
            }
        }
        let mut lines = table.lines();
        let mut out = format!("{}\n", lines.next().unwrap_or_default());
        out += &wrapped("1", self.first.unwrap_or_default(), columns);
        lines.for_each(|line| out.push_str(&format!("{line}\n")));
        out
    }

    /// The rungs that free nothing where memory is fullest, in one line.
    fn in_vain(&self, columns: usize) -> String {
        let vain: Vec<&ChangeRow<'_>> = self.rows.iter().filter(|r| !r.helps).collect();
        let names: Vec<&str> = vain.iter().flat_map(|r| r.rungs.iter().copied()).collect();
        let (Some(first), Some(last)) = (vain.first(), vain.last()) else {
            return String::new();
        };
        let span = (first.attempts.0, last.attempts.1);
        let within = |r: &&ChangeRow<'_>| (span.0..=span.1).contains(&r.attempts.0);
        let number = match self.rows.iter().filter(within).count() == vain.len() {
            true => numbers(span),
            false => String::new(),
        };
        let names = names.join(", ");
        let line = format!("frees nothing where memory is fullest (--all): {names}");
        wrapped(&number, &line, columns)
    }

    /// The rows for which there is no line.
    fn more(&self, rows: &[&ChangeRow<'_>], columns: usize) -> String {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return String::new();
        };
        let names: Vec<&str> = rows.iter().flat_map(|r| r.rungs.iter().copied()).collect();
        let line = format!("{} (--all)", names.join(", "));
        let room = columns.saturating_sub(INDENT);
        let line = match display_width(&line) <= room {
            true => line,
            false => format!("{} more rungs (--all)", rows.len()),
        };
        wrapped(
            &numbers((first.attempts.0, last.attempts.1)),
            &line,
            columns,
        )
    }
}

fn wrapped(label: &str, text: &str, columns: usize) -> String {
    if text.is_empty() {
        return String::new();
    }
    let line = format!("{label:<width$}  {text}", width = INDENT - 2);
    format!(
        "{}\n",
        fold::fold(&line, INDENT, columns.max(INDENT + NARROW))
    )
}

/// The places of some rows; where all lie in one file, their lines and that file.
fn places(rows: &[&ChangeRow<'_>], wide: bool) -> (Vec<String>, Option<String>) {
    let parts = |place: &str| {
        let (file, line) = place.rsplit_once(':')?;
        Some((file.to_owned(), line.to_owned()))
    };
    let files: BTreeMap<String, ()> = rows
        .iter()
        .filter_map(|r| Some((parts(&r.place)?.0, ())))
        .collect();
    let all = rows.iter().map(|r| r.place.as_str());
    if let (1, Some((file, ()))) = (files.len(), files.first_key_value()) {
        let lines = all.map(|p| parts(p).map_or_else(|| p.to_owned(), |(_, line)| line));
        let name = file.rsplit('/').next().unwrap_or(file);
        return (lines.collect(), Some(name.to_owned()));
    }
    let short = |p: &str| match wide {
        true => p.to_owned(),
        false => p.rsplit('/').next().unwrap_or(p).to_owned(),
    };
    (all.map(short).collect(), None)
}

fn numbers((first, last): (u32, u32)) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    }
}

fn effect(effect: Effect) -> TableCell {
    let (word, style): (&str, Option<Style>) = match effect {
        Effect::SameMath => ("same", None),
        Effect::Resources => ("resources", None),
        Effect::ChangesTraining => ("changes", Some(WARN)),
    };
    TableCell::from(word).painted(style)
}

impl<'a> ChangeRow<'a> {
    fn new(
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
        let leading = changes.first().map_or("", |(knob, _)| knob);
        Self {
            attempts: (attempt, attempt),
            rungs: rungs.iter().map(|r| r.step.rung.as_str()).collect(),
            place: place(leading, attempt),
            effect,
            memory: before.zip(rungs.last().and_then(|r| r.memory.as_ref())),
            slower: rungs.iter().filter_map(|r| r.slower).fold(None, more_slow),
            seen: rungs.iter().any(|r| r.frees.is_some()),
            helps: rungs.iter().any(RungForecast::helps),
            changes,
        }
    }

    /// Whether the next row takes the same rung once more.
    fn goes_on_in(&self, next: &Self) -> bool {
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

    fn join(&mut self, next: Self) {
        self.attempts.1 = next.attempts.1;
        for ((_, chain), (_, values)) in self.changes.iter_mut().zip(next.changes) {
            chain.extend(values.into_iter().skip(1));
        }
        self.memory = self.memory.zip(next.memory).map(|(a, b)| (a.0, b.1));
        let slower = self.slower;
        self.slower = next.slower.map_or(slower, |s| more_slow(slower, s));
    }

    /// As many changes as fit into so many columns, at least the first.
    fn change(&self, room: usize) -> String {
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

    fn memory_cell(&self) -> String {
        let seen = self.memory.filter(|_| self.seen);
        seen.map_or_else(
            || "?".to_owned(),
            |(before, after)| format!("{} -> {}", before.shown(), after.shown()),
        )
    }

    fn odds(&self) -> String {
        let odds = self.memory.and_then(|(_, after)| after.fits_probability());
        super::figures::odds(odds, "?")
    }

    fn speed(&self) -> String {
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

/// A line in the colours of a diff.
pub fn diff_line(line: &str) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => super::NAME,
        [b'+', ..] => super::style::GOOD,
        [b'-', ..] => super::style::BAD,
        [b'@', ..] => DIM,
        _ => return line.to_owned(),
    };
    Paint(style, line).to_string()
}
