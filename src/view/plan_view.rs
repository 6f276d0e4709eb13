//! What `oomctl plan` shows of a project.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::measured_plan_view::kept_line;
use super::passed_over::not_used;
use super::plan_table::PlanTable;
use super::rung_view::{MemoryForecast, PhaseRow, RungForecast, first_fit, limits, table};
use super::starts_view::StartsView;
use super::{DIM, NAME, Paint, start_view};
use crate::core::ladder::{Change, Policy, Skipped};
use crate::core::recipe::Preset;
use crate::core::request::{KeptMeasurement, Plan, Start};

/// The ladder from here.
#[derive(Serialize, JsonSchema)]
pub struct PlanView {
    schema_version: u32,
    preset: String,
    framework_version: Option<String>,
    policy: Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    /// Rules that every configuration here holds.
    rules: usize,
    now: Option<MemoryForecast>,
    /// What was measured of it on a phantom before, which the figures rest on.
    phantom: Option<KeptMeasurement>,
    rungs: Vec<RungForecast>,
    /// For each rung the attempt that takes it.
    attempts: Vec<u32>,
    not_used: Vec<Skipped>,
    /// What is changed first where host memory runs out instead.
    after_host_oom: Vec<Change>,
    /// When Slurm would start the job, where rungs ask for more.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<StartsView>,
    #[serde(skip)]
    settings: PlanSettings,
}

/// What the table says of the configuration.
#[derive(Default)]
pub struct PlanSettings {
    /// Where knobs are given.
    pub places: BTreeMap<String, String>,
    /// Why the memory of a GPU is unknown, if it is.
    pub gpu_unknown: Option<String>,
    /// Attempts in all.
    pub most_attempts: u32,
    /// When Slurm would start the job.
    pub queue: Option<StartsView>,
    /// The nodes that the job goes to, where Slurm describes them.
    pub nodes: Option<String>,
    /// What was measured of it before.
    pub phantom: Option<KeptMeasurement>,
}

impl PlanView {
    /// The plan of a preset.
    pub fn new(
        preset: &Preset,
        policy: Policy,
        (start, plan): (Option<Start>, Plan),
        mut settings: PlanSettings,
    ) -> Self {
        Self {
            queue: settings.queue.take(),
            phantom: settings.phantom.take(),
            schema_version: 1,
            preset: preset.name.clone(),
            framework_version: preset.version.as_ref().map(ToString::to_string),
            policy,
            start,
            rules: preset.rules.len(),
            now: plan.now.as_ref().map(MemoryForecast::of),
            rungs: RungForecast::all(plan.steps),
            attempts: plan.attempts,
            not_used: plan.not_used,
            after_host_oom: plan.after_host_oom,
            settings,
        }
    }

    /// The attempts in a table, for people; with `all` rung by rung and with those that are not used, with `phases` the
    /// memory of each phase, too.
    pub fn text(&self, columns: usize, all: bool, phases: bool) -> String {
        let mut out = format!("{}\n{}", self.head(), self.table(columns, all));
        if all {
            out += &not_used(&self.not_used);
            let nodes = self.settings.nodes.iter();
            out.extend(nodes.map(|nodes| format!("\nThe job goes to {nodes}.\n")));
        }
        if self.rungs.is_empty() {
            out.push_str("\nNo rungs: the run ends when it runs out of memory.\n");
        }
        if phases {
            out += &self.phases().unwrap_or_else(|| {
                "\nMemory cannot be estimated; `oomctl estimate` says what is missing.\n".to_owned()
            });
        }
        if !all && !self.rungs.is_empty() {
            out.push_str("\n`oomctl plan --all` shows each rung with its notes, and the rungs that are not used\n");
        }
        out
    }

