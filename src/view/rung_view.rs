//! A rung as people see it: what it changes, what the memory model expects after it, what it costs.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use textwrap::core::display_width;

use super::figures::{gib, is_far, odds, rounded};
use super::table::{Side, Table};
use super::{DIM, Paint};
use crate::core::ladder::{Change, Expectation, Step};
use crate::core::request::{Freed, PlannedStep};
use oomctl_base::Effect;
use oomctl_base::units::chance;
use oomctl_memory::{Estimate, Phase, SAFE};

/// Digits of a share of speed: more than percents need, so that a sum of rounded shares is the rounded sum.
const DIGITS: i32 = 5;

/// A rung with what the memory model expects after it.
#[derive(Serialize, JsonSchema)]
pub struct RungForecast {
    #[serde(flatten)]
    pub step: Step,
    /// Share of its speed that the job loses by this lap; absent where the preset does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower: Option<f64>,
    /// Share that it has lost by now, by all rungs of which the preset says it.
    pub slower_so_far: f64,
    /// After it and those before it; absent where the model cannot be asked.
    pub memory: Option<MemoryForecast>,
    /// What it frees of the GPU's memory; absent where the model does not see that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frees: Option<Freed>,
}

/// What the memory model expects of one configuration, on the fullest GPU.
#[derive(Serialize, JsonSchema)]
pub struct MemoryForecast {
    peak_gib: f64,
    /// Memory of the GPU; absent where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_gib: Option<f64>,
    /// Lower and upper end of what is likely; absent after a failure, where the probability says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    low_gib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_gib: Option<f64>,
    pub phase: Phase,
    fits_probability: Option<f64>,
    /// Expected peak of each phase, in the order of time.
    phases: Vec<PhaseMemory>,
}

#[derive(Serialize, JsonSchema)]
struct PhaseMemory {
    phase: Phase,
    gib: f64,
}

impl RungForecast {
    /// Steps with what is expected of each.
    pub fn all(steps: Vec<PlannedStep>) -> Vec<Self> {
        let mut speed = 1.0;
        let rung = |planned: PlannedStep| {
            speed *= 1.0 - planned.slower.unwrap_or(0.0);
            Self {
                step: planned.step,
                slower: planned.slower.map(|s| rounded(s, DIGITS)),
                slower_so_far: rounded(1.0 - speed, DIGITS),
                memory: planned.memory.as_ref().map(MemoryForecast::of),
                frees: planned.frees,
            }
        };
        steps.into_iter().map(rung).collect()
    }

    /// Whether it frees memory where that is fullest, or the memory model does not see what it does.
    pub fn helps(&self) -> bool {
        self.frees.as_ref().is_none_or(|frees| frees.fullest)
    }

    /// For which failures it is passed over, for it frees no memory of the GPU there; none where that is for no phase.
    pub fn in_vain(&self) -> Option<String> {
        let frees = self.frees.as_ref().filter(|frees| !frees.fullest)?;
        let names: Vec<&str> = frees.phases.iter().map(|p| p.name()).collect();
        Some(match names.is_empty() {
            true => "by the memory model it frees no GPU memory, so it is skipped after a failure"
                .to_owned(),
            false => format!(
                "by the memory model it does not help the fullest phase; used only after a failure in {}",
                names.join(", ")
            ),
        })
    }
}

impl MemoryForecast {
    /// Its peak as it is shown.
    pub fn shown(&self) -> String {
        format!("{:.0}", self.peak_gib)
    }

    /// The probability to fit, where the memory of a GPU is known.
    pub fn fits_probability(&self) -> Option<f64> {
        self.fits_probability
    }

    /// Of what is expected after a failure; none where an older version wrote it.
    pub fn expected(expects: &Expectation) -> Option<Self> {
        let most = expects.phases.iter().max_by_key(|need| need.bytes)?;
        let phases = expects.phases.iter().map(|need| PhaseMemory {
            phase: need.phase,
            gib: rounded(need.bytes.gib(), 1),
        });
        Some(Self {
            phases: phases.collect(),
            peak_gib: rounded(expects.peak_bytes.gib(), 1),
            gpu_gib: expects.gpu_bytes.map(|bytes| rounded(bytes.gib(), 1)),
            low_gib: None,
            high_gib: None,
            phase: most.phase,
            fits_probability: Some(rounded(expects.fits_probability, 2)),
        })
    }

