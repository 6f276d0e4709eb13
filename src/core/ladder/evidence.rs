//! What one attempt tells of the hidden factors of a job: where it died, what passed before, and what the
//! message says.

use super::need::PhaseSums;
use super::particle::Particle;
use super::past::{Peak, PeakOf};
use super::request::{LogitsRequest, for_embeddings};
use oomctl_base::units::{Bytes, GIB};
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::logistic::{bell, curve};
use oomctl_memory::{Phase, PhaseTerms, Profile, Spec, TermKind, phases};

/// Doubt in bytes in figures and formulas.
const DOUBT: f64 = 0.5 * GIB;
/// Doubt in what a phantom counted, as a part of it: nine of ten published rows of the same versions are nearer (docs/measure.md).
const TENSORS_DOUBT: f64 = 0.02;
/// Likelihood that is left where the formulas of a phase do not hold.
const MISFIT: f64 = 0.02;
/// Probability of something that no formula has, where what a particle has does not explain the failure.
const UNKNOWN: f64 = 0.01;
/// Part of it that is in the update alone, where the update ran out: nothing tells one from the other.
const IN_UPDATE: f64 = 0.5;
/// Share of a GPU that what ran out of memory needs beyond the least that is known of it, in the mean.
const BEYOND: f64 = 0.03;
/// Doubt in bytes in what lies outside the allocator, which the message's figures give to a page.
const OUTSIDE_DOUBT: f64 = 0.15 * GIB;
/// What one attempt tells.
pub(super) struct AttemptEvidence {
    /// Bytes of the GPU.
    total: f64,
    /// The most that was ever in use.
    most: f64,
    /// Phases that passed, with what was seen in them.
    passed: Vec<(PhaseSums, Option<Peak>)>,
    /// Phases in one of which it died; all where the text did not tell.
    fatal: Vec<PhaseSums>,
    /// The text did tell.
    told: bool,
    /// The least that the fullest of them needed.
    least: f64,
    /// Of it what was free but in pieces, where the request can have been for the gradient of the embeddings.
    pieces: Option<f64>,
    /// The request was for something else, so that nothing was in pieces between gradients.
    other: bool,
    /// What lay outside the allocator of the program that died, in bytes.
    outside: Option<f64>,
    /// The request that failed, where it can have been for logits.
    request: Option<LogitsRequest>,
}

impl AttemptEvidence {
    /// From an attempt on GPUs of `total` bytes.
    pub fn new(
        spec: &Spec,
        incident: Option<&Incident>,
        peaks: &[Peak],
        profile: &Profile,
        total: f64,
    ) -> Self {
        let all: Vec<PhaseTerms> = phases(spec, profile);
        let of_gpu = incident.filter(|i| wants_gpu(i) && !is_of_missing_engine(i, &all));
        let told = of_gpu.map_or(&[][..], fatal_phases);
        let first = all.iter().position(|p| told.contains(&p.phase));
        let seen = |phase: Phase| peaks.iter().find(|p| p.phase == Some(phase)).copied();
        let steps = incident.and_then(|i| i.step).unwrap_or(0);
        // An engine starts before anything but the load has passed.
        let starting = told.contains(&Phase::Rollout) && steps == 0;
        let mut passed = Vec::new();
        for (at, phase) in all.iter().enumerate() {
            let before = first.is_some_and(|first| at < first);
            let before = before && (!starting || phase.phase == Phase::Load);
            let seen = seen(phase.phase);
            let step = phase.phase == Phase::OptimizerStep;
            // Of what fitted on a phantom the phases passed that it counted.
            let fitted = incident.is_none() && seen.is_some();
            if fitted || steps > 1 && (before || step) {
                passed.push((PhaseSums::of(spec, phase), seen));
            } else if before || steps > 1 {
                passed.push((PhaseSums::without_moments(spec, phase), seen));
            }
        }
        // A step may update several times: at all but the first the moments are there.
        let update =
            |p: Phase| matches!(p, Phase::Forward | Phase::Backward | Phase::OptimizerStep);
        let needs = |p: &&PhaseTerms| match steps > 1 || update(p.phase) {
            true => PhaseSums::of(spec, p),
            false => PhaseSums::without_moments(spec, p),
        };
        let reached = all
            .iter()
            .filter(|p| told.is_empty() || told.contains(&p.phase));
        let reached: Vec<&PhaseTerms> = reached.filter(|_| of_gpu.is_some()).collect();
        let whole = peaks.iter().filter(|p| p.phase.is_none());
        let fatal = reached.first().filter(|_| !told.is_empty());
        let request = fatal.and_then(|phase| LogitsRequest::new(spec, incident?, phase));
        let last = incident.and_then(|i| i.requested_bytes);
        let last = last.map(|requested| for_embeddings(spec, requested.as_f64()));
        let unallocated = incident.and_then(|i| i.reserved_unallocated_bytes);
        Self {
            total,
            most: whole.map(|p| p.bytes.as_f64()).fold(total, f64::min),
            passed,
            fatal: reached.iter().map(needs).collect(),
            told: !told.is_empty(),
            least: incident.map_or(0.0, |i| least_need(i, total)),
            pieces: unallocated
                .map(Bytes::as_f64)
                .filter(|_| last == Some(true)),
            other: last == Some(false),
            outside: incident.and_then(outside),
            request,
        }
    }

