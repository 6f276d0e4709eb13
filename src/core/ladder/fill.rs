//! The largest values, and the fewest switches, with which a configuration fits.

mod prices;
mod ranges;

use std::collections::BTreeMap;
use std::rc::Rc;

use super::ascend::{Told, View, host_factor};
use super::engine_room::EngineRoom;
use super::forecast::Forecast;
use super::gauge::{Gauge, Gauged};
use super::host::{HostNeed, Node, in_map};
use super::numbers::Number;
use super::reach::{Reach, Switch, combinations};
use crate::core::memory::{Spec, estimate};
use crate::core::recipe::{Checker, Value};
use crate::core::units::Bytes;

/// Probability below which nothing is given up for speed, and the guesses are too few to tell one from another.
const LIKELY: f64 = 0.5;
/// Probability below which no value is worth more than another.
const HOPELESS: f64 = 0.01;
/// Numbers that are tried as the first to be raised, and a loss that is not worth it.
const MOST_FIRSTS: usize = 2;
const NO_LOSS: f64 = 0.03;
/// Part of the best probability with which values count as no less sure.
const ALMOST: f64 = 0.97;
/// Share of host memory that a job asks for beyond what it is expected to need.
const HOST_MARGIN: f64 = 1.25;

/// Values with what is expected of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filled {
    /// Values of all knobs under trial.
    pub values: BTreeMap<String, Value>,
    /// Probability to fit, host memory included.
    pub fits: f64,
    /// Loss of speed against the values that were given, as a logarithm.
    pub loss: f64,
    /// How near it comes where it is not likely to fit, from 0 to 1.
    near: f64,
}

impl Filled {
    /// The surer, the larger.
    pub fn order(&self) -> f64 {
        order(self.fits, || self.near)
    }
}

/// What orders values by how sure they are: the probability, and where that is small, how near they come.
fn order(fits: f64, near: impl FnOnce() -> f64) -> f64 {
    if fits < LIKELY { near() * LIKELY } else { fits }
}

/// Looks for values under a forecast.
pub(super) struct Filler<'a> {
    forecast: &'a Forecast,
    view: &'a View<'a>,
    gauge: Gauge<'a>,
    checker: Checker<'a>,
    node: &'a Node<'a>,
    /// What attempts that the host killed needed at least, over what they were expected to need.
    host_factor: f64,
    engine: EngineRoom,
    shares: prices::Shares,
}

