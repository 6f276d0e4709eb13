//! A submission as words for `qsub`. It reads the `#PBS` lines of a script by itself; where a script has none, its `#SBATCH` lines are
//! translated here, and what has no counterpart is refused by its name, for it would be dropped in silence.

use std::collections::BTreeMap;
use std::path::Path;

use oomctl_base::table;
use oomctl_base::units::{Bytes, slurm_mem};
use oomctl_scripts::{Directive, option_words, script_directives};

use super::super::JobSubmission;
use super::super::directives::{Counterparts, line_of_srun, place, value_of};
use super::super::share::NodeShare;

/// What `qsub` is given for the options of sbatch (qsub(1B) of OpenPBS 23.06).
const COUNTERPARTS: Counterparts = Counterparts {
    target: "PBS",
    options: &OPTIONS,
};
const OPTIONS: [[&str; 3]; 25] = table(
    "
    account | -A |
    cpus-per-task | | share
    dependency | -Wdepend= |
    exclusive | | share
    gpus | | share
    gpus-per-node | | share
    gpus-per-task | | share
    gres | | share
    H | -h | flag
    hold | -h | flag
    mem | | share
    mem-per-cpu | | share
    mem-per-gpu | | share
    no-requeue | -rn | flag
    nodes | | share
    ntasks | | share
    ntasks-per-node | | share
    partition | -q |
    requeue | -ry | flag
    time | -lwalltime= | seconds
    tres-per-task | | share
    Q | | -
    quiet | | -
    v | | -
    verbose | | -
    ",
);

/// What to do about an option that has no counterpart.
pub(super) const HINT: &str = "remove it, or write a script with `#PBS` lines (qsub(1B))";

/// Starts a script in the job's folder: PBS starts it at home.
const START: &str = "cd -- \"$1\" && shift && exec \"$@\"";

/// The words behind `qsub`, and the variables that the script's `--export` adds.
///
/// # Errors
/// What PBS has no counterpart for, with its place.
pub(super) fn arguments(
    submission: &JobSubmission,
    script: &str,
) -> Result<(Vec<String>, BTreeMap<String, String>), String> {
    if submission.tasks.is_some() {
        return Err("job arrays are Slurm's".to_owned());
    }
    let own = own_directives(script);
    // The process that does it sees the whole submission, and none that stays behind answers for it. The logs are written
    // while the job runs, where the node sees their folder.
    let mut words = ["-f", "-V", "-koed"].map(str::to_owned).to_vec();
    words.extend(asked(submission, script, &own)?);
    words.push(format!("-N{}", submission.token));
    words.push(format!("-o{}", log(&submission.stdout)?));
    match submission.stderr == submission.stdout {
        true => words.push("-joe".to_owned()),
        // A script's own `-j` would leave one of them empty.
        false => words.extend(["-jn".to_owned(), format!("-e{}", log(&submission.stderr)?)]),
    }
    words.extend(what_runs(submission, script, own.is_empty())?);
    Ok((words, COUNTERPARTS.exported(submission)?))
}

/// A log as qsub reads it, for which what is before a colon is a host.
fn log(path: &Path) -> Result<&str, String> {
    let text = path.to_str().filter(|text| !text.contains([':', ',']));
    text.ok_or_else(|| format!("{path:?} cannot be the name of a log in PBS"))
}

/// What is asked for beside name, folder and logs.
fn asked(
    submission: &JobSubmission,
    script: &str,
    own: &[(usize, &str)],
) -> Result<Vec<String>, String> {
    let further = option_words(&submission.options);
    for (line, words) in own {
        for (option, what) in [
            ("-J", "job arrays are Slurm's"),
            ("-I", "nobody would be there"),
        ] {
            if words
                .split_whitespace()
                .any(|word| word.starts_with(option))
            {
                return Err(format!("{option} in line {line}: {what}"));
            }
        }
    }
    if !own.is_empty() {
        let counted = further.iter().find(|d| is_of_share(&d.option));
        if let Some(counted) = counted {
            let place = place(counted, script);
            return Err(format!(
                "{place} would replace what the script's `#PBS` lines ask for"
            ));
        }
        return COUNTERPARTS.words(&further, script);
    }
    if let Some(line) = line_of_srun(script) {
        return Err(format!(
            "srun in line {line} is Slurm's: `mpirun` or `pbsdsh` starts programs on the nodes of a job"
        ));
    }
    let mut given = script_directives(script);
    given.extend(further);
    let mut words = chunks(&given, script)?;
    words.extend(COUNTERPARTS.words(&given, script)?);
    Ok(words)
}

