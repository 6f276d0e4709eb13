//! Configurations of experiment and hardware that were looked at, and what they can be filled with.

use super::bounds::SearchBounds;
use super::optimiser::{Filled, Nearest, Optimiser};
use super::successors::SearchState;
use crate::core::recipe::Values;

/// Part of the best that is as good where nothing is as sure as was asked.
const HARDLY: f64 = 0.8;

/// A state that is looked at.
pub(super) struct SearchNode {
    /// It.
    pub state: SearchState,
    /// Values of the knobs under trial.
    pub values: Values,
    /// What can be moved from there: by what answers this failure, and where that may not be enough, by more.
    pub reaches: Vec<SearchBounds>,
    /// Values at which the GPUs are most surely enough with all of it.
    pub best: Vec<Values>,
}

/// What a state was filled with.
pub(super) struct FilledCandidate<'a> {
    /// Cost, as of states; the least that it can come to while there is more to gain.
    pub cost: f64,
    /// The values.
    pub filled: Filled,
    /// The state's number.
    pub state: usize,
    /// What is left to be looked at: how much of what does not matter can stay as it is.
    more: Option<(&'a SearchNode, &'a SearchBounds, Nearest)>,
    /// It was tried.
    tried: bool,
}

impl<'a> FilledCandidate<'a> {
    /// Of the state with this number.
    pub fn of(filled: Filled, search_node: &SearchNode, number: usize) -> Self {
        Self {
            cost: search_node.state.cost + filled.loss,
            filled,
            state: number,
            more: None,
            tried: false,
        }
    }

    /// What comes nearest in a state.
    fn near(
        nearest: Nearest,
        search_node: &'a SearchNode,
        reach: &'a SearchBounds,
        number: usize,
    ) -> Self {
        Self {
            cost: search_node.state.cost + nearest.least_loss,
            filled: nearest.least.clone(),
            state: number,
            more: Some((search_node, reach, nearest)),
            tried: false,
        }
    }

    /// Looks at what is left; whether there was anything.
    fn settle(&mut self, optimiser: &mut Optimiser<'_>) -> bool {
        let Some((search_node, reach, nearest)) = self.more.take() else {
            return false;
        };
        let filled = optimiser.surest(nearest, &search_node.values, reach);
        *self = Self::of(filled, search_node, self.state);
        true
    }
}

/// From where on others come about as near as the nearest of these, as `Filled::order`.
fn about_as_near<'a>(filled: impl Iterator<Item = &'a Filled>) -> f64 {
    filled.map(Filled::order).fold(0.0, f64::max) * HARDLY * HARDLY
}

/// What is tried where nothing is likely: of those that come about as near as any, what gives up most, for it saves most of
/// whatever is not known.
fn last_resort(found: &[FilledCandidate<'_>]) -> Option<usize> {
    let least = about_as_near(found.iter().map(|c| &c.filled));
    let near = (0..found.len()).filter(|at| found[*at].filled.order() >= least);
    near.max_by(|a, b| found[*a].cost.total_cmp(&found[*b].cost))
}

/// What may be tried where nothing is sure enough.
pub(super) struct Unsure<'a> {
    found: Vec<FilledCandidate<'a>>,
    min_fit_probability: f64,
}

impl<'a> Unsure<'a> {
    /// Beside what was `found` and tried in vain, what comes nearest in each of the other states, by what answers this failure
    /// and by more.
    pub fn new(
        mut found: Vec<FilledCandidate<'a>>,
        done: &'a [SearchNode],
        optimiser: &mut Optimiser<'_>,
        min_fit_probability: f64,
    ) -> Self {
        let others = nearest(done, &found, optimiser);
        for candidate in &mut found {
            candidate.tried = true;
        }
        found.extend(others);
        Self {
            found,
            min_fit_probability,
        }
    }

    /// The next one that fits with this probability at least: the cheapest of those that are sure enough, then of those
    /// that are about as sure as the surest, for hardly surer is not worth another experiment; then the surest.
    pub fn next(
        &mut self,
        worth: f64,
        optimiser: &mut Optimiser<'_>,
    ) -> Option<&FilledCandidate<'a>> {
        let next = loop {
            let at = self.first(worth)?;
            if !self.found[at].settle(optimiser) {
                break &mut self.found[at];
            }
        };
        next.tried = true;
        Some(next)
    }

    fn first(&self, worth: f64) -> Option<usize> {
        let best = self.found.iter().map(|c| c.filled.order());
        let best = best.fold(0.0, f64::max);
        let rank = |c: &FilledCandidate<'_>| match c.filled.fits {
            fits if fits >= self.min_fit_probability => 0,
            _ if c.filled.order() >= best * HARDLY => 1,
            _ => 2,
        };
        let found = self.found.iter().enumerate();
        let open = found.filter(|(_, c)| !c.tried && c.filled.fits >= worth);
        let first = open.min_by(|(_, a), (_, b)| {
            let (x, y) = (rank(a), rank(b));
            let surer = || b.filled.order().total_cmp(&a.filled.order());
            x.cmp(&y).then_with(|| match x {
                2 => surer(),
                _ => a.cost.total_cmp(&b.cost),
            })
        });
        first.map(|(at, _)| at)
    }

    /// What is tried at last.
    pub fn last(&mut self, optimiser: &mut Optimiser<'_>) -> Option<&FilledCandidate<'a>> {
        let last = last_resort(&self.found)?;
        self.found[last].settle(optimiser);
        self.found.get(last)
    }

    /// The surest of all.
    pub fn surest(&self) -> Option<&FilledCandidate<'a>> {
        let order = |c: &FilledCandidate<'_>| c.filled.order();
        self.found
            .iter()
            .max_by(|a, b| order(a).total_cmp(&order(b)))
    }
}

/// What comes nearest in each state of which nothing was found. Those that others leave far behind are not looked at any
/// closer.
fn nearest<'a>(
    done: &'a [SearchNode],
    found: &[FilledCandidate<'_>],
    optimiser: &mut Optimiser<'_>,
) -> Vec<FilledCandidate<'a>> {
    let states = done.iter().enumerate();
    let states = states.filter(|(at, _)| found.iter().all(|c| c.state != *at));
    let states =
        states.map(|(at, search_node)| (at, search_node, optimiser.at_best(&search_node.best)));
    let mut states: Vec<(usize, &SearchNode, f64)> = states.collect();
    states.sort_by(|(.., a), (.., b)| b.total_cmp(a));
    let mut near: Vec<FilledCandidate<'a>> = Vec::new();
    for (at, search_node, at_best) in states {
        if at_best < about_as_near(near.iter().map(|c| &c.filled)) {
            break;
        }
        for reach in &search_node.reaches {
            let nearest = optimiser.nearest(&search_node.values, reach);
            near.extend(
                nearest.map(|nearest| FilledCandidate::near(nearest, search_node, reach, at)),
            );
        }
    }
    // In the order of the states, for of equals the last is the surest.
    near.sort_by_key(|c| c.state);
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(cost: f64, near: f64) -> FilledCandidate<'static> {
        FilledCandidate {
            cost,
            filled: Filled {
                values: Values::default(),
                fits: 0.0,
                loss: 0.0,
                near,
            },
            state: 0,
            more: None,
            tried: false,
        }
    }

    #[test]
    fn the_last_resort_gives_up_most_of_what_comes_about_as_near() {
        let found = [
            candidate(0.5, 0.08),
            candidate(17.0, 0.06),
            candidate(33.0, 0.03),
            candidate(0.2, 0.07),
        ];
        assert_eq!(last_resort(&found), Some(1));
        assert!(last_resort(&[]).is_none());
    }
}
