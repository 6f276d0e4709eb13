//! What lies around a new project: GPUs, Slurm, the active Python environment, scripts and data.

use std::path::Path;

use crate::cli::session::PROJECT_FILE;
use crate::core::adopt::version::active;
use crate::io::installed::{of_folder, variable};
use crate::io::job_scripts::is_job_script;
use crate::io::scheduler::slurm::{self, Slurm, SlurmCluster};
use oomctl_diagnose::Versions;
use oomctl_gpu::Gpu;
use oomctl_gpu::nvml::Driver;

/// Entries of a folder that are looked at.
const MOST: usize = 1_000;

/// What was found.
pub struct Surroundings {
    /// GPUs of this machine, or why none are seen.
    pub gpus: Result<Vec<Gpu>, String>,
    /// What Slurm says, or why it says nothing.
    pub slurm: Result<SlurmCluster, String>,
    /// Folder of the active Python environment, or else of one here.
    pub environment: Option<String>,
    /// What is installed in it.
    pub versions: Versions,
    /// Job scripts, programs in Python, YAML files, Parquet files and model folders, by their paths from the project.
    pub scripts: Vec<String>,
    pub programs: Vec<String>,
    pub settings: Vec<String>,
    pub data: Vec<String>,
    pub models: Vec<String>,
    /// The folder has no files of yours, or does not exist yet.
    pub is_empty_folder: bool,
}

impl Surroundings {
    /// Looks around a folder.
    pub fn of(folder: &Path) -> Self {
        let gpus = match Driver::open().and_then(|d| d.look()) {
            Ok(machine) if machine.gpus.is_empty() => Err("the driver shows none".to_owned()),
            Ok(machine) => Ok(machine.gpus),
            Err(why) => Err(why.to_string()),
        };
        let slurm = match slurm::available() {
            true => Slurm::new().cluster(),
            false => Err("none (sbatch is not on PATH); jobs run on this machine".to_owned()),
        };
        let environment = active(variable).or_else(|| beside(folder));
        let mut found = Self {
            gpus,
            slurm,
            versions: of_folder(environment.clone()),
            environment,
            scripts: Vec::new(),
            programs: Vec::new(),
            settings: Vec::new(),
            data: Vec::new(),
            models: Vec::new(),
            is_empty_folder: is_empty(folder),
        };
        found.look(folder, "");
        for below in ["data", "datasets", "models", "scripts"] {
            found.look(&folder.join(below), &format!("{below}/"));
        }
        found
    }

    fn look(&mut self, folder: &Path, before: &str) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST);
        let mut names: Vec<String> = entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
            let list = match ending {
                "py" if before.is_empty() => &mut self.programs,
                "yaml" | "yml" if before.is_empty() && name != PROJECT_FILE => &mut self.settings,
                "parquet" => &mut self.data,
                _ if is_job_script(&path) => &mut self.scripts,
                _ if path.join("config.json").is_file() => &mut self.models,
                _ => continue,
            };
            list.push(format!("{before}{name}"));
        }
    }

    /// Memory of the smallest GPU here, as a knob takes it.
    pub fn gpu_memory(&self) -> Option<String> {
        let gpus = self.gpus.as_ref().ok()?.iter();
        let smallest = gpus.map(|gpu| gpu.memory.total.0).min()?;
        Some(format!("{}MiB", smallest >> 20))
    }
}

/// A Python environment in the folder, which the job activates.
fn beside(folder: &Path) -> Option<String> {
    let mut usual = [".venv", "venv"].into_iter();
    let is_one = |name: &&str| folder.join(name).join("bin/activate").is_file();
    usual.find(is_one).map(str::to_owned)
}

/// Whether a folder has nothing but hidden files and what `init --cluster` wrote.
fn is_empty(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names = entries.filter_map(Result::ok).map(|e| e.file_name());
    names.all(|name| name == "presets" || name.to_string_lossy().starts_with('.'))
}
