//! What `oomctl sweep submit` shows before anything is submitted: the runs, and the cells that are none.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::gib;
use super::run_view::RunView;
use super::sweep_text::{VERDICT, told};
use super::table::{Side, Table};
use super::{DIM, Paint};
use crate::core::exit::Exit;
use crate::core::sweep::{CellVerdict, Draw, Judge, SelectedCell, Selection, Sweep};
use oomctl_base::Value;

/// Format of the JSON document.
const SCHEMA_VERSION: u32 = 1;
/// Cells that are shown of each kind.
const SHOWN: usize = 40;

/// One row: the run, where there is one, its values, and the verdict.
#[derive(Serialize, JsonSchema)]
struct SweepRunRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    values: BTreeMap<String, Value>,
    peak_gib: Option<f64>,
    verdict: CellVerdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// What the rule says.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Rungs of earlier runs with which it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    starts_with: Vec<String>,
}

/// How cells were drawn.
#[derive(Serialize, JsonSchema)]
struct DrawView {
    count: usize,
    seed: u64,
}

/// The runs of a sweep, and the cells that are refused.
#[derive(Serialize, JsonSchema)]
pub struct SweepSubmitView {
    sweep: String,
    /// Sizes of the job arrays.
    arrays: Vec<usize>,
    at_once: Option<usize>,
    drawn: Option<DrawView>,
    cells: Vec<SweepRunRow>,
    refused: Vec<SweepRunRow>,
    left_out: usize,
    #[serde(skip)]
    head: String,
    /// The parameters that vary, in order.
    #[serde(skip)]
    names: Vec<String>,
}

/// The cells, and the runs that were made of them.
#[derive(Serialize, JsonSchema)]
pub struct SweepSubmitDocument<'a> {
    schema_version: u32,
    exit_code: Exit,
    #[serde(flatten)]
    view: &'a SweepSubmitView,
    runs: &'a [RunView],
}

/// What is known of the runs of a sweep before they are made.
pub struct Planned<'a> {
    /// Name of the sweep.
    pub sweep: &'a str,
    /// What is to be submitted, in one line.
    pub head: String,
    /// Names of the runs, in order.
    pub runs: Vec<String>,
    /// Rungs of earlier runs with which each starts.
    pub starts: &'a [Vec<String>],
    /// Sizes of the job arrays.
    pub arrays: Vec<usize>,
    /// How many may be under way at a time.
    pub at_once: Option<usize>,
}

impl SweepSubmitView {
    /// What becomes of each cell.
    pub fn new(
        planned: Planned<'_>,
        sweep: &Sweep,
        judge: &mut Judge<'_>,
        selection: &Selection,
        draw: Option<Draw>,
    ) -> Self {
        let varies: Vec<usize> = (0..sweep.axes.len())
            .filter(|a| sweep.axes[*a].values.len() > 1)
            .collect();
        let mut row = |run: Option<String>, chosen: &SelectedCell| {
            let value = |a: &usize| {
                let value = judge.value(*a, chosen.cell[*a]).clone();
                (sweep.axes[*a].name.clone(), value)
            };
            let rule = chosen.brief.rule.and_then(|r| judge.rule_name(r));
            SweepRunRow {
                run,
                values: varies.iter().map(value).collect(),
                peak_gib: chosen.brief.bytes.map(|b| gib(b, 2)),
                verdict: chosen.brief.verdict,
                rule: rule.map(str::to_owned),
                why: (chosen.brief.verdict == CellVerdict::BreaksRule)
                    .then(|| judge.detail(&chosen.cell).why)
                    .flatten(),
                starts_with: Vec::new(),
            }
        };
        let mut cells: Vec<SweepRunRow> = (planned.runs.iter().zip(&selection.run))
            .map(|(name, chosen)| row(Some(name.clone()), chosen))
            .collect();
        for (cell, rungs) in cells.iter_mut().zip(planned.starts) {
            cell.starts_with.clone_from(rungs);
        }
        Self {
            refused: selection.refused.iter().map(|c| row(None, c)).collect(),
            cells,
            sweep: planned.sweep.to_owned(),
            arrays: planned.arrays,
            at_once: planned.at_once,
            drawn: draw.map(|d| DrawView {
                count: d.count,
                seed: d.seed,
            }),
            head: planned.head,
            names: varies.iter().map(|a| sweep.axes[*a].name.clone()).collect(),
            left_out: selection.beyond,
        }
    }

