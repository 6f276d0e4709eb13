//! The moves of a rung as targets for single knobs.

use crate::core::recipe::{
    Knob, Layer, Move, NumberOrExpr, Preset, Recipe, Shaper, bounds, default_value,
    expr::{self, Scope},
};
use oomctl_base::units::in_unit_of;
use oomctl_base::{Origin, Value, ValueKind};

/// How the origin of a pin begins that the scripts themselves make.
pub const IN_SCRIPTS: &str = "in the scripts: ";
/// How the reason ends of what a file may say that was not read.
pub const MAY_SET: &str = " may set it, but was not read";

/// How the reason ends of what the scripts set to one of several values.
pub const CHOSEN: &str = " sets it under a condition";

/// What a move wants of one knob.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Aim {
    /// This value.
    To {
        /// The knob.
        knob: String,
        /// The value that it has.
        present: Value,
        /// The value that it should have.
        target: Value,
        /// Least number that may be taken instead.
        floor: f64,
        /// Greatest number.
        ceiling: f64,
        /// See `Move::along`.
        along: bool,
    },
    /// Nothing, and why.
    Nothing {
        /// Why, for people; empty where there is nothing to say.
        reason: String,
    },
}

impl Aim {
    /// The knob, where there is an aim for one.
    pub fn knob(&self) -> Option<&str> {
        match self {
            Self::To { knob, .. } => Some(knob),
            Self::Nothing { .. } => None,
        }
    }

    /// Whether it is a reason to take the rung, and no mere company of others.
    pub fn leads(&self) -> bool {
        matches!(self, Self::To { along: false, .. })
    }
}

/// The knobs that a move names, by their role or by name.
pub(super) fn knobs<'a>(preset: &'a Preset, step: &Move) -> Vec<&'a Knob> {
    match (&step.role, &step.knob) {
        (Some(role), _) => preset.with_role(*role).collect(),
        (None, Some(name)) => preset.knob(name).into_iter().collect(),
        (None, None) => Vec::new(),
    }
}

/// Does a move name this knob?
pub fn moves_knob(preset: &Preset, step: &Move, name: &str) -> bool {
    knobs(preset, step).iter().any(|knob| knob.name == name)
}

/// What taking a rung sets.
pub(super) struct TakenMoves {
    /// Their values.
    pub layer: Layer,
    /// Which of its moves are not taken, or not to their targets, and why.
    pub notes: Vec<String>,
    /// The same of moves that only go along with others and change nothing of the training.
    pub along: Vec<String>,
}

/// The aims of one move.
///
/// # Errors
/// An expression that cannot be evaluated.
pub(super) fn aims(
    shaper: &Shaper<'_>,
    recipe: &Recipe,
    scope: &Scope,
    step: &Move,
) -> Result<Vec<Aim>, String> {
    aims_from(shaper, recipe, scope, step, |knob| recipe.value(&knob.name))
}

/// The same where knobs have other values than in the recipe.
///
/// # Errors
/// As `aims`.
pub(super) fn aims_from<'v>(
    shaper: &Shaper<'_>,
    recipe: &Recipe,
    scope: &Scope,
    step: &Move,
    value: impl Fn(&Knob) -> &'v Value,
) -> Result<Vec<Aim>, String> {
    knobs(shaper.preset(), step)
        .into_iter()
        .map(|knob| aim(shaper, recipe, scope, step, knob, value(knob).clone()))
        .collect()
}

fn aim(
    shaper: &Shaper<'_>,
    recipe: &Recipe,
    scope: &Scope,
    step: &Move,
    knob: &Knob,
    present: Value,
) -> Result<Aim, String> {
    let name = &knob.name;
    let nothing = |reason: String| Ok(Aim::Nothing { reason });
    if let Some(origin) = recipe.pins.get(name) {
        let says =
            recipe.unknown.contains(name) || wanted(shaper, scope, step, knob, &present)?.is_some();
        let why = match origin {
            Origin::Flag { text } if text.starts_with(IN_SCRIPTS) => {
                format!("{name} stays: {}", &text[IN_SCRIPTS.len()..])
            }
            Origin::File { .. } if recipe.unknown.contains(name) => {
                format!("{name} stays: {origin} computes it")
            }
            _ => format!("{name} is pinned ({origin})"),
        };
        return nothing(if says { why } else { String::new() });
    }
    if let Some(what) = open(shaper, recipe, step, knob) {
        return nothing(format!(
            "{name} stays: it depends on {what}, which is unknown"
        ));
    }
    if let Some(when) = &knob.render_when
        && shaper.unknown_in(recipe, &[when]).is_none()
        && !shaper.expressions.holds(when, scope)?
    {
        return nothing(String::new());
    }
    let (floor, ceiling) = limits(shaper, scope, step, knob)?;
    let target = match wanted(shaper, scope, step, knob, &present)? {
        None => return nothing(String::new()),
        Some(target) => clamp(knob.kind, &present, target, floor, ceiling),
    };
    let target = match knob.kind {
        ValueKind::SlurmSize => as_written(target, &present),
        _ => target,
    };
    if target == present {
        let resolved = recipe.values.get(name);
        let moved = resolved.is_some_and(|value| matches!(value.origin, Origin::Rung { .. }));
        return nothing(stays(step, name, &present, moved));
    }
    if let Some(what) = bounds(knob, &target) {
        return nothing(what);
    }
    Ok(Aim::To {
        knob: name.clone(),
        present,
        target,
        floor,
        ceiling,
        along: step.along,
    })
}

