//! Which rung is next, and what it gives.

use minijinja::Value as Jinja;

use super::acts::Acts;
use super::context::ClimbContext;
use super::decision::{Change, Decision, Skipped, Step};
use super::evaluations::{Evaluation, EvaluationCache};
use super::incident::{self, DOUBTED, FailureContext, RungObjection};
use super::moves::{MAY_SET, TakenMoves};
use super::{bug, older, packages, remedies};
use crate::core::recipe::{Layer, RungSpec, Shape, Shaper, expr::Scope, strongest_effect};
use oomctl_base::{Effect, Refusal, Role};
use oomctl_diagnose::Incident;

/// How the reason ends, or begins to give more, of a rung that --same-math leaves out.
pub const FORBIDDEN: &str = ", which the policy same-math forbids";

/// The next rung after `incident`: the first in order that has laps left, answers the incident, is
/// not skipped for a reason, and changes the rendered files. Without an incident the ladder is asked
/// what it would do after a GPU OOM of which nothing is known.
///
/// # Errors
/// The present configuration is itself not legal.
pub fn climb(context: &ClimbContext<'_>, failure: Option<&Incident>) -> Result<Decision, Refusal> {
    climb_in(
        &EvaluationCache::new(context, None, failure),
        context,
        failure,
    )
}

/// The same with what was evaluated before.
pub(super) fn climb_in(
    evaluations: &EvaluationCache<'_>,
    context: &ClimbContext<'_>,
    failure: Option<&Incident>,
) -> Result<Decision, Refusal> {
    let look = evaluations.look(&context.rungs.iter().collect::<Vec<_>>())?;
    // That they can be rendered is asked for even where no rung is tried.
    evaluations.files(&look)?;
    let failure = &FailureContext::of(failure);
    let scope = scope(context, &look.shape, failure);
    let acts = Acts::new(evaluations, context, &look.shape, failure);
    let (remedies, preset) = (&failure.remedies, context.preset);
    let (rungs, mut skipped) = match context.whole_rungs {
        true => (context.ladder.iter().collect(), Vec::new()),
        false => (
            remedies.order(preset, context.ladder),
            remedies.without_rung(preset, context.ladder),
        ),
    };
    let (mut open, mut late) = (Vec::new(), None);
    for rung in bug::first(context.preset, rungs, &failure.bugs) {
        let seen = RungView {
            context,
            evaluations,
            shape: &look.shape,
            scope: &scope,
            failure,
            acts: acts.as_ref(),
            rung,
        };
        let refused = seen.refusal();
        let is_open = matches!(refused, Some(RungObjection::Open(_)));
        let refused = refused.map(RungObjection::text);
        match refused.map_or_else(|| seen.climb(&look), Err) {
            Ok(step) if older::may_lack(context, &step) => {
                skipped.push(Skipped::new(&rung.rung, older::LATE));
                late = late.or(Some(step));
            }
            Ok(step) => {
                let late = late.filter(|_| step.effect == Effect::ChangesTraining);
                let step = late.unwrap_or_else(|| instead_of(step, &open, &look));
                return Ok(single(step, skipped));
            }
            Err(reason) => {
                if is_open {
                    open.push((seen, reason.clone()));
                }
                skipped.push(Skipped::new(&rung.rung, reason));
            }
        }
    }
    Ok(match late {
        Some(step) => single(step, skipped),
        None => Decision::Exhausted {
            skipped,
            shortfall: None,
        },
    })
}

/// Why training keeps the length of its sequences.
const SHORTENS: &str =
    "training would get shorter sequences, and only the evaluation ran out of memory";

/// The decision for one step.
fn single(step: Step, mut skipped: Vec<Skipped>) -> Decision {
    skipped.retain(|s| s.rung != step.rung);
    Decision::Climb {
        steps: vec![step],
        skipped,
        expects: None,
    }
}

/// A step that keeps training as it is in place of one that changes it: the first of the rungs before it of which only
/// their use is unknown. Where what should go along with it is unknown, or what its mathematics depend on, so is whether training stays the
/// same.
fn instead_of(step: Step, open: &[(RungView<'_, '_>, String)], from: &Evaluation) -> Step {
    if step.effect != Effect::ChangesTraining {
        return step;
    }
    let mut steps = open.iter().filter_map(|(seen, doubt)| {
        let mut step = seen.climb(from).ok()?;
        let lacks_a_part = step.effect == Effect::ChangesTraining;
        if lacks_a_part && seen.rung.effect == Some(Effect::SameMath) || doubt.starts_with(DOUBTED)
        {
            step.effect = Effect::Unknown;
            let changes = step.changes.iter_mut();
            changes.for_each(|change| change.effect = Effect::Unknown);
        }
        step.notes.insert(0, doubt.clone());
        matches!(step.effect, Effect::SameMath | Effect::Unknown).then_some(step)
    });
    steps.next().unwrap_or(step)
}

