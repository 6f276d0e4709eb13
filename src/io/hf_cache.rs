//! The `config.json` of a model, in a folder or in the local cache of the Hugging Face hub. The network is never asked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::files::{FileError, read_text};

/// Largest file that is read, in bytes; the largest in use, with names for thousands of classes, have some 100 KiB.
const MAX_FILE: u64 = 1 << 20;
const FILE: &str = "config.json";

/// A `config.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// Where it was read.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The folder of the cache, as `huggingface_hub/constants.py` (1.0) finds it: `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`,
/// `hub` below `HF_HOME`, below `huggingface` in `XDG_CACHE_HOME`, in `~/.cache`.
pub fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || given("HOME");
    let own = given("HF_HUB_CACHE").or_else(|| given("HUGGINGFACE_HUB_CACHE"));
    let below = || {
        let caches = || given("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")));
        let hub = given("HF_HOME").or_else(|| Some(caches()?.join("huggingface")));
        Some(hub?.join("hub"))
    };
    let path = own.or_else(below)?;
    // The library expands a leading `~` itself.
    match path.strip_prefix("~") {
        Ok(rest) => Some(home()?.join(rest)),
        Err(_) => Some(path),
    }
}

/// The `config.json` of a model that is named as training scripts do: a folder (relative to `workdir`), or a name on the
/// hub; `None` where neither the folder nor the cache has one.
///
/// # Errors
/// A file that is there and cannot be read.
pub fn find(
    model: &str,
    workdir: &Path,
    cache: Option<&Path>,
) -> Result<Option<ModelConfig>, FileError> {
    if model.is_empty() {
        return Ok(None);
    }
    let folder = workdir.join(model);
    let of_folder = match folder.file_name() {
        Some(name) if name == FILE => folder.clone(),
        _ => folder.join(FILE),
    };
    if of_folder.is_file() {
        return read(of_folder).map(Some);
    }
    let cached = cache.filter(|_| !folder.is_dir() && is_name(model));
    match cached.and_then(|cache| snapshot(cache, model)) {
        Some(path) => read(path).map(Some),
        None => Ok(None),
    }
}

fn read(path: PathBuf) -> Result<ModelConfig, FileError> {
    let text = read_text(&path, MAX_FILE)?;
    Ok(ModelConfig { path, text })
}

/// The name of a model without its organisation: the last part of a path, or of the hub's own folder for it
/// (`models--ORGANISATION--NAME/snapshots/…`, huggingface_hub's cache).
pub fn model_name(path: &str) -> &str {
    let mut parts = path.split('/');
    let of_hub = parts.find_map(|part| part.strip_prefix("models--")?.split_once("--"));
    let last = path.trim_end_matches('/').rsplit('/').next();
    of_hub.map_or(last.unwrap_or(path), |(_, name)| name)
}

/// True for what can be a name on the hub: `name` or `organisation/name`.
pub fn is_name(model: &str) -> bool {
    let part = |p: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        p.starts_with(|c: char| c.is_ascii_alphanumeric()) && p.chars().all(plain)
    };
    model.len() <= 200 && model.split('/').count() <= 2 && model.split('/').all(part)
}

/// The file in the snapshot that `refs/main` names, or in the only snapshot where there is no such reference.
fn snapshot(cache: &Path, model: &str) -> Option<PathBuf> {
    let repository = cache.join(format!("models--{}", model.replace('/', "--")));
    let snapshots = repository.join("snapshots");
    let of = |revision: &str| {
        let path = snapshots.join(revision).join(FILE);
        (is_name(revision) && !revision.contains('/') && path.is_file()).then_some(path)
    };
    if let Ok(revision) = read_text(&repository.join("refs/main"), 4096) {
        return of(revision.trim());
    }
    let entries: Vec<_> = std::fs::read_dir(&snapshots)
        .ok()?
        .flatten()
        .take(2)
        .collect();
    match &entries[..] {
        [only] => of(only.file_name().to_str()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, relative: &str, text: &str) -> PathBuf {
        let path = folder.join(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_folder_goes_before_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("hub");
        write(&cache, "models--org--m/refs/main", "abc\n");
        let cached = write(&cache, "models--org--m/snapshots/abc/config.json", "cached");
        write(&cache, "models--org--m/snapshots/def/config.json", "older");
        let found = |model: &str| find(model, dir.path(), Some(&cache)).unwrap();
        assert_eq!(found("org/m").unwrap().path, cached);
        let own = write(dir.path(), "org/m/config.json", "own");
        assert_eq!(found("org/m").unwrap().path, own);
        assert_eq!(found(own.to_str().unwrap()).unwrap().text, "own");
        assert_eq!(found("org/other"), None);
    }

    #[test]
    fn a_snapshot_without_a_reference_counts_where_it_is_the_only_one() {
        let dir = tempfile::tempdir().unwrap();
        let found = || find("m", Path::new("/nowhere"), Some(dir.path())).unwrap();
        write(dir.path(), "models--m/snapshots/abc/config.json", "one");
        assert_eq!(found().unwrap().text, "one");
        write(dir.path(), "models--m/snapshots/def/config.json", "two");
        assert_eq!(found(), None);
    }

    #[test]
    fn nothing_leads_out_of_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("hub");
        write(dir.path(), "outside/config.json", "outside");
        write(&cache, "models--m/refs/main", "../../../outside");
        let found = |model: &str| find(model, Path::new("/nowhere"), Some(&cache)).unwrap();
        for model in ["m", "../outside", "a/b/c", "..", "", "a b"] {
            assert_eq!(found(model), None, "{model:?}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "m/config.json", &" ".repeat(2 << 20));
        let refused = find("m", dir.path(), None).unwrap_err();
        assert!(matches!(refused, FileError::TooLarge { .. }), "{refused}");
    }

    #[test]
    fn the_cache_is_where_the_library_looks() {
        let of = |variables: &[(&str, &str)]| {
            let variables: std::collections::BTreeMap<_, _> = variables.iter().copied().collect();
            let path = cache(|name| variables.get(name).map(OsString::from));
            path.map(|p| p.display().to_string())
        };
        let home = ("HOME", "/home/u");
        assert_eq!(
            of(&[home]).as_deref(),
            Some("/home/u/.cache/huggingface/hub")
        );
        assert_eq!(
            of(&[home, ("XDG_CACHE_HOME", "/x")]).as_deref(),
            Some("/x/huggingface/hub")
        );
        assert_eq!(of(&[home, ("HF_HOME", "/h")]).as_deref(), Some("/h/hub"));
        assert_eq!(
            of(&[home, ("HF_HOME", "/h"), ("HF_HUB_CACHE", "~/c")]).as_deref(),
            Some("/home/u/c")
        );
        assert_eq!(
            of(&[home, ("HF_HOME", "")]).as_deref(),
            Some("/home/u/.cache/huggingface/hub")
        );
        assert_eq!(of(&[]), None);
    }
}
