//! The cells of a sweep as runs: their names, their requests, and their folders.

use std::path::Path;

use super::super::print::Failure;
use super::super::sweep_source::Loaded;
use super::super::{render, runs, submit, sweeps};
use crate::core::render::RenderedFile;
use crate::core::supervise::{Flock, Limits, Request};
use crate::core::sweep::{Judge, Selection, cell_layer};
use crate::drive::{Supervisor, SweepRecord};

/// Runs that one sweep may have: each is a folder, and an open file while it is watched.
const MOST_RUNS: usize = 900;

/// The runs of a sweep, before there is anything of them on disk.
pub struct Plan {
    /// Name of the sweep.
    pub name: String,
    /// A request for each cell that is run, in order.
    pub requests: Vec<Request>,
    /// How many may be under way at a time.
    pub at_once: Option<usize>,
    backend: String,
}

impl Plan {
    /// Makes a request of each cell, and looks whether a script can be made of it.
    pub fn new(
        project: &Path,
        name: &str,
        loaded: &Loaded,
        judge: &Judge<'_>,
        selection: &Selection,
        max_running: Option<u32>,
        attempts: Option<u32>,
    ) -> Result<Self, Failure> {
        let cells = selection.run.len();
        if cells > MOST_RUNS {
            let what = format!("{cells} cells would run; the limit is {MOST_RUNS}");
            return Err(Failure::new(2, what).hint("--limit or --cell choose some of them"));
        }
        let mut base = loaded.request().clone();
        if let Some(attempts) = attempts {
            let limits = base.inputs().limits.clone();
            base = base.with_limits(Limits { attempts, ..limits });
        }
        let backend = base.inputs().backend.clone();
        let width = cells.to_string().len();
        let mut requests = Vec::new();
        for (number, chosen) in (1..).zip(&selection.run) {
            let layer = cell_layer(&loaded.sweep, judge, &chosen.cell, &loaded.path);
            requests.push(base.cell(&format!("{name}.{number:0width$}"), layer));
        }
        let plan = Self {
            name: name.to_owned(),
            at_once: match (max_running, backend.as_str()) {
                (Some(most), _) => usize::try_from(most).ok(),
                (None, "local") => Some(1),
                (None, _) => None,
            },
            requests,
            backend,
        };
        plan.check(project, loaded)?;
        Ok(plan)
    }

    /// The names of its runs, in order.
    pub fn names(&self) -> Vec<String> {
        let names = self.requests.iter().map(|r| r.inputs().run.clone());
        names.collect()
    }

    /// Looks whether every parameter gets to the program.
    fn check(&self, project: &Path, loaded: &Loaded) -> Result<(), Failure> {
        for request in &self.requests {
            self.files(project, request)?;
        }
        let Some(first) = self.requests.first() else {
            return Ok(());
        };
        let Some(layer) = first
            .inputs()
            .layers
            .last()
            .filter(|l| !l.overrides.is_empty())
        else {
            return Ok(());
        };
        let mut bare = layer.clone();
        let words: Vec<String> = bare.overrides.drain(..).map(|o| o.key).collect();
        let without = loaded.request().cell(&first.inputs().run, bare);
        if self.files(project, &without)? == self.files(project, first)? {
            let what = format!(
                "preset {} hands nothing over that it has no knob for: {}",
                first.preset().name,
                words.join(", ")
            );
            let hint = "give the preset a knob for it, or put `overrides` into its template";
            return Err(Failure::new(5, what).hint(hint));
        }
        Ok(())
    }

    fn files(&self, project: &Path, request: &Request) -> Result<Vec<RenderedFile>, Failure> {
        let place = render::preview(&project.display().to_string(), &self.backend);
        Ok(request.render(&[], &place)?)
    }

    /// The script of the first cell, to look at.
    pub fn scripts(&self, project: &Path) -> Result<String, Failure> {
        let Some(first) = self.requests.first() else {
            return Ok(String::new());
        };
        Ok(render::text(&self.files(project, first)?))
    }

    /// Makes every run, then the record of the sweep. Nothing is submitted before all of it is on disk.
    pub fn create(self, project: &Path) -> Result<(Supervisor, SweepRecord), Failure> {
        let mut supervisor = runs::supervisor(&self.backend, project);
        if sweeps::is_taken(project, &self.name) {
            let what = format!("a sweep or run `{}` exists already", self.name);
            return Err(Failure::new(2, what).hint("name another one with --run"));
        }
        let flock = Flock {
            runs: self.names(),
            at_once: self.at_once,
        };
        for request in self.requests {
            let name = request.inputs().run.clone();
            supervisor.add(submit::create(project, &name, request)?);
        }
        let record = SweepRecord::new(&self.name, flock);
        record.write(project)?;
        supervisor.gather(record.clone());
        Ok((supervisor, record))
    }
}

/// A name for a new sweep: that of its file, or `sweep`, with the first number that is free.
pub fn new_name(project: &Path, loaded: &Loaded) -> Result<String, Failure> {
    let file = Path::new(&loaded.path)
        .file_stem()
        .filter(|_| loaded.text.is_some());
    let stem = file.and_then(|s| s.to_str()).unwrap_or("sweep");
    runs::free_name(stem, |name| sweeps::is_taken(project, name))
}
