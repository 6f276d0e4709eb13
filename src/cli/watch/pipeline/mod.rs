//! Runs in the pipelines of CI systems: what is asked for on the command line, what is written where, and what becomes
//! of the runs when the pipeline is cancelled.

mod place;

use std::path::{Path, PathBuf};

use crate::cli::interrupt;
use crate::cli::overviews::gathered;
use crate::cli::runs::{Runs, ended};
use crate::cli::watch::showing::Showing;
use crate::core::exit::Exit;
use crate::drive::{DriveEnd, RunFolder, Supervisor, Until, WakeSources, cancel_all, drive};
use crate::io::files::{Access, FileError, append, write_to};
use crate::view::pipeline::{
    PipelineRun, SUMMARY_MAX, Variables, commands, junit, quality, summary_within,
};
use crate::view::{CommandFailure, print};
use oomctl_base::units::parse_duration_s;
pub use place::Ci;
use place::{logs_of, size_of};

/// The heading under which help lists all of it.
const HEADING: &str = "In pipelines";
/// Seconds to end jobs in, once a signal came. GitHub sends a second signal after 7.5 s, and kills 2.5 s after that.
const CANCEL_ALL_S: u64 = 5;

/// What pipelines may ask for.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// File for a JUnit report: a case for each attempt, and one for the run
    #[arg(long, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    junit: Option<PathBuf>,
    /// File for the failures, as a GitLab code quality report
    #[arg(long, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    code_quality: Option<PathBuf>,
    /// File for OOMCTL_RUN, OOMCTL_JOB, OOMCTL_STATE, OOMCTL_ATTEMPTS and OOMCTL_EXIT_CODE, for later jobs
    #[arg(long, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    dotenv: Option<PathBuf>,
    /// The CI system to write annotations, job summary and outputs for
    #[arg(long, value_enum, value_name = "SYSTEM", default_value = "auto", help_heading = HEADING, hide_short_help = true)]
    ci: Ci,
    /// Print a line this often while nothing happens; 0: never [default: 5m, never on a terminal]
    #[arg(long, value_name = "TIME", value_parser = parse_duration_s, help_heading = HEADING, hide_short_help = true)]
    heartbeat: Option<u64>,
    /// What to do with the jobs on Ctrl-C, SIGTERM or SIGHUP
    #[arg(long, value_enum, value_name = "WHAT", default_value = "detach", help_heading = HEADING, hide_short_help = true)]
    on_interrupt: OnInterrupt,
}

impl Flags {
    /// Refuses what only a process that stays can do, where none does.
    pub fn without_watch(&self) -> Result<(), CommandFailure> {
        let flag = match (self.heartbeat, self.on_interrupt) {
            (Some(_), _) => "--heartbeat",
            (None, OnInterrupt::Cancel) => "--on-interrupt cancel",
            (None, OnInterrupt::Detach) => return Ok(()),
        };
        let what = format!(
            "{flag} needs a process that keeps watching; `submit` alone exits after submitting"
        );
        Err(CommandFailure::usage(what).hint("add --watch, or pass it to `oomctl watch`"))
    }
}

/// What happens to the jobs when the process that watches them is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum OnInterrupt {
    /// The jobs go on; `oomctl watch` continues the runs
    #[default]
    Detach,
    /// Cancel the jobs
    Cancel,
}

/// Runs that are followed, perhaps in a pipeline.
pub struct Pipeline<'a> {
    /// What was asked for.
    pub flags: &'a Flags,
    /// The runs of the project.
    pub runs: &'a Runs,
    /// The names by which a later call finds the same runs.
    pub asked: String,
    /// How it is shown what happens.
    pub showing: Showing,
}

