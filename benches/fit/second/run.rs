//! A job in time: its phases one after the other, and the first that does not fit.

use super::super::outcome::{Outcome, Peaks, Phase};
use super::super::setup::Program;
use super::allocator::Blocks;
use super::engine::{Engine, Refused};
use super::log::{Cause, Failure, incident};
use super::memory::{Memory, Step, Sum, Usage};
use super::nature::Surprise;
use super::plan::{Pass, Plan};
use super::train::{Place, Standing, Trainer};
use super::{host, pace};

/// More than any job takes.
const ENDLESS: u64 = 1 << 50;

/// A job under one configuration on its GPUs.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub plan: Plan<'a>,
    /// The GPU has no end: what would be used is looked for.
    pub endless: bool,
}

type Passed = Vec<(Phase, Usage)>;

/// Phases that passed, or where in a phase what ran out.
type Walked = Result<Passed, (Phase, super::memory::Shortage)>;

impl<'a> Site<'a> {
    /// What is outside the trainer's allocator, without the engine.
    fn around(&self) -> u64 {
        let (p, n) = (self.plan, self.plan.nature);
        let s = p.setup;
        let further = u64::from(s.sequence_parallel > 1)
            + u64::from(p.shards() < p.ranks())
            + u64::from(p.is_rl());
        let collectives = if p.ranks() > 1 {
            n.nccl.0 + further * n.nccl.1
        } else {
            0
        };
        let reference = match n.surprise {
            Some(Surprise::Reference) if s.reference => {
                let width = if s.ref_fp32 { 4 } else { 2 };
                width * p.all() / p.shards()
            }
            _ => 0,
        };
        n.context + collectives + n.foreign() + reference
    }

