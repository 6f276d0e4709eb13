//! What a script of the user's own would be run as: the attempts in a table, and all that is known of them behind it.

mod by_hand;
mod details;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use by_hand::{ByHand, NO_PROGRAM, VALUES_UNREAD, unknown_batch};
use schemars::JsonSchema;
use serde::Serialize;

use super::passed_over::reasons_here;
use super::plan_table::PlanTable;
use super::rung_view::{MemoryForecast, first_fit, limits};
use super::script_parts::{
    AdoptedScript, Computed, ScriptAttemptView, UnchangedRetry, attempts, batch_words, computed,
    missing, of_checkpoints, starts_python, told_with_origin, unchangeable, unchanged,
};
use super::script_values::ScriptValues;
use super::starts_view::StartsView;
use super::style::WARN;
use super::{NAME, Paint};
use crate::core::adopt::{Scripts, is_array};
use crate::core::ladder::{Change, DOUBTED, MAY_SET, Skipped};
use crate::core::recipe::LayerKind;
use crate::core::request::{KeptMeasurement, UNEQUAL_TASKS, UnreadKnob};

/// A program that makes its steps of training itself, whose knobs are unknown.
pub(super) const OWN_STEPS: &str =
    "your own program: oomctl knows none of its options and settings";

/// Reasons that are told where no rung is left.
const MOST_REASONS: usize = 6;

/// The attempts that may come.
#[derive(Serialize, JsonSchema)]
pub struct ScriptView {
    schema_version: u32,
    run: String,
    preset: Option<String>,
    /// What is known of the framework's version.
    version: Option<String>,
    workdir: String,
    /// The nodes that the job goes to, where Slurm describes them.
    nodes: Option<String>,
    /// Memory of one GPU, and who says so, where it is known.
    gpu_memory: Option<String>,
    /// The job that is the first attempt, where it was submitted without us.
    job: Option<String>,
    /// Options of sbatch that go with the script.
    sbatch: Vec<String>,
    /// The calls that start the program are there, and how many.
    programs: usize,
    /// Files that the scripts name and that could not be read.
    missing: Vec<String>,
    /// What is said behind the path of a program that is not there.
    #[serde(skip)]
    absent: BTreeMap<String, String>,
    /// What else may give values and is not read.
    unread: Vec<String>,
    /// Why later runs learn nothing of this one.
    not_comparable: Option<String>,
    /// The task of an array that it is, of which others may start with other values.
    #[serde(skip)]
    task: Option<String>,
    /// It starts as earlier runs taught.
    taught: bool,
    /// It starts with rungs that were taken because a phantom GPU was too small.
    measured: bool,
    /// Values that code computes, which no rung moves.
    computed: Vec<Computed>,
    /// Where the scripts go against the preset, and what their copies need.
    doubts: Vec<String>,
    #[serde(flatten)]
    values: ScriptValues,
    /// What an estimate needs and nobody says.
    asked: Vec<UnreadKnob>,
    /// Memory as it is; absent where it is unknown.
    now: Option<MemoryForecast>,
    /// What was measured of it on a phantom before, which the figures rest on.
    phantom: Option<KeptMeasurement>,
    attempts: Vec<ScriptAttemptView>,
    /// Rungs of which none is taken, and why.
    not_used: Vec<Skipped>,
    /// Rungs that were passed over for the first step that changes training, and why.
    #[serde(skip)]
    before_training_changes: Vec<Skipped>,
    /// What is changed first where host memory runs out instead.
    after_host_oom: Vec<Change>,
    /// Why no rung can be taken.
    problem: Option<String>,
    /// What the user may change, where oomctl cannot edit the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_hand: Option<ByHand>,
    /// What is submitted again unchanged, and how often.
    unchanged: Vec<UnchangedRetry>,
    /// Attempts in all.
    most_attempts: u32,
    /// When Slurm would start the job, where rungs ask for more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<StartsView>,
    /// What becomes of checkpoints.
    #[serde(skip)]
    of_checkpoints: BTreeSet<String>,
    /// The script with its arguments, as it is given to oomctl; none where no file has it.
    #[serde(skip)]
    command: Option<String>,
    #[serde(skip)]
    measure: Option<String>,
    /// Why the memory model does not describe the program.
    #[serde(skip)]
    no_model: Option<String>,
    #[serde(skip)]
    modelled: bool,
    /// What speaks for the preset.
    #[serde(skip)]
    by: Option<String>,
    /// What was read only submits other jobs, as far as it was understood.
    #[serde(skip)]
    submits: bool,
    /// The preset is one for any program, which the program's name and keys do not show.
    #[serde(skip)]
    is_any: bool,
    /// The scripts start a Python program, as far as they are read.
    #[serde(skip)]
    starts_python: bool,
    /// A program makes its steps of training itself.
    #[serde(skip)]
    trains: bool,
    /// Where no batch is known: options that have one in their names.
    #[serde(skip)]
    batch_words: Option<Vec<String>>,
}

