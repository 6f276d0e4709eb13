//! A field of a bare specification that cannot be used.

/// A field that is missing or makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Unknown {
    /// Its name.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

impl Unknown {
    pub(super) fn new(field: &str, why: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            why: why.into(),
        }
    }
}
