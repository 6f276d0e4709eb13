//! Policies: what is submitted after a failure.

use oomctl::core::ladder::{
    self, ClimbContext, Decision, Past, PastAttempt, Peak, PeakOf, Priors, ascend, climb, predicted,
};
use oomctl::core::recipe::{ClusterFacts, Layer, RungSpec};
use oomctl_base::Refusal;
use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;
use oomctl_memory as memory;

use super::cases::{Case, Stacks};
use super::outcome::{Peaks, Phase};
use super::stack::Stack;

/// An attempt as the product sees it.
pub struct Attempt {
    /// Layers of the rungs that it ran with.
    pub rungs: Vec<Layer>,
    /// Why it ended; `None` where it ran to its end.
    pub incident: Option<Incident>,
    /// Bytes used on the GPU in the phases that passed, as a sampler in the job would see them.
    pub peaks: Peaks,
}

/// What a policy may know of a case.
pub struct View<'a> {
    pub stack: &'a Stack,
    pub cluster: &'a ClusterFacts,
    /// Layers below the rungs.
    pub layers: &'a [Layer],
    /// Attempts so far, the last one failed.
    pub attempts: &'a [Attempt],
}

/// What a policy answers.
pub enum Next {
    /// Submit with these rungs, which are expected to fit with a probability, where there is one.
    Attempt(Vec<Layer>, Option<f64>),
    /// It cannot fit.
    GiveUp,
}

/// How to answer a failure.
pub trait Policy: Sync {
    /// Its name in the table.
    fn name(&self) -> &'static str;
    /// The next attempt.
    fn next(&self, case: &View<'_>) -> Next;
}

/// What the product is told of the memory that was in use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sampler {
    /// Nothing.
    Absent,
    /// The peak of the whole attempt, as its ledger has it.
    Whole,
    /// Also the peaks of the phases that passed.
    Phases,
}

/// The product's own ladder, as the supervisor climbs it.
#[derive(Clone, Copy)]
struct Climb {
    name: &'static str,
    policy: ladder::Policy,
    /// The rungs that are used.
    uses: fn(&RungSpec) -> bool,
    /// One rung at a time, whatever the memory model expects.
    singly: bool,
    sampler: Sampler,
}

/// Probability to fit that is asked for, as the product does by default.
const MIN_FIT_PROBABILITY: f64 = 0.9;

impl Policy for Climb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn next(&self, case: &View<'_>) -> Next {
        let Some(last) = case.attempts.last() else {
            return Next::GiveUp;
        };
        let rungs = case.stack.ladder.iter().filter(|r| (self.uses)(r));
        let ladder: Vec<RungSpec> = rungs.cloned().collect();
        let (preset, templates) = (&case.stack.preset, &case.stack.templates);
        let context = ClimbContext {
            ladder: &ladder,
            policy: self.policy,
            cluster_name: Some("bench"),
            attempt: u32::try_from(case.attempts.len()).unwrap_or(u32::MAX),
            ..ClimbContext::new(preset, case.cluster, templates, case.layers, &last.rungs)
        };
        match self.decide(&context, case) {
            Ok(Decision::Climb { steps, expects, .. }) => {
                let mut rungs = last.rungs.clone();
                rungs.extend(steps.into_iter().map(|s| s.layer));
                Next::Attempt(rungs, expects.map(|e| e.fits_probability))
            }
            Ok(Decision::Exhausted { .. }) | Err(_) => Next::GiveUp,
        }
    }
}

