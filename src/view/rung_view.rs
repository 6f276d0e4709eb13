//! A rung as people see it: what it changes, what the memory model expects after it, what it costs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{gib, is_far, odds, percent, rounded};
use super::table::{Side, Table};
use super::{DIM, NAME, Paint};
use crate::core::ladder::{Change, Expectation, Step};
use crate::core::request::{Freed, PlannedStep};
use oomctl_memory::{Estimate, Phase, SAFE};

/// A rung with what the memory model expects after it.
#[derive(Serialize, JsonSchema)]
pub struct RungForecast {
    #[serde(flatten)]
    pub step: Step,
    /// Share of its speed that the job loses by this lap; absent where the preset does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower: Option<f64>,
    /// Share that it has lost by now, by all rungs of which the preset says it.
    slower_so_far: f64,
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
    phase: Phase,
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
                slower: planned.slower.map(|s| rounded(s, 3)),
                slower_so_far: rounded(1.0 - speed, 3),
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

    /// Its name, for people.
    pub fn name(&self) -> Paint<'_> {
        Paint(NAME, &self.step.rung)
    }

    /// What it changes, what of memory, and what it costs, one a line. A remark that was `said` is not said again.
    pub fn text<'a>(
        &'a self,
        before: Option<&MemoryForecast>,
        said: &mut BTreeSet<&'a String>,
    ) -> String {
        let mut out = step_text(&self.step, said);
        if let (Some(before), Some(after)) = (before, &self.memory) {
            let _ = writeln!(out, "       {}", Paint(DIM, &memory_text(before, after)));
        }
        if let Some(in_vain) = self.frees.as_ref().and_then(in_vain) {
            let _ = writeln!(out, "       {}", Paint(DIM, &in_vain));
        }
        out + &speed(self.slower, self.slower_so_far)
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
        let fits = fits.map_or_else(String::new, |p| format!(" (probability to fit {p:.2})"));
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
        (None, Some((attempt, p))) if p >= EVEN => format!("; attempt {attempt} may fit ({p:.2})"),
        (None, Some((attempt, p))) if p > odds => {
            format!("; probably none below fits (best: attempt {attempt}, {p:.2})")
        }
        (None, _) => "; no rung below changes that".to_owned(),
    }
}

/// How many attempts there are at most, how many of the ladder's, the last of which is `last`, that leaves out, and what
/// changes where host memory runs out.
pub fn limits(most: u32, last: u32, after_host_oom: &[Change]) -> String {
    let mut line = format!("at most {most} attempts");
    if last > most {
        let more = last - most;
        let _ = write!(line, "; changes not reached: {more} (`limits: attempts`)");
    }
    let told = after_host_oom
        .iter()
        .map(|c| format!("{} {}", c.knob, c.values("->")));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        let _ = write!(line, "; after a host out-of-memory {}", told.join(", "));
    }
    line
}

/// For which failures a rung is passed over, for it frees no memory of the GPU there; none where that is for no phase.
fn in_vain(frees: &Freed) -> Option<String> {
    let names: Vec<&str> = frees.phases.iter().map(|p| p.name()).collect();
    match (frees.fullest, names.is_empty()) {
        (true, _) => None,
        (false, true) => Some(
            "by the memory model it frees no GPU memory, so it is skipped after a failure"
                .to_owned(),
        ),
        (false, false) => Some(format!(
            "by the memory model it does not help the fullest phase; used only after a failure in {}",
            names.join(", ")
        )),
    }
}

