//! Why sbatch did not say a job id: a refusal, with what to do about it, or a lost answer.
//!
//! Exit codes and texts as Slurm 22.05 and 26.05 printed them (tests/slurm); later wordings differ
//! in details, so each is recognised by its stable part.

use super::super::command::{CommandEnd, CommandOutput};
use super::super::{MAX_REASON, SubmitAnswer};
use super::parse::read_submission;
use oomctl_base::table;

/// sbatch's exit code for options that it could not read; nothing was sent.
const USAGE: i32 = 255;

/// Signs that the request may have reached the controller although no answer came back: after
/// "Socket timed out" the job regularly exists.
const LOST_ANSWER: [&str; 16] = [
    "socket timed out",
    "unable to contact slurm controller",
    "connect failure",
    "zero bytes were transmitted",
    "connection refused",
    "connection reset",
    "connection timed out",
    "message receive failure",
    "message send failure",
    "communication",
    "unexpected message received",
    "header lengths are longer",
    "protocol authentication error",
    "controller in standby",
    "sleeping and retrying",
    "unspecified error",
];

/// How sbatch ends that has tried for long enough to get a job into a full queue.
const QUEUE_FULL: [&str; 2] = [
    "failed: resource temporarily unavailable",
    "failed: maxjobcount limit reached",
];

