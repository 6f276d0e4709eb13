//! What happens to a job: its phases in time, and the first that does not fit.

use super::super::outcome::{Outcome, Peaks, Phase};
use super::super::setup::Program;
use super::engine::{Engine, Refused};
use super::hidden::{Hidden, Unknown};
use super::incident::incident;
use super::phases::{Cause, Failure};
use super::speed::Pace;
use super::trainer::{Job, Peak, Resident};

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
        let old = job.logprob(false, !first)?;
        self.trainer(Phase::OldLogprob, old, pace.logprob);
        if job.setup.reference {
            let reference = job.logprob(true, !first)?;
            self.trainer(Phase::RefLogprob, reference, pace.reference);
        }
        self.update()
    }

    fn update(&mut self) -> Result<(), Failure> {
        let (job, pace) = (self.job, self.pace);
        for (phase, peak) in job.update()? {
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
        }
        self.step()?;
        self.leak()
    }

    /// A step with everything in place, and a checkpoint after it.
    fn step(&mut self) -> Result<(), Failure> {
        if self.job.setup.program == Program::Grpo {
            self.grpo(false)?;
        } else {
            self.step += 1;
            self.update()?;
        }
        self.checkpoint()
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

    /// The last step, with all that leaked before it; and the step at which it fails, if it does.
    fn leak(&mut self) -> Result<(), Failure> {
        let (job, all) = (self.job, self.job.hidden.steps);
        let mut last = all;
        let mut failure = None;
        if let Some(Unknown::Leak(bytes)) = job.hidden.unknown {
            let leaked = Some(Unknown::Context(bytes * all));
            let hidden = Hidden {
                unknown: leaked,
                ..job.hidden.clone()
            };
            let late = Job {
                hidden: &hidden,
                ..job
            };
            let mut walk = Walk {
                job: late,
                peaks: Vec::new(),
                ..*self
            };
            failure = walk.step().err();
            if failure.is_some() {
                let used = self.peaks.iter().map(|(_, used)| *used).max().unwrap_or(0);
                last = (job.setup.card.saturating_sub(used) / bytes.max(1)).clamp(2, all);
            }
            if let Some(Failure {
                cause: Cause::Torch { oom, others },
                ..
            }) = &mut failure
            {
                oom.allocated += bytes * last;
                oom.reserved += bytes * last;
                *others = job.others();
            }
        }
        self.seconds += self.pace.step() * last.saturating_sub(self.step) as f64;
        self.step = last;
        failure.map_or(Ok(()), Err)
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
    let ended = ended.err();
    let died = ended.as_ref().map(|failure| failure.phase);
    let incident = ended.map(|failure| incident(job, &failure, walk.step));
    // A failure is noticed in the middle of its phase.
    let late = if incident.is_some() {
        0.5 * pace.step().min(600.0)
    } else {
        0.0
    };
    Outcome {
        incident,
        died,
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
