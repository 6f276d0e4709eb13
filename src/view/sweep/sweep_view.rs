//! What `oomctl sweep` shows: a table of cells, the values that are to blame, and what was changed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{gib, rounded};
use crate::core::exit::Exit;
use crate::core::recipe::Preset;
use crate::core::sweep::{
    Blame, Brief, CellVerdict, Cells, Culprit, Judge, Method, Sweep, ValueLimit,
};
use oomctl_base::Value;
use oomctl_base::units::{Bytes, GIB};

/// Format of the JSON document.
const SCHEMA_VERSION: u32 = 1;
/// Findings that are worked out and shown.
const FINDINGS: usize = 12;

#[derive(Serialize, JsonSchema)]
pub(super) struct SweepTermView {
    pub(super) name: String,
    pub(super) gib: f64,
}

fn terms(terms: Vec<(String, f64)>) -> Vec<SweepTermView> {
    let view = |(name, bytes)| SweepTermView {
        name,
        gib: gib(bytes, 2),
    };
    terms.into_iter().map(view).collect()
}

/// One cell, or all that differ from it in nothing that matters.
#[derive(Serialize, JsonSchema)]
pub(super) struct CellView {
    pub(super) values: BTreeMap<String, Value>,
    pub(super) verdict: CellVerdict,
    pub(super) peak_gib: Option<f64>,
    pub(super) rule: Option<String>,
}

