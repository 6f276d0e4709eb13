//! A submission as the JSON that slurmrestd takes. It reads no `#SBATCH` lines: they are translated here, and what has no field is
//! refused by its name, for it would be dropped in silence.

use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_base::{table, word_list};
use oomctl_scripts::{option_words, script_directives};
use serde_json::{Map, Value, json};

use super::super::super::JobSubmission;
use super::super::super::command::changes_answers;
use super::super::super::directives::{place, those_that_count};
use super::super::submit::escape;

/// An option of sbatch, its field in v0.0.38, its field since v0.0.40, and what its value becomes there. Until v0.0.38 slurmrestd
/// read values as sbatch does (`job_params` in `src/plugins/openapi/v0.0.38/jobs.c`); since then a field has a type of its own
/// (`JOB_DESC_MSG` in `src/plugins/data_parser/v0.0.44/parsers.c`), and sbatch's reading is that of `slurm_opt.c`. `-`: no field.
const FIELDS: [[&str; 4]; 42] = table(
    "
    account | account | account | text
    constraint | constraints | constraints | text
    contiguous | - | contiguous | true
    core-spec | core_specification | core_specification | number
    cpus-per-gpu | cpus_per_gpu | cpus_per_tres | of-gpus
    cpus-per-task | cpus_per_task | cpus_per_task | number
    dependency | dependency | dependency | text
    exclude | exclude_nodes | excluded_nodes | text
    exclusive | exclusive | shared | shared
    gpus | gpus | tres_per_job | of-gpus
    gpus-per-node | gpus_per_node | tres_per_node | of-gpus
    gpus-per-socket | gpus_per_socket | tres_per_socket | of-gpus
    gpus-per-task | gpus_per_task | tres_per_task | of-gpus
    gres | gres | tres_per_node | gres
    H | hold | hold | true
    hold | hold | hold | true
    input | standard_input | standard_input | text
    licenses | licenses | licenses | text
    mail-type | mail_type | mail_type | mail
    mail-user | mail_user | mail_user | text
    mem | memory_per_node | memory_per_node | mebibytes
    mem-per-cpu | memory_per_cpu | memory_per_cpu | mebibytes
    mem-per-gpu | memory_per_gpu | memory_per_tres | gpu-mebibytes
    mincpus | minimum_cpus_per_node | minimum_cpus_per_node | number
    no-requeue | no_requeue | requeue | false
    nodelist | nodelist | required_nodes | text
    nodes | nodes | nodes | text
    ntasks | tasks | tasks | number
    ntasks-per-core | tasks_per_core | tasks_per_core | number
    ntasks-per-gpu | ntasks_per_gpu | ntasks_per_tres | number
    ntasks-per-node | tasks_per_node | tasks_per_node | number
    ntasks-per-socket | tasks_per_socket | tasks_per_socket | number
    partition | partition | partition | text
    qos | qos | qos | text
    requeue | requeue | requeue | true
    reservation | reservation | reservation | text
    signal | signal | kill_warning_signal | signal
    threads-per-core | threads_per_core | threads_per_core | number
    time | time_limit | time_limit | minutes
    time-min | time_minimum | time_minimum | minutes
    tres-per-task | - | tres_per_task | text
    wckey | wckey | wckey | text
    ",
);

/// Options that every submission overrides, or that tell sbatch alone how to talk.
const OURS: [&str; 11] =
    word_list("job-name comment chdir output error open-mode export parsable quiet verbose Q");

/// Lines beside `#SBATCH --…` that sbatch reads too.
const FOREIGN: [&str; 4] = ["#SBATCH hetjob", "#SBATCH packjob", "#PBS ", "#BSUB "];

/// Seconds before the time limit at which `--signal` without `@` comes (sbatch(1)).
const SIGNAL_S: u64 = 60;

/// Why a submission cannot be said in JSON, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoField {
    pub reason: String,
    pub hint: &'static str,
}

const HINT: &str = "remove it, or submit where sbatch is: without `slurm:` in the configuration";

fn refused(reason: String) -> NoField {
    NoField { reason, hint: HINT }
}

