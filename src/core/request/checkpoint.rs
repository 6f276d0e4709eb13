//! What a run can go on from: the checkpoints that lie there, looked at before an attempt is told to use one.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::request::Request;
use crate::core::recipe::{CHOSEN, Layer, LayerKind, OnDisk, Scalar, Shape, default_value, expr};
use oomctl_base::{Origin, Problem, Role, Value};

/// Exit code of a script that stopped its program before the time limit, as timeout(1) has it.
const STOPPED_EARLY: i32 = 124;

/// Where checkpoints lie, for a look at them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointDirectory {
    /// The folder, absolute or relative to the working directory.
    pub folder: String,
    /// The file in it that names the newest step, where there is one.
    pub newest: Option<String>,
}

/// What lies in a folder of checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The folder, absolute.
    pub folder: String,
    /// Files below it, relative, with `/` between the parts, and their bytes.
    pub files: BTreeMap<String, u64>,
    /// What the file says that names the newest step.
    pub newest: Option<String>,
}

/// How an attempt goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumption {
    /// What must be set for that, above the rungs; `None` where the program does it by itself.
    pub layer: Option<Layer>,
    /// What is told about it.
    pub text: String,
}

/// A checkpoint that lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Saved {
    name: String,
    step: u64,
    /// Why it cannot be loaded.
    fault: Option<String>,
}

impl Request {
    /// Where the checkpoints lie that the configuration with these rungs would go on from; `None` where it would from
    /// none, or that is not known.
    pub fn shelf(&self, rungs: &[Layer]) -> Option<CheckpointDirectory> {
        // Whether a command goes on from a checkpoint is the user's to say.
        let disk = self.on_disk().filter(|_| self.command().is_none())?;
        let shape = self.shape(rungs).ok()?;
        let env = self.preset().env();
        if !expr::holds(env, &disk.used_when, shape.scope()).ok()? {
            return None;
        }
        let folder = expr::evaluate(env, &disk.folder, shape.scope()).ok()?;
        let folder = folder.as_str()?.to_owned();
        let local = !folder.is_empty() && !folder.contains("://");
        local.then(|| CheckpointDirectory {
            folder,
            newest: disk.newest.clone(),
        })
    }

    /// How attempt number `attempt`, with these rungs, goes on from what lies in its folder of checkpoints, or from the
    /// checkpoint that the run was asked to begin with; `None` where neither gives one. What lies there before the first
    /// attempt is not the run's own.
    pub fn resumption(
        &self,
        rungs: &[Layer],
        listing: Option<&Listing>,
        attempt: u32,
    ) -> Option<Resumption> {
        let own = listing.filter(|_| attempt > 1);
        own.and_then(|listing| self.goes_on(rungs, listing, attempt))
            .or_else(|| self.begins_with(attempt))
    }

    /// The newest checkpoint of a listing, by name.
    pub fn newest(&self, listing: &Listing) -> Option<String> {
        let saved = saved(self.on_disk()?, listing, None)?;
        Some(saved.first()?.name.clone())
    }

    /// The same request for a run that begins with this checkpoint, an absolute folder.
    ///
    /// # Errors
    /// Where the preset does not say how to go on from a checkpoint, or the folder has no checkpoint's name.
    pub fn resuming_from(mut self, folder: &str) -> Result<Self, Problem> {
        let Some(disk) = self.on_disk() else {
            let preset = &self.preset().name;
            return Err(Problem::new(format!(
                "preset {preset} does not say how to resume from a checkpoint"
            )));
        };
        let name = folder.rsplit('/').next().unwrap_or(folder);
        let pattern = Regex::new(&format!("^(?:{})$", disk.step)).ok();
        if !pattern.is_some_and(|p| p.is_match(name)) {
            let step = &disk.step;
            return Err(Problem::new(format!(
                "{folder} is not a checkpoint: its name does not match {step}"
            )));
        }
        self.inputs_mut().resume_from = Some(folder.to_owned());
        Ok(self)
    }

    fn begins_with(&self, attempt: u32) -> Option<Resumption> {
        let folder = self.inputs().resume_from.as_ref()?;
        Some(Resumption {
            layer: Some(self.set(&self.on_disk()?.from, folder, attempt)?),
            text: format!("resumes from {folder} (--resume-from)"),
        })
    }

