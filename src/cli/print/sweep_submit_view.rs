//! What `oomctl sweep submit` shows before anything is submitted: the runs, and the cells that are none.

use std::fmt::Write as _;

use super::style::{BAD, GOOD, WARN};
use super::sweep_view::{gib, word};
use super::{DIM, Paint};
use crate::core::sweep::{Chosen, Judge, Selection, Sweep, Verdict};

/// Cells that are shown of each kind.
const SHOWN: usize = 40;

/// One row: the run, where there is one, its values, and the verdict.
struct Row {
    run: String,
    values: Vec<String>,
    peak: String,
    verdict: Verdict,
    rule: String,
}

/// The runs of a sweep, and the cells that are refused.
pub struct View {
    head: String,
    names: Vec<String>,
    run: Vec<Row>,
    refused: Vec<Row>,
    beyond: usize,
}

impl View {
    /// What becomes of each cell.
    pub fn new(
        head: &str,
        runs: &[String],
        sweep: &Sweep,
        judge: &Judge<'_>,
        selection: &Selection,
    ) -> Self {
        let varies: Vec<usize> = (0..sweep.axes.len())
            .filter(|a| sweep.axes[*a].values.len() > 1)
            .collect();
        let row = |run: String, chosen: &Chosen| {
            let value = |a: &usize| judge.value(*a, chosen.cell[*a]).to_string();
            let rule = chosen.brief.rule.and_then(|r| judge.rule_name(r));
            Row {
                run,
                values: varies.iter().map(value).collect(),
                peak: chosen
                    .brief
                    .bytes
                    .map_or_else(|| "?".to_owned(), |b| format!("{:.2}", gib(b))),
                verdict: chosen.brief.verdict,
                rule: rule.map_or(String::new(), |r| format!(" ({r})")),
            }
        };
        Self {
            head: head.to_owned(),
            names: varies.iter().map(|a| sweep.axes[*a].name.clone()).collect(),
            run: runs
                .iter()
                .zip(&selection.run)
                .map(|(n, c)| row(n.clone(), c))
                .collect(),
            refused: selection
                .refused
                .iter()
                .map(|c| row("-".to_owned(), c))
                .collect(),
            beyond: selection.beyond,
        }
    }

    /// Whether a cell is refused for its memory.
    pub fn too_large(&self) -> bool {
        self.refused
            .iter()
            .any(|r| r.verdict == Verdict::DoesNotFit)
    }

    /// The text for people.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.head);
        self.table(&mut out, &self.run);
        if !self.refused.is_empty() {
            let _ = writeln!(out, "not submitted, {} cells:", self.refused.len());
            self.table(&mut out, &self.refused);
        }
        if self.beyond > 0 {
            let _ = writeln!(
                out,
                "{}",
                Paint(DIM, &format!("left out by --limit: {}", self.beyond))
            );
        }
        out
    }

    fn table(&self, out: &mut String, rows: &[Row]) {
        let Some(first) = rows.first() else {
            return;
        };
        let run = rows.iter().map(|r| r.run.len()).max().unwrap_or(0).max(3);
        let width = |at: usize| {
            let values = rows.iter().map(|r| r.values[at].chars().count());
            values
                .max()
                .unwrap_or(0)
                .max(self.names[at].chars().count())
        };
        let widths: Vec<usize> = (0..first.values.len()).map(width).collect();
        let _ = write!(out, "{:<run$}  ", "run");
        for (name, width) in self.names.iter().zip(&widths) {
            let _ = write!(out, "{name:>width$}  ");
        }
        let _ = writeln!(out, "{:>10}  verdict", "peak GiB");
        for row in rows.iter().take(SHOWN) {
            let _ = write!(out, "{:<run$}  ", row.run);
            for (value, width) in row.values.iter().zip(&widths) {
                let _ = write!(out, "{value:>width$}  ");
            }
            let style = match row.verdict {
                Verdict::Fits => GOOD,
                Verdict::Tight | Verdict::Unknown => WARN,
                Verdict::DoesNotFit | Verdict::BreaksRule => BAD,
            };
            let _ = writeln!(
                out,
                "{:>10}  {}{}",
                row.peak,
                Paint(style, word(row.verdict)),
                row.rule
            );
        }
        if rows.len() > SHOWN {
            let more = format!("… and {} more", rows.len() - SHOWN);
            let _ = writeln!(out, "{}", Paint(DIM, &more));
        }
    }
}
