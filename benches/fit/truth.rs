//! What happens to a job: its phases in time, the first that does not fit, and what the log would say.

use oomctl::core::diagnose::{Class, Incident};
use oomctl::core::units::Bytes;

use super::allocator::OutOfMemory;
use super::engine::{Engine, Refused};
use super::hidden::{GIB, Unknown};
use super::setup::Program;
use super::speed::Pace;
use super::trainer::{Job, Peak, Resident, Trainer};

/// The phases, in the words of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    Load,
    EngineStart,
    Cache,
    Graphs,
    WakeUp,
    OldLogprob,
    RefLogprob,
    ActorUpdate,
    Forward,
    Backward,
    OptimizerStep,
    Checkpoint,
}

impl Phase {
    /// As an incident names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::EngineStart => "init",
            Self::Cache => "kv_cache",
            Self::Graphs => "cuda_graph",
            Self::WakeUp => "wake_up",
            Self::OldLogprob => "old_logprob",
            Self::RefLogprob => "ref_logprob",
            Self::ActorUpdate => "actor_update",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::OptimizerStep => "optimizer_step",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// What ran out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cause {
    /// PyTorch's allocator, beside `others` bytes of ours and of strangers outside of it.
    Torch {
        oom: OutOfMemory,
        others: u64,
    },
    /// The engine's own checks, or the driver.
    Engine(Refused),
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Failure {
    phase: Phase,
    cause: Cause,
}

/// Bytes used on the GPU at the peak of a phase that passed, as a sampler would see them.
pub type Peaks = Vec<(Phase, u64)>;

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the log says; `None` for an attempt that ran to its end.
    pub incident: Option<Incident>,
    /// Phases that passed, in time.
    pub peaks: Peaks,
    /// Seconds until it failed or ended.
    pub seconds: f64,
    /// Tokens per second and GPU in a step.
    pub speed: f64,
}

type Passed = Result<Peak, Failure>;

impl<'a> Job<'a> {
    /// Bytes on the GPU outside of the trainer's allocator.
    fn others(self) -> u64 {
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

    fn trainer(self, phase: Phase, resident: Resident) -> Result<Trainer<'a>, Failure> {
        let capacity = self.setup.card.saturating_sub(self.others());
        Trainer::new(self, capacity, resident).map_err(|oom| self.torch(phase, oom))
    }

    fn torch(self, phase: Phase, oom: OutOfMemory) -> Failure {
        let others = self.others();
        Failure {
            phase,
            cause: Cause::Torch { oom, others },
        }
    }

