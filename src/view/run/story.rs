//! The story of runs while they are watched: a line for what happened, a status line below on a
//! terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::explanation::explained;
use super::kept::LastLines;
use super::lines::{ahead, dependent, died, hangs, is_news, remarks, rungs, steered, taken_back};
use super::outcome::{expectation, job_reason, reason, word};
use super::run_view::total;
use super::same_figures::LastFigures;
use super::style::{BAD, DIM, GOOD, NAME, Paint, WARN};
use super::{measured, waiting};
use crate::core::engine::{Fact, LogLook, Outcome, Record, Verdict};
use crate::core::measure::Measured;
use crate::drive::{Notice, Observer};
use oomctl_base::job::{JobState, JobStatus, Stage};
use oomctl_diagnose::{Class, Progress, sanitize};

/// Runs whose state stands in the last line.
const SHOWN: usize = 8;

/// Tells the story on standard error.
pub struct Story {
    /// Only trouble is told.
    quiet: bool,
    /// More than one run: each line names its run.
    several: bool,
    /// Lines that are told later; none where they are told at once.
    kept: Option<LastLines>,
    bar: ProgressBar,
    status: BTreeMap<String, String>,
    /// How far the present attempt of each run has come.
    steps: BTreeMap<String, String>,
    /// States told, each once for every start of a job: reasons to wait can change with every poll.
    stated: BTreeMap<String, BTreeSet<(u32, u32, String)>>,
    /// Last progress told off a terminal, in tenths.
    told: BTreeMap<String, u64>,
    figures: LastFigures,
    /// A summary follows, which says why a run ended.
    is_summed: bool,
}