    /// The particle as it is, and with micro batches that are as full as a request for logits says; each with something on
    /// top where the job would have fitted.
    pub fn ways(
        &self,
        particle: &Particle,
        full: impl Fn(&Particle) -> f64,
    ) -> impl Iterator<Item = Particle> {
        let need = self.fatal.first().filter(|_| self.told);
        let ways = match (need, self.request.as_ref()) {
            (
                Some(PhaseSums {
                    mixed: Some(mixed), ..
                }),
                Some(request),
            ) => request.ways(particle, *mixed, full),
            _ => [Some(*particle), None, None],
        };
        ways.into_iter()
            .flatten()
            .flat_map(|way| self.enough(way).into_iter().flatten())
    }

    /// How well a particle explains it, as a likelihood.
    pub fn explained(&self, particle: &Particle) -> f64 {
        let passed = self.passed.iter().map(|(need, seen)| {
            let near = seen.map_or(1.0, |seen| near(&seen, need, particle));
            let fits = curve((self.most - need.bytes(particle)) / DOUBT);
            match seen.map(|seen| seen.of) {
                // The very program was counted: where the formulas do not hold, the factors make up for it.
                Some(PeakOf::Tensors) => near * mixed(fits),
                _ => mixed(near * fits),
            }
        });
        let whole = || {
            self.died(particle)
                .map(|need| curve((need - self.least) / DOUBT))
        };
        let died = self.in_pieces(particle).or_else(whole).unwrap_or(1.0);
        passed.product::<f64>() * self.figures(particle) * died
    }

    /// What cannot be otherwise: what ran out of memory needs more than there is. Where a particle says less, something is
    /// there that no formula has: in every phase, or, where the update ran out, in the update alone.
    fn enough(&self, particle: Particle) -> [Option<Particle>; 2] {
        let Some(need) = self.died(&particle).filter(|need| *need <= self.total) else {
            return [Some(particle), None];
        };
        let wanted = self.least.max(self.total) + self.beyond(&particle);
        let updates = self.told && self.fatal.iter().all(|need| need.updates);
        let in_update = if updates { IN_UPDATE } else { 0.0 };
        let mut everywhere = particle;
        everywhere.unknown += wanted - need;
        everywhere.weight *= UNKNOWN * (1.0 - in_update);
        let mut updating = particle;
        updating.update *= wanted / need;
        updating.weight *= UNKNOWN * in_update;
        [Some(everywhere), updates.then_some(updating)]
    }

    /// How likely as much was in pieces, beside what was not; `None` where no phase has any.
    fn in_pieces(&self, particle: &Particle) -> Option<f64> {
        let seen = self.pieces?;
        let of = |need: &PhaseSums| {
            let whole = curve((need.whole(particle) - (self.least - seen)) / DOUBT);
            Some(whole * curve((need.pieces(particle)? - seen) / DOUBT))
        };
        self.fatal.iter().filter_map(of).reduce(f64::max)
    }

    /// What a particle needs beyond the least that is known, in bytes: the request that failed need not have been the last. Its
    /// distribution is exponential.
    fn beyond(&self, particle: &Particle) -> f64 {
        let place = (f64::from(particle.number) * 0.754_877_7).fract();
        -place.max(1e-4).ln() * BEYOND * self.total
    }

    /// Bytes of the fullest of the phases in which it died.
    fn died(&self, particle: &Particle) -> Option<f64> {
        let needs = self.fatal.iter().map(|need| match self.other {
            true => need.whole(particle),
            false => need.bytes(particle),
        });
        needs.reduce(f64::max)
    }

