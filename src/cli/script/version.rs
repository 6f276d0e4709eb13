//! The version of the framework that a script of the user's own starts.

use crate::cli::script::read::{Read, text_of};
use crate::cli::session::Session;
use crate::core::adopt::version::{
    KnownVersion, REQUIREMENTS, Tree, VersionStatement, environments, files, in_frames, in_log,
    in_requirements, in_scripts, in_tree, installed, own_texts, trees,
};
use crate::core::ladder::JobEnvironment;
use crate::core::recipe::{Framework, PresetFile, RungSpec, VersionSpan};
use crate::core::request::VersionInLog;
use crate::io::installed::{PythonEnvironment, lacking, versions};
use oomctl_diagnose::Versions;
use oomctl_scripts::{Adoption, SCRIPT, joined};

/// The variable that names folders of packages.
const PATH: &str = "PYTHONPATH";
/// Words of a script that brings packages by itself, or in a container.
const ELSEWHERE: [&str; 12] = [
    "pip install",
    "pip3 install",
    "conda install",
    "mamba install",
    "uv sync",
    "uv run",
    "PYTHONPATH",
    "apptainer",
    "singularity",
    "--container-image",
    "docker",
    "shifter",
];

/// What the source tree that the job imports, the script, its environment and the log of a job say.
pub fn known(
    file: &PresetFile,
    adoption: &Adoption<'_>,
    read: &Read,
    environments: &[PythonEnvironment],
) -> KnownVersion {
    let Some(framework) = &file.framework else {
        return KnownVersion::Nothing;
    };
    let reading = &adoption.reading;
    let variables = &read.submission.variables;
    let path = variables
        .get(PATH)
        .filter(|_| reading.passed.inherits(PATH));
    let trees = trees(adoption, path.map(String::as_str));
    let mut told: Vec<VersionStatement> = trees
        .iter()
        .find_map(|tree| tree_says(framework, tree, read))
        .into_iter()
        .collect();
    told.extend(in_scripts(framework, reading));
    for (folder, names) in environments.iter().flat_map(|e| &e.packages) {
        let folder = folder.strip_prefix(&read.workdir).unwrap_or(folder);
        told.extend(installed(framework, names, &folder.display().to_string()));
    }
    for log in &read.logs {
        told.extend(in_log(framework, log));
    }
    told.extend(required(framework, &trees, read));
    let texts = [read.logs.as_slice(), &own_texts(reading)].concat();
    KnownVersion::of(file, &told, in_frames(framework, &texts))
}

/// The version for which a script is read.
pub struct TakenVersion {
    /// None for the newest that the preset knows.
    pub version: Option<String>,
    /// Which, and why, for people.
    pub described: Option<String>,
    /// The versions that it can be, where it may be older.
    pub span: Option<VersionSpan>,
    /// The log of an earlier run showed it.
    pub of_earlier: bool,
}

impl TakenVersion {
    /// The one that is given, else what the script shows, else what an earlier run showed.
    pub fn of(
        file: &PresetFile,
        told: &KnownVersion,
        given: Option<String>,
        earlier: impl FnOnce() -> Option<VersionInLog>,
    ) -> Self {
        let is_given = given.is_some();
        let version = given.or_else(|| told.version(file));
        let earlier = version.is_none().then(earlier).flatten();
        let of_earlier = earlier.is_some();
        match earlier {
            Some(found) => Self {
                version: Some(found.version),
                described: Some(found.described),
                span: found.span,
                of_earlier,
            },
            None => Self {
                described: told.describe(file).filter(|_| !is_given),
                span: told.span(file).filter(|_| !is_given),
                version,
                of_earlier,
            },
        }
    }
}

/// What the log of an earlier run of this script showed, for a script that nothing else tells of.
pub fn of_earlier_run(session: &Session, read: &Read, preset: &str) -> Option<VersionInLog> {
    let script = read.workdir.join(&read.submission.script);
    let (run, found) = session.runs.version_shown(&script, preset)?;
    Some(VersionInLog {
        described: format!("{} (run {run})", found.described),
        ..found
    })
}

/// What is installed in the environments that the script takes over, and the version of its framework where that is known. Of
/// a program without a framework that oomctl knows, what its own texts name counts.
pub fn packages_of(
    file: &PresetFile,
    adoption: &Adoption<'_>,
    known: &KnownVersion,
    environments: &[PythonEnvironment],
) -> Versions {
    let mut all = Versions::default();
    let framework = file.framework.as_ref().and_then(|f| f.packages.first());
    if let (KnownVersion::One(told, _) | KnownVersion::Foreign(told, _), Some(package)) =
        (known, framework)
    {
        all.tell(package, &told.number.to_string());
    }
    all.or(&versions(environments));
    match file.framework {
        Some(_) => all,
        None => {
            let texts = own_texts(&adoption.reading);
            let texts: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
            all.named_in(&texts)
        }
    }
}

/// The environments that the script takes over.
pub fn environments_of(adoption: &Adoption<'_>, read: &Read) -> Vec<PythonEnvironment> {
    let folders = environments(&adoption.reading, &read.submission).into_iter();
    let folders = folders.map(|folder| read.workdir.join(folder));
    folders.map(PythonEnvironment::read).collect()
}

/// The environment of the script, where all that its job can import is there.
pub fn environment(
    ladder: &[RungSpec],
    adoption: &Adoption<'_>,
    environments: &[PythonEnvironment],
) -> Option<JobEnvironment> {
    let scripts = adoption.reading.sources.iter().skip(SCRIPT);
    let mut lines = scripts.flat_map(|source| source.text.lines());
    let brings = |line: &str| {
        let code = !line.trim_start().starts_with('#');
        code && ELSEWHERE.iter().any(|words| line.contains(words))
    };
    if lines.any(brings) {
        return None;
    }
    lacking(environments, ladder)
}

/// What a source tree says, where one of the framework's packages lies in it.
fn tree_says(framework: &Framework, tree: &Tree, read: &Read) -> Option<VersionStatement> {
    framework.packages.iter().find_map(|package| {
        let mut files = files(tree, package).into_iter();
        let text = |path: &str| text_of(&read.workdir.join(path));
        let first = files.next()?;
        let own = in_tree(tree, package, &first, &text(&first)?);
        own.or_else(|| files.find_map(|path| in_tree(tree, package, &path, &text(&path)?)))
    })
}

/// The version that the first file of the project's requirements asks for, in the folders in which its programs lie or run.
fn required(framework: &Framework, trees: &[Tree], read: &Read) -> Option<VersionStatement> {
    let folders = trees.iter().map(|tree| tree.folder.as_str());
    let paths = folders.flat_map(|folder| REQUIREMENTS.map(|name| joined(folder, name)));
    paths.into_iter().find_map(|path| {
        let text = text_of(&read.workdir.join(&path))?;
        in_requirements(framework, &path, &text)
    })
}
