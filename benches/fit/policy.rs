//! Policies: what is submitted after a failure.

use oomctl::core::diagnose::Incident;
use oomctl::core::ladder::{self, Decision, Footing, climb};
use oomctl::core::recipe::{ClusterFacts, Layer, RungSpec};

use super::cases::{Case, Stacks};
use super::stack::Stack;
use super::truth::Peaks;

/// An attempt as the product sees it.
pub struct Attempt {
    /// Layers of the rungs that it ran with.
    pub rungs: Vec<Layer>,
    /// Why it ended; `None` where it ran to its end.
    pub incident: Option<Incident>,
    #[allow(
        dead_code,
        reason = "for policies that predict; the ladder does not look"
    )]
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
    /// Submit with these rungs.
    Attempt(Vec<Layer>),
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

/// The product's own ladder, as the supervisor climbs it.
struct Climb {
    name: &'static str,
    policy: ladder::Policy,
    /// The rungs that are used.
    uses: fn(&RungSpec) -> bool,
}

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
        let footing = Footing {
            preset: &case.stack.preset,
            ladder: &ladder,
            policy: self.policy,
            cluster: case.cluster,
            cluster_name: Some("bench"),
            templates: &case.stack.templates,
            layers: case.layers,
            rungs: &last.rungs,
            attempt: u32::try_from(case.attempts.len()).unwrap_or(u32::MAX),
        };
        match climb(&footing, last.incident.as_ref()) {
            Ok(Decision::Climb { steps, .. }) => {
                let mut rungs = last.rungs.clone();
                rungs.extend(steps.into_iter().map(|s| s.layer));
                Next::Attempt(rungs)
            }
            Ok(Decision::Exhausted { .. }) | Err(_) => Next::GiveUp,
        }
    }
}

/// The policies of the product, and halving alone.
pub fn all() -> Vec<Box<dyn Policy>> {
    let every = |_: &RungSpec| true;
    let halves = |rung: &RungSpec| rung.rung.starts_with("halve");
    vec![
        Box::new(Climb {
            name: "ladder, singly",
            policy: ladder::Policy::Ladder,
            uses: every,
        }),
        Box::new(Climb {
            name: "same-math, singly",
            policy: ladder::Policy::SameMath,
            uses: every,
        }),
        Box::new(Climb {
            name: "halving only",
            policy: ladder::Policy::Ladder,
            uses: halves,
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
