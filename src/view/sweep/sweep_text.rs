//! The text of `oomctl sweep check`.

use std::fmt::Write as _;

use super::style::{BAD, GOOD, WARN};
use super::sweep_view::{CulpritView, SweepFinding, SweepView, word};
use super::table::{Side, Table};
use super::{DIM, NAME, Paint};
use crate::core::sweep::CellVerdict;

/// Cells that are shown unless all are asked for.
const SHOWN: usize = 20;

impl SweepView {
    /// The text for people.
    pub fn text(&self, all: bool) -> String {
        let mut out = String::new();
        let gpu = self.gpu_gib.map_or_else(
            || "a GPU of unknown size".to_owned(),
            |g| format!("{g} GiB of GPU memory"),
        );
        let cells = match self.sampled {
            true => format!("{} cells, judged by their corners and a sample", self.cells),
            false => format!("{} cells", self.cells),
        };
        let _ = writeln!(
            out,
            "{}: {cells}, preset {}, {gpu}",
            self.sweep,
            Paint(NAME, &self.preset)
        );
        let counts: Vec<String> = self
            .verdicts
            .iter()
            .map(|(v, n)| format!("{}: {n}", word(*v)))
            .collect();
        let _ = writeln!(out, "{}", counts.join(", "));
        self.table(&mut out, all);
        for finding in &self.findings {
            finding.text(&mut out);
        }
        if let Some(requested) = self.requested_gib {
            let _ = writeln!(
                out,
                "\na request of {requested:.2} GiB is, in the largest cell:"
            );
            for unit in &self.requested_is {
                let _ = writeln!(out, "  {:.1} {}", unit.count, unit.unit);
            }
        }
        let mends =
            |verdict: &CellVerdict| !matches!(verdict, CellVerdict::Fits | CellVerdict::Unknown);
        if self.verdicts.keys().any(mends) {
            let _ = writeln!(
                out,
                "\n`oomctl sweep fix {}` drops and caps values until every cell runs, or says that no change is enough",
                self.sweep
            );
        }
        out
    }

    fn table(&self, out: &mut String, all: bool) {
        let Some(first) = self.judged.first() else {
            return;
        };
        // What is the same in every cell is said once, in the findings.
        let varies = |name: &&String| {
            self.judged
                .iter()
                .any(|c| c.values.get(*name) != first.values.get(*name))
        };
        let names: Vec<&String> = first.values.keys().filter(varies).collect();
        let numbers = std::iter::repeat_n((Side::Right, 0), names.len());
        let mut table = Table::new(numbers.chain([(Side::Right, 10), (Side::Left, 0)]));
        table.row(names.iter().map(|n| n.as_str()).chain(VERDICT));
        for cell in &self.judged {
            let value = |name: &&String| cell.values.get(*name).map(ToString::to_string);
            let values = names.iter().map(|name| value(name).unwrap_or_default());
            let told = told(cell.peak_gib, cell.verdict, cell.rule.as_deref());
            table.row(values.chain(told));
        }
        let most = if all { usize::MAX } else { SHOWN };
        out.push('\n');
        for line in table.lines().take(most.saturating_add(1)) {
            let _ = writeln!(out, "{line}");
        }
        if self.judged.len() > most {
            let more = format!("… and {} more (--all)", self.judged.len() - most);
            let _ = writeln!(out, "{}", Paint(DIM, &more));
        }
    }
}

/// So many cells, in words.
fn cells(number: u64) -> String {
    match number {
        1 => "1 cell".to_owned(),
        _ => format!("{number} cells"),
    }
}

impl SweepFinding {
    fn text(&self, out: &mut String) {
        let style = if self.verdict == CellVerdict::Tight {
            WARN
        } else {
            BAD
        };
        let head = match (self.verdict, self.peak_gib) {
            (CellVerdict::BreaksRule | CellVerdict::Unknown, _) | (_, None) => self.what.clone(),
            (_, Some(peak)) => format!("{peak:.2} GiB in {}", self.what),
        };
        let _ = writeln!(
            out,
            "\n{} ({}): {head}",
            Paint(style, word(self.verdict)),
            cells(self.cells)
        );
        if self.verdict != CellVerdict::BreaksRule {
            let parts: Vec<String> = self
                .terms
                .iter()
                .filter(|t| t.gib >= 0.01)
                .map(|t| format!("{} {:.2}", t.name, t.gib))
                .collect();
            let _ = writeln!(out, "  {}", Paint(DIM, &parts.join(", ")));
        }
        for culprit in &self.to_blame {
            let _ = writeln!(out, "  {}", culprit.text(self.verdict));
        }
        if self.together && self.to_blame.len() > 1 {
            let _ = writeln!(out, "  lowering one is not enough; lower them together");
        }
    }
}

impl CulpritView {
    fn text(&self, verdict: CellVerdict) -> String {
        let name = format!("{} = {}", self.parameter, self.value);
        let after = match (verdict, self.gib_after) {
            (CellVerdict::BreaksRule, Some(g)) => format!(" by this rule, with {g:.2} GiB"),
            (_, Some(g)) => format!(" ({g:.2} GiB then)"),
            (_, None) => String::new(),
        };
        match (&self.at_most, &self.at_least) {
            (Some(most), _) => format!("{name}: at most {most}{after}"),
            (_, Some(least)) => format!("{name}: or at least {least}{after}"),
            _ => format!(
                "{name}: no value is enough alone{}",
                self.gib_after
                    .map_or(String::new(), |g| format!(" ({g:.2} GiB with half of it)"))
            ),
        }
    }
}

/// The last columns of a table of cells.
pub(super) const VERDICT: [&str; 2] = ["peak GiB", "verdict"];

/// What stands in them for a cell.
pub(super) fn told(peak_gib: Option<f64>, verdict: CellVerdict, rule: Option<&str>) -> [String; 2] {
    let style = match verdict {
        CellVerdict::Fits => GOOD,
        CellVerdict::Tight | CellVerdict::Unknown => WARN,
        CellVerdict::DoesNotFit | CellVerdict::BreaksRule => BAD,
    };
    let peak = peak_gib.map_or_else(|| "?".to_owned(), |p| format!("{p:.2}"));
    let rule = rule.map_or(String::new(), |r| format!(" ({r})"));
    [peak, format!("{}{rule}", Paint(style, word(verdict)))]
}