    /// How well a particle explains the message's figures, as a likelihood.
    fn figures(&self, particle: &Particle) -> f64 {
        let Some(need) = self.fatal.first().filter(|_| self.told) else {
            return 1.0;
        };
        let outside = self.outside.map_or(1.0, |seen| {
            let part = |kind: TermKind| need.sums[kind as usize] * particle.kinds[kind as usize];
            let expected = part(TermKind::Outside) + part(TermKind::Engine) + particle.constant;
            mixed(bell((expected - seen) / OUTSIDE_DOUBT))
        });
        let request = self.request.as_ref().filter(|_| particle.told);
        let request = request.map_or(1.0, |r| r.explained(particle, need.filled(particle)));
        outside * request
    }
}

/// How near a particle comes to a peak, as a likelihood.
fn near(seen: &Peak, need: &PhaseSums, particle: &Particle) -> f64 {
    let peak = seen.bytes.as_f64();
    match seen.of {
        PeakOf::Gpu => bell((need.bytes(particle) - peak) / DOUBT),
        PeakOf::Tensors => bell((need.tensors(particle) - peak) / (TENSORS_DOUBT * peak)),
    }
}

/// A likelihood that leaves room for what no particle has.
fn mixed(likelihood: f64) -> f64 {
    MISFIT + (1.0 - MISFIT) * likelihood
}

/// Whether more memory of the GPU would have helped: an engine that finds its own share too small says nothing
/// of the GPU.
fn wants_gpu(incident: &Incident) -> bool {
    match incident.class {
        Class::GpuOom => true,
        Class::EngineMemory => incident.phase != "kv_cache",
        _ => false,
    }
}

/// Whether the cache of an engine had no room that the formulas do not have: it says nothing of what they have.
pub(super) fn is_of_missing_engine(incident: &Incident, all: &[PhaseTerms]) -> bool {
    let rolls_out = |p: &PhaseTerms| p.phase == Phase::Rollout;
    incident.class == Class::GpuOom && incident.phase == "kv_cache" && !all.iter().any(rolls_out)
}

/// What lay outside the allocator of the program that died: the GPU without what was free and what the allocator
/// had.
fn outside(incident: &Incident) -> Option<f64> {
    let (total, free) = (
        incident.total_bytes?.as_f64(),
        incident.free_bytes?.as_f64(),
    );
    let unallocated = incident.reserved_unallocated_bytes?.as_f64();
    let own = incident.allocated_bytes?.as_f64() + unallocated;
    (own > 0.0 && own + free <= total).then_some(total - free - own)
}

/// The model's phases for a diagnosed one; none where the text did not tell.
pub(super) fn fatal_phases(incident: &Incident) -> &'static [Phase] {
    match incident.phase.as_str() {
        "init" | "cuda_graph" if incident.class == Class::EngineMemory => &[Phase::Rollout],
        "kv_cache" => &[],
        // A backward pass begins with all that the end of the forward pass holds.
        "critic" => &[Phase::Critic],
        "actor_update" | "backward" => &[Phase::Forward, Phase::Backward],
        "forward" => &[Phase::Forward],
        "optimizer_step" => &[Phase::OptimizerStep],
        "old_logprob" => &[Phase::OldLogprob],
        "ref_logprob" => &[Phase::RefLogprob],
        "rollout" | "cuda_graph" => &[Phase::Rollout],
        "wake_up" => &[Phase::WakeUp, Phase::Rollout],
        "load" => &[Phase::Load],
        // Workers and engine start in it, and the text did not tell which of them asked.
        "init" => &[Phase::Load, Phase::Rollout],
        "checkpoint" => &[Phase::Checkpoint],
        _ => &[],
    }
}

/// The least that was needed at the fatal allocation: what was in use and what was asked for, where the figures
/// agree with each other; else the GPU.
pub(super) fn least_need(incident: &Incident, total: f64) -> f64 {
    let figures = (
        incident.total_bytes,
        incident.free_bytes,
        incident.requested_bytes,
    );
    let (Some(all), Some(free), Some(requested)) = figures else {
        return total;
    };
    let sane =
        incident.allocated_bytes.is_none_or(|a| a <= all) && free <= all && requested.0 < all.0 * 4;
    if sane {
        (all.0 - free.0) as f64 + requested.as_f64()
    } else {
        total
    }
}
