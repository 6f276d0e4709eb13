//! What would make every cell of a sweep run: values dropped or capped, and evaluation in batches.

use super::axis::{Axis, Sweep, gib, number, rounded};
use super::blame::{Blame, ValueLimit, at_most, with};
use super::cells::Cells;
use super::judge::{Brief, CellVerdict, Judge};
use super::nodes::Cell;
use crate::core::recipe::{ClusterFacts, Preset, Recipe};
use oomctl_base::{Refusal, Role, Value, ValueKind};
use oomctl_memory::Profile;

/// Changes made to one sweep at most.
const MOST_CHANGES: usize = 1_000;
/// Samples per batch of an evaluation that had no batches, to begin with.
const EVAL_BATCH: i64 = 256;

/// What lies below a sweep.
#[derive(Clone, Copy)]
pub struct SweepContext<'a> {
    /// The preset whose knobs the sweep sets.
    pub preset: &'a Preset,
    /// Values of the knobs below the sweep.
    pub recipe: &'a Recipe,
    /// The cluster.
    pub cluster: &'a ClusterFacts,
    /// Constants of the training stack, where the preset has no formulas of its own.
    pub profile: Option<&'a Profile>,
}

/// One change of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepChange {
    /// A value is taken out.
    Drop {
        /// The parameter.
        name: String,
        /// The value.
        value: Value,
        /// Why.
        why: String,
    },
    /// A value, or the upper end of a range, becomes another.
    Cap {
        /// The parameter.
        name: String,
        /// The value before.
        from: Value,
        /// The value after.
        to: Value,
        /// Why.
        why: String,
    },
    /// A parameter is added.
    Add {
        /// The parameter.
        name: String,
        /// Its value.
        value: Value,
        /// Why.
        why: String,
    },
}

/// A sweep with the changes that make its cells run.
#[derive(Debug, Clone, PartialEq)]
pub struct Repair {
    /// The sweep after the changes.
    pub sweep: Sweep,
    /// The changes, one for each value.
    pub changes: Vec<SweepChange>,
    /// Why some cells still do not run.
    pub left: Option<String>,
    /// True once anything was changed.
    touched: bool,
}

/// Changes `sweep` until every cell fits and keeps the rules. `given` are changes that were decided before, and
/// are in `sweep` already.
///
/// # Errors
/// As `Judge::new`.
pub fn repair(
    context: &SweepContext<'_>,
    sweep: &Sweep,
    given: Vec<SweepChange>,
) -> Result<Repair, Refusal> {
    let mut state = Repair {
        sweep: sweep.clone(),
        touched: !given.is_empty(),
        changes: given,
        left: None,
    };
    for _ in 0..MOST_CHANGES {
        match step(context, &mut state)? {
            RepairStep::Done => return Ok(state),
            RepairStep::Changed => state.touched = true,
            RepairStep::Stuck(why) => {
                state.left = Some(why);
                return Ok(state);
            }
        }
    }
    state.left = Some(format!("more than {MOST_CHANGES} changes would be needed"));
    Ok(state)
}

enum RepairStep {
    Done,
    Changed,
    Stuck(String),
}

fn step(context: &SweepContext<'_>, state: &mut Repair) -> Result<RepairStep, Refusal> {
    let sweep = state.sweep.clone();
    let mut judge = Judge::new(
        context.preset,
        context.recipe,
        context.cluster,
        context.profile,
        &sweep,
    )?;
    let Some((cell, brief)) = worst(&sweep, &mut judge) else {
        return Ok(finish(context, state, &mut judge));
    };
    let detail = judge.detail(&cell);
    let why = match (detail.rule.or(detail.why), brief.bytes.zip(brief.gpu_bytes)) {
        (Some(rule), _) => rule,
        (None, Some((bytes, gpu))) => {
            let tight = match brief.verdict {
                CellVerdict::Tight => ", too little left to be sure",
                _ => "",
            };
            format!(
                "{} of {} GiB in {}{tight}",
                gib(bytes),
                gib(gpu),
                detail.phase
            )
        }
        (None, None) => return Ok(RepairStep::Stuck("its memory use is unknown".to_owned())),
    };
    if brief.rule.is_none()
        && let Some(batched) = in_batches(context, state, &mut judge, &cell, &why)
    {
        return Ok(batched);
    }
    let Some(blame) = Blame::of(&mut judge, &cell) else {
        return Ok(RepairStep::Stuck(why));
    };
    for culprit in &blame.culprits {
        let axis = culprit.axis;
        // As the sweep writes it: 8.0 of a whole number is still that in the file.
        let own = usize::try_from(cell[axis]).ok();
        let own = own.and_then(|at| sweep.axes[axis].values.get(at));
        let own = own.unwrap_or(&culprit.value);
        let changed = match &culprit.bound {
            Some(ValueLimit::AtLeast(least)) => raise(state, axis, own, least, &why),
            _ => lower(state, &mut judge, axis, own, brief.rule.is_some(), &why),
        };
        if changed {
            return Ok(RepairStep::Changed);
        }
    }
    Ok(RepairStep::Stuck(why))
}

