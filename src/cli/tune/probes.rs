//! `oomctl tune --probe-steps`: short jobs that find the fastest configuration that fits.

use crate::core::engine;
use std::path::Path;

use super::command::command;
use super::write;
use crate::cli::interrupt;
use crate::cli::request::preview;
use crate::cli::runs::Runs;
use crate::cli::session::{PROJECT_FILE, Session};
use crate::core::config::from_flags;
use crate::core::exit::Exit;
use crate::core::ladder::TuneCandidate;
use crate::core::ladder::probe::{NextProbe, ProbeBounds, Stop, next};
use crate::core::recipe::{Layer, LayerKind};
use crate::core::request::{Basis, ProbeSeries, Request, Trial, TrialEnd};
use crate::drive::{DriveEnd, Handle, Until, drive};
use crate::io::ledger::Takeover;
use crate::view::probe_view::{ProbeSession, ProbeView, Proposed};
use crate::view::story::Story;
use crate::view::{CommandFailure, print};

/// Characters of the name of what is tuned in the names of its probes.
const STEM_MAX: usize = 40;

/// Options about probes.
#[derive(Debug, clap::Args)]
pub struct Probing {
    /// Find it with short jobs of N training steps each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub probe_steps: Option<u32>,
    /// Most short jobs, earlier calls included
    #[arg(long, value_name = "N", default_value_t = 4, requires = "probe_steps")]
    max_probes: usize,
    /// Set a knob in the short jobs only (repeatable): time_limit=20m
    #[arg(long, value_name = "KNOB=VALUE", requires = "probe_steps")]
    probe_set: Vec<String>,
    /// Write the values that --probe-steps found into the project file
    #[arg(long, requires = "probe_steps")]
    write: bool,
    /// Show the next short job, and submit nothing
    #[arg(long, requires = "probe_steps", conflicts_with = "write")]
    dry_run: bool,
}

/// What is tuned, and how.
pub struct ProbeTuning<'a> {
    pub args: &'a Probing,
    pub session: &'a Session,
    /// The project file, where it is not the nearest one.
    pub config: Option<&'a Path>,
    pub request: &'a Request,
    /// The run, dataset or preset.
    pub of: &'a str,
    pub changes_training: bool,
}

