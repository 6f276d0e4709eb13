//! The policy `predict`: of all that the rungs can move, what costs least and fits with the probability
//! that is asked for.
//!
//! The order of costs is stated, not guessed: the experiment stays as it is while anything else helps, then
//! the number of GPUs, then speed goes last. Within that the loss of speed is what the rungs say about
//! themselves (`slower`).

use std::collections::{BTreeMap, BTreeSet};

use super::ascend::{Outlook, View};
use super::climb::{Footing, files, lap};
use super::decision::{Change, Decision, Expectation, Skipped, Step};
use super::fill::{Filled, Filler};
use super::forecast::Forecast;
use super::gauge::Gauge;
use super::host::Node;
use super::incident;
use super::reach::{self, Reach};
use super::shortfall;
use crate::core::diagnose::{Class, Incident};
use crate::core::recipe::{
    Checker, Effect, Layer, LayerKind, Origin, Refusal, Role, RungSpec, Setting, Shape, Value,
    strongest_effect,
};
use crate::core::units::{Bytes, GIB};

/// Cost of a lap that makes another experiment of it: more than any loss of speed.
const EXPERIMENT: f64 = 16.0;
/// Cost of twice as many GPUs.
const TWICE_THE_GPUS: f64 = 4.0;
/// Cost of other hardware of the same number.
const OTHER_HARDWARE: f64 = 3.0;
/// Cost of more host memory.
const HOST_MEMORY: f64 = 0.01;
/// Configurations of experiment and hardware that are looked at for one decision.
const MOST_STATES: usize = 32;
/// Where nothing reaches the probability that is asked for, this much is still worth an attempt.
const WORTH_AN_ATTEMPT: f64 = 0.02;
/// Part of the best that is as good where nothing is as sure as was asked.
const HARDLY: f64 = 0.8;
/// The name of the step that sets single values.
const STEP: &str = "predict";

/// The answer to `failure` under the policy `predict`; `None` where the memory model cannot be asked.
///
/// # Errors
/// As `climb`.
pub fn predict(
    footing: &Footing<'_>,
    outlook: &Outlook<'_>,
    failure: Option<&Incident>,
) -> Result<Option<Decision>, Refusal> {
    let view = View { footing, outlook };
    let start = view.shape(footing.rungs)?;
    let told = view.told(failure);
    let Some(forecast) = view.forecast(&told) else {
        return Ok(None);
    };
    let tried = reach::tried(footing);
    let (preset, cluster) = (footing.preset, footing.cluster);
    let gauge = Gauge::new(preset, start.recipe(), cluster, &tried, outlook.profile);
    let Some(gauge) = gauge else {
        return Ok(None);
    };
    let node = Node::new(preset, cluster);
    let checker = Checker::new(preset, start.recipe(), cluster, &tried);
    let filler = Filler::new(&view, &forecast, gauge, checker, &node, &told);
    let search = Search {
        view: &view,
        failure,
        foreseen: failure.and_then(foresee),
        forecast: &forecast,
        tried,
        node: &node,
    };
    search.decide(start, filler).map(Some)
}

/// A configuration of experiment and hardware, reached by whole rungs.
struct State {
    rungs: Vec<Layer>,
    steps: Vec<Step>,
    shape: Shape,
    laps: BTreeMap<String, u32>,
    cost: f64,
}

/// What is still to be looked at, with the least that it costs.
enum Open<'a> {
    State(Box<State>),
    /// One more lap of a rung from a state that was looked at.
    Lap(usize, &'a RungSpec, f64),
}

impl Open<'_> {
    fn cost(&self) -> f64 {
        match self {
            Self::State(state) => state.cost,
            Self::Lap(_, _, cost) => *cost,
        }
    }
}

/// What a state was filled with.
struct Candidate {
    cost: f64,
    filled: Filled,
    state: usize,
}

/// A failure of memory as one of the GPU in a phase that nothing is known of.
fn foresee(failure: &Incident) -> Option<Incident> {
    let of_memory = matches!(
        failure.class,
        Class::GpuOom | Class::EngineMemory | Class::HostOom
    );
    of_memory.then(|| Incident {
        phase: "unknown".to_owned(),
        class: Class::GpuOom,
        ..failure.clone()
    })
}

struct Search<'a> {
    view: &'a View<'a>,
    failure: Option<&'a Incident>,
    /// The same as a failure of the GPU in a phase that nothing is known of.
    foreseen: Option<Incident>,
    forecast: &'a Forecast,
    tried: BTreeSet<String>,
    node: &'a Node<'a>,
}

