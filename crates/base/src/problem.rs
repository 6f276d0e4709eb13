//! What is wrong with a configuration: what, where, why, and what to do next.

use crate::origin::Origin;

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What is wrong, in one sentence.
    pub what: String,
    /// Where the values that clash were given, with the knob and its value.
    pub places: Vec<ProblemPlace>,
    /// What to do next.
    pub hint: Option<String>,
}

/// A value that takes part in a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct ProblemPlace {
    /// What stands there, for people: `ppo_mini_batch_size = 100`.
    pub label: String,
    /// Where.
    pub origin: Origin,
}

impl Problem {
    /// A problem without a place.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            places: Vec::new(),
            hint: None,
        }
    }

    /// Adds a place.
    pub fn at(mut self, label: impl Into<String>, origin: Origin) -> Self {
        self.places.push(ProblemPlace {
            label: label.into(),
            origin,
        });
        self
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        let places: Vec<String> = self
            .places
            .iter()
            .map(|p| format!("{}: {}", p.origin, p.label))
            .collect();
        if !places.is_empty() {
            write!(f, " ({})", places.join("; "))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

/// Why a configuration cannot be used: every problem found, not only the first.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Refusal(pub Vec<Problem>);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// The nearest of `names` to `typed`, when it is near enough to be what was meant.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    names
        .map(|n| (strsim::damerau_levenshtein(&typed, &n.to_lowercase()), n))
        .filter(|(distance, n)| {
            let length = n.len().max(typed.len());
            *distance <= 1 + length / 4 && *distance * 2 < length
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, n)| n)
}

/// Letters of a part of a name that tell something.
const SHORTEST_PART: usize = 3;
/// Names that are proposed at most.
const MOST_NAMED: usize = 8;

/// What was meant by `typed`, as a question: those of `names` that begin with it, else the nearest, else those of which
/// it is a part.
pub fn meant<'a>(typed: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let part = typed.len() >= SHORTEST_PART;
    let beginning = names.clone().filter(|name| part && name.starts_with(typed));
    let holding = names.clone().filter(|name| part && name.contains(typed));
    one_of(beginning)
        .or_else(|| one_of(nearest(typed, names).into_iter()))
        .or_else(|| one_of(holding))
}

fn one_of<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.take(MOST_NAMED).collect();
    match names[..] {
        [] => None,
        [one] => Some(format!("did you mean {one}?")),
        _ => Some(format!("did you mean one of {}?", names.join(", "))),
    }
}
