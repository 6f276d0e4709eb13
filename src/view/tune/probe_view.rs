//! What the probes of `oomctl tune` showed: a table, the fastest, and its values.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{odds, percent, rounded};
use super::table::{Side, Table};
use super::tune_view::{changes_of, quoted};
use super::{DIM, NAME, Paint, measured};
use crate::core::config::knobs_yaml;
use crate::core::ladder::probe::{GAIN_MIN, Stop, Tested, fastest, times};
use crate::core::ladder::{Change, TuneCandidate};
use crate::core::recipe::Layer;
use crate::core::request::{Basis, ProbeSeries, Trial, TrialEnd};
use oomctl_base::Value;

/// What is known so far, and what was asked for.
pub struct ProbeSession<'a> {
    of: &'a str,
    steps: u32,
    basis: &'a Basis,
    /// The configuration that is started from, and the probes that say something.
    pub tested: Vec<Tested>,
}

impl<'a> ProbeSession<'a> {
    /// After the probes so far.
    pub fn new(basis: &'a Basis, short: &ProbeSeries<'a>) -> Self {
        let steps = usize::try_from(short.steps).unwrap_or(usize::MAX);
        let start = Tested {
            taken: Vec::new(),
            time: 1.0,
            fitted: true,
            step_s: basis.measured.step_s(steps),
        };
        let probes = basis.trials.iter().filter_map(Trial::tested);
        Self {
            of: short.of,
            steps: short.steps,
            basis,
            tested: std::iter::once(start).chain(probes).collect(),
        }
    }

    /// The probes that say something, in the order of `tested` behind the start.
    fn told(&self) -> Vec<&'a Trial> {
        let trials = self.basis.trials.iter();
        trials.filter(|t| t.tested().is_some()).collect()
    }

    fn best(&self) -> usize {
        fastest(&self.tested).unwrap_or(0)
    }

    /// The rungs of the fastest, where that is not the configuration that is started from.
    pub fn proposed(&self) -> Option<Vec<Layer>> {
        let trial = *self.told().get(self.best().checked_sub(1)?)?;
        let mut layers = self.basis.rungs.clone();
        layers.extend(trial.layers.iter().cloned());
        Some(layers)
    }

    /// The next probe, not submitted.
    pub fn next<'c>(&self, run: &str, candidate: &'c TuneCandidate) -> NextView<'c> {
        NextView {
            schema_version: 1,
            run: run.to_owned(),
            probe_steps: self.steps,
            taken: candidate.taken(),
            changes: changes_of(&candidate.steps),
            time: rounded(candidate.time, 3),
            fits_probability: candidate.fits_probability,
            probes_so_far: self.tested.len() - 1,
        }
    }
}

/// A probe that would be submitted.
#[derive(Serialize, JsonSchema)]
pub struct NextView<'a> {
    schema_version: u32,
    run: String,
    probe_steps: u32,
    taken: Vec<String>,
    changes: Vec<&'a Change>,
    time: f64,
    fits_probability: Option<f64>,
    probes_so_far: usize,
}

impl NextView<'_> {
    /// The probe for people.
    pub fn text(&self) -> String {
        let odds = odds(self.fits_probability, "unknown");
        let mut out = format!(
            "The next probe is {}, {} training steps with {} (probability to fit {odds}, about {} less time per step):\n",
            self.run,
            self.probe_steps,
            laps(&self.taken),
            percent(1.0 - self.time)
        );
        for change in &self.changes {
            let _ = writeln!(out, "  {}  {}", change.name(), change.values("->"));
        }
        out.push('\n');
        out
    }
}

/// What is proposed in the end.
pub struct Proposed {
    /// The values that lead from the project's files to it.
    pub values: Vec<(String, Value)>,
    /// The words that submit it.
    pub command: Vec<String>,
}

/// A configuration that was run.
#[derive(Serialize, JsonSchema)]
struct ProbeRow {
    run: Option<String>,
    taken: Vec<String>,
    /// `fitted`, `out_of_memory`.
    outcome: &'static str,
    /// Phase in which it died.
    phase: Option<String>,
    peak: Option<String>,
    peak_gib: Option<f64>,
    /// Seconds of a usual step.
    step_s: Option<f64>,
    /// Share of the time of a step of the configuration that was started from, measured or expected.
    time: Option<f64>,
}

/// What the probes showed.
#[derive(Serialize, JsonSchema)]
pub struct ProbeView {
    schema_version: u32,
    of: String,
    probe_steps: u32,
    rows: Vec<ProbeRow>,
    /// The row of the fastest that fitted; 0 is the configuration that was started from.
    fastest: usize,
    stopped: Stop,
    time_saved: f64,
    measured: bool,
    #[serde(serialize_with = "as_map")]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    values: Vec<(String, Value)>,
    yaml: Option<String>,
    command: Option<Vec<String>>,
}

