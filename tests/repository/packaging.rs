//! What a release is made of, as far as it can be held to without building one (`packaging/check` does that).
//! Without python3 the recipes are skipped, with a word; in CI that fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The recipes, filled in for an archive that holds these bytes.
fn recipes(archive: &[u8]) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("oomctl.tar.gz");
    fs::write(&file, archive).unwrap();
    let out = folder.path().join("recipes");
    let run = Command::new("python3")
        .args(["-B", "packaging/recipes"])
        .args([&file, &out])
        .args(["--url", "https://lab.example/sw/oomctl.tar.gz"])
        .current_dir(root())
        .output();
    let Ok(output) = run else {
        assert!(std::env::var_os("CI").is_none(), "no python3");
        eprintln!("skipped: no python3");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some((folder, out))
}

/// Crates that Cargo.lock takes from elsewhere, with their checksums.
fn crates() -> Vec<(String, String, String)> {
    let lock: toml_edit::Document<String> = text("Cargo.lock").parse().unwrap();
    let packages = lock["package"].as_array_of_tables().unwrap().iter();
    let field = |package: &toml_edit::Table, key: &str| {
        let value = package.get(key).and_then(|v| v.as_str());
        value.unwrap_or_default().to_owned()
    };
    packages
        .filter(|p| p.contains_key("source"))
        .map(|p| (field(p, "name"), field(p, "version"), field(p, "checksum")))
        .collect()
}

#[test]
fn recipes_have_the_version_the_checksum_and_every_crate() {
    let Some((_folder, out)) = recipes(b"the source") else {
        return;
    };
    let unfilled = regex::Regex::new("@[A-Z0-9_]+@").unwrap();
    for name in ["package.py", "oomctl.eb", "recipe.yaml"] {
        let recipe = fs::read_to_string(out.join(name)).unwrap();
        for word in [
            env!("CARGO_PKG_VERSION"),
            "https://lab.example/sw/",
            &checksum(b"the source"),
        ] {
            assert!(recipe.contains(word), "{name} has no {word}");
        }
        assert_eq!(unfilled.find(&recipe).map(|m| m.as_str()), None, "{name}");
    }
    let easybuild = fs::read_to_string(out.join("oomctl.eb")).unwrap();
    let crates = crates();
    assert!(crates.len() > 50, "{}", crates.len());
    for (name, version, checksum) in &crates {
        assert!(
            easybuild.contains(&format!("('{name}', '{version}')")),
            "{name}"
        );
        assert!(
            easybuild.contains(&format!("{{'{name}-{version}.tar.gz': '{checksum}'}}")),
            "{name}"
        );
    }
    assert_eq!(easybuild.matches(".tar.gz': '").count(), crates.len() + 1);
}

fn checksum(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_version_is_in_one_place() {
    let version = env!("CARGO_PKG_VERSION");
    for path in ["pyproject.toml", "python/oomctl/__init__.py"]
        .into_iter()
        .map(str::to_owned)
        .chain(files("packaging"))
    {
        assert!(!text(&path).contains(version), "{path} repeats {version}");
    }
    assert!(text("pyproject.toml").contains(r#"dynamic = ["version"]"#));
}

/// Every file below a folder, relative to the project.
fn files(folder: &str) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all
}

#[test]
fn the_site_lists_every_page() {
    let listed = text("docs/SUMMARY.md");
    for path in files("docs") {
        let name = path.trim_start_matches("docs/");
        if Path::new(name).extension().is_some_and(|e| e == "md") && name != "SUMMARY.md" {
            assert!(listed.contains(&format!("]({name})")), "{name}");
        }
    }
}
