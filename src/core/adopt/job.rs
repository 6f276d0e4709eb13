//! What a script asks of the scheduler, and what of that an attempt is handed.

use oomctl_base::units::parse_duration_s;
use oomctl_base::{Role, table};
use oomctl_scripts::{
    Directive, Reading, SCRIPT, Span, Traced, asked, asked_in_all, directives, gpu_type,
    host_memory, misspelt_options, wins,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options that make of one submission something else than one job that is answered by its id.
const NOT_ONE_JOB: [[&str; 2]; 4] = table(
    "
    wait | sbatch would block until the job ends; remove the line (`oomctl watch` waits)
    test-only | sbatch would submit nothing; remove the line (`--dry-run` shows what would be submitted)
    wrap | the script is already given; remove the line
    hetjob | a heterogeneous job is several jobs, and oomctl can change only one; submit it with sbatch, and `oomctl diagnose LOG` says what killed it
    ",
);
/// What stands for the number of a job that has none yet, in the name of a log.
pub const JOB_NUMBER: &str = "%j";
/// What Slurm writes for the index of a job that is no task of an array.
const NO_TASK: &str = "4294967294";

/// What a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// GPUs of the whole job.
    pub gpus: u64,
    /// Nodes.
    pub nodes: u64,
    /// Wall-clock limit in seconds.
    pub time_limit_s: Option<u64>,
}

/// The ids of a job, as they stand in the names of its logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobIds<'a> {
    /// The job's own number (`%j`).
    pub job: &'a str,
    /// That of its array, or else its own (`%A`).
    pub array: &'a str,
    /// Its index in the array (`%a`).
    pub task: Option<&'a str>,
}

/// Where the user looks for a log: sbatch's pattern, with all filled in but the ids of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPattern {
    parts: Vec<PathPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathPart {
    Text(String),
    Job,
    Array,
    Task,
}

impl LogPattern {
    /// The path for a job.
    pub fn path(&self, ids: &JobIds<'_>) -> String {
        let parts = self.parts.iter().map(|part| match part {
            PathPart::Text(text) => text.as_str(),
            PathPart::Job => ids.job,
            PathPart::Array => ids.array,
            PathPart::Task => ids.task.unwrap_or(NO_TASK),
        });
        parts.collect()
    }
}

fn text(directive: &Directive) -> String {
    directive
        .value
        .as_ref()
        .map(Traced::text)
        .unwrap_or_default()
}

/// The name of the job: what is asked for, or the script's own, as with sbatch.
pub fn job_name(reading: &Reading) -> String {
    let all = directives(reading);
    let asked = wins(&all, "job-name")
        .map(text)
        .filter(|name| !name.is_empty());
    let script = reading.sources.get(SCRIPT).map_or("", |s| s.path.as_str());
    asked.unwrap_or_else(|| script.rsplit('/').next().unwrap_or(script).to_owned())
}

/// The folder in which the job runs, where it asks for one.
pub fn workdir(reading: &Reading) -> Option<String> {
    wins(&directives(reading), "chdir")
        .map(text)
        .filter(|folder| !folder.is_empty())
}

/// What a script asks for that a run cannot be: the option, and what to do about it.
pub fn bad_directive(reading: &Reading) -> Option<(String, &'static str)> {
    let script = reading.sources.get(SCRIPT).map_or("", |s| s.text.as_str());
    let het = script
        .lines()
        .any(|l| l.starts_with("#SBATCH") && (l.contains(" hetjob") || l.contains(" packjob")));
    let all = directives(reading);
    let option = |name: &str| all.iter().any(|d| d.option == name) || (name == "hetjob" && het);
    let [name, hint] = NOT_ONE_JOB.iter().find(|[name, _]| option(name))?;
    Some((format!("--{name}"), hint))
}

/// The options that sbatch does not know, and those whose value is none that it takes, each with its place.
pub fn impossible(reading: &Reading) -> Vec<String> {
    let all = directives(reading);
    let is_bad = |d: &&Directive| {
        let value = text(d);
        match d.option.as_str() {
            "mem" | "mem-per-cpu" | "mem-per-gpu" => !is_memory(&value),
            "time" => !value.starts_with(['u', 'U', 'i', 'I']) && parse_duration_s(&value).is_err(),
            _ => false,
        }
    };
    let bad = all.iter().filter(is_bad);
    let place = |d: &Directive| reading.place(d.span).unwrap_or_default();
    let said = bad.map(|d| {
        format!(
            "sbatch does not take --{}={} ({})",
            d.option,
            text(d),
            place(d)
        )
    });
    let misspelt = misspelt_options(&all).into_iter().map(|(d, meant)| {
        let option = &d.option;
        format!(
            "sbatch has no option --{option} ({}): did you mean --{meant}?",
            place(d)
        )
    });
    said.chain(misspelt).collect()
}

