//! The first family of truth: flat parameters, operators and copies of the logits, tensor by tensor.

pub mod allocator;
mod engine;
pub mod hidden;
mod incident;
mod operators;
mod phases;
mod speed;
pub mod trainer;
mod truth;

pub use hidden::Hidden;

use super::models::Model;
use super::outcome::{Outcome, Part, Peaks, Phase, Truth};
use super::setup::{Program, Setup};
use engine::Engine;
use hidden::Unknown;
use speed::Pace;
use trainer::Job;

/// A job of this family.
#[derive(Debug, Clone)]
pub struct First {
    pub model: &'static Model,
    pub hidden: Hidden,
}

impl First {
    fn job<'a>(&'a self, setup: &'a Setup) -> Job<'a> {
        Job {
            model: self.model,
            setup,
            hidden: &self.hidden,
        }
    }
}

impl Truth for First {
    fn run(&self, setup: &Setup) -> Outcome {
        truth::run(self.job(setup))
    }

    fn fits(&self, setup: &Setup) -> bool {
        truth::fits(self.job(setup))
    }

    fn holds(&self, setup: &Setup, part: Part) -> bool {
        let job = self.job(setup);
        match part {
            Part::Update => job.update().is_ok(),
            Part::OldLogprob => job.logprob(false, true).is_ok(),
            Part::RefLogprob => !setup.reference || job.logprob(true, true).is_ok(),
        }
    }

    fn starts(&self, setup: &Setup) -> bool {
        let job = self.job(setup);
        Engine(job).start(job.standing()).is_ok()
    }

    fn wakes(&self, setup: &Setup) -> bool {
        let job = self.job(setup);
        Engine(job).wake(job.standing(), true).is_ok()
    }

    fn speed(&self, setup: &Setup) -> f64 {
        Pace::of(self.job(setup)).speed(setup.world())
    }

    fn needs(&self, setup: &Setup) -> Peaks {
        let others = self.job(setup).others();
        let mut roomy = setup.clone();
        roomy.card = u64::MAX / 4;
        // Its share is one of the real GPU.
        roomy.share = 0.0;
        let job = self.job(&roomy);
        let old = (setup.program == Program::Grpo).then(|| job.logprob(false, true).ok());
        let old = old.flatten().map(|peak| (Phase::OldLogprob, peak));
        let update = job.update().into_iter().flatten();
        old.into_iter()
            .chain(update)
            .map(|(phase, peak)| (phase, peak.reserved + others))
            .collect()
    }

    fn late(&self) -> Box<dyn Truth> {
        let mut late = self.clone();
        if let Some(Unknown::Leak(bytes)) = late.hidden.unknown {
            // Room for all that will leak.
            late.hidden.unknown = Some(Unknown::Context(bytes * late.hidden.steps));
        }
        Box::new(late)
    }

    fn unknown(&self) -> String {
        let told = self.hidden.unknown.map(|u| format!("{u:?}"));
        let told = told.unwrap_or_default();
        told.split('(').next().unwrap_or_default().to_lowercase()
    }

    fn told(&self) -> String {
        let without = Hidden {
            lengths: Vec::new(),
            ..self.hidden.clone()
        };
        format!("{without:?}")
    }
}