/// The request for a submission of this script.
pub(super) fn request(
    submission: &JobSubmission,
    script: &str,
    version: u32,
) -> Result<Value, NoField> {
    let plain = version < 39;
    if submission.tasks.is_some() {
        return Err(refused(
            "job arrays do not go through slurmrestd".to_owned(),
        ));
    }
    if plain && !submission.arguments.is_empty() {
        // slurmrestd of 22.05 dies of the field `argv`.
        let what = "a script gets no arguments through slurmrestd's v0.0.38";
        return Err(refused(what.to_owned()));
    }
    let mut job = fields(submission, script, plain)?;
    let environment = environment(submission)?;
    let (token, log) = (&submission.token.0, |path| escape(path));
    for (name, value) in [
        ("name", token.clone()),
        ("comment", token.clone()),
        (
            "current_working_directory",
            submission.workdir.display().to_string(),
        ),
        ("standard_output", log(&submission.stdout)),
        ("standard_error", log(&submission.stderr)),
    ] {
        job.insert(name.to_owned(), value.into());
    }
    let environment: Value = match plain {
        true => environment.into_iter().collect::<Map<_, _>>().into(),
        false => environment
            .into_iter()
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
            .collect(),
    };
    job.insert("environment".to_owned(), environment);
    let append = if plain {
        json!("append")
    } else {
        json!(["APPEND"])
    };
    job.insert("open_mode".to_owned(), append);
    if plain {
        return Ok(json!({ "script": script, "job": job }));
    }
    // The first word is replaced by the path of the script on its node.
    let words = std::iter::once("script").chain(submission.arguments.iter().map(String::as_str));
    job.insert("argv".to_owned(), words.collect());
    job.insert("script".to_owned(), script.into());
    Ok(json!({ "job": job }))
}

/// What the job gets. sbatch adds where it was called.
fn environment(submission: &JobSubmission) -> Result<Vec<(String, Value)>, NoField> {
    let all = submission.environment.iter();
    let kept = all.filter(|(name, _)| !changes_answers(name.as_ref()));
    let mut environment: Vec<(String, Value)> =
        kept.map(|(n, v)| (n.clone(), v.as_str().into())).collect();
    let workdir = submission.workdir.display().to_string();
    environment.push(("SLURM_SUBMIT_DIR".to_owned(), workdir.into()));
    let export = submission.export.as_deref().unwrap_or("ALL");
    let mut words = export.split(',');
    if words.next() != Some("ALL") {
        return Err(refused(format!(
            "--export={export} has no counterpart in slurmrestd"
        )));
    }
    // A name alone is in the environment already.
    let given = words.filter_map(|word| word.split_once('='));
    environment.extend(given.map(|(name, value)| (name.to_owned(), value.into())));
    Ok(environment)
}

/// The fields of all options, of which a later one replaces an earlier one of its name.
fn fields(
    submission: &JobSubmission,
    script: &str,
    plain: bool,
) -> Result<Map<String, Value>, NoField> {
    let foreign = script.lines().enumerate().find_map(|(at, line)| {
        let begins = FOREIGN.iter().find(|foreign| line.starts_with(**foreign))?;
        Some(format!(
            "{} in line {} has no counterpart in slurmrestd",
            begins.trim(),
            at + 1
        ))
    });
    if let Some(reason) = foreign {
        return Err(refused(reason));
    }
    let mut given = script_directives(script);
    given.extend(option_words(&submission.options));
    let mut job = Map::new();
    for directive in those_that_count(&given) {
        let name = directive.option.as_str();
        if OURS.contains(&name) {
            continue;
        }
        let place = place(directive, script);
        let Some(row) = FIELDS.iter().find(|row| row[0] == name) else {
            return Err(refused(format!("{place} has no field in slurmrestd")));
        };
        let value = directive.value.as_ref().map(|value| value.text());
        let set = match plain {
            true => set_plain(row, value.as_deref(), &mut job),
            false => set_typed(row, value.as_deref(), &mut job),
        };
        set.map_err(|why| refused(format!("{place}: {why}")))?;
    }
    Ok(job)
}

fn set_plain(
    row: &[&str; 4],
    value: Option<&str>,
    job: &mut Map<String, Value>,
) -> Result<(), String> {
    let [_, field, _, form] = *row;
    let value = match (form, value) {
        ("true" | "false", _) => Value::Bool(true),
        ("shared", None) => "exclusive".into(),
        (_, Some(value)) => value.into(),
        (_, None) => return Err("it has no value".to_owned()),
    };
    if field == "-" {
        return Err("slurmrestd's v0.0.38 has no field for it".to_owned());
    }
    // Both words set the same, and the last one counts.
    if let "requeue" | "no_requeue" = field {
        job.remove("requeue");
        job.remove("no_requeue");
    }
    job.insert(field.to_owned(), value);
    Ok(())
}

