//! What `oomctl estimate` shows: a table by phase, the terms of the fullest one, the same as JSON.

use std::fmt::Write as _;

use oomctl_base::units::chance;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{gib, in_gib, is_far, rounded};
use super::measured_plan_view::kept_line;
use super::rung_view::{EVEN, interval, is_rough};
use super::sources_view::EstimateSources;
use super::style::{BAD, GOOD, WARN};
use super::{DIM, NAME, Paint};
use crate::core::adopt::Resources;
use crate::core::ladder::{Change, Step};
use crate::core::request::{FittingSteps, KeptMeasurement};
use oomctl_memory::{Estimate, Phase, Profile, Room, TERMS, Term};

/// Format of the JSON document.
const SCHEMA_VERSION: u32 = 1;
/// From how many times its lower end on an interval is too wide to decide by.
const WIDE: f64 = 1.5;
/// Characters of a bar.
const WIDTH: usize = 30;

#[derive(Serialize, JsonSchema)]
struct TermView {
    name: &'static str,
    gib: f64,
}

fn terms(terms: &[Term]) -> Vec<TermView> {
    let view = |t: &Term| TermView {
        name: t.name,
        gib: gib(t.bytes, 3),
    };
    terms.iter().map(view).collect()
}

/// One line of the answer to bare specifications.
#[derive(Serialize, JsonSchema)]
pub struct EstimateLine {
    id: Option<String>,
    predicted_peak_gib: f64,
    low_gib: f64,
    high_gib: f64,
    phase: Phase,
    terms: Vec<TermView>,
    host_gib: f64,
    fits_probability: Option<f64>,
    profile: String,
}

