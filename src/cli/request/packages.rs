//! What is installed where the jobs of a preset run, as far as that can be read here.

use std::path::{Path, PathBuf};

use crate::core::adopt::version::{activated, active};
use crate::core::recipe::Layer;
use crate::core::request::Request;
use crate::io::installed::{PythonEnvironment, lacks_module, variable};
use oomctl_base::{Role, Value};

/// Knobs by which a job gets packages that cannot be seen here.
const ELSEWHERE: [&str; 2] = ["container_image", "modules"];
/// The knob with the lines of shell that are run before the program.
const SETUP: &str = "setup";

/// The knob with the variables of a job.
const ENVIRONMENT: &str = "environment";

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

/// The Python of a job's launcher, and the module that it is to run, where that Python lacks it here. None where the job may have
/// another Python than this shell.
pub fn missing_module(request: &Request) -> Option<(String, String)> {
    let recipe = request.recipe(&[]).ok()?;
    let given = |knob: &str| match recipe.value(knob) {
        Value::List(items) => !items.is_empty(),
        Value::Map(items) => !items.is_empty(),
        value => !value.is_null(),
    };
    let mut elsewhere = ELSEWHERE.into_iter().chain([SETUP, ENVIRONMENT]);
    if elsewhere.any(given) {
        return None;
    }
    let launcher = request.preset().with_role(Role::Launcher).next()?;
    let Value::List(words) = recipe.value(&launcher.name) else {
        return None;
    };
    let [python, option, module, ..] = words.as_slice() else {
        return None;
    };
    let module = module.split('.').next()?;
    let runs = option == "-m" && python.starts_with("python");
    (runs && lacks_module(python, module, request.workdir()))
        .then(|| (python.clone(), module.to_owned()))
}
