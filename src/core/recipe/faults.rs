//! What is wrong with a preset.

use std::collections::BTreeSet;

use regex::Regex;

use super::checkpoint::Checkpoint;
use super::formulas::Formulas;
use super::knob::{Knob, default_value};
use super::rung::RungSpec;
use super::stack::{AMBIENT, Preset};
use super::{expr, placed};
use oomctl_base::{Problem, nearest};

impl Preset {
    /// All of them, and `broken`: what is wrong with patterns that could not be compiled.
    pub(super) fn faults(&self, broken: &[String]) -> Vec<Problem> {
        let mut problems: Vec<_> = broken.iter().map(|what| self.fault(what)).collect();
        let mut names: BTreeSet<String> = AMBIENT.iter().map(|s| (*s).to_owned()).collect();
        for knob in &self.knobs {
            if !names.insert(knob.name.clone()) {
                problems.push(self.fault(&format!("knob {} is declared twice", knob.name)));
            }
            problems.extend(self.knob_faults(knob));
        }
        for derived in &self.derived {
            problems.extend(self.expression_faults(&derived.expr, &names, &derived.name));
            names.insert(derived.name.clone());
        }
        for (owner, text) in self.expressions() {
            problems.extend(self.expression_faults(text, &names, owner));
        }
        for rule in &self.rules {
            let texts = std::iter::once(&rule.message).chain(&rule.hint);
            problems.extend(self.long_texts(texts, &rule.name));
        }
        let of_files = placed::faults(&self.files, &self.knobs);
        problems.extend(of_files.iter().map(|what| self.fault(what)));
        let probe = self.probe.iter().flat_map(|p| p.faults(self));
        problems.extend(probe.map(|what| self.fault(&what)));
        let checkpoint = self
            .checkpoint
            .iter()
            .flat_map(|c| self.checkpoint_faults(c));
        problems.extend(checkpoint.map(|what| self.fault(&what)));
        let steps = self.tune.iter().map(|t| &t.step);
        problems.extend(self.ladder_faults(self.ladder.iter().chain(steps)));
        if self.files.is_empty() {
            let what = "it has no templates: it reads job scripts, and writes none";
            let hint =
                "`oomctl plan SCRIPT` reads yours; beside your program `oomctl init` writes one";
            problems.push(self.fault(what).hint(hint));
        } else if self.files.iter().filter(|f| f.entry).count() != 1 {
            problems.push(self.fault("exactly one of its files must be the entry"));
        }
        for pattern in &self.progress {
            if let Err(e) = Regex::new(pattern) {
                problems.push(self.fault(&format!("progress pattern: {e}")));
            }
        }
        problems
    }

