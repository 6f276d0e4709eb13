//! What the rungs of a ladder can move: numbers between their floor and the user's own value, switches, and whole
//! rungs for what must move together or changes more than speed.

use std::collections::BTreeSet;

use super::ascent::Ascent;
use super::context::ClimbContext;
use super::incident::{self, FailureContext};
use super::moves::{Aim, aims_from, knobs};
use super::numbers::{SpeedKnob, StepOperation, number};
use crate::core::recipe::{Knob, Move, RungSpec, Shape, strongest_effect};
use oomctl_base::{Effect, Role, Value};

/// Loss of speed by one lap of a rung that does not say what it costs.
const UNKNOWN_LOSS: f64 = 0.1;
/// What a lap towards a larger share for the rollout engine costs: it gains a little.
const ROOMIER: f64 = -0.01;
/// Switches whose combinations are looked at; there are rarely more than two.
const MOST_SWITCHES: usize = 8;
/// Combinations of them that are tried, the cheapest.
const MOST_COMBINATIONS: usize = 32;
/// A value that costs speed only and is taken or not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Switch {
    /// The knob.
    pub knob: String,
    /// What it is set to.
    pub to: Value,
    /// What goes along with it.
    pub along: Vec<(String, Value)>,
    /// Its loss, as a logarithm.
    pub loss: f64,
    /// The rung that sets it.
    pub rung: String,
}

/// What can be moved from one configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SearchBounds {
    /// Numbers that may go down, and up again.
    pub numbers: Vec<SpeedKnob>,
    /// Values that may be taken.
    pub switches: Vec<Switch>,
}

/// Whether a rung makes a batch smaller and keeps the experiment: what that costs follows from the batch.
pub(super) fn thins(context: &ClimbContext<'_>, rung: &RungSpec) -> bool {
    let batch = |knob: &Knob| knob.role == Some(Role::MicroBatch);
    matches!(effect(context, rung), Effect::SameMath | Effect::Unknown)
        && leading(context, rung).any(batch)
}

/// Loss of speed by one lap of a rung, as a logarithm that adds up.
pub(super) fn loss(rung: &RungSpec) -> f64 {
    -(1.0 - rung.slower.unwrap_or(UNKNOWN_LOSS)).ln()
}

/// What a rung moves, apart from what only goes along.
pub(super) fn leading<'a>(
    context: &ClimbContext<'a>,
    rung: &RungSpec,
) -> impl Iterator<Item = &'a Knob> {
    let moved = rung.moves.iter().filter(|m| !m.along);
    moved.flat_map(|m| knobs(context.preset, m))
}

/// The strongest effect of that.
pub(super) fn effect(context: &ClimbContext<'_>, rung: &RungSpec) -> Effect {
    let strongest = || strongest_effect(leading(context, rung));
    rung.effect.unwrap_or_else(strongest)
}

/// Whether a rung is taken as a whole: it changes more than speed, or its moves make up for each other.
pub(super) fn whole(context: &ClimbContext<'_>, rung: &RungSpec) -> bool {
    let plain = |knob: &Knob| knob.effect == Effect::SameMath;
    rung.effect.is_some() || !leading(context, rung).any(plain)
}

/// The part of a step that hangs on a knob, against others of the same rung: a training step is three forward passes'
/// worth of work, or four (Chen 2016).
fn work(context: &ClimbContext<'_>, knob: &str) -> f64 {
    let role = context.preset.knob(knob).and_then(|k| k.role);
    match role {
        Some(Role::MicroBatch) => 3.0,
        _ => 1.0,
    }
}

/// Every knob that a ladder may move, and those that may follow to keep a configuration legal.
pub(super) fn tried(context: &ClimbContext<'_>) -> BTreeSet<String> {
    let roles = context.ladder.iter().flat_map(|rung| &rung.adjust);
    let adjusted = roles.flat_map(|role| context.preset.with_role(*role));
    let all = moved(context).chain(adjusted);
    all.map(|k| k.name.clone()).collect()
}

