//! One submission as words for sbatch.

use oomctl_base::table;
use std::path::Path;

use super::super::command::{CommandEnd, CommandOutput};
use super::super::{JobSubmission, NoAnswer, SubmitAnswer};
use super::clients::{Clients, no_answer};
use super::refusal::read_answer;
use super::rest::RestClient;
use super::states::parse_time;
use crate::core::request::StartForecast;

/// sbatch options that would break what a submission is to us: one job, answered at once by its
/// id, found again by its token.
const NOT_OURS: [[&str; 2]; 6] = table(
    "
    wait | sbatch would block until the job ends; use `oomctl watch`
    wrap | the script is already given
    test-only | nothing would be submitted; use `oomctl submit --dry-run`
    array | one run is one job; `oomctl sweep submit` makes arrays of runs
    help | no job would be submitted
    version | no job would be submitted
    ",
);

/// What sbatch says where it is installed and no cluster is.
const NO_CLUSTER: &str = "establish a configuration source";

/// Through slurmrestd where there is one.
pub(super) fn submit(
    clients: &Clients,
    rest: Option<&RestClient>,
    submission: &JobSubmission,
) -> SubmitAnswer {
    match (check(submission), rest) {
        (Err(refused), _) => refused,
        (Ok(()), Some(rest)) => rest.submit(submission, clients.deadlines),
        (Ok(()), None) => read_answer(&sbatch(clients, submission, false)),
    }
}

fn sbatch(clients: &Clients, submission: &JobSubmission, test_only: bool) -> CommandOutput {
    let arguments = arguments(submission, test_only);
    let environment = &submission.environment;
    clients.sbatch(&arguments, environment, &submission.workdir, test_only)
}

/// `sbatch --test-only`: what it says stands on standard error.
pub(super) fn forecast(
    clients: &Clients,
    submission: &JobSubmission,
) -> Result<Option<StartForecast>, NoAnswer> {
    let refused = |answer: SubmitAnswer| match answer {
        // Without a cluster nobody looked at the job.
        SubmitAnswer::Refused { reason, .. } if !reason.contains(NO_CLUSTER) => {
            Some(StartForecast::Refused(reason))
        }
        _ => None,
    };
    if let Err(answer) = check(submission) {
        return Ok(refused(answer));
    }
    let answer = sbatch(clients, submission, true);
    let said = read_forecast(&answer.stderr);
    match answer.end {
        CommandEnd::Exited(0) => Ok(said),
        // Options that it cannot read it refuses before it asks anybody.
        CommandEnd::Exited(_) => Ok(said.or_else(|| refused(read_answer(&answer)))),
        _ => Err(no_answer("sbatch", &answer)),
    }
}

/// `Job 7 to start at 1795235211 using 1 processors on nodes node1 in partition debug`, or the refusal. The lines are the
/// same from 17.11 to 26.05; `--test-only` takes no job, so the last of either kind counts.
fn read_forecast(stderr: &str) -> Option<StartForecast> {
    let read = |line: &str| {
        let line = line.strip_prefix("sbatch: ").unwrap_or(line);
        if let Some(why) = line.strip_prefix("allocation failure: ") {
            return Some(StartForecast::Refused(why.trim().to_owned()));
        }
        let (_, rest) = line.strip_prefix("Job ")?.split_once(" to start at ")?;
        parse_time(rest.split_whitespace().next()?).map(StartForecast::At)
    };
    stderr.lines().rev().find_map(read)
}

/// The words after `sbatch`. The user's options come first and ours last: of an option given twice
/// sbatch takes the last, and neither the token nor the log paths may be lost.
fn arguments(submission: &JobSubmission, test_only: bool) -> Vec<String> {
    let mut words = submission.options.clone();
    if test_only {
        words.push("--test-only".to_owned());
    }
    words.extend([
        "--parsable".to_owned(),
        format!("--job-name={}", submission.token),
        format!("--comment={}", submission.token),
        format!("--chdir={}", submission.workdir.display()),
        format!("--output={}", log(submission, &submission.stdout)),
        format!("--error={}", log(submission, &submission.stderr)),
        "--open-mode=append".to_owned(),
    ]);
    let export = submission.export.as_deref().unwrap_or("ALL");
    words.push(format!("--export={export}"));
    if let Some(tasks) = &submission.tasks {
        let at_once = tasks.at_once.map_or(String::new(), |n| format!("%{n}"));
        words.push(format!("--array={}{at_once}", tasks.indices));
    }
    words.push(submission.script.display().to_string());
    words.extend(submission.arguments.iter().cloned());
    words
}