    /// What is wrong with a ladder on this preset: moves without a target or of a knob that no version
    /// has, expressions that do not compile or use unknown names.
    pub fn ladder_faults<'a>(
        &self,
        ladder: impl IntoIterator<Item = &'a RungSpec>,
    ) -> Vec<Problem> {
        let mut names: BTreeSet<String> = AMBIENT.iter().map(|s| (*s).to_owned()).collect();
        names.extend(self.knobs.iter().map(|k| k.name.clone()));
        names.extend(self.derived.iter().map(|d| d.name.clone()));
        let mut problems = Vec::new();
        for rung in ladder {
            for what in rung.faults() {
                problems.push(self.fault(&format!("rung {}: {what}", rung.rung)));
            }
            for step in &rung.moves {
                let unknown = |k: &&String| !self.absent.contains_key(*k) && self.knob(k).is_none();
                if let Some(knob) = step.knob.as_ref().filter(unknown) {
                    let mut problem = self.unknown_knob(knob);
                    problem.what = format!("rung {}: {}", rung.rung, problem.what);
                    problems.push(problem);
                }
            }
            problems.extend(self.long_texts(rung.notes.iter(), &rung.rung));
            for text in rung.expressions() {
                problems.extend(self.expression_faults(text, &names, &rung.rung));
            }
        }
        problems
    }

    fn fault(&self, what: &str) -> Problem {
        Problem::new(format!("preset {}: {what}", self.name))
    }

    fn knob_faults(&self, knob: &Knob) -> Option<Problem> {
        if let Some(pattern) = &knob.pattern
            && let Err(e) = Regex::new(pattern)
        {
            return Some(self.fault(&format!("pattern of {}: {e}", knob.name)));
        }
        let default = knob.default.as_ref()?;
        let what = default_value(knob.kind, default).err()?;
        Some(self.fault(&format!("default of {}: {what}", knob.name)))
    }

    /// Every expression with the name of what it belongs to.
    pub(super) fn expressions(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> = Vec::new();
        for k in &self.knobs {
            all.extend(k.default_expr.iter().map(|e| (k.name.as_str(), e.as_str())));
            all.extend(k.render_when.iter().map(|e| (k.name.as_str(), e.as_str())));
        }
        for r in &self.rules {
            all.extend(r.when.iter().map(|e| (r.name.as_str(), e.as_str())));
            all.push((&r.name, &r.must));
        }
        let fields = self.memory.iter().flat_map(|m| &m.fields);
        all.extend(fields.map(|(field, text)| (field.as_str(), text.as_str())));
        let reasons = self.memory.iter().flat_map(|m| &m.not_for);
        all.extend(reasons.map(|r| ("not_for", r.when.as_str())));
        all.extend(self.formulas.iter().flat_map(Formulas::expressions));
        if let Some(c) = &self.checkpoint {
            all.extend(c.expressions().map(|e| ("checkpoint", e)));
        }
        all
    }

    /// Messages with values in them that are too long.
    fn long_texts<'a>(&self, texts: impl Iterator<Item = &'a String>, owner: &str) -> Vec<Problem> {
        texts
            .filter_map(|text| expr::check_length(text).err())
            .map(|what| self.fault(&format!("{owner}: {what}")))
            .collect()
    }

    fn expression_faults(&self, text: &str, known: &BTreeSet<String>, owner: &str) -> Vec<Problem> {
        if let Err(what) = expr::check_length(text) {
            return vec![self.fault(&format!("{owner}: {what}"))];
        }
        let expression = match self.env().compile_expression(text) {
            Ok(e) => e,
            Err(e) => {
                let what = expr::describe(text, &e);
                return vec![self.fault(&format!("{owner}: {what}"))];
            }
        };
        expr::names(&expression)
            .into_iter()
            .filter(|n| !self.is_known(n, known))
            .map(|n| {
                let problem = self.fault(&format!(
                    "{owner}: the expression `{text}` uses the unknown name {n}"
                ));
                match nearest(&n, known.iter().map(String::as_str)) {
                    Some(near) => problem.hint(format!("did you mean {near}?")),
                    None => problem,
                }
            })
            .collect()
    }

    fn is_known(&self, name: &str, known: &BTreeSet<String>) -> bool {
        let first = name.split('.').next().unwrap_or(name);
        known.contains(name)
            || AMBIENT.contains(&first)
            || self.absent.contains_key(name)
            || (known.contains(first) && !name.contains('.'))
            || self.env().globals().any(|(g, _)| g == first)
    }

    /// What is wrong with what it says of checkpoints.
    fn checkpoint_faults(&self, checkpoint: &Checkpoint) -> Vec<String> {
        let known =
            |name: &&String| self.absent.contains_key(*name) || self.knob(name.as_str()).is_some();
        let bound = checkpoint.bound.iter().flat_map(|b| &b.knobs);
        let disk = checkpoint.on_disk.iter();
        let set = disk.clone().flat_map(|d| d.from.iter().chain(&d.afresh));
        let named = bound.chain(set.clone().map(|(name, _)| name));
        let mut faults: Vec<String> = named
            .filter(|name| !known(name))
            .map(|name| format!("checkpoint: there is no knob named {name}"))
            .collect();
        for (name, scalar) in set {
            let kind = self.knob(name).map(|k| k.kind);
            let fault = kind.and_then(|kind| default_value(kind, scalar).err());
            faults.extend(fault.map(|what| format!("checkpoint: {name}: {what}")));
        }
        for disk in disk {
            let shard = disk.shard.iter().map(|p| (p, &["world", "rank"][..]));
            for (pattern, groups) in std::iter::once((&disk.step, &["step"][..])).chain(shard) {
                faults.extend(pattern_fault(pattern, groups));
            }
        }
        faults
    }
}

/// What is wrong with a pattern that must have these groups.
fn pattern_fault(pattern: &str, groups: &[&str]) -> Option<String> {
    let compiled = match Regex::new(pattern) {
        Ok(compiled) => compiled,
        Err(e) => return Some(format!("checkpoint: {e}")),
    };
    let missing = groups
        .iter()
        .find(|group| !compiled.capture_names().flatten().any(|n| n == **group))?;
    Some(format!("checkpoint: `{pattern}` has no group `{missing}`"))
}
