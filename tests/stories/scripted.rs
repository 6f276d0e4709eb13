//! Commands that print what they were told to, and note how they were called.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder of them. What one prints is named by a key: its own name, or its first word.
pub struct ScriptedCommands {
    folder: tempfile::TempDir,
}

impl ScriptedCommands {
    /// Commands of these names; `key` and `place` are words of a shell, `place` for what is noted behind each call.
    pub fn new(names: &[&str], key: &str, place: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        // A first word is among the words already.
        let own = if key == "$1" { "" } else { "\"$key\"" };
        let script = format!(
            "#!/bin/bash\nkey={key}\nprintf '%s\\n' {own} \"$@\" >>{at}/argv\necho \"-- {place}\" >>{at}/argv\n\
             /usr/bin/env -0 >{at}/$key.env\n/bin/cat {at}/$key.stdout\n/bin/cat {at}/$key.stderr >&2\n\
             [ ! -f {at}/$key.hang ] || /bin/sleep 60\nexit $(<{at}/$key.rc)\n"
        );
        // Put in place by another process: a file that this process has open for writing while another test forks cannot be
        // executed ("text file busy").
        fs::write(folder.path().join("source"), script).unwrap();
        for name in names {
            let mut install = std::process::Command::new("install");
            install.args(["-m", "755", "source", name]);
            let status = install.current_dir(folder.path()).status();
            assert!(status.unwrap().success());
        }
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.folder.path().to_owned(),
            name => self.folder.path().join(name),
        }
    }

    pub fn answers(&self, key: &str, code: i32, stdout: &str, stderr: &str) {
        fs::write(self.path(&format!("{key}.rc")), code.to_string()).unwrap();
        fs::write(self.path(&format!("{key}.stdout")), stdout).unwrap();
        fs::write(self.path(&format!("{key}.stderr")), stderr).unwrap();
    }

    /// The calls so far: key, words, and the place.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("argv")).unwrap_or_default();
        let (mut calls, mut words) = (Vec::new(), Vec::new());
        for line in text.lines() {
            words.push(line);
            if line.starts_with("-- ") {
                calls.push(words.join(" "));
                words.clear();
            }
        }
        calls
    }
}
