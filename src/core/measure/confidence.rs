//! How far a measurement on phantoms is to be trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::context::{ContextGround, PhantomContext};

/// How sure a measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// As exact as the phantom is: nothing is known that speaks against it.
    High,
    /// The program may have taken another way, or something outside of PyTorch is unknown.
    Medium,
    /// CUDA or PyTorch did something that was never tried.
    Low,
}

/// The same with what makes it less sure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomConfidence {
    /// How sure.
    pub confidence: Confidence,
    /// What makes it less sure, in sentences without an end.
    pub less_sure: Vec<String>,
}

impl PhantomConfidence {
    /// Of a version that was never tried, the number of lines that read values back, the calls that the phantom does not know, and the
    /// context.
    pub fn new(
        untried: Option<&str>,
        lines: usize,
        unknown_calls: &[String],
        context: &PhantomContext,
    ) -> Self {
        let mut low = Vec::new();
        if !unknown_calls.is_empty() {
            low.push(format!(
                "CUDA calls without behaviour: {}",
                unknown_calls.join(" ")
            ));
        }
        if let Some(version) = untried {
            low.push(format!("PyTorch {version} was never tried"));
        }
        let mut medium = Vec::new();
        match lines {
            0 => {}
            1 => medium.push("1 line reads values back, which are not real".to_owned()),
            n => medium.push(format!("{n} lines read values back, which are not real")),
        }
        if context.ground == ContextGround::Unknown {
            medium.push("the context of this card is unknown".to_owned());
        }
        let confidence = match (low.is_empty(), medium.is_empty()) {
            (false, _) => Confidence::Low,
            (true, false) => Confidence::Medium,
            (true, true) => Confidence::High,
        };
        Self {
            confidence,
            less_sure: [low, medium].concat(),
        }
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self.confidence {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        untried: Option<&str>,
        lines: usize,
        calls: &[&str],
        context: PhantomContext,
    ) -> (&'static str, String) {
        let calls: Vec<String> = calls.iter().map(|&c| c.to_owned()).collect();
        let said = PhantomConfidence::new(untried, lines, &calls, &context);
        (said.word(), said.less_sure.join("; "))
    }

    #[test]
    fn what_was_never_tried_is_worse_than_what_was_read_back() {
        let given = PhantomContext::given(0);
        assert_eq!(said(None, 0, &[], given), ("high", String::new()));
        let one = "1 line reads values back, which are not real".to_owned();
        assert_eq!(said(None, 1, &[], given), ("medium", one));
        let (word, why) = said(None, 0, &[], PhantomContext::unknown(None));
        assert_eq!(
            (word, why.as_str()),
            ("medium", "the context of this card is unknown")
        );
        let (word, why) = said(None, 2, &["cudaFoo"], given);
        assert_eq!(word, "low");
        assert!(
            why.starts_with("CUDA calls without behaviour: cudaFoo; 2 lines"),
            "{why}"
        );
        assert_eq!(said(Some("1.13.0"), 0, &[], given).0, "low");
    }
}