impl ProbeTuning<'_> {
    /// Probes until nothing more is worth it, then shows the fastest.
    pub fn run(&self, mut basis: Basis, steps: u32) -> Result<Exit, CommandFailure> {
        let set = self.set()?;
        let command: Vec<String> = std::env::args().collect();
        let short = ProbeSeries {
            of: self.of,
            steps,
            set: &set,
            command: &command,
        };
        let bounds = ProbeBounds {
            min_fit_probability: self.request.inputs().min_fit_probability,
            probes_max: self.args.max_probes,
        };
        basis.trials = self.found(&basis, &short)?;
        let stop = loop {
            if let Some(open) = basis.trials.iter().position(|t| t.end == TrialEnd::Open) {
                if self.args.dry_run {
                    let run = &basis.trials[open].run;
                    print::talk(&format!(
                        "probe {run} has not ended, and the next step depends on it"
                    ));
                    return Ok(Exit::Success);
                }
                let trial = self.finish(&basis.trials[open].run)?;
                basis.trials[open] = match trial {
                    Ok(trial) => trial,
                    Err(code) => return Ok(code),
                };
                if let Some(stop) = failed(&basis.trials[open]) {
                    return Err(stop);
                }
                continue;
            }
            let candidates = self.request.candidates(&basis, self.changes_training)?;
            let asked = ProbeSession::new(&basis, &short);
            match next(&candidates, &asked.tested, bounds) {
                NextProbe::Stop(stop) => break stop,
                NextProbe::Probe(i) if self.args.dry_run => {
                    return self.show(&basis, &candidates[i], &short);
                }
                NextProbe::Probe(i) => {
                    let trial = self.start(&basis, &candidates[i], &short)?;
                    basis.trials.push(trial);
                }
            }
        };
        self.tell(&basis, &short, stop)
    }

    /// What is set in the probes besides, above the rungs.
    fn set(&self) -> Result<Vec<Layer>, CommandFailure> {
        let mut layer = from_flags(self.request.preset(), &self.args.probe_set, &[])?;
        layer.kind = LayerKind::Rung;
        Ok(vec![layer])
    }

    /// The probes of earlier calls. Those that failed for another reason than memory say nothing and are made
    /// again.
    fn found(&self, basis: &Basis, short: &ProbeSeries<'_>) -> Result<Vec<Trial>, CommandFailure> {
        let runs = &self.session.runs;
        let stem = format!("{}-", stem(self.of));
        let numbered = |name: &str| name.strip_prefix(&stem)?.parse::<u32>().ok();
        let mut found = Vec::new();
        for name in runs.names()? {
            let Some(number) = numbered(&name) else {
                continue;
            };
            let stored = runs.open(&name)?;
            let request = stored.request()?;
            if self.request.is_probed_by(basis, short, &request) {
                let of = engine::trial(request.inputs(), &stored.history);
                found.extend(of.map(|t| (number, t)));
            }
        }
        found.retain(|(_, t)| failed(t).is_none());
        found.sort_by_key(|(number, _)| *number);
        Ok(found.into_iter().map(|(_, trial)| trial).collect())
    }

    /// Writes a probe down; it is submitted when it is finished.
    fn start(
        &self,
        basis: &Basis,
        candidate: &TuneCandidate,
        short: &ProbeSeries<'_>,
    ) -> Result<Trial, CommandFailure> {
        let runs = &self.session.runs;
        let name = runs.new_name(&stem(self.of))?;
        let request = self.request.probe(basis, candidate, short, &name)?;
        drop(runs.create(&name, request)?);
        print::talk(&format!("probe {name}: {}", candidate.taken().join(", ")));
        trial(runs, &name)
    }

    /// Drives a probe to its end. The exit code where a signal came first.
    fn finish(&self, name: &str) -> Result<Result<Trial, Exit>, CommandFailure> {
        let runs = &self.session.runs;
        let stored = runs.open(name)?;
        let request = stored.request()?;
        let backend = request.inputs().backend.clone();
        let now = jiff::Timestamp::now();
        let handle = Handle::open(stored.folder, request, Takeover::IfDead, now)?;
        let mut supervisor = runs.supervisor(&backend);
        supervisor.add(handle);
        let sources = interrupt::listen()?;
        let mut story = Story::new(false);
        let end = drive(&mut supervisor, Until::Finished, &sources, &mut story);
        story.close();
        if let Some(error) = supervisor.runs().find_map(Handle::error) {
            return Err(error.into());
        }
        if let DriveEnd::Detached { signal } = end {
            let job = supervisor
                .runs()
                .find_map(|h| h.history().attempt()?.job.clone());
            let left = match job {
                Some(job) => format!("probe {name}, job {}, goes on", job.id),
                None => format!("probe {name} is recorded, but was not submitted"),
            };
            print::talk(&format!(
                "detached; {left}. The same command continues, `oomctl cancel {name}` ends it"
            ));
            return Ok(Err(Exit::Signal(signal)));
        }
        drop(supervisor);
        trial(runs, name).map(Ok)
    }

    /// The next probe, of which nothing is submitted.
    fn show(
        &self,
        basis: &Basis,
        candidate: &TuneCandidate,
        short: &ProbeSeries<'_>,
    ) -> Result<Exit, CommandFailure> {
        let runs = &self.session.runs;
        let name = runs.new_name(&stem(self.of))?;
        let request = self.request.probe(basis, candidate, short, &name)?;
        let place = preview::place(
            &runs.project().display().to_string(),
            &request.inputs().backend,
        );
        let files = request.render(&[], &place)?;
        let next = ProbeSession::new(basis, short).next(&name, candidate);
        self.session.show(&next, |next| {
            format!("{}{}", next.text(), preview::text(&files))
        })?;
        print::talk("dry run: nothing was submitted");
        Ok(Exit::Success)
    }

    fn tell(
        &self,
        basis: &Basis,
        short: &ProbeSeries<'_>,
        stop: Stop,
    ) -> Result<Exit, CommandFailure> {
        let asked = ProbeSession::new(basis, short);
        let proposed = match asked.proposed() {
            Some(layers) => Some(Proposed {
                values: self.request.settings(&layers)?,
                command: command(self.request, &layers)?,
            }),
            None => None,
        };
        let view = ProbeView::new(&asked, stop, proposed);
        self.session.show(&view, |view| view.text())?;
        if self.args.write {
            let file = self
                .config
                .map_or_else(|| self.session.folder.join(PROJECT_FILE), Path::to_owned);
            write::write(&file, self.request.preset(), view.values())?;
        }
        Ok(Exit::Success)
    }
}

/// A probe that is on disk.
fn trial(runs: &Runs, name: &str) -> Result<Trial, CommandFailure> {
    let stored = runs.open(name)?;
    let request = stored.request()?;
    crate::core::engine::trial(request.inputs(), &stored.history)
        .ok_or_else(|| CommandFailure::ledger(format!("{name} is no probe")))
}

/// What stops the search: a probe that failed for another reason than memory.
fn failed(trial: &Trial) -> Option<CommandFailure> {
    let TrialEnd::Failed { reason } = &trial.end else {
        return None;
    };
    let run = &trial.run;
    let what = format!("probe {run} proves nothing about its configuration: {reason}");
    let hint = format!("`oomctl status {run}` shows more; the same command repeats it");
    Some(CommandFailure::failed(what).hint(hint))
}

/// What the names of the probes of something begin with.
fn stem(of: &str) -> String {
    let of: String = of.chars().take(STEM_MAX).collect();
    format!("{of}-probe")
}