/// What one rung gives from `shape`, or why it is not taken. Nothing is rendered.
pub(super) fn lap(
    evaluations: &EvaluationCache<'_>,
    context: &ClimbContext<'_>,
    shape: &Shape,
    failure: &FailureContext,
    rung: &RungSpec,
) -> Result<(Step, Shape), String> {
    let scope = scope(context, shape, failure);
    let seen = RungView {
        context,
        evaluations,
        shape,
        scope: &scope,
        failure,
        acts: None,
        rung,
    };
    if let Some(objection) = seen.refusal() {
        return Err(objection.text());
    }
    let taken = seen.take()?;
    let next = evaluations.shape(&seen.with(&taken.layer));
    let next = next.map_err(|e| e.to_string())?;
    let step = seen.step(taken, &next)?;
    match older::may_lack(context, &step) {
        true => Err(older::LATE.to_owned()),
        false => Ok((step, next)),
    }
}

/// Names for the expressions of a ladder.
fn scope(context: &ClimbContext<'_>, shape: &Shape, failure: &FailureContext) -> Scope {
    let mut scope = failure.within(shape.scope());
    scope.set("attempt", Jinja::from(context.attempt));
    scope
}

/// One rung, seen from the present configuration.
pub(super) struct RungView<'a, 'p> {
    /// What the climb starts from.
    pub context: &'a ClimbContext<'a>,
    /// What makes shapes and files.
    pub evaluations: &'a EvaluationCache<'p>,
    /// The present configuration.
    pub shape: &'a Shape,
    /// Names for the expressions of the rung.
    pub scope: &'a Scope,
    /// What the rung answers.
    pub failure: &'a FailureContext,
    /// What the memory model says of single moves, where it can be asked.
    pub acts: Option<&'a Acts<'p>>,
    /// The rung.
    pub rung: &'a RungSpec,
}

impl RungView<'_, '_> {
    /// Why the rung is not even tried, if there is a reason.
    fn refusal(&self) -> Option<RungObjection> {
        let sure = |why: &str| Some(RungObjection::Sure(why.to_owned()));
        let (rung, failure) = (self.rung, self.failure);
        if !remedies::answers(rung, failure.class) {
            return sure(Skipped::OTHER_CLASS);
        }
        if failure.guessed && !failure.remedies.lead_to(self.context.preset, rung) {
            return sure("nothing shows that host memory ran out");
        }
        let (shaper, recipe) = (&self.evaluations.shaper, self.shape.recipe());
        packages::objection(self.context.environment, rung)
            .map(RungObjection::Sure)
            .or_else(|| incident::objection_anyway(shaper, recipe, self.scope, rung, failure))
    }

    /// The rungs with one more.
    fn with<'l>(&'l self, layer: &'l Layer) -> Vec<&'l Layer> {
        self.context.rungs.iter().chain([layer]).collect()
    }

    /// Takes the rung, where it renders to other files than what it is climbed from.
    fn climb(&self, from: &Evaluation) -> Result<Step, String> {
        let taken = self.take()?;
        let next = self.evaluations.look(&self.with(&taken.layer));
        let next = next.map_err(|e| e.to_string())?;
        let files = |look| self.evaluations.files(look).map_err(|e| e.to_string());
        if files(&next)? == files(from)? {
            return Err("would not change the rendered files".to_owned());
        }
        self.step(taken, &next.shape)
    }

