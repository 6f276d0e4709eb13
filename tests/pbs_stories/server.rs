//! The PBS server of the stories.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::place::{Cluster, JobRow};

/// The server around this process; `tests/pbs/cluster` ends it.
pub struct Server {
    /// What loses its node, and brings it back.
    node: String,
}

impl Server {
    /// `None`, and a word about it, where there is none and none is demanded.
    pub fn here() -> Option<Self> {
        let node = std::env::var("OOMCTL_PBS_NODE").ok();
        if node.is_none() {
            let demanded = std::env::var("OOMCTL_TEST_PBS").is_ok_and(|v| v == "1");
            assert!(!demanded, "not inside tests/pbs/cluster");
            eprintln!("skipped: not inside tests/pbs/cluster (tests/pbs/README.md)");
        }
        Some(Self { node: node? })
    }

    /// Loses the node with all that runs on it, or brings it back.
    pub fn node(&self, what: &str) {
        fs::write(&self.node, format!("{what}\n")).unwrap();
    }
}

/// What a job became, as PBS says it.
fn status(job: &Value) -> String {
    let word = job["job_state"].as_str().unwrap_or_default();
    match job["Exit_status"].as_i64() {
        Some(exit) if word == "F" => format!("{word} {exit} {}", job["substate"]),
        _ => word.to_owned(),
    }
}

impl Cluster for Server {
    const BACKEND: &'static str = "pbs";

    fn variables(&self) -> Vec<(&'static str, String)> {
        vec![("PBS_CONF_FILE", std::env::var("PBS_CONF_FILE").unwrap())]
    }

    fn jobs(&self) -> Vec<JobRow> {
        let mut command = Command::new("qstat");
        let output = command.args(["-x", "-f", "-F", "json"]).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let none = serde_json::Map::new();
        let jobs = answer["Jobs"].as_object().unwrap_or(&none);
        let rows = jobs.iter().map(|(id, job)| JobRow {
            id: id.clone(),
            status: status(job),
            name: job["Job_Name"].as_str().unwrap().to_owned(),
        });
        rows.collect()
    }
}
