//! Which value of a cell is to blame, and the largest that would be admissible.

use super::axis::number;
use super::judge::{CellVerdict, Judge};
use super::nodes::Cell;
use oomctl_base::{Value, ValueKind};

/// Steps of a search for the largest admissible value.
const STEPS: u32 = 64;

/// What would have to change for a cell to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Blame {
    /// The parameters at fault, the one with the largest share first.
    pub culprits: Vec<Culprit>,
    /// True when no single one of them mends the cell.
    pub together: bool,
}

/// One parameter at fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// Number of the axis.
    pub axis: usize,
    /// Its value in the cell.
    pub value: Value,
    /// The nearest value with which the cell runs, the others staying as they are.
    pub bound: Option<ValueLimit>,
    /// Bytes of the fullest phase with that value; without one, with half the value.
    pub bytes_after: Option<f64>,
}

/// The nearest admissible value.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueLimit {
    /// At most this.
    AtMost(Value),
    /// At least this.
    AtLeast(Value),
}

impl ValueLimit {
    /// The value itself.
    pub fn value(&self) -> &Value {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) => value,
        }
    }
}

impl Blame {
    /// Looks at a cell that does not run; `None` for one that does, or whose memory is unknown.
    pub fn of(judge: &mut Judge<'_>, cell: &Cell) -> Option<Self> {
        let brief = judge.brief(cell);
        let culprits = match brief.verdict {
            CellVerdict::BreaksRule => of_rule(judge, cell, brief.rule?),
            CellVerdict::DoesNotFit | CellVerdict::Tight => of_memory(judge, cell, brief.bytes?),
            CellVerdict::Fits | CellVerdict::Unknown => return None,
        };
        let together = culprits.iter().all(|c| c.bound.is_none());
        Some(Self { culprits, together })
    }
}

/// Axes whose halving frees memory, the one that frees most first.
fn of_memory(judge: &mut Judge<'_>, cell: &Cell, bytes: f64) -> Vec<Culprit> {
    let mut found: Vec<(f64, Culprit)> = Vec::new();
    for axis in judge.memory_axes() {
        let value = judge.value(axis, cell[axis]).clone();
        let Some(half) = scaled(&value, 0.5) else {
            continue;
        };
        let halved = with(judge, cell, axis, &half);
        let after = judge.brief(&halved).bytes.unwrap_or(bytes);
        let freed = bytes - after;
        if freed <= bytes * 1e-6 {
            continue;
        }
        let most = at_most(judge, cell, axis, |judge, cell| judge.brief(cell).has_room);
        let bytes_after = match &most {
            Some(best) => {
                let best = with(judge, cell, axis, best);
                judge.brief(&best).bytes
            }
            None => Some(after),
        };
        // What fits but breaks a rule is no way out.
        let bound = most.filter(|best| {
            let best = with(judge, cell, axis, best);
            judge.brief(&best).verdict == CellVerdict::Fits
        });
        let culprit = Culprit {
            axis,
            value,
            bound: bound.map(ValueLimit::AtMost),
            bytes_after,
        };
        found.push((freed, culprit));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, culprit)| culprit).collect()
}

/// Axes of a broken rule with the nearest value that keeps it.
fn of_rule(judge: &mut Judge<'_>, cell: &Cell, rule: usize) -> Vec<Culprit> {
    let keeps = |judge: &mut Judge<'_>, cell: &Cell| judge.brief(cell).rule != Some(rule);
    let mut axes = judge.rule_axes(rule);
    axes.sort_unstable();
    axes.dedup();
    let mut found = Vec::new();
    for axis in axes {
        let value = judge.value(axis, cell[axis]).clone();
        let bound = match at_most(judge, cell, axis, keeps) {
            Some(most) => Some(ValueLimit::AtMost(most)),
            None => at_least(judge, cell, axis, keeps).map(ValueLimit::AtLeast),
        };
        let Some(bound) = bound else { continue };
        let mended = with(judge, cell, axis, bound.value());
        found.push(Culprit {
            axis,
            value,
            bytes_after: judge.brief(&mended).bytes,
            bound: Some(bound),
        });
    }
    found.sort_by_key(|c| matches!(c.bound, Some(ValueLimit::AtLeast(_))));
    found
}

/// A cell with one value changed.
pub(super) fn with(judge: &mut Judge<'_>, cell: &Cell, axis: usize, value: &Value) -> Cell {
    let mut cell = cell.clone();
    cell[axis] = judge.number(axis, value);
    cell
}

fn of(like: &Value, x: f64) -> Value {
    match like {
        Value::Int(_) => Value::from_number(ValueKind::Int, x),
        _ => Value::Float(x),
    }
}

fn scaled(value: &Value, by: f64) -> Option<Value> {
    let x = number(value).filter(|x| *x > 0.0)?;
    let new = of(value, x * by);
    (new != *value).then_some(new)
}

/// The largest value below the present one with which the cell is `good`, if the least is.
pub(super) fn at_most(
    judge: &mut Judge<'_>,
    cell: &Cell,
    axis: usize,
    good: impl Fn(&mut Judge<'_>, &Cell) -> bool,
) -> Option<Value> {
    let present = judge.value(axis, cell[axis]).clone();
    let high = number(&present).filter(|x| *x > 0.0)?;
    let least = judge.knob(axis).and_then(|k| k.min).unwrap_or(0.0).max(0.0);
    let whole = matches!(present, Value::Int(_));
    let mut low = if whole {
        least.max(1.0)
    } else {
        least.max(high * 1e-9)
    };
    let mut try_at = |x: f64| {
        let cell = with(judge, cell, axis, &of(&present, x));
        good(judge, &cell)
    };
    if low >= high || !try_at(low) {
        return None;
    }
    let mut high = high;
    for _ in 0..STEPS {
        if (whole && high - low <= 1.0) || high - low <= high * 1e-4 && !whole {
            break;
        }
        let middle = if whole {
            f64::midpoint(low, high).floor()
        } else {
            f64::midpoint(low, high)
        };
        match try_at(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(of(&present, low))
}

/// The least whole number above the present one with which the cell is `good`.
fn at_least(
    judge: &mut Judge<'_>,
    cell: &Cell,
    axis: usize,
    good: impl Fn(&mut Judge<'_>, &Cell) -> bool,
) -> Option<Value> {
    let present = judge.value(axis, cell[axis]).clone();
    let Value::Int(now) = present else {
        return None;
    };
    let mut try_at = |x: i64| {
        let cell = with(judge, cell, axis, &Value::Int(x));
        good(judge, &cell)
    };
    let mut high = now.max(1);
    while !try_at(high) {
        high = high.checked_mul(2).filter(|h| *h < 1 << 50)?;
    }
    let mut low = now;
    while high.saturating_sub(low) > 1 {
        let middle = low.midpoint(high);
        match try_at(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(Value::Int(high))
}
