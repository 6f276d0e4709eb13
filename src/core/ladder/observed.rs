//! What the memory model expects of a change, given how full a GPU was with the configuration before it.
//!
//! The change of each phase is added to what was seen, or to what an attempt needed at least that died in it;
//! only the change carries the model's doubt.
//!
//! `Posterior` answers another question: how much a job takes of which it is only known how it died. It weighs particles at
//! all that is hidden, and of a few thousand a handful would be left by a peak that is known to some percent. Two
//! configurations of which one was measured need no particles: what is hidden is the same in both.

use super::evidence::{fatal_phases, least_need};
use super::tune::Judgement;
use crate::core::measure::{Measured, Quantity};
use oomctl_base::units::GIB;
use oomctl_diagnose::Incident;
use oomctl_memory::logistic::within;
use oomctl_memory::{Estimate, Phase, PhaseEstimate, Profile, Spec, TermKind, estimate};

/// Standard deviations that hold 90 % on each side of the middle, as the model's intervals do.
const Z90: f64 = 1.645;
/// Relative doubt in a peak that was seen: samples a second apart, batches of another length.
const SEEN: f64 = 0.02;
/// Relative doubt in a change of one phase.
const CHANGE: f64 = 0.25;

/// The configuration that is started from, by phase, and what is known of it.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    profile: &'a Profile,
    base: Estimate,
    /// The phase of which it is known how much it took, in bytes.
    seen: Option<(Phase, f64)>,
    /// The most that any phase can have taken, in bytes; `None` where it is not known to fit.
    most: Option<f64>,
    total: f64,
    deaths: Vec<Death>,
}

/// A phase in which an earlier attempt died.
#[derive(Debug, Clone)]
struct Death {
    phase: Phase,
    /// What the model expected of it, in bytes.
    expected: f64,
    /// What it needed at least, in bytes.
    least: f64,
}

impl<'a> Observed<'a> {
    /// From what the model expects and what is known; `None` without the GPU's capacity.
    pub fn new(spec: &Spec, profile: &'a Profile, fits: bool, measured: &Measured) -> Option<Self> {
        let base = estimate(spec, profile);
        let total = spec.gpu_bytes?;
        let (seen, bound) = match peak(measured, &base).filter(|_| fits) {
            Some(MeasuredPeak::Device(bytes)) => {
                (Some((base.phase, bytes.min(total))), bytes.min(total))
            }
            Some(MeasuredPeak::Program(phase, bytes)) => (Some((phase, bytes.min(total))), total),
            None => (None, total),
        };
        Some(Self {
            profile,
            base,
            seen,
            most: fits.then_some(bound),
            total,
            deaths: Vec::new(),
        })
    }

    /// Takes in that an attempt with another configuration died.
    pub fn learn(&mut self, spec: &Spec, incident: &Incident) {
        let estimate = estimate(spec, self.profile);
        let fatal = fatal_phases(incident);
        let phases = estimate.phases.iter().filter(|p| fatal.contains(&p.phase));
        if let Some(phase) = phases.max_by(|a, b| a.bytes.total_cmp(&b.bytes)) {
            self.deaths.push(Death {
                phase: phase.phase,
                expected: phase.bytes,
                least: least_need(incident, self.total),
            });
        }
    }

    /// What is expected of another configuration.
    pub fn judge(&self, spec: &Spec) -> Judgement {
        let other = estimate(spec, self.profile);
        let mut fits = 1.0_f64;
        let mut fullest: Option<(f64, &PhaseEstimate)> = None;
        for phase in &other.phases {
            let (bytes, deviation) = self.expected(phase);
            let bytes = bytes.max(self.least(phase));
            fits = fits.min(within(self.total, bytes, deviation));
            if fullest.is_none_or(|(most, _)| bytes > most) {
                fullest = Some((bytes, phase));
            }
        }
        Judgement {
            fits_probability: fits,
            peak_gib: fullest.map(|(bytes, _)| bytes / GIB),
            phase: fullest.map(|(_, p)| p.phase.word()),
            ground: match (self.seen, self.most) {
                (Some(_), _) => "measured peak and memory model",
                (None, Some(_)) => "memory model, from a configuration that fits",
                (None, None) => "memory model",
            }
            .into(),
        }
    }

