//! What the attempts so far have told, and what is wanted of the next one.

use super::decision::Skipped;
use crate::core::measure::{GpuPeak, Measured, PhantomSummary};
use crate::core::recipe::Layer;
use oomctl_base::job::RunMachine;
use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;
use oomctl_memory::{Phase, Profile};

/// What a peak counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeakOf {
    /// All that is in use on the GPU: context, communication, an engine, what the allocator keeps.
    Gpu,
    /// PyTorch's tensors, as its allocator counts them on a phantom.
    Tensors,
}

/// Memory that was seen in use on the fullest GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// The phase in which it was seen and that passed; `None` for the peak of the whole attempt.
    pub phase: Option<Phase>,
    /// What was in use.
    pub bytes: Bytes,
    /// Of what.
    pub of: PeakOf,
}

impl Peak {
    /// The peak of an attempt as its GPUs were sampled; what others held on them does not count where
    /// the driver told it apart.
    pub fn of(measured: &Measured) -> Vec<Self> {
        let own = |gpu: &GpuPeak| gpu.own_peak_bytes.unwrap_or(gpu.peak_bytes);
        let bytes = measured.gpus.iter().map(own).max();
        bytes
            .map(|bytes| Self {
                phase: None,
                bytes,
                of: PeakOf::Gpu,
            })
            .into_iter()
            .collect()
    }

    /// The peaks of the phases that passed on a phantom GPU. A backward pass begins with all that the end of the forward
    /// pass holds, which the model counts to the forward.
    pub fn on_phantom(summary: &PhantomSummary) -> Vec<Self> {
        let died_in = summary.failed_in.as_ref().or(summary.reason.as_ref());
        let passed = |phase: &str| {
            let died = summary.fits == Some(false) && died_in.is_some_and(|died| died == phase);
            let peak = summary.phases.get(phase).filter(|_| !died)?;
            Some(peak.allocated).filter(|bytes| *bytes > 0)
        };
        let update = passed("forward")
            .zip(passed("backward"))
            .map(|(f, b)| f.max(b));
        let peaks = [
            (Phase::Forward, update),
            (Phase::OptimizerStep, passed("optimizer step")),
        ];
        let peak = |(phase, bytes): (Phase, Option<u64>)| {
            Some(Self {
                phase: Some(phase),
                bytes: Bytes(bytes?),
                of: PeakOf::Tensors,
            })
        };
        peaks.into_iter().filter_map(peak).collect()
    }
}

/// A configuration that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct PastAttempt {
    /// Layers of the rungs that it had.
    pub rungs: Vec<Layer>,
    /// Why it died; `None` where it fitted, on a phantom.
    pub incident: Option<Incident>,
    /// What was measured until then.
    pub peaks: Vec<Peak>,
}

impl PastAttempt {
    /// An attempt with these rungs that died so.
    pub fn new(rungs: Vec<Layer>, incident: Incident, peaks: Vec<Peak>) -> Self {
        Self {
            rungs,
            incident: Some(incident),
            peaks,
        }
    }
}

/// Where the last attempt of a program ran.
#[derive(Debug, Clone, Copy)]
pub struct OnMachine<'a> {
    /// Its GPU, and the others.
    pub machine: &'a RunMachine,
    /// Bytes that the next attempt needs at least, because earlier ones died with the same values.
    pub needed: Option<Bytes>,
}

/// What is known of the attempts so far, besides why the last one died.
#[derive(Debug, Clone, Copy, Default)]
pub struct Past<'a> {
    /// What was tried before the last one, in order.
    pub earlier: &'a [PastAttempt],
    /// What was measured in the last one.
    pub peaks: &'a [Peak],
    /// Rungs that are not to be taken this time, because somebody asked for that.
    pub left_out: &'a [Skipped],
    /// The GPUs of the machine, where a program is started on one.
    pub machine: Option<OnMachine<'a>>,
}

/// What is known for looking ahead.
#[derive(Debug, Clone, Copy)]
pub struct Priors<'a> {
    /// Constants of the training stack.
    pub profile: &'a Profile,
    /// Probability to fit that the next attempt should have.
    pub min_fit_probability: f64,
    /// The attempts so far.
    pub past: Past<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::measure::PhantomPeak;

    #[test]
    fn what_died_on_a_phantom_under_another_name_has_no_peak_of_a_phase_that_passed() {
        let mut summary = PhantomSummary::unmeasured("");
        let peak = |allocated| PhantomPeak {
            allocated,
            reserved: allocated,
        };
        for (phase, bytes) in [("forward", 3), ("backward", 2), ("optimizer step", 1)] {
            summary.phases.insert(phase.to_owned(), peak(bytes));
        }
        let phases = |summary: &PhantomSummary| {
            let peaks = Peak::on_phantom(summary).into_iter();
            peaks.filter_map(|peak| peak.phase).collect::<Vec<_>>()
        };
        let both = [Phase::Forward, Phase::OptimizerStep];
        assert_eq!(phases(&summary), both);
        summary.fits = Some(false);
        summary.reason = Some("actor_update".to_owned());
        summary.failed_in = Some("forward".to_owned());
        assert_eq!(phases(&summary), [Phase::OptimizerStep]);
    }
}
