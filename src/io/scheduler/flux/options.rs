//! A submission as words for `flux batch`. Flux reads its own directives (`# flux: -N2`); where a script has none, its `#SBATCH` lines are
//! translated here, and what has no counterpart is refused by its name, for it would be dropped in silence.

use std::collections::BTreeMap;

use oomctl_base::table;
use oomctl_base::units::parse_duration_s;
use oomctl_scripts::{Directive, option_words, script_directives};

use super::super::JobSubmission;
use super::super::directives::{place, those_that_count};

/// An option of sbatch, and what `flux batch` is given for it (flux-batch(1) of 0.88), before its value. `flag` stands alone, `slots` is
/// counted together with others, `seconds` is a duration, and `-` is what Flux does anyway.
const OPTIONS: [[&str; 3]; 24] = table(
    "
    account | --bank= |
    begin | --begin-time= |
    constraint | --requires= |
    cpus-per-task | | slots
    dependency | --dependency= |
    exclude | --requires=-host: |
    exclusive | --exclusive | flag
    gpus | | slots
    gpus-per-node | | slots
    gpus-per-task | | slots
    gres | | slots
    H | --urgency=hold | flag
    hold | --urgency=hold | flag
    no-requeue | | -
    nodelist | --requires=host: |
    nodes | | slots
    ntasks | | slots
    ntasks-per-node | | slots
    partition | --queue= |
    time | --time-limit= | seconds
    tres-per-task | | slots
    Q | | -
    quiet | | -
    verbose | | -
    ",
);

/// Options that every submission overrides, or that tell sbatch alone how to talk.
const OURS: [&str; 8] =
    oomctl_base::word_list("job-name comment chdir output error open-mode export parsable");

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
    Ok((words, exported(submission)?))
}

/// What is asked for beside name, folder and logs.
fn asked(submission: &JobSubmission, script: &str) -> Result<Vec<String>, String> {
    let further = option_words(&submission.options);
    if has_directives(script) {
        return translated(&further, script);
    }
    if let Some(line) = script.lines().position(calls_srun) {
        let line = line + 1;
        return Err(format!(
            "srun in line {line} is Slurm's: `flux run` starts programs on the nodes of a job"
        ));
    }
    let mut given = script_directives(script);
    given.extend(further);
    let mut words = Slots::of(&given, script)?.words();
    words.extend(translated(&given, script)?);
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

/// Does a line of a shell script start a step of Slurm's?
fn calls_srun(line: &str) -> bool {
    let code = line.trim_start();
    !code.starts_with('#') && code.split([' ', '\t', '(', ';', '"']).any(|w| w == "srun")
}

/// The options that have one of their own in Flux.
fn translated(given: &[Directive], script: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for directive in those_that_count(given) {
        let name = directive.option.as_str();
        if OURS.contains(&name) {
            continue;
        }
        let place = place(directive, script);
        let Some([_, flux, form]) = OPTIONS.iter().find(|row| row[0] == name) else {
            return Err(format!("{place} has no counterpart in Flux"));
        };
        let value = || text(directive).ok_or_else(|| format!("{place} has no value"));
        match *form {
            "-" | "slots" => {}
            "flag" if text(directive).is_some() => {
                return Err(format!("{place} has no counterpart in Flux"));
            }
            "flag" => words.push((*flux).to_owned()),
            "seconds" => {
                let seconds = parse_duration_s(&value()?).map_err(|e| format!("{place}: {e}"))?;
                words.push(format!("{flux}{seconds}s"));
            }
            _ => words.push(format!("{flux}{}", value()?)),
        }
    }
    Ok(words)
}

fn text(directive: &Directive) -> Option<String> {
    directive.value.as_ref().map(|value| value.text())
}

/// What a job asks for of each node. Flux counts slots: one a node, with all that the job's tasks need there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slots {
    nodes: u32,
    cores: u32,
    gpus: u32,
}

impl Slots {
    /// What sbatch's options add up to.
    fn of(given: &[Directive], script: &str) -> Result<Self, String> {
        let last = |name: &str| given.iter().rev().find(|d| d.option == name);
        let number = |name: &str, none: u32| last(name).map_or(Ok(none), |d| count(d, script));
        let nodes = number("nodes", 1)?.max(1);
        let shared = |all: u32, what: &str| match all.is_multiple_of(nodes) {
            true => Ok(all / nodes),
            false => Err(format!("{all} {what} cannot be shared by {nodes} nodes")),
        };
        let tasks = match last("ntasks-per-node") {
            Some(tasks) => count(tasks, script)?,
            None => shared(number("ntasks", nodes)?, "tasks")?,
        };
        let (mut gpus, mut said) = (0, None);
        for option in [
            "gres",
            "gpus-per-node",
            "gpus-per-task",
            "tres-per-task",
            "gpus",
        ] {
            let Some(directive) = last(option) else {
                continue;
            };
            let here = match (option, gpu_count(directive, script)?) {
                ("gpus", all) => shared(all, "GPUs")?,
                ("gpus-per-task" | "tres-per-task", each) => each.saturating_mul(tasks),
                (_, each) => each,
            };
            if said.replace(option).is_some() && here != gpus {
                return Err(format!(
                    "{} asks for another number of GPUs",
                    place(directive, script)
                ));
            }
            gpus = here;
        }
        let cores = number("cpus-per-task", 1)?.saturating_mul(tasks).max(1);
        Ok(Self { nodes, cores, gpus })
    }

    fn words(self) -> Vec<String> {
        let Self { nodes, cores, gpus } = self;
        let mut words = vec![
            format!("--nodes={nodes}"),
            format!("--nslots={nodes}"),
            format!("--cores-per-slot={cores}"),
        ];
        words.extend((gpus > 0).then(|| format!("--gpus-per-slot={gpus}")));
        words
    }
}

fn count(directive: &Directive, script: &str) -> Result<u32, String> {
    let number = text(directive).and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| format!("{} is no number", place(directive, script)))
}

/// The number in `gpu:4`, `gres/gpu=4` or `4`.
fn gpu_count(directive: &Directive, script: &str) -> Result<u32, String> {
    let value = text(directive).unwrap_or_default();
    let signs = [':', '='];
    let mine = match directive.option.as_str() {
        "gres" => value.strip_prefix("gpu"),
        "tres-per-task" => value.strip_prefix("gres").and_then(|v| {
            let named = v.strip_prefix(signs).or(v.strip_prefix('/'))?;
            named.strip_prefix("gpu")
        }),
        _ => Some(value.as_str()),
    };
    let number = mine.map(|mine| mine.trim_start_matches(signs));
    match number.map(|number| (number, number.parse())) {
        Some(("", _)) => Ok(1),
        Some((_, Ok(count))) => Ok(count),
        // A type, or another resource.
        _ => Err(format!(
            "{} has no counterpart in Flux, which counts GPUs of any type",
            place(directive, script)
        )),
    }
}

/// The variables of Slurm's `--export=ALL,NAME=VALUE`.
fn exported(submission: &JobSubmission) -> Result<BTreeMap<String, String>, String> {
    let export = submission.export.as_deref().unwrap_or("ALL");
    let mut words = export.split(',');
    if words.next() != Some("ALL") {
        return Err(format!("--export={export} has no counterpart in Flux"));
    }
    // A name alone is in the environment already.
    let given = words.filter_map(|word| word.split_once('='));
    Ok(given.map(|(n, v)| (n.to_owned(), v.to_owned())).collect())
}
