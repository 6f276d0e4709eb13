//! Tables that are data: files of `presets/signatures`, each read when it is first asked.

use serde::de::DeserializeOwned;

/// The text of one.
macro_rules! table {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../presets/signatures/",
            $name,
            ".yaml"
        ))
    };
}
pub(crate) use table;

/// Its rows.
pub(crate) fn read<T: DeserializeOwned>(table: &str) -> T {
    serde_yaml::from_str(table).expect("a table of this program, which its tests read")
}