/// `400G`, `64000`, `0`: digits and at most a unit.
fn is_memory(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let first = unit.chars().next().is_none_or(|c| "KMGTkmgt".contains(c));
    unit.len() < text.len() && first
}

/// The index of the task, where the job is one of an array; of a whole array the list of all.
pub fn array(reading: &Reading) -> Option<String> {
    given(reading, "array")
}

/// What the script, or how it is submitted, gives an option of sbatch.
pub fn given(reading: &Reading, option: &str) -> Option<String> {
    wins(&directives(reading), option).map(text)
}

/// Which of the environment the job is to get, where the script says so.
pub fn export(reading: &Reading) -> Option<String> {
    given(reading, "export")
}

/// Whether standard error has a log of its own.
pub fn has_error_log(reading: &Reading) -> bool {
    given(reading, "error").is_some()
}

/// Where the user looks for standard output and standard error. None for a pattern that names a thing which is
/// known on the node only.
pub fn logs(
    reading: &Reading,
    workdir: &str,
    user: &str,
) -> (Option<LogPattern>, Option<LogPattern>) {
    let all = directives(reading);
    let name = job_name(reading);
    let pattern = |option: &str| wins(&all, option).map(text);
    let filled = |pattern: String| fill(&pattern, &name, user, workdir);
    let default = if array(reading).is_some() {
        "slurm-%A_%a.out"
    } else {
        "slurm-%j.out"
    };
    let out = pattern("output").unwrap_or_else(|| default.to_owned());
    (filled(out), pattern("error").and_then(filled))
}

/// Does it give sbatch any of these options, named without dashes?
pub fn gives(reading: &Reading, options: &[&str]) -> bool {
    let all = directives(reading);
    options.iter().any(|option| wins(&all, option).is_some())
}

fn fill(pattern: &str, name: &str, user: &str, workdir: &str) -> Option<LogPattern> {
    if pattern.contains('\\') || pattern.is_empty() {
        return None;
    }
    let (mut parts, mut text) = (Vec::new(), String::new());
    if !pattern.starts_with('/') {
        text = format!("{workdir}/");
    }
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let part = match letter {
            '%' => match letters.next()? {
                'j' | 'J' => PathPart::Job,
                'A' => PathPart::Array,
                'a' => PathPart::Task,
                'x' => PathPart::Text(name.to_owned()),
                'u' => PathPart::Text(user.to_owned()),
                '%' => PathPart::Text("%".to_owned()),
                _ => return None,
            },
            other => PathPart::Text(other.to_string()),
        };
        match part {
            PathPart::Text(more) => text.push_str(&more),
            id => parts.extend([PathPart::Text(std::mem::take(&mut text)), id]),
        }
    }
    parts.push(PathPart::Text(text));
    Some(LogPattern { parts })
}

/// GPUs, nodes and time that are asked for.
pub fn resources(reading: &Reading) -> Resources {
    let nodes = asked(reading, Role::Nodes)
        .map_or(1, |(count, _)| u64::from(count))
        .max(1);
    let per_node = asked(reading, Role::GpusPerNode).map(|(count, _)| u64::from(count) * nodes);
    let whole = || asked_in_all(reading).map(u64::from);
    let time = wins(&directives(reading), "time").map(text);
    Resources {
        gpus: per_node.or_else(whole).unwrap_or(0),
        nodes,
        time_limit_s: time.and_then(|t| parse_duration_s(&t).ok()),
    }
}

/// What is asked of the scheduler that a knob can stand for: its role, the value, and where it stands.
pub(super) fn asked_for(reading: &Reading) -> Vec<(Role, String, Span)> {
    let all = directives(reading);
    let mut asked_for = Vec::new();
    let options = [
        ("nodes", Role::Nodes),
        ("time", Role::TimeLimit),
        ("exclude", Role::ExcludedNodes),
    ];
    for (option, role) in options {
        asked_for.extend(wins(&all, option).map(|d| (role, text(d), d.span)));
    }
    asked_for.extend(host_memory(reading).map(|(amount, span)| (Role::HostMemory, amount, span)));
    if let Some((count, value)) = asked(reading, Role::GpusPerNode) {
        asked_for.extend(
            value
                .place()
                .map(|span| (Role::GpusPerNode, count.to_string(), span)),
        );
    }
    if let Some((name, span)) = gpu_type(reading) {
        asked_for.push((Role::GpuType, name, span));
    }
    asked_for
}
