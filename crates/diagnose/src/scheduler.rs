//! What the scheduler knows about the end of a job, joined with what the text says.
//!
//! The text names causes, the scheduler names ends. An OOM on a GPU is a plain `FAILED 1:0` to Slurm;
//! host memory is `OUT_OF_MEMORY`, signal 125, or a bare kill.

use std::sync::LazyLock;

use regex::Regex;

use oomctl_base::job::{ExitStatus, JobState, JobStatus, somebody};

use super::class::{Class, Tri};
use super::events::LogEvent;
use super::evidence::{Evidence, EvidenceRole};
use super::findings::{CONSEQUENCES, Findings, blank, steps};
use super::incident::Incident;
use super::signatures::weight;

/// Adds a scheduler's fact to what the log says.
fn witness(incident: &mut Incident, job: &JobStatus) {
    let fact = fact(job, EvidenceRole::Confirmation);
    incident.evidence.push(fact);
}

/// A scheduler's fact as evidence.
fn fact(job: &JobStatus, role: EvidenceRole) -> Evidence {
    let mut text = format!("job {}: {}", job.id, job.state.word());
    if let Some(exit) = job.exit {
        text.push_str(&format!(", exit {exit}"));
    }
    if let Some(derived) = job
        .derived_exit
        .filter(|d| d.failed() && Some(*d) != job.exit)
    {
        text.push_str(&format!(", highest step exit {derived}"));
    }
    if job.step_out_of_memory {
        text.push_str(", a step ended in OUT_OF_MEMORY");
    }
    if let Some(reason) = &job.reason {
        text.push_str(&format!(", reason {reason}"));
    }
    if let Some(who) = &job.cancelled_by {
        text.push_str(&format!(", cancelled by {}", somebody(who)));
    }
    Evidence {
        signature: "scheduler".to_owned(),
        role,
        file: String::new(),
        line: 0,
        offset: 0,
        text: super::clean::clip(&super::clean::sanitize(text.as_bytes())),
    }
}

/// What the scheduler alone would say.
enum Says {
    /// Nothing that explains an end.
    Nothing,
    /// The job ended in success.
    Success,
    /// This kind, however heavy.
    Kind(&'static str, u8),
    /// A kill without a sender.
    Kill,
    /// A folder of its logs was missing.
    NoLogFolder,
}

fn says(job: &JobStatus) -> Says {
    let any =
        |test: fn(ExitStatus) -> bool| [job.exit, job.derived_exit].into_iter().flatten().any(test);
    if job.state == JobState::OutOfMemory
        || job.step_out_of_memory
        || any(|e| e.signal == SLURM_OOM_SIGNAL)
    {
        return Says::Kind("host_oom", weight::SPECIFIC);
    }
    match job.state {
        JobState::Completed => Says::Success,
        JobState::Timeout | JobState::Deadline => Says::Kind("time_limit", weight::SCHEDULER + 1),
        JobState::NodeFail | JobState::BootFail => Says::Kind("node_failure", weight::SPECIFIC + 1),
        JobState::Preempted => Says::Kind("preempted", weight::SPECIFIC + 1),
        JobState::Cancelled => Says::Kind("cancelled", weight::SCHEDULER),
        JobState::Failed if any(|e| e.signal == SLURM_NO_LOG_SIGNAL) => Says::NoLogFolder,
        JobState::Failed if any(|e| e.signal == 9 || matches!(e.code, 137 | 9)) => Says::Kill,
        JobState::Failed => Says::Kind("other", weight::CONSEQUENCE),
        _ => Says::Nothing,
    }
}

/// Slurm's own "signal" for a host OOM (`0:125`).
const SLURM_OOM_SIGNAL: i32 = 125;
/// Slurm's own "signal" for a log or working directory that is missing (`0:53`).
const SLURM_NO_LOG_SIGNAL: i32 = 53;

/// Adds the scheduler's word to an incident, or lets it have the last one.
pub(super) fn join(
    incident: &mut Incident,
    root: Option<&LogEvent>,
    findings: &Findings<'_>,
    job: &JobStatus,
) {
    let text_weight = root.map_or(0, |e| e.signature.weight);
    match says(job) {
        Says::Nothing => {}
        Says::Success => join_success(incident, root, findings, job),
        Says::Kill if text_weight < weight::KILLED => {
            replace(incident, "host_oom", findings, job);
            incident.is_host_oom = Tri::Ambiguous;
            incident.notes.push(
                "killed by SIGKILL, and nothing names the sender: the kernel's OOM killer is the usual one".to_owned(),
            );
        }
        Says::NoLogFolder if text_weight == 0 => {
            replace(incident, "config", findings, job);
            incident.notes.push(
                "Slurm could not open the log files or the working directory (exit 0:53): the folder is missing or cannot be written".to_owned(),
            );
        }
        Says::Kind(name, heavy) if text_weight < heavy => {
            let same = incident.kind == name;
            // A plain FAILED confirms what the text says, even where the text thought it survived.
            if matches!(name, "other" | "cancelled") && promoted(incident) {
                incident.fatal = true;
                witness(incident, job);
            } else if same {
                confirm(incident, name, job);
            } else {
                replace(incident, name, findings, job);
            }
        }
        Says::Kind(name, _) => confirm(incident, name, job),
        Says::Kill | Says::NoLogFolder => {
            witness(incident, job);
        }
    }
}

/// A memory failure that the text took for survived.
fn promoted(incident: &Incident) -> bool {
    !incident.fatal && incident.class != Class::NotOom
}

/// The text's root stands; the scheduler's fact stands beside it.
fn confirm(incident: &mut Incident, name: &str, job: &JobStatus) {
    witness(incident, job);
    if name == "host_oom" && incident.class == Class::HostOom {
        incident.is_host_oom = Tri::True;
    } else if name == "host_oom" {
        incident.notes.push(
            "Slurm reports that host memory ran out as well; the first failure in the log comes before it".to_owned(),
        );
    }
}

/// Share of its host memory below which a job was not killed for lack of it.
const HALF: f64 = 0.5;

/// A bare kill beside host memory of which little was used was somebody's.
pub(super) fn weigh_kill(incident: &mut Incident, share: f64) {
    if share >= HALF || incident.says_what_helps() {
        return;
    }
    let killed = blank("killed");
    incident.kind = killed.kind;
    incident.class = killed.class;
    incident.is_host_oom = killed.is_host_oom;
    incident.retryable_unchanged = killed.retryable_unchanged;
    let used = format!(
        "host memory was {:.0}% full at the peak that accounting saw",
        share * 100.0
    );
    incident.notes.push(used);
}

/// The scheduler knows better: what the text said becomes a consequence.
fn replace(incident: &mut Incident, name: &str, findings: &Findings<'_>, job: &JobStatus) {
    let mut new = blank(name);
    let (kept, demoted): (Vec<_>, Vec<_>) = incident
        .evidence
        .drain(..)
        .partition(|e| matches!(e.role, EvidenceRole::Survived | EvidenceRole::Advice));
    new.evidence.push(fact(job, EvidenceRole::Root));
    new.evidence.extend(kept);
    new.consequences = demoted
        .into_iter()
        .map(|e| Evidence {
            role: EvidenceRole::Consequence,
            ..e
        })
        .chain(incident.consequences.drain(..))
        .take(CONSEQUENCES)
        .collect();
    new.notes.append(&mut incident.notes);
    if job.state == JobState::Cancelled {
        new.retryable_unchanged = None;
    }
    steps(&mut new, findings);
    *incident = new;
}

/// What is said of a job whose script may hide that its program failed.
pub const HIDDEN_EXIT: &str = "the job ended as COMPLETED although its log shows a failure: if its script hides the exit code, `set -eo pipefail` at its head shows it, but not behind `if` or `!`, nor before `&` or `||`";

/// Bash's own line of a command that a signal ended: `slurm_script: line 5:  1125 Segmentation fault      python3 train.py`.
static KILLED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r": line [0-9]+: +[0-9]+ [A-Z][a-z]+").expect("a constant, used by a test")
});

