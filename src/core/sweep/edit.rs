//! Changes of a sweep put into its file: only the values themselves, everything else byte for byte, with a
//! comment that says why.

use std::collections::BTreeMap;

use super::axis::{Axis, AxisPlace, Sweep, number};
use super::repair::{Repair, SweepChange};
use oomctl_base::Value;
use oomctl_scripts::yaml;

/// Applies the changes of a repair to the text of the sweep's file.
///
/// # Errors
/// Where the file has a form that cannot be edited: what to change by hand.
pub fn apply(path: &str, text: &str, sweep: &Sweep, repair: &Repair) -> Result<String, String> {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let mut added = Vec::new();
    let mut placed = Vec::new();
    for change in &repair.changes {
        match change {
            SweepChange::Add { name, value, why } => added.push((name, value, why)),
            _ => {
                let places = places_of(sweep, change);
                if places.is_empty() {
                    return Err(by_hand(change));
                }
                let here = places.into_iter();
                placed.extend(here.map(|(place, exponent)| (place, exponent, change)));
            }
        }
    }
    // From the end to the beginning, so that no place moves before its turn.
    placed.sort_by_key(|(place, ..)| std::cmp::Reverse((place.line, place.column)));
    let mut remarks: BTreeMap<u32, Vec<Remark>> = BTreeMap::new();
    for (place, exponent, change) in placed {
        let done = match change {
            SweepChange::Cap { to, .. } => replace_at(&mut lines, place, &written(to, exponent)),
            SweepChange::Drop { .. } | SweepChange::Add { .. } => drop_at(&mut lines, place),
        };
        if !done {
            return Err(by_hand(change));
        }
        remarks
            .entry(place.line)
            .or_default()
            .insert(0, Remark::of(change));
    }
    for (line, all) in remarks {
        remark(&mut lines, line, &joined(all));
    }
    let mut text = lines.join("\n");
    for (name, value, why) in added {
        text = insert(&text, name, value, why)
            .ok_or_else(|| format!("add {name}: {value} to {path} by hand"))?;
    }
    // What was written must read as what was meant.
    match super::parse(path, &text) {
        Ok(new) if alike(&new, &repair.sweep) => Ok(text),
        _ => {
            let all: Vec<String> = repair.changes.iter().map(by_hand).collect();
            Err(all.join("; "))
        }
    }
}

fn by_hand(change: &SweepChange) -> String {
    match change {
        SweepChange::Drop { name, value, .. } => format!("take {value} out of {name} by hand"),
        SweepChange::Cap { name, from, to, .. } => {
            format!("change {from} of {name} to {to} by hand")
        }
        SweepChange::Add { name, value, .. } => format!("add {name}: {value} by hand"),
    }
}

