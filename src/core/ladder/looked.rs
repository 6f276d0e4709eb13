//! Configurations of experiment and hardware that were looked at, and what they can be filled with.

use super::fill::{Filled, Filler, Nearest};
use super::laps::State;
use super::reach::Reach;
use crate::core::recipe::Values;

/// Part of the best that is as good where nothing is as sure as was asked.
pub(super) const HARDLY: f64 = 0.8;

/// A state that is looked at.
pub(super) struct Looked {
    /// It.
    pub state: State,
    /// Values of the knobs under trial.
    pub values: Values,
    /// What can be moved from there: by what answers this failure, and where that may not be enough, by more.
    pub reaches: Vec<Reach>,
    /// How surely the GPUs are enough with all of it, as `Filled::order`.
    pub at_best: f64,
}

/// What a state was filled with.
pub(super) struct Candidate {
    /// Cost, as of states.
    pub cost: f64,
    /// The values.
    pub filled: Filled,
    /// The state's number.
    pub state: usize,
}

impl Candidate {
    /// Of the state with this number.
    pub fn of(filled: Filled, state: &State, number: usize) -> Self {
        Self {
            cost: state.cost + filled.loss,
            filled,
            state: number,
        }
    }
}

/// From where on others come about as near as the nearest of these, as `Filled::order`.
fn about_as_near<'a>(filled: impl Iterator<Item = &'a Filled>) -> f64 {
    filled.map(Filled::order).fold(0.0, f64::max) * HARDLY * HARDLY
}

/// What is tried where nothing is likely: of those that come about as near as any, what gives up most, for it saves most of
/// whatever is not known.
pub(super) fn last_resort(found: &[Candidate]) -> Option<&Candidate> {
    let least = about_as_near(found.iter().map(|c| &c.filled));
    let near = found.iter().filter(|c| c.filled.order() >= least);
    near.max_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// What comes nearest in each state where nothing is sure enough, by what answers this failure and by more. Those that
/// others leave far behind are not looked at any closer.
pub(super) fn unsure(
    done: &[Looked],
    found: &[Candidate],
    filler: &mut Filler<'_>,
) -> Vec<Candidate> {
    let states = done.iter().enumerate();
    let states = states.filter(|(at, _)| found.iter().all(|c| c.state != *at));
    let mut states: Vec<(usize, &Looked)> = states.collect();
    states.sort_by(|(_, a), (_, b)| b.at_best.total_cmp(&a.at_best));
    let far = |nearest: &[(usize, &Reach, Nearest)]| {
        about_as_near(nearest.iter().map(|(_, _, near)| &near.least))
    };
    let mut nearest: Vec<(usize, &Reach, Nearest)> = Vec::new();
    for (at, looked) in states {
        if looked.at_best < far(&nearest) {
            break;
        }
        for reach in &looked.reaches {
            let near = filler.nearest(&looked.values, reach);
            nearest.extend(near.map(|near| (at, reach, near)));
        }
    }
    // In the order of the states, for of equals the last is the surest.
    nearest.sort_by_key(|(at, ..)| *at);
    let worth = far(&nearest);
    let candidate = |(at, reach, near): (usize, &Reach, Nearest)| {
        let filled = match near.least.order() >= worth {
            true => filler.surest(near, &done[at].values, reach),
            false => near.least,
        };
        Candidate::of(filled, &done[at].state, at)
    };
    nearest.into_iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(cost: f64, near: f64) -> Candidate {
        Candidate {
            cost,
            filled: Filled {
                values: Values::default(),
                fits: 0.0,
                loss: 0.0,
                near,
            },
            state: 0,
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
        assert_eq!(last_resort(&found).map(|c| c.cost), Some(17.0));
        assert!(last_resort(&[]).is_none());
    }
}
