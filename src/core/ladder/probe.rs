//! Which configuration a short job tries next, on the way to the fastest one that fits.
//!
//! Pure: what may be tried and what came of what was tried in, the next one out.

use schemars::JsonSchema;
use serde::Serialize;

use super::tune::TuneCandidate;

/// The least share of a step's time that another probe must be expected to save.
pub const GAIN_MIN: f64 = 0.05;
/// Odds below which nothing is tried: it would rather die than fit.
pub const ODDS_MIN: f64 = 0.5;

/// A configuration of which it is known whether it fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// Names of the steps that it took, a name for each lap; none for the configuration that is started from.
    pub taken: Vec<String>,
    /// Share of a training step's time that was expected to be left.
    pub time: f64,
    /// Did it fit?
    pub fitted: bool,
    /// Seconds of a usual step, where its log told.
    pub step_s: Option<f64>,
}

/// Bounds of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeBounds {
    /// Probability to fit that is asked for.
    pub min_fit_probability: f64,
    /// Most probes.
    pub probes_max: usize,
}

/// Why nothing more is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Nothing that is not unlikely to fit saves enough.
    NothingToGain,
    /// As many probes as were asked for.
    ProbesSpent,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextProbe {
    /// Try this candidate.
    Probe(usize),
    /// Nothing more.
    Stop(Stop),
}

/// The next candidate: the fastest that fits with the probability that is asked for; where none is left, the one
/// whose gain is largest for its odds; and among those of which nothing is known the middle one, so that each
/// probe halves them. `tested` begins with the configuration that is started from.
pub fn next(candidates: &[TuneCandidate], tested: &[Tested], bounds: ProbeBounds) -> NextProbe {
    let pace = RelativePace::new(tested);
    let best = fastest(tested).map_or(1.0, |i| pace.of(&tested[i]));
    let open = candidates.iter().enumerate().filter_map(|(i, c)| {
        let taken = c.taken();
        let known = tested.iter().any(|t| match t.fitted {
            true => same(&t.taken, &taken),
            false => within(&t.taken, &taken),
        });
        let time = pace.expected(&taken, c.time);
        (!known && time <= best * (1.0 - GAIN_MIN)).then_some((i, c, time))
    });
    let mut open: Vec<(usize, &TuneCandidate, f64)> = open.collect();
    open.sort_by(|a, b| a.2.total_cmp(&b.2));
    let Some(next) = safe(&open, bounds.min_fit_probability)
        .or_else(|| worth(&open, best))
        .or_else(|| middle(&open))
    else {
        return NextProbe::Stop(Stop::NothingToGain);
    };
    match tested.len() > bounds.probes_max {
        true => NextProbe::Stop(Stop::ProbesSpent),
        false => NextProbe::Probe(next),
    }
}

/// The fastest of those that fitted: as measured, else as expected.
pub fn fastest(tested: &[Tested]) -> Option<usize> {
    let pace = RelativePace::new(tested);
    let fitted = tested.iter().enumerate().filter(|(_, t)| t.fitted);
    // Of two that are as fast the one that takes fewer steps.
    let order = |t: &Tested| (pace.of(t), t.taken.len());
    let best = fitted.min_by(|(_, a), (_, b)| {
        let (a, b) = (order(a), order(b));
        a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
    });
    best.map(|(i, _)| i)
}

/// Share of the time of a step of the configuration that is started from, for each: as measured, else as
/// expected.
pub fn times(tested: &[Tested]) -> Vec<f64> {
    let pace = RelativePace::new(tested);
    tested.iter().map(|t| pace.of(t)).collect()
}

type Open<'a> = [(usize, &'a TuneCandidate, f64)];

fn safe(open: &Open<'_>, min_fit_probability: f64) -> Option<usize> {
    let mut fastest = open.iter();
    let fits = |c: &TuneCandidate| c.fits_probability.is_some_and(|p| p >= min_fit_probability);
    fastest.find(|(_, c, _)| fits(c)).map(|(i, ..)| *i)
}

fn worth(open: &Open<'_>, best: f64) -> Option<usize> {
    let odds = open.iter().filter_map(|(i, c, time)| {
        let odds = c.fits_probability.filter(|p| *p >= ODDS_MIN)?;
        Some((*i, odds * (best - time)))
    });
    odds.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

fn middle(open: &Open<'_>) -> Option<usize> {
    let unknown: Vec<usize> = open
        .iter()
        .filter(|(_, c, _)| c.fits_probability.is_none())
        .map(|(i, ..)| *i)
        .collect();
    unknown.get(unknown.len().saturating_sub(1) / 2).copied()
}

/// How fast configurations are, as a share of the time of the one that is started from.
struct RelativePace<'a> {
    tested: &'a [Tested],
    /// Seconds of a step of the configuration that is started from.
    base_s: Option<f64>,
}

impl<'a> RelativePace<'a> {
    fn new(tested: &'a [Tested]) -> Self {
        let measured = |t: &Tested| Some(t.step_s? / t.time);
        Self {
            tested,
            base_s: tested.iter().find_map(measured),
        }
    }

    fn of(&self, tested: &Tested) -> f64 {
        self.measured(tested)
            .unwrap_or_else(|| self.expected(&tested.taken, tested.time))
    }

    fn measured(&self, tested: &Tested) -> Option<f64> {
        Some(tested.step_s? / self.base_s?)
    }

    /// What a preset's figures say, from the nearest configuration below that was measured.
    fn expected(&self, taken: &[String], time: f64) -> f64 {
        let below = self.tested.iter().filter(|t| within(&t.taken, taken));
        let nearest = below
            .filter_map(|t| Some((t.taken.len(), self.measured(t)? / t.time)))
            .max_by_key(|(steps, _)| *steps);
        nearest.map_or(time, |(_, slower)| time * slower)
    }
}

/// Does one take all steps of another, as often?
fn within(less: &[String], more: &[String]) -> bool {
    let laps = |of: &[String], name: &String| of.iter().filter(|n| *n == name).count();
    less.iter().all(|name| laps(less, name) <= laps(more, name))
}

fn same(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && within(a, b)
}

#[cfg(test)]
mod tests;
