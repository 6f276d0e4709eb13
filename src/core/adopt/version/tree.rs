//! Source trees from which a program may import its framework, and the files of them that name a version.
//!
//! Source: "sys.path" and "The initialization of the sys.path module search path" of Python 3.14's documentation: the folder of
//! the script, or with `-m` and `-c` the current one, then `PYTHONPATH`, then what is installed.

use super::{Proximity, VersionStatement};
use oomctl_base::word_list;
use oomctl_diagnose::{WrittenVersion, same_package};
use oomctl_scripts::settings::SettingsFormat;
use oomctl_scripts::{Adoption, Call, CallTarget, folder_of_file, joined};

/// Files of a package's folder in which versions stand, those first that a program sees itself.
const INSIDE: [&str; 8] = word_list(
    "__init__.py version.py _version.py package_info.py extras/env.py version/version VERSION
     version.txt",
);
/// Such files beside it.
const BESIDE: [&str; 4] = ["pyproject.toml", "VERSION", "version.txt", "setup.py"];
/// Names that are given a version in code.
const NAMES: [&str; 3] = ["__version__", "VERSION", "version"];
/// Names that are given its three parts.
const PARTS: [&str; 3] = ["MAJOR", "MINOR", "PATCH"];
/// The ways in which scripts name the folder that they are in.
const HERE: [&str; 5] = ["", ".", "$PWD", "${PWD}", "$(pwd)"];

/// A folder in which a package may lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The folder, relative to that of the job.
    pub folder: String,
    /// Whether what lies in it is what is imported.
    pub near: Proximity,
}

/// The folders in which the packages of a framework may lie, in the order in which they are looked for.
pub fn trees(adoption: &Adoption<'_>, inherited: Option<&str>) -> Vec<Tree> {
    let mut all: Vec<Tree> = Vec::new();
    for call in adoption.calls() {
        let Some(folder) = &call.folder else {
            continue;
        };
        let first = match &call.target {
            CallTarget::Module(_) | CallTarget::Code => Some(folder.clone()),
            CallTarget::Script(_) => call
                .program
                .as_deref()
                .map(|path| folder_of_file(path).to_owned()),
            CallTarget::Program(_) => None,
        };
        let imported = first.into_iter().chain(path_of(call, folder, inherited));
        let beside = [folder.clone(), joined(folder, "src")];
        let imported = imported.map(|folder| (folder, Proximity::Imported));
        for (folder, near) in imported.chain(beside.map(|folder| (folder, Proximity::Beside))) {
            if all.iter().all(|known| known.folder != folder) {
                all.push(Tree { folder, near });
            }
        }
    }
    all.sort_by_key(|tree| tree.near);
    all
}

/// The folders of `PYTHONPATH`, as far as they are known.
fn path_of(call: &Call, folder: &str, inherited: Option<&str>) -> Vec<String> {
    let given = call.variables.get("PYTHONPATH").map(|text| text.text());
    let Some(path) = given.or_else(|| inherited.map(str::to_owned)) else {
        return Vec::new();
    };
    let entries = path.split(':').filter_map(|entry| {
        let (first, rest) = entry.split_once('/').unwrap_or((entry, ""));
        match HERE.contains(&first) && !entry.starts_with('/') {
            true => Some(joined(folder, rest)),
            false => (!entry.contains(['$', '`'])).then(|| joined(folder, entry)),
        }
    });
    entries.collect()
}

/// The files of a tree in which the version of a package may stand, in the order in which they count. The first one is
/// there in every package.
pub fn files(tree: &Tree, package: &str) -> Vec<String> {
    let package = package.replace('-', "_");
    let inside = INSIDE.map(|name| joined(&tree.folder, &format!("{package}/{name}")));
    let beside = BESIDE.map(|name| joined(&tree.folder, name));
    inside.into_iter().chain(beside).collect()
}

