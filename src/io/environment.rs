//! The environment of this process.

use std::collections::BTreeMap;

/// The variables that are text.
pub fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect()
}
