//! GPUs that a test makes up: a stand-in for NVML (`standin.rs`), and the file that says what it tells.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use oomctl_base::word_list;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nvml/standin.rs");

/// Made-up GPUs. They change with the next `are`.
pub struct Gpus {
    folder: tempfile::TempDir,
}

impl Gpus {
    /// GPUs as these lines say; the words are in `standin.rs`.
    pub fn new(lines: &[&str]) -> Self {
        let gpus = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        gpus.are(lines);
        gpus
    }

    /// From now on the GPUs are these.
    pub fn are(&self, lines: &[&str]) {
        let new = self.folder.path().join("new");
        fs::write(&new, lines.join("\n")).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("gpus")
    }

    /// Variables for a program that is to see them.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("LD_LIBRARY_PATH", library().display().to_string()),
            ("NVML_STANDIN", self.file().display().to_string()),
        ]
    }
}

/// The folder with the stand-in, compiled once a test program. The file appears whole: another program of
/// the tests may be using it.
fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvml");
        fs::create_dir_all(&folder).unwrap();
        let new = folder.join(format!("new-{}.so", std::process::id()));
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc)
            .args(word_list::<4>(
                "--edition=2024 --crate-type=cdylib --crate-name=nvml -o",
            ))
            .arg(&new)
            .arg(SOURCE)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        fs::rename(new, folder.join("libnvidia-ml.so.1")).unwrap();
        folder
    })
}