    pub fn engine(&self) -> Engine<'a> {
        Engine {
            plan: self.plan,
            around: self.around(),
        }
    }

    /// What is outside the trainer's allocator while it computes.
    fn beside(&self) -> u64 {
        if self.plan.is_rl() {
            self.around() + self.engine().asleep()
        } else {
            self.around()
        }
    }

    fn capacity(&self, beside: u64) -> u64 {
        if self.endless {
            ENDLESS
        } else {
            self.plan.setup.card.saturating_sub(beside)
        }
    }

    fn blocks(&self, beside: u64) -> Blocks {
        Blocks::new(self.capacity(beside), self.plan.setup.expandable)
    }

    /// Whether a walk fits, counting bytes before blocks.
    fn either(&self, walk: impl Fn(&Self, &mut dyn Taking) -> Step<()>) -> bool {
        let room = self.capacity(self.beside());
        walk(self, &mut Sum::new(room)).is_ok()
            && walk(self, &mut self.blocks(self.beside())).is_ok()
    }

    pub fn evaluates(&self, pass: Pass) -> bool {
        self.either(|site, memory| site.evaluate(Dyn(memory), pass, true).map(|_| ()))
    }

    /// The update with all states there, and the step that makes them.
    pub fn update_holds(&self) -> bool {
        self.either(|site, memory| {
            site.update(Dyn(memory), true)
                .map(|_| ())
                .map_err(|(_, s)| s)
        }) && self.either(|site, memory| {
            site.update(Dyn(memory), false)
                .map(|_| ())
                .map_err(|(_, s)| s)
        })
    }

    fn load<M: Memory>(&self, memory: M) -> Step<Usage> {
        let mut trainer = Trainer::new(self.plan, memory);
        let standing = Standing {
            weights: true,
            states: false,
        };
        trainer.stand(standing)?;
        // The root passes whole before it is cut.
        trainer.passing(self.plan.root() * self.plan.width())?;
        Ok(trainer.memory.most())
    }

    fn evaluate<M: Memory>(&self, memory: M, pass: Pass, states: bool) -> Step<Usage> {
        let s = self.plan.setup;
        let mut trainer = Trainer::new(self.plan, memory);
        trainer.stand(Standing {
            weights: pass == Pass::Old || !s.param_offload,
            states: states && !s.optimizer_offload,
        })?;
        for batch in self.plan.batches(pass) {
            trainer.evaluate(batch, pass)?;
        }
        Ok(trainer.memory.most())
    }

    /// All micro batches that differ, and the optimizer's step.
    fn update<M: Memory>(&self, memory: M, states: bool) -> Walked {
        let rl = self.plan.is_rl();
        let mut trainer = Trainer::new(self.plan, memory);
        let named = |place: Place| match place {
            Place::Optimizer => Phase::OptimizerStep,
            Place::Start | Place::Forward if !rl => Phase::Forward,
            Place::Backward if !rl => Phase::Backward,
            _ => Phase::ActorUpdate,
        };
        let mut walk = || {
            trainer.stand(Standing {
                weights: true,
                states,
            })?;
            let [usual, fullest] = self.plan.batches(Pass::Update);
            trainer.micro_batch(usual)?;
            if self.plan.micro_batches() == 1 {
                trainer.zero();
            }
            trainer.micro_batch(fullest)?;
            let passes = trainer.memory.most();
            trainer.optimizer(!states)?;
            Ok((passes, trainer.memory.most()))
        };
        let walked: Step<(Usage, Usage)> = walk();
        let place = trainer.place;
        match walked {
            Ok((passes, step)) => Ok(vec![
                (
                    if rl {
                        Phase::ActorUpdate
                    } else {
                        Phase::Backward
                    },
                    passes,
                ),
                (Phase::OptimizerStep, step),
            ]),
            Err(shortage) => Err((named(place), shortage)),
        }
    }

    fn save<M: Memory>(&self, memory: M) -> Step<Usage> {
        let mut trainer = Trainer::new(self.plan, memory);
        trainer.stand(Standing {
            weights: true,
            states: true,
        })?;
        trainer.passing(2 * self.plan.all())?;
        Ok(trainer.memory.most())
    }

    fn saves(&self) -> bool {
        self.plan.setup.program == Program::Sharded && self.plan.nature.gathers_to_save
    }

    fn torch(&self, phase: Phase, around: u64, shortage: super::memory::Shortage) -> Failure {
        Failure {
            phase,
            cause: Cause::Torch { shortage, around },
        }
    }

    /// Up to the first step.
    fn begin(&self, seen: &mut Peaks) -> Result<(), Failure> {
        if host::exceeded(self.plan) == Some(host::When::Loading) {
            return Err(host_failure(Phase::Load, host::When::Loading));
        }
        let around = self.around();
        let load = self.load(self.blocks(around));
        let load = load.map_err(|shortage| self.torch(Phase::Load, around, shortage))?;
        note(seen, Phase::Load, load.reserved + around);
        if self.plan.is_rl() {
            let used = self.engine().start().map_err(refused)?;
            note(seen, Phase::EngineStart, used);
        }
        if let Some(when) = host::exceeded(self.plan) {
            return Err(host_failure(Phase::ActorUpdate, when));
        }
        Ok(())
    }

    /// One step; `states` are there from the second on.
    fn step(&self, states: bool, seen: &mut Peaks) -> Result<(), Failure> {
        let beside = self.beside();
        if self.plan.is_rl() {
            let used = self.engine().wake(states).map_err(refused)?;
            note(seen, Phase::WakeUp, used);
            let mut passes = vec![(Phase::OldLogprob, Pass::Old)];
            if self.plan.setup.reference {
                passes.push((Phase::RefLogprob, Pass::Reference));
            }
            for (phase, pass) in passes {
                let used = self.evaluate(self.blocks(beside), pass, states);
                let used = used.map_err(|shortage| self.torch(phase, beside, shortage))?;
                note(seen, phase, used.reserved + beside);
            }
        }
        let update = self.update(self.blocks(beside), states);
        let update = update.map_err(|(phase, shortage)| self.torch(phase, beside, shortage))?;
        for (phase, used) in update {
            note(seen, phase, used.reserved + beside);
        }
        Ok(())
    }

    fn checkpoint(&self, seen: &mut Peaks) -> Result<(), Failure> {
        let beside = self.beside();
        if self.saves() {
            let used = self.save(self.blocks(beside));
            let used = used.map_err(|s| self.torch(Phase::Checkpoint, beside, s))?;
            note(seen, Phase::Checkpoint, used.reserved + beside);
        }
        Ok(())
    }

    /// The same job when all that grows has grown.
    fn later(&self) -> Option<Self> {
        let grows = matches!(
            self.plan.nature.surprise,
            Some(Surprise::Leak(_) | Surprise::Growth(_))
        );
        let mut later = *self;
        later.plan.late = true;
        grows.then_some(later)
    }

    /// The whole job: the step in which it failed, if it did.
    fn walk(&self, seen: &mut Peaks) -> Result<(), (u64, Failure)> {
        let at = |step: u64| move |failure: Failure| (step, failure);
        self.begin(seen).map_err(at(0))?;
        self.step(false, seen).map_err(at(1))?;
        self.step(true, seen).map_err(at(2))?;
        self.checkpoint(seen).map_err(at(2))?;
        if let Some(later) = self.later() {
            let steps = self.plan.nature.steps;
            later.step(true, seen).map_err(at(steps * 2 / 3))?;
        }
        Ok(())
    }

    pub fn fits(&self) -> bool {
        let last = self.later().unwrap_or(*self);
        let engine = |site: &Self, states| !self.plan.is_rl() || site.engine().wake(states).is_ok();
        // The cheap questions first.
        host::exceeded(self.plan).is_none()
            && (!self.plan.is_rl() || self.engine().start().is_ok())
            && engine(self, false)
            && engine(&last, true)
            && last.update_holds()
            && self.walk(&mut Peaks::new()).is_ok()
    }

    pub fn run(&self) -> Outcome {
        let mut seen = Peaks::new();
        let walked = self.walk(&mut seen);
        let (step_s, tokens) = pace::step(self.plan);
        let ranks = self.plan.ranks() as f64;
        let load_s = 90.0 + 2.0 * self.plan.all() as f64 / 1.5e9;
        let (died, incident, steps) = match walked {
            Ok(()) => (None, None, self.plan.nature.steps as f64),
            Err((step, failure)) => {
                let incident = incident(self.plan, failure, step);
                (Some(failure.phase), Some(incident), step as f64 - 0.5)
            }
        };
        Outcome {
            incident,
            died,
            peaks: seen,
            seconds: load_s + step_s * steps.max(0.0),
            speed: tokens / step_s / ranks,
        }
    }

    /// Bytes of each phase on a GPU without end.
    pub fn needs(&self) -> Peaks {
        let mut seen = Peaks::new();
        let around = self.around();
        if let Ok(load) = self.load(self.blocks(around)) {
            note(&mut seen, Phase::Load, load.reserved + around);
        }
        // What the engine and the trainer take does not end with the GPU, but its share is of it.
        let mut roomy = self.plan.setup.clone();
        roomy.card *= 64;
        roomy.share /= 64.0;
        let plan = Plan {
            setup: &roomy,
            ..self.plan
        };
        let site = Site { plan, ..*self };
        if self.plan.is_rl()
            && let Ok(used) = site.engine().start()
        {
            note(&mut seen, Phase::EngineStart, used);
        }
        let _ = site.step(true, &mut seen);
        let _ = site.checkpoint(&mut seen);
        seen
    }
}

