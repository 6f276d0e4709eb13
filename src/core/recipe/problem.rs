//! What is wrong with a configuration: what, where, why, and what to do next.

use super::layer::Origin;

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What is wrong, in one sentence.
    pub what: String,
    /// Where the values that clash were given, with the knob and its value.
    pub places: Vec<Place>,
    /// What to do next.
    pub hint: Option<String>,
}

/// A value that takes part in a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// What stands there, for people: `ppo_mini_batch_size = 100`.
    pub label: String,
    /// Where.
    pub origin: Origin,
}

impl Problem {
    /// A problem without a place.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            places: Vec::new(),
            hint: None,
        }
    }

    /// Adds a place.
    #[must_use]
    pub fn at(mut self, label: impl Into<String>, origin: Origin) -> Self {
        self.places.push(Place {
            label: label.into(),
            origin,
        });
        self
    }

    /// Adds what to do next.
    #[must_use]
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
#[must_use]
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    names
        .map(|n| (strsim::damerau_levenshtein(&typed, &n.to_lowercase()), n))
        .filter(|(distance, n)| *distance <= 1 + n.len().max(typed.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, n)| n)
}