impl ScriptView {
    /// The view of a script.
    pub fn new(told: AdoptedScript<'_>) -> Self {
        let (unchanged, of_checkpoints) = (unchanged(&told), of_checkpoints(&told));
        let (inputs, adoption, plan) = (told.inputs, told.adoption, told.plan);
        let recognised = inputs.is_recognised();
        // The index of a task that is shown of an array is not the user's.
        let whole = inputs.scripts.as_ref().is_some_and(|s| s.array.is_some());
        let given = |option: &&String| !(whole && is_array(option));
        let has = |kind| inputs.layers.iter().any(|layer| layer.kind == kind);
        Self {
            schema_version: 1,
            run: inputs.run.clone(),
            preset: recognised.then(|| told.preset.name.clone()),
            version: inputs.scripts.as_ref().and_then(|s| s.version.clone()),
            workdir: inputs.workdir.clone(),
            nodes: inputs.nodes.clone(),
            gpu_memory: told.gpu_memory.as_ref().map(told_with_origin),
            job: told.job.map(str::to_owned),
            sbatch: inputs.sbatch.iter().filter(given).cloned().collect(),
            programs: adoption.map_or(0, |a| a.calls().count()),
            computed: adoption.map_or_else(Vec::new, |a| computed(told.preset, a)),
            unread: adoption.map_or_else(Vec::new, |a| a.unread().into_iter().collect()),
            missing: missing(adoption, told.absent.keys()),
            absent: told.absent,
            not_comparable: told.not_comparable,
            task: inputs
                .run
                .rsplit_once('_')
                .filter(|_| whole)
                .map(|(_, task)| task.to_owned()),
            taught: has(LayerKind::Learned),
            measured: has(LayerKind::Rung),
            doubts: told.doubts,
            values: adoption.map(ScriptValues::of).unwrap_or_default(),
            asked: told.unread,
            now: plan.now.as_ref().map(MemoryForecast::of),
            phantom: told.phantom,
            attempts: attempts(plan.attempts),
            not_used: plan.not_used,
            before_training_changes: plan.before_training_changes,
            after_host_oom: plan.after_host_oom,
            problem: plan.problem,
            by_hand: plan.by_hand.map(ByHand::new),
            unchanged,
            most_attempts: inputs.limits.attempts,
            queue: None,
            of_checkpoints,
            command: told
                .in_file
                .then(|| inputs.scripts.as_ref().map(Scripts::command))
                .flatten(),
            measure: told.measure.filter(|_| told.in_file),
            no_model: told.no_model,
            modelled: told
                .preset
                .memory
                .as_ref()
                .is_some_and(|m| !m.fields.is_empty()),
            by: adoption.and_then(|a| Some(a.stack?.proof(a.calls().next()?)?.to_owned())),
            submits: !recognised && adoption.is_some_and(|a| !a.reading.submits.is_empty()),
            batch_words: adoption.map_or(Some(Vec::new()), batch_words),
            starts_python: adoption.is_none_or(starts_python),
            trains: adoption.is_some_and(|a| a.reading.calls.iter().any(|call| call.trains)),
            is_any: adoption
                .and_then(|a| a.stack)
                .is_some_and(|stack| stack.recognise.is_any()),
        }
    }

