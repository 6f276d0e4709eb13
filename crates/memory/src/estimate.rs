//! From terms to an interval, and to the probability that a job fits.

use serde::Serialize;

use super::logistic::within;
use super::phase::Phase;
use super::phases::phases;
use super::profile::Profile;
use super::spec::Spec;
use super::step::PhaseTerms;
use super::terms::{FRAGMENTS, KINDS, PIECES, Term, TermKind};
use oomctl_base::units::GIB;

/// Name of what the allocator keeps for reuse.
const ALLOCATOR_CACHE: &str = "allocator cache";
/// Share of a GPU that the cache of the allocator fills at most: the driver keeps a few pages.
const FULL: f64 = 0.995;
/// Standard deviations of a normal distribution on each side of the middle that hold 90 %.
const Z90: f64 = 1.645;
/// Halvings of a range in which an end of an interval is looked for.
const HALVINGS: u32 = 24;
/// Relative spread of logits on one of the ways from them to a loss.
const PATH_SPREAD: f64 = 0.12;

/// Memory of one GPU in one phase, with its interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseEstimate {
    /// The phase.
    pub phase: Phase,
    /// Middle, in bytes.
    pub bytes: f64,
    /// Lower end of the 90 % interval, in bytes.
    pub low_bytes: f64,
    /// Upper end of the 90 % interval, in bytes.
    pub high_bytes: f64,
    /// What it consists of, the largest first.
    pub terms: Vec<Term>,
    /// Memory of the host per GPU, in bytes.
    pub host_bytes: f64,
}

impl PhaseEstimate {
    /// Of its middle what PyTorch's tensors are, without what lies outside of the allocator and what this keeps, in bytes.
    pub fn tensor_bytes(&self) -> f64 {
        let kept = [FRAGMENTS, PIECES, ALLOCATOR_CACHE];
        let outside = |t: &&Term| matches!(t.kind, TermKind::Engine | TermKind::Outside);
        let tensors = self.terms.iter().filter(|t| !outside(t));
        let tensors = tensors.filter(|t| !kept.contains(&t.name));
        tensors.map(|t| t.bytes).sum()
    }

    /// Takes another middle and interval, without what the allocator keeps: what moves during a step makes up the difference.
    pub fn moved_to(&mut self, bytes: f64, [low, high]: [f64; 2], gpu_bytes: Option<f64>) {
        let moves = |t: &&Term| matches!(t.kind, TermKind::Activations | TermKind::Logits);
        let moving: f64 = self.terms.iter().filter(moves).map(|t| t.bytes).sum();
        let kept = self.terms.iter().filter(|t| t.name == ALLOCATOR_CACHE);
        let cache: f64 = kept.map(|t| t.bytes).sum();
        let room = gpu_bytes.map_or(f64::INFINITY, |total| (total * FULL - bytes).max(0.0));
        let (before, cache) = (self.bytes, cache.min(room));
        self.bytes = bytes + cache;
        self.low_bytes = (low + cache).max(0.0);
        self.high_bytes = high + cache;
        let scale = (moving + self.bytes - before) / moving;
        if moving > 0.0 && scale > 0.0 {
            for term in &mut self.terms {
                if moves(&&*term) {
                    term.bytes *= scale;
                }
            }
        }
        self.terms.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    }
}

/// Memory of a job on its fullest GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The phases, in the order of time.
    pub phases: Vec<PhaseEstimate>,
    /// The phase with the highest middle.
    pub phase: Phase,
    /// Its middle, in bytes.
    pub peak_bytes: f64,
    /// Lower end of the peak's 90 % interval.
    pub low_bytes: f64,
    /// Upper end.
    pub high_bytes: f64,
    /// Capacity of the GPU in bytes, where it is known.
    pub gpu_bytes: Option<f64>,
    /// Probability that every phase stays within the GPU; `None` without its capacity.
    pub fits_probability: Option<f64>,
}

/// One standard deviation as a share of the half of a 90 % interval.
const DEVIATION: f64 = 1.0 / 1.645;

impl Estimate {
    /// From phases in the order of time, and what is known of the GPU.
    pub fn of_phases(
        phases: Vec<PhaseEstimate>,
        gpu_bytes: Option<f64>,
        fits_probability: Option<f64>,
    ) -> Self {
        let fullest = phases.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
        let (phase, peak_bytes, low_bytes) =
            fullest.map_or((Phase::Load, 0.0, 0.0), |p| (p.phase, p.bytes, p.low_bytes));
        let high_bytes = phases.iter().map(|p| p.high_bytes).fold(0.0, f64::max);
        Self {
            phases,
            phase,
            peak_bytes,
            low_bytes,
            high_bytes,
            gpu_bytes,
            fits_probability,
        }
    }