    /// Middle and standard deviation of one phase of another configuration, in bytes.
    fn expected(&self, phase: &PhaseEstimate) -> (f64, f64) {
        let before = self.base.phases.iter().find(|p| p.phase == phase.phase);
        let own = (phase.high_bytes - phase.bytes) / Z90;
        let (Some(before), Some(most)) = (before, self.most) else {
            return (phase.bytes, own.max(1.0));
        };
        let spread = (before.high_bytes - before.bytes) / Z90;
        let (base, seen) = (self.took(before, most), SEEN * most);
        let doubt = match self.seen {
            Some((phase, _)) if phase == before.phase => seen,
            _ => spread.min((most - base) / Z90).max(seen),
        };
        let change = phase.bytes - before.bytes;
        let deviation = doubt.hypot(CHANGE * change);
        (base + change, deviation.min(own.max(doubt)).max(1.0))
    }

    /// What a phase took where the job is known to fit: what was seen, else what the model expects, but no more
    /// than there was.
    fn took(&self, phase: &PhaseEstimate, most: f64) -> f64 {
        match self.seen {
            Some((seen, bytes)) if seen == phase.phase => bytes,
            _ => phase.bytes.min(most),
        }
    }

    /// The least that a phase takes, after those that died in it: between the configuration that fits and one
    /// that died in proportion to what the model expects.
    fn least(&self, phase: &PhaseEstimate) -> f64 {
        let before = self.base.phases.iter().find(|p| p.phase == phase.phase);
        let same = self.deaths.iter().filter(|d| d.phase == phase.phase);
        let least = same.filter_map(|death| match (before, self.most) {
            (Some(before), Some(most)) => {
                let (base, change) = (self.took(before, most), death.expected - before.bytes);
                // Where the model cannot tell the two apart it says nothing about others.
                let steeper = (death.least - base) / change;
                (change > SEEN * most)
                    .then(|| base + (phase.bytes - before.bytes) * steeper.max(1.0))
            }
            _ => Some(death.least + phase.bytes - death.expected),
        });
        least.fold(0.0, f64::max)
    }
}

/// A peak that was measured, in bytes.
enum MeasuredPeak {
    /// Of the fullest GPU, as the driver saw it.
    Device(f64),
    /// Of the phase in which the program itself takes most: what it said of its allocator, and what the
    /// model knows beside that.
    Program(Phase, f64),
}

