//! The proposed values put into the project file.

use std::path::Path;

use crate::core::config::set_knobs;
use crate::core::recipe::Preset;
use crate::io::files::{Access, read_text, write_to};
use crate::view::{CommandFailure, print};
use oomctl_base::Value;

/// Largest project file that is edited, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Writes values into a project's file, or says what to write by hand.
pub fn write(
    path: &Path,
    preset: &Preset,
    values: &[(String, Value)],
) -> Result<(), CommandFailure> {
    if values.is_empty() {
        print::talk("nothing to write");
        return Ok(());
    }
    let shown = path.display().to_string();
    let text = match path.exists() {
        true => read_text(path, FILE_MAX)?,
        false => String::new(),
    };
    let text = set_knobs(&shown, &text, preset, values).map_err(|what| {
        CommandFailure::configuration(format!("{shown} is unchanged: {what}"))
            .hint("paste the lines under `knobs:`")
    })?;
    write_to(path, text.as_bytes(), Access::Shared)?;
    print::talk(&format!("wrote {} values into {shown}", values.len()));
    Ok(())
}
