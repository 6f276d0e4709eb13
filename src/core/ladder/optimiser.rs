//! The largest values, and the fewest switches, with which a configuration fits.

mod best;
mod prices;
mod raise;
mod ranges;

use std::rc::Rc;

use super::ascent::{Ascent, FailedAttempt, host_factor};
use super::bounds::{SearchBounds, Switch, combinations};
use super::engine_room::EngineRoom;
use super::host::{HostNeed, NodeResources, in_values};
use super::model_cache::{ModelCache, ModelledJob};
use super::numbers::SpeedKnob;
use super::particle::Particle;
use super::posterior::Posterior;
use crate::core::recipe::{Checker, Values};
use oomctl_base::Value;
use oomctl_base::units::{Bytes, slurm_mem};
use oomctl_memory::{Spec, estimate};

/// Probability below which nothing is given up for speed, and the particles are too few to tell one from another.
const LIKELY: f64 = 0.5;
/// Probability below which no value is worth more than another.
const HOPELESS: f64 = 0.01;
/// Part of the best probability with which values count as no less sure.
const ALMOST: f64 = 0.97;
/// Part of a probability from which on the least of all numbers may not be the surest.
const NEARLY: f64 = 0.8;
/// Part of how near values come from which on they come as near as others.
const SAME: f64 = 0.995;
/// Share of host memory that a job asks for beyond what it is expected to need.
pub(super) const HOST_MARGIN: f64 = 1.25;

/// Values with what is expected of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filled {
    /// Values of all knobs under trial.
    pub values: Values,
    /// Probability to fit, host memory included.
    pub fits: f64,
    /// Loss of speed against the values that were given, as a logarithm.
    pub loss: f64,
    /// How near it comes where it is not likely to fit, from 0 to 1.
    pub near: f64,
}

impl Filled {
    /// The surer, the larger.
    pub fn order(&self) -> f64 {
        order(self.fits, self.near)
    }
}

/// What comes nearest to fitting where nothing is sure enough.
pub(super) struct Nearest {
    /// Every number at its least.
    pub least: Filled,
    /// The least loss that it can come to, with every number at its largest.
    pub least_loss: f64,
    given: Filled,
    switches: Vec<Switch>,
}

/// What orders values by how sure they are: the probability, and where that is small, how near they come.
fn order(fits: f64, near: f64) -> f64 {
    if fits < LIKELY { near * LIKELY } else { fits }
}

/// Looks for values under a posterior.
pub(super) struct Optimiser<'a> {
    particles: Vec<Particle>,
    view: &'a Ascent<'a>,
    model_cache: ModelCache<'a>,
    checker: Checker<'a>,
    node: &'a NodeResources<'a>,
    /// What attempts that the host killed needed at least, over what they were expected to need.
    host_factor: f64,
    /// Values that an attempt had which died: they are not tried again, whatever the model makes of it.
    died: Vec<Values>,
    engine: EngineRoom,
    shares: prices::Shares,
}

