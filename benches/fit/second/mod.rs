//! The second family of truth: a decoder's modules walked operator by operator through a caching allocator.
//!
//! Rule: it knows knobs and a model's dimensions, and nothing of the first family nor of the product's memory
//! model (`truths.rs` looks at the imports). Its numbers are read off sources and published measurements.

pub mod allocator;
mod back;
pub mod engine;
mod gradients;
pub mod head;
mod host;
pub mod layer;
pub mod log;
pub mod memory;
pub mod nature;
mod pace;
pub mod plan;
mod run;
pub mod train;

use super::models::Model;
use super::outcome::{Outcome, Part, Peaks, Truth};
use super::setup::Setup;
use nature::{Nature, Surprise};
use plan::{Pass, Plan};
use run::Site;

/// A job of this family.
#[derive(Debug, Clone)]
pub struct Second {
    pub model: &'static Model,
    pub nature: Nature,
    /// All that grows has grown.
    pub late: bool,
}

impl Second {
    pub fn site<'a>(&'a self, setup: &'a Setup) -> Site<'a> {
        Site {
            plan: Plan {
                model: self.model,
                setup,
                nature: &self.nature,
                late: self.late,
            },
            endless: false,
        }
    }
}

impl Truth for Second {
    fn run(&self, setup: &Setup) -> Outcome {
        self.site(setup).run()
    }

    fn fits(&self, setup: &Setup) -> bool {
        self.site(setup).fits()
    }

    fn holds(&self, setup: &Setup, part: Part) -> bool {
        let site = self.site(setup);
        match part {
            Part::Update => site.update_holds(),
            Part::OldLogprob => site.evaluates(Pass::Old),
            Part::RefLogprob => !setup.reference || site.evaluates(Pass::Reference),
        }
    }

    fn starts(&self, setup: &Setup) -> bool {
        self.site(setup).engine().start().is_ok()
    }

    fn wakes(&self, setup: &Setup) -> bool {
        self.site(setup).engine().wake(true).is_ok()
    }

    fn speed(&self, setup: &Setup) -> f64 {
        let (seconds, tokens) = pace::step(self.site(setup).plan);
        tokens / seconds / (setup.gpus_per_node * setup.nodes) as f64
    }

    fn needs(&self, setup: &Setup) -> Peaks {
        let mut late = self.clone();
        late.late = true;
        let mut site = late.site(setup);
        site.endless = true;
        site.needs()
    }

    fn late(&self) -> Box<dyn Truth> {
        Box::new(Self {
            late: true,
            ..self.clone()
        })
    }

    fn unknown(&self) -> String {
        let told = match self.nature.surprise {
            None => "",
            Some(Surprise::Neighbour(_)) => "neighbour",
            Some(Surprise::Leak(_)) => "leak",
            Some(Surprise::Growth(_)) => "growth",
            Some(Surprise::Eager) => "eager",
            Some(Surprise::Kept(_)) => "buffers",
            Some(Surprise::Reference) => "referencecopy",
            Some(Surprise::Contexts(_)) => "context",
        };
        told.to_owned()
    }

    fn told(&self) -> String {
        let without = Nature {
            lengths: Vec::new(),
            ..self.nature.clone()
        };
        format!("{without:?}")
    }
}