    fn table(&self, columns: usize, all: bool) -> String {
        let most = self.settings.most_attempts;
        let last = self.attempts.last().copied().unwrap_or(0);
        let mut from = 0;
        let attempts = self.attempts.chunk_by(|a, b| a == b).map(|same| {
            let rungs = &self.rungs[from..from + same.len()];
            from += same.len();
            (same[0], rungs)
        });
        let attempts = attempts.filter(|(attempt, _)| all || *attempt <= most);
        let place = |knob: &str, _| self.settings.places.get(knob).cloned().unwrap_or_default();
        let now = self.now.as_ref();
        let mut table = match all {
            true => PlanTable::by_rung(attempts, now, place),
            false => PlanTable::new(attempts, now, place),
        };
        table.first = Some("the configuration as it is");
        table.after_host_oom(&self.after_host_oom, place);
        table.unasked = limits(most, last, &self.after_host_oom);
        match (table.is_empty(), all) {
            (true, _) => String::new(),
            (false, true) => table.whole(columns, true),
            (false, false) => table.text(columns),
        }
    }

    fn head(&self) -> String {
        let version = self.framework_version.as_deref();
        let version = version.map_or_else(String::new, |v| format!(" {v}"));
        let mut out = match &self.now {
            Some(now) => {
                let rough = now.undecided("oomctl measure");
                let rough: String = rough.iter().map(|r| format!("{r}\n")).collect();
                format!("{}{}\n{rough}", now.now(), first_fit(now, self.after()))
            }
            None => "memory unknown: `oomctl estimate` says what is missing\n".to_owned(),
        };
        if let Some(kept) = &self.phantom {
            let _ = writeln!(out, "{}", kept_line(kept));
        }
        let open = self.settings.gpu_unknown.as_ref();
        if let Some(why) = open.filter(|_| self.now.is_some()) {
            let _ = writeln!(out, "memory of a GPU unknown: {why}");
        }
        out += &self
            .queue
            .as_ref()
            .map(StartsView::line)
            .unwrap_or_default();
        if let Some(start) = &self.start {
            let _ = writeln!(out, "{}", start_view::text(start));
        }
        let rules = match self.rules {
            0 => String::new(),
            1 => "; every attempt keeps its rule".to_owned(),
            n => format!("; every attempt keeps its {n} rules"),
        };
        let _ = writeln!(out, "{}{version}{rules}", Paint(NAME, &self.preset));
        let decides = match self.policy {
            Policy::Predict => self.now.is_none().then_some("predict"),
            Policy::Soonest => Some("soonest"),
            Policy::Ladder | Policy::SameMath => None,
        };
        if let Some(policy) = decides {
            let note = format!(
                "note: the policy `{policy}` decides after each failure, not in this order; --after LOG shows its decision"
            );
            let _ = writeln!(out, "{}", Paint(DIM, &note));
        }
        out
    }

    /// The memory after each attempt, where it is known.
    fn after(&self) -> impl Iterator<Item = (u32, &MemoryForecast)> {
        let rungs = self.attempts.iter().zip(&self.rungs).enumerate();
        let last = |at: usize| self.attempts.get(at + 1) != self.attempts.get(at);
        rungs.filter_map(move |(at, (n, rung))| {
            let reached = last(at) && *n <= self.settings.most_attempts;
            Some((*n, rung.memory.as_ref()?)).filter(|_| reached)
        })
    }

    /// A line for each attempt, a column for each phase; none where memory is not known.
    fn phases(&self) -> Option<String> {
        let now = self.now.as_ref()?;
        let rungs = self.attempts.iter().zip(&self.rungs);
        let rungs = rungs.map(|(n, r)| (*n, r.step.rung.as_str(), r.memory.as_ref()));
        let rows = std::iter::once((1, "as it is", Some(now))).chain(rungs);
        let row = |(attempt, name, memory): (u32, &str, Option<&'_ MemoryForecast>)| {
            PhaseRow::new(format!("{attempt:>3}  {name}"), memory)
        };
        let table = table(&rows.map(row).collect::<Vec<_>>(), usize::MAX);
        Some(format!(
            "\nMemory of the fullest GPU by phase, in GiB, and the probability to fit:\n\n{table}"
        ))
    }
}