impl EstimateLine {
    /// The answer for one specification.
    pub fn new(id: Option<String>, estimate: &Estimate, profile: &Profile) -> Self {
        let fullest = estimate.fullest();
        Self {
            id,
            predicted_peak_gib: gib(estimate.peak_bytes, 3),
            low_gib: gib(estimate.low_bytes, 3),
            high_gib: gib(estimate.high_bytes, 3),
            phase: estimate.phase,
            terms: fullest.map(|p| terms(&p.terms)).unwrap_or_default(),
            host_gib: gib(fullest.map_or(0.0, |p| p.host_bytes), 3),
            fits_probability: estimate.fits_probability.map(|p| rounded(p, 3)),
            profile: profile.profile.clone(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct PhaseView {
    phase: Phase,
    gib: f64,
    low_gib: f64,
    high_gib: f64,
    terms: Vec<TermView>,
}

#[derive(Serialize, JsonSchema)]
struct SmallestChange {
    rungs: Vec<String>,
    changes: Vec<Change>,
    /// The rungs, each with the first number that it changes.
    #[serde(skip)]
    described: String,
    peak_gib: f64,
    fits_probability: Option<f64>,
}

impl SmallestChange {
    fn of(remedy: FittingSteps) -> Self {
        let steps = &remedy.steps;
        let changes = |steps: &[Step]| Change::joined(steps.iter().flat_map(|s| &s.changes));
        let described = steps.chunk_by(|a, b| a.rung == b.rung).map(|same| {
            let rung = &same[0].rung;
            let first = changes(same).into_iter().find(Change::is_of_numbers);
            first.map_or_else(
                || rung.clone(),
                |c| format!("{rung} ({} {})", c.name(), c.values("->")),
            )
        });
        let described: Vec<String> = described.collect();
        Self {
            rungs: steps.iter().map(|s| s.rung.clone()).collect(),
            changes: changes(steps),
            described: described.join(", "),
            peak_gib: gib(remedy.estimate.peak_bytes, 3),
            fits_probability: remedy.estimate.fits_probability.map(|p| rounded(p, 3)),
        }
    }
}

/// The estimate of a configured job.
#[derive(Serialize, JsonSchema)]
pub struct EstimateView {
    schema_version: u32,
    preset: String,
    dataset: Option<String>,
    gpus: u64,
    gpu_gib: Option<f64>,
    sources: EstimateSources,
    verdict: &'static str,
    fits_probability: Option<f64>,
    predicted_peak_gib: f64,
    low_gib: f64,
    high_gib: f64,
    /// In two of three cases the peak lies between these.
    likely_gib: (f64, f64),
    phase: Phase,
    phases: Vec<PhaseView>,
    host_gib_per_node: f64,
    mem: Option<String>,
    #[serde(skip)]
    narrower: String,
    smallest_change: Option<SmallestChange>,
    /// What was measured of it on a phantom before, which the figures rest on.
    phantom: Option<KeptMeasurement>,
}

/// What is known of a job besides its estimate.
pub struct EstimatedJob {
    /// Its preset.
    pub preset: String,
    /// Its dataset profile.
    pub dataset: Option<String>,
    /// What it asks the scheduler for.
    pub resources: Resources,
    /// The host memory that it asks for.
    pub host_memory: Option<String>,
    /// What says more, as commands.
    pub narrower: String,
    /// Where model and GPU are known from.
    pub sources: EstimateSources,
    /// The first rungs that make it fit.
    pub remedy: Option<FittingSteps>,
    /// What was measured of it before.
    pub phantom: Option<KeptMeasurement>,
}

impl EstimateView {
    /// The view of a job's estimate.
    pub fn new(job: EstimatedJob, estimate: &Estimate) -> Self {
        let phases = estimate.phases.iter().map(|p| PhaseView {
            phase: p.phase,
            gib: gib(p.bytes, 3),
            low_gib: gib(p.low_bytes, 3),
            high_gib: gib(p.high_bytes, 3),
            terms: terms(&p.terms),
        });
        let per_gpu = estimate.fullest().map_or(0.0, |p| p.host_bytes);
        let resources = job.resources;
        let gpus_per_node = resources.gpus.checked_div(resources.nodes).unwrap_or(0);
        let (fits, likely) = (estimate.fits_probability, estimate.likely_bytes());
        Self {
            schema_version: SCHEMA_VERSION,
            preset: job.preset,
            dataset: job.dataset,
            gpus: resources.gpus,
            gpu_gib: estimate.gpu_bytes.map(|b| gib(b, 3)),
            sources: job.sources,
            verdict: verdict(fits),
            fits_probability: fits.map(|p| rounded(p, 3)),
            predicted_peak_gib: gib(estimate.peak_bytes, 3),
            low_gib: gib(estimate.low_bytes, 3),
            high_gib: gib(estimate.high_bytes, 3),
            likely_gib: (gib(likely.0, 3), gib(likely.1, 3)),
            phase: estimate.phase,
            phases: phases.collect(),
            host_gib_per_node: gib(per_gpu * count(gpus_per_node), 3),
            mem: job.host_memory,
            narrower: job.narrower,
            smallest_change: job.remedy.map(SmallestChange::of),
            phantom: job.phantom,
        }
    }

    /// The table for people.
    pub fn text(&self, unicode: bool) -> String {
        let dataset = self
            .dataset
            .as_ref()
            .map_or(String::new(), |d| format!(", {d}"));
        let of = self
            .gpu_gib
            .map_or(String::new(), |g| format!(" of {}", in_gib(g)));
        let mut out = format!(
            "Memory of the fullest GPU by phase ({}{dataset}; {} GPUs{of})\n{}\n",
            self.preset,
            self.gpus,
            self.sources.text()
        );
        for phase in &self.phases {
            self.phase_line(&mut out, phase, unicode);
        }
        if let Some(fullest) = self.phases.iter().find(|p| p.phase == self.phase) {
            let _ = writeln!(out, "\n{} is", self.phase.name());
            for term in &fullest.terms {
                let formula = TERMS.iter().find(|[name, ..]| *name == term.name);
                let formula = formula.map_or("", |[_, formula, _]| formula);
                let _ = writeln!(
                    out,
                    "  {:>7.2} GiB  {:<22} {}",
                    term.gib,
                    term.name,
                    Paint(DIM, formula)
                );
            }
        }
        self.closing(&mut out);
        out
    }

    fn phase_line(&self, out: &mut String, phase: &PhaseView, unicode: bool) {
        let scale = self.gpu_gib.unwrap_or(self.high_gib).max(0.001);
        let over = self.gpu_gib.is_some_and(|total| phase.gib > total);
        let style = if over { BAD } else { GOOD };
        let bar = bar(phase.gib / scale, unicode);
        let interval = interval(phase.low_gib, phase.high_gib);
        let _ = writeln!(
            out,
            "  {:<15} {} {:>6.1} GiB  {}",
            phase.phase.name(),
            Paint(style, &bar),
            phase.gib,
            Paint(DIM, &interval)
        );
    }

    /// Whether the estimate is too rough to decide by.
    fn is_open(&self) -> bool {
        is_rough(self.low_gib, self.high_gib) && !is_far(self.predicted_peak_gib, self.gpu_gib)
    }

    /// The verdict for people: "tight" alone does not say to which side.
    fn said(&self) -> &'static str {
        match (self.verdict, self.fits_probability) {
            ("tight", Some(_)) if self.is_open() => "too rough to say whether it fits",
            ("tight", Some(p)) if p < EVEN => "probably does not fit",
            ("tight", Some(_)) => "probably fits, but is tight",
            ("unknown", _) => "unknown whether it fits",
            (verdict, _) => verdict,
        }
    }

    /// Whether it fits, and what is expected, in one line.
    pub fn expected(&self) -> String {
        let style = match self.verdict {
            "fits" => GOOD,
            "tight" => WARN,
            _ => BAD,
        };
        let probability = self.fits_probability.map_or(String::new(), |p| {
            format!(" (probability to fit {})", chance(p))
        });
        format!(
            "{}{probability}: {:.0} GiB expected, likely {:.0} to {:.0}, at worst {:.0}",
            Paint(style, self.said()),
            self.predicted_peak_gib,
            self.likely_gib.0,
            self.likely_gib.1,
            self.high_gib
        )
    }

    fn closing(&self, out: &mut String) {
        if let Some(kept) = &self.phantom {
            let _ = write!(out, "\n{}", kept_line(kept));
        }
        let _ = writeln!(out, "\n{}", self.expected());
        if self.high_gib > WIDE * self.low_gib && !self.narrower.is_empty() {
            let _ = writeln!(out, "to know better: {}", self.narrower);
        }
        if self.host_gib_per_node > 0.0 {
            let mem = self
                .mem
                .as_ref()
                .map_or(String::new(), |m| format!("; the job asks for --mem={m}"));
            let _ = writeln!(
                out,
                "host memory per node for what is offloaded: {:.0} GiB{mem}",
                self.host_gib_per_node
            );
        }
        match &self.smallest_change {
            Some(remedy) => {
                let _ = writeln!(
                    out,
                    "first rungs of the ladder that make it fit: {}; {:.1} GiB then",
                    Paint(NAME, &remedy.described),
                    remedy.peak_gib
                );
            }
            None if self.verdict != "fits" && self.verdict != "unknown" => {
                let _ = writeln!(
                    out,
                    "no rung makes it fit for sure; `oomctl plan` shows what each one frees"
                );
            }
            None => {}
        }
    }
}

fn verdict(fits: Option<f64>) -> &'static str {
    fits.map_or("unknown", |p| Room::of(p).describe())
}

fn count(n: u64) -> f64 {
    n as f64
}

/// A phase in the words of messages, from its word in JSON.
pub fn phase_name(word: &str) -> String {
    let phase = serde_json::from_value::<Phase>(word.into());
    phase.map_or_else(|_| word.replace('_', " "), |p| p.name().to_owned())
}

/// A bar of the GPU: filled up to the share, with a mark where it goes beyond.
fn bar(share: f64, unicode: bool) -> String {
    let full = ((share.clamp(0.0, 1.0)) * WIDTH as f64).round() as usize;
    let (block, rest, beyond) = if unicode {
        ("█", "·", "▶")
    } else {
        ("#", ".", ">")
    };
    let mark = if share > 1.0 { beyond } else { " " };
    format!("{}{}{mark}", block.repeat(full), rest.repeat(WIDTH - full))
}
