//! Is Slurm there, and what of it? One short question each, all at once.

use std::collections::BTreeMap;

use super::super::command::{CommandEnd, CommandOutput};
use super::Slurm;
use crate::io::finding::{CheckFinding, CheckHealth};

/// Characters of an answer that are shown.
const LONGEST: usize = 120;
/// What is said of a Slurm of which nothing else can be asked.
const NO_CLUSTER: &str = "Slurm is installed, but has no cluster (no slurm.conf)";
/// Oldest version whose answers were looked at.
const OLDEST: (u32, u32) = (20, 11);

impl Slurm {
    /// What can be said of Slurm on this machine.
    pub fn checkup(&self) -> Vec<CheckFinding> {
        if self.clients.search.locate("sbatch").is_none() {
            let found = "no sbatch on PATH: a script with #SBATCH lines is refused; `--backend local` runs it on this machine";
            let advice = "if there is a Slurm: `module load slurm`, or put its commands on PATH";
            return vec![CheckFinding::with(
                CheckHealth::Absent,
                "Slurm",
                found,
                advice,
            )];
        }
        let ask = |program: &'static str, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
            self.clients.query(program, &arguments)
        };
        let version = version(&ask("sbatch", &["--version"]));
        if version.found == NO_CLUSTER {
            return vec![version];
        }
        let rest = std::thread::scope(|scope| {
            let asked = [
                scope.spawn(|| controller(&ask("scontrol", &["ping"]))),
                scope.spawn(|| {
                    accounting(&ask(
                        "sacct",
                        &["-n", "-P", "-X", "-o", "JobID", "-S", "now"],
                    ))
                }),
                scope.spawn(|| json("squeue", &ask("squeue", &["--json", "--me"]))),
                scope.spawn(|| json("sacct", &ask("sacct", &["--json", "-X", "-S", "now"]))),
                scope.spawn(|| from_nodes(&ask("scontrol", &["-o", "show", "partition"]))),
            ];
            let found = asked.into_iter().filter_map(|look| look.join().ok());
            found.collect::<Vec<_>>()
        });
        std::iter::once(version).chain(rest).collect()
    }
}

fn version(answer: &CommandOutput) -> CheckFinding {
    let text = answer.stdout.trim();
    let numbers = text.rsplit(' ').next().unwrap_or_default();
    let mut parts = numbers.split('.').filter_map(|n| n.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => CheckFinding::good("Slurm", text),
        (Some(_), Some(_)) => CheckFinding::with(
            CheckHealth::Odd,
            "Slurm",
            format!("{text}, older than the versions tested with oomctl"),
            "try one small job first: `oomctl submit --watch`",
        ),
        _ if answer.stderr.contains("configuration source") => CheckFinding::with(
            CheckHealth::Bad,
            "Slurm",
            NO_CLUSTER,
            "`export SLURM_CONF=...` or `module load slurm`; to run jobs on this machine: `--backend local`, or `backend: local` in oomctl.yaml",
        ),
        _ => CheckFinding::with(
            CheckHealth::Bad,
            "Slurm",
            format!("sbatch --version: {}", said(answer)),
            "the sbatch on PATH is not Slurm's, or a wrapper that prints something else; `type -a sbatch` shows it",
        ),
    }
}

fn controller(answer: &CommandOutput) -> CheckFinding {
    let up = answer.stdout.lines().find(|l| l.contains(" is UP"));
    match up {
        Some(line) => CheckFinding::good("controller", line.trim()),
        None => CheckFinding::with(
            CheckHealth::Bad,
            "controller",
            format!("scontrol ping: {}", said(answer)),
            "no submissions until it answers: try again, test `squeue`, ask the administrators; running jobs go on, and `oomctl watch` waits",
        ),
    }
}

fn accounting(answer: &CommandOutput) -> CheckFinding {
    if answer.is_clean() {
        return CheckFinding::good("accounting", "sacct answers");
    }
    let found = match &answer.end {
        _ if answer.stderr.contains("accounting storage is disabled") => {
            "off on this cluster".to_owned()
        }
        _ => format!("sacct: {}", said(answer)),
    };
    let advice = "oomctl then reads job ends from scontrol and the job's own files; keep `oomctl watch` running, because Slurm forgets a job minutes after its end";
    CheckFinding::with(CheckHealth::Odd, "accounting", found, advice)
}

fn json(command: &'static str, answer: &CommandOutput) -> CheckFinding {
    let check = if command == "squeue" {
        "squeue JSON"
    } else {
        "sacct JSON"
    };
    if answer.is_clean() && answer.stdout.trim_start().starts_with('{') {
        return CheckFinding::good(check, format!("{command} --json works"));
    }
    let found = format!("{command} --json: {}", said(answer));
    if answer.end == CommandEnd::TimedOut {
        let advice = "unknown; oomctl does not need it";
        return CheckFinding::with(CheckHealth::Absent, check, found, advice);
    }
    let advice =
        "oomctl does not need it; scripts that use `--json` need a Slurm with the JSON serializer";
    CheckFinding::with(CheckHealth::Absent, check, found, advice)
}

/// Partitions may name the nodes from which jobs are accepted.
fn from_nodes(answer: &CommandOutput) -> CheckFinding {
    let check = "sbatch on nodes";
    let partitions = partitions(&answer.stdout);
    let closed: Vec<&str> = partitions
        .iter()
        .filter(|(_, nodes)| **nodes != "ALL")
        .map(|(name, _)| *name)
        .collect();
    match closed[..] {
        _ if partitions.is_empty() => CheckFinding::with(
            CheckHealth::Absent,
            check,
            format!("scontrol show partition: {}", said(answer)),
            "unknown; `submit --supervise script` needs it, `--watch` and `--supervise job` do not",
        ),
        [] => CheckFinding::good(
            check,
            match partitions.len() {
                1 => "the partition takes jobs from here".to_owned(),
                n => format!("all {n} partitions take jobs from here"),
            },
        ),
        _ => CheckFinding::with(
            CheckHealth::Absent,
            check,
            format!(
                "not everywhere: {} accept jobs only from the nodes in AllocNodes",
                closed.join(", ")
            ),
            "there, use `submit --watch` on a login node instead of `--supervise script`",
        ),
    }
}

/// Names of partitions, with the nodes that may submit to them.
fn partitions(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter_map(|line| Some((field(line, "PartitionName=")?, field(line, "AllocNodes=")?)))
        .collect()
}

fn field<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key))
}

/// What a command said instead.
fn said(answer: &CommandOutput) -> String {
    let first = answer.stdout.lines().find(|l| !l.trim().is_empty());
    match (&answer.end, first) {
        (CommandEnd::Exited(_), Some(line)) if answer.stderr.trim().is_empty() => {
            line.trim().chars().take(LONGEST).collect()
        }
        _ => answer.describe(),
    }
}