/// A log as sbatch takes it: of an array, that of each task in its own folder.
fn log(submission: &JobSubmission, path: &Path) -> String {
    match (&submission.tasks, path.file_name()) {
        (Some(tasks), Some(name)) => {
            let name = escape(Path::new(name));
            format!("{}/%a/{name}", escape(&tasks.folder))
        }
        _ => escape(path),
    }
}

/// A path as an sbatch file name pattern that means exactly this path.
pub(super) fn escape(path: &Path) -> String {
    path.display().to_string().replace('%', "%%")
}

/// Mistakes that sbatch would not notice, or not in time: a job whose folders are missing is
/// accepted and fails later without a log.
fn check(submission: &JobSubmission) -> Result<(), SubmitAnswer> {
    let refused = |reason: String, hint: &str| Err(SubmitAnswer::refused(reason, Some(hint)));
    for path in [
        &submission.script,
        &submission.workdir,
        &submission.stdout,
        &submission.stderr,
    ] {
        let Some(text) = path.to_str() else {
            return refused(format!("{} is not UTF-8", path.display()), "rename it");
        };
        if !path.is_absolute() || text.contains(['\0', '\n']) {
            return refused(format!("{text:?} is not an absolute path"), "rename it");
        }
    }
    if !submission.workdir.is_dir() {
        let reason = format!(
            "the working directory {} does not exist",
            submission.workdir.display()
        );
        return refused(reason, "create it, or name another one");
    }
    for log in [&submission.stdout, &submission.stderr] {
        if !log.parent().is_some_and(Path::is_dir) {
            return refused(
                format!("the folder of {} does not exist", log.display()),
                "create it",
            );
        }
        if log.to_string_lossy().contains('\\') {
            let reason = format!("sbatch cannot name the log {}: a backslash", log.display());
            return refused(reason, "use a folder without a backslash in its name");
        }
    }
    match submission
        .options
        .iter()
        .find_map(|option| bad_option(option))
    {
        Some((reason, hint)) => refused(reason, hint),
        None => Ok(()),
    }
}

/// Why an option may not be handed on to sbatch, and what to do instead.
pub fn bad_option(option: &str) -> Option<(String, &'static str)> {
    if !option.starts_with('-') || option == "--" || option == "-" {
        let reason = format!("{option:?} is not an option: sbatch would take it for the script");
        return Some((
            reason,
            "write option and value as one word, `--partition=gpu` or `-pgpu`",
        ));
    }
    // An array of one task is one job.
    let index = option
        .strip_prefix("--array=")
        .or_else(|| option.strip_prefix("-a"));
    if index.is_some_and(|i| !i.is_empty() && i.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let short = ["-W", "-a", "-h", "-V"]
        .iter()
        .position(|short| option.starts_with(short));
    let long = option
        .strip_prefix("--")
        .map(|long| long.split('=').next().unwrap_or(long));
    let reason = match short {
        Some(at) => ["wait", "array", "help", "version"].get(at).copied(),
        None => None,
    };
    NOT_OURS
        .iter()
        .find(|[name, _]| reason == Some(name) || long.is_some_and(|long| name.starts_with(long)))
        .map(|[_, hint]| {
            (
                format!("the sbatch option {option} cannot be used here"),
                *hint,
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::word_list;

    #[test]
    fn options_that_would_break_a_submission_are_told_apart() {
        let bad =
            word_list::<11>("gpu -- - --wait -W --wra=x --test-only --test -a1-3 --array=1-3 -h");
        for option in bad {
            assert!(bad_option(option).is_some(), "{option}");
        }
        let good = word_list::<11>(
            "-pgpu --partition=gpu --wait-all-nodes=1 --time=1:00:00 --hint=nomultithread
             --exclusive -Alab -N2 --verbose -H --array=3",
        );
        for option in good {
            assert_eq!(bad_option(option), None, "{option}");
        }
    }

    #[test]
    fn a_percent_sign_in_a_path_is_no_pattern() {
        assert_eq!(escape(Path::new("/a/50%j/x")), "/a/50%%j/x");
    }
}