    /// Between which amounts the peak lies in two of three cases, in bytes.
    pub fn likely_bytes(&self) -> (f64, f64) {
        let towards = |end: f64| self.peak_bytes + (end - self.peak_bytes) * DEVIATION;
        (towards(self.low_bytes), towards(self.high_bytes))
    }

    /// The phase with the highest middle.
    pub fn fullest(&self) -> Option<&PhaseEstimate> {
        self.phases.iter().find(|p| p.phase == self.phase)
    }
}

/// Bytes of a phase for one job, whose hidden factors are given.
pub fn need(phase: &PhaseTerms, factors: &Factors) -> f64 {
    let sum: f64 = phase
        .terms
        .iter()
        .map(|t| t.bytes * factors.of(t.kind))
        .sum();
    sum + factors.constant
}

/// Sums of a phase by kind, for many evaluations of the same job.
pub fn sums(phase: &PhaseTerms) -> [f64; KINDS] {
    let mut sums = [0.0; KINDS];
    for term in &phase.terms {
        sums[term.kind as usize] += term.bytes;
    }
    sums
}

/// What a profile's widths lack for rows that nobody here had seen: 80 % of those lay in the interval of 90 % that the
/// widths alone give, as a factor on the deviation of a normal distribution (1.645 / 1.282).
const UNSEEN: f64 = 1.28;
/// What it lacks at most where hardly more rows than constants were measured.
const FEW_ROWS: f64 = 3.0;
/// Middles of sevenths of a normal distribution, in its standard deviations.
const SEVENTHS: [f64; 7] = [-1.465, -0.792, -0.366, 0.0, 0.366, 0.792, 1.465];

/// The factor on widths for rows not seen: at least what was seen on all stacks, more where few rows told the constants of
/// this one (Akaike's final prediction error, (n + k) / (n - k) on the variance of k constants that n rows told).
fn unseen(profile: &Profile) -> f64 {
    let (n, k) = (profile.rows, profile.constants);
    let few = match n > k {
        true => ((n + k) / (n - k)).sqrt().min(FEW_ROWS),
        false if k > 0.0 => FEW_ROWS,
        false => 1.0,
    };
    UNSEEN.max(few)
}

/// How full micro batches may be, over what is expected: equally likely ways, where nothing says how long the texts are.
fn fills(spec: &Spec, profile: &Profile) -> Vec<f64> {
    let expected = expected_fill(spec, profile);
    let known = spec.fill.is_some() || spec.micro_batch <= 1.0 || profile.fill_spread <= 0.0;
    if known || expected <= 0.0 {
        return vec![1.0];
    }
    let most = 1.0 / expected;
    let fill = |z: f64| (z * profile.fill_spread).exp().min(most);
    SEVENTHS.map(fill).to_vec()
}

/// Standard deviation of a phase in bytes: what moves each kind, and what no factor explains, as
/// independent of each other. `logits` is a factor on theirs.
fn deviation(spec: &Spec, phase: &PhaseTerms, profile: &Profile, fill: f64, logits: f64) -> f64 {
    let spreads = spreads(profile);
    let mut parts = sums(phase);
    parts[TermKind::Activations as usize] += phase.cache_bytes;
    parts[TermKind::Activations as usize] *= fill;
    parts[TermKind::Logits as usize] *= logits * fill;
    let squares: f64 = parts
        .iter()
        .zip(spreads)
        .map(|(bytes, spread)| (bytes * spread).powi(2))
        .sum();
    let doubt = match spec.quantised {
        Some(quantised) if quantised.keeps_inputs => profile.spread_quantised,
        _ => 1.0,
    };
    unseen(profile) * doubt * (squares + (profile.spread_gib * GIB).powi(2)).sqrt()
}

/// An amount of which one of several ways decides: the probability of each, its middle and its standard deviation.
struct Amount(Vec<(f64, f64, f64)>);

impl Amount {
    /// Of a phase, by the ways through the stack's code from logits to a loss, and by how full micro batches may be.
    fn of(spec: &Spec, phase: &PhaseTerms, profile: &Profile, middle: &Factors) -> Self {
        let needed = need(phase, middle);
        let of = |kind: TermKind| sums(phase)[kind as usize] * middle.of(kind);
        let logits = of(TermKind::Logits);
        let moving = logits + of(TermKind::Activations);
        let fills = fills(spec, profile);
        let share = 1.0 / fills.len() as f64;
        let paths: Vec<(f64, f64)> = match profile.loss_paths.is_empty() || logits <= 0.0 {
            true => vec![(1.0, 1.0)],
            false => {
                let factors = spec.loss_of(phase.phase).by_path.iter();
                let paths = profile.paths().into_iter().map(|path| path.chance);
                paths.zip(factors.copied()).collect()
            }
        };
        let ways = fills.into_iter().flat_map(|fill| {
            let way = move |(chance, factor): &(f64, f64)| {
                let sigma = deviation(spec, phase, profile, fill * middle.fill, *factor);
                let bytes = needed + moving * (fill - 1.0) + logits * fill * (factor - 1.0);
                (chance * share, bytes, sigma)
            };
            paths.iter().map(way).collect::<Vec<_>>()
        });
        Self(ways.collect())
    }

