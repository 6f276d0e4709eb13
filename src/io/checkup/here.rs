//! This machine: other programs of our name, and the driver of the GPUs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::io::finding::{CheckFinding, CheckHealth};
use crate::io::scheduler::command::{CommandCall, CommandEnd, run};
use oomctl_gpu::nvml::{Driver, GpuError};

/// The name under which people call us.
const NAME: &str = "oomctl";
/// Folders of `PATH` that are looked into.
const MOST_FOLDERS: usize = 256;

/// This program, and others of its name on `PATH`.
pub fn programs(deadline: Duration) -> Vec<CheckFinding> {
    let us = std::env::current_exe()
        .and_then(|p| p.canonicalize())
        .unwrap_or_default();
    let version = concat!("oomctl ", env!("CARGO_PKG_VERSION"));
    let mut findings = vec![CheckFinding::good(
        "program",
        format!("{version}, {}", us.display()),
    )];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).take(MOST_FOLDERS);
    let mut named: Vec<PathBuf> = folders
        .map(|folder| folder.join(NAME))
        .filter(|p| p.is_absolute() && p.is_file())
        .filter_map(|p| p.canonicalize().ok())
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    named.retain(|p| seen.insert(p.clone()));
    let before_us = named.iter().position(|p| *p == us);
    for (at, path) in named.iter().enumerate().filter(|(_, p)| **p != us) {
        let first = before_us.is_none_or(|us| at < us);
        findings.push(other(path, first, deadline));
    }
    if before_us.is_none() && findings.len() == 1 {
        let found = "no `oomctl` is on PATH";
        let advice =
            "jobs call this program by its full path; for the shell put its folder into PATH";
        findings.push(CheckFinding::with(
            CheckHealth::Absent,
            "PATH",
            found,
            advice,
        ));
    }
    findings
}

/// Another program of our name, told by what it prints.
fn other(path: &Path, first: bool, deadline: Duration) -> CheckFinding {
    let answer = run(&CommandCall {
        program: path.to_owned(),
        arguments: vec![OsString::from("--version")],
        environment: std::env::vars_os().collect(),
        folder: None,
        deadline,
    });
    let line = answer
        .stdout
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    let is_ours = line.strip_prefix("oomctl ").is_some();
    let what = match answer.end {
        _ if line.starts_with("systemd ") => format!("the oomctl of systemd-oomd ({line})"),
        _ if is_ours => format!("another {line}"),
        CommandEnd::TimedOut => "a program that does not print its version".to_owned(),
        _ => format!("another program (`--version`: {line:?})"),
    };
    let found = format!("{} is {what}", path.display());
    match (first, is_ours) {
        (true, _) => CheckFinding::with(
            CheckHealth::Odd,
            "PATH",
            format!("{found}, and comes first on PATH"),
            "put this program's folder before it in PATH, or use the full path",
        ),
        (false, true) => CheckFinding::with(
            CheckHealth::Absent,
            "PATH",
            found,
            "remove the one that you do not want",
        ),
        (false, false) => CheckFinding::with(
            CheckHealth::Absent,
            "PATH",
            found,
            "nothing to do: this program comes first on PATH",
        ),
    }
}

/// The driver of the GPUs.
pub fn driver() -> CheckFinding {
    match Driver::open().and_then(|driver| driver.look()) {
        Ok(machine) => {
            let version = machine.driver.unwrap_or_else(|| "unknown".to_owned());
            let found = format!("driver {version}, {} GPUs", machine.gpus.len());
            match machine.unavailable.first() {
                None => CheckFinding::good("NVML", found),
                Some(lost) => CheckFinding::with(
                    CheckHealth::Odd,
                    "NVML",
                    format!("{found}; GPU {}: {}", lost.index, lost.error),
                    "`oomctl gpus` says what helps",
                ),
            }
        }
        Err(GpuError::NoDriver(_)) => CheckFinding::with(
            CheckHealth::Absent,
            "NVML",
            "no NVIDIA driver on this machine",
            "normal on a login node; for a node with GPUs use `oomctl gpus --job JOBID`, or run this there",
        ),
        Err(e) => CheckFinding::with(
            CheckHealth::Odd,
            "NVML",
            e.to_string(),
            "`nvidia-smi` should say more; oomctl measures no memory until it works",
        ),
    }
}
