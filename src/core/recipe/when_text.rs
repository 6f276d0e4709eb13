//! Why a rung is not for a configuration: a reason for its condition, or one for each part of it.

use schemars::JsonSchema;
use serde::Deserialize;

/// Why a rung is not for a configuration.
#[derive(Debug, Clone, PartialEq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WhenText {
    /// One reason.
    One(String),
    /// One for each part of the condition.
    Each(Vec<String>),
}

impl WhenText {
    /// Whether there are as many reasons as parts of the condition.
    pub(super) fn suits(&self, when: &str) -> bool {
        match self {
            Self::One(_) => true,
            Self::Each(texts) => texts.len() == parts(when).len(),
        }
    }

    /// All of them, for one whose values are unknown.
    pub fn all(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Each(texts) => texts.join(", or "),
        }
    }

    /// Whether this is a reason of it, or all of them.
    pub fn has(&self, reason: &str) -> bool {
        let each = matches!(self, Self::Each(texts) if texts.iter().any(|text| text == reason));
        each || self.all() == reason
    }

    /// The reason for a condition that does not hold. `holds` tells it of a part.
    pub fn of(&self, when: &str, holds: impl Fn(&str) -> bool) -> String {
        let Self::Each(texts) = self else {
            return self.all();
        };
        let parts = parts(when).into_iter().zip(texts);
        let mut false_ones = parts.filter(|(part, _)| !holds(part));
        false_ones
            .next()
            .map_or_else(|| self.all(), |(_, text)| text.clone())
    }
}

/// The parts of an expression that `and` joins, outside brackets and quotes. One with `or` outside them is one part.
fn parts(when: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, c) in when.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ' ') if depth == 0 && when[at..].starts_with(" or ") => return vec![when],
            (None, ' ') if depth == 0 && when[at..].starts_with(" and ") => {
                parts.push(&when[start..at]);
                start = at + " and ".len();
            }
            _ => {}
        }
    }
    parts.push(&when[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_that_of_the_first_part_that_does_not_hold() {
        let when = "a > 1 and (b and c) and f(\"x and y\") and not d";
        let texts = ["one", "two", "three", "four"].map(str::to_owned);
        let text = WhenText::Each(texts.to_vec());
        assert!(text.suits(when));
        assert_eq!(text.of(when, |part| part != "(b and c)"), "two");
        assert_eq!(text.of(when, |part| part != "not d"), "four");
        assert_eq!(text.of(when, |_| true), "one, or two, or three, or four");
        assert!(!text.suits("a and b"));
        assert!(!text.suits("a and b or c and d"));
        let one = WhenText::One("why".to_owned());
        assert!(one.suits("a and b"));
        assert_eq!(one.of("a and b", |_| false), "why");
    }
}
