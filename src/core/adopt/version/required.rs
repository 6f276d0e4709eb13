//! Versions that a project asks for in the files of pip, conda, uv and Poetry.

use super::named::named;
use super::{Proximity, VersionStatement};
use crate::core::recipe::Framework;
use oomctl_diagnose::WrittenVersion;

/// The files, those first that say what is installed.
pub const REQUIREMENTS: [&str; 7] = [
    "uv.lock",
    "poetry.lock",
    "requirements.txt",
    "environment.yml",
    "environment.yaml",
    "pyproject.toml",
    "setup.py",
];
/// What stands between a package and the one version that is asked for: pip's, conda's, Poetry's. A range names none.
const ONE: [&str; 4] = ["==", " == ", "=", " = \""];

/// The version that one of these files asks for.
pub fn in_requirements(framework: &Framework, path: &str, text: &str) -> Option<VersionStatement> {
    let lines = || text.lines().enumerate();
    let code = lines().filter(|(_, line)| !line.trim_start().starts_with('#'));
    let mut told = code.filter_map(|(number, line)| {
        let mut packages = framework.packages.iter();
        let version = packages.find_map(|package| match path.ends_with(".lock") {
            true => locked(package, line, text.lines().nth(number + 1)?),
            false => named(&without_extras(line), package, &ONE),
        })?;
        Some(VersionStatement {
            number: version,
            by: format!("{path}:{}", number + 1),
            near: Proximity::Required,
        })
    });
    told.next()
}

/// The version in two lines of a lock file: `name = "trl"`, `version = "0.20.0"`.
fn locked(package: &str, line: &str, next: &str) -> Option<WrittenVersion> {
    let name = line.strip_prefix("name = \"")?.strip_suffix('"')?;
    let version = next.strip_prefix("version = \"")?.strip_suffix('"')?;
    (name == package).then(|| WrittenVersion::read(version))?
}

/// `trl[vllm]==0.20` as `trl==0.20`.
fn without_extras(line: &str) -> String {
    let named = |at: &usize| line[..*at].ends_with(|c: char| c.is_ascii_alphanumeric());
    let from = line.find('[').filter(named);
    match from.and_then(|from| Some((from, from + line[from..].find(']')?))) {
        Some((from, to)) => line[..from].to_owned() + &line[to + 1..],
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::recipe::PresetFile;

    fn check(path: &str, text: &str, expected: Option<&str>) {
        let preset = include_str!("../../../../presets/trl.yaml");
        let file: PresetFile = serde_yaml::from_str(preset).unwrap();
        let found = in_requirements(&file.framework.unwrap(), path, text);
        let found = found.map(|told| told.to_string());
        assert_eq!(found.as_deref(), expected, "{path}: {text}");
    }

    #[test]
    fn one_version_that_is_asked_for_is_read_and_a_range_is_not() {
        let pip = "requirements.txt";
        check(
            pip,
            "torch\ntrl==0.20.0\n",
            Some("requirements.txt:2 says 0.20.0"),
        );
        check(
            pip,
            "trl[vllm] == 0.20.0\n",
            Some("requirements.txt:1 says 0.20.0"),
        );
        check(pip, "# trl==0.19.0\ntrl>=0.20.0\n", None);
        check(pip, "trl~=0.20.0\ntrlx==0.7.0\n", None);
        check(
            "environment.yml",
            "  - trl=0.20.0\n",
            Some("environment.yml:1 says 0.20.0"),
        );
        let project = "pyproject.toml";
        check(
            project,
            "dependencies = [\"trl==0.20.0\"]\n",
            Some("pyproject.toml:1 says 0.20.0"),
        );
        check(
            project,
            "trl = \"0.20.0\"\n",
            Some("pyproject.toml:1 says 0.20.0"),
        );
        check(project, "trl = \"^0.20.0\"\n", None);
        let lock = "[[package]]\nname = \"trl\"\nversion = \"0.20.0\"\n";
        check("uv.lock", lock, Some("uv.lock:2 says 0.20.0"));
    }
}
