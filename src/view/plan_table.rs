//! What changes, where, what it does to training, memory and speed: the one table of `plan`, `submit SCRIPT`, `plan --after` and `fix`.

mod whole;

use std::collections::{BTreeMap, BTreeSet};

use anstyle::Style;
use textwrap::core::display_width;

use super::change_row::ChangeRow;
use super::fold;
use super::rung_view::{MemoryForecast, RungForecast};
use super::script_values::ScriptValues;
use super::style::{DIM, WARN};
use super::table::{Side, Table, TableCell};
use crate::core::ladder::{Change, NEEDS_PACKAGE, Step};
use crate::core::recipe::Recipe;
use oomctl_base::{Effect, Origin};
use oomctl_scripts::{Adoption, Patch};

/// Lines of the table at most.
const MOST_LINES: usize = 15;
/// From how many columns on a row has the probability to fit, too.
const WIDE: usize = 100;
/// A place of more columns is shown without its folders.
const LONG: usize = 32;
/// The least room for a change.
const NARROW: usize = 24;
/// What a plan by the memory model assumes.
const ASSUMED: &str = "a forecast: after a failure, its log decides";
/// What is said of the rungs without a row.
const IN_VAIN: &str = "left out, because it frees less than 1 GiB where memory is fullest";
/// What is said of the row without a number.
const HOST: &str = "host: instead, if host memory runs out";
/// What a line of text beside the rows stands behind.
const INDENT: usize = 9;

/// Rows in the order of the attempts.
pub struct PlanTable<'a> {
    /// What the first attempt is, where it is one of ours.
    pub first: Option<&'a str>,
    rows: Vec<ChangeRow<'a>>,
    /// What changes training where host memory runs out instead.
    host: Option<ChangeRow<'a>>,
    /// What is done without a question.
    pub unasked: String,
}