fn peak(measured: &Measured, base: &Estimate) -> Option<MeasuredPeak> {
    if let Some(gpu) = measured.fullest() {
        return Some(MeasuredPeak::Device(gpu.peak_bytes.as_f64()));
    }
    let figure = |wanted| {
        let mut figures = measured.figures.iter();
        figures.find(|f| f.measure == wanted).map(|f| f.peak_bytes)
    };
    let said = figure(Quantity::GpuReserved).or_else(|| figure(Quantity::GpuAllocated))?;
    let beside = |phase: &PhaseEstimate| {
        let terms = phase.terms.iter();
        let beside = terms.filter(|t| matches!(t.kind, TermKind::Engine | TermKind::Outside));
        beside.map(|t| t.bytes).sum::<f64>()
    };
    let own = |phase: &PhaseEstimate| phase.bytes - beside(phase);
    let phases = base.phases.iter();
    let fullest = phases.max_by(|a, b| own(a).total_cmp(&own(b)))?;
    Some(MeasuredPeak::Program(
        fullest.phase,
        said.as_f64() + beside(fullest),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::measure::{Figure, GpuPeak};
    use oomctl_base::units::Bytes;
    use oomctl_diagnose::Class;
    use oomctl_memory::MeasurementRow;

    /// A 7B model on 4 GPUs of 80 GB with `micro` sequences a forward pass.
    fn spec(micro: u32, offload: &str) -> Spec {
        let row = serde_json::json!({
            "task": "grpo", "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944,
            "vocab": 152064, "gpus": 4, "sharding": "fsdp", "precision": "fsdp_mp", "gpu_total_gib": 79.18,
            "micro_batch": micro, "seq_len": 2048, "grad_checkpointing": "full", "loss_impl": "other", "fill": 0.8,
            "engine_share": 0.2, "rollout_tp": 2, "offload": offload,
        });
        let row: MeasurementRow = serde_json::from_value(row).unwrap();
        row.spec(&Profile::default()).unwrap()
    }

    fn seen(gib: f64) -> Measured {
        let gpu = GpuPeak {
            utilization_percent: None,
            node: "n1".to_owned(),
            gpu: 0,
            uuid: "GPU-1".to_owned(),
            name: "A100".to_owned(),
            peak_bytes: Bytes::from_gib(gib),
            own_peak_bytes: None,
            pid: None,
            total_bytes: Bytes::from_gib(79.18),
        };
        Measured::new(vec![gpu], Vec::new())
    }

    fn fits(measured: &Measured, micro: u32) -> f64 {
        let profile = Profile::default();
        let observed = Observed::new(&spec(4, "none"), &profile, true, measured).unwrap();
        observed.judge(&spec(micro, "none")).fits_probability
    }

    #[test]
    fn what_was_seen_is_expected_again_and_more_of_the_batch_takes_more() {
        let profile = Profile::default();
        let base = spec(4, "none");
        let observed = Observed::new(&base, &profile, true, &seen(50.0)).unwrap();
        let again = observed.judge(&base);
        assert!((again.peak_gib.unwrap() - 50.0).abs() < 0.1, "{again:?}");
        assert!(again.fits_probability > 0.99);
        let chances = [4, 8, 16, 32].map(|micro| fits(&seen(50.0), micro));
        assert!(chances.is_sorted_by(|a, b| a >= b), "{chances:?}");
        assert!(chances[3] < 0.5, "{chances:?}");
    }

    #[test]
    fn a_job_that_took_less_than_expected_has_more_room() {
        let chances = [30.0, 45.0, 60.0, 75.0].map(|gib| fits(&seen(gib), 8));
        assert!(chances.is_sorted_by(|a, b| a >= b), "{chances:?}");
        assert!(chances[0] > 0.9 && chances[3] < 0.5, "{chances:?}");
    }

    #[test]
    fn figures_of_the_program_count_with_what_lies_beside_its_allocator() {
        let profile = Profile::default();
        let figure = Figure {
            measure: Quantity::GpuReserved,
            peak_bytes: Bytes::from_gib(40.0),
        };
        let said = Measured::new(Vec::new(), vec![figure]);
        let base = estimate(&spec(4, "none"), &profile);
        let Some(MeasuredPeak::Program(_, bytes)) = peak(&said, &base) else {
            panic!()
        };
        let gib = bytes / GIB;
        assert!(gib > 40.0 && gib < 50.0, "{gib}");
        assert!(peak(&Measured::default(), &base).is_none());
    }

    #[test]
    fn what_an_earlier_attempt_died_of_is_not_proposed_again() {
        let profile = Profile::default();
        let base = spec(4, "param+optimizer");
        let mut observed = Observed::new(&base, &profile, true, &seen(30.0)).unwrap();
        let before = observed.judge(&spec(4, "none")).fits_probability;
        let died = Incident {
            phase: "wake_up".to_owned(),
            ..Incident::bare("cuda_oom", Class::GpuOom)
        };
        observed.learn(&spec(4, "none"), &died);
        let after = observed.judge(&spec(4, "none")).fits_probability;
        assert!(before > 0.9 && after <= 0.5, "{before} {after}");
        assert!(observed.judge(&base).fits_probability > 0.9);
        // Half of the way is half of the difference.
        let between = observed.judge(&spec(4, "optimizer")).fits_probability;
        assert!(between > after, "{between} {after}");
    }
}
