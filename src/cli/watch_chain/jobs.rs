//! The watch jobs of a run: what each is, when it may start, and which turn was begun.

use crate::core::engine::{History, NextLook, WatchTurn, next_look};
use std::path::Path;
use std::time::Duration;

use crate::core::render::shell_word;
use crate::core::request::Request;
use crate::drive::{DriveError, RunFolder};
use crate::io::files::{Access, read_text, write_atomic};
use crate::io::scheduler::slurm::{Slurm, WatchJob, WatchStart};
use crate::io::scheduler::{Scheduler, SubmitAnswer};
use crate::view::{CommandFailure, print};
use oomctl_base::Value;
use oomctl_base::job::{JobId, JobRef};

/// Seconds after which a run is looked at again that waits for no job of its own.
const LATER_S: u32 = 300;
/// How often a turn that fails goes back into the queue.
const MOST_RESTARTS: u32 = 10;
/// How often that is tried, and how long apart, within the time of a watch job.
const REQUEUE_TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(30);

/// Lets a waiting watch job start when there is something to look at; none is needed for a run that is over.
pub fn aim(job: &JobId, history: &History) {
    let (after, in_s) = match next_look(history) {
        NextLook::Never => return dismiss(job),
        NextLook::After(watched) => (Some(watched.id), 0),
        NextLook::Later => (None, LATER_S),
    };
    set_start(job, &WatchStart { after, in_s });
}

/// Lets a waiting watch job start some time later.
pub fn put_off(job: &JobId, in_s: u32) {
    set_start(job, &WatchStart { after: None, in_s });
}

fn set_start(job: &JobId, start: &WatchStart) {
    if let Err(error) = Slurm::new().aim_watch(job, start) {
        print::talk(&format!(
            "{error}; watch job {job} keeps its first start time"
        ));
    }
}

/// Takes a waiting watch job out of the queue.
pub fn dismiss(job: &JobId) {
    let job = JobRef::foreign(&job.0, jiff::Timestamp::now());
    // It would find the run over and end by itself.
    let _ = Slurm::new().cancel(&job);
}

/// Puts the job of this turn back into the queue. False where that cannot be, or was done too often.
pub fn come_again(job: &JobId) -> bool {
    let restarts = std::env::var("SLURM_RESTART_COUNT").ok();
    let restarts: u32 = restarts.and_then(|n| n.parse().ok()).unwrap_or(0);
    if job.0.is_empty() || restarts >= MOST_RESTARTS {
        return false;
    }
    (0..REQUEUE_TRIES).any(|tried| {
        if tried > 0 {
            std::thread::sleep(PAUSE);
        }
        Slurm::new().requeue_watch(job).is_ok()
    })
}

/// The last turn that was begun.
pub fn begun(folder: &RunFolder) -> Option<WatchTurn> {
    let text = read_text(&folder.turn(), 4_096).ok()?;
    serde_json::from_str(&text).ok()
}

/// Notes that a turn has begun.
pub fn note(folder: &RunFolder, turn: &WatchTurn) -> Result<(), CommandFailure> {
    let text = serde_json::to_string(turn)
        .map_err(|e| CommandFailure::ledger(format!("{}: {e}", folder.turn().display())))?;
    let written = write_atomic(&folder.turn(), text.as_bytes(), Access::Private);
    Ok(written.map_err(DriveError::from)?)
}

/// Notes, before any turn was begun, which watch job takes the first where nobody else does.
pub fn stands_ready(folder: &RunFolder, job: &JobId) -> Result<(), CommandFailure> {
    let before = WatchTurn {
        number: 0,
        job: JobId(String::new()),
        done: false,
        ready: Some(job.clone()),
    };
    note(folder, &before)
}

/// Puts a watch job into the queue.
pub fn send(job: &WatchJob, start: &WatchStart) -> Result<JobId, String> {
    match Slurm::new().send_watch(job, start) {
        SubmitAnswer::Accepted { id, .. } => Ok(id),
        SubmitAnswer::Refused { reason, .. } => Err(reason),
        SubmitAnswer::Unclear { detail } => Err(detail),
        SubmitAnswer::NotYet { .. } | SubmitAnswer::Withdrawn { .. } => Err("not queued".into()),
    }
}

/// The job that takes a turn, sent after so many in a row that came to nothing.
pub fn watch_job(
    request: &Request,
    folder: &RunFolder,
    number: u32,
    in_vain: u32,
    config: Option<&Path>,
) -> Result<WatchJob, CommandFailure> {
    let inputs = request.inputs();
    let program = std::env::current_exe().map_err(|e| {
        CommandFailure::configuration(format!("cannot find oomctl's own path: {e}"))
    })?;
    let mut words = vec![
        program.display().to_string(),
        "watch".into(),
        inputs.run.clone(),
    ];
    words.extend(["--turn".to_owned(), number.to_string()]);
    if in_vain > 0 {
        words.extend(["--in-vain".to_owned(), in_vain.to_string()]);
    }
    if let Some(config) = config {
        words.extend(["--config".to_owned(), config.display().to_string()]);
    }
    let options = match request.recipe(&[])?.value("watch_options") {
        Value::List(options) => options.clone(),
        _ => Vec::new(),
    };
    let words: Result<Vec<String>, _> = words.iter().map(|word| shell_word(word)).collect();
    let words = words.map_err(|e| CommandFailure::configuration(e.to_string()))?;
    Ok(WatchJob {
        name: format!("oomctl-watch-{}", inputs.run),
        command: format!("exec {}", words.join(" ")),
        log: folder.watch_log(),
        workdir: inputs.project.clone().into(),
        options,
    })
}
