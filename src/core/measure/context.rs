//! What CUDA's context takes of a phantom card, and how that is known.

use schemars::JsonSchema;
use serde::Serialize;

use oomctl_base::units::Bytes;
use oomctl_memory::ContextSize;

/// Who says how large a context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextGround {
    /// `--context`.
    Given,
    /// Public figures of this card.
    Published,
    /// Nobody; the bounds are those of other cards.
    Unknown,
}

/// What is counted of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PhantomContext {
    /// What is counted.
    pub bytes: u64,
    /// Who says so.
    pub ground: ContextGround,
    /// The least that a real one takes, where figures are known.
    pub least_bytes: Option<u64>,
    /// The most.
    pub most_bytes: Option<u64>,
    /// CUDA's major version of the figures.
    pub cuda: Option<u32>,
}

impl PhantomContext {
    fn new(bytes: u64, ground: ContextGround, size: Option<&ContextSize>) -> Self {
        Self {
            bytes,
            ground,
            least_bytes: size.map(|s| s.least_bytes),
            most_bytes: size.map(|s| s.most_bytes),
            cuda: size.and_then(|s| s.cuda),
        }
    }

    /// As somebody asked for.
    pub fn given(bytes: u64) -> Self {
        Self::new(bytes, ContextGround::Given, None)
    }

    /// The most that was published, so that what fits there fits on a card.
    pub fn published(size: &ContextSize) -> Self {
        Self::new(size.most_bytes, ContextGround::Published, Some(size))
    }

    /// Nothing, beside what other cards need.
    pub fn unknown(of_any: Option<&ContextSize>) -> Self {
        Self::new(0, ContextGround::Unknown, of_any)
    }

    /// What is counted and how sure that is, in a sentence; `cuda` is the version that the program has, where that is known.
    pub fn sentence(&self, cuda: Option<&str>) -> String {
        let gib = |bytes: u64| format!("{:.2}", Bytes(bytes).gib());
        let bounds = self.least_bytes.zip(self.most_bytes);
        let bounds = bounds.map(|(least, most)| match least == most {
            true => format!("{} GiB", gib(least)),
            false => format!("{} to {} GiB", gib(least), gib(most)),
        });
        let bounds = bounds.unwrap_or_else(|| "an unknown amount".to_owned());
        let counted = gib(self.bytes);
        match self.ground {
            ContextGround::Given => {
                format!("CUDA's context: {counted} GiB counted, as --context says")
            }
            ContextGround::Published => {
                let of = self
                    .cuda
                    .map_or(String::new(), |n| format!(" with CUDA {n}"));
                let major = cuda.and_then(|v| v.split('.').next()?.parse::<u32>().ok());
                let other = match (major, self.cuda) {
                    (Some(own), Some(theirs)) if own != theirs => {
                        format!("; not known for CUDA {own}")
                    }
                    _ => String::new(),
                };
                format!("CUDA's context: {counted} GiB counted; published: {bounds}{of}{other}")
            }
            ContextGround::Unknown => format!(
                "CUDA's context is unknown for this card and not counted: it takes {bounds} of other cards. --context SIZE counts it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_what_is_counted_and_how_that_is_known() {
        let size = ContextSize {
            cuda: Some(12),
            least_bytes: 1 << 29,
            most_bytes: 3 << 28,
        };
        let published = PhantomContext::published(&size);
        assert_eq!(published.bytes, 3 << 28);
        assert_eq!(
            published.sentence(Some("12.8")),
            "CUDA's context: 0.75 GiB counted; published: 0.50 to 0.75 GiB with CUDA 12"
        );
        let other = published.sentence(Some("13.2"));
        assert!(
            other.ends_with("with CUDA 12; not known for CUDA 13"),
            "{other}"
        );
        let unknown = PhantomContext::unknown(Some(&size));
        assert_eq!(unknown.bytes, 0);
        let said = unknown.sentence(None);
        assert!(
            said.contains("unknown for this card and not counted: it takes 0.50 to 0.75 GiB"),
            "{said}"
        );
        let given = PhantomContext::given(0).sentence(None);
        assert_eq!(given, "CUDA's context: 0.00 GiB counted, as --context says");
    }
}