/// The memory before a rung, which is that after the one before it.
pub fn before<'a>(
    now: Option<&'a MemoryForecast>,
    rungs: &'a [RungForecast],
    i: usize,
) -> Option<&'a MemoryForecast> {
    match i.checked_sub(1) {
        None => now,
        Some(before) => rungs[before].memory.as_ref(),
    }
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
pub fn table(rows: &[PhaseRow]) -> String {
    let Some(head) = rows.first().filter(|r| !r.phases.is_empty()) else {
        return String::new();
    };
    let heads: Vec<(Phase, &str)> = head.phases.iter().map(|(p, _)| (*p, p.name())).collect();
    let numbers = std::iter::repeat_n((Side::Right, 0), heads.len());
    let columns = std::iter::once((Side::Left, 0)).chain(numbers);
    let mut table = Table::new(columns.chain([(Side::Right, 4)]));
    let names = heads.iter().map(|(_, name)| *name);
    table.row(std::iter::once("").chain(names).chain(["fits"]));
    for row in rows {
        let of = |(phase, _): &(Phase, &str)| {
            let gib = row.phases.iter().find(|(p, _)| p == phase);
            gib.map_or_else(|| "-".to_owned(), |(_, gib)| format!("{gib:.1}"))
        };
        let cells = std::iter::once(row.name.clone()).chain(heads.iter().map(of));
        table.row(cells.chain([odds(row.fits, "-")]));
    }
    table.text("")
}

/// Expected memory before and after a rung, of the fullest phase.
fn memory_text(before: &MemoryForecast, after: &MemoryForecast) -> String {
    let chance = after
        .fits_probability
        .map_or_else(String::new, |p| format!(", probability to fit {p:.2}"));
    let was = match before.phase == after.phase {
        true => String::new(),
        false => format!(" ({})", before.phase.name()),
    };
    format!(
        "memory {}{was} -> {} GiB ({}{chance})",
        before.shown(),
        after.shown(),
        after.phase.name()
    )
}

/// The changes and new remarks of a rung, one a line.
fn step_text<'a>(step: &'a Step, said: &mut BTreeSet<&'a String>) -> String {
    changes_text(&step.changes, &step.notes, said)
}

fn changes_text<'a>(
    changes: &[Change],
    notes: &'a [String],
    said: &mut BTreeSet<&'a String>,
) -> String {
    let mut out = String::new();
    for line in change_lines(changes) {
        let _ = writeln!(out, "       {line}");
    }
    for note in notes.iter().filter(|note| said.insert(note)) {
        let _ = writeln!(out, "       {} {note}", Paint(DIM, "note:"));
    }
    out
}

fn speed(slower: Option<f64>, so_far: f64) -> String {
    let Some(slower) = slower else {
        return String::new();
    };
    let (slower, so_far) = (percent(slower), percent(so_far));
    let mut speed = match slower == percent(0.0) {
        true => "about as fast".to_owned(),
        false => format!("about {slower} slower"),
    };
    if so_far != slower {
        let _ = write!(speed, ", {so_far} slower by now");
    }
    format!("       {}\n", Paint(DIM, &speed))
}

/// Laps of one rung after a failure, for which they are taken, as one: what they free in other phases is not told. The remarks are
/// those of the last, which knows what was left in the end.
pub fn laps_text<'a>(
    laps: &'a [RungForecast],
    before: Option<&MemoryForecast>,
    said: &mut BTreeSet<&'a String>,
) -> String {
    let Some(last) = laps.last() else {
        return String::new();
    };
    let changes = Change::joined(laps.iter().flat_map(|lap| &lap.step.changes));
    let mut out = changes_text(&changes, &last.step.notes, said);
    if let (Some(before), Some(after)) = (before, &last.memory)
        && (after.phase != before.phase || after.shown() != before.shown())
    {
        let _ = writeln!(out, "       {}", Paint(DIM, &memory_text(before, after)));
    }
    let kept = laps.iter().filter_map(|lap| Some(1.0 - lap.slower?));
    let kept = kept.reduce(|all, one| all * one);
    out + &speed(kept.map(|kept| 1.0 - kept), last.slower_so_far)
}

/// The changes of a rung, one a line, with what each does to the experiment.
pub fn change_lines(changes: &[Change]) -> Vec<String> {
    let mut table = Table::new([(Side::Left, 0), (Side::Left, 0)]);
    for c in changes {
        let effect = format!("({})", c.effect.describe());
        let change = format!("{}  {}", c.values("->"), Paint(DIM, &effect));
        table.row([c.knob.clone(), change]);
    }
    table.lines().collect()
}

/// Where the attempts of a plan are taken to die; a real failure is answered by its own log.
pub fn where_fullest(now: Option<&MemoryForecast>) -> &'static str {
    match now {
        Some(_) => " where it is fullest",
        None => "",
    }
}
