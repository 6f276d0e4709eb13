//! Why one GPU was full, for an attempt of a run: with the configuration that it had.

use std::path::Path;

use super::Group;
use crate::cli::runs;
use crate::core::diagnose::Incident;
use crate::core::recipe::Layer;
use crate::core::supervise::Explanation;
use crate::drive::explained;

/// The explanation of an attempt's incident; `None` for logs that are of no run, and where nothing is explained.
pub fn why(project: &Path, group: &Group, incident: &Incident) -> Option<Explanation> {
    let (run, number) = group.attempt.as_ref()?;
    let stored = runs::open(project, run).ok()?;
    let request = runs::request(&stored.folder).ok()?;
    let attempts = &stored.history.attempts;
    let before = attempts.iter().take_while(|a| a.number < *number);
    let rungs: Vec<Layer> = before.flat_map(|a| a.layers()).collect();
    let attempt = attempts.iter().find(|a| a.number == *number)?;
    explained(&request, &rungs, incident, &attempt.measured)
}
