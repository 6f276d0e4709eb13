//! The script that starts the test cluster, for the test programs that need one: the whole cluster, and
//! a second, plain one beside it.

use std::process::{Command, Output};

/// The script.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/cluster");
/// How the plain cluster differs: one node, no accounting, ended jobs forgotten after two seconds, small arrays.
const PLAIN: [(&str, &str); 6] = [
    ("CLUSTER_ACCT", "none"),
    ("CLUSTER_NAME", "plain"),
    ("CLUSTER_NODE_NAME", "plain"),
    ("CLUSTER_NODES", "1"),
    ("CLUSTER_MIN_JOB_AGE", "2"),
    ("CLUSTER_EXTRA", "MaxArraySize=4"),
];

/// Runs the script for the whole cluster or the plain one, which lies beside it and 400 ports above.
pub fn script(plain: bool, arguments: &[&str]) -> Output {
    let mut command = Command::new(SCRIPT);
    command.args(arguments);
    if plain {
        let state = std::env::var("CLUSTER_STATE").unwrap_or("/tmp/oomctl-slurm".into());
        let port = std::env::var("CLUSTER_PORT").unwrap_or("17800".into());
        let port = port.parse::<u16>().expect("CLUSTER_PORT is a port") + 400;
        command
            .env("CLUSTER_STATE", state + "-plain")
            .env("CLUSTER_PORT", port.to_string())
            .envs(PLAIN);
    }
    command.output().expect("tests/slurm/cluster runs")
}
