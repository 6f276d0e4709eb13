//! The policy `predict`: of all that the rungs can move, what costs least and fits with the probability
//! that is asked for.
//!
//! The order of costs is stated, not guessed: the experiment stays as it is while anything else helps, then
//! the number of GPUs, then speed goes last. Within that the loss of speed is what the rungs say about
//! themselves (`slower`).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::ascent::{Ascent, FAIR, FailedAttempt};
use super::bounds::{self, SearchBounds};
use super::context::ClimbContext;
use super::decision::{Change, Decision, Expectation, Shortfall, Skipped, Step};
use super::evaluations::Evaluation;
use super::host::NodeResources;
use super::incident::{self, FailureContext};
use super::model_cache::ModelCache;
use super::named::NamedRemedy;
use super::optimiser::{Filled, Optimiser};
use super::past::Priors;
use super::posterior::Posterior;
use super::search_node::{FilledCandidate, SearchNode, Unsure};
use super::shortfall;
use super::successors::{SearchState, Successors, Usable};
use crate::core::recipe::{
    Checker, Layer, LayerKind, RungSpec, Shape, UnderTrial, Values, strongest_effect,
};
use oomctl_base::{Origin, Refusal, Value};
use oomctl_diagnose::{Class, Incident};

/// Configurations of experiment and hardware that are looked at for one decision.
const MOST_STATES: usize = 20;
/// The name of the step that sets single values.
const STEP: &str = "predict";

/// The answer to `failure` under the policy `predict`; `None` where the memory model cannot be asked.
///
/// # Errors
/// As `climb`.
pub fn predict(
    context: &ClimbContext<'_>,
    outlook: &Priors<'_>,
    failure: Option<&Incident>,
) -> Result<Option<Decision>, Refusal> {
    let view = Ascent::new(context, outlook, failure);
    let start = view.look(context.rungs)?;
    let failed = view.failed_attempts(failure);
    let Some(posterior) = view.posterior(&failed) else {
        return Ok(None);
    };
    let first = view.first(failure, &failed)?;
    let named = NamedRemedy::of(&view, failure, first, &failed, &posterior)?;
    if let Some(named) = named.as_ref().filter(|n| n.alone) {
        return Ok(Some(named.climb.clone()));
    }
    let tried = bounds::tried(context);
    let (recipe, scope) = (start.shape.recipe(), start.shape.scope());
    let trial = UnderTrial::new(&view.evaluations.shaper, recipe, scope, &tried);
    let Some(model_cache) = ModelCache::new(context.preset, &trial, outlook.profile) else {
        return Ok(None);
    };
    let node = NodeResources::new(context.preset, context.cluster);
    let checker = Checker::new(&trial);
    let search = PredictSearch {
        view: &view,
        successors: Successors::new(&view, failure, &node),
        failure,
        failed: &failed,
        posterior: &posterior,
        own: view.look(&[]).ok(),
        tried: tried
            .iter()
            .map(|knob| (knob.clone(), Value::Null))
            .collect(),
    };
    let died = search.died(&failed);
    let optimiser = Optimiser::new(
        &view,
        &posterior,
        model_cache,
        checker,
        &node,
        &failed,
        died,
    );
    let decision = search.decide(&start, optimiser)?;
    Ok(Some(match named {
        Some(named) => named.or(decision, &view),
        None => decision,
    }))
}

/// What is still to be looked at, with the least that it costs.
enum FrontierItem<'a> {
    State(Box<SearchState>),
    /// One more lap of a rung from a state that was looked at.
    Lap(usize, &'a RungSpec, f64),
}

impl FrontierItem<'_> {
    fn cost(&self) -> f64 {
        match self {
            Self::State(state) => state.cost,
            Self::Lap(_, _, cost) => *cost,
        }
    }
}

struct PredictSearch<'a> {
    view: &'a Ascent<'a>,
    successors: Successors<'a>,
    failure: Option<&'a Incident>,
    failed: &'a [FailedAttempt<'a>],
    posterior: &'a Posterior,
    /// The user's own configuration, before any rung; `None` where it is not legal any more.
    own: Option<Rc<Evaluation>>,
    /// The knobs under trial.
    tried: Values,
}