fn note(seen: &mut Peaks, phase: Phase, used: u64) {
    seen.retain(|(known, _)| *known != phase);
    seen.push((phase, used));
}

fn host_failure(phase: Phase, when: host::When) -> Failure {
    Failure {
        phase,
        cause: Cause::Host(when),
    }
}

fn refused(why: Refused) -> Failure {
    let phase = match why {
        Refused::Startup { .. } | Refused::Sampler => Phase::EngineStart,
        Refused::Cache { .. } => Phase::Cache,
        Refused::Graphs { .. } => Phase::Graphs,
        Refused::Sync { .. } | Refused::Wake => Phase::WakeUp,
    };
    Failure {
        phase,
        cause: Cause::Engine(why),
    }
}

/// A memory behind a reference, so that one walk serves both kinds.
trait Taking: Memory {}
impl<M: Memory> Taking for M {}

struct Dyn<'m>(&'m mut dyn Taking);

impl Memory for Dyn<'_> {
    fn take(&mut self, stream: super::memory::Stream, bytes: u64) -> Step<super::memory::Piece> {
        self.0.take(stream, bytes)
    }

    fn give(&mut self, piece: super::memory::Piece) {
        self.0.give(piece);
    }

    fn most(&self) -> Usage {
        self.0.most()
    }
}