/// What is wrong with some cells, and what would mend them.
#[derive(Serialize, JsonSchema)]
pub(super) struct SweepFinding {
    pub(super) cells: u64,
    pub(super) verdict: CellVerdict,
    /// The message of the rule, or the fullest phase.
    pub(super) what: String,
    pub(super) example: BTreeMap<String, Value>,
    pub(super) peak_gib: Option<f64>,
    pub(super) terms: Vec<SweepTermView>,
    pub(super) to_blame: Vec<CulpritView>,
    /// True when no single value mends it.
    pub(super) together: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct CulpritView {
    pub(super) parameter: String,
    pub(super) value: Value,
    pub(super) at_most: Option<Value>,
    pub(super) at_least: Option<Value>,
    pub(super) gib_after: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct UnitView {
    pub(super) unit: String,
    pub(super) count: f64,
}

/// The verdict on a sweep.
#[derive(Serialize, JsonSchema)]
pub struct SweepView {
    pub(super) schema_version: u32,
    /// Of `sweep check`.
    pub exit_code: Exit,
    pub(super) sweep: String,
    pub(super) method: Method,
    pub(super) preset: String,
    pub(super) gpu_gib: Option<f64>,
    /// Cells of the sweep.
    pub(super) cells: u64,
    /// True when only corners and a sample were judged.
    pub(super) sampled: bool,
    /// Parameters that neither memory nor a rule looks at.
    pub(super) without_effect: Vec<String>,
    pub(super) verdicts: BTreeMap<CellVerdict, u64>,
    pub(super) findings: Vec<SweepFinding>,
    pub(super) requested_gib: Option<f64>,
    pub(super) requested_is: Vec<UnitView>,
    pub(super) judged: Vec<CellView>,
}

pub(super) fn word(verdict: CellVerdict) -> &'static str {
    match verdict {
        CellVerdict::Fits => "fits",
        CellVerdict::Tight => "tight",
        CellVerdict::DoesNotFit => "does not fit",
        CellVerdict::BreaksRule => "breaks a rule",
        CellVerdict::Unknown => "unknown",
    }
}

/// Cells with one thing wrong with them, and the fullest of them.
struct CellGroup {
    cells: u64,
    bytes: f64,
    fullest: Vec<u32>,
}

/// What was found while judging.
#[derive(Default)]
struct Tally {
    gpu_bytes: Option<f64>,
    verdicts: BTreeMap<CellVerdict, u64>,
    /// By verdict, rule and phase.
    groups: BTreeMap<(CellVerdict, usize, usize), CellGroup>,
    judged: Vec<CellView>,
    /// The fullest cell of all.
    fullest: Option<(f64, Vec<u32>)>,
}

impl Tally {
    fn add(&mut self, cell: &[u32], each: u64, brief: Brief, view: CellView) {
        self.gpu_bytes = self.gpu_bytes.or(brief.gpu_bytes);
        *self.verdicts.entry(brief.verdict).or_default() += each;
        let bytes = brief.bytes.unwrap_or(0.0);
        let key = match brief.rule {
            Some(rule) => (brief.verdict, rule, 0),
            None => (brief.verdict, 0, brief.phase),
        };
        let group = self.groups.entry(key).or_insert_with(|| CellGroup {
            cells: 0,
            bytes,
            fullest: cell.to_vec(),
        });
        group.cells += each;
        if bytes > group.bytes {
            group.bytes = bytes;
            group.fullest = cell.to_vec();
        }
        if self.fullest.as_ref().is_none_or(|(most, _)| *most < bytes) {
            self.fullest = Some((bytes, cell.to_vec()));
        }
        self.judged.push(view);
    }
}

impl SweepView {
    /// Judges every cell.
    pub fn new(
        path: &str,
        sweep: &Sweep,
        judge: &mut Judge<'_>,
        preset: &Preset,
        requested: Option<Bytes>,
    ) -> Self {
        let cells = Cells::new(sweep, judge);
        let matter = judge.axes();
        let mut tally = Tally::default();
        for cell in &cells.cells {
            let brief = judge.brief(cell);
            let rule = brief.rule.filter(|r| *r < preset.rules.len());
            let view = CellView {
                values: values(sweep, judge, &matter, cell),
                verdict: brief.verdict,
                peak_gib: brief.bytes.map(|b| gib(b, 2)),
                rule: rule.map(|r| judge.rule(r).name.clone()),
            };
            tally.add(cell, cells.each, brief, view);
        }
        let mut findings = Vec::new();
        for ((verdict, ..), group) in tally.groups.into_iter().rev().take(FINDINGS) {
            if verdict != CellVerdict::Fits {
                let example = values(sweep, judge, &matter, &group.fullest);
                findings.push(finding(sweep, judge, &group, example));
            }
        }
        let worst = tally.fullest.map(|(_, cell)| cell);
        let units = requested
            .zip(worst)
            .map(|(bytes, cell)| units(judge, &cell, bytes));
        let without = (0..sweep.axes.len()).filter(|a| !matter.contains(a));
        Self {
            schema_version: SCHEMA_VERSION,
            exit_code: exit_code(&tally.verdicts),
            sweep: path.to_owned(),
            method: sweep.method,
            preset: preset.name.clone(),
            gpu_gib: tally.gpu_bytes.map(|b| gib(b, 2)),
            cells: sweep.cells(),
            sampled: cells.sampled || sweep.axes.iter().any(|a| a.sampled),
            without_effect: without.map(|a| sweep.axes[a].name.clone()).collect(),
            verdicts: tally.verdicts,
            findings,
            requested_gib: requested.map(Bytes::gib),
            requested_is: units.unwrap_or_default(),
            judged: tally.judged,
        }
    }
}

/// 3 where a cell does not fit, only just, or is not known to, else 5 where one breaks a rule.
fn exit_code(verdicts: &BTreeMap<CellVerdict, u64>) -> Exit {
    let any = |verdict| verdicts.contains_key(&verdict);
    match (
        any(CellVerdict::DoesNotFit) || any(CellVerdict::Tight),
        any(CellVerdict::BreaksRule),
        any(CellVerdict::Unknown),
    ) {
        (true, ..) => Exit::StillOutOfMemory,
        (_, true, _) => Exit::Configuration,
        (.., true) => Exit::StillOutOfMemory,
        (.., false) => Exit::Success,
    }
}

/// Values of the parameters that matter.
fn values(
    sweep: &Sweep,
    judge: &Judge<'_>,
    matter: &[usize],
    cell: &[u32],
) -> BTreeMap<String, Value> {
    let entry = |a: &usize| {
        (
            sweep.axes[*a].name.clone(),
            judge.value(*a, cell[*a]).clone(),
        )
    };
    matter.iter().map(entry).collect()
}

fn units(judge: &mut Judge<'_>, cell: &Vec<u32>, requested: Bytes) -> Vec<UnitView> {
    let bytes = requested.gib() * GIB;
    let view = |(unit, count): (String, f64)| UnitView {
        unit,
        count: rounded(count, 1),
    };
    judge.units(cell, bytes).into_iter().map(view).collect()
}

fn finding(
    sweep: &Sweep,
    judge: &mut Judge<'_>,
    group: &CellGroup,
    example: BTreeMap<String, Value>,
) -> SweepFinding {
    let cell = &group.fullest;
    let brief = judge.brief(cell);
    let detail = judge.detail(cell);
    let blame = Blame::of(judge, cell);
    let culprit = |c: &Culprit| CulpritView {
        parameter: sweep.axes[c.axis].name.clone(),
        value: c.value.clone(),
        at_most: match &c.bound {
            Some(ValueLimit::AtMost(v)) => Some(v.clone()),
            _ => None,
        },
        at_least: match &c.bound {
            Some(ValueLimit::AtLeast(v)) => Some(v.clone()),
            _ => None,
        },
        gib_after: c.bytes_after.map(|b| gib(b, 2)),
    };
    let culprits = blame
        .as_ref()
        .map(|b| b.culprits.iter().map(culprit).collect());
    SweepFinding {
        cells: group.cells,
        verdict: brief.verdict,
        what: detail.why.unwrap_or(detail.phase),
        example,
        peak_gib: brief.bytes.map(|b| gib(b, 2)),
        terms: terms(detail.terms),
        to_blame: culprits.unwrap_or_default(),
        together: blame.is_some_and(|b| b.together),
    }
}