    fn goes_on(&self, rungs: &[Layer], listing: &Listing, attempt: u32) -> Option<Resumption> {
        let disk = self.on_disk()?;
        let shape = self.shape(rungs).ok()?;
        let saved = saved(disk, listing, self.world(disk, &shape))?;
        let wanted = match (&disk.newest, &listing.newest) {
            (None, _) => saved.first().map(|s| s.step),
            (Some(_), told) => told.as_ref().and_then(|t| t.trim().parse().ok()),
        };
        let newest = saved.iter().find(|s| Some(s.step) == wanted);
        let sound = saved
            .iter()
            .filter(|s| s.fault.is_none() && wanted.is_none_or(|w| s.step <= w))
            .max_by_key(|s| s.step);
        let because = match newest {
            Some(newest) => match &newest.fault {
                None => {
                    let text = format!("resumes from step {} ({})", newest.step, newest.name);
                    return Some(Resumption { layer: None, text });
                }
                Some(fault) => format!("{} cannot be loaded: {fault}", newest.name),
            },
            None => match (&wanted, &disk.newest) {
                (Some(step), Some(file)) => {
                    format!("{file} names step {step}, which does not exist")
                }
                (None, Some(file)) => format!("{file} is missing"),
                (_, None) => return None,
            },
        };
        let (set, text) = match sound {
            Some(older) => {
                let path = format!("{}/{}", listing.folder, older.name);
                let text = format!(
                    "resumes from step {} ({}): {because}",
                    older.step, older.name
                );
                (self.set(&disk.from, &path, attempt)?, text)
            }
            None => {
                let text = format!("starts at step 0: {because}{}", self.cost());
                (self.set(&disk.afresh, "", attempt)?, text)
            }
        };
        Some(Resumption {
            layer: Some(set),
            text,
        })
    }

    /// Does this exit code say that the script stopped the program before its time limit?
    pub fn is_early_stop(&self, rungs: &[Layer], code: i32) -> bool {
        let stops = |shape: Shape| matches!(shape.recipe().value("signal"), Value::Text(signal) if signal.starts_with("B:"));
        code == STOPPED_EARLY && self.shape(rungs).is_ok_and(stops)
    }

    /// Does a later attempt go on from a checkpoint of one with these rungs?
    pub fn resumes(&self, rungs: &[Layer]) -> bool {
        let Some(checkpoint) = &self.preset().checkpoint else {
            return false;
        };
        let written = |shape: Shape| {
            let env = self.preset().env();
            expr::holds(env, &checkpoint.written_when, shape.scope()).unwrap_or(false)
        };
        self.shape(rungs).is_ok_and(written)
    }

    /// Has an attempt with these rungs written a checkpoint by then, as far as its interval is known?
    pub fn has_checkpoint(&self, rungs: &[Layer], steps: u64) -> bool {
        let reached = |interval: f64| interval >= 1.0 && interval <= steps as f64;
        let interval = self.number_with_role(rungs, Role::CheckpointInterval);
        self.resumes(rungs) && interval.is_none_or(reached)
    }

    /// Are responses sampled, so that an attempt which goes on from a checkpoint meets other lengths? A fixed set of data
    /// comes in the same order again.
    pub fn samples_responses(&self, rungs: &[Layer]) -> bool {
        self.number_with_role(rungs, Role::ResponseLength).is_some()
    }

    fn number_with_role(&self, rungs: &[Layer], role: Role) -> Option<f64> {
        let shape = self.shape(rungs).ok()?;
        let knobs = self.preset().with_role(role);
        let mut numbers = knobs.filter_map(|k| shape.recipe().value(&k.name).number(k.kind));
        numbers.next()
    }

    fn on_disk(&self) -> Option<&OnDisk> {
        self.preset().checkpoint.as_ref()?.on_disk.as_ref()
    }

    /// The number of shards that the configuration loads, where one of another number would not do.
    fn world(&self, disk: &OnDisk, shape: &Shape) -> Option<u64> {
        let env = self.preset().env();
        let checkpoint = self.preset().checkpoint.as_ref()?;
        let survives = checkpoint.survives_resharding.as_deref();
        let any = survives.is_some_and(|e| expr::holds(env, e, shape.scope()).unwrap_or(true));
        let world = disk.world.as_deref().filter(|_| !any)?;
        let world = expr::evaluate(env, world, shape.scope()).ok()?;
        u64::try_from(world.as_i64()?).ok()
    }