/// The same values of the same parameters, wherever they stand; of ranges the upper end, as near as it is written.
fn alike(a: &Sweep, b: &Sweep) -> bool {
    let listed = |sweep: &Sweep| {
        let axes = sweep
            .axes
            .iter()
            .filter(|a| !a.sampled && a.upper.is_none());
        let mut all: Vec<(String, Vec<Value>)> =
            axes.map(|a| (a.name.clone(), a.values.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let largest = |axis: &Axis| {
        axis.values
            .iter()
            .filter_map(number)
            .fold(f64::MIN, f64::max)
    };
    let same_end = |axis: &Axis| {
        let other = b.axes.iter().find(|o| o.name == axis.name);
        other.is_some_and(|o| (largest(axis) - largest(o)).abs() <= largest(o).abs() * 1e-3)
    };
    let mut ranges = a.axes.iter().filter(|a| a.upper.is_some());
    listed(a) == listed(b) && ranges.all(same_end)
}

fn axis<'s>(sweep: &'s Sweep, name: &str) -> Option<&'s Axis> {
    sweep.axes.iter().find(|a| a.name == name)
}

/// Where a change is made, and whether the file has the exponent there: every place of a value that is
/// listed more than once.
fn places_of(sweep: &Sweep, change: &SweepChange) -> Vec<(AxisPlace, bool)> {
    let (name, value) = match change {
        SweepChange::Drop { name, value, .. } => (name, value),
        SweepChange::Cap { name, from, .. } => (name, from),
        SweepChange::Add { .. } => return Vec::new(),
    };
    let Some(axis) = axis(sweep, name) else {
        return Vec::new();
    };
    if let Some(upper) = axis.upper {
        return vec![(upper.place, upper.exponent)];
    }
    let listed = axis.values.iter().zip(&axis.places);
    let here = listed.filter(|(v, _)| *v == value);
    here.map(|(_, place)| (*place, false)).collect()
}

/// The exponent of e, rounded down: a cap must not grow.
fn exponent_of(x: f64) -> String {
    format!("{}", (x.ln() * 1e4).floor() / 1e4)
}

/// A value as the file writes it.
fn written(value: &Value, exponent: bool) -> String {
    match (exponent, value) {
        (true, Value::Float(x)) => exponent_of(*x),
        (true, Value::Int(x)) => exponent_of(*x as f64),
        _ => yaml::written(value).unwrap_or_else(|| value.to_string()),
    }
}

/// The bytes of a scalar that begins at `place`.
fn token(line: &str, column: u32) -> Option<std::ops::Range<usize>> {
    let skip = usize::try_from(column).ok()?.checked_sub(1)?;
    let start = line.char_indices().nth(skip)?.0;
    let rest = &line[start..];
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let length = match quote {
        Some(q) => rest[1..].find(q)? + 2,
        None => {
            let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
            let comment = rest.find(" #").unwrap_or(rest.len());
            rest[..end.min(comment)].trim_end().len()
        }
    };
    (length > 0).then_some(start..start + length)
}

fn line_of(lines: &mut [String], place: AxisPlace) -> Option<&mut String> {
    let at = usize::try_from(place.line).ok()?.checked_sub(1)?;
    lines.get_mut(at)
}

/// What a comment says of one change.
struct Remark {
    what: String,
    why: String,
}

impl Remark {
    fn of(change: &SweepChange) -> Self {
        let (what, why) = match change {
            SweepChange::Drop { value, why, .. } => (format!("{value} dropped"), why),
            SweepChange::Cap { from, to, why, .. } => (format!("{from} → {to}"), why),
            SweepChange::Add { value, why, .. } => (format!("{value} added"), why),
        };
        Self {
            what,
            why: why.clone(),
        }
    }
}

/// Remarks of one line; a reason that several of them share is said once.
fn joined(remarks: Vec<Remark>) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for remark in remarks {
        match groups.iter_mut().find(|(why, _)| *why == remark.why) {
            Some((_, all)) => all.push(remark.what),
            None => groups.push((remark.why, vec![remark.what])),
        }
    }
    let texts: Vec<String> = groups
        .into_iter()
        .map(|(why, all)| format!("{} ({why})", all.join(", ")))
        .collect();
    texts.join("; ")
}

/// Adds a remark at the end of a line.
fn remark(lines: &mut [String], number: u32, what: &str) {
    let at = usize::try_from(number).unwrap_or(0).saturating_sub(1);
    let Some(line) = lines.get_mut(at) else {
        return;
    };
    let carriage = line.ends_with('\r');
    let kept = line.trim_end().len();
    line.truncate(kept);
    let what: String = what
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    line.push_str("  # oomctl: ");
    line.push_str(&what);
    if carriage {
        line.push('\r');
    }
}

fn replace_at(lines: &mut [String], place: AxisPlace, to: &str) -> bool {
    let Some(line) = line_of(lines, place) else {
        return false;
    };
    let Some(range) = token(line, place.column) else {
        return false;
    };
    line.replace_range(range, to);
    true
}

/// Takes a value out of a list: an item of its own line becomes a comment, one between brackets goes.
fn drop_at(lines: &mut [String], place: AxisPlace) -> bool {
    let Some(line) = line_of(lines, place) else {
        return false;
    };
    let Some(range) = token(line, place.column) else {
        return false;
    };
    let before = &line[..range.start];
    if before.trim() == "-" {
        let indent = before.len() - before.trim_start().len();
        line.insert_str(indent, "# ");
        return true;
    }
    let after = line[range.end..].trim_start().strip_prefix(',');
    let (start, end) = match (after, before.trim_end().strip_suffix(',')) {
        (Some(rest), _) => (range.start, line.len() - rest.trim_start_matches(' ').len()),
        (None, Some(kept)) => (kept.len(), range.end),
        (None, None) => return false,
    };
    line.replace_range(start..end, "");
    true
}

/// Adds a parameter as the first of the file's.
fn insert(text: &str, name: &str, value: &Value, why: &str) -> Option<String> {
    let mut at = 0;
    let mut inside = None;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let bare = line.split(" #").next().unwrap_or(line).trim_end();
        if bare == "parameters:" || bare.trim_start() == "params:" {
            inside = Some((at, bare == "parameters:"));
            break;
        }
    }
    let (at, wandb) = inside?;
    let next = text[at..]
        .lines()
        .find(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#'))?;
    let indent = &next[..next.len() - next.trim_start().len()];
    let why: String = why
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let entry = match wandb {
        true => {
            format!("{indent}{name}:  # oomctl: added: {why}\n{indent}{indent}value: {value}\n")
        }
        false => format!("{indent}{name}: {value}  # oomctl: added: {why}\n"),
    };
    let mut text = text.to_owned();
    text.insert_str(at, &entry);
    Some(text)
}