fn set_typed(
    row: &[&str; 4],
    value: Option<&str>,
    job: &mut Map<String, Value>,
) -> Result<(), String> {
    let [_, _, field, form] = *row;
    let given = || value.ok_or_else(|| "it has no value".to_owned());
    let value = match form {
        "true" => json!(true),
        "false" => json!(false),
        "shared" => json!([value.unwrap_or("none")]),
        "number" => number(given()?)?,
        "minutes" => match parse_duration_s(given()?)? {
            0 => json!({ "infinite": true }),
            seconds => json!({ "set": true, "number": seconds.div_ceil(60) }),
        },
        "mebibytes" => json!({ "set": true, "number": mebibytes(given()?)? }),
        "gpu-mebibytes" => format!("gres/gpu:{}", mebibytes(given()?)?).into(),
        "of-gpus" => prefixed("gres/gpu:", given()?).into(),
        "gres" => prefixed("gres/", given()?).into(),
        "mail" => mails(given()?)?,
        "signal" => return signal(given()?, job),
        _ => given()?.into(),
    };
    // `--gres` and `--gpus-per-node` are one list.
    let before = job
        .get(field)
        .and_then(Value::as_str)
        .filter(|_| field.starts_with("tres_per_"));
    let value = match (before, value.as_str()) {
        (Some(before), Some(more)) => format!("{before},{more}").into(),
        _ => value,
    };
    job.insert(field.to_owned(), value);
    Ok(())
}

fn number(text: &str) -> Result<Value, String> {
    let number = text.trim().parse::<u64>();
    Ok(number.map_err(|_| format!("{text:?} is no number"))?.into())
}

/// `0` is all memory of a node.
fn mebibytes(text: &str) -> Result<u64, String> {
    match text.trim() {
        "0" => Ok(0),
        text => Ok(Bytes::parse_mib(text)?.0.div_ceil(1 << 20)),
    }
}

/// `h100:4,a100:2` with each entry behind its kind.
fn prefixed(kind: &str, list: &str) -> String {
    let entry = |one: &str| match one.starts_with("gres/") {
        true => one.to_owned(),
        false => format!("{kind}{one}"),
    };
    list.split(',').map(entry).collect::<Vec<_>>().join(",")
}

fn mails(list: &str) -> Result<Value, String> {
    let mut words = Vec::new();
    for word in list.split(',') {
        match word.to_uppercase().as_str() {
            "NONE" => {}
            "ALL" => words.extend(["BEGIN", "END", "FAIL", "REQUEUE", "INVALID_DEPENDENCY"]),
            "BEGIN" => words.push("BEGIN"),
            "END" => words.push("END"),
            "FAIL" => words.push("FAIL"),
            "REQUEUE" => words.push("REQUEUE"),
            "TIME_LIMIT" => words.push("TIME=100%"),
            _ => return Err(format!("{word} has no counterpart in slurmrestd")),
        }
    }
    Ok(json!(words))
}

/// `[R][B:]SIGNAL[@SECONDS]`.
fn signal(text: &str, job: &mut Map<String, Value>) -> Result<(), String> {
    let (signal, before) = match text.split_once('@') {
        Some((signal, before)) => (signal, number(before)?),
        None => (text, SIGNAL_S.into()),
    };
    let (flags, name) = signal.split_once(':').unwrap_or(("", signal));
    let flags: Vec<&str> = match flags {
        "" => Vec::new(),
        "B" => vec!["BATCH_JOB"],
        "R" => vec!["RESERVATION_JOB"],
        "RB" | "BR" => vec!["BATCH_JOB", "RESERVATION_JOB"],
        _ => return Err(format!("{text:?} is no signal")),
    };
    job.insert("kill_warning_signal".to_owned(), name.into());
    job.insert("kill_warning_flags".to_owned(), json!(flags));
    job.insert(
        "kill_warning_delay".to_owned(),
        json!({ "set": true, "number": before }),
    );
    Ok(())
}
