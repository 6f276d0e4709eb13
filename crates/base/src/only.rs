//! The one of several.

/// The one item that there is; nothing where there are more, or none.
pub fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    found.next().filter(|_| found.next().is_none())
}