    /// What the rung does, with the configuration that it leads to.
    fn step(&self, taken: TakenMoves, next: &Shape) -> Result<Step, String> {
        let TakenMoves {
            layer,
            mut notes,
            along,
        } = taken;
        // What a rung says of itself as a whole holds where all of it is taken.
        let whole = notes.is_empty() || self.rung.effect.is_none();
        let unread = notes.iter().find(|note| note.ends_with(MAY_SET)).cloned();
        let declared = self.declared(whole, unread.is_some());
        let changes = self.changes(&layer, declared);
        if let Some(why) = self.failure.remedies.worse(self.context.preset, &changes) {
            return Err(why);
        }
        let effect = self.effect(&layer, declared);
        if self.context.policy.forbids(effect) {
            return Err(match effect {
                Effect::Unknown => self.doubted(),
                _ => format!("changes training{FORBIDDEN}"),
            });
        }
        if let Some(why) = self.leaves_too_much(next, effect) {
            return Err(why);
        }
        let in_vain = self.failure.in_vain.or_else(|| {
            let mut moved = changes
                .iter()
                .filter_map(|c| self.context.preset.knob(&c.knob));
            let shortens = moved.any(|knob| knob.role == Some(Role::SequenceLength));
            let evaluates = self.failure.phase() == Some("eval");
            (shortens && evaluates).then_some(SHORTENS)
        });
        let in_vain = in_vain.filter(|_| !self.context.whole_rungs);
        if let Some(why) = in_vain.filter(|_| effect == Effect::ChangesTraining) {
            return Err(why.to_owned());
        }
        notes.extend(along);
        let env = self.context.preset.env();
        // A remark about something that is not known is none.
        let known = |note: &&String| {
            let template = env.template_from_str(note).ok();
            let names = template.map(|t| t.undeclared_variables(true));
            let names = names.unwrap_or_default();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let recipe = next.recipe();
            self.evaluations.shaper.unknown_in(recipe, &names).is_none()
        };
        notes.extend(packages::remark(self.context.environment, self.rung));
        notes.extend(older::remark(self.context, &changes)?);
        let doubt = self.rung.doubt.iter().filter(|_| whole).chain(&unread);
        notes.extend(doubt.map(|why| format!("{DOUBTED}{why}")));
        let of_rung = self.rung.notes.iter().filter(|_| whole);
        for note in of_rung.filter(known) {
            let text = env.render_str(note, next.scope().context());
            notes.extend(text.ok().filter(|t| !t.trim().is_empty()));
        }
        let (shaper, reshards) = (&self.evaluations.shaper, self.rung.reshards);
        notes.extend(checkpoint_notes(shaper, reshards, &changes, next));
        Ok(Step {
            rung: self.rung.rung.clone(),
            title: self.rung.title.clone(),
            changes,
            effect,
            notes,
            reshards: self.rung.reshards,
            layer,
        })
    }

    /// What a rung says of itself, where it is taken `whole`, or without a part that files which are not read may set.
    fn declared(&self, whole: bool, unread: bool) -> Option<Effect> {
        match self.rung.effect {
            Some(Effect::SameMath | Effect::Resources) if unread => Some(Effect::Unknown),
            // More GPUs without what keeps the batch of a step.
            Some(Effect::Resources) if !whole => Some(Effect::ChangesTraining),
            effect => effect.filter(|_| whole),
        }
    }

    /// Why a rung whose effect is unknown is not taken where training must stay the same, and what to do.
    fn doubted(&self) -> String {
        let why = self.rung.doubt.iter().map(|why| {
            format!(
                ": {why}. If you know that training stays the same, take it with --policy ladder"
            )
        });
        format!("may change training{FORBIDDEN}{}", why.collect::<String>())
    }

    /// Changes in the order of the preset's knobs.
    fn changes(&self, layer: &Layer, declared: Option<Effect>) -> Vec<Change> {
        let knobs = self.context.preset.knobs.iter();
        knobs
            .filter_map(|k| {
                let setting = layer.settings.get(&k.name)?;
                Some(Change {
                    knob: k.name.clone(),
                    from: self.shape.recipe().value(&k.name).clone(),
                    to: setting.value.clone(),
                    effect: declared.unwrap_or(k.effect),
                    called: None,
                })
            })
            .collect()
    }

    fn effect(&self, layer: &Layer, declared: Option<Effect>) -> Effect {
        if let Some(effect) = declared {
            return effect;
        }
        let knobs = self.context.preset.knobs.iter();
        strongest_effect(knobs.filter(|k| layer.settings.contains_key(&k.name)))
    }
}

/// What is lost when a rung changes the number of GPUs and checkpoints are bound to it, and what its changes mean for
/// a run that goes on from one.
fn checkpoint_notes(
    shaper: &Shaper<'_>,
    reshards: bool,
    changes: &[Change],
    next: &Shape,
) -> Vec<String> {
    let Some(checkpoint) = &shaper.preset().checkpoint else {
        return Vec::new();
    };
    let holds = |text: &str| {
        let holds = shaper.expressions.holds(text, next.scope());
        holds.unwrap_or(false)
    };
    if !holds(&checkpoint.written_when) {
        return Vec::new();
    }
    let survives = checkpoint.survives_resharding.as_deref();
    if reshards && !survives.is_some_and(holds) {
        // Nothing is gone on from, so nothing was counted otherwise.
        return checkpoint.lost.iter().cloned().collect();
    }
    let changed = |knob: &String| changes.iter().any(|c| c.knob == *knob);
    let bound = checkpoint.bound.iter();
    bound
        .filter(|b| b.knobs.iter().any(changed))
        .map(|b| b.text.clone())
        .collect()
}
