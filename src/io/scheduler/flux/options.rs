//! A submission as words for `flux batch`. Flux reads its own directives (`# flux: -N2`); where a script has none, its `#SBATCH` lines are
//! translated here, and what has no counterpart is refused by its name, for it would be dropped in silence.

use std::collections::BTreeMap;

use oomctl_base::table;
use oomctl_scripts::{option_words, script_directives};

use super::super::JobSubmission;
use super::super::directives::{Counterparts, line_of_srun};
use super::super::share::NodeShare;

/// What `flux batch` is given for the options of sbatch (flux-batch(1) of 0.88).
const COUNTERPARTS: Counterparts = Counterparts {
    target: "Flux",
    options: &OPTIONS,
};
const OPTIONS: [[&str; 3]; 24] = table(
    "
    account | --bank= |
    begin | --begin-time= |
    constraint | --requires= |
    cpus-per-task | | share
    dependency | --dependency= |
    exclude | --requires=-host: |
    exclusive | --exclusive | flag
    gpus | | share
    gpus-per-node | | share
    gpus-per-task | | share
    gres | | share
    H | --urgency=hold | flag
    hold | --urgency=hold | flag
    no-requeue | | -
    nodelist | --requires=host: |
    nodes | | share
    ntasks | | share
    ntasks-per-node | | share
    partition | --queue= |
    time | --time-limit= | duration
    tres-per-task | | share
    Q | | -
    quiet | | -
    verbose | | -
    ",
);

/// What to do about an option that has no counterpart.
pub(super) const HINT: &str = "remove it, or write a script with `# flux:` lines (flux-batch(1))";

/// The words behind `flux`, and the variables that the script's `--export` adds.
///
/// # Errors
/// What Flux has no counterpart for, with its place.
pub(super) fn arguments(
    submission: &JobSubmission,
    script: &str,
) -> Result<(Vec<String>, BTreeMap<String, String>), String> {
    if submission.tasks.is_some() {
        return Err("job arrays are Slurm's".to_owned());
    }
    let mut words = vec!["batch".to_owned()];
    words.extend(asked(submission, script)?);
    words.push(format!("--job-name={}", submission.token));
    words.push(format!("--cwd={}", submission.workdir.display()));
    let mut logs = vec![("output", &submission.stdout)];
    // Without it both streams go into one file.
    logs.extend((submission.stderr != submission.stdout).then_some(("error", &submission.stderr)));
    for (option, path) in logs {
        let Some(text) = path.to_str().filter(|text| !text.contains("{{")) else {
            return Err(format!("{path:?} cannot be the name of a log in Flux"));
        };
        words.push(format!("--{option}={text}"));
    }
    words.push(submission.script.display().to_string());
    words.extend(submission.arguments.iter().cloned());
    Ok((words, COUNTERPARTS.exported(submission)?))
}

/// What is asked for beside name, folder and logs.
fn asked(submission: &JobSubmission, script: &str) -> Result<Vec<String>, String> {
    let further = option_words(&submission.options);
    if has_directives(script) {
        return COUNTERPARTS.words(&further, script);
    }
    if let Some(line) = line_of_srun(script) {
        return Err(format!(
            "srun in line {line} is Slurm's: `flux run` starts programs on the nodes of a job"
        ));
    }
    let mut given = script_directives(script);
    given.extend(further);
    let mut words = slots(NodeShare::of(&given, script, COUNTERPARTS.target)?);
    words.extend(COUNTERPARTS.words(&given, script)?);
    Ok(words)
}

/// Does Flux read the script's own directives (RFC 36)? Signs, then the tag.
fn has_directives(script: &str) -> bool {
    let tagged = |line: &str| {
        let word = line.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
        word.len() < line.len() && (word.starts_with("flux:") || word.starts_with("FLUX:"))
    };
    script.lines().any(tagged)
}

/// Flux counts slots: one a node, with all that the job's tasks need there.
fn slots(share: NodeShare) -> Vec<String> {
    let mut words = vec![
        format!("--nodes={}", share.nodes),
        format!("--nslots={}", share.nodes),
        format!("--cores-per-slot={}", share.cores),
    ];
    words.extend((share.gpus > 0).then(|| format!("--gpus-per-slot={}", share.gpus)));
    words
}
