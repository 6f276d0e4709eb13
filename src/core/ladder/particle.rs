//! A particle at the hidden factors of a job.

use oomctl_memory::KINDS;

/// A particle at the hidden factors of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Particle {
    /// Its number, by which it draws what is luck.
    pub number: u32,
    /// Factor on each kind of term.
    pub kinds: [f64; KINDS],
    /// Bytes on top, in every phase.
    pub constant: f64,
    /// Bytes of something that no formula has, in every phase.
    pub unknown: f64,
    /// Share of the limit that a micro batch of `FILLED` sequences fills.
    pub fill: f64,
    /// Share of the limit that the longest sequence fills: rarely are prompt and answer at their longest together.
    pub longest: f64,
    /// That was read from a request for logits.
    pub told: bool,
    /// Number of its way through the code from logits to a loss.
    pub path: usize,
    /// Logits are copied to fp32 on it.
    pub upcast: bool,
    /// Share of the optimizer's temporaries that there are.
    pub temporaries: f64,
    /// Factor on all of the update's forward and backward pass.
    pub update: f64,
    /// Its probability.
    pub weight: f64,
}

impl Particle {
    /// Share of the limit that the fullest micro batch fills, `FILLED` sequences of which come this near to their mean.
    pub fn filled(&self, mixed: f64) -> f64 {
        let share = self.longest - (self.longest - self.fill) * mixed;
        share.max(0.5 * self.fill).min(1.0)
    }

    /// The same particle with a fullest micro batch that fills this share.
    pub fn filling(&self, share: f64, mixed: f64) -> Option<Self> {
        let fill = self.longest - (self.longest - share) / mixed;
        let particle = Self {
            fill,
            told: true,
            ..*self
        };
        (fill > 0.0 && fill.is_finite() && (particle.filled(mixed) / share - 1.0).abs() < 0.02)
            .then_some(particle)
    }
}