    /// Probability that it is at most `total`.
    fn within(&self, total: f64) -> f64 {
        let ways = self.0.iter();
        ways.map(|(chance, bytes, sigma)| chance * within(total, *bytes, *sigma))
            .sum()
    }

    /// Lower and upper end of its 90 % interval.
    fn interval(&self) -> (f64, f64) {
        let ends = |sign: f64| self.0.iter().map(move |(_, b, s)| b + sign * Z90 * s);
        let least = ends(-1.0).fold(f64::INFINITY, f64::min);
        let most = ends(1.0).fold(f64::NEG_INFINITY, f64::max);
        if self.0.len() == 1 {
            return (least, most);
        }
        (
            self.quantile(0.05, least, most),
            self.quantile(0.95, least, most),
        )
    }

    /// What it is at most with a probability, between two bounds.
    fn quantile(&self, probability: f64, mut low: f64, mut high: f64) -> f64 {
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            match self.within(middle) < probability {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }
}

/// Relative standard deviation of each kind; of logits on a known way, where the profile says which there are.
pub fn spreads(profile: &Profile) -> [f64; KINDS] {
    let mut spreads = [0.0; KINDS];
    spreads[TermKind::States as usize] = profile.spread_static;
    spreads[TermKind::Activations as usize] = profile.spread_activations;
    spreads[TermKind::Logits as usize] = match profile.loss_paths.is_empty() {
        true => profile.spread_logits,
        false => PATH_SPREAD,
    };
    spreads[TermKind::Engine as usize] = profile.spread_static;
    spreads[TermKind::Outside as usize] = profile.spread_activations;
    spreads
}

/// Share of the limit that a micro batch really fills. A single sequence may always be the longest, and a token
/// budget (one sequence of its size) is filled.
pub fn expected_fill(spec: &Spec, profile: &Profile) -> f64 {
    if spec.micro_batch > 1.0 {
        spec.fill.unwrap_or(profile.fill)
    } else {
        1.0
    }
}

/// The estimate of a job.
pub fn estimate(spec: &Spec, profile: &Profile) -> Estimate {
    let middle = Factors {
        fill: expected_fill(spec, profile),
        ..Factors::default()
    };
    let mut estimates = Vec::new();
    let mut fits = 1.0_f64;
    for phase in phases(spec, profile) {
        let needed = need(&phase, &middle);
        let amount = Amount::of(spec, &phase, profile, &middle);
        let mut cache = phase.cache_bytes * middle.of(TermKind::Activations);
        if let Some(total) = spec.gpu_bytes {
            fits = fits.min(amount.within(total));
            cache = cache.min((total * FULL - needed).max(0.0));
        }
        let bytes = needed + cache;
        let (low, high) = amount.interval();
        estimates.push(PhaseEstimate {
            phase: phase.phase,
            bytes,
            low_bytes: (low + cache).max(0.0),
            high_bytes: high + cache,
            terms: sorted(phase.terms, &middle, cache),
            host_bytes: phase.host_bytes,
        });
    }
    let fits = spec.gpu_bytes.map(|_| fits);
    Estimate::of_phases(estimates, spec.gpu_bytes, fits)
}

/// The terms as they are expected for this job, the largest first.
fn sorted(mut terms: Vec<Term>, factors: &Factors, cache: f64) -> Vec<Term> {
    for term in &mut terms {
        term.bytes *= factors.of(term.kind);
    }
    if cache > 0.0 {
        terms.push(Term {
            name: ALLOCATOR_CACHE,
            kind: TermKind::Activations,
            bytes: cache,
        });
    }
    terms.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    terms
}

/// How far one job lies from the formulas. [`Factors::default`] is the middle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// Factor on each kind of term, in the order of [`TermKind`].
    pub kinds: [f64; KINDS],
    /// Bytes on top, in every phase.
    pub constant: f64,
    /// Tokens really in a micro batch over those expected; moves activations and logits.
    pub fill: f64,
}

impl Default for Factors {
    fn default() -> Self {
        Self {
            kinds: [1.0; KINDS],
            constant: 0.0,
            fill: 1.0,
        }
    }
}

impl Factors {
    /// The factor on terms of a kind.
    pub fn of(&self, kind: TermKind) -> f64 {
        let own = self.kinds[kind as usize];
        match kind {
            TermKind::Activations | TermKind::Logits => own * self.fill,
            TermKind::States | TermKind::Engine | TermKind::Outside => own,
        }
    }
}