/// `COMPLETED 0:0` with a failure in the text: either it was survived, or the script swallowed the exit
/// code (a pipe into `tee`). Only a failure after which processes ended counts, or one near the end of the log: a traceback,
/// or any where a step of the job failed, or Hydra says that its program raised. An exception that no signature knows counts where the log shows no step, or ends with it.
fn join_success(
    incident: &mut Incident,
    root: Option<&LogEvent>,
    findings: &Findings<'_>,
    job: &JobStatus,
) {
    const LAST_LINES: u64 = 40;
    const LAST_WORDS: u64 = 3;
    let step_failed = job.derived_exit.is_some_and(ExitStatus::failed);
    let swallowed = root.filter(|e| {
        let behind = findings.lines[e.source].saturating_sub(e.line);
        let is_last = e.in_traceback && (behind <= LAST_WORDS || incident.step.is_none());
        let killed = e.texts.first().is_some_and(|text| KILLED.is_match(text));
        let heavy = killed || is_last || e.signature.weight >= weight::NAMED;
        let serious =
            (e.is_cause() && heavy || behind <= LAST_LINES && raised(findings, e)) && !e.rerun;
        let dead = e.dead || killed;
        serious && (dead || behind <= LAST_LINES && (e.in_traceback || step_failed))
    });
    if swallowed.is_some() {
        witness(incident, job);
        incident.notes.push(HIDDEN_EXIT.to_owned());
        return;
    }
    let survived = incident.evidence.drain(..).map(|e| Evidence {
        role: match e.role {
            EvidenceRole::Advice => EvidenceRole::Advice,
            _ => EvidenceRole::Survived,
        },
        ..e
    });
    let mut clean = blank("no_failure");
    clean.fatal = false;
    clean.first_step = incident.first_step.filter(|first| !first);
    clean.evidence = survived.collect();
    clean.evidence.push(fact(job, EvidenceRole::Confirmation));
    *incident = clean;
}

/// Whether the main function of a Hydra program raised behind an event.
fn raised(findings: &Findings<'_>, event: &LogEvent) -> bool {
    let ends = |e: &LogEvent| e.signature.id == "hydra_error" && e.source == event.source;
    findings.events().any(|e| ends(e) && e.order > event.order)
}