impl ProbeView {
    /// The view of a search that is over, with the values of the fastest and the command that submits it.
    pub fn new(asked: &ProbeSession<'_>, stopped: Stop, proposed: Option<Proposed>) -> Self {
        let (basis, told) = (asked.basis, asked.told());
        let best = asked.best();
        let shares = times(&asked.tested);
        let mut rows = vec![ProbeRow::of_start(basis, asked.of, &asked.tested[0])];
        let with_share = told.iter().zip(&asked.tested[1..]).zip(&shares[1..]);
        rows.extend(with_share.map(|((trial, tested), share)| ProbeRow::of(trial, tested, *share)));
        let start = asked.tested[0].step_s;
        let (values, command) =
            proposed.map_or_else(Default::default, |p| (p.values, Some(p.command)));
        Self {
            schema_version: 1,
            of: asked.of.to_owned(),
            probe_steps: asked.steps,
            rows,
            fastest: best,
            stopped,
            time_saved: rounded(1.0 - shares[best], 3),
            measured: start.and(asked.tested[best].step_s).is_some(),
            yaml: command.as_ref().map(|_| knobs_yaml(&values)),
            command,
            values,
        }
    }

    /// The values that lead from the project's files to the fastest.
    pub fn values(&self) -> &[(String, Value)] {
        &self.values
    }

    /// The result for people.
    pub fn text(&self) -> String {
        let plural = if self.probe_steps == 1 { "" } else { "s" };
        let mut out = format!(
            "Probes of {}, {} training step{plural} each:\n\n{}\n",
            self.of,
            self.probe_steps,
            self.table()
        );
        let why = match self.stopped {
            Stop::NothingToGain => format!(
                "no other candidate that may fit is expected to save {}",
                percent(GAIN_MIN)
            ),
            Stop::ProbesSpent => "the limit of probes is reached (`--max-probes`)".to_owned(),
        };
        let _ = writeln!(out, "ended: {why}");
        match (&self.rows[self.fastest].run, &self.yaml) {
            (Some(run), Some(yaml)) => {
                let how = match self.measured {
                    true => "measured",
                    false => "expected, because not every log has the time of a step",
                };
                let saved = percent(self.time_saved);
                let _ = writeln!(out, "fastest: {run}, {saved} less time a step ({how})");
                let _ = write!(out, "\n{yaml}");
            }
            _ => out.push_str("fastest: the configuration as it is\n"),
        }
        if let Some(command) = &self.command {
            let _ = writeln!(out, "\n{}", quoted(command));
        }
        out
    }

    fn table(&self) -> String {
        let mut table = Table::new([(Side::Left, 0); 5]);
        table.row(["probe", "configuration", "outcome", "peak", "s a step"]);
        self.rows.iter().for_each(|row| table.row(row.cells()));
        let mut out = String::new();
        for (i, line) in table.lines().enumerate() {
            let style = match i.checked_sub(1) {
                Some(row) if row == self.fastest => NAME,
                Some(row) if self.rows[row].outcome != "fitted" => DIM,
                _ => anstyle::Style::new(),
            };
            let _ = writeln!(out, "{}", Paint(style, &format!("  {line}")));
        }
        out
    }
}

impl ProbeRow {
    fn of_start(basis: &Basis, of: &str, tested: &Tested) -> Self {
        Self {
            run: Some(of.to_owned()),
            taken: Vec::new(),
            outcome: if basis.fits { "fitted" } else { "not run" },
            phase: None,
            peak: measured::peak(&basis.measured),
            peak_gib: measured::peak_gib(&basis.measured),
            step_s: tested.step_s,
            time: Some(1.0),
        }
    }

    fn of(trial: &Trial, tested: &Tested, share: f64) -> Self {
        let phase = match &trial.end {
            TrialEnd::OutOfMemory(incident) => Some(incident.phase.clone()),
            _ => None,
        };
        Self {
            run: Some(trial.run.clone()),
            taken: trial.probe.taken.clone(),
            outcome: if tested.fitted {
                "fitted"
            } else {
                "out_of_memory"
            },
            phase: phase.filter(|p| !p.is_empty() && p != "unknown"),
            peak: measured::peak(&trial.measured),
            peak_gib: measured::peak_gib(&trial.measured),
            step_s: tested.step_s,
            time: tested.fitted.then(|| rounded(share, 3)),
        }
    }

    fn cells(&self) -> [String; 5] {
        let outcome = self.outcome.replace('_', " ");
        let outcome = match &self.phase {
            Some(phase) => format!("{outcome} ({})", phase.replace('_', " ")),
            None => outcome,
        };
        [
            self.run.clone().unwrap_or_default(),
            laps(&self.taken),
            outcome,
            self.peak.clone().unwrap_or_else(|| "-".to_owned()),
            self.step_s.map_or_else(|| "-".to_owned(), seconds),
        ]
    }
}

/// `0.61`, `43.2`.
fn seconds(s: f64) -> String {
    match s < 10.0 {
        true => format!("{s:.2}"),
        false => format!("{s:.1}"),
    }
}

/// `as it is`, or the steps with how often each was taken.
fn laps(taken: &[String]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for name in taken {
        match counted.iter_mut().find(|(n, _)| n == name) {
            Some((_, n)) => *n += 1,
            None => counted.push((name, 1)),
        }
    }
    let word = |(name, n): &(&str, usize)| match n {
        1 => (*name).to_owned(),
        n => format!("{name} x{n}"),
    };
    match counted.is_empty() {
        true => "as it is".to_owned(),
        false => counted.iter().map(word).collect::<Vec<_>>().join(", "),
    }
}

fn as_map<S: serde::Serializer>(values: &[(String, Value)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(k, v)| (k, v)))
}