    /// Of an estimate.
    pub fn of(estimate: &Estimate) -> Self {
        let phases = estimate.phases.iter().map(|p| PhaseMemory {
            phase: p.phase,
            gib: gib(p.bytes, 1),
        });
        Self {
            phases: phases.collect(),
            peak_gib: gib(estimate.peak_bytes, 1),
            gpu_gib: estimate.gpu_bytes.map(|bytes| gib(bytes, 1)),
            low_gib: Some(gib(estimate.low_bytes, 1)),
            high_gib: Some(gib(estimate.high_bytes, 1)),
            phase: estimate.phase,
            fits_probability: estimate.fits_probability.map(|p| rounded(p, 2)),
        }
    }

    /// `now: 92 of 79 GiB in actor_update (probability to fit 0.05)`.
    pub fn now(&self) -> String {
        let of = self
            .gpu_gib
            .map_or_else(String::new, |gpu| format!(" of {gpu:.0}"));
        let fits = self.fits_probability;
        let fits = fits.map_or_else(String::new, |p| {
            format!(" (probability to fit {})", chance(p))
        });
        format!(
            "now: {:.0}{of} GiB in {}{fits}",
            self.peak_gib,
            self.phase.name()
        )
    }

    /// That the estimate is too rough to decide by, and what is not; `measure` is the command.
    pub fn undecided(&self, measure: &str) -> Option<String> {
        let open = self
            .fits_probability
            .is_some_and(|p| p > 1.0 - SAFE && p < SAFE)
            && !is_far(self.peak_gib, self.gpu_gib);
        let (low, high) = self.low_gib.zip(self.high_gib)?;
        (open && is_rough(low, high)).then(|| {
            format!(
                "too rough to say whether it fits as it is (up to {high:.0} GiB): `{measure}` measures it without a GPU"
            )
        })
    }
}

/// From how many times its lower end on an interval says little.
const ROUGH: f64 = 3.0;

/// `rough: up to 207`, where an interval says little.
pub fn interval(low_gib: f64, high_gib: f64) -> String {
    match is_rough(low_gib, high_gib) {
        true => format!("rough: up to {high_gib:.0}"),
        false => format!("{low_gib:.1} to {high_gib:.1}"),
    }
}

/// Whether an interval says little.
pub fn is_rough(low_gib: f64, high_gib: f64) -> bool {
    high_gib > ROUGH * low_gib
}

/// The probability from which on an attempt is rather expected to fit.
pub const EVEN: f64 = 0.5;

/// Which attempt is the first that is expected to fit, behind `now`; empty where it fits as it is, or nobody can tell.
pub fn first_fit<'a>(
    now: &MemoryForecast,
    attempts: impl Iterator<Item = (u32, &'a MemoryForecast)>,
) -> String {
    let Some(odds) = now.fits_probability.filter(|p| *p < SAFE) else {
        return String::new();
    };
    let known = attempts.filter_map(|(attempt, memory)| Some((attempt, memory.fits_probability?)));
    let known: Vec<(u32, f64)> = known.collect();
    let best = known
        .iter()
        .copied()
        .reduce(|a, b| if b.1 > a.1 { b } else { a });
    match (known.iter().find(|(_, p)| *p >= SAFE), best) {
        (Some((attempt, _)), _) => format!("; attempt {attempt} probably fits"),
        (None, Some((attempt, p))) if p >= EVEN => {
            format!("; attempt {attempt} may fit ({})", chance(p))
        }
        (None, Some((attempt, p))) if p > odds => {
            format!(
                "; probably none below fits (best: attempt {attempt}, {})",
                chance(p)
            )
        }
        (None, _) => "; no rung below changes that".to_owned(),
    }
}

