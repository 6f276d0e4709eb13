//! Runs that belong together: what they are told of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::notice::Observer;
use super::record::SweepRecord;
use super::supervisor::Supervisor;
use crate::core::engine::{Event, History, observations, prune};
use crate::core::learn::LearnedEntries;

impl Supervisor {
    /// Says that runs which were added are a sweep of this project.
    pub fn gather(&mut self, project: &Path, record: &SweepRecord) {
        self.take_arrays(project, record);
        let group = record.sweep_group.clone();
        self.sweep_groups.insert(record.sweep.clone(), group);
    }

    /// What a command has to name to mean all of them: sweeps, and runs that belong to none.
    pub fn names(&self) -> Vec<&str> {
        let members = self.sweep_groups.values().flat_map(|group| &group.runs);
        let members: BTreeSet<&String> = members.collect();
        let alone = self.runs.keys().filter(|name| !members.contains(name));
        let sweeps = self.sweep_groups.keys();
        sweeps.chain(alone).map(String::as_str).collect()
    }

    /// Are there runs that belong together?
    pub fn is_sweep(&self) -> bool {
        !self.sweep_groups.is_empty()
    }

    /// Looks which runs must wait for others.
    pub(super) fn hold(&mut self) {
        for sweep_group in self.sweep_groups.values() {
            let known: BTreeMap<&str, &History> = self
                .runs
                .values()
                .filter(|h| h.error.is_none())
                .map(|h| (h.name(), h.history()))
                .collect();
            let held = sweep_group.held(&known);
            for name in &sweep_group.runs {
                if let Some(handle) = self.runs.get_mut(name) {
                    handle.held = held.contains(name);
                }
            }
        }
    }

    /// Tells the runs that have not begun what became of others, whenever something did.
    pub(super) fn prune(&mut self, observer: &mut dyn Observer) {
        let members = || self.sweep_groups.values().flat_map(|group| &group.runs);
        let attempts = members().filter_map(|name| self.runs.get(name));
        let attempts = attempts.flat_map(|h| &h.history().attempts);
        let decided = attempts.filter(|a| a.verdict.is_some()).count();
        if decided == self.decided {
            return;
        }
        self.decided = decided;
        let mut infeasible = Vec::new();
        for sweep_group in self.sweep_groups.values() {
            let runs = || {
                sweep_group
                    .runs
                    .iter()
                    .filter_map(|name| self.runs.get(name))
            };
            let memory = LearnedEntries::new(runs().flat_map(|h| observations(&h.run)).collect());
            if memory.entries().iter().all(|e| e.fitted()) {
                continue;
            }
            for handle in runs().filter(|h| h.is_open()) {
                let run = &handle.run;
                let why = prune(&run.request, &run.history, &memory);
                infeasible.extend(why.map(|why| (handle.name().to_owned(), why)));
            }
        }
        let now = self.now();
        for (name, (by, reason)) in infeasible {
            self.hand_in(
                &name,
                &Event::ProvenInfeasible { by, reason },
                now,
                observer,
            );
        }
    }
}
