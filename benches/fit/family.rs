//! The families of truth, and a truth of each for a job.

use super::first::{First, Hidden};
use super::models::Model;
use super::outcome::Truth;
use super::rng::Rng;
use super::second::Second;
use super::second::nature::Nature;
use super::setup::Setup;

/// Which formulas a case's truth is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    First,
    Second,
}

impl Family {
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
        }
    }

    /// A truth for a job as it starts, and whether its update computes an entropy.
    pub fn draw(
        self,
        rng: &mut Rng,
        model: &'static Model,
        start: &Setup,
        card: f64,
        surprised: bool,
    ) -> (Box<dyn Truth>, bool) {
        match self {
            Self::First => {
                let mut hidden = Hidden::draw(rng, start, card);
                if surprised {
                    hidden.surprise(rng);
                }
                let entropy = hidden.entropy;
                (Box::new(First { model, hidden }), entropy)
            }
            Self::Second => {
                let nature = Nature::draw(rng, start, card, surprised);
                let late = false;
                let truth = Second {
                    model,
                    nature,
                    late,
                };
                (Box::new(truth), rng.chance(0.3))
            }
        }
    }
}