fn is_of_share(option: &str) -> bool {
    OPTIONS
        .iter()
        .any(|[name, _, form]| *name == option && *form == "share")
}

/// The script's own directives and their lines, as qsub finds them: before its first command.
fn own_directives(script: &str) -> Vec<(usize, &str)> {
    let lines = (1..).zip(script.lines());
    let head = lines.take_while(|(_, line)| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with(['#', ':'])
    });
    head.filter_map(|(at, line)| Some((at, line.strip_prefix("#PBS")?)))
        .collect()
}

/// The job's nodes as chunks, one on each.
fn chunks(given: &[Directive], script: &str) -> Result<Vec<String>, String> {
    let share = NodeShare::of(given, script, COUNTERPARTS.target)?;
    let NodeShare {
        nodes,
        tasks,
        cores,
        gpus,
    } = share;
    let mut select = format!("-lselect={nodes}:ncpus={cores}:mpiprocs={tasks}");
    if gpus > 0 {
        select.push_str(&format!(":ngpus={gpus}"));
    }
    if let Some(memory) = memory(given, script, share)? {
        // PBS's `mb` are MiB (pbs_resources(7B)).
        select.push_str(&format!(":mem={}b", slurm_mem(memory).to_lowercase()));
    }
    let mut words = vec![select];
    let alone = given.iter().any(|d| d.option == "exclusive");
    let place = match (nodes > 1, alone) {
        (false, false) => return Ok(words),
        (true, false) => "scatter",
        (false, true) => "excl",
        (true, true) => "scatter:excl",
    };
    words.push(format!("-lplace={place}"));
    Ok(words)
}

/// Memory on each node, in bytes.
fn memory(given: &[Directive], script: &str, share: NodeShare) -> Result<Option<f64>, String> {
    let options = [
        ("mem", 1),
        ("mem-per-cpu", share.cores),
        ("mem-per-gpu", share.gpus),
    ];
    let mut memory = None;
    for (option, times) in options {
        let Some(directive) = given.iter().rev().find(|d| d.option == option) else {
            continue;
        };
        let place = place(directive, script);
        let value = value_of(directive).unwrap_or_default();
        let bytes = Bytes::parse_mib(&value).map_err(|e| format!("{place}: {e}"))?;
        if bytes.0 == 0 || times == 0 || memory.is_some() {
            return Err(format!("{place} has no counterpart in PBS"));
        }
        memory = Some(bytes.as_f64() * f64::from(times));
    }
    Ok(memory)
}

/// The script itself, or the command that starts it. PBS reads a script into the user's shell, at home and without arguments;
/// one that was not written for PBS is started as Slurm would.
fn what_runs(
    submission: &JobSubmission,
    script: &str,
    foreign: bool,
) -> Result<Vec<String>, String> {
    let path = submission.script.display().to_string();
    if !foreign {
        return match submission.arguments.is_empty() {
            true => Ok(vec![path]),
            false => Err("PBS gives a script with `#PBS` lines no arguments".to_owned()),
        };
    }
    let first = script.lines().next().unwrap_or_default();
    let Some(line) = first.strip_prefix("#!") else {
        return Err("the first line of the script must be like `#!/bin/bash`".to_owned());
    };
    let mut words = ["--", "/bin/sh", "-c", START, "oomctl"]
        .map(str::to_owned)
        .to_vec();
    words.push(submission.workdir.display().to_string());
    // As the kernel does: a program, and all the rest of the line as one argument.
    let (program, argument) = line
        .trim()
        .split_once([' ', '\t'])
        .unwrap_or((line.trim(), ""));
    words.extend(
        [program, argument.trim()]
            .into_iter()
            .filter(|w| !w.is_empty())
            .map(str::to_owned),
    );
    words.push(path);
    words.extend(submission.arguments.iter().cloned());
    Ok(words)
}
