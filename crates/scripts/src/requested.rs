//! Variables that Slurm sets to what a job asks for.

use std::collections::BTreeMap;

use super::preface::SHELLS;
use super::resources::{GPU_OPTIONS, asked};
use super::sbatch::{directives, long_option, wins};
use super::walk::{Arg, Reading};
use oomctl_base::{Role, word_list};

/// Options whose number Slurm hands on in a variable, and which it sets only where they are given.
const OPTION_VARIABLES: [(&str, &str); 8] = [
    // Of a task that is submitted alone. Of a whole array the option is no number.
    ("array", "SLURM_ARRAY_TASK_ID"),
    ("ntasks", "SLURM_NTASKS"),
    ("ntasks", "SLURM_NPROCS"),
    ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
    ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
    ("gpus-per-node", "SLURM_GPUS_PER_NODE"),
    ("gpus-per-task", "SLURM_GPUS_PER_TASK"),
    ("gpus", "SLURM_GPUS"),
];
/// Options of srun, beside those for GPUs, by which a step may be less than its job.
const STEP_OPTIONS: [&str; 8] =
    word_list("nodes ntasks ntasks-per-node cpus-per-task nodelist exclude relative het-group");

/// The variables that Slurm sets in a job to what it asks for (sbatch 25.05, "Output environment variables"), where
/// that is a number.
pub(super) fn variables(reading: &Reading) -> BTreeMap<&'static str, String> {
    let all = directives(reading);
    let mut found = BTreeMap::new();
    if let Some((nodes, _)) = asked(reading, Role::Nodes) {
        found.insert("SLURM_NNODES", nodes.to_string());
        found.insert("SLURM_JOB_NUM_NODES", nodes.to_string());
    }
    // A job that has nodes to itself has all their GPUs.
    let gpus = asked(reading, Role::GpusPerNode).filter(|_| wins(&all, "exclusive").is_none());
    if let Some((gpus, _)) = gpus {
        found.insert("SLURM_GPUS_ON_NODE", gpus.to_string());
    }
    for (option, variable) in OPTION_VARIABLES {
        let value = wins(&all, option).and_then(|d| d.value.as_ref()?.known());
        let number = value.filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        found.extend(number.map(|number| (variable, number)));
    }
    found
}

/// Whether commands print how many GPUs a node of the job has.
pub(super) fn counts_gpus(commands: &str) -> bool {
    let plain: String = commands
        .chars()
        .filter(|c| !c.is_whitespace() && !['"', '\'', ';'].contains(c))
        .collect();
    let of_python = ["python", "python3"].iter().any(|python| {
        let code = plain
            .strip_prefix(python)
            .and_then(|code| code.strip_prefix("-c"));
        code == Some("importtorchprint(torch.cuda.device_count())")
    });
    let listed = plain
        .strip_prefix("nvidia-smi")
        .and_then(|rest| rest.strip_suffix("|wc-l"));
    let listed = listed.is_some_and(|options| {
        let rows =
            options.starts_with("--query-gpu=") && options.ends_with("--format=csv,noheader");
        ["-L", "--list-gpus"].contains(&options) || rows
    });
    of_python || listed
}

/// Whether the launchers of a script give it a step that is less than its job.
pub(super) fn step_of_its_own(launchers: &[Arg]) -> bool {
    let words = launchers.iter().map(|w| w.text.text());
    let words: Vec<String> = words.collect();
    let names = |word: &String| {
        let long = long_option(word);
        let short = word.strip_prefix('-').and_then(|s| s.chars().next());
        long.is_some_and(|l| GPU_OPTIONS.contains(&l) || STEP_OPTIONS.contains(&l))
            || long.is_none() && short.is_some_and(|s| "NncwrxG".contains(s))
    };
    // A shell's `-c` is no option of srun.
    let code =
        |at: usize| words[at] == "-c" && SHELLS.contains(&words[at.saturating_sub(1)].as_str());
    let mut all = words.iter().enumerate();
    words.iter().any(|w| w == "srun") && all.any(|(at, word)| !code(at) && names(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_count_the_gpus_of_a_node_are_known() {
        for commands in [
            "nvidia-smi -L | wc -l",
            "nvidia-smi --list-gpus|wc -l",
            "nvidia-smi --query-gpu=name --format=csv,noheader | wc -l",
            "python3 -c 'import torch; print(torch.cuda.device_count())'",
            "python -c \"import torch; print(torch.cuda.device_count());\"",
        ] {
            assert!(counts_gpus(commands), "{commands}");
        }
        for commands in [
            "",
            "nvidia-smi | wc -l",
            "nvidia-smi -L | head -2 | wc -l",
            "nvidia-smi --query-gpu=name --format=csv | wc -l",
            "python -c 'import torch; print(torch.cuda.device_count() // 2)'",
            "wc -l hosts",
        ] {
            assert!(!counts_gpus(commands), "{commands}");
        }
    }
}
