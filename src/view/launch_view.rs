//! What is told of a program while `run` looks after it, and what came of it in the end.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::figures::{clock, in_gib, of_gib};
use super::lines::{bugs, rung};
use super::style::{BAD, DIM, GOOD, NAME, Paint, WARN};
use crate::core::exit::Exit;
use crate::core::measure::Quantity;
use crate::core::render::shell_word;
use crate::drive::launch::{
    GpuUsed, LaunchAttempt, LaunchListener, LaunchNews, LaunchOutcome, Summary,
};
use crate::io::program::Outputs;
use oomctl_base::units::Bytes;

/// Tells on standard error, each line with a name in front: the program's own output is there too.
pub struct Teller {
    name: String,
    bar: ProgressBar,
    /// When it was last told off a terminal that a GPU is waited for.
    waited: Option<Duration>,
}

/// How often it is told off a terminal that a GPU is waited for.
const WAIT_TOLD: Duration = Duration::from_secs(300);

impl Teller {
    /// A teller for a program; `number` is its place in a queue.
    pub fn new(number: Option<usize>) -> Self {
        Self {
            name: number.map_or_else(|| "oomctl".to_owned(), |n| format!("oomctl {n}")),
            bar: ProgressBar::hidden(),
            waited: None,
        }
    }

    /// The same, after remarks that were made before anything was run.
    pub fn telling(mut self, remarks: &[String]) -> Self {
        remarks
            .iter()
            .for_each(|r| self.news(&LaunchNews::Remark(r)));
        self
    }

    fn say(&mut self, text: &str) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
        super::print::talk(&lines(&self.name, text));
    }

    /// On a terminal a line that moves; elsewhere a line now and then.
    fn waiting(&mut self, need: Bytes, best: Bytes, waited: Duration, limit: Duration) {
        let text = format!(
            "waiting for a GPU with {need} available; the best has {best} ({} of {})",
            clock(waited),
            clock(limit)
        );
        if !std::io::stderr().is_terminal() {
            let due = self.waited.is_none_or(|last| waited >= last + WAIT_TOLD);
            if due || self.waited.is_some_and(|last| waited < last) {
                self.waited = Some(waited);
                self.say(&text);
            }
            return;
        }
        if self.bar.is_hidden() {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            self.bar = ProgressBar::new_spinner();
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar
                .set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            self.bar.enable_steady_tick(Duration::from_secs(1));
        }
        self.bar.set_message(format!("{}: {text}", self.name));
    }
}

impl LaunchListener for Teller {
    fn news(&mut self, news: &LaunchNews<'_>) {
        match news {
            LaunchNews::Remark(text) => self.say(&format!("{} {text}", Paint(WARN, "note:"))),
            LaunchNews::Waiting {
                need,
                best,
                waited,
                limit,
            } => self.waiting(*need, *best, *waited, *limit),
            LaunchNews::NoGpu { why } => self.say(&Paint(WARN, why).to_string()),
            LaunchNews::Started {
                number,
                command,
                gpu,
            } => {
                self.waited = None;
                let place = place(*gpu);
                let words = command
                    .iter()
                    .map(|w| shell_word(w).unwrap_or_else(|_| w.clone()));
                let command = words.collect::<Vec<_>>().join(" ");
                self.say(&format!("attempt {number}  {place}: {command}"));
            }
            LaunchNews::Ended(tried) => self.say(&ended(tried)),
            LaunchNews::Climbing(steps) => {
                let text: Vec<String> = steps.iter().map(rung).collect();
                self.say(&text.join("\n"));
            }
            LaunchNews::Settling { held } => self.say(&format!(
                "           {}",
                Paint(DIM, &format!("waiting for the driver to free {held}"))
            )),
        }
    }
}

/// A text with the name before each of its lines.
pub fn lines(name: &str, text: &str) -> String {
    let head = Paint(DIM, &format!("{name}:")).to_string();
    let named: Vec<String> = text.lines().map(|l| format!("{head} {l}")).collect();
    named.join("\n")
}