/// How many attempts there are at most, how many of the ladder's, the last of which is `last`, that leaves out, and what
/// the job asks for where host memory runs out. What changes training then has a row in the table.
pub fn limits(most: u32, last: u32, after_host_oom: &[Change]) -> String {
    let times = if most == 1 { "time" } else { "times" };
    let mut line = format!("oomctl submits at most {most} {times}");
    if last > most {
        let unreached = match last - most {
            1 => "the last change is not reached".to_owned(),
            more => format!("the last {more} changes are not reached"),
        };
        let _ = write!(line, " (`limits: attempts`), so {unreached}");
    }
    line.push('.');
    let told = after_host_oom
        .iter()
        .filter(|c| !c.effect.is_other())
        .map(|c| format!("{} {}", c.name(), c.values("->")));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        let _ = write!(line, " If host memory runs out: {}.", told.join(", "));
    }
    line
}

/// A line of the table of phases.
pub struct PhaseRow {
    name: String,
    phases: Vec<(Phase, f64)>,
    fits: Option<f64>,
}

impl PhaseRow {
    /// Of a configuration; a line of dashes where its memory use is unknown.
    pub fn new(name: String, memory: Option<&MemoryForecast>) -> Self {
        let phases = memory.map_or(&[][..], |m| &m.phases);
        Self {
            name,
            phases: phases.iter().map(|p| (p.phase, p.gib)).collect(),
            fits: memory.and_then(|m| m.fits_probability),
        }
    }
}

/// Lines with a column for each phase of the first.
pub fn table(rows: &[PhaseRow], columns: usize) -> String {
    let Some(head) = rows.first().filter(|r| !r.phases.is_empty()) else {
        return String::new();
    };
    let phases: Vec<Phase> = head.phases.iter().map(|(phase, _)| *phase).collect();
    let heads = phases.iter().map(|phase| phase.name().to_owned());
    let heads = std::iter::once(String::new()).chain(heads);
    let mut grid = vec![Vec::from_iter(heads.chain(["fits".to_owned()]))];
    for row in rows {
        let of = |phase: &Phase| {
            let gib = row.phases.iter().find(|(p, _)| p == phase);
            gib.map_or_else(|| "-".to_owned(), |(_, gib)| format!("{gib:.1}"))
        };
        let cells = std::iter::once(row.name.clone()).chain(phases.iter().map(of));
        grid.push(cells.chain([odds(row.fits, "-")]).collect());
    }
    let wide = drawn(&grid);
    match wide.lines().all(|line| display_width(line) <= columns) {
        true => wide,
        // A phase a line: there are more phases than rungs.
        false => drawn(&turned(&grid)),
    }
}

fn turned(grid: &[Vec<String>]) -> Vec<Vec<String>> {
    let wide = grid.first().map_or(0, Vec::len);
    let column = |at| grid.iter().filter_map(move |row| row.get(at).cloned());
    (0..wide).map(|at| column(at).collect()).collect()
}

fn drawn(grid: &[Vec<String>]) -> String {
    let wide = grid.first().map_or(0, Vec::len);
    let numbers = std::iter::repeat_n((Side::Right, 0), wide.saturating_sub(2));
    let columns = std::iter::once((Side::Left, 0)).chain(numbers);
    let mut table = Table::new(columns.chain([(Side::Right, 4)]));
    grid.iter().for_each(|row| table.row(row.clone()));
    table.text("")
}

/// The changes of a rung, one a line, with what each does to the experiment, where that is not said of the rung.
pub fn change_lines(changes: &[Change], said: Effect) -> Vec<String> {
    let mut table = Table::new([(Side::Left, 0), (Side::Left, 0)]);
    for c in changes {
        let mut change = c.values("->");
        if c.effect != said {
            let effect = format!("({})", c.effect.describe());
            change.push_str(&format!("  {}", Paint(DIM, &effect)));
        }
        table.row([c.name().to_owned(), change]);
    }
    table.lines().collect()
}