    /// Weights to the GPU, before there is an engine.
    fn load(self) -> Passed {
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
    pub fn logprob(self, reference: bool, adam: bool) -> Result<Peak, Failed> {
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
        run().map_err(Failed)
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
    pub fn update(self) -> Result<[(Phase, Peak); 2], Failed> {
        let phase = match self.setup.program {
            Program::Grpo => Phase::ActorUpdate,
            _ => Phase::Backward,
        };
        match (self.passes(true), self.optimizer(true)) {
            (Ok(passes), Ok(step)) => Ok([(phase, passes), (Phase::OptimizerStep, step)]),
            (passes, step) => {
                // The first time there are no states yet.
                self.passes(false).map_err(Failed)?;
                step.map_err(Failed)?;
                Err(Failed(passes.expect_err("one of the two failed")))
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

    fn host_failure(self) -> Option<Failure> {
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

/// A failure of one phase, opaque outside of this file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failed(Failure);

/// A job on its way.
struct Walk<'a> {
    job: Job<'a>,
    pace: Pace,
    peaks: Peaks,
    seconds: f64,
    /// The step that runs, from 1; 0 before the first.
    step: u64,
}

impl Walk<'_> {
    fn pass(&mut self, phase: Phase, used: u64, seconds: f64) {
        self.peaks.retain(|(p, _)| *p != phase);
        self.peaks.push((phase, used));
        self.seconds += seconds;
    }

    fn trainer(&mut self, phase: Phase, peak: Peak, seconds: f64) {
        self.pass(phase, peak.reserved + self.job.others(), seconds);
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let load = self.job.load()?;
        self.trainer(Phase::Load, load, self.pace.start * 0.5);
        if let Some(host) = self.job.host_failure() {
            return Err(host);
        }
        if self.job.setup.program == Program::Grpo {
            let job = self.job;
            let standing = job.standing();
            Engine(job).start(standing).map_err(refused)?;
            let used = standing + Engine(job).budget() + job.hidden.engine_context;
            self.pass(Phase::EngineStart, used, self.pace.start * 0.5);
        }
        Ok(())
    }

    /// The phases of one step of GRPO; `first` has no Adam states before the update.
    fn grpo(&mut self, first: bool) -> Result<(), Failure> {
        let (job, pace) = (self.job, self.pace);
        self.step += 1;
        let standing = job.standing();
        let wake = Engine(job)
            .wake(standing, !first)
            .map_err(|(why, _)| refused(why))?;
        self.pass(Phase::WakeUp, wake, pace.wake + pace.rollout);
        let old = job.logprob(false, !first).map_err(|f| f.0)?;
        self.trainer(Phase::OldLogprob, old, pace.logprob);
        if job.setup.reference {
            let reference = job.logprob(true, !first).map_err(|f| f.0)?;
            self.trainer(Phase::RefLogprob, reference, pace.reference);
        }
        self.update()
    }

    fn update(&mut self) -> Result<(), Failure> {
        let (job, pace) = (self.job, self.pace);
        for (phase, peak) in job.update().map_err(|f| f.0)? {
            let seconds = if phase == Phase::OptimizerStep {
                pace.optimizer
            } else {
                pace.update
            };
            self.trainer(phase, peak, seconds);
        }
        Ok(())
    }

    fn steps(&mut self) -> Result<(), Failure> {
        if self.job.setup.program == Program::Grpo {
            self.grpo(true)?;
            self.grpo(false)?;
        } else {
            self.step = 1;
            self.update()?;
        }
        self.checkpoint()?;
        self.leak()
    }

    /// A checkpoint; some scripts gather the whole model on the GPU for it.
    fn checkpoint(&mut self) -> Result<(), Failure> {
        let (job, phase) = (self.job, Phase::Checkpoint);
        if job.hidden.gathers_to_save && job.setup.program == Program::Sharded {
            let resident = Resident {
                weights: true,
                adam: true,
            };
            let mut trainer = job.trainer(phase, resident)?;
            let whole = 2 * job.model.params();
            trainer.buffer(whole).map_err(|oom| job.torch(phase, oom))?;
            self.trainer(phase, trainer.peak(), 30.0);
        }
        Ok(())
    }

    /// The step at which what each step leaves behind fills the GPU.
    fn leak(&mut self) -> Result<(), Failure> {
        let (job, all) = (self.job, self.job.hidden.steps);
        let card = job.setup.card;
        let fullest = self.peaks.iter().filter(|(p, _)| *p > Phase::Graphs);
        let (phase, used) = fullest
            .copied()
            .max_by_key(|(_, used)| *used)
            .unwrap_or((Phase::Load, 0));
        let left = card.saturating_sub(used);
        if let Some(Unknown::Leak(bytes)) = job.hidden.unknown
            && bytes * all > left
        {
            let step = left / bytes.max(1);
            self.seconds += self.pace.step() * step.saturating_sub(self.step) as f64;
            self.step = self.step.max(step);
            let requested = bytes.max(512 << 20);
            let others = job.others();
            let allocated = card.saturating_sub(others + (bytes / 2));
            let oom = OutOfMemory {
                requested,
                allocated,
                reserved: allocated,
            };
            return Err(Failure {
                phase,
                cause: Cause::Torch { oom, others },
            });
        }
        self.seconds += self.pace.step() * all.saturating_sub(self.step) as f64;
        self.step = all;
        Ok(())
    }
}

fn refused(why: Refused) -> Failure {
    let phase = match why {
        Refused::Startup => Phase::EngineStart,
        Refused::Cache => Phase::Cache,
        Refused::Graphs => Phase::Graphs,
        Refused::Weights | Refused::Wake => Phase::WakeUp,
    };
    Failure {
        phase,
        cause: Cause::Engine(why),
    }
}

/// Runs a job to its end.
pub fn run(job: Job<'_>) -> Outcome {
    let pace = Pace::of(job);
    let mut walk = Walk {
        job,
        pace,
        peaks: Vec::new(),
        seconds: 0.0,
        step: 0,
    };
    let ended = walk.begin().and_then(|()| walk.steps());
    let incident = ended
        .err()
        .map(|failure| incident(job, &failure, walk.step));
    // A failure is noticed in the middle of its phase.
    let late = if incident.is_some() {
        0.5 * pace.step().min(600.0)
    } else {
        0.0
    };
    Outcome {
        incident,
        peaks: walk.peaks,
        seconds: walk.seconds + late,
        speed: pace.speed(job.setup.world()),
    }
}

/// Whether the job fits, without its log.
pub fn fits(job: Job<'_>) -> bool {
    let mut walk = Walk {
        job,
        pace: Pace::default(),
        peaks: Vec::new(),
        seconds: 0.0,
        step: 0,
    };
    walk.begin().and_then(|()| walk.steps()).is_ok()
}

/// Bytes as a message prints them: MiB or GiB with two decimals.
fn printed(bytes: u64) -> Bytes {
    let unit = if bytes < 1 << 30 {
        (1_u64 << 20) as f64
    } else {
        GIB
    };
    Bytes(((bytes as f64 / unit * 100.0).round() / 100.0 * unit).round() as u64)
}

/// What the log of the failure says.
fn incident(job: Job<'_>, failure: &Failure, step: u64) -> Incident {
    let mut incident = match failure.cause {
        Cause::Host => Incident::bare("host_oom", Class::HostOom),
        Cause::Engine(Refused::Startup) => {
            Incident::bare("vllm_startup_memory", Class::EngineMemory)
        }
        Cause::Engine(Refused::Cache) => Incident::bare("vllm_kv_cache", Class::EngineMemory),
        Cause::Engine(_) => Incident::bare("cuda_driver_oom", Class::GpuOom),
        Cause::Torch { oom, others } => torch(job, oom, others),
    };
    failure.phase.word().clone_into(&mut incident.phase);
    incident.retryable_unchanged = Some(false);
    if step > 0 {
        incident.step = Some(step);
        incident.first_step = Some(step == 1);
    }
    incident
}

/// PyTorch's message: requested, total, free, allocated, reserved but unallocated.
fn torch(job: Job<'_>, oom: OutOfMemory, others: u64) -> Incident {
    let total = job.setup.card;
    let unallocated = oom.reserved.saturating_sub(oom.allocated);
    Incident {
        requested_bytes: Some(printed(oom.requested)),
        total_bytes: Some(printed(total)),
        free_bytes: Some(printed(total.saturating_sub(others + oom.reserved))),
        allocated_bytes: Some(printed(oom.allocated)),
        reserved_bytes: Some(printed(oom.reserved)),
        reserved_unallocated_bytes: Some(printed(unallocated)),
        fragmentation: unallocated >= oom.requested,
        ..Incident::bare("cuda_oom", Class::GpuOom)
    }
}