fn place(gpu: Option<&GpuUsed>) -> String {
    match gpu {
        None => "on the CPU".to_owned(),
        Some(gpu) => format!(
            "on GPU {} ({}, {} free of {})",
            gpu.index, gpu.name, gpu.free_bytes, gpu.total_bytes
        ),
    }
}

/// How an attempt ended. The lines that prove it stand above: the program printed them.
fn ended(tried: &LaunchAttempt) -> String {
    let number = tried.number;
    let Some(incident) = &tried.incident else {
        return format!(
            "attempt {number}  {} after {}{}",
            Paint(GOOD, "done"),
            clock(Duration::from_secs_f64(tried.seconds.max(0.0))),
            memory(tried)
        );
    };
    let how = match (tried.exit.signal, tried.exit.code) {
        (0, code) => format!("exit code {code}"),
        (signal, _) => format!("signal {signal}"),
    };
    let mut text = format!(
        "attempt {number}  {} ({how}){}",
        Paint(BAD, &incident.headline()),
        memory(tried)
    );
    for line in bugs(incident) {
        text.push_str(&format!("\n           {line}"));
    }
    text
}

/// The memory of an attempt: its peak by NVML, and what the program prints of itself.
fn memory(tried: &LaunchAttempt) -> String {
    let mut parts = Vec::new();
    if let Some(gpu) = &tried.gpu
        && let Some(peak) = gpu.peak_bytes
    {
        let peak = of_gib(peak.gib(), gpu.total_bytes.gib());
        parts.push(format!("peak {peak}"));
        if let Some(own) = gpu.own_peak_bytes {
            parts.push(format!("own {}", in_gib(own.gib())));
        }
    }
    for figure in &tried.figures {
        if figure.measure != Quantity::HostUsed {
            let (bytes, what) = (figure.peak_bytes.gib(), figure.measure.describe());
            parts.push(format!("{} {what}", in_gib(bytes)));
        }
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(", {}", parts.join(", ")),
    }
}

/// What came of one program.
#[derive(Serialize)]
pub struct LaunchView {
    schema_version: u32,
    #[serde(flatten)]
    summary: Summary,
}

impl LaunchView {
    /// The view of a program that could not be started.
    pub fn not_started(why: String, exit: Exit) -> Self {
        Self::new(Summary {
            outcome: LaunchOutcome::NotStarted { why },
            exit_code: exit.code(),
            attempts: Vec::new(),
        })
    }

    /// The view of a summary.
    pub fn new(summary: Summary) -> Self {
        Self {
            schema_version: 1,
            summary,
        }
    }
}

/// Says what a summary says that was not told yet: why nothing is left to try, and what the program may have
/// refused.
pub fn close(summary: &Summary) {
    match &summary.outcome {
        LaunchOutcome::Exhausted { skipped } => {
            let mut text = format!("{} nothing left to try", Paint(BAD, "out of memory:"));
            for rung in skipped {
                let name = Paint(NAME, &rung.rung);
                let _ = write!(text, "\n           {name}: {}", rung.reason);
            }
            super::print::talk(&lines("oomctl", &text));
        }
        LaunchOutcome::Failed => {
            let added = added(summary);
            if !added.is_empty() {
                let text = format!(
                    "{} oomctl added {} to the command. If the program refuses it, give its name with `--knob accum=NAME`, or `--knob accum=` if it has none",
                    Paint(WARN, "hint:"),
                    added.join(" ")
                );
                super::print::talk(&lines("oomctl", &text));
            }
        }
        LaunchOutcome::NoGpu { .. } => {
            let text = format!(
                "{} the program did not run. `oomctl gpus` shows the GPUs and who holds them; --wait waits longer, --allow-cpu runs without a GPU; on a login node use srun or sbatch",
                Paint(WARN, "hint:")
            );
            super::print::talk(&lines("oomctl", &text));
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

/// The program's streams as ours. With `--json` standard output is for the document alone.
pub fn outputs(json: bool) -> Outputs {
    let out: Box<dyn Write + Send> = match json {
        true => Box::new(std::io::stderr()),
        false => Box::new(std::io::stdout()),
    };
    let err = Box::new(std::io::stderr());
    Outputs { out, err }
}