/// The knobs that a ladder moves.
fn moved<'a>(context: &ClimbContext<'a>) -> impl Iterator<Item = &'a Knob> {
    let moves = context.ladder.iter().flat_map(|rung| &rung.moves);
    moves.flat_map(|step| knobs(context.preset, step))
}

impl SearchBounds {
    /// From `shape`, by those of the rungs that are not taken as a whole. What went down for an earlier failure may go up
    /// again, as far as it was in the user's `own` configuration.
    pub fn new(view: &Ascent<'_>, own: &Shape, shape: &Shape, rungs: &[&RungSpec]) -> Self {
        let mut reach = Self::default();
        for rung in rungs.iter().filter(|rung| !whole(view.context, rung)) {
            reach.add(view, own, shape, rung);
        }
        reach
    }

    /// What lies in host memory and could be kept on the GPU, where other values leave room for it. What that gains
    /// depends on the job.
    pub fn keep_on_gpu(&mut self, view: &Ascent<'_>, shape: &Shape) {
        let (context, shaper) = (view.context, &view.evaluations.shaper);
        let offload = |knob: &&Knob| {
            let offload = [Role::ParamOffload, Role::OptimizerOffload].map(Some);
            offload.contains(&knob.role) && moved(context).any(|k| k.name == knob.name)
        };
        let none = FailureContext::of(None);
        for gain in &context.preset.tune {
            let Some(knob) = leading(context, &gain.step).find(offload) else {
                continue;
            };
            let objection = incident::objection(shaper, shape.scope(), &gain.step, &none, &none);
            if objection.is_none() && *shape.recipe().value(&knob.name) == Value::Bool(true) {
                self.switches.push(Switch {
                    knob: knob.name.clone(),
                    to: Value::Bool(false),
                    along: Vec::new(),
                    loss: 0.0,
                    rung: gain.step.rung.clone(),
                });
            }
        }
    }

    fn add(&mut self, view: &Ascent<'_>, own: &Shape, shape: &Shape, rung: &RungSpec) {
        let context = view.context;
        let mut found: Vec<(Aim, &Move)> = Vec::new();
        for step in &rung.moves {
            let shaper = &view.evaluations.shaper;
            let (recipe, down) = (shape.recipe(), lap(step).is_some());
            let most = |knob: &Knob| {
                let [now, own] = [recipe, own.recipe()].map(|r| r.value(&knob.name));
                match down && own.number(knob.kind) > now.number(knob.kind) {
                    true => own,
                    false => now,
                }
            };
            let aims = aims_from(shaper, recipe, shape.scope(), step, most);
            found.extend(aims.unwrap_or_default().into_iter().map(|aim| (aim, step)));
        }
        let plain = |knob: &str| {
            let knob = context.preset.knob(knob);
            knob.is_some_and(|k| k.effect == Effect::SameMath)
        };
        let along: Vec<(String, Value)> =
            found.iter().filter_map(|(aim, _)| follows(aim)).collect();
        let leads = |aim: &Aim| matches!(aim, Aim::To { along: false, knob, .. } if plain(knob));
        let leading: Vec<_> = found.iter().filter(|(aim, _)| leads(aim)).collect();
        let work = |aim: &Aim| match aim {
            Aim::To { knob, .. } => work(context, knob),
            Aim::Nothing { .. } => 0.0,
        };
        let all: f64 = leading.iter().map(|(aim, _)| work(aim)).sum();
        for (aim, step) in leading {
            let Aim::To {
                knob,
                present: most,
                floor,
                ..
            } = aim
            else {
                continue;
            };
            let loss = loss(rung) * work(aim) / all;
            let floor = *floor;
            let present = shape.recipe().value(knob);
            let number = |lap| number(knob, most, present, floor, lap, loss);
            if let Some(number) = lap(step).and_then(number) {
                self.number(number);
                continue;
            }
            let mut lost = 0.0;
            for to in targets(context, rung, aim, step) {
                // An engine with more room is rather faster.
                lost += if grows(context, aim, &to) {
                    ROOMIER
                } else {
                    loss
                };
                self.switch(
                    view,
                    Switch {
                        knob: knob.clone(),
                        to,
                        along: along.clone(),
                        loss: lost,
                        rung: rung.rung.clone(),
                    },
                );
            }
        }
    }