/// A part of Slurm's reason, and the next step.
const HINTS: [[&str; 2]; 36] = table(
    r#"
    establish a configuration source | Slurm is installed, but has no cluster: `export SLURM_CONF=...` or `module load slurm`; `--backend local` runs on this machine
    unrecognized option | sbatch does not know this option: see #SBATCH lines and --sbatch, and `sbatch --help` for this version
    invalid -- | this option's value cannot be read: see #SBATCH lines and --sbatch, and `man sbatch` for its form
    invalid partition | `sinfo -s` lists the partitions; set one in the script (#SBATCH --partition) or in the cluster profile
    invalid account | `sacctmgr show assoc user=$USER format=account,partition` lists your accounts
    invalid qos | `sacctmgr show assoc user=$USER format=account,qos` lists the QOS that you may use
    cpu count per node can not be satisfied | no node has that many CPUs: `sinfo -o '%P %c %m %G'`; lower --cpus-per-task
    memory specification can not be satisfied | no node has that much memory: `sinfo -o '%P %c %m %G'` (%m is MB a node); lower --mem
    requested node configuration is not available | no node of the partition has these GPUs, CPUs and memory together: `sinfo -o '%P %c %m %G'` shows what a node has
    invalid generic resource | no GRES of that name here: `sinfo -o '%P %G'` shows name and type of the GPUs
    maxgresper | the QOS allows fewer GPUs: `sacctmgr show qos format=name,maxtres,maxtrespu`; ask for fewer or use another QOS
    maxtresper | the QOS allows less of this resource: `sacctmgr show qos format=name,maxtres,maxtrespu`
    maxwall | the QOS allows less time: `sacctmgr show qos format=name,maxwall`; lower --time or use another QOS
    maxsubmitjob | the QOS allows you no further job for now: wait for one to end, or cancel one
    violates accounting/qos policy | a limit of your account or QOS: `sacctmgr show qos format=name,maxtres,maxwall,maxsubmitjobspu`
    node count specification invalid | more nodes than the partition allows: `sinfo -s`; lower --nodes
    requested time limit is invalid | longer than the partition allows: `sinfo -o '%P %l'`; lower --time
    invalid feature specification | no node has this feature: `sinfo -o '%P %f'` lists the features for --constraint
    requested reservation is invalid | `scontrol show reservation` lists the reservations and who may use them
    invalid license | `scontrol show licenses` lists the licences
    invalid node name | `sinfo -N` lists the nodes; see --nodelist and --exclude
    invalid job array | the array is too large or malformed: `scontrol show config | grep MaxArraySize`
    pathname of a file, directory or other parameter too long | the script is larger than the site allows (max_script_size, 4 MiB by default)
    unable to open file | the script is not there or cannot be read
    does not look like a batch script | the script's first line must be like `#!/bin/bash`
    batch script is empty | the script is empty
    dos line breaks | the script has Windows line ends: `sed -i 's/\\r$//'` removes them
    problem talking to the database | a cluster was named (-M, --clusters) and slurmdbd does not answer: submit without naming it, or later
    resource temporarily unavailable | the cluster's job queue is full (MaxJobCount): submit later
    rate limit exceeded | the controller limits requests (rl_enable, rpc_queue): submit later
    access/permission denied | you may not use this partition, account or reservation: `scontrol show partition`
    user's group not permitted | the partition is for other groups: `scontrol show partition` (AllowGroups)
    job dependency problem | a job named by --dependency does not exist
    required partition not available | the partition is down or drained: `sinfo -s`
    unable to process configuration file | Slurm's configuration cannot be read here: look at SLURM_CONF, or submit from a login node
    mutually exclusive | two options contradict each other: see #SBATCH lines and --sbatch
    "#,
);

/// A part of Slurm's reason for a refusal that passes by itself, and Slurm's name for it (`src/common/slurm_errno.c`, and
/// `src/common/job_state_reason.c` for limits, in 26.05; 22.05 lacks three of them and has the same words for the others). Any
/// other refusal lasts: it is of the request, or nothing is known of when it ends.
const PASSING: [&str; 14] = [
    // Jobs in the queue, of a user, an account or a QOS: QOSMaxSubmitJobPerUserLimit, AssocGrpSubmitJobsLimit and so on.
    "submitjob",                                               // ESLURM_ACCOUNTING_POLICY
    "resource temporarily unavailable",                        // EAGAIN
    "maxjobcount limit reached",                               // ESLURM_MAX_JOB_COUNT
    "required partition not available (inactive or drain)",    // ESLURM_PARTITION_NOT_AVAIL
    "partition in down state",                                 // ESLURM_PARTITION_DOWN
    "required node not available (down, drained or reserved)", // ESLURM_NODE_NOT_AVAIL
    "requested partition configuration not available now", // ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE
    "requested nodes are busy",                            // ESLURM_NODES_BUSY
    "requested reservation is in use",                     // ESLURM_RESERVATION_BUSY
    "requested reservation not usable now",                // ESLURM_RESERVATION_NOT_USABLE
    "licenses currently unavailable",                      // ESLURM_LICENSES_UNAVAILABLE
    "i/o error writing script/environment to file",        // ESLURM_WRITING_TO_FILE
    "system submissions disabled",                         // ESLURM_SUBMISSIONS_DISABLED
    // `..., please retry later`, since 24.05: the controller's queue of requests is full, and it drops this one unread
    // (`hard_drop` in rpc_queue.yaml). Its other limit, `..., please retry momentarily` of rl_enable, sbatch never prints: it waits
    // and asks again (`slurm_send_recv_controller_msg`).
    "rate limit exceeded", // SLURMCTLD_COMMUNICATIONS_HARD_DROP
];

/// What a call of `sbatch --parsable` means.
pub fn read_answer(answer: &CommandOutput) -> SubmitAnswer {
    let submitted = read_submission(&answer.stdout);
    match (&answer.end, submitted) {
        (CommandEnd::Exited(0), Some((id, cluster))) => SubmitAnswer::Accepted { id, cluster },
        (CommandEnd::Exited(USAGE), None) => refused(&reason(&answer.stderr)),
        (CommandEnd::Exited(code), None) if *code != 0 && surely_refused(&answer.stderr) => {
            refused(&reason(&answer.stderr))
        }
        (CommandEnd::NotStarted(error), _) => SubmitAnswer::refused(
            error,
            Some("Slurm's commands must be on PATH; `module load slurm` on some sites"),
        ),
        (CommandEnd::Exited(0), None) => SubmitAnswer::Unclear {
            detail: format!(
                "sbatch succeeded, but printed no job id: {:?}",
                first_line(&answer.stdout)
            ),
        },
        _ => SubmitAnswer::Unclear {
            detail: format!("sbatch: {}", answer.describe()),
        },
    }
}

/// What Slurm's words mean that came in place of a job id, without a command around them.
pub(super) fn read_words(words: &str) -> SubmitAnswer {
    match may_be_lost(words) {
        true => SubmitAnswer::Unclear {
            detail: words.to_owned(),
        },
        false => refused(words),
    }
}

/// sbatch itself names an error, and it is none of the ways to lose an answer.
fn surely_refused(stderr: &str) -> bool {
    let text = stderr.to_lowercase();
    let named = text.contains("submission failed:")
        || text.contains("sbatch: error:")
        || text.contains("sbatch: fatal:");
    named && !may_be_lost(stderr)
}

/// May the job exist all the same?
fn may_be_lost(words: &str) -> bool {
    let text = words.to_lowercase();
    let lost = LOST_ANSWER.iter().any(|sign| text.contains(sign));
    let full = QUEUE_FULL.iter().any(|end| text.contains(end));
    lost && !full
}

fn refused(reason: &str) -> SubmitAnswer {
    SubmitAnswer::refused_in_words(reason, &HINTS, &PASSING)
}

/// sbatch's own lines of standard error, without its prefixes; all of it where it has none.
fn reason(stderr: &str) -> String {
    let own = stderr
        .lines()
        .filter_map(|line| line.trim().strip_prefix("sbatch: "));
    let own: Vec<&str> = own
        .map(|line| {
            line.strip_prefix("error: ")
                .or(line.strip_prefix("fatal: "))
                .unwrap_or(line)
        })
        .collect();
    let text = if own.is_empty() {
        stderr.trim().to_owned()
    } else {
        own.join("; ")
    };
    text.chars().take(MAX_REASON).collect()
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or("")
        .chars()
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::job::JobId;

    fn answer(code: i32, stdout: &str, stderr: &str) -> CommandOutput {
        CommandOutput {
            end: CommandEnd::Exited(code),
            stdout: stdout.into(),
            stderr: stderr.into(),
            cut: false,
        }
    }

    /// sbatch's exit code, the errors that it prints, and the next step.
    const REFUSALS: [[&str; 3]; 14] = table(
        r"
        255 | Invalid --time specification | man sbatch
        1 | invalid partition specified: nope; Batch job submission failed: Invalid partition name specified | sinfo -s
        1 | Batch job submission failed: Invalid account or account/partition combination specified | sacctmgr
        1 | Batch job submission failed: Invalid qos specification | QOS
        1 | Batch job submission failed: Requested node configuration is not available | %G
        1 | Memory specification can not be satisfied; Batch job submission failed: Requested node configuration is not available | lower --mem
        1 | Invalid generic resource (gres) specification | %G
        1 | QOSMaxGRESPerJob; Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits) | fewer GPUs
        1 | Batch job submission failed: Node count specification invalid | --nodes
        1 | Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit) | --time
        1 | Batch job submission failed: Invalid feature specification | --constraint
        1 | Batch job submission failed: Pathname of a file, directory or other parameter too long | 4 MiB
        1 | Batch script contains DOS line breaks (\r\n) | Windows
        1 | Slurm temporarily unable to accept job, sleeping and retrying; Batch job submission failed: Resource temporarily unavailable | later
        ",
    );

    #[track_caller]
    fn is_refused(code: i32, stderr: &str, words: &str, step: &str) {
        let SubmitAnswer::Refused { reason, hint, .. } = read_answer(&answer(code, "", stderr))
        else {
            panic!("not refused: {stderr}");
        };
        assert_eq!(reason, words);
        let hint = hint.unwrap_or_default();
        assert!(hint.contains(step), "{reason}: {hint}");
    }

    #[test]
    fn every_refusal_keeps_slurms_words_and_says_the_next_step() {
        for [code, words, step] in REFUSALS {
            let lines = words
                .split("; ")
                .map(|line| format!("sbatch: error: {line}\n"));
            is_refused(
                code.parse().unwrap(),
                &lines.collect::<String>(),
                words,
                step,
            );
        }
        let usage =
            "sbatch: unrecognized option '--x'\nTry \"sbatch --help\" for more information\n";
        is_refused(255, usage, "unrecognized option '--x'", "sbatch --help");
    }

    #[test]
    fn what_passes_by_itself_is_told_from_what_the_request_breaks() {
        let failed = "Batch job submission failed: ";
        let policy =
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        let passing = |text: String| {
            let stderr = text.lines().map(|line| format!("sbatch: error: {line}\n"));
            let SubmitAnswer::Refused { passing, .. } =
                read_answer(&answer(1, "", &stderr.collect::<String>()))
            else {
                panic!("not refused: {text}");
            };
            passing
        };
        for limit in "AssocMaxSubmitJobLimit AssocGrpSubmitJobsLimit QOSMaxSubmitJobPerUserLimit
             QOSGrpSubmitJobsLimit QOSMaxSubmitJobPerAccountLimit"
            .split_whitespace()
        {
            assert!(passing(format!("{limit}\n{failed}{policy}")), "{limit}");
        }
        for limit in ["QOSMaxGRESPerJob", "QOSMaxWallDurationPerJobLimit"] {
            assert!(!passing(format!("{limit}\n{failed}{policy}")), "{limit}");
        }
        assert!(
            !passing(format!("{failed}{policy}")),
            "which limit is not known"
        );
        for words in [
            "Resource temporarily unavailable",
            "Required partition not available (inactive or drain)",
            "I/O error writing script/environment to file",
            "System submissions disabled",
            "Rate limit exceeded, please retry later",
        ] {
            assert!(passing(format!("{failed}{words}")), "{words}");
        }
        for words in [
            "Invalid partition name specified",
            "Requested node configuration is not available",
            "Invalid account or account/partition combination specified",
            "Requested time limit is invalid (missing or exceeds some limit)",
            "Access/permission denied",
        ] {
            assert!(!passing(format!("{failed}{words}")), "{words}");
        }
    }

    #[test]
    fn a_reason_that_we_do_not_know_is_still_a_refusal_without_a_hint() {
        let stderr = "sbatch: error: Please name a project with --comment\nsbatch: error: Batch job submission failed: Job submit plugin says no\n";
        let SubmitAnswer::Refused { reason, hint, .. } = read_answer(&answer(1, "", stderr)) else {
            panic!("not refused");
        };
        assert!(reason.starts_with("Please name a project"));
        assert_eq!(hint, None);
    }

    #[test]
    fn a_lost_answer_is_unclear_and_never_a_refusal() {
        let failed = "sbatch: error: Batch job submission failed: ";
        let texts = [
            "Socket timed out on send/recv operation",
            "Unable to contact slurm controller (connect failure)",
            "Zero Bytes were transmitted or received",
            "Protocol authentication error",
            "Unexpected message received",
        ];
        for text in texts {
            let read = read_answer(&answer(1, "", &format!("{failed}{text}\n")));
            assert!(matches!(read, SubmitAnswer::Unclear { .. }), "{text}");
        }
        let no_words = answer(1, "", "");
        let no_id = answer(0, "Submitted batch job 12\n", "");
        let id_and_failure = answer(1, "4711\n", "sbatch: error: something\n");
        let killed = CommandOutput {
            end: CommandEnd::Killed(9),
            ..answer(0, "", "")
        };
        let slow = CommandOutput {
            end: CommandEnd::TimedOut,
            ..answer(
                0,
                "",
                "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
            )
        };
        for lost in [no_words, no_id, id_and_failure, killed, slow] {
            assert!(
                matches!(read_answer(&lost), SubmitAnswer::Unclear { .. }),
                "{lost:?}"
            );
        }
    }

    #[test]
    fn an_accepted_job_may_come_with_warnings() {
        let read = read_answer(&answer(
            0,
            "hello\n5;oomtest\n",
            "sbatch: error: not really\n",
        ));
        assert_eq!(
            read,
            SubmitAnswer::Accepted {
                id: JobId("5".into()),
                cluster: Some("oomtest".into())
            }
        );
    }
}
