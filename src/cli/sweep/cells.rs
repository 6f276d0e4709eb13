//! The cells of a sweep as runs: their names, their requests, and their folders.

use crate::core::adopt::TaskList;
use crate::core::engine::SweepGroup;
use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::request::preview;
use crate::cli::runs;
use crate::cli::runs::Runs;
use crate::cli::sweep::sweep_source::Loaded;
use crate::core::learn::LearnedEntries;
use crate::core::render::{RenderedFile, directives, dispatcher};
use crate::core::request::Request;
use crate::core::sweep::{Judge, Selection, arrays, cell_layer, indices, share};
use crate::drive::{ArrayRecord, Supervisor, SweepRecord};
use crate::io::files::{allow_open, runs_open};
use crate::view::CommandFailure;
use crate::view::sweep_submit_view::Planned;
use oomctl_base::Role;

/// Runs that one sweep may have: each is a folder, and an open file and some memory while it is watched.
pub const MOST_RUNS: usize = 10_000;

/// The runs of a sweep, before there is anything of them on disk.
pub struct SweepPlan {
    /// Name of the sweep.
    pub name: String,
    /// A request for each cell that is run, in order.
    pub requests: Vec<Request>,
    /// How many may be under way at a time.
    pub at_once: Option<usize>,
    /// The job arrays that they are submitted as, by their numbers; none where each is a job of its own.
    pub arrays: Vec<Vec<usize>>,
    /// The indices of its tasks, where it is an array of the user's own script.
    indices: Vec<u32>,
    /// The rungs of earlier runs with which each begins.
    starts: Vec<Vec<String>>,
    /// Those rungs do not leave its tasks with the same training.
    unequal: bool,
    backend: String,
}

/// What is asked of the cells besides the sweep.
pub struct SweepOptions<'a> {
    /// Name of the sweep.
    pub name: &'a str,
    /// How many may be under way at a time.
    pub max_running: Option<u32>,
    /// Attempts of each.
    pub attempts: Option<u32>,
    /// What the project learned, from which they start.
    pub memory: Option<&'a LearnedEntries>,
}

impl SweepPlan {
    /// Makes a request of each cell, and looks whether a script can be made of it.
    pub fn new(
        runs: &Runs,
        wish: &SweepOptions<'_>,
        loaded: &Loaded,
        judge: &Judge<'_>,
        selection: &Selection,
    ) -> Result<Self, CommandFailure> {
        let cells = selection.run.len();
        check_count(cells, "cells")?;
        let mut base = loaded.request().clone();
        if let Some(attempts) = wish.attempts {
            base = base.with_attempts(attempts);
        }
        let backend = base.inputs().backend.clone();
        let width = cells.to_string().len();
        let (mut requests, mut starts) = (Vec::new(), Vec::new());
        for (number, chosen) in (1..).zip(&selection.run) {
            let layer = cell_layer(&loaded.sweep, judge, &chosen.cell, &loaded.path);
            let cell = base.cell(&format!("{}.{number:0width$}", wish.name), layer);
            // What breaks a rule is told when its script is made.
            let start = wish.memory.and_then(|m| cell.start(m).ok().flatten());
            starts.push(start.as_ref().map_or_else(Vec::new, |s| s.rungs.clone()));
            requests.push(match &start {
                Some(start) => cell.starting(start),
                None => cell,
            });
        }
        let mut plan = Self {
            name: wish.name.to_owned(),
            at_once: match (wish.max_running, backend.as_str()) {
                (Some(most), _) => usize::try_from(most).ok(),
                (None, "local") => Some(1),
                (None, _) => None,
            },
            arrays: Vec::new(),
            indices: Vec::new(),
            requests,
            starts,
            unequal: false,
            backend,
        };
        let scripts = plan.check(runs, loaded)?;
        plan.arrays = plan.in_arrays(runs, &scripts);
        Ok(plan)
    }

    /// The tasks of the array that a script asks for, each with what earlier runs of its own taught.
    pub fn of_array(
        name: &str,
        base: &Request,
        list: &TaskList,
        memory: Option<&LearnedEntries>,
    ) -> Result<Self, CommandFailure> {
        check_count(list.indices.len(), "tasks")?;
        let task = |index: &u32| {
            let task = base.task(&format!("{name}_{index}"), *index, Some(list));
            let start = memory.and_then(|m| task.start(m).ok().flatten());
            let started = start.and_then(|start| {
                let started = task.clone().starting(&start);
                started.patch(&[]).ok()?;
                Some((started, start.rungs))
            });
            started.unwrap_or((task, Vec::new()))
        };
        let (requests, starts): (Vec<_>, Vec<_>) = list.indices.iter().map(task).unzip();
        let trained = requests
            .iter()
            .map(|task| task.other_training(std::iter::empty()));
        let trained: Vec<_> = trained.collect();
        Ok(Self {
            unequal: trained.windows(2).any(|two| two[0] != two[1]),
            name: name.to_owned(),
            at_once: list.at_once.and_then(|n| usize::try_from(n).ok()),
            arrays: vec![(0..requests.len()).collect()],
            indices: list.indices.clone(),
            backend: base.inputs().backend.clone(),
            requests,
            starts,
        })
    }