    /// What beginning anew loses, as the preset says it.
    fn cost(&self) -> String {
        let checkpoint = self.preset().checkpoint.as_ref();
        let lost = checkpoint.and_then(|c| c.lost.as_ref());
        lost.map_or_else(String::new, |lost| format!("; lost: {lost}"))
    }

    fn set(&self, knobs: &BTreeMap<String, Scalar>, path: &str, attempt: u32) -> Option<Layer> {
        let mut layer = Layer::new(LayerKind::Rung);
        for (name, scalar) in knobs {
            let scalar = match scalar {
                Scalar::Text(text) => Scalar::Text(text.replace("{path}", path)),
                other => other.clone(),
            };
            let knob = self.preset().knob(name)?;
            let value = default_value(knob.kind, &scalar).ok()?;
            let origin = Origin::Rung {
                rung: CHOSEN.to_owned(),
                attempt,
            };
            layer.set(&knob.name, value, origin);
        }
        (!layer.settings.is_empty()).then_some(layer)
    }
}

/// The checkpoints of a listing, newest first; `None` where the preset's patterns are none.
fn saved(disk: &OnDisk, listing: &Listing, world: Option<u64>) -> Option<Vec<Saved>> {
    let step = Regex::new(&format!("^(?:{})$", disk.step)).ok()?;
    let shard = disk
        .shard
        .as_ref()
        .map(|p| Regex::new(&format!("^(?:{p})$")));
    let shard = shard.transpose().ok()?;
    let mut folders: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (path, bytes) in &listing.files {
        if let Some((name, rest)) = path.split_once('/') {
            folders.entry(name).or_default().insert(rest, *bytes);
        }
    }
    let mut found: Vec<Saved> = folders
        .iter()
        .filter_map(|(name, files)| {
            let number = step.captures(name)?.name("step")?.as_str().parse().ok()?;
            Some(Saved {
                name: (*name).to_owned(),
                step: number,
                fault: fault(disk, shard.as_ref(), files, world),
            })
        })
        .collect();
    found.sort_by_key(|s| std::cmp::Reverse(s.step));
    Some(found)
}

/// Why a checkpoint with these files cannot be loaded by so many processes.
fn fault(
    disk: &OnDisk,
    shard: Option<&Regex>,
    files: &BTreeMap<&str, u64>,
    world: Option<u64>,
) -> Option<String> {
    let here = |name: &str| files.get(name).is_some_and(|bytes| *bytes > 0);
    if let Some(missing) = disk.needs.iter().find(|name| !here(name)) {
        return Some(format!("{missing} is missing or empty"));
    }
    let shard = shard?;
    let mut kinds: BTreeMap<(u64, &str), BTreeSet<u64>> = BTreeMap::new();
    for (path, bytes) in files {
        let Some(part) = shard.captures(path) else {
            continue;
        };
        let number = |name| part.name(name).and_then(|m| m.as_str().parse::<u64>().ok());
        let (Some(of), Some(rank)) = (number("world"), number("rank")) else {
            continue;
        };
        let kind = part.name("kind").map_or("", |m| m.as_str());
        let ranks = kinds.entry((of, kind)).or_default();
        if *bytes > 0 {
            ranks.insert(rank);
        }
    }
    let Some(of) = kinds.keys().map(|(of, _)| *of).max() else {
        return Some("it has no shards".to_owned());
    };
    if let Some(world) = world.filter(|world| *world != of) {
        return Some(format!("it has {of} shards, and {world} GPUs load {world}"));
    }
    kinds.iter().find_map(|((of, kind), ranks)| {
        let whole = u64::try_from(ranks.len()).is_ok_and(|n| n == *of);
        let what = if kind.is_empty() { "shards" } else { kind };
        (!whole).then(|| format!("only {} of its {of} {what} exist", ranks.len()))
    })
}

#[cfg(test)]
#[path = "tests/checkpoint.rs"]
mod tests;
