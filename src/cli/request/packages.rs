//! What is installed where the jobs of a preset run, as far as that can be read here.

use std::path::Path;

use crate::core::adopt::version::activated;
use crate::core::recipe::Layer;
use crate::io::installed::{active_here, versions};
use oomctl_base::Value;
use oomctl_diagnose::Versions;

/// Knobs by which a job gets packages that cannot be seen here.
const ELSEWHERE: [&str; 2] = ["container_image", "modules"];
/// The knob with the lines of shell that are run before the program.
const SETUP: &str = "setup";

/// The versions in the environment that the job's setup activates, or else in the one in which it is submitted, whose variables it
/// gets. Nothing is said of what a container or a module brings.
pub fn of_jobs(layers: &[Layer], folder: &Path) -> Versions {
    let given = |knob: &str| {
        let mut settings = layers.iter().rev().filter_map(|l| l.settings.get(knob));
        settings.next().map(|setting| &setting.value)
    };
    let empty =
        |value: &Value| value.is_null() || matches!(value, Value::List(items) if items.is_empty());
    if ELSEWHERE.iter().filter_map(|k| given(k)).any(|v| !empty(v)) {
        return Versions::default();
    }
    let setup = given(SETUP).map(ToString::to_string).unwrap_or_default();
    if !setup.contains("activate") {
        return active_here();
    }
    let words = setup.split(|c: char| c.is_whitespace() || "[],;'\"".contains(c));
    let mut all = Versions::default();
    for environment in words.filter_map(activated) {
        all.or(&versions(&folder.join(environment)));
    }
    all
}