impl<'a> Filler<'a> {
    /// With what the attempts so far have told.
    pub fn new(
        view: &'a View<'a>,
        forecast: &'a Forecast,
        gauge: Gauge<'a>,
        checker: Checker<'a>,
        node: &'a Node<'a>,
        told: &[Told<'_>],
    ) -> Self {
        let mut engine = EngineRoom::default();
        for attempt in told {
            engine.learn(&attempt.spec, attempt.incident);
        }
        Self {
            forecast,
            view,
            gauge,
            checker,
            node,
            host_factor: host_factor(told),
            engine,
            shares: prices::Shares::default(),
        }
    }

    /// The job with these values.
    pub fn spec(&mut self, values: &BTreeMap<String, Value>) -> Option<Spec> {
        Some(self.gauge.job(values)?.spec.clone())
    }

    /// Need of host memory with these values; `None` where the model cannot be asked.
    pub fn host(&mut self, values: &BTreeMap<String, Value>) -> Option<f64> {
        let job = self.gauge.job(values)?;
        let gpus = self.node.gpus(in_map(values));
        Some(HostNeed::with(job.host_bytes, gpus).bytes() * self.host_factor)
    }

    /// Probability that these values fit, on the GPUs and on their nodes.
    pub fn fits(&mut self, values: &BTreeMap<String, Value>) -> f64 {
        let Some(job) = self.gauge.job(values) else {
            return 0.0;
        };
        job.fits(self.forecast) * self.beside(&job, values)
    }

    /// Whether that is as much as `bound`.
    fn reaches(&mut self, values: &BTreeMap<String, Value>, bound: f64) -> bool {
        let Some(job) = self.gauge.job(values) else {
            return 0.0 >= bound;
        };
        let beside = self.beside(&job, values);
        job.reaches(self.forecast, |fits| fits * beside >= bound)
    }

    /// Whether the model's interval, whatever attempts have told, leaves room for these values.
    pub fn might(&mut self, values: &BTreeMap<String, Value>) -> bool {
        let Some(job) = self.gauge.job(values) else {
            return false;
        };
        let total = job.spec.gpu_bytes.unwrap_or(0.0);
        let phases = estimate(&job.spec, self.view.outlook.profile).phases;
        let least = phases.iter().map(|p| p.low_bytes).fold(0.0, f64::max);
        least <= total && self.beside(&job, values) > HOPELESS
    }

    /// How near these values come to fitting, host and engine included.
    fn near(&mut self, values: &BTreeMap<String, Value>) -> f64 {
        let Some(job) = self.gauge.job(values) else {
            return 0.0;
        };
        job.near(self.forecast) * self.beside(&job, values)
    }

    /// Probability that the host has room and the engine starts.
    fn beside(&self, job: &Gauged, values: &BTreeMap<String, Value>) -> f64 {
        let host = self.node.limit(in_map(values)).map_or(1.0, |limit| {
            let gpus = self.node.gpus(in_map(values));
            HostNeed::with(job.host_bytes, gpus).fits(limit, self.host_factor)
        });
        host * self.engine.fits(&job.spec)
    }

    /// The filling that costs least and fits with probability `risk`, and the one that fits best; nothing
    /// that costs more than `most`.
    pub fn fill(
        &mut self,
        present: &BTreeMap<String, Value>,
        reach: &Reach,
        risk: f64,
        most: f64,
    ) -> Vec<Filled> {
        let ends = reach.numbers.iter();
        let ends: Vec<Number> = ends.filter_map(|n| self.ends(n, present)).collect();
        // Most combinations are too large with every number at its least; what lies between is asked for by the others.
        let mut whole: Option<Vec<Number>> = None;
        let mut cheapest: Option<Filled> = None;
        let mut surest: Option<(Filled, Filled, Vec<&Switch>)> = None;
        for (switches, loss) in combinations(&reach.switches) {
            let bound = cheapest.as_ref().map_or(most, |c| c.loss);
            if loss >= bound {
                break;
            }
            let values = self.switched(present, &switches);
            let broken = |s: &&Switch| self.checker.broken_by(&s.knob, &values).is_some();
            if switches.iter().any(broken) {
                continue;
            }
            let given = Filled {
                fits: self.fits(&values),
                values,
                loss,
                near: 0.0,
            };
            if given.fits >= risk {
                cheapest = Some(given);
                break;
            }
            let least = self.free(&ends, &switches, &given.values);
            let least = self.least(&given, &least);
            if least.fits >= risk {
                let whole = whole.get_or_insert_with(|| self.whole(reach, present));
                let numbers = self.free(whole, &switches, &given.values);
                let numbers = self.bounded(&least, &numbers, risk);
                let lost: f64 = numbers.iter().map(Number::least_loss).sum();
                if loss + lost >= bound {
                    continue;
                }
                let raised = self.raise(&least, &given, &numbers, risk);
                if raised.loss < bound {
                    cheapest = Some(raised);
                }
            }
            let surer = |(s, _, _): &(Filled, Filled, Vec<&Switch>)| least.order() > s.order();
            if cheapest.is_none() && surest.as_ref().is_none_or(surer) {
                surest = Some((least, given, switches));
            }
        }
        // Where it is an attempt at best, what does not matter stays as it is.
        let surest = surest.filter(|_| cheapest.is_none());
        let surest = surest.map(|(least, given, switches)| match least.fits > HOPELESS {
            true => {
                let whole = whole.unwrap_or_else(|| self.whole(reach, present));
                let numbers = self.free(&whole, &switches, &given.values);
                self.raise(&least, &given, &numbers, least.order() * ALMOST)
            }
            false => least,
        });
        let surest = surest.map(|filled| self.with_unseen(filled, &reach.switches));
        cheapest.into_iter().chain(surest).collect()
    }

    /// The same with those switches on of which the model sees nothing: they may help, and it is an attempt at best.
    fn with_unseen(&mut self, mut filled: Filled, switches: &[Switch]) -> Filled {
        let Some(job) = self.gauge.job(&filled.values) else {
            return filled;
        };
        for switch in switches {
            let values = self.switched(&filled.values, &[switch]);
            let unseen = self
                .gauge
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
    fn switched(
        &mut self,
        present: &BTreeMap<String, Value>,
        switches: &[&Switch],
    ) -> BTreeMap<String, Value> {
        let mut values = present.clone();
        for switch in switches {
            values.insert(switch.knob.clone(), switch.to.clone());
            values.extend(switch.along.iter().cloned());
        }
        let Some(knob) = self.node.knob().filter(|k| values.contains_key(*k)) else {
            return values;
        };
        let asked = match &values[knob] {
            Value::Text(text) => Bytes::parse(text).map_or(0, |b| b.0),
            _ => 0,
        };
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bytes of a node"
        )]
        if let (true, Some(most), Some(need)) = (asked > 0, self.node.most, self.host(&values)) {
            let wanted = (need * HOST_MARGIN).min(most);
            if wanted > asked as f64 {
                let mib = (wanted / f64::from(1 << 20)) as u64;
                values.insert(knob.to_owned(), Value::Text(format!("{mib}M")));
            }
        }
        values
    }

    /// Every number at its least.
    fn least(&mut self, given: &Filled, numbers: &[Number]) -> Filled {
        let mut values = given.values.clone();
        for number in numbers {
            let last = number.values.last().cloned().unwrap_or(Value::Null);
            values.insert(number.knob.clone(), last);
        }
        let fits = self.fits(&values);
        Filled {
            fits,
            near: if fits < LIKELY {
                self.near(&values)
            } else {
                fits
            },
            loss: given.loss + loss(numbers, &values),
            values,
        }
    }

    /// Numbers without those values that are not sure enough even while the others are at their least.
    fn bounded(&mut self, least: &Filled, numbers: &[Number], risk: f64) -> Vec<Number> {
        let bounded = |number: &Number| {
            let mut values = least.values.clone();
            self.largest(&mut values, number, risk);
            number.clone().up_to(&values[&number.knob])
        };
        numbers.iter().map(bounded).collect()
    }

    /// Numbers as large as they may be, from their least. Each gets an equal part of the doubt that is allowed, then
    /// what is left of it, the one that costs most first; or one of them gets as much as it can use.
    fn raise(&mut self, least: &Filled, given: &Filled, numbers: &[Number], risk: f64) -> Filled {
        let mut order: Vec<&Number> = numbers.iter().collect();
        let cost = |n: &Number| n.values.last().map_or(0.0, |v| n.loss(v));
        order.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        #[expect(clippy::cast_precision_loss, reason = "a few knobs")]
        let parts = |i: usize| (i + 1) as f64 / order.len() as f64;
        let sure = least.order();
        let bound = |i| sure - (sure - risk) * parts(i);
        let all = order.iter().chain(&order).copied().enumerate();
        let shared = all.map(|(i, n)| (n, if i < order.len() { bound(i) } else { risk }));
        let shared: Vec<(&Number, f64)> = shared.collect();
        let mut best = self.raised(least, given, &shared);
        for first in order.iter().take(MOST_FIRSTS) {
            if best.loss <= given.loss + NO_LOSS {
                break;
            }
            let rest = order.iter().filter(|n| n.knob != first.knob);
            let all = std::iter::once(first).chain(rest).map(|n| (*n, risk));
            let other = self.raised(least, given, &all.collect::<Vec<_>>());
            if other.loss < best.loss {
                best = other;
            }
        }
        best
    }

    /// Numbers from their least, one after the other, each as large as it may be with a probability.
    fn raised(&mut self, least: &Filled, given: &Filled, order: &[(&Number, f64)]) -> Filled {
        let mut values = least.values.clone();
        for (number, bound) in order {
            self.largest(&mut values, number, *bound);
        }
        let fits = self.fits(&values);
        let near = if fits < LIKELY {
            self.near(&values)
        } else {
            fits
        };
        let lost = order.iter().map(|(n, _)| (n.knob.as_str(), *n));
        let lost: BTreeMap<&str, &Number> = lost.collect();
        let of = |n: &&Number| values.get(&n.knob).map_or(0.0, |v| n.loss(v));
        Filled {
            fits,
            near,
            loss: given.loss + lost.values().map(of).sum::<f64>(),
            values,
        }
    }

    /// Sets a number to its largest value that is as sure as `bound`, in the order of `Filled::order`.
    fn largest(&mut self, values: &mut BTreeMap<String, Value>, number: &Number, bound: f64) {
        let has = values.get(&number.knob);
        let Some(mut high) = number.values.iter().position(|v| Some(v) == has) else {
            return;
        };
        let mut low = number.largest();
        while low < high {
            let middle = usize::midpoint(low, high);
            values.insert(number.knob.clone(), number.values[middle].clone());
            let sure = match bound < LIKELY {
                true => self.near(values) * LIKELY >= bound,
                false => self.reaches(values, bound),
            };
            if sure {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        values.insert(number.knob.clone(), number.values[high].clone());
    }
}

/// Loss by all numbers.
fn loss(numbers: &[Number], values: &BTreeMap<String, Value>) -> f64 {
    let of = |n: &Number| values.get(&n.knob).map_or(0.0, |v| n.loss(v));
    numbers.iter().map(of).sum()
}