impl Pipeline<'_> {
    /// Drives all runs, telling the story as it goes.
    pub fn attend(
        &self,
        supervisor: &mut Supervisor,
        until: Until,
    ) -> Result<DriveEnd, CommandFailure> {
        self.tell_variables(supervisor, None);
        let end = self.driven(supervisor, until)?;
        self.tell(supervisor, end);
        Ok(end)
    }

    fn driven(
        &self,
        supervisor: &mut Supervisor,
        until: Until,
    ) -> Result<DriveEnd, CommandFailure> {
        let on_interrupt = self.flags.on_interrupt;
        let sources = sources(supervisor, on_interrupt, self.runs)?;
        let every_s = self.flags.heartbeat;
        let showing = self.showing;
        let end = showing.show(
            supervisor,
            &sources,
            every_s,
            |supervisor, observer| match (
                drive(supervisor, until, &sources, observer),
                on_interrupt,
            ) {
                (DriveEnd::Detached { signal }, OnInterrupt::Cancel) => {
                    cancel_all(supervisor, signal, CANCEL_ALL_S, &sources, observer)
                }
                (end, _) => end,
            },
        );
        Ok(end)
    }

    /// Leaves what the CI system and its later jobs read. What cannot be written is told, and changes nothing else.
    pub fn tell(&self, supervisor: &Supervisor, end: DriveEnd) {
        self.tell_variables(supervisor, Some(ended::exit_code(supervisor, end)));
        let flags = self.flags;
        let is_github = flags.ci.is_github();
        if flags.junit.is_none() && flags.code_quality.is_none() && !is_github {
            return;
        }
        let views = ended::views(supervisor).into_iter();
        let told: Vec<PipelineRun> = views.map(|view| logs_of(self.runs, view)).collect();
        if let Some(path) = &flags.junit {
            write(path, &junit::junit(&told));
        }
        if let Some(path) = &flags.code_quality {
            write(path, &quality(&told));
        }
        if is_github {
            commands::annotations(&told)
                .iter()
                .for_each(|line| print::command(line));
            self.summarise(&told);
        }
    }

    fn tell_variables(&self, supervisor: &Supervisor, exit_code: Option<Exit>) {
        let outputs = self.flags.ci.file("GITHUB_OUTPUT");
        if self.flags.dotenv.is_none() && outputs.is_none() {
            return;
        }
        let views = ended::views(supervisor);
        let variables = Variables::new(&self.asked, &views, exit_code);
        if let Some(path) = &self.flags.dotenv {
            write(path, &variables.dotenv());
        }
        if let Some(path) = outputs {
            told(append(&path, variables.outputs().as_bytes()));
        }
    }

    /// The report of the runs in the summary of the step, behind what is there.
    fn summarise(&self, told_runs: &[PipelineRun]) {
        let Some(path) = self.flags.ci.file("GITHUB_STEP_SUMMARY") else {
            return;
        };
        let names: Vec<String> = told_runs.iter().map(|t| t.view.run.clone()).collect();
        match gathered::markdown(self.runs, &self.asked, &names) {
            Ok(markdown) => {
                let left = SUMMARY_MAX.saturating_sub(size_of(&path));
                let text = summary_within(&markdown, left);
                told(append(&path, text.as_bytes()));
            }
            Err(failure) => {
                failure.report();
            }
        }
    }
}

/// The signals; where they end the runs, that is asked for on disk before anything else is done about it.
fn sources(
    supervisor: &Supervisor,
    on_interrupt: OnInterrupt,
    runs: &Runs,
) -> Result<WakeSources, CommandFailure> {
    match on_interrupt {
        OnInterrupt::Detach => interrupt::listen(),
        OnInterrupt::Cancel => {
            let runs = runs.dir();
            let folders = supervisor.runs().map(|h| RunFolder::of(&runs, h.name()));
            let folders: Vec<RunFolder> = folders.collect::<Result<_, _>>()?;
            interrupt::listen_then(move || {
                for folder in &folders {
                    // What cannot be written down is done all the same, as far as time allows.
                    drop(folder.request_cancel("the interruption of its watch"));
                }
            })
        }
    }
}

fn write(path: &Path, text: &str) {
    told(write_to(path, text.as_bytes(), Access::Shared).map(drop));
}

fn told(written: Result<(), FileError>) {
    if let Err(error) = written {
        print::warn(&error.to_string());
    }
}