    /// What decides, on few lines: what was read, memory, the attempts in a table.
    pub fn text(&self, columns: usize) -> String {
        if self.submits {
            return self.doubts();
        }
        let mut out = match &self.now {
            Some(_) => format!("{}\n", self.memory()),
            None => String::new(),
        };
        out += &self.head(false);
        for missing in self.not_found() {
            let _ = writeln!(out, "{missing}");
        }
        if !self.unread.is_empty() {
            out += &self.not_read();
        }
        out += &self.values.gaps();
        out += &unchangeable(&self.computed, &self.values, self.command.as_deref());
        out += &(self.doubts() + &self.left_out());
        let notes = self.attempts.iter().flat_map(|a| &a.rungs);
        let notes: BTreeSet<&String> = notes.flat_map(|r| &r.step.notes).collect();
        let doubts = notes.iter().filter_map(|n| n.strip_prefix(DOUBTED));
        // What was not read is said above.
        for why in doubts.filter(|why| !why.ends_with(MAY_SET)) {
            let _ = writeln!(out, "{} {why}", Paint(WARN, "unknown:"));
        }
        out += &self.batch_stays();
        if let Some(why) = self.why_batch_changes() {
            let _ = writeln!(out, "{} {why}", Paint(WARN, "changes:"));
        }
        for note in notes
            .into_iter()
            .filter(|n| self.of_checkpoints.contains(*n) || *n == UNEQUAL_TASKS)
        {
            let _ = writeln!(out, "note: {note}");
        }
        if self.now.is_none() {
            let _ = writeln!(out, "{}", self.memory());
        }
        out += &self
            .queue
            .as_ref()
            .map(StartsView::line)
            .unwrap_or_default();
        let _ = write!(out, "\n{}", self.table(columns, false));
        out
    }

    fn table(&self, columns: usize, all: bool) -> String {
        let attempts = self.attempts.iter().map(|a| (a.attempt, &a.rungs[..]));
        let attempts = attempts.filter(|(attempt, _)| all || *attempt <= self.most_attempts);
        let place = |knob: &str, attempt| self.place(knob, attempt);
        let now = self.now.as_ref();
        let mut table = match all {
            true => PlanTable::by_rung(attempts, now, place),
            false => PlanTable::new(attempts, now, place),
        };
        table.after_host_oom(&self.after_host_oom, place);
        let first = self.first();
        table.first = self.job.is_none().then_some(&first);
        table.unasked = self.also(all);
        let mut out = match all {
            true => table.whole(columns, true),
            false => table.text(columns),
        };
        if let Some(problem) = &self.problem {
            let _ = writeln!(out, "\nno rung can be taken: {problem}");
        } else if let Some(by_hand) = &self.by_hand {
            out = by_hand.text(self.now.as_ref(), &self.values, columns);
        } else if table.is_empty() {
            out.push_str("\noomctl can change nothing here: a GPU out-of-memory ends the run\n");
            match &self.batch_words {
                _ if !self.starts_python => out += NO_PROGRAM,
                Some(words) => out += &unknown_batch(words),
                None if self.gives_values_unread() => out += VALUES_UNREAD,
                None => {
                    let reasons = reasons_here(&self.not_used).into_iter();
                    out.extend(reasons.take(MOST_REASONS).map(|why| format!("  {why}\n")));
                }
            }
        }
        out
    }