/// A sweep that was changed anyway gets batches where evaluation is still its peak.
fn finish(context: &SweepContext<'_>, state: &mut Repair, judge: &mut Judge<'_>) -> RepairStep {
    let mut largest: Option<(f64, Cell)> = None;
    for cell in Cells::new(&state.sweep, judge).cells {
        let bytes = judge.brief(&cell).bytes.unwrap_or(0.0);
        if largest.as_ref().is_none_or(|(most, _)| *most < bytes) {
            largest = Some((bytes, cell));
        }
    }
    let Some((bytes, cell)) = largest.filter(|_| state.touched) else {
        return RepairStep::Done;
    };
    let why = format!("{} GiB in {}", gib(bytes), judge.detail(&cell).phase);
    in_batches(context, state, judge, &cell, &why).unwrap_or(RepairStep::Done)
}

/// The cell that needs most and does not fit, or else the first that breaks a rule.
fn worst(sweep: &Sweep, judge: &mut Judge<'_>) -> Option<(Cell, Brief)> {
    let mut found: Option<(Cell, Brief)> = None;
    for cell in Cells::new(sweep, judge).cells {
        let brief = judge.brief(&cell);
        let bad = match brief.verdict {
            CellVerdict::Fits | CellVerdict::Unknown => false,
            CellVerdict::Tight | CellVerdict::DoesNotFit => found.as_ref().is_none_or(|(_, f)| {
                f.verdict == CellVerdict::BreaksRule
                    || f.bytes.unwrap_or(0.0) < brief.bytes.unwrap_or(0.0)
            }),
            CellVerdict::BreaksRule => found.is_none(),
        };
        if bad {
            found = Some((cell, brief));
        }
    }
    found
}

/// Adds a batch size for evaluation where nobody gave one and that is what frees memory.
fn in_batches(
    context: &SweepContext<'_>,
    state: &mut Repair,
    judge: &mut Judge<'_>,
    cell: &Cell,
    why: &str,
) -> Option<RepairStep> {
    let knob = context.preset.with_role(Role::EvalBatch).next()?;
    let spelled = knob
        .spelling
        .as_ref()
        .map(|s| s.name().trim_start_matches('-'));
    let name = spelled.unwrap_or(&knob.name);
    let taken = [name, knob.name.as_str()]
        .iter()
        .any(|n| state.sweep.axis(n).is_some());
    if taken || !context.recipe.value(&knob.name).is_null() {
        return None;
    }
    let value = Value::Int(EVAL_BATCH);
    let mut trial = state.sweep.clone();
    trial.axes.push(Axis::listed(
        name.to_owned(),
        vec![value.clone()],
        Vec::new(),
    ));
    let before = judge.brief(cell).bytes?;
    let mut other = Judge::new(
        context.preset,
        context.recipe,
        context.cluster,
        context.profile,
        &trial,
    )
    .ok()?;
    let mut longer = cell.clone();
    longer.push(0);
    let after = other.brief(&longer).bytes?;
    if after >= before {
        return None;
    }
    state.sweep = trial;
    state.changes.push(SweepChange::Add {
        name: name.to_owned(),
        value,
        why: format!("{why}; {} GiB in batches", gib(after)),
    });
    Some(RepairStep::Changed)
}

