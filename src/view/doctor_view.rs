//! What `oomctl doctor` found, a line each.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::style::{BAD, DIM, GOOD, Paint, WARN};
use crate::io::finding::{CheckFinding, CheckHealth};

/// Everything that was looked at.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorView {
    schema_version: u32,
    findings: Vec<CheckFinding>,
}

impl DoctorView {
    /// The view of some findings.
    pub fn new(findings: Vec<CheckFinding>) -> Self {
        Self {
            schema_version: 1,
            findings,
        }
    }

    /// Is there anything that must be fixed first?
    pub fn stands_in_the_way(&self) -> bool {
        self.count(CheckHealth::Bad) > 0
    }

    fn count(&self, health: CheckHealth) -> usize {
        self.findings.iter().filter(|f| f.health == health).count()
    }

    /// For people: what was found, and below it what to do.
    pub fn text(&self) -> String {
        let width = self
            .findings
            .iter()
            .map(|f| f.check.len())
            .max()
            .unwrap_or(0);
        let mut out = String::new();
        for finding in &self.findings {
            let (style, word) = match finding.health {
                CheckHealth::Good => (GOOD, "ok  "),
                CheckHealth::Absent => (DIM, "none"),
                CheckHealth::Odd => (WARN, "odd "),
                CheckHealth::Bad => (BAD, "BAD "),
            };
            let _ = writeln!(
                out,
                "{}  {:<width$}  {}",
                Paint(style, word),
                finding.check,
                finding.found
            );
            if let Some(advice) = &finding.advice {
                let _ = writeln!(
                    out,
                    "      {:<width$}  {}",
                    "",
                    Paint(DIM, &format!("-> {advice}"))
                );
            }
        }
        let (bad, odd) = (self.count(CheckHealth::Bad), self.count(CheckHealth::Odd));
        let _ = match (bad, odd) {
            (0, 0) => writeln!(out, "\nNo problems found."),
            (0, _) => writeln!(out, "\nNo problems found; {odd} worth a look (odd)."),
            _ => writeln!(
                out,
                "\n{bad} problem{} to fix (BAD).",
                if bad == 1 { "" } else { "s" }
            ),
        };
        out
    }
}