    /// The files that are not there, with what is said of each.
    fn not_found(&self) -> Vec<String> {
        let others = self.missing.iter().map(String::as_str);
        let others = others.filter(|path| !self.absent.contains_key(*path));
        let others: Vec<&str> = others.collect();
        let others = (!others.is_empty()).then(|| others.join(", "));
        let programs = self.absent.iter();
        let programs = programs.map(|(path, said)| match path.as_str() {
            "-" => format!("oomctl does not read a program from standard input{said}"),
            path => format!("file not found: {path}{said}"),
        });
        let others = others.map(|all| format!("file not found: {all}"));
        programs.chain(others).collect()
    }

    /// Whether an attempt follows the first, with another configuration.
    pub fn has_rungs(&self) -> bool {
        self.attempts.iter().any(|a| !a.rungs.is_empty())
    }

    fn head(&self, all: bool) -> String {
        let version = self.version.iter();
        let version: String = version.map(|v| format!("; {v}")).collect();
        let mut out = match &self.preset {
            Some(preset) if self.is_any => {
                let named = format!(" (preset {})", Paint(NAME, preset));
                let named = if all { &*named } else { "" };
                format!(
                    "your own program: oomctl changes its options or settings files{named}{version}\n"
                )
            }
            Some(preset) => {
                let by = self.by.iter().map(|sign| format!(" by {sign}"));
                let by: String = by.collect();
                format!("recognised as {}{by}{version}\n", Paint(NAME, preset))
            }
            None => {
                let what = match self.trains {
                    true => OWN_STEPS,
                    false => "framework not recognised",
                };
                format!("{what}. oomctl can follow the job and say why it failed\n")
            }
        };
        if let Some(memory) = self.gpu_memory.as_ref().filter(|_| all) {
            let _ = writeln!(out, "memory of a GPU: {memory}");
        }
        if let Some(job) = &self.job {
            let _ = writeln!(out, "attempt 1 is job {job}, as it was submitted");
        }
        if !self.sbatch.is_empty() {
            let _ = writeln!(out, "options of sbatch: {}", self.sbatch.join(" "));
        }
        out
    }

    fn doubts(&self) -> String {
        let lines = self.doubts.iter().map(|doubt| format!("note: {doubt}\n"));
        lines.collect()
    }

    fn first(&self) -> String {
        let script = match (self.measured, self.taught) {
            (true, _) => "your script with the rungs above, taken after measuring",
            (false, true) => "your script with the values that earlier runs needed",
            (false, false) => "your script as it is",
        };
        match &self.task {
            Some(task) => format!("task {task}: {script}"),
            None => script.to_owned(),
        }
    }

    /// The first attempt that is expected to fit.
    fn first_fit(&self) -> String {
        let attempts = self.attempts.iter();
        let attempts = attempts.filter(|a| a.attempt <= self.most_attempts);
        let attempts = attempts.filter_map(|a| Some((a.attempt, a.rungs.last()?.memory.as_ref()?)));
        self.now
            .as_ref()
            .map_or_else(String::new, |now| first_fit(now, attempts))
    }

    /// Where an attempt changes a knob.
    fn place(&self, knob: &str, attempt: u32) -> String {
        let attempt = self.attempts.iter().find(|a| a.attempt == attempt);
        let changed = attempt.and_then(|attempt| attempt.places.get(knob));
        changed
            .cloned()
            .unwrap_or_else(|| self.values.where_changed(knob))
    }

    /// What is done without a question.
    fn also(&self, all: bool) -> String {
        let cause = if all {
            UnchangedRetry::text
        } else {
            UnchangedRetry::name
        };
        let last = self.attempts.last().map_or(0, |a| a.attempt);
        let most = limits(self.most_attempts, last, &self.after_host_oom);
        let causes: Vec<String> = self.unchanged.iter().map(cause).collect();
        match causes.join(", ") {
            // Beside changes the causes are details.
            causes if causes.is_empty() || !all && self.has_rungs() => most,
            causes => format!("{most} It submits the same job again after {causes}."),
        }
    }
}