impl<'a> Optimiser<'a> {
    /// With what the attempts so far have told.
    pub fn new(
        view: &'a Ascent<'a>,
        posterior: &Posterior,
        model_cache: ModelCache<'a>,
        checker: Checker<'a>,
        node: &'a NodeResources<'a>,
        failed: &[FailedAttempt<'_>],
        died: Vec<Values>,
    ) -> Self {
        Self {
            particles: posterior.particles.clone(),
            view,
            model_cache,
            checker,
            node,
            host_factor: host_factor(failed),
            died,
            engine: posterior.engine,
            shares: prices::Shares::default(),
        }
    }

    /// The job with these values.
    pub fn spec(&mut self, values: &Values) -> Option<Spec> {
        Some(self.model_cache.job(values)?.spec.clone())
    }

    /// Need of host memory with these values; `None` where the model cannot be asked.
    pub fn host(&mut self, values: &Values) -> Option<f64> {
        let job = self.model_cache.job(values)?;
        let gpus = self.node.gpus(in_values(values));
        Some(HostNeed::with(job.host_bytes, gpus).bytes() * self.host_factor)
    }

    /// Whether an attempt had these very values and died.
    pub fn died(&self, values: &Values) -> bool {
        self.died.contains(values)
    }

    /// Probability that these values fit, on the GPUs and on their nodes.
    pub fn fits(&mut self, values: &Values) -> f64 {
        let Some(job) = self.model_cache.job(values) else {
            return 0.0;
        };
        job.fits(&self.particles) * self.beside(&job, values)
    }

    /// Whether that is as much as `bound`.
    fn reaches(&mut self, values: &Values, bound: f64) -> bool {
        if self.died(values) {
            return false;
        }
        let Some(job) = self.model_cache.job(values) else {
            return 0.0 >= bound;
        };
        let beside = self.beside(&job, values);
        job.fits(&self.particles) * beside >= bound
    }

    /// Whether it is for the GPUs alone.
    fn fits_gpu(&mut self, values: &Values, bound: f64) -> bool {
        let job = self.model_cache.job(values);
        job.is_some_and(|job| job.fits(&self.particles) >= bound)
    }

    /// Whether the model's interval, whatever attempts have told, leaves room for these values.
    pub fn might(&mut self, values: &Values) -> bool {
        let Some(job) = self.model_cache.job(values) else {
            return false;
        };
        let total = job.spec.gpu_bytes.unwrap_or(0.0);
        let phases = estimate(&job.spec, self.view.outlook.profile).phases;
        let least = phases.iter().map(|p| p.low_bytes).fold(0.0, f64::max);
        least <= total && self.beside(&job, values) > HOPELESS
    }

    /// How near these values come to fitting, host and engine included.
    fn near(&mut self, values: &Values) -> f64 {
        let Some(job) = self.model_cache.job(values) else {
            return 0.0;
        };
        job.near(&self.particles) * self.beside(&job, values)
    }

    /// Probability that the host has room and the engine starts.
    fn beside(&self, job: &ModelledJob, values: &Values) -> f64 {
        let host = self.node.limit(in_values(values)).map_or(1.0, |limit| {
            let gpus = self.node.gpus(in_values(values));
            HostNeed::with(job.host_bytes, gpus).fits(limit, self.host_factor)
        });
        host * self.engine.fits(&job.spec)
    }

    /// The filling that costs least and fits with probability `min_fit_probability`; none that costs more than `most`.
    pub fn cheapest(
        &mut self,
        present: &Values,
        reach: &SearchBounds,
        min_fit_probability: f64,
        most: f64,
    ) -> Option<Filled> {
        let ends = self.all_ends(reach, present);
        // Most combinations are too large with every number at its least; what lies between is asked for by the others.
        let mut whole: Option<Vec<SpeedKnob>> = None;
        let mut cheapest: Option<Filled> = None;
        // Less is not always surer: an engine may have too little at the least of its share, and a smaller micro batch
        // leaves gradients of earlier ones beside it.
        let mut between = false;
        for (switches, loss) in combinations(&reach.switches) {
            let bound = cheapest.as_ref().map_or(most, |c| c.loss);
            if loss >= bound {
                break;
            }
            let Some(mut given) = self.given(present, &switches, loss) else {
                continue;
            };
            if self.reaches(&given.values, min_fit_probability) {
                given.fits = self.fits(&given.values);
                if !reach.numbers.iter().any(SpeedKnob::grows) {
                    return Some(given);
                }
                cheapest = Some(given.clone());
            }
            let numbers = self.free(&ends, &switches, &given.values);
            let values = lowest(&given.values, &numbers);
            if !self.reaches(&values, min_fit_probability) {
                between |= self.fits_gpu(&values, min_fit_probability * NEARLY);
                continue;
            }
            let least = self.least(&given, &numbers);
            let whole = whole.get_or_insert_with(|| self.whole(reach, present));
            let numbers = self.free(whole, &switches, &given.values);
            let Some(numbers) = self.bounded(&least, &numbers, min_fit_probability, bound - loss)
            else {
                continue;
            };
            let raised = self.raise(&least, &numbers, min_fit_probability);
            let loss = given.loss + raised.lost;
            if loss < cheapest.as_ref().map_or(most, |c| c.loss) {
                cheapest = Some(self.judged(raised.values, loss));
            }
        }
        cheapest.or_else(|| {
            let nearest = between.then(|| self.nearest(present, reach))??;
            Some(self.surest(nearest, present, reach)).filter(|f| f.fits >= min_fit_probability)
        })
    }

    /// The combination of switches that fits best with every number at its least.
    pub fn nearest(&mut self, present: &Values, reach: &SearchBounds) -> Option<Nearest> {
        let ends = self.all_ends(reach, present);
        let mut nearest: Option<Nearest> = None;
        for (switches, loss) in combinations(&reach.switches) {
            let Some(given) = self.given(present, &switches, loss) else {
                continue;
            };
            let numbers = self.free(&ends, &switches, &given.values);
            let least = self.least(&given, &numbers);
            // Of those that come as near, the last saves most, of whatever is not known.
            let nearer = |n: &Nearest| match least.fits < LIKELY {
                true => least.order() >= n.least.order() * SAME,
                false => least.order() > n.least.order(),
            };
            if nearest.as_ref().is_none_or(nearer) {
                let largest = numbers.iter().map(SpeedKnob::least_loss);
                nearest = Some(Nearest {
                    least,
                    least_loss: loss + largest.sum::<f64>(),
                    given,
                    switches: switches.into_iter().cloned().collect(),
                });
            }
        }
        nearest
    }

    /// The same with what does not matter as it is.
    pub fn surest(&mut self, nearest: Nearest, present: &Values, reach: &SearchBounds) -> Filled {
        let least = nearest.least;
        let filled = match least.fits > HOPELESS {
            true => {
                let whole = self.whole(reach, present);
                let switches: Vec<&Switch> = nearest.switches.iter().collect();
                let numbers = self.free(&whole, &switches, &nearest.given.values);
                let raised = self.raise(&least, &numbers, least.order() * ALMOST);
                self.judged(raised.values, nearest.given.loss + raised.lost)
            }
            false => least,
        };
        self.with_unseen(filled, &reach.switches)
    }

    /// The present values with switches on, not judged yet; `None` where that breaks a rule.
    fn given(&mut self, present: &Values, switches: &[&Switch], loss: f64) -> Option<Filled> {
        let values = self.switched(present, switches);
        let broken = |s: &&Switch| self.checker.broken_by(&s.knob, &values).is_some();
        (!switches.iter().any(broken)).then_some(Filled {
            values,
            fits: 0.0,
            loss,
            near: 0.0,
        })
    }

    /// The same with those switches on of which the model sees nothing: they may help, and it is an attempt at best.
    fn with_unseen(&mut self, mut filled: Filled, switches: &[Switch]) -> Filled {
        let Some(job) = self.model_cache.job(&filled.values) else {
            return filled;
        };
        for switch in switches {
            let values = self.switched(&filled.values, &[switch]);
            let unseen = self
                .model_cache
                .job(&values)
                .is_some_and(|j| Rc::ptr_eq(&j, &job));
            if unseen && self.checker.broken_by(&switch.knob, &values).is_none() {
                filled.values = values;
                filled.loss += switch.loss;
            }
        }
        filled
    }

    /// Values with switches on, and as much host memory as they then need.
    fn switched(&mut self, present: &Values, switches: &[&Switch]) -> Values {
        let mut values = present.clone();
        for switch in switches {
            values.set(&switch.knob, switch.to.clone());
            for (knob, value) in &switch.along {
                values.set(knob, value.clone());
            }
        }
        let Some(knob) = self.node.knob() else {
            return values;
        };
        let asked = match values.get(knob) {
            Some(Value::Text(text)) => Bytes::parse(text).map_or(0, |b| b.0),
            _ => 0,
        };
        if let (true, Some(most), Some(need)) = (asked > 0, self.node.most, self.host(&values)) {
            let wanted = (need * HOST_MARGIN).min(most);
            if wanted > asked as f64 {
                values.set(knob, Value::Text(slurm_mem(wanted)));
            }
        }
        values
    }

    /// Every number at its least.
    fn least(&mut self, given: &Filled, numbers: &[SpeedKnob]) -> Filled {
        let values = lowest(&given.values, numbers);
        let loss = given.loss + loss(numbers, &values);
        self.judged(values, loss)
    }

    /// Values that cost this much, with how surely they fit.
    fn judged(&mut self, values: Values, loss: f64) -> Filled {
        Filled {
            fits: self.fits(&values),
            near: self.near(&values),
            loss,
            values,
        }
    }
}

/// Values with every number at its least.
fn lowest(given: &Values, numbers: &[SpeedKnob]) -> Values {
    let mut values = given.clone();
    for number in numbers {
        let last = number.values.last().cloned().unwrap_or(Value::Null);
        values.set(&number.knob, last);
    }
    values
}

/// Loss by all numbers.
fn loss(numbers: &[SpeedKnob], values: &Values) -> f64 {
    let of = |n: &SpeedKnob| values.get(&n.knob).map_or(0.0, |v| n.loss(v));
    numbers.iter().map(of).sum()
}
