//! What is installed in a Python environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::core::adopt::version::active;
use crate::core::ladder::JobEnvironment;
use crate::core::recipe::RungSpec;
use crate::io::scheduler::command::{CommandCall, CommandEnd, SearchPath, run};
use oomctl_diagnose::{Versions, same_package};

/// Packages of an environment that are looked at.
const MOST: usize = 4_096;
/// The file that says how a virtual environment was made.
const CONFIG: &str = "pyvenv.cfg";
/// Its key for whether packages of the system, and of the user, can be imported too. Source: Python's documentation of `site`.
const SYSTEM: &str = "include-system-site-packages";

/// An environment with what is installed in it.
pub struct PythonEnvironment {
    folder: PathBuf,
    /// The folders in which packages lie, with the names of what is in them; none where it is no environment, or cannot be
    /// read.
    pub packages: Vec<(PathBuf, Vec<String>)>,
}

impl PythonEnvironment {
    /// What lies in this folder now.
    pub fn read(folder: PathBuf) -> Self {
        let pythons = names(&folder.join("lib")).into_iter();
        let pythons = pythons.filter(|name| name.starts_with("python3"));
        let packages = pythons.map(|name| folder.join("lib").join(name).join("site-packages"));
        let packages = packages.map(|folder| (folder.clone(), names(&folder)));
        Self {
            packages: packages.collect(),
            folder,
        }
    }

    /// The names of all that can be imported in it; `None` where they are not all known.
    fn importable(&self) -> Option<Vec<String>> {
        let config = std::fs::read_to_string(self.folder.join(CONFIG)).unwrap_or_default();
        let set = |line: &str, value: &str| {
            let (key, given) = line.split_once('=').unwrap_or_default();
            key.trim() == SYSTEM && given.trim().eq_ignore_ascii_case(value)
        };
        if config.lines().any(|line| set(line, "true")) {
            return None;
        }
        // Without that word Python also looks into the user's own folder.
        let own = match config.lines().any(|line| set(line, "false")) {
            true => Vec::new(),
            false => Self::read(Path::new(&variable("HOME")?).join(".local")).packages,
        };
        let names = self
            .packages
            .iter()
            .chain(&own)
            .flat_map(|(_, names)| names);
        let names: Vec<String> = names.map(|name| distribution(name).to_owned()).collect();
        (names.len() < MOST && names.iter().any(|name| name == "torch")).then_some(names)
    }
}

/// The versions that the names of their packages tell.
pub fn versions(environments: &[PythonEnvironment]) -> Versions {
    let mut versions = Versions::default();
    for (_, names) in environments.iter().flat_map(|e| &e.packages) {
        versions.or(&Versions::installed(names));
    }
    versions
}

/// Those of the environment that is active here; none where none is.
pub fn active_here() -> Versions {
    of_folder(active(variable))
}

/// Those of the environment in a folder, if there is one.
pub fn of_folder(folder: Option<String>) -> Versions {
    let environment = folder.map(PathBuf::from).map(PythonEnvironment::read);
    versions(&Vec::from_iter(environment))
}

/// A variable of this process.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What the rungs need and the environments lack. `None` where that cannot be told: an environment without PyTorch is not the
/// one that trains, and one that sees packages of the system may find them there.
pub fn lacking(environments: &[PythonEnvironment], ladder: &[RungSpec]) -> Option<JobEnvironment> {
    let (mut names, mut folders) = (Vec::new(), Vec::new());
    for environment in environments {
        names.extend(environment.importable()?);
        folders.push(environment.folder.display().to_string());
    }
    if folders.is_empty() {
        return None;
    }
    let has = |package: &str| names.iter().any(|name| same_package(name, package));
    let needed = ladder.iter().flat_map(|rung| &rung.packages);
    Some(JobEnvironment {
        folder: folders.join(", "),
        lacking: needed.filter(|package| !has(package)).cloned().collect(),
    })
}

/// Whether a Python of this shell is there and cannot find a module, in a folder.
pub fn lacks_module(python: &str, module: &str, folder: &Path) -> bool {
    const ABSENT: i32 = 3;
    let code = format!(
        "import importlib.util as u, sys; sys.exit({ABSENT} if u.find_spec(sys.argv[1]) is None else 0)"
    );
    let path = std::env::var_os("PATH").map(SearchPath::Path);
    let Some(program) = path.and_then(|path| path.locate(python)) else {
        return false;
    };
    let call = CommandCall {
        program,
        arguments: ["-c", &code, module].map(OsString::from).to_vec(),
        environment: std::env::vars_os().collect(),
        folder: Some(folder.to_owned()),
        deadline: Duration::from_secs(5),
    };
    run(&call).end == CommandEnd::Exited(ABSENT)
}

/// The name of a package from that of its folder (`liger_kernel-0.6.2.dist-info`).
fn distribution(name: &str) -> &str {
    let info = [".dist-info", ".egg-info", ".egg-link"];
    let info = info.iter().find_map(|end| name.strip_suffix(end));
    info.map_or(name, |known| known.split('-').next().unwrap_or(known))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST);
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    names.collect()
}
