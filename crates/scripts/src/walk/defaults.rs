//! Defaults of variables (`${BS:-16}`) that the environment of a job may have set.

use super::Walker;
use super::doc::Doc;
use crate::settings::SettingsFormat;
use crate::shell;
use crate::traced::{Traced, Why};

impl Walker<'_> {
    /// What counts where a variable has no value. Where the environment `may` have set it to another number or other options,
    /// nobody knows.
    pub(super) fn default(
        &mut self,
        variable: &shell::ParameterExpansion,
        other: &[shell::WordPiece],
        may: bool,
        doc: &Doc,
    ) -> Traced {
        let default = self.text_of(other, doc);
        let text = default.text();
        if !may || !is_setting(&text) {
            return default;
        }
        self.out.open.insert(variable.name.clone(), text);
        doc.code(variable.start, variable.end, Why::Environment)
    }
}

/// Whether a default is a number, a truth value, options, a file of such, or nothing, and no other path or name.
fn is_setting(text: &str) -> bool {
    let text = text.trim();
    let is_file =
        SettingsFormat::of(text).is_some() || text.ends_with(".env") || text.ends_with(".sh");
    let truth = ["true", "false", "yes", "no", "on", "off"];
    text.is_empty()
        || is_file
        || text.starts_with('-')
        || text.parse::<f64>().is_ok()
        || truth.contains(&&*text.to_lowercase())
}
