//! Doing one thing that is due, and what came of it.

use jiff::Timestamp;
use regex::Regex;

use super::DriveError;
use super::folder::RunFolder;
use super::prepare::sha256;
use crate::core::engine::{Attempt, AttemptEvent, Event, Run};
use crate::io::files::{Access, read_bounded, write_atomic};
use crate::io::ledger::Ledger;
use crate::io::scheduler::{JobSubmission, Scheduler, SubmitAnswer};
use oomctl_base::job::Token;

/// Largest entry script, in bytes. Slurm's own limit is 4 MiB (`max_script_size` in slurm.conf(5)).
pub(super) const SCRIPT_MAX: u64 = 4 * 1024 * 1024;
/// What may look like a token in a script and is none, at most.
const TOKENS: usize = 16;

/// Submits an attempt. The last thing before the scheduler is asked is to look whether the run is
/// still ours.
///
/// # Errors
/// When the run was taken over, a secret is missing, or the script is not the one that was intended.
pub fn submit(
    run: &Run,
    folder: &RunFolder,
    ledger: &Ledger,
    scheduler: &mut dyn Scheduler,
    now: Timestamp,
) -> Result<Event, DriveError> {
    let Some((attempt, token)) = run
        .history
        .attempt()
        .and_then(|a| a.token.clone().map(|t| (a, t)))
    else {
        return Ok(Event::Tick);
    };
    let submission = submission(run, folder, attempt, token)?;
    ledger.still_ours()?;
    let answer = scheduler.submit(&submission, now);
    Ok(answered(attempt.number, answer, now))
}

/// What the scheduler's answer means for an attempt.
pub(super) fn answered(attempt: u32, answer: SubmitAnswer, now: Timestamp) -> Event {
    let event = match answer {
        SubmitAnswer::NotYet { pause } => {
            AttemptEvent::NotYet(now.saturating_add(pause).unwrap_or(now))
        }
        SubmitAnswer::Withdrawn { by } => return Event::CancelAsked { by },
        SubmitAnswer::Accepted { id, cluster } => AttemptEvent::Accepted { id, cluster },
        SubmitAnswer::Refused {
            reason,
            hint,
            passing,
        } => AttemptEvent::Refused {
            reason,
            hint,
            passing,
        },
        SubmitAnswer::Unclear { detail } => AttemptEvent::Unclear(detail),
    };
    Event::Attempt(attempt, event)
}

/// Has the attempt before this one only said itself that it is over? Whoever submits what follows it, this process or one
/// that took the run over, then has it wait for the job's true end, so that two never run side by side.
fn after_the_last(run: &Run, attempt: &Attempt) -> Option<String> {
    let mut before = run.history.attempts.iter();
    let before = before.rfind(|a| a.number < attempt.number)?;
    let told = before.status.as_ref().filter(|s| s.self_reported)?;
    Some(format!("--dependency=afterany:{}", told.id))
}

/// What is handed to the scheduler for an attempt whose files are written.
pub(super) fn submission(
    run: &Run,
    folder: &RunFolder,
    attempt: &Attempt,
    token: Token,
) -> Result<JobSubmission, DriveError> {
    let script = folder.attempt(attempt.number).join(&attempt.script);
    let text = read_bounded(&script, SCRIPT_MAX)?;
    if sha256(&text) != attempt.script_sha256 {
        match intended(&text, attempt, &token) {
            // A process that was replaced while it prepared the same attempt wrote its own over ours.
            Some(ours) => write_atomic(&script, ours.as_bytes(), Access::PrivateScript)?,
            None => return Err(DriveError::ScriptChanged { path: script }),
        }
    }
    let rungs = run.history.rungs();
    let limit = run.request.resources(&rungs);
    let handed = run
        .request
        .handed(&rungs, &folder.attempt(attempt.number).to_string_lossy())
        .map_err(|refusal| DriveError::unreadable(script.clone(), refusal))?;
    let mut environment = environment(folder)?;
    let mut gpu = handed.gpu;
    if let Some(wish) = &mut gpu {
        wish.need = wish.need.max(run.history.needed().unwrap_or_default());
        let number = attempt.number.to_string();
        environment.insert("OOMCTL_ATTEMPT".to_owned(), number);
    }
    environment.extend(handed.variables);
    let mut options = handed.options;
    options.extend(after_the_last(run, attempt));
    Ok(JobSubmission {
        script,
        token,
        workdir: run.request.workdir().to_owned(),
        stdout: folder.stdout(attempt.number),
        stderr: match handed.one_log {
            true => folder.stdout(attempt.number),
            false => folder.stderr(attempt.number),
        },
        environment,
        options,
        arguments: handed.arguments,
        export: handed.export,
        time_limit_s: limit.ok().and_then(|r| r.time_limit_s),
        tasks: None,
        gpu,
    })
}

/// The script that was intended, where this one differs from it by the token that another process drew for the same
/// attempt. One of the two may have been that of a task of a job array, which is longer and of another name.
pub(super) fn intended(text: &[u8], attempt: &Attempt, token: &Token) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let number = attempt.number;
    let tokens = format!(r"oomctl-[A-Za-z0-9._-]+?-{number}-[0-9a-f]{{8}}(?:_[0-9]+)?");
    let tokens = Regex::new(&tokens).ok()?;
    let other = tokens.find_iter(text).take(TOKENS).map(|t| t.as_str());
    other
        .map(|other| text.replace(other, &token.0))
        .find(|ours| sha256(ours.as_bytes()) == attempt.script_sha256)
}

/// The environment of a job: what was written down, and the secrets from our own environment.
///
/// # Errors
/// Names every secret that is not set.
pub fn environment(
    folder: &RunFolder,
) -> Result<std::collections::BTreeMap<String, String>, DriveError> {
    let mut environment = folder.environment()?;
    let mut missing = Vec::new();
    for name in environment.secrets {
        match std::env::var(&name) {
            Ok(value) => {
                environment.variables.insert(name, value);
            }
            Err(_) => missing.push(name),
        }
    }
    if missing.is_empty() {
        Ok(environment.variables)
    } else {
        Err(DriveError::MissingSecrets { names: missing })
    }
}