impl PredictSearch<'_> {
    /// Looks at states in the order of what they cost, until the next one costs more than what was found.
    fn decide(
        &self,
        start: &Evaluation,
        mut optimiser: Optimiser<'_>,
    ) -> Result<Decision, Refusal> {
        let context = self.view.context;
        let mut usable = self.successors.usable(&start.shape);
        let mut open = vec![FrontierItem::State(Box::new(SearchState {
            rungs: context.rungs.to_vec(),
            steps: Vec::new(),
            shape: start.shape.clone(),
            laps: BTreeMap::new(),
            cost: 0.0,
            loss: 0.0,
        }))];
        let mut seen: BTreeSet<BTreeMap<String, u32>> = BTreeSet::new();
        let mut done: Vec<SearchNode> = Vec::new();
        let mut found: Vec<FilledCandidate<'_>> = Vec::new();
        while done.len() < MOST_STATES {
            let next = (0..open.len()).min_by(|a, b| open[*a].cost().total_cmp(&open[*b].cost()));
            let costs = found.iter().map(|c| c.cost);
            let best = costs.fold(f64::INFINITY, f64::min);
            let Some(next) = next
                .map(|at| open.swap_remove(at))
                .filter(|o| o.cost() < best)
            else {
                break;
            };
            let state = match next {
                FrontierItem::State(state) => *state,
                FrontierItem::Lap(from, rung, _) => {
                    let before = &done[from];
                    let laps = before.state.after(rung);
                    if seen.contains(&laps) {
                        continue;
                    }
                    match self.successors.lap(&before.state, rung) {
                        Ok(state) => {
                            seen.insert(laps);
                            let state = self.thinned(state, before, rung, &mut optimiser);
                            open.push(FrontierItem::State(Box::new(state)));
                        }
                        Err(reason) if from == 0 => {
                            usable.skipped.push(Skipped::new(&rung.rung, reason))
                        }
                        Err(_) => {}
                    }
                    continue;
                }
            };
            let search_node = self.look(state, &usable, &mut optimiser);
            let state = &search_node.state;
            let filled = self.fill(&search_node, &mut optimiser, best - state.cost);
            found
                .extend(filled.map(|filled| FilledCandidate::of(filled, &search_node, done.len())));
            let whole = usable.rungs.iter().filter(|r| bounds::whole(context, r));
            let least = |rung| state.cost + self.successors.least(&state.shape, rung);
            open.extend(whole.map(|rung| FrontierItem::Lap(done.len(), rung, least(rung))));
            done.push(search_node);
        }
        found.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        for candidate in &found {
            let decision = self.take(start, &done, candidate, &usable.skipped, &mut optimiser)?;
            if let Some(decision) = decision {
                return Ok(decision);
            }
        }
        let unsure = Unsure::new(
            found,
            &done,
            &mut optimiser,
            self.view.outlook.min_fit_probability,
        );
        self.choose(start, &done, unsure, usable.skipped, &mut optimiser)
    }

    /// What can be moved from a state, with what that costs there, and what it can come to at best.
    fn look(
        &self,
        state: SearchState,
        usable: &Usable<'_>,
        optimiser: &mut Optimiser<'_>,
    ) -> SearchNode {
        let values = self.values(&state.shape);
        let own = self.own.as_ref().map_or(&state.shape, |look| &look.shape);
        let reach = |rungs| {
            let mut reach = SearchBounds::new(self.view, own, &state.shape, rungs);
            // After a failure of the GPU nothing goes back to it.
            if self.failure.is_none_or(|f| f.class == Class::HostOom) {
                reach.keep_on_gpu(self.view, &state.shape);
            }
            optimiser.price_switches(&mut reach, &values);
            reach
        };
        let reaches: Vec<SearchBounds> = usable.ways().map(reach).collect();
        let best = reaches.last().map(|reach| optimiser.best(&values, reach));
        SearchNode {
            best: best.into_iter().flatten().collect(),
            state,
            values,
            reaches,
        }
    }

    /// Fills a state by what answers this failure; where that is not enough, by what answers the next one too.
    fn fill(
        &self,
        search_node: &SearchNode,
        optimiser: &mut Optimiser<'_>,
        most: f64,
    ) -> Option<Filled> {
        let min_fit_probability = self.view.outlook.min_fit_probability;
        if !optimiser.reaches_at_best(&search_node.best, min_fit_probability) {
            return None;
        }
        let mut reaches = search_node.reaches.iter();
        reaches.find_map(|reach| {
            optimiser.cheapest(&search_node.values, reach, min_fit_probability, most)
        })
    }

    /// A state after a lap that made a batch smaller, with what that costs such a batch.
    fn thinned(
        &self,
        mut state: SearchState,
        before: &SearchNode,
        rung: &RungSpec,
        optimiser: &mut Optimiser<'_>,
    ) -> SearchState {
        if bounds::thins(self.view.context, rung) {
            let values = self.values(&state.shape);
            let usual = bounds::loss(rung);
            let loss = optimiser.thinned(&before.values, &values).unwrap_or(usual);
            state.cost += loss - usual;
            state.loss += loss - usual;
        }
        state
    }

    fn values(&self, shape: &Shape) -> Values {
        self.tried.with(|knob| shape.recipe().value(knob).clone())
    }

    /// The values of those attempts that died of memory.
    fn died(&self, failed: &[FailedAttempt<'_>]) -> Vec<Values> {
        let of_memory = failed
            .iter()
            .filter(|t| incident::of_memory(t.incident.class));
        let looks = of_memory.filter_map(|t| self.view.look(t.rungs).ok());
        looks.map(|look| self.values(&look.shape)).collect()
    }

    /// What fits best, where that has a fair chance, or the ladder's next rung, where the model's interval leaves room for
    /// something; else nothing fits.
    fn choose(
        &self,
        start: &Evaluation,
        done: &[SearchNode],
        mut unsure: Unsure<'_>,
        skipped: Vec<Skipped>,
        optimiser: &mut Optimiser<'_>,
    ) -> Result<Decision, Refusal> {
        while let Some(next) = unsure.next(FAIR, optimiser) {
            if let Some(decision) = self.take(start, done, next, &skipped, optimiser)? {
                return Ok(decision);
            }
        }
        let shortfall = unsure.surest().and_then(|best| {
            let gpus = self.successors.gpus(&done[best.state].state.shape);
            shortfall::of(optimiser, self.posterior, &best.filled, self.view, gpus)
        });
        // Where the model is unsure, or finds another phase too large than the one that died, a small step teaches more.
        let fatal = FailureContext::of(self.failure).fatal;
        let agrees = |s: &Shortfall| fatal.is_empty() || fatal.iter().any(|p| p.word() == s.phase);
        let might = unsure.last(optimiser);
        let might = might.is_some_and(|c| optimiser.might(&c.filled.values));
        if might || !shortfall.as_ref().is_some_and(agrees) {
            let rungs = self.view.context.rungs;
            let policy = self.view.context.policy;
            let step = self.view.next(rungs, self.failure, self.failed, policy)?;
            if matches!(step, Decision::Climb { .. }) {
                return Ok(step);
            }
        }
        Ok(Decision::Exhausted { skipped, shortfall })
    }

    /// The decision for a candidate; `None` where it died already, is illegal after all, or changes nothing.
    fn take(
        &self,
        start: &Evaluation,
        done: &[SearchNode],
        candidate: &FilledCandidate<'_>,
        skipped: &[Skipped],
        optimiser: &mut Optimiser<'_>,
    ) -> Result<Option<Decision>, Refusal> {
        let state = &done[candidate.state].state;
        if optimiser.died(&candidate.filled.values) {
            return Ok(None);
        }
        let steps = self.steps(start, state, &candidate.filled)?;
        Ok(steps.map(|steps| Decision::Climb {
            steps,
            skipped: skipped.to_vec(),
            expects: self.expectation(candidate, state, optimiser),
        }))
    }

    /// The steps to a candidate; `None` where it is illegal after all, or changes nothing.
    fn steps(
        &self,
        start: &Evaluation,
        state: &SearchState,
        filled: &Filled,
    ) -> Result<Option<Vec<Step>>, Refusal> {
        let context = self.view.context;
        let knobs = context.preset.knobs.iter();
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
                attempt: context.attempt + 1,
            };
            let changes = moved.iter().map(|(knob, to)| Change {
                knob: knob.name.clone(),
                from: recipe.value(&knob.name).clone(),
                to: to.clone(),
                effect: knob.effect,
                called: None,
            });
            let changes: Vec<Change> = changes.collect();
            for (knob, value) in &moved {
                layer.set(&knob.name, value.clone(), origin.clone());
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
        let rungs = context.rungs.iter().chain(steps.iter().map(|s| &s.layer));
        let evaluations = &self.view.evaluations;
        let Ok(next) = evaluations.look(&rungs.collect::<Vec<_>>()) else {
            return Ok(None);
        };
        let same = steps.is_empty() || evaluations.files(&next)? == evaluations.files(start)?;
        Ok((!same).then_some(steps))
    }

    fn expectation(
        &self,
        candidate: &FilledCandidate<'_>,
        state: &SearchState,
        optimiser: &mut Optimiser<'_>,
    ) -> Option<Expectation> {
        let filled = &candidate.filled;
        let spec = optimiser.spec(&filled.values)?;
        let slower = 1.0 - (-state.loss - filled.loss).exp();
        let (profile, fits) = (self.view.outlook.profile, filled.fits);
        self.posterior
            .expectation(&spec, profile, fits, Some(slower.max(0.0)))
    }
}
