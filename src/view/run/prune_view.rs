//! Runs whose folders are removed, or would be.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::table::{Side, Table};
use oomctl_base::units::Bytes;

/// What `prune` found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PruneView {
    schema_version: u32,
    /// Those that go.
    pub runs: Vec<PrunedRun>,
    /// How many are over and stay: too young, or of another state.
    pub kept: usize,
    /// How many are not over.
    pub open: usize,
    /// Those that cannot be read; they stay.
    pub unread: Vec<String>,
}

/// A run that goes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PrunedRun {
    /// Its name.
    pub run: String,
    /// How it ended.
    pub state: String,
    /// When its last job was over.
    pub ended: Timestamp,
    /// Bytes of its folder.
    pub bytes: u64,
    /// Whether it is gone.
    pub removed: bool,
}

impl Default for PruneView {
    fn default() -> Self {
        Self {
            schema_version: 1,
            runs: Vec::new(),
            kept: 0,
            open: 0,
            unread: Vec::new(),
        }
    }
}

impl PruneView {
    /// How many and how large: `3 runs (1.2 MiB)`.
    pub fn what(&self) -> String {
        what(&self.runs.iter().collect::<Vec<_>>())
    }

    /// For people: what would go, or what is gone.
    pub fn text(&self, removing: bool) -> String {
        let gone: Vec<&PrunedRun> = self.runs.iter().filter(|run| run.removed).collect();
        let mut text = match (self.runs.is_empty(), removing) {
            (true, _) => "nothing to remove\n".to_owned(),
            (false, true) => format!("{}removed {}\n", lines(&gone), what(&gone)),
            (false, false) => format!(
                "{}{} to remove, with the logs of their jobs; checkpoints and what was learned stay\n",
                lines(&self.runs.iter().collect::<Vec<_>>()),
                self.what()
            ),
        };
        let stay = [
            (self.open, "not over"),
            (
                self.kept,
                "ended too recently (--older-than), or in another state",
            ),
        ];
        let stay = stay.iter().filter(|(n, _)| *n > 0);
        let mut stay: Vec<String> = stay.map(|(n, why)| format!("{n} {why}")).collect();
        if !self.unread.is_empty() {
            stay.push(format!("cannot be read: {}", self.unread.join(", ")));
        }
        if !stay.is_empty() {
            text.push_str(&format!("kept: {}\n", stay.join(", ")));
        }
        text
    }
}

fn what(runs: &[&PrunedRun]) -> String {
    let size = Bytes(runs.iter().map(|run| run.bytes).sum());
    match runs.len() {
        1 => format!("1 run ({size})"),
        n => format!("{n} runs ({size})"),
    }
}

fn lines(runs: &[&PrunedRun]) -> String {
    let columns = [
        (Side::Left, 3),
        (Side::Left, 11),
        (Side::Left, 0),
        (Side::Right, 9),
    ];
    let mut table = Table::new(columns);
    table.row(["RUN", "STATE", "ENDED", "SIZE"]);
    for run in runs {
        table.row([
            run.run.clone(),
            run.state.clone(),
            run.ended.strftime("%Y-%m-%d").to_string(),
            Bytes(run.bytes).to_string(),
        ]);
    }
    table.text("")
}