/// What a file of a tree says of a package's version.
pub fn in_tree(tree: &Tree, package: &str, path: &str, text: &str) -> Option<VersionStatement> {
    let number = match path.rsplit_once('.').map(|(_, end)| end) {
        Some("toml") => in_project(package, text),
        Some("py") => in_code(text),
        _ => WrittenVersion::read(text.trim()),
    };
    Some(VersionStatement {
        number: number?,
        by: path.to_owned(),
        near: tree.near,
    })
}

/// What `pyproject.toml` says of the package that it is for.
fn in_project(package: &str, text: &str) -> Option<WrittenVersion> {
    let says = SettingsFormat::Toml.read(text)?;
    let text = |key: &str| says.find(key)?.text.clone();
    let table = ["project", "tool.poetry"].into_iter().find(|table| {
        let name = text(&format!("{table}.name"));
        name.is_some_and(|name| same_package(&name, package))
    })?;
    WrittenVersion::read(&text(&format!("{table}.version"))?)
}

/// A literal that code gives to one of the names; or its parts.
fn in_code(text: &str) -> Option<WrittenVersion> {
    let given = |name: &str| {
        text.lines().find_map(|line| {
            let rest = line.trim().strip_prefix(name)?;
            let typed = rest.strip_prefix(": str").unwrap_or(rest);
            let (before, value) = typed.rsplit_once('=')?;
            let chained = |c: char| c == ' ' || c == '=' || c == '_' || c.is_ascii_lowercase();
            before.chars().all(chained).then(|| value.trim())
        })
    };
    let literal = |name: &&str| {
        let value = given(name)?;
        let inner = value.strip_prefix(['"', '\''])?;
        WrittenVersion::read(inner.split(['"', '\'']).next()?)
    };
    NAMES.iter().find_map(literal).or_else(|| {
        let parts: Option<Vec<&str>> = PARTS.iter().map(|name| given(name)).collect();
        WrittenVersion::read(&parts?.join("."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_keeping_a_version_is_read() {
        let tree = Tree {
            folder: "src".to_owned(),
            near: Proximity::Beside,
        };
        for (path, text, expected) in [
            (
                "a/__init__.py",
                "import os\n__version__ = \"0.22.0.dev0\"\n",
                Some("0.22.0.dev0"),
            ),
            (
                "a/__init__.py",
                "__version__: str = '1.2.3'  # of the release",
                Some("1.2.3"),
            ),
            (
                "a/_version.py",
                "__version__ = version = '0.3.1'\n",
                Some("0.3.1"),
            ),
            (
                "a/extras/env.py",
                "VERSION = \"0.9.3.dev0\"\n",
                Some("0.9.3.dev0"),
            ),
            (
                "a/package_info.py",
                "MAJOR = 0\nMINOR = 5\nPATCH = 1\nVERSION = (MAJOR, MINOR)\n",
                Some("0.5.1"),
            ),
            ("a/version/version", "0.8.0.dev\n", Some("0.8.0.dev")),
            (
                "setup.py",
                "setup(\n    name='a',\n    version=\"0.15.0\",\n)",
                Some("0.15.0"),
            ),
            (
                "a/__init__.py",
                "with open(path) as f:\n    __version__ = f.read().strip()\n",
                None,
            ),
            ("a/__init__.py", "if __version__ == \"1.0.0\":\n", None),
            (
                "pyproject.toml",
                "[project]\nname = \"A_b\"\nversion = \"0.4.1\"\n",
                Some("0.4.1"),
            ),
            (
                "pyproject.toml",
                "[project]\nname = \"other\"\nversion = \"0.4.1\"\n",
                None,
            ),
            (
                "pyproject.toml",
                "[project]\nname = \"a-b\"\ndynamic = [\"version\"]\n",
                None,
            ),
        ] {
            let told = in_tree(&tree, "a-b", path, text);
            let told = told.map(|told| told.number.to_string());
            assert_eq!(told.as_deref(), expected, "{path}: {text}");
        }
    }
}
