//! What projects of one site may share of what fitted: no paths, names of runs, jobs, nodes or processes.
//!
//! Rule: what a person wrote freely stands as a hash, so that equal values are found equal and none can be read.

use sha2::{Digest, Sha256};

use super::entry::LearnedEntry;
use super::job::JobFeatures;
use crate::core::measure::{GpuPeak, Measured};
use oomctl_base::Value;

/// Beginnings of the names of facts whose values are free text.
const FREE: [&str; 5] = ["given ", "override ", "program", "cluster", "--"];
/// Bytes of a hash that are kept.
const HASH: usize = 8;

impl JobFeatures {
    /// The same with hashes in place of paths and of what a person wrote freely.
    pub fn anonymous(&self) -> Self {
        let hidden = |(name, value): (&String, &String)| {
            let free = FREE.iter().any(|start| name.starts_with(start));
            let value = match !value.is_empty() && (free || may_be_a_place(value)) {
                true => hash(value.as_bytes()),
                false => value.clone(),
            };
            (name.clone(), value)
        };
        Self {
            same: self.same.iter().map(hidden).collect(),
            sizes: self.sizes.clone(),
            described: self.described.iter().map(hidden).collect(),
        }
    }
}

/// May it be a path, an address, or a sentence that has one in it? Names of models on the hub (`Qwen/Qwen2.5-7B`) are none.
fn may_be_a_place(text: &str) -> bool {
    let begins = text.starts_with(['/', '~', '.', '$']);
    begins || text.contains([' ', ':', '\\', '=', '@']) || text.matches('/').count() > 1
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest
        .iter()
        .take(HASH)
        .map(|b| format!("{b:02x}"))
        .collect();
    format!("#{hex}")
}

impl LearnedEntry {
    /// What of it may be shared: model, stack, type of GPU, knobs, whether it fitted, and peaks. The day stays, for of two that
    /// contradict each other the later one counts. `None` where a rung moved a free text.
    pub fn shared(&self) -> Option<Self> {
        let free = |value: &Value| matches!(value, Value::Text(t) if may_be_a_place(t));
        let moves = self.rungs.iter().flat_map(|r| r.moves.values());
        if moves.clone().any(|m| free(&m.from) || free(&m.to)) {
            return None;
        }
        let day = self.at.as_second().div_euclid(86_400) * 86_400;
        let mut entry = Self {
            id: String::new(),
            run: String::new(),
            attempt: 0,
            at: jiff::Timestamp::from_second(day).ok()?,
            end: self.end.clone(),
            job: self.job.anonymous(),
            rungs: self.rungs.clone(),
            measured: Measured {
                gpus: self.measured.gpus.iter().map(nameless).collect(),
                ..self.measured.clone()
            },
        };
        entry.id = hash(&serde_json::to_vec(&entry).ok()?);
        Some(entry)
    }

    /// The attempt that tells: `run a, attempt 3`, or where another project's is told of, by which file.
    pub fn told_by(&self) -> String {
        match self.attempt {
            0 => self.run.clone(),
            n => format!("run {}, attempt {n}", self.run),
        }
    }

    /// The same as it is told of to a project: by this file.
    pub fn of_site(self, file: &str) -> Self {
        Self {
            run: format!("another project (by {file})"),
            attempt: 0,
            ..self
        }
    }
}

/// A peak without the node, the card's number and the process.
fn nameless(peak: &GpuPeak) -> GpuPeak {
    GpuPeak {
        node: String::new(),
        uuid: String::new(),
        gpu: 0,
        pid: None,
        ..peak.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::learn::{AttemptEnd, LearnedRung, Moved};

    fn entry() -> LearnedEntry {
        let same = [
            ("preset", "hf-trainer"),
            ("version", "4.57.1"),
            ("cluster", "alice-cluster"),
            ("backend", "slurm"),
            ("gpu_type", "h100"),
            ("model", "Qwen/Qwen2.5-7B"),
            ("given --output_dir", "secret"),
            ("given --run_name", "alice"),
            ("program", "train_secret.py"),
            ("dataset", "/home/alice/secret"),
            ("--partition", "alice"),
            ("note", "that of secret.py"),
        ];
        LearnedEntry {
            id: "oomctl-alice-1-00112233".to_owned(),
            run: "alice".to_owned(),
            attempt: 2,
            at: "2026-11-21T13:12:11Z".parse().unwrap(),
            end: AttemptEnd::Fitted,
            job: JobFeatures {
                same: same.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
                sizes: [("micro".to_owned(), 8.0)].into(),
                ..JobFeatures::default()
            },
            rungs: vec![LearnedRung {
                rung: "thin".to_owned(),
                moves: [(
                    "micro".to_owned(),
                    Moved {
                        from: Value::Int(16),
                        to: Value::Int(8),
                    },
                )]
                .into(),
            }],
            measured: Measured {
                gpus: vec![GpuPeak {
                    node: "alice-node".to_owned(),
                    gpu: 3,
                    uuid: "GPU-secret".to_owned(),
                    name: "H100".to_owned(),
                    peak_bytes: oomctl_base::units::Bytes(7),
                    own_peak_bytes: None,
                    pid: Some(4_711),
                    total_bytes: oomctl_base::units::Bytes(8),
                    utilization_percent: None,
                }],
                ..Measured::default()
            },
        }
    }

    #[test]
    fn what_is_shared_names_nobody_and_no_place() {
        let shared = entry().shared().unwrap();
        let text = serde_json::to_string(&shared).unwrap();
        for hidden in ["alice", "secret", "oomctl-", "4711", "13:12", "/home"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        for told in [
            "Qwen/Qwen2.5-7B",
            "hf-trainer",
            "4.57.1",
            "h100",
            "\"micro\":8.0",
            "thin",
            "fitted",
        ] {
            assert!(text.contains(told), "{told} in {text}");
        }
        // Equal stays equal, and sharing twice is sharing once.
        assert_eq!(entry().job.anonymous(), shared.job);
        assert_eq!(shared.job.anonymous().same["model"], "Qwen/Qwen2.5-7B");
        assert_eq!(entry().shared().unwrap().id, shared.id);
    }

    #[test]
    fn a_rung_that_moved_a_path_is_not_shared() {
        let mut entry = entry();
        let moved = entry.rungs[0].moves.get_mut("micro").unwrap();
        moved.to = Value::Text("/home/alice/ds.json".to_owned());
        assert_eq!(entry.shared(), None);
    }
}