/// Drops a value that has a smaller neighbour, or caps it.
fn lower(
    state: &mut Repair,
    judge: &mut Judge<'_>,
    axis: usize,
    value: &Value,
    for_rule: bool,
    why: &str,
) -> bool {
    let Some(present) = number(value) else {
        return false;
    };
    let axes = &state.sweep.axes;
    let smaller = axes[axis]
        .values
        .iter()
        .any(|v| number(v).is_some_and(|x| x < present));
    let name = axes[axis].name.clone();
    if smaller && axes[axis].upper.is_none() {
        drop_value(state, axis, value);
        state.changes.push(SweepChange::Drop {
            name,
            value: value.clone(),
            why: why.to_owned(),
        });
        return true;
    }
    // The others at their least: what is left of them is decided after this one is known.
    let mut cell: Cell = axes
        .iter()
        .enumerate()
        .map(|(at, a)| least(judge, at, a))
        .collect();
    cell[axis] = judge.number(axis, value);
    let good = |judge: &mut Judge<'_>, cell: &Cell| match for_rule {
        true => judge.brief(cell).rule.is_none(),
        false => judge.brief(cell).has_room,
    };
    let Some(most) = at_most(judge, &cell, axis, good) else {
        return false;
    };
    let to = rounded(&most);
    cell = with(judge, &cell, axis, &to);
    let to = if judge.brief(&cell).rule.is_none() {
        to
    } else {
        most
    };
    cell = with(judge, &cell, axis, &to);
    if judge.brief(&cell).rule.is_some() {
        return false;
    }
    cap(state, axis, value, &to);
    let change = SweepChange::Cap {
        name,
        from: value.clone(),
        to,
        why: why.to_owned(),
    };
    note(state, change);
    true
}

/// Raises a value to the least that a rule wants.
fn raise(state: &mut Repair, axis: usize, value: &Value, least: &Value, why: &str) -> bool {
    if state.sweep.axes[axis].upper.is_some() {
        return false;
    }
    let name = state.sweep.axes[axis].name.clone();
    for held in &mut state.sweep.axes[axis].values {
        if held == value {
            *held = least.clone();
        }
    }
    let change = SweepChange::Cap {
        name,
        from: value.clone(),
        to: least.clone(),
        why: why.to_owned(),
    };
    note(state, change);
    true
}

/// The number of an axis's least value.
fn least(judge: &mut Judge<'_>, at: usize, axis: &Axis) -> u32 {
    let smallest = axis
        .values
        .iter()
        .filter_map(|v| Some((number(v)?, v)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    smallest.map_or(0, |(_, v)| judge.number(at, v))
}

fn drop_value(state: &mut Repair, axis: usize, value: &Value) {
    let axis = &mut state.sweep.axes[axis];
    let kept: Vec<usize> = (0..axis.values.len())
        .filter(|i| axis.values[*i] != *value)
        .collect();
    axis.places = kept
        .iter()
        .filter_map(|i| axis.places.get(*i).copied())
        .collect();
    axis.values = kept.iter().map(|i| axis.values[*i].clone()).collect();
}

fn cap(state: &mut Repair, axis: usize, from: &Value, to: &Value) {
    let axis = &mut state.sweep.axes[axis];
    for held in &mut axis.values {
        if held == from {
            *held = to.clone();
        }
    }
    if axis.upper.is_some() {
        let number = |v: &Value| v.number(ValueKind::Float).unwrap_or(f64::MAX);
        let most = number(to);
        axis.values.retain(|v| number(v) <= most);
    }
}

/// A value that was capped before is capped once more: one change, from the first to the last.
fn note(state: &mut Repair, change: SweepChange) {
    let SweepChange::Cap { name, from, to, .. } = &change else {
        return;
    };
    for earlier in &mut state.changes {
        match earlier {
            SweepChange::Cap { name: n, to: t, .. }
            | SweepChange::Add {
                name: n, value: t, ..
            } if n == name && t == from => {
                t.clone_from(to);
                return;
            }
            _ => {}
        }
    }
    state.changes.push(change);
}
