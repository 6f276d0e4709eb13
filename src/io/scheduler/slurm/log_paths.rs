//! Where a job's logs are, for a job that somebody else submitted: the patterns of sbatch's
//! `--output`, filled in as slurmstepd does (observed on 22.05; manual page of sbatch, "filename
//! pattern").

use std::path::{Path, PathBuf};

use super::parse::Control;

/// Most digits that a number in a pattern is padded to.
const MAX_PADDING: usize = 10;
/// Bytes of a path that the kernel takes (`PATH_MAX`); a longer one is no path, and is not filled any
/// further.
const MAX_PATH: usize = 4_096;
/// What Slurm writes for the array index of a job that is no array task.
const NO_ARRAY_TASK: &str = "4294967294";

/// Paths of standard output and standard error; the same one twice when they go together.
pub fn log_paths(job: &Control) -> Option<(PathBuf, PathBuf)> {
    let stdout = absolute(job, job.stdout.as_deref()?)?;
    let stderr = match job.stderr.as_deref() {
        Some(pattern) => absolute(job, pattern)?,
        None => stdout.clone(),
    };
    Some((stdout, stderr))
}

fn absolute(job: &Control, pattern: &str) -> Option<PathBuf> {
    let path = PathBuf::from(fill(pattern, job));
    if path.is_absolute() {
        return Some(path);
    }
    job.folder
        .as_deref()
        .map(|folder| Path::new(folder).join(path))
}

/// Fills a pattern. A backslash anywhere switches the patterns off and is itself dropped; a letter
/// that is no pattern stays as it is.
pub fn fill(pattern: &str, job: &Control) -> String {
    if pattern.contains('\\') {
        return pattern.replace('\\', "");
    }
    let mut filled = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%').filter(|_| filled.len() <= MAX_PATH) {
        filled.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let letter = after[digits..].chars().next();
        match letter.and_then(|letter| value(letter, job)) {
            Some(value) => {
                filled.push_str(&padded(&value, &after[..digits]));
                rest = &after[digits + 1..];
            }
            None => {
                filled.push('%');
                rest = after;
            }
        }
    }
    filled + rest
}

fn padded(value: &str, width: &str) -> String {
    let width = width.parse::<usize>().unwrap_or(0).min(MAX_PADDING);
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("{value:0>width$}")
    } else {
        value.to_owned()
    }
}

fn value(letter: char, job: &Control) -> Option<String> {
    let record = &job.record;
    let node = job.batch_host.as_ref().or(record.status.nodes.first());
    Some(match letter {
        '%' => "%".to_owned(),
        'j' | 'J' => record.raw_id.clone(),
        'A' => job
            .array_job
            .clone()
            .unwrap_or_else(|| record.raw_id.clone()),
        'a' => job
            .array_task
            .clone()
            .unwrap_or_else(|| NO_ARRAY_TASK.to_owned()),
        'b' => {
            let task: u64 = job
                .array_task
                .as_deref()
                .unwrap_or(NO_ARRAY_TASK)
                .parse()
                .ok()?;
            (task % 10).to_string()
        }
        'n' | 't' => "0".to_owned(),
        'N' => node?.split('.').next()?.to_owned(),
        's' => "batch".to_owned(),
        'u' => job.user.clone()?,
        'x' => record.name.clone(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse::read_scontrol;
    use super::*;

    fn job(extra: &str) -> Control {
        let text = format!(
            "JobId=7 JobName=tok\n   UserId=root(0) GroupId=root(0)\n   JobState=RUNNING Reason=None Dependency=(null)\n   BatchHost=vm\n   WorkDir=/w\n{extra}"
        );
        read_scontrol(&text).unwrap()
    }

    #[test]
    fn every_pattern_becomes_what_slurmstepd_made_of_it() {
        // Names of files that 22.05 wrote for these patterns.
        let cases = [
            (
                "%J_%s_%5j_%x_%u_%N_%n_%t_%%_%A_%a.out",
                "7_batch_00007_tok_root_vm_0_0_%_7_4294967294.out",
            ),
            ("slurm-%j.out", "slurm-7.out"),
            ("\\%j.out", "%j.out"),
            ("100%", "100%"),
            ("%q-%5q", "%q-%5q"),
            ("%99j", "0000000007"),
            ("é%jé", "é7é"),
        ];
        for (pattern, name) in cases {
            assert_eq!(fill(pattern, &job("")), name, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_whose_path_nobody_could_open_does_not_grow_without_bound() {
        let name = "x".repeat(10_000);
        let task = read_scontrol(&format!("JobId=20 JobName={name}\n")).unwrap();
        assert!(fill(&"%x".repeat(10_000), &task).len() < 40_000);
    }

    #[test]
    fn an_array_task_has_its_arrays_id_and_its_index() {
        let task = read_scontrol("JobId=20 ArrayJobId=17 ArrayTaskId=3 JobName=x\n").unwrap();
        assert_eq!(fill("slurm-%A_%4a.%b", &task), "slurm-17_0003.3");
    }

    #[test]
    fn a_relative_path_is_below_the_working_directory_and_stderr_may_be_stdout() {
        let paths = log_paths(&job("   StdOut=logs/%j.out\n")).unwrap();
        assert_eq!(paths, ("/w/logs/7.out".into(), "/w/logs/7.out".into()));
        let paths = log_paths(&job("   StdOut=/a/%j\n   StdErr=e b\n")).unwrap();
        assert_eq!(paths, ("/a/7".into(), "/w/e b".into()));
        assert_eq!(log_paths(&job("")), None);
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in "(%|[0-9]|[a-zA-Z]|é|\\\\){0,20}") {
            let _ = fill(&pattern, &job(""));
        }
    }
}
