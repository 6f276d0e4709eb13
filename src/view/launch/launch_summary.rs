//! What came of a program in the end, as text and as JSON.

use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::launch_view::{is_success, lines, seconds};
use super::style::{BAD, NAME, Paint, WARN};
use crate::core::engine::{Attempt, Outcome};
use crate::core::exit::Exit;
use crate::core::ladder::{Skipped, Step};
use crate::core::measure::Figure;
use crate::drive::launch::{Launched, ProgramResult};
use oomctl_base::job::{ExitStatus, GpuUsed};
use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;

/// What came of a program.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Summary {
    /// The run that tells more; none where none was begun.
    run: Option<String>,
    /// How it ended.
    outcome: ProgramOutcome,
    /// The program's exit code, as a shell gives it.
    pub exit_code: Exit,
    /// Its attempts.
    attempts: Vec<ProgramAttempt>,
}

/// How it went on to the end.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ProgramOutcome {
    /// The program ended in success.
    Succeeded,
    /// It failed, and not of memory.
    Failed,
    /// It died of memory, and nothing is left to try.
    Exhausted {
        /// Every rung with its reason.
        skipped: Vec<Skipped>,
    },
    /// Somebody ended it.
    Signalled,
    /// The program could not be started.
    NotStarted {
        /// Why.
        why: String,
    },
    /// No GPU was to be had, and the CPU is not allowed.
    NoGpu {
        /// Why.
        why: String,
    },
}

/// One attempt.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ProgramAttempt {
    number: u32,
    command: Vec<String>,
    gpu: Option<MeasuredGpu>,
    started: Option<Timestamp>,
    seconds: f64,
    exit: ExitStatus,
    /// Why it failed; none where it did not.
    incident: Option<Incident>,
    /// Figures of memory that it printed.
    figures: Vec<Figure>,
    /// Rungs that were taken after it.
    rungs: Vec<Step>,
}

/// The GPU that an attempt had, and how full it was.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct MeasuredGpu {
    #[serde(flatten)]
    gpu: GpuUsed,
    /// Most bytes in use at any look, everybody's.
    peak_bytes: Option<Bytes>,
    /// Most bytes of the program's own processes, where the driver tells.
    own_peak_bytes: Option<Bytes>,
}

impl Summary {
    /// What came of a program whose attempts had these commands.
    pub fn new(launched: &Launched, commands: Vec<Vec<String>>) -> Self {
        let attempts = launched.history.attempts.iter().zip(commands);
        let started = attempts.filter_map(|(a, command)| ProgramAttempt::new(a, command));
        Self {
            run: Some(launched.history.run.clone()).filter(|run| !run.is_empty()),
            outcome: outcome(launched),
            exit_code: launched.result.exit(),
            attempts: started.collect(),
        }
    }
}

impl ProgramAttempt {
    /// None of an attempt that was not started.
    fn new(attempt: &Attempt, command: Vec<String>) -> Option<Self> {
        let status = attempt.status.as_ref()?;
        let (exit, measured) = (status.exit.unwrap_or_default(), &attempt.measured);
        let gpu = status.machine.as_ref().and_then(|m| m.gpu.clone());
        let incident = attempt.incident.clone();
        Some(Self {
            number: attempt.number,
            command,
            gpu: gpu.map(|gpu| MeasuredGpu {
                peak_bytes: measured.fullest().map(|g| g.peak_bytes),
                own_peak_bytes: measured.fullest().and_then(|g| g.own_peak_bytes),
                gpu,
            }),
            started: status.started,
            seconds: (seconds(status).as_secs_f64() * 1e3).round() / 1e3,
            exit,
            incident: incident.filter(|_| !is_success(exit)),
            figures: measured.figures.clone(),
            rungs: attempt.steps().to_vec(),
        })
    }
}

fn outcome(launched: &Launched) -> ProgramOutcome {
    match (&launched.result, &launched.history.outcome) {
        (ProgramResult::NotStarted(why), _) => ProgramOutcome::NotStarted {
            why: why.to_string(),
        },
        (ProgramResult::NoGpu { why, .. }, _) => ProgramOutcome::NoGpu { why: why.clone() },
        (ProgramResult::Signalled(_), _) | (_, Some(Outcome::Cancelled { .. })) => {
            ProgramOutcome::Signalled
        }
        (_, Some(Outcome::Succeeded)) => ProgramOutcome::Succeeded,
        (_, Some(Outcome::Exhausted { skipped, .. } | Outcome::Failed { skipped, .. }))
            if !skipped.is_empty() =>
        {
            ProgramOutcome::Exhausted {
                skipped: skipped.clone(),
            }
        }
        _ => ProgramOutcome::Failed,
    }
}

/// What came of one program, as a document.
#[derive(Serialize, JsonSchema)]
pub struct LaunchView<'a> {
    schema_version: u32,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl<'a> LaunchView<'a> {
    /// The view of a summary.
    pub fn new(summary: &'a Summary) -> Self {
        Self {
            schema_version: 1,
            summary,
        }
    }
}

/// Says what was not told yet: why nothing is left to try, and what the program may have refused.
pub fn close(summary: &Summary) {
    match &summary.outcome {
        ProgramOutcome::Exhausted { skipped } => {
            let mut text = format!("{} nothing left to try", Paint(BAD, "out of memory:"));
            for rung in skipped.iter().filter(|s| !s.is_for_another_failure()) {
                let name = Paint(NAME, &rung.rung);
                let _ = write!(text, "\n           {name}: {}", rung.reason);
            }
            super::print::talk(&lines(&text));
        }
        ProgramOutcome::Failed => {
            let added = added(summary);
            if !added.is_empty() {
                let text = format!(
                    "{} oomctl added {} to the command. If the program refuses it, give its name with `--knob accum=NAME`, \
                     or `--knob accum=` if it has none",
                    Paint(WARN, "hint:"),
                    added.join(" ")
                );
                super::print::talk(&lines(&text));
            }
        }
        ProgramOutcome::NoGpu { .. } => {
            let text = format!(
                "{} the program did not run. `oomctl gpus` shows the GPUs and who holds them; --wait waits longer, \
                 --allow-cpu runs without a GPU; on a login node use srun or sbatch",
                Paint(WARN, "hint:")
            );
            super::print::talk(&lines(&text));
        }
        _ => {}
    }
}

/// Words that the last attempt had more than the first.
fn added(summary: &Summary) -> Vec<String> {
    let (Some(first), Some(last)) = (summary.attempts.first(), summary.attempts.last()) else {
        return Vec::new();
    };
    let before = first.command.len();
    last.command.iter().skip(before).cloned().collect()
}