impl<'a> PlanTable<'a> {
    /// The table of some attempts with their rungs. `place` says where the scripts give a knob.
    pub fn new(
        attempts: impl Iterator<Item = (u32, &'a [RungForecast])>,
        now: Option<&'a MemoryForecast>,
        place: impl Fn(&str, u32) -> String,
    ) -> Self {
        let mut rows: Vec<ChangeRow<'a>> = Vec::new();
        for row in in_order(attempts, now, place) {
            match rows.last_mut().filter(|last| last.goes_on_in(&row)) {
                Some(last) => last.join(row),
                None => rows.push(row),
            }
        }
        show_first_values(&mut rows);
        Self::of(rows)
    }

    /// The same with a row for each rung of each attempt.
    pub fn by_rung(
        attempts: impl Iterator<Item = (u32, &'a [RungForecast])>,
        now: Option<&'a MemoryForecast>,
        place: impl Fn(&str, u32) -> String,
    ) -> Self {
        let laps = attempts.flat_map(|(attempt, rungs)| {
            let laps = rungs.chunk_by(|a, b| a.step.rung == b.step.rung);
            laps.map(move |laps| (attempt, laps))
        });
        Self::of(in_order(laps, now, place).collect())
    }

    fn of(rows: Vec<ChangeRow<'a>>) -> Self {
        Self {
            first: None,
            rows,
            host: None,
            unasked: String::new(),
        }
    }

    /// Adds the row of what follows a lack of host memory.
    pub fn after_host_oom(&mut self, all: &'a [Change], place: impl Fn(&str, u32) -> String) {
        self.host = ChangeRow::after_host_oom(all, place);
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
        below += &wrapped("", self.host.as_ref().map_or("", |_| HOST), columns);
        below += &self.needs(columns);
        below += &wrapped("", &self.unasked, columns);
        let shown: Vec<&ChangeRow<'_>> = self.rows.iter().filter(|r| r.helps).collect();
        let room = MOST_LINES.saturating_sub(below.lines().count());
        let whole = self.grid(&self.with_host(&shown), columns, true);
        if columns >= WIDE && whole.lines().count() <= room {
            return whole + &below;
        }
        let mut count = shown.len();
        loop {
            let more = self.more(&shown[count..], columns);
            let table = self.grid(&self.with_host(&shown[..count]), columns, false) + &more;
            if table.lines().count() <= room || count == 0 {
                return table + &below;
            }
            count -= 1;
        }
    }

    /// Some rows, and that of a lack of host memory.
    fn with_host<'s>(&'s self, rows: &[&'s ChangeRow<'a>]) -> Vec<&'s ChangeRow<'a>> {
        rows.iter().copied().chain(&self.host).collect()
    }

    /// The rows, with all of their changes or with as many as fit on a line.
    fn grid(&self, rows: &[&ChangeRow<'_>], columns: usize, whole: bool) -> String {
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
        let tails = rows.iter().zip(&places.0);
        let mut tails: Vec<Vec<TableCell>> = tails.map(|(row, place)| tail(row, place)).collect();
        let mut taken = widths(&heads, &tails);
        if INDENT + taken + narrowest(rows, whole) > columns {
            // The diffs name the places too.
            heads.remove(0);
            tails.iter_mut().for_each(|tail| drop(tail.remove(0)));
            taken = widths(&heads, &tails);
        }
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
            [dim("attempt"), dim(&named)]
                .into_iter()
                .chain(heads.iter().map(|h| dim(h))),
        );
        for (row, tail) in rows.iter().zip(tails) {
            let change = row.change(room, whole);
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
        let (Some(first), Some(last)) = (vain.first(), vain.last()) else {
            return String::new();
        };
        let span = (first.attempts.0, last.attempts.1);
        let within = |r: &&ChangeRow<'_>| (span.0..=span.1).contains(&r.attempts.0);
        let together = self.rows.iter().filter(within).count() == vain.len();
        if together {
            let line = format!("{IN_VAIN} (--all): {}", names(&vain));
            return wrapped(&numbers(span), &line, columns);
        }
        // The rows above leave out their numbers.
        let told = vain
            .iter()
            .map(|row| format!("{} {}", numbers(row.attempts), names(&[row])));
        let told = told.collect::<Vec<_>>().join(", ");
        wrapped("", &format!("{IN_VAIN}: {told}"), columns)
    }

    /// Packages that rungs need of which nobody knows whether they are installed.
    fn needs(&self, columns: usize) -> String {
        let rows = self.rows.iter().filter(|row| row.helps);
        let needs = rows.filter_map(|row| {
            let mut notes = row.rungs.iter().flat_map(|rung| &rung.step.notes);
            let package = notes.find_map(|note| note.strip_prefix(NEEDS_PACKAGE))?;
            Some(format!(
                "{} needs the package {package}",
                numbers(row.attempts)
            ))
        });
        let needs: Vec<String> = needs.collect();
        wrapped("", &needs.join("; "), columns)
    }

    /// The rows for which there is no line.
    fn more(&self, rows: &[&ChangeRow<'_>], columns: usize) -> String {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return String::new();
        };
        let line = format!("{} (--all)", names(rows));
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

/// Where the knobs of a recipe are given.
pub fn places_of(recipe: &Recipe) -> BTreeMap<String, String> {
    let place = |origin: &Origin| match origin.is_of_preset() {
        true => "default".to_owned(),
        false => origin.to_string(),
    };
    let values = recipe.values.iter();
    let places = values.map(|(knob, given)| (knob.clone(), place(&given.origin)));
    places.collect()
}

/// Where a patch changes the scripts for each knob of some steps.
pub fn places_in(
    adoption: &Adoption<'_>,
    patch: &Patch,
    steps: &[Step],
) -> BTreeMap<String, String> {
    let values = ScriptValues::of(adoption);
    let changes = steps.iter().flat_map(|step| &step.changes);
    let given = changes.map(|c| (c.knob.clone(), values.where_changed(&c.knob)));
    given.chain(patch.places()).collect()
}

/// The rows of some attempts, each with the memory that the one before leaves.
fn in_order<'a>(
    attempts: impl Iterator<Item = (u32, &'a [RungForecast])>,
    now: Option<&'a MemoryForecast>,
    place: impl Fn(&str, u32) -> String,
) -> impl Iterator<Item = ChangeRow<'a>> {
    let mut before = now;
    let attempts = attempts.filter(|(_, rungs)| !rungs.is_empty());
    attempts.map(move |(attempt, rungs)| {
        let row = ChangeRow::new(attempt, rungs, before, &place);
        before = now.and(rungs.last().and_then(|r| r.memory.as_ref()));
        row
    })
}

/// Gives a row to each rung behind which another with a row goes on: it begins with the value that the first one leaves.
fn show_first_values(rows: &mut [ChangeRow<'_>]) {
    let mut later = BTreeSet::new();
    for row in rows.iter_mut().rev() {
        row.helps |= row.changes.iter().any(|c| later.contains(c.knob));
        if row.helps {
            later.extend(row.changes.iter().map(|c| c.knob));
        }
    }
}

/// Columns of the changes, where each is broken as often as it can be.
fn narrowest(rows: &[&ChangeRow<'_>], whole: bool) -> usize {
    let changes = rows.iter().map(|row| row.change(NARROW, whole));
    let widest = changes.map(|change| change.lines().map(display_width).max().unwrap_or(0));
    widest.max().unwrap_or(NARROW)
}

/// Columns of a table's last cells, and of the blanks before each.
fn widths(heads: &[&str], tails: &[Vec<TableCell>]) -> usize {
    let widest = |at: usize| {
        let cells = tails.iter().map(|tail| tail[at].width());
        cells.chain([heads[at].len()]).max().unwrap_or(0)
    };
    (0..heads.len()).map(|at| widest(at) + 2).sum()
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
    let all: Vec<String> = rows.iter().map(|r| r.place(wide)).collect();
    let all = all.iter().map(String::as_str);
    let files: BTreeSet<String> = all.clone().filter_map(|p| Some(parts(p)?.0)).collect();
    let is_one = files.len() == 1 && !all.clone().any(ChangeRow::is_in_several);
    if let (true, Some(file)) = (is_one, files.first()) {
        let lines = all.map(|p| parts(p).map_or_else(|| p.to_owned(), |(_, line)| line));
        let name = file.rsplit('/').next().unwrap_or(file);
        return (lines.collect(), Some(name.to_owned()));
    }
    let is_long = !wide || is_long(all.clone());
    (all.map(|place| shown(place, is_long)).collect(), None)
}

/// Whether some places are shown without their folders.
fn is_long<'a>(mut places: impl Iterator<Item = &'a str>) -> bool {
    places.any(|place| display_width(place) > LONG)
}

fn shown(place: &str, is_long: bool) -> String {
    let name = place.rsplit('/').next().filter(|_| is_long);
    name.unwrap_or(place).to_owned()
}

/// The rungs of some rows, each once.
fn names(rows: &[&ChangeRow<'_>]) -> String {
    let mut names: Vec<&str> = rows.iter().flat_map(|row| row.names()).collect();
    names.dedup();
    names.join(", ")
}

fn numbers((first, last): (u32, u32)) -> String {
    match (first, last) {
        (0, _) => "host".to_owned(),
        (first, last) if first == last => first.to_string(),
        _ => format!("{first}-{last}"),
    }
}

fn effect(effect: Effect) -> TableCell {
    let (word, style): (&str, Option<Style>) = match effect {
        Effect::SameMath | Effect::Resources => ("same", None),
        Effect::Unknown => ("unknown", Some(WARN)),
        Effect::ChangesTraining => ("changes", Some(WARN)),
    };
    TableCell::from(word).painted(style)
}
