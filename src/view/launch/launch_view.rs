//! What is told of a program while `run` looks after it.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::explanation::explained;
use super::figures::{clock, in_gib, of_gib};
use super::lines::{bugs, rungs};
use super::style::{BAD, DIM, GOOD, Paint, WARN};
use crate::core::engine::{Fact, Verdict};
use crate::core::ladder::Step;
use crate::core::measure::{Measured, Quantity};
use crate::core::render::shell_word;
use crate::drive::launch::{LaunchListener, LaunchNews};
use crate::drive::{Notice, Observer};
use crate::io::program::Outputs;
use oomctl_base::job::{ExitStatus, GpuUsed, JobStatus};
use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;

/// Tells on standard error, each line with our name in front: the program's own output is there too.
pub struct Teller {
    bar: ProgressBar,
    /// When it was last told off a terminal that a GPU is waited for.
    waited: Option<Duration>,
    /// How the present attempt ended, as far as that is a fact.
    end: EndedAttempt,
}

/// How often it is told off a terminal that a GPU is waited for.
const WAIT_TOLD: Duration = Duration::from_secs(300);

impl Teller {
    /// A teller, after remarks that were made before anything was run.
    pub fn new(remarks: &[String]) -> Self {
        let mut teller = Self {
            bar: ProgressBar::hidden(),
            waited: None,
            end: EndedAttempt::default(),
        };
        for remark in remarks {
            teller.news(&LaunchNews::Remark(remark));
        }
        teller
    }

    fn say(&mut self, text: &str) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
        super::print::talk(&lines(text));
    }

    fn climbing(&mut self, steps: &[Step]) {
        self.say(&rungs(steps).join("\n"));
    }

    /// Tells how an attempt ended once it is decided what follows.
    fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Ended { status, .. } => self.end.status.clone_from(status),
            Fact::Measured { measured, .. } => self.end.measured.clone_from(measured),
            Fact::Diagnosed { incident, .. } => self.end.incident = Some((**incident).clone()),
            Fact::Decided { attempt, verdict } => {
                let end = std::mem::take(&mut self.end);
                if let Some(text) = end.text(*attempt) {
                    self.say(&text);
                }
                if let Verdict::Climb { steps, .. } = &**verdict {
                    self.climbing(steps);
                }
            }
            _ => {}
        }
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
        self.bar.set_message(format!("oomctl: {text}"));
    }
}

impl LaunchListener for Teller {
    fn news(&mut self, news: &LaunchNews<'_>) {
        match news {
            LaunchNews::Remark(text) => self.say(&format!("{} {text}", Paint(WARN, "note:"))),
            LaunchNews::Start(text) => self.say(text),
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
                self.end = EndedAttempt::default();
                let place = place(*gpu);
                let words = command
                    .iter()
                    .map(|w| shell_word(w).unwrap_or_else(|_| w.clone()));
                let command = words.collect::<Vec<_>>().join(" ");
                self.say(&format!("attempt {number}  {place}: {command}"));
            }
            LaunchNews::Climbing(steps) => self.climbing(steps),
            LaunchNews::Settling { held } => self.say(&format!(
                "           {}",
                Paint(DIM, &format!("waiting for the driver to free {held}"))
            )),
        }
    }
}

impl Observer for Teller {
    fn notice(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Fact { record, .. } => self.fact(&record.fact),
            Notice::Explained { explanation, .. } => self.say(&explained(explanation)),
            Notice::Trouble { what, .. } => self.say(&format!("{} {what}", Paint(WARN, "note:"))),
            Notice::SetAside { why, .. } => self.say(&format!(
                "{} {why}; what follows is not recorded, and the program is not run again",
                Paint(WARN, "note:")
            )),
            _ => {}
        }
    }
}

/// A text with our name before each of its lines.
pub fn lines(text: &str) -> String {
    let head = Paint(DIM, "oomctl:").to_string();
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

/// How an attempt ended, gathered from its facts.
#[derive(Default)]
struct EndedAttempt {
    status: Option<JobStatus>,
    measured: Measured,
    incident: Option<Incident>,
}

impl EndedAttempt {
    /// In lines. Those that prove it stand above: the program printed them.
    fn text(&self, number: u32) -> Option<String> {
        let status = self.status.as_ref()?;
        let exit = status.exit.unwrap_or_default();
        let incident = self.incident.as_ref().filter(|_| !is_success(exit));
        let memory = memory(&self.measured);
        let Some(incident) = incident else {
            let (done, took) = (Paint(GOOD, "done"), clock(seconds(status)));
            return Some(format!("attempt {number}  {done} after {took}{memory}"));
        };
        let how = match (exit.signal, exit.code) {
            (0, code) => format!("exit code {code}"),
            (signal, _) => format!("signal {signal}"),
        };
        let headline = incident.headline();
        let mut text = format!(
            "attempt {number}  {} ({how}){memory}",
            Paint(BAD, &headline)
        );
        for line in bugs(incident) {
            text.push_str(&format!("\n           {line}"));
        }
        Some(text)
    }
}

pub fn is_success(exit: ExitStatus) -> bool {
    exit == ExitStatus::default()
}

/// How long a program ran.
pub fn seconds(status: &JobStatus) -> Duration {
    let ran = status.started.zip(status.ended);
    let ran = ran.and_then(|(from, to)| Duration::try_from(to.duration_since(from)).ok());
    ran.unwrap_or_default()
}

/// The memory of an attempt: its peak by NVML, and what the program prints of itself.
fn memory(measured: &Measured) -> String {
    let mut parts = Vec::new();
    if let Some(gpu) = measured.fullest() {
        let peak = of_gib(gpu.peak_bytes.gib(), gpu.total_bytes.gib());
        parts.push(format!("peak {peak}"));
        if let Some(own) = gpu.own_peak_bytes {
            parts.push(format!("own {}", in_gib(own.gib())));
        }
    }
    for figure in &measured.figures {
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

/// The program's streams as ours. With `--json` standard output is for the document alone.
pub fn outputs(json: bool) -> Outputs {
    let out: Box<dyn Write + Send> = match json {
        true => Box::new(std::io::stderr()),
        false => Box::new(std::io::stdout()),
    };
    let err = Box::new(std::io::stderr());
    Outputs { out, err }
}