impl Search<'_> {
    /// Looks at states in the order of what they cost, until the next one costs more than what was found.
    fn decide(&self, start: Shape, mut filler: Filler<'_>) -> Result<Decision, Refusal> {
        let footing = self.view.footing;
        let (usable, mut skipped) = self.usable(&start);
        let risk = self.view.outlook.risk;
        let mut open = vec![Open::State(Box::new(State {
            rungs: footing.rungs.to_vec(),
            steps: Vec::new(),
            shape: start,
            laps: BTreeMap::new(),
            cost: 0.0,
        }))];
        let mut seen: BTreeSet<BTreeMap<String, u32>> = BTreeSet::new();
        let mut done: Vec<State> = Vec::new();
        let mut found: Vec<Candidate> = Vec::new();
        while done.len() < MOST_STATES {
            let next = (0..open.len()).min_by(|a, b| open[*a].cost().total_cmp(&open[*b].cost()));
            let fitting = found.iter().filter(|c| c.filled.fits >= risk);
            let best = fitting.map(|c| c.cost).fold(f64::INFINITY, f64::min);
            let Some(next) = next
                .map(|at| open.swap_remove(at))
                .filter(|o| o.cost() < best)
            else {
                break;
            };
            let state = match next {
                Open::State(state) => *state,
                Open::Lap(from, rung, _) => {
                    match self.lap(&done[from], rung) {
                        Ok(state) if seen.insert(state.laps.clone()) => {
                            open.push(Open::State(Box::new(state)));
                        }
                        Err(reason) if from == 0 => skipped.push(Skipped {
                            rung: rung.rung.clone(),
                            reason,
                        }),
                        Ok(_) | Err(_) => {}
                    }
                    continue;
                }
            };
            let reach = Reach::new(footing, &state.shape, &usable);
            let filled = filler.fill(&self.values(&state.shape), &reach, risk, best - state.cost);
            found.extend(filled.into_iter().map(|filled| Candidate {
                cost: state.cost + filled.loss,
                filled,
                state: done.len(),
            }));
            let whole = usable.iter().filter(|rung| reach::whole(footing, rung));
            let least = |rung| state.cost + reach::loss(rung) + self.least_price(rung);
            open.extend(whole.map(|rung| Open::Lap(done.len(), rung, least(rung))));
            done.push(state);
        }
        self.choose(&done, found, skipped, &mut filler)
    }

    /// The rungs that may be used, and the others with reasons. What is known to be useless for the phase that failed may
    /// be needed for the next one; the forecast sees for itself what helps.
    fn usable(&self, shape: &Shape) -> (Vec<&RungSpec>, Vec<Skipped>) {
        let footing = self.view.footing;
        let class = self.failure.map_or(Class::GpuOom, |i| i.class);
        let host = class == Class::HostOom;
        let (mut usable, mut skipped) = (Vec::new(), Vec::new());
        for rung in footing.ladder {
            let answers =
                incident::answers(rung, class) || (host && incident::answers(rung, Class::GpuOom));
            let why = match answers {
                false => Some("answers another kind of failure".to_owned()),
                true => incident::objection(
                    footing.preset,
                    shape.scope(),
                    rung,
                    self.failure,
                    self.foreseen.as_ref().or(self.failure),
                ),
            };
            match why {
                None => usable.push(rung),
                Some(reason) => skipped.push(Skipped {
                    rung: rung.rung.clone(),
                    reason,
                }),
            }
        }
        (usable, skipped)
    }

    fn values(&self, shape: &Shape) -> BTreeMap<String, Value> {
        let value = |knob: &String| (knob.clone(), shape.recipe().value(knob).clone());
        self.tried.iter().map(value).collect()
    }

    /// The state after one more lap of a rung, with what that costs.
    fn lap(&self, from: &State, rung: &RungSpec) -> Result<State, String> {
        let footing = Footing {
            rungs: &from.rungs,
            ..*self.view.footing
        };
        // A rung that does not answer this failure may answer the next one.
        let (step, shape) =
            lap(&footing, &from.shape, self.failure, rung).or_else(|why| match &self.foreseen {
                Some(_) => lap(&footing, &from.shape, self.foreseen.as_ref(), rung),
                None => Err(why),
            })?;
        let mut rungs = from.rungs.clone();
        rungs.push(step.layer.clone());
        let mut laps = from.laps.clone();
        *laps.entry(rung.rung.clone()).or_default() += 1;
        let cost = from.cost + reach::loss(rung) + self.price(&step, &from.shape, &shape);
        let mut steps = from.steps.clone();
        steps.push(step);
        Ok(State {
            rungs,
            steps,
            shape,
            laps,
            cost,
        })
    }

    /// The least that a lap of a rung costs besides speed.
    fn least_price(&self, rung: &RungSpec) -> f64 {
        match reach::effect(self.view.footing, rung) {
            Effect::ChangesTraining => EXPERIMENT,
            Effect::Resources => HOST_MEMORY,
            Effect::SameMath => 0.0,
        }
    }

    /// What a lap costs besides speed.
    fn price(&self, step: &Step, before: &Shape, after: &Shape) -> f64 {
        let (now, then) = (self.gpus(before), self.gpus(after));
        let memory_alone = step
            .changes
            .iter()
            .all(|c| Some(c.knob.as_str()) == self.node.knob());
        match step.effect {
            Effect::ChangesTraining => EXPERIMENT,
            Effect::Resources if then > now => TWICE_THE_GPUS * (then / now).log2(),
            Effect::Resources if memory_alone => HOST_MEMORY,
            Effect::Resources => OTHER_HARDWARE,
            Effect::SameMath => 0.0,
        }
    }

    /// GPUs of the whole job.
    fn gpus(&self, shape: &Shape) -> f64 {
        let preset = self.view.footing.preset;
        let roles = [Role::GpusPerNode, Role::Nodes].into_iter();
        let knobs = roles.filter_map(|role| preset.with_role(role).next());
        let counts = knobs.filter_map(|k| shape.recipe().value(&k.name).number(k.kind));
        counts.product::<f64>().max(1.0)
    }

    /// The cheapest that fits; else what fits best, where that is worth an attempt; else nothing does.
    fn choose(
        &self,
        done: &[State],
        mut found: Vec<Candidate>,
        skipped: Vec<Skipped>,
        filler: &mut Filler<'_>,
    ) -> Result<Decision, Refusal> {
        let risk = self.view.outlook.risk;
        let best = found.iter().map(|c| c.filled.order()).fold(0.0, f64::max);
        // Of those that are too unsure, hardly surer is not worth another experiment.
        let rank = |c: &Candidate| match c.filled.fits {
            fits if fits >= risk => 0,
            _ if c.filled.order() >= best * HARDLY => 1,
            _ => 2,
        };
        found.sort_by(|a, b| {
            let (x, y) = (rank(a), rank(b));
            let surer = || b.filled.order().total_cmp(&a.filled.order());
            x.cmp(&y).then_with(|| match x {
                2 => surer(),
                _ => a.cost.total_cmp(&b.cost),
            })
        });
        let worth = found.iter().filter(|c| c.filled.fits >= WORTH_AN_ATTEMPT);
        for candidate in worth {
            let state = &done[candidate.state];
            if let Some(steps) = self.steps(&done[0].shape, state, &candidate.filled)? {
                let expects = self.expectation(&candidate.filled, filler);
                return Ok(Decision::Climb {
                    steps,
                    skipped,
                    expects,
                });
            }
        }
        let surest = found.iter().max_by(|a, b| {
            let (a, b) = (a.filled.order(), b.filled.order());
            a.total_cmp(&b)
        });
        let shortfall = surest.and_then(|best| {
            let gpus = self.gpus(&done[best.state].shape);
            shortfall::of(filler, self.forecast, &best.filled, self.view, gpus)
        });
        Ok(Decision::Exhausted { skipped, shortfall })
    }

    /// The steps to a candidate; `None` where it is illegal after all, or changes nothing.
    fn steps(
        &self,
        start: &Shape,
        state: &State,
        filled: &Filled,
    ) -> Result<Option<Vec<Step>>, Refusal> {
        let footing = self.view.footing;
        let knobs = footing.preset.knobs.iter();
        let recipe = state.shape.recipe();
        let changed = |name: &str| {
            let value = filled.values.get(name)?;
            (value != recipe.value(name)).then(|| value.clone())
        };
        let moved: Vec<_> = knobs.filter_map(|k| Some((k, changed(&k.name)?))).collect();
        let mut steps = state.steps.clone();
        if !moved.is_empty() {
            let mut layer = Layer::new(LayerKind::Rung);
            let origin = Origin::Rung {
                rung: STEP.to_owned(),
                attempt: footing.attempt + 1,
            };
            let changes = moved.iter().map(|(knob, to)| Change {
                knob: knob.name.clone(),
                from: recipe.value(&knob.name).clone(),
                to: to.clone(),
                effect: knob.effect,
            });
            let changes: Vec<Change> = changes.collect();
            for (knob, value) in &moved {
                let (value, origin) = (value.clone(), origin.clone());
                let setting = Setting { value, origin };
                layer.settings.insert(knob.name.clone(), setting);
            }
            steps.push(Step {
                rung: STEP.to_owned(),
                title: "the largest values that are expected to fit".to_owned(),
                changes,
                effect: strongest_effect(moved.iter().map(|(knob, _)| *knob)),
                notes: Vec::new(),
                reshards: false,
                layer,
            });
        }
        let rungs = footing.rungs.iter().chain(steps.iter().map(|s| &s.layer));
        let Ok(next) = self.view.shape(&rungs.cloned().collect::<Vec<_>>()) else {
            return Ok(None);
        };
        let same = steps.is_empty() || files(footing, &next)? == files(footing, start)?;
        Ok((!same).then_some(steps))
    }

    fn expectation(&self, filled: &Filled, filler: &mut Filler<'_>) -> Option<Expectation> {
        let spec = filler.spec(&filled.values)?;
        let (phase, bytes) = self.forecast.expected(&spec, self.view.outlook.profile)?;
        Some(Expectation {
            fits_probability: filled.fits,
            peak_bytes: Bytes::from_gib(bytes / GIB),
            phase: phase.word(),
        })
    }
}
