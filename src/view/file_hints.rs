//! What to do about a file that cannot be read or written.

use std::path::Path;

use crate::drive::RunFolder;
use crate::io::disk::is_kept;
use crate::io::files::FileError;

/// What to do about a file.
pub(super) fn mend_file(e: &FileError) -> String {
    use std::io::ErrorKind;
    match e {
        FileError::Io {
            action,
            path,
            source,
        } => match source.kind() {
            ErrorKind::NotFound if is_kept(path) => {
                "somebody deleted or moved the run's folder. Its job goes on: `squeue --me`".to_owned()
            }
            ErrorKind::NotFound if path.is_absolute() => "check the path".to_owned(),
            ErrorKind::NotFound => {
                "check the path; it is relative to the current folder".to_owned()
            }
            ErrorKind::PermissionDenied => {
                let refused = refusing(action, path);
                let shown = format!("`ls -ld {}` shows who may", refused.display());
                match is_kept(refused) {
                    true => format!(
                        "{shown}; the owner of the runs opens them to a group with `oomctl init --group`"
                    ),
                    false => shown,
                }
            }
            ErrorKind::IsADirectory => "name a file in it".to_owned(),
            ErrorKind::InvalidInput => "write what comes from it into a file first".to_owned(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "free some space: `df -h .` and `df -i .` show the disk, `quota` your share. Then repeat the command; a run that has begun goes on with `oomctl watch`"
                    .to_owned()
            }
            _ => "`oomctl doctor` tests the file system".to_owned(),
        },
        FileError::TooLarge { .. } => {
            "check the path: oomctl's own files are far smaller".to_owned()
        }
        FileError::NotText { .. } => "save it as UTF-8; `file` names its encoding".to_owned(),
        FileError::NotOurs { path, .. } if RunFolder::is_one(path) => {
            "only the owner of a run acts on it; `oomctl status` and `oomctl logs` show it"
                .to_owned()
        }
        FileError::NotOurs { path, .. } => format!(
            "use a folder that only you can write; `ls -ld {}` shows who owns this one",
            path.display()
        ),
        FileError::Name { name } => format!(
            "name it with letters, digits, `.`, `_` and `-`: --run {}",
            run_name(name)
        ),
    }
}

/// The nearest name that a run may have.
fn run_name(wanted: &str) -> String {
    let letters = wanted.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() || c == '_' => c,
        _ => '-',
    });
    let name: String = letters.take(40).collect();
    match name.trim_matches(['-', '_']) {
        "" => "grpo-7b".to_owned(),
        name => name.to_owned(),
    }
}

/// What there is that refused: a file that is made anew is refused by its folder, or by the nearest one above that
/// exists.
fn refusing<'a>(action: &str, path: &'a Path) -> &'a Path {
    let made = matches!(action, "create" | "write" | "link");
    let mut there = path.ancestors().skip(usize::from(made));
    // Above a relative path is the folder in which we are.
    there.find(|p| p.exists()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_refuses_is_named_and_exists() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        std::fs::write(&file, "").unwrap();
        let missing = folder.path().join("no/such/owner.json");
        let hint = |action, path: &Path| {
            mend_file(&FileError::Io {
                action,
                path: path.to_owned(),
                source: io::ErrorKind::PermissionDenied.into(),
            })
        };
        let names = |path: &Path| format!("`ls -ld {}` shows who may", path.display());
        assert_eq!(hint("create", &missing), names(folder.path()));
        assert_eq!(hint("write", &file), names(folder.path()));
        assert_eq!(hint("read", &file), names(&file));
        assert_eq!(hint("write", Path::new("page.html")), names(Path::new(".")));
    }
}