impl Climb {
    fn decide(&self, context: &ClimbContext<'_>, case: &View<'_>) -> Result<Decision, Refusal> {
        let (last, before) = case.attempts.split_last().expect("an attempt has failed");
        let incident = last.incident.as_ref();
        let Some(profile) = case.stack.profile.as_ref().filter(|_| !self.singly) else {
            return climb(context, incident);
        };
        let tried = |a: &Attempt| {
            let incident = a.incident.clone()?;
            Some(PastAttempt::new(a.rungs.clone(), incident, self.peaks(a)))
        };
        let earlier: Vec<PastAttempt> = before.iter().filter_map(tried).collect();
        let past = Past {
            earlier: &earlier,
            peaks: &self.peaks(last),
            left_out: &[],
            machine: None,
        };
        let outlook = Priors {
            profile,
            min_fit_probability: MIN_FIT_PROBABILITY,
            past,
        };
        if self.policy == ladder::Policy::Predict
            && let Some(decision) = predicted(context, &outlook, incident)?
        {
            return Ok(decision);
        }
        ascend(context, &outlook, incident)
    }

    fn peaks(&self, attempt: &Attempt) -> Vec<Peak> {
        let seen = &attempt.peaks;
        // A sampler sees the phase that failed too.
        let last = attempt.incident.as_ref();
        let last = last.and_then(|i| Some(i.total_bytes?.0 - i.free_bytes?.0));
        let whole = seen.iter().map(|(_, used)| *used).chain(last).max();
        let whole = whole.filter(|_| self.sampler != Sampler::Absent);
        let whole = whole.map(|used| (None, used));
        let parts = seen.iter().filter(|_| self.sampler == Sampler::Phases);
        let parts = parts.filter_map(|(phase, used)| Some((Some(modelled(*phase)?), *used)));
        let peak = |(phase, used)| Peak {
            phase,
            bytes: Bytes(used),
            of: PeakOf::Gpu,
        };
        whole.into_iter().chain(parts).map(peak).collect()
    }
}

/// The phase of the memory model, where it has the same.
fn modelled(phase: Phase) -> Option<memory::Phase> {
    Some(match phase {
        Phase::Load => memory::Phase::Load,
        Phase::WakeUp => memory::Phase::WakeUp,
        Phase::OldLogprob => memory::Phase::OldLogprob,
        Phase::RefLogprob => memory::Phase::RefLogprob,
        Phase::Forward => memory::Phase::Forward,
        Phase::Backward => memory::Phase::Backward,
        Phase::OptimizerStep => memory::Phase::OptimizerStep,
        Phase::Checkpoint => memory::Phase::Checkpoint,
        Phase::EngineStart | Phase::Cache | Phase::Graphs | Phase::ActorUpdate => return None,
    })
}

/// The policies of the product, and halving alone.
pub fn all() -> Vec<Box<dyn Policy>> {
    let every = Climb {
        name: "ladder, singly",
        policy: ladder::Policy::Ladder,
        uses: |_| true,
        singly: true,
        sampler: Sampler::Absent,
    };
    vec![
        Box::new(every),
        Box::new(Climb {
            name: "ladder, at once",
            singly: false,
            sampler: Sampler::Whole,
            ..every
        }),
        Box::new(Climb {
            name: "ladder, at once, phases sampled",
            singly: false,
            sampler: Sampler::Phases,
            ..every
        }),
        Box::new(Climb {
            name: "predict",
            policy: ladder::Policy::Predict,
            singly: false,
            sampler: Sampler::Whole,
            ..every
        }),
        Box::new(Climb {
            name: "predict, phases sampled",
            policy: ladder::Policy::Predict,
            singly: false,
            sampler: Sampler::Phases,
            ..every
        }),
        Box::new(Climb {
            name: "same-math, singly",
            policy: ladder::Policy::SameMath,
            ..every
        }),
        Box::new(Climb {
            name: "halving only",
            uses: |rung| rung.rung.starts_with("halve"),
            ..every
        }),
    ]
}

/// What a policy may know of a case.
pub fn view<'a>(case: &'a Case, stacks: &'a Stacks, attempts: &'a [Attempt]) -> View<'a> {
    View {
        stack: stacks.of(case.program),
        cluster: &case.cluster,
        layers: &case.layers,
        attempts,
    }
}
