//! What filled a GPU, by a snapshot of PyTorch's allocator: whose tensors, by the frames that asked for them, and whether
//! what lies idle is in pieces.
//!
//! Rule: a snapshot that was not taken where memory ran out is shown, and decides nothing.
//!
//! Source: PyTorch 2.0 to 2.12 `torch/cuda/memory.py` (`_snapshot`), `torch/csrc/cuda/memory_snapshot.cpp`, `torch/cuda/_memory_viz.py`.

mod count;
mod owner;
mod pickle;
mod read;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::Frame;
use oomctl_base::units::Bytes;

pub use owner::MemoryOwner;
pub use pickle::PickleError;

/// The memory of a GPU as PyTorch's allocator saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The file.
    pub file: String,
    /// GPU, as the process counts.
    pub device: u64,
    /// Taken when an allocation had failed and before anything was freed; `None` where no history was recorded.
    pub at_failure: Option<bool>,
    /// The allocation that failed, where one is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<Bytes>,
    /// Whose it would have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<MemoryOwner>,
    /// What PyTorch held of the GPU.
    pub reserved_bytes: Bytes,
    /// What of it was in use.
    pub active_bytes: Bytes,
    /// What of it was idle and could have been given to what was asked for: of its own pool, on its stream.
    pub idle_bytes: Bytes,
    /// The largest piece of that.
    pub largest_idle_bytes: Bytes,
    /// Whether what was idle would have been enough in one piece, and was in pieces; `None` where that cannot be told.
    pub fragmented: Option<bool>,
    /// What was in use by owner, the largest first.
    pub owners: Vec<Share>,
    /// The same by the frame that asked for it, the largest first.
    pub largest: Vec<AllocationSite>,
}

/// What an owner held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The owner.
    pub owner: MemoryOwner,
    /// What it held.
    pub bytes: Bytes,
}

/// What one line of the program held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationSite {
    /// Its owner.
    pub owner: MemoryOwner,
    /// All of it.
    pub bytes: Bytes,
    /// In so many tensors.
    pub tensors: u64,
    /// The innermost frame outside of PyTorch, or else the innermost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Frame>,
}

impl Snapshot {
    /// Whose memory it is that must become less: what failed to get some of what is the loss's or the optimizer's, or
    /// who of these holds a third and more than any other. `None` where the snapshot does not say.
    pub fn chief(&self) -> Option<MemoryOwner> {
        let leads =
            |owner: &MemoryOwner| matches!(owner, MemoryOwner::Logits | MemoryOwner::Optimizer);
        if self.at_failure != Some(true) {
            return None;
        }
        let largest = self.owners.first();
        let largest = largest.filter(|s| s.bytes.0 >= self.active_bytes.0 / 3);
        let asked = self.requested_by.filter(leads);
        asked.or_else(|| largest.map(|s| s.owner).filter(leads))
    }

    /// Whether so much could be what the message of its failure says is allocated.
    fn agrees(&self, allocated: Bytes) -> bool {
        self.active_bytes.0.abs_diff(allocated.0) <= self.reserved_bytes.0 / 20
    }
}

#[cfg(test)]
mod tests;

/// Names of files, and of folders with them, that the lines of a log name as snapshots; the last first.
pub fn named(log: &[u8]) -> Vec<String> {
    let lines = log.split(|byte| matches!(byte, b'\n' | b'\r'));
    let names = lines.filter_map(|line| name(&String::from_utf8_lossy(line)));
    let mut all: Vec<String> = names.collect();
    all.reverse();
    all.dedup();
    all
}

/// Longest line that is looked at, in bytes.
const LONGEST: usize = 2_000;

fn name(line: &str) -> Option<String> {
    if line.len() > LONGEST || !line.to_ascii_lowercase().contains("mem") {
        return None;
    }
    let quoted = |c: char| matches!(c, '"' | '\'' | '`' | ',' | ';' | '(' | ')');
    let bare = |word: &str| {
        let word = word.trim_matches(quoted).trim_end_matches('.');
        word.rsplit('=')
            .next()
            .unwrap_or(word)
            .trim_matches(quoted)
            .to_owned()
    };
    let file = |word: &String| word.ends_with(".pickle") || word.ends_with(".pkl");
    let mut words = line.split_whitespace().map(bare);
    // Some name the folder before anything lies in it.
    let folder = || {
        line.split_once("napshot will be saved at ")
            .map(|(_, rest)| bare(rest.trim()))
    };
    words.find(file).or_else(folder)
}

#[cfg(test)]
mod names_tests {
    use super::*;

    #[test]
    fn files_and_folders_are_named_in_the_words_of_those_that_write_them() {
        let log = b"(WorkerDict pid=4) INFO:[memory_visualize] dumped: outputs/profile/oom_20260102-030405-000006/torch_memory_oom_rank0_pid4.pickle\n\
            step 3 loss 2.0\n\
            dumped memory snapshot to ./memory.pickle.\n\
            [rank0]:Memory profiler active. Snapshot will be saved at ./outputs/memory_snapshot\n\
            data read from 'train.pkl'\n";
        assert_eq!(
            named(log),
            [
                "./outputs/memory_snapshot",
                "./memory.pickle",
                "outputs/profile/oom_20260102-030405-000006/torch_memory_oom_rank0_pid4.pickle"
            ]
        );
    }
}