    /// What its first run asks for.
    pub fn first(&self) -> Option<&Request> {
        self.requests.first()
    }

    /// What is shown of it.
    pub fn planned(&self) -> Planned<'_> {
        Planned {
            sweep: &self.name,
            head: self.head(),
            runs: self.names(),
            starts: &self.starts,
            arrays: self.arrays.iter().map(Vec::len).collect(),
            at_once: self.at_once,
        }
    }

    /// The arrays, where the scheduler has any and there is more than one cell. Cells that ask for the same of it are
    /// tasks of one.
    fn in_arrays(&self, runs: &Runs, scripts: &[String]) -> Vec<Vec<usize>> {
        if scripts.len() < 2 {
            return Vec::new();
        }
        let Some(most) = runs.scheduler(&self.backend).array_limit() else {
            return Vec::new();
        };
        let asks: Vec<String> = scripts.iter().map(|s| directives(s).join("\n")).collect();
        arrays(&asks, most)
    }

    /// The runs that begin with rungs which earlier runs needed, in one line each.
    pub fn told(&self) -> Vec<String> {
        let runs = self.requests.iter().map(Request::run).zip(&self.starts);
        let taught = runs.filter(|(_, rungs)| !rungs.is_empty());
        let unequal = self.unequal.then(|| {
            "note: these tasks will not train the same as the others; --fresh starts all unchanged, and --same-math \
             keeps them equal"
                .to_owned()
        });
        taught
            .map(|(run, _)| format!("{run} starts with what its last run needed"))
            .chain(unequal)
            .collect()
    }

    /// The batches that differ between the tasks: `batch_size: 8 in task 0, 64 in 1-2`.
    pub fn batches(&self) -> Vec<String> {
        let shapes = self.requests.iter().map(|task| task.shape(&[]).ok());
        let shapes: Vec<_> = shapes.collect();
        let roles = [Role::MicroBatch, Role::TrainBatch].into_iter();
        let first = self.requests.first();
        let knobs = roles.flat_map(|role| {
            first
                .into_iter()
                .flat_map(move |r| r.preset().with_role(role))
        });
        let told = knobs.filter_map(|knob| {
            let mut by_value: BTreeMap<String, Vec<u32>> = BTreeMap::new();
            for (index, shape) in self.indices.iter().zip(&shapes) {
                let value = shape.as_ref()?.recipe().value(&knob.name).shown();
                by_value.entry(value).or_default().push(*index);
            }
            let mut groups: Vec<(String, Vec<u32>)> = by_value.into_iter().collect();
            groups.sort_by_key(|(_, tasks)| tasks.first().copied());
            let each = groups.iter().map(|(value, tasks)| {
                let s = if tasks.len() == 1 { "" } else { "s" };
                format!("{value} in task{s} {}", indices(tasks))
            });
            let each = each.collect::<Vec<_>>().join(", ");
            (groups.len() > 1).then(|| format!("{}: {each}", knob.name))
        });
        told.collect()
    }

    /// What is to be submitted, in one line.
    pub fn head(&self) -> String {
        if !self.indices.is_empty() {
            return array_head(&self.name, &self.indices, self.at_once);
        }
        let sizes: Vec<String> = self.arrays.iter().map(|a| a.len().to_string()).collect();
        let arrays = match sizes.as_slice() {
            [] => String::new(),
            [_] => " in 1 job array".to_owned(),
            all => format!(" in {} job arrays of {} tasks", all.len(), all.join(", ")),
        };
        let share = |n: usize| share(n, self.arrays.len());
        let at_once = match (self.at_once, self.arrays.len()) {
            (None, _) => String::new(),
            (Some(n), 0 | 1) => format!(", {n} at a time"),
            (Some(n), _) => format!(", {} of each at a time", share(n)),
        };
        format!(
            "sweep {}: {} runs{arrays}{at_once}",
            self.name,
            self.requests.len()
        )
    }

    /// The names of its runs, in order.
    fn names(&self) -> Vec<String> {
        let names = self.requests.iter().map(|r| r.inputs().run.clone());
        names.collect()
    }

    /// Looks whether a script can be made of each cell, and whether every parameter gets to the program. The scripts.
    fn check(&self, runs: &Runs, loaded: &Loaded) -> Result<Vec<String>, CommandFailure> {
        let mut scripts = Vec::new();
        for request in &self.requests {
            let files = self.files(runs, request)?;
            let entry = files.into_iter().find(|f| f.entry);
            scripts.push(entry.map_or_else(String::new, |f| f.text));
        }
        let Some(first) = self.requests.first() else {
            return Ok(scripts);
        };
        let Some(layer) = first
            .inputs()
            .layers
            .last()
            .filter(|l| !l.overrides.is_empty())
        else {
            return Ok(scripts);
        };
        let mut bare = layer.clone();
        let words: Vec<String> = bare.overrides.drain(..).map(|o| o.key).collect();
        let without = loaded.request().cell(&first.inputs().run, bare);
        if self.files(runs, &without)? == self.files(runs, first)? {
            let what = format!(
                "preset {} cannot pass on keys without a knob: {}",
                first.preset().name,
                words.join(", ")
            );
            let hint = "give the preset a knob for it, or put `overrides` into its template";
            return Err(CommandFailure::configuration(what).hint(hint));
        }
        Ok(scripts)
    }

    fn files(&self, runs: &Runs, request: &Request) -> Result<Vec<RenderedFile>, CommandFailure> {
        let mut place = preview::place(&runs.project().display().to_string(), &self.backend);
        place.run.clone_from(&request.inputs().run);
        Ok(request.render(&[], &place)?)
    }

    /// The scripts of the arrays and the files of the first cell, to look at.
    pub fn scripts(&self, runs: &Runs) -> Result<String, CommandFailure> {
        let mut text = String::new();
        for (number, array) in (1..).zip(&self.arrays) {
            let Some(first) = array.first().and_then(|cell| self.requests.get(*cell)) else {
                continue;
            };
            let files = self.files(runs, first)?;
            let Some(entry) = files.iter().find(|f| f.entry) else {
                continue;
            };
            let folder =
                SweepRecord::folder(runs.project(), &self.name)?.join(format!("array-{number}"));
            let folder = folder.display().to_string();
            let script = dispatcher(&self.name, &entry.text, &folder, &entry.name);
            let script = script.map_err(CommandFailure::configuration)?;
            let last = array.len().saturating_sub(1);
            text.push_str(&format!(
                "#### array {number}, tasks 0-{last} (submitted)\n{script}\n"
            ));
        }
        if let Some(first) = self.requests.first() {
            let name = &first.inputs().run;
            let files = preview::text(&self.files(runs, first)?);
            text.push_str(&format!("#### of {name}:\n{files}"));
        }
        Ok(text)
    }

    /// Makes every run, then the record of the sweep. Nothing is submitted before all of it is on disk.
    pub fn create(self, runs: &Runs) -> Result<(Supervisor, SweepRecord), CommandFailure> {
        let mut supervisor = runs.supervisor(&self.backend);
        if runs.is_taken(&self.name) {
            let what = format!("a sweep or run `{}` already exists", self.name);
            return Err(CommandFailure::usage(what).hint("name another one with --run"));
        }
        let names = self.names();
        let mut records = Vec::new();
        for array in &self.arrays {
            let runs = array.iter().map(|cell| names[*cell].clone()).collect();
            let at_once = self.at_once.map(|n| share(n, self.arrays.len()));
            let record = ArrayRecord::new(&self.name, runs, at_once)?;
            records.push(record.with_indices(self.indices.clone()));
        }
        let is_array = !self.indices.is_empty();
        let sweep_group = SweepGroup {
            runs: names,
            // Slurm itself holds the tasks of an array back.
            at_once: self.at_once.filter(|_| records.is_empty() || is_array),
            is_array,
        };
        allow_open(self.requests.len() as u64);
        for request in self.requests {
            let name = request.inputs().run.clone();
            supervisor.add(runs.create(&name, request)?);
        }
        let record = SweepRecord::new(&self.name, sweep_group, records);
        record.write(runs.project())?;
        supervisor.gather(runs.project(), &record);
        Ok((supervisor, record))
    }
}