    /// Knobs of one role that a rung sets to the same value, of two models beside each other, are one switch.
    fn switch(&mut self, view: &Ascent<'_>, new: Switch) {
        let role = |knob: &String| view.context.preset.knob(knob).and_then(|k| k.role);
        let own = role(&new.knob);
        let is_same = |s: &&mut Switch| {
            let goes_on = s.knob != new.knob && s.rung == new.rung && s.to == new.to;
            goes_on && own.is_some() && role(&s.knob) == own
        };
        match self.switches.iter_mut().find(is_same) {
            Some(first) => {
                first.loss += new.loss;
                first.along.push((new.knob, new.to));
            }
            None => self.switches.push(new),
        }
    }

    /// A knob that several rungs move has the longest way down and the least loss.
    fn number(&mut self, new: SpeedKnob) {
        match self.numbers.iter_mut().find(|n| n.knob == new.knob) {
            None => self.numbers.push(new),
            Some(old) => old.widen(new),
        }
    }
}

/// What a move does to a number that goes down by it.
fn lap(step: &Move) -> Option<StepOperation> {
    match (step.times, step.plus) {
        (Some(times), _) if times < 1.0 => Some(StepOperation::Times(times)),
        (_, Some(plus)) if plus < 0.0 => Some(StepOperation::Plus(plus)),
        _ => None,
    }
}

/// Whether a value gives a rollout engine more of the GPU.
fn grows(context: &ClimbContext<'_>, aim: &Aim, to: &Value) -> bool {
    let Aim::To { knob, present, .. } = aim else {
        return false;
    };
    let knob = context.preset.knob(knob);
    let number = |v: &Value| knob.and_then(|k| v.number(k.kind));
    let share = knob.and_then(|k| k.role) == Some(Role::RolloutMemoryFraction);
    share && number(to) > number(present)
}

/// What a switch may be set to: the target, and for a number that goes up also what further laps give.
fn targets(context: &ClimbContext<'_>, rung: &RungSpec, aim: &Aim, step: &Move) -> Vec<Value> {
    let Aim::To {
        knob,
        target,
        ceiling,
        ..
    } = aim
    else {
        return Vec::new();
    };
    let mut all = vec![target.clone()];
    let kind = context.preset.knob(knob).map(|k| k.kind);
    let (Some(kind), true) = (kind, step.times.is_some() || step.plus.is_some()) else {
        return all;
    };
    while all.len() < rung.laps as usize {
        let now = all.last().and_then(|v| v.number(kind)).unwrap_or(*ceiling);
        let next = now * step.times.unwrap_or(1.0) + step.plus.unwrap_or(0.0);
        if now >= *ceiling || next <= now {
            break;
        }
        all.push(Value::from_number(kind, next.min(*ceiling)));
    }
    all
}

fn follows(aim: &Aim) -> Option<(String, Value)> {
    match aim {
        Aim::To {
            knob,
            target,
            along: true,
            ..
        } => Some((knob.clone(), target.clone())),
        _ => None,
    }
}

/// Every combination of switches with its loss, the cheapest first; one knob is switched once.
pub(super) fn combinations(switches: &[Switch]) -> Vec<(Vec<&Switch>, f64)> {
    let switches = &switches[..switches.len().min(MOST_SWITCHES)];
    let mut all: Vec<(Vec<&Switch>, f64)> = vec![(Vec::new(), 0.0)];
    for switch in switches {
        let more = all
            .iter()
            .filter(|(on, _)| on.iter().all(|s| s.knob != switch.knob));
        let more: Vec<_> = more
            .map(|(on, loss)| {
                let on = on.iter().copied().chain([switch]).collect();
                (on, loss + switch.loss)
            })
            .collect();
        all.extend(more);
    }
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all.truncate(MOST_COMBINATIONS);
    all
}