impl Story {
    /// A story of one or several runs.
    pub fn new(several: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(120));
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self::with(several, bar)
    }

    /// A story of which only trouble is told.
    pub fn quiet() -> Self {
        Self {
            quiet: true,
            ..Self::with(false, ProgressBar::hidden())
        }
    }

    /// A story whose lines are kept until they are released.
    pub fn kept(several: bool) -> Self {
        Self {
            kept: Some(LastLines::default()),
            ..Self::with(several, ProgressBar::hidden())
        }
    }

    fn with(several: bool, bar: ProgressBar) -> Self {
        Self {
            quiet: false,
            several,
            kept: None,
            bar,
            status: BTreeMap::new(),
            steps: BTreeMap::new(),
            stated: BTreeMap::new(),
            told: BTreeMap::new(),
            figures: LastFigures::default(),
            is_summed: false,
        }
    }

    /// The same, behind which the summary of its one run follows.
    pub fn summed(self) -> Self {
        Self {
            is_summed: !self.several,
            ..self
        }
    }

    /// Tells what was kept; from now on lines are told at once.
    pub fn release(&mut self) {
        if let Some(kept) = self.kept.take() {
            kept.tell();
        }
    }

    /// Takes the status line away.
    pub fn close(&mut self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    fn say(&mut self, run: &str, text: &str) {
        if self.quiet {
            return;
        }
        self.line(run, text);
    }

    fn line(&mut self, run: &str, text: &str) {
        let head = if self.several && !run.is_empty() {
            format!("{}  ", Paint(NAME, run))
        } else {
            String::new()
        };
        let text: Vec<String> = text.lines().map(|l| format!("{head}{l}")).collect();
        let text = text.join("\n");
        match &mut self.kept {
            None => self.bar.suspend(|| crate::view::print::talk(&text)),
            Some(kept) => kept.push(text),
        }
    }

    fn show(&mut self, run: &str, status: String) {
        self.status.insert(run.to_owned(), status);
        self.refresh();
    }

    fn refresh(&self) {
        if self.bar.is_hidden() {
            return;
        }
        let line = |(run, status): (&String, &String)| match self.steps.get(run) {
            Some(step) => format!("{run}: {}, {step}", status.trim_end()),
            None => format!("{run}: {}", status.trim_end()),
        };
        let mut lines: Vec<String> = self.status.iter().take(SHOWN).map(line).collect();
        match self.status.len() - lines.len() {
            0 => {}
            more => lines.push(format!("and {more} more")),
        }
        self.bar.set_message(lines.join("   "));
    }

    fn fact(&mut self, run: &str, record: &Record) {
        match &record.fact {
            Fact::Submitted {
                attempt,
                job,
                adopted,
            } => {
                let how = if *adopted {
                    " (found again by its token)"
                } else {
                    ""
                };
                self.steps.remove(run);
                self.told.remove(run);
                let text = format!("attempt {attempt}  submitted as job {}{how}", job.id);
                self.say(run, &text);
            }
            Fact::SubmitUnclear { attempt, detail } => {
                let text = format!(
                    "attempt {attempt}  {} {detail}; looking for the job by its token",
                    Paint(WARN, "unclear:")
                );
                self.line(run, &text);
            }
            Fact::StateSeen { attempt, status } => self.state(run, *attempt, status),
            Fact::Restarted {
                attempt, restarts, ..
            } => {
                let text = format!("attempt {attempt}  restarted by the scheduler ({restarts})");
                self.say(run, &text);
            }
            Fact::Stalled {
                attempt,
                quiet_s,
                saved_gpu_seconds,
            } => self.say(run, &hangs(*attempt, *quiet_s, *saved_gpu_seconds)),
            Fact::Idle { attempt, idle_s } => {
                let text = format!(
                    "attempt {attempt}  {} no progress for {idle_s} s; set `supervision: stall_cancel` to cancel such a job",
                    Paint(WARN, "idle:")
                );
                self.say(run, &text);
            }
            Fact::Foreseen { attempt, foreseen } => self.say(run, &ahead(*attempt, foreseen)),
            Fact::Linked { attempt, link } => {
                let (name, url) = (link.tracker.name(), &link.url);
                self.say(run, &format!("attempt {attempt}  {name} {url}"));
            }
            Fact::Measured { attempt, measured } => self.measured(run, *attempt, measured),
            Fact::Diagnosed {
                attempt, incident, ..
            } if is_news(incident) => {
                self.say(run, &died(*attempt, incident));
                for note in remarks(incident).chain(self.figures.died(run, *attempt, incident)) {
                    self.say(run, &format!("           {}", Paint(WARN, &note)));
                }
            }
            Fact::Decided { verdict, .. } => self.verdict(run, verdict),
            Fact::Finished { outcome } => self.finished(run, outcome),
            fact => {
                if let Some(text) = steered(fact) {
                    self.say(run, &text);
                }
            }
        }
    }

    fn state(&mut self, run: &str, attempt: u32, status: &JobStatus) {
        let word = status.state.word();
        let reason = job_reason(status.reason.as_deref());
        let tail = match (&status.state, reason) {
            (JobState::Pending, Some(reason)) => format!(" ({reason})"),
            (JobState::Running, _) if !status.nodes.is_empty() => {
                format!(" on {}", status.nodes.join(","))
            }
            (_, Some(reason)) => format!(" ({reason})"),
            _ => String::new(),
        };
        let style = match status.state {
            JobState::Completed => GOOD,
            JobState::Pending | JobState::Running | JobState::Completing => DIM,
            _ => WARN,
        };
        let told = (attempt, status.restarts, format!("{word}{tail}"));
        if self.stated.entry(run.to_owned()).or_default().insert(told) {
            let mut text = format!("attempt {attempt}  {}{tail}", Paint(style, word));
            let waits = status.state == JobState::Pending;
            let hint = reason.filter(|_| waits);
            if let Some(hint) = hint.and_then(|reason| waiting::watched(reason, &status.id.0)) {
                text.push_str(&format!("\n           {} {hint}", Paint(WARN, "hint:")));
            }
            self.say(run, &text);
        }
        self.show(run, format!("attempt {attempt} {word}{tail}"));
    }

    fn measured(&mut self, run: &str, attempt: u32, measured: &Measured) {
        let Some(peak) = measured::peak(measured) else {
            return;
        };
        let place = measured::place(measured);
        let place = place.map(|p| format!(" ({p})")).unwrap_or_default();
        self.say(run, &format!("attempt {attempt}  peak {peak}{place}"));
    }

    fn verdict(&mut self, run: &str, verdict: &Verdict) {
        let text = match verdict {
            Verdict::Climb {
                steps,
                expects,
                withdrawn,
                ..
            } => {
                let mut lines: Vec<String> = withdrawn.iter().map(taken_back).collect();
                lines.extend(rungs(steps));
                let expected = expects.as_ref().map(expectation);
                lines.extend(expected.map(|text| Paint(DIM, &text).to_string()));
                lines.join("\n           ")
            }
            Verdict::Again { cause, exclude, .. } => {
                self.figures.again(run);
                let without = match exclude.as_slice() {
                    [] => String::new(),
                    nodes => format!(", without {}", nodes.join(",")),
                };
                format!("again      the same configuration, after {cause}{without}")
            }
            Verdict::End { .. } => return,
        };
        self.say(run, &text);
    }

    fn finished(&mut self, run: &str, outcome: &Outcome) {
        self.status.remove(run);
        self.stated.remove(run);
        let tail = reason(outcome)
            .filter(|_| !self.is_summed)
            .map(|r| format!(": {r}"))
            .unwrap_or_default();
        let style = if *outcome == Outcome::Succeeded {
            GOOD
        } else {
            BAD
        };
        self.say(run, &format!("{}{tail}", Paint(style, word(outcome))));
    }

    /// What an earlier process has told is not told again.
    fn resumed(&mut self, run: &str, look: &LogLook) {
        if let Some(progress) = &look.progress {
            self.told.insert(run.to_owned(), progress.tenth());
            self.steps.insert(run.to_owned(), step(progress));
        }
        if let Some(class) = look.fatal {
            self.fatal(run, class);
        }
    }

    fn fatal(&mut self, run: &str, class: Class) {
        let what = match class {
            Class::HostOom => "host memory",
            _ => "GPU memory",
        };
        self.show(run, format!("out of {what}, waiting for the job to end"));
    }

    /// On a terminal the status line moves; elsewhere every tenth of the way is a line.
    fn progress(&mut self, run: &str, progress: &Progress) {
        let text = step(progress);
        let tenth = progress.tenth();
        let in_lines = self.bar.is_hidden() && self.kept.is_none();
        if in_lines && self.told.insert(run.to_owned(), tenth) != Some(tenth) {
            self.say(run, &format!("           {}", Paint(DIM, &text)));
        }
        self.steps.insert(run.to_owned(), text);
        self.refresh();
    }
}

