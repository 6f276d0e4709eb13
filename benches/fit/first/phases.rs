//! The phases of a job one by one: what lies on the GPU, what is added, whether it fits.

use super::super::outcome::Phase;
use super::super::setup::Program;
use super::allocator::OutOfMemory;
use super::engine::{Engine, Refused};
use super::hidden::Unknown;
use super::trainer::{Job, Peak, Resident, Trainer};

/// What ran out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cause {
    /// PyTorch's allocator, beside `others` bytes of ours and of strangers outside of it.
    Torch {
        oom: OutOfMemory,
        others: u64,
    },
    /// The engine's own checks, or the driver.
    Engine(Refused),
    Host,
}

/// The first thing that did not fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failure {
    pub phase: Phase,
    pub cause: Cause,
}

/// How a phase ended.
pub type Passed = Result<Peak, Failure>;

impl<'a> Job<'a> {
    /// Bytes on the GPU outside of the trainer's allocator.
    pub fn others(self) -> u64 {
        let engine = match self.setup.program {
            Program::Grpo => Engine(self).asleep(),
            _ => 0,
        };
        self.standing() + engine
    }

    /// Bytes that are there whatever engine and trainer do.
    pub fn standing(self) -> u64 {
        self.hidden.standing() + self.reference_copy()
    }

    fn reference_copy(self) -> u64 {
        let width = if self.setup.ref_fp32 { 4 } else { 2 };
        match self.hidden.unknown {
            Some(Unknown::ReferenceCopy) if self.setup.reference => {
                width * self.model.params() / self.setup.shards()
            }
            _ => 0,
        }
    }

    pub fn trainer(self, phase: Phase, resident: Resident) -> Result<Trainer<'a>, Failure> {
        let capacity = self.setup.card.saturating_sub(self.others());
        Trainer::new(self, capacity, resident).map_err(|oom| self.torch(phase, oom))
    }

    pub fn torch(self, phase: Phase, oom: OutOfMemory) -> Failure {
        let others = self.others();
        Failure {
            phase,
            cause: Cause::Torch { oom, others },
        }
    }

    /// Weights to the GPU, before there is an engine.
    pub fn load(self) -> Passed {
        let resident = Resident {
            weights: true,
            adam: false,
        };
        let phase = Phase::Load;
        let others = self.standing();
        let capacity = self.setup.card.saturating_sub(others);
        let root: u64 = self.model.root().iter().sum();
        let run = || {
            let mut trainer = Trainer::new(self, capacity, resident)?;
            trainer.buffer(root * 4)?;
            Ok(trainer.peak())
        };
        run().map_err(|oom| Failure {
            phase,
            cause: Cause::Torch { oom, others },
        })
    }

    /// Log-probabilities: `reference` for the reference policy's.
    pub fn logprob(self, reference: bool, adam: bool) -> Passed {
        let s = self.setup;
        let phase = if reference {
            Phase::RefLogprob
        } else {
            Phase::OldLogprob
        };
        let resident = Resident {
            weights: !(reference && s.param_offload),
            adam: adam && !s.optimizer_offload,
        };
        let (micro, budget) = if reference {
            (s.ref_micro, s.ref_budget)
        } else {
            (s.logprob_micro, s.logprob_budget)
        };
        let (most, usual) = self.tokens(micro, budget, s.step_per_rank());
        let run = || {
            let mut trainer = self.trainer(phase, resident)?;
            for tokens in [usual, most] {
                let passed = trainer.logprobs(tokens, micro, !reference);
                passed.map_err(|oom| self.torch(phase, oom))?;
            }
            Ok(trainer.peak())
        };
        run()
    }

    fn tokens(self, micro: u64, budget: u64, sequences: u64) -> (u64, u64) {
        if self.setup.dynamic {
            self.hidden.packed(self.setup, budget, sequences)
        } else {
            self.hidden.tokens(self.setup, micro)
        }
    }

    /// Forward and backward, with or without Adam's states.
    fn passes(self, adam: bool) -> Passed {
        let s = self.setup;
        let script = s.program != Program::Grpo;
        let start = if script {
            Phase::Forward
        } else {
            Phase::ActorUpdate
        };
        let mut trainer = self.trainer(
            start,
            Resident {
                weights: true,
                adam,
            },
        )?;
        let (most, usual) = self.tokens(s.micro, s.budget, s.mini_per_rank());
        for tokens in [usual, most] {
            trainer
                .micro_batch(tokens, s.micro)
                .map_err(|(oom, back)| {
                    let phase = if script && back {
                        Phase::Backward
                    } else {
                        start
                    };
                    self.torch(phase, oom)
                })?;
        }
        Ok(trainer.peak())
    }

    fn optimizer(self, new_states: bool) -> Passed {
        let phase = Phase::OptimizerStep;
        let resident = Resident {
            weights: true,
            adam: !new_states,
        };
        let mut trainer = self.trainer(phase, resident)?;
        trainer
            .optimizer_step(new_states)
            .map_err(|oom| self.torch(phase, oom))?;
        Ok(trainer.peak())
    }

    /// The update as it is from the second time on, and the first failure in time where it does not fit.
    pub fn update(self) -> Result<[(Phase, Peak); 2], Failure> {
        let phase = match self.setup.program {
            Program::Grpo => Phase::ActorUpdate,
            _ => Phase::Backward,
        };
        match (self.passes(true), self.optimizer(true)) {
            (Ok(passes), Ok(step)) => Ok([(phase, passes), (Phase::OptimizerStep, step)]),
            (passes, step) => {
                // The first time there are no states yet.
                self.passes(false)?;
                step?;
                Err(passes.expect_err("one of the two failed"))
            }
        }
    }

    /// Host memory of one node, in bytes.
    fn host(self) -> u64 {
        let (m, s, h) = (self.model, self.setup, self.hidden);
        let (params, nodes) = (m.params(), s.nodes);
        let processes = s.gpus_per_node * h.process;
        if s.program != Program::Grpo {
            return processes / 2;
        }
        let width = if s.fp32 { 4 } else { 2 };
        let of = |yes: bool, bytes: u64| if yes { bytes * params / nodes } else { 0 };
        let offloaded = of(s.param_offload, width) + of(s.optimizer_offload, 2 * width);
        let policy = of(s.offload_policy, 4 * width);
        let reference = of(s.reference, if s.ref_fp32 { 4 } else { 2 });
        let rollouts = s.train_batch * s.samples * s.sequence() * 60;
        processes + offloaded + policy + reference + rollouts
    }

    pub fn host_failure(self) -> Option<Failure> {
        let limit = self.setup.host?;
        let phase = if self.setup.param_offload {
            Phase::Load
        } else {
            Phase::ActorUpdate
        };
        (self.host() > limit).then_some(Failure {
            phase,
            cause: Cause::Host,
        })
    }
}