/// An array of a script of the user's own, in one line.
fn array_head(name: &str, tasks: &[u32], at_once: Option<usize>) -> String {
    let at_once = at_once.map(|n| format!(", {n} at a time"));
    format!(
        "array {name}: {} tasks ({}){}; each is a run",
        tasks.len(),
        indices(tasks),
        at_once.unwrap_or_default()
    )
}

/// Reads how many cells are drawn.
pub fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|n| (1..=MOST_RUNS).contains(n));
    count.ok_or_else(|| format!("a number of cells from 1 to {MOST_RUNS}"))
}

/// Refuses more cells than this process could watch.
pub fn check_count(cells: usize, noun: &str) -> Result<(), CommandFailure> {
    let open = runs_open().map_or(MOST_RUNS, |n| usize::try_from(n).unwrap_or(MOST_RUNS));
    let (most, why) = match open < MOST_RUNS {
        true => (open, " because of the limit of open files (`ulimit -Hn`)"),
        false => (MOST_RUNS, ""),
    };
    if cells <= most {
        return Ok(());
    }
    let what = format!("{cells} {noun} would run; the limit is {most}{why}");
    let hint = match noun {
        "tasks" => "choose some with --sbatch=--array=LIST",
        _ => "choose some with --limit, --cell or --count",
    };
    Err(CommandFailure::usage(what).hint(hint))
}

/// A name for a new sweep: that of its file, or `sweep`, with the first number that is free.
pub fn new_name(runs: &Runs, loaded: &Loaded) -> Result<String, CommandFailure> {
    let file = Path::new(&loaded.path)
        .file_stem()
        .filter(|_| loaded.text.is_some());
    let stem = file.and_then(|s| s.to_str()).unwrap_or("sweep");
    runs::free_name(stem, |name| runs.is_taken(name))
}