fn step(progress: &Progress) -> String {
    format!("step {}{}", progress.step, total(progress))
}

impl Observer for Story {
    fn notice(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Fact { run, record } => self.fact(run, record),
            Notice::Status {
                run,
                attempt,
                status,
            } => {
                let reason = job_reason(status.reason.as_deref()).unwrap_or_default();
                let number = attempt.number;
                if matches!(status.state.stage(), Stage::Waiting | Stage::Running) {
                    self.state(run, number, status);
                }
                let seconds = status
                    .started
                    .map(|t| jiff::Timestamp::now().duration_since(t).as_secs());
                let elapsed = seconds.map(|s| format!(" {}", super::figures::duration(s)));
                let (word, elapsed) = (status.state.word(), elapsed.unwrap_or_default());
                self.show(run, format!("attempt {number} {word}{elapsed} {reason}"));
            }
            Notice::Checkpoint { run, attempt, text } => {
                let text = sanitize(text.as_bytes());
                self.say(run, &format!("attempt {attempt}  {text}"));
            }
            Notice::Dependent {
                run,
                job,
                moved,
                to,
            } => self.say(run, &dependent(job, *moved, to)),
            Notice::Resumed { run, look } => self.resumed(run, look),
            Notice::Progress { run, progress } => self.progress(run, progress),
            Notice::Fatal { run, class } => self.fatal(run, *class),
            Notice::Explained { run, explanation } => self.say(run, &explained(explanation)),
            Notice::Trouble { run, what } => {
                let text = format!("{} {what}", Paint(WARN, "trouble:"));
                self.line(run.unwrap_or(""), &text);
            }
            // Of a single run it is the command's own error, told at its end.
            Notice::SetAside { run, why } if self.several => {
                let text = format!("{} {why}", Paint(WARN, "set aside:"));
                self.line(run, &text);
            }
            Notice::SetAside { .. } => {}
            Notice::Recovered => self.say("", "the scheduler answers again"),
            // For whoever asked.
            Notice::Outlook { .. } => {}
        }
    }
}
