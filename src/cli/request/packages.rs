//! What is installed where the jobs of a preset run, as far as that can be read here.

use std::path::{Path, PathBuf};

use crate::core::adopt::version::{activated, active};
use crate::core::recipe::Layer;
use crate::io::installed::{PythonEnvironment, variable};
use oomctl_base::Value;

/// Knobs by which a job gets packages that cannot be seen here.
const ELSEWHERE: [&str; 2] = ["container_image", "modules"];
/// The knob with the lines of shell that are run before the program.
const SETUP: &str = "setup";

/// The environment that the job's setup activates, or else the one in which it is submitted, whose variables it gets. None
/// where a container or a module brings the packages.
pub fn environments_of_jobs(layers: &[Layer], folder: &Path) -> Vec<PythonEnvironment> {
    let given = |knob: &str| {
        let mut settings = layers.iter().rev().filter_map(|l| l.settings.get(knob));
        settings.next().map(|setting| &setting.value)
    };
    let empty =
        |value: &Value| value.is_null() || matches!(value, Value::List(items) if items.is_empty());
    if ELSEWHERE.iter().filter_map(|k| given(k)).any(|v| !empty(v)) {
        return Vec::new();
    }
    let setup = given(SETUP).map(ToString::to_string).unwrap_or_default();
    if !setup.contains("activate") {
        let active = active(variable).map(PathBuf::from);
        return active.map(PythonEnvironment::read).into_iter().collect();
    }
    let words = setup.split(|c: char| c.is_whitespace() || "[],;'\"".contains(c));
    let folders = words.filter_map(activated).map(|f| folder.join(f));
    folders.map(PythonEnvironment::read).collect()
}
