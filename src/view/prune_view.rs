//! Runs whose folders are removed, or would be.

use jiff::Timestamp;
use serde::Serialize;

use super::table::{Side, Table};
use oomctl_base::units::Bytes;

/// What `prune` found.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
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
    #[must_use]
    pub fn what(&self) -> String {
        let bytes: u64 = self.runs.iter().map(|run| run.bytes).sum();
        let size = Bytes(bytes);
        match self.runs.len() {
            1 => format!("1 run ({size})"),
            n => format!("{n} runs ({size})"),
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = match self.runs.first() {
            None => "nothing to remove\n".to_owned(),
            Some(first) if first.removed => format!("removed {}\n", self.what()),
            Some(_) => {
                let mut table = Table::new([
                    (Side::Left, 3),
                    (Side::Left, 11),
                    (Side::Left, 0),
                    (Side::Right, 9),
                ]);
                table.row(["RUN", "STATE", "ENDED", "SIZE"]);
                for run in &self.runs {
                    let ended = run.ended.strftime("%Y-%m-%d").to_string();
                    table.row([
                        run.run.clone(),
                        run.state.clone(),
                        ended,
                        Bytes(run.bytes).to_string(),
                    ]);
                }
                format!(
                    "{}{} to remove; checkpoints and what was learned stay\n",
                    table.text(""),
                    self.what()
                )
            }
        };
        let stay = [
            (self.open, "not over"),
            (self.kept, "too young or of another state"),
            (self.unread.len(), "cannot be read"),
        ];
        let stay = stay
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, why)| format!("{n} {why}"));
        let stay: Vec<String> = stay.collect();
        if !stay.is_empty() {
            text.push_str(&format!("kept: {}\n", stay.join(", ")));
        }
        text
    }
}