    /// Whether a cell is refused for its memory.
    pub fn too_large(&self) -> bool {
        self.refused
            .iter()
            .any(|r| r.verdict == CellVerdict::DoesNotFit)
    }

    /// The JSON document, with the runs that were made.
    pub fn document<'a>(&'a self, exit_code: Exit, runs: &'a [RunView]) -> impl Serialize + 'a {
        SweepSubmitDocument {
            schema_version: SCHEMA_VERSION,
            exit_code,
            view: self,
            runs,
        }
    }

    /// The text for people.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.head);
        if let Some(DrawView { count, seed }) = self.drawn {
            let _ = writeln!(out, "{count} cells drawn at random, --seed {seed}");
        }
        self.table(&mut out, &self.cells);
        self.starts(&mut out);
        if !self.refused.is_empty() {
            let _ = writeln!(out, "{} cells not submitted:", self.refused.len());
            self.table(&mut out, &self.refused);
            self.rules(&mut out);
        }
        if self.left_out > 0 {
            let _ = writeln!(
                out,
                "{}",
                Paint(DIM, &format!("left out by --limit: {}", self.left_out))
            );
        }
        out
    }

    /// How many cells start with which rungs of earlier runs.
    fn starts(&self, out: &mut String) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for cell in self.cells.iter().filter(|c| !c.starts_with.is_empty()) {
            *counts.entry(cell.starts_with.join(", ")).or_default() += 1;
        }
        for (rungs, count) in counts {
            let _ = writeln!(
                out,
                "{count} start with rungs that earlier runs needed: {rungs}; --fresh starts unchanged"
            );
        }
    }

    /// What each rule that is broken says, of the first cell that breaks it.
    fn rules(&self, out: &mut String) {
        let mut told: Vec<Option<&str>> = Vec::new();
        for row in &self.refused {
            let Some(why) = &row.why else { continue };
            if told.contains(&row.rule.as_deref()) {
                continue;
            }
            told.push(row.rule.as_deref());
            let _ = writeln!(out, "{}: {why}", row.rule.as_deref().unwrap_or("bounds"));
        }
        if !told.is_empty() {
            let note = "cells that break a rule are never submitted, not even with --force";
            let _ = writeln!(out, "{}", Paint(DIM, note));
        }
    }

    fn table(&self, out: &mut String, rows: &[SweepRunRow]) {
        if rows.is_empty() {
            return;
        }
        let named = |row: &SweepRunRow| row.run.clone().unwrap_or_else(|| "-".to_owned());
        let numbers = std::iter::repeat_n((Side::Right, 0), self.names.len());
        let columns = std::iter::once((Side::Left, 3)).chain(numbers);
        let mut table = Table::new(columns.chain([(Side::Right, 10), (Side::Left, 0)]));
        let names = self.names.iter().map(String::as_str);
        table.row(std::iter::once("run").chain(names).chain(VERDICT));
        for row in rows {
            let value = |name: &String| row.values.get(name).map(ToString::to_string);
            let values = self
                .names
                .iter()
                .map(|name| value(name).unwrap_or_default());
            let told = told(row.peak_gib, row.verdict, row.rule.as_deref());
            table.row(std::iter::once(named(row)).chain(values).chain(told));
        }
        for line in table.lines().take(SHOWN + 1) {
            let _ = writeln!(out, "{line}");
        }
        if rows.len() > SHOWN {
            let more = format!("… and {} more", rows.len() - SHOWN);
            let _ = writeln!(out, "{}", Paint(DIM, &more));
        }
    }
}
