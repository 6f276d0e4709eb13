//! Targets that the figures of a message give by themselves, in place of a rung's own steps.

use super::climb::RungView;
use super::incident::{EngineBytes, ShareForOne};
use super::moves::Aim;
use super::states::number;
use crate::core::recipe::Knob;
use oomctl_base::units::GIB;
use oomctl_base::{Role, Value};

impl RungView<'_, '_> {
    /// Goes at once where the message itself says how far is enough, and nowhere where it says that the rung's most is not.
    pub(super) fn by_figures(&self, aim: &mut Aim) {
        let Aim::To {
            knob,
            present,
            target,
            floor,
            ceiling,
            along,
        } = aim
        else {
            return;
        };
        let Some(knob) = self.context.preset.knob(knob) else {
            return;
        };
        let number = |value: &Value| value.number(knob.kind);
        let (Some(now), Some(then)) = (number(present), number(target)) else {
            return;
        };
        let lowers = then < now;
        if lowers && let Some(reason) = self.nothing_starts(knob) {
            *aim = Aim::Nothing { reason };
            return;
        }
        if knob.role == Some(Role::RolloutMemoryFraction)
            && let Some(reason) = self.out_of_reach(knob, now, lowers, *ceiling)
        {
            *aim = Aim::Nothing { reason };
            return;
        }
        let wanted = match (knob.role, lowers) {
            (Some(Role::RolloutMemoryFraction), true) => self.least_share(now, then),
            (Some(Role::RolloutMemoryFraction), false) => self.cache_share(now),
            (Some(Role::RolloutSequences), true) => self.sampled(now).filter(|to| to >= floor),
            (Some(Role::EvalBatch), true) => self.evaluated(now).filter(|to| to >= floor),
            (Some(Role::ResponseLength), true) => self.shortened(now).filter(|to| to >= floor),
            (Some(Role::RolloutContext), true) if *along => self.shortened(now),
            _ => None,
        };
        let Some(wanted) = wanted else {
            return;
        };
        if then < now {
            *floor = floor.min(wanted);
        }
        *target = Value::from_number(knob.kind, wanted);
    }

    /// Why a smaller share is in vain: what was free is less than the least share.
    fn nothing_starts(&self, knob: &Knob) -> Option<String> {
        let (share, least) = (self.failure.share()?, knob.min.unwrap_or(0.0));
        let in_vain = knob.role == Some(Role::RolloutMemoryFraction) && share < least;
        in_vain.then(|| {
            format!(
                "{} is at least {least}, but by the message's figures less of the GPU was free: another process holds it",
                knob.name
            )
        })
    }

    /// Why no share will do: by the log's figures the most holds no sequence, or less would hold none.
    fn out_of_reach(&self, knob: &Knob, now: f64, lowers: bool, most: f64) -> Option<String> {
        let one = self.one_sequence(now)?;
        let (name, tokens) = (&knob.name, self.failure.cache?.wanted_tokens);
        if lowers {
            let in_vain = one.exact && one.share >= now;
            return in_vain.then(|| {
                format!("with {name} below {now} the KV cache would not hold one sequence of {tokens} tokens, by the log's figures")
            });
        }
        (one.share > most).then(|| {
            let share = one.share;
            let least = if one.exact { "" } else { "more than " };
            format!("one sequence of {tokens} tokens needs {name} of {least}{share:.2} by the log's figures, and {most} is the most")
        })
    }

    /// An engine's share that the message itself bounds, or the least that holds one sequence, where a step goes below it.
    fn least_share(&self, now: f64, then: f64) -> Option<f64> {
        let starts = self.failure.share().filter(|share| *share < now);
        starts.or_else(|| self.cache_share(now).filter(|least| *least > then))
    }

    /// The share whose cache holds one sequence.
    fn cache_share(&self, now: f64) -> Option<f64> {
        let one = self.one_sequence(now).filter(|one| one.exact);
        one.map(|one| one.share)
    }

    fn one_sequence(&self, now: f64) -> Option<ShareForOne> {
        let look = self
            .evaluations
            .look(&self.context.rungs.iter().collect::<Vec<_>>());
        let look = look.ok()?;
        let known = EngineBytes {
            gpu: self.gib_of("gpu_total_gib"),
            swap: self.gib_of("engine_swap_gib"),
            spec: self.evaluations.spec(&look),
        };
        self.failure.share_for_one(now, &known)
    }

    /// A size that the configuration says, in bytes; the rest of the memory model need not be known.
    fn gib_of(&self, field: &str) -> Option<f64> {
        let memory = self.context.preset.memory.as_ref()?;
        Some(
            number(
                &self.evaluations.shaper,
                self.shape,
                memory.fields.get(field)?,
            )? * GIB,
        )
    }

    /// Sequences whose logits the sampler has room for, by halves.
    fn sampled(&self, now: f64) -> Option<f64> {
        let most = now * self.failure.sampler?;
        halves(now).find(|n| *n <= most)
    }

    /// The batch of an evaluation whose part of the request would have fitted, by halves; one where none would have.
    fn evaluated(&self, now: f64) -> Option<f64> {
        let most = now * self.failure.evaluates?;
        halves(now).find(|n| *n <= most).or(Some(1.0))
    }

    /// A length less what the cache of an engine is short of for one sequence.
    fn shortened(&self, now: f64) -> Option<f64> {
        let cut = self.excess()?;
        (cut < now).then_some(now - cut)
    }

    /// Tokens of one sequence that the cache does not hold.
    fn excess(&self) -> Option<f64> {
        let cache = self.failure.cache?;
        let tokens = cache.wanted_tokens.checked_sub(cache.held_tokens?)?;
        let tokens = tokens as f64;
        (tokens > 0.0).then_some(tokens)
    }
}

/// A number by halves, down to 1.
fn halves(now: f64) -> impl Iterator<Item = f64> {
    let halves = std::iter::successors(Some(now / 2.0), |n| Some(n / 2.0));
    halves.take_while(|n| *n >= 1.0).map(f64::floor)
}