/// An amount of memory in the unit in which the script has it, where it is whole in it.
fn as_written(target: Value, present: &Value) -> Value {
    let (Value::Text(amount), Value::Text(written)) = (&target, present) else {
        return target;
    };
    in_unit_of(amount, written).map_or(target, Value::Text)
}

/// A knob that is not known and on which it depends what a move makes of another one. Whether the other one counts
/// at all makes no difference where it is given: the program may count it.
fn open(shaper: &Shaper<'_>, recipe: &Recipe, step: &Move, knob: &Knob) -> Option<String> {
    if recipe.unknown.is_empty() {
        return None;
    }
    let bound = |bound: &'_ Option<NumberOrExpr>| match bound {
        Some(NumberOrExpr::Expr(text)) => Some(text.clone()),
        _ => None,
    };
    let given = recipe
        .values
        .get(&knob.name)
        .is_some_and(|r| !r.origin.is_of_preset());
    let mut texts: Vec<String> = vec![knob.name.clone()];
    texts.extend(step.to_expr.clone());
    texts.extend(bound(&step.floor).into_iter().chain(bound(&step.ceiling)));
    texts.extend(knob.render_when.clone().filter(|_| !given));
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    shaper.unknown_in(recipe, &texts)
}

/// Why a knob that a move names stays as it is; whether earlier rungs have `moved` it.
fn stays(step: &Move, name: &str, present: &Value, moved: bool) -> String {
    let shrinks = step.times.is_some_and(|t| t < 1.0) || step.plus.is_some_and(|p| p < 0.0);
    let grows = step.times.is_some_and(|t| t > 1.0) || step.plus.is_some_and(|p| p > 0.0);
    if shrinks {
        format!("{name} = {present} is at its floor")
    } else if grows {
        format!("{name} = {present} is at its limit")
    } else {
        let since = if moved { "by then" } else { "already" };
        format!("{name} is {present} {since}")
    }
}

/// The value that the move asks for, before bounds; `None` where it asks for nothing.
fn wanted(
    shaper: &Shaper<'_>,
    scope: &Scope,
    step: &Move,
    knob: &Knob,
    present: &Value,
) -> Result<Option<Value>, String> {
    let kind = knob.kind;
    if let Some(to) = &step.to {
        return default_value(kind, to).map(Some);
    }
    if let Some(text) = &step.to_expr {
        let result = shaper.expressions.evaluate(text, scope)?;
        return Ok(match expr::from_jinja(&result) {
            None | Some(Value::Null) => None,
            Some(value) => match value.number(kind) {
                Some(x) if !matches!(value, Value::Text(_)) => Some(Value::from_number(kind, x)),
                _ => Some(value),
            },
        });
    }
    let Some(x) = present.number(kind) else {
        return Ok(None);
    };
    let moved = x * step.times.unwrap_or(1.0) + step.plus.unwrap_or(0.0);
    Ok(Some(Value::from_number(kind, moved)))
}

/// Least and greatest number: the knob's own and the move's.
fn limits(
    shaper: &Shaper<'_>,
    scope: &Scope,
    step: &Move,
    knob: &Knob,
) -> Result<(f64, f64), String> {
    let own_floor = knob.min.unwrap_or(f64::NEG_INFINITY);
    let own_ceiling = knob.max.unwrap_or(f64::INFINITY);
    let number = |bound: &Option<NumberOrExpr>| match bound {
        None => Ok(None),
        Some(NumberOrExpr::Number(x)) => Ok(Some(*x)),
        Some(NumberOrExpr::Expr(text)) => {
            let value = shaper.expressions.evaluate(text, scope)?;
            Ok::<_, String>(expr::from_jinja(&value).and_then(|v| v.number(knob.kind)))
        }
    };
    let floor = number(&step.floor)?.map_or(own_floor, |f| f.max(own_floor));
    let ceiling = number(&step.ceiling)?.map_or(own_ceiling, |c| c.min(own_ceiling));
    Ok((floor, ceiling))
}

/// The target within its limits; never on the other side of the present value.
fn clamp(kind: ValueKind, present: &Value, target: Value, floor: f64, ceiling: f64) -> Value {
    let (Some(x), Some(now)) = (target.number(kind), present.number(kind)) else {
        return target;
    };
    let within = x.max(floor).min(ceiling);
    let turned = (x < now && within >= now) || (x > now && within <= now);
    if turned {
        present.clone()
    } else if (within - x).abs() > f64::EPSILON {
        Value::from_number(kind, within)
    } else {
        target
    }
}
