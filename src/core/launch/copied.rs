//! Files of the user's of which each attempt gets a copy: where a command names them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::words::{fill, has_placeholder};
use crate::core::recipe::FileSpec;
use crate::core::recipe::copies::Original;
use oomctl_base::{Problem, Refusal};

/// Flags with which Hydra is told the folder of its configuration.
const FOLDER_FLAGS: [&str; 4] = ["--config-path", "-cp", "--config-dir", "-cd"];
/// Flags with which it is told the name.
const NAME_FLAGS: [&str; 2] = ["--config-name", "-cn"];

/// Where a command looks for the files of which it is to find copies.
#[derive(Debug, Clone, Copy)]
pub struct Copied<'a> {
    /// The folder below which their paths are, absolute.
    pub project: &'a Path,
    /// The folder that the command is started in, absolute.
    pub workdir: &'a Path,
}

impl Copied<'_> {
    /// Puts the mark of its copy in the place of each file that the command names.
    ///
    /// # Errors
    /// A file that the command does not name, so that the program would not read its copy.
    pub(super) fn mark(
        &self,
        files: &[FileSpec],
        originals: &BTreeMap<String, Original>,
        command: &mut [String],
    ) -> Result<(), Refusal> {
        for (name, original) in originals {
            let spec = files.iter().find(|f| f.name == *name);
            let Some(knob) = spec.and_then(|f| f.copy.as_deref()) else {
                continue;
            };
            let file = plain(&self.project.join(&original.path));
            self.mark_file(&file, knob, command);
            mark_hydra(&file, knob, name, command);
            if !has_placeholder(command, knob) && !has_placeholder(command, &folder(knob)) {
                let what = format!(
                    "the command does not contain {}; each attempt needs its own copy of that file",
                    original.path
                );
                let hint = format!(
                    "write {{{knob}}} in place of the file's path, or {{{knob}:folder}} for the folder of the copy, called {name}"
                );
                return Err(Problem::new(what).hint(hint).into());
            }
        }
        Ok(())
    }

    /// Puts the paths of a copy in the folder `dir` in the place of its marks.
    pub(super) fn place(file: &FileSpec, command: &mut [String], dir: &str) {
        if let Some(knob) = &file.copy {
            fill(command, knob, &format!("{dir}/{}", file.name));
            fill(command, &folder(knob), dir);
        }
    }

    /// Words, and values of `key=value`, that are the path of the file.
    fn mark_file(&self, file: &Path, knob: &str, command: &mut [String]) {
        for word in command {
            let start = word.find('=').map_or(0, |at| at + 1);
            for from in [0, start] {
                let is_file = plain(&self.workdir.join(&word[from..])) == file;
                if is_file && !word[from..].is_empty() {
                    word.replace_range(from.., &format!("{{{knob}}}"));
                    break;
                }
            }
        }
    }
}

/// The mark of a copy's folder.
fn folder(knob: &str) -> String {
    format!("{knob}:folder")
}

/// Folder and name as Hydra is told them. A folder counts where the file's own ends like it: Hydra reads it from the
/// program's file on, which is not known here.
fn mark_hydra(file: &Path, knob: &str, name: &str, command: &mut [String]) {
    let is_name = |value: &str| {
        let names = [file.file_name(), file.file_stem()];
        names.contains(&Some(value.as_ref()))
    };
    let is_folder = |value: &str| {
        let given: PathBuf = Path::new(value)
            .components()
            .filter(|c| matches!(c, Component::Normal(_)))
            .collect();
        file.parent().is_some_and(|own| own.ends_with(&given))
    };
    let Some(named) = value_of(command, &NAME_FLAGS, is_name) else {
        return;
    };
    let Some(found) = value_of(command, &FOLDER_FLAGS, is_folder) else {
        return;
    };
    command[named.0].replace_range(named.1.., name);
    command[found.0].replace_range(found.1.., &format!("{{{}}}", folder(knob)));
}

/// The word, and where in it, that has the value of one of some flags.
fn value_of(
    command: &[String],
    flags: &[&str],
    is_wanted: impl Fn(&str) -> bool,
) -> Option<(usize, usize)> {
    let mut words = command.iter().enumerate();
    words.find_map(|(at, word)| {
        let (flag, inline) = word
            .split_once('=')
            .map_or((word.as_str(), None), |(f, v)| (f, Some(v)));
        if !flags.contains(&flag) {
            return None;
        }
        let (at, from, value) = match inline {
            Some(value) => (at, word.len() - value.len(), value),
            None => (at + 1, 0, command.get(at + 1)?.as_str()),
        };
        is_wanted(value).then_some((at, from))
    })
}

/// A path without `.` and `..`, as it is written; links are not followed.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::table;

    fn copied_file() -> FileSpec {
        FileSpec {
            name: "run.yaml".to_owned(),
            template: None,
            copy: Some("config".to_owned()),
            entry: false,
        }
    }

    /// A command with the marks of the copy of `conf/swarm.yaml`.
    fn marked(command: &str) -> Result<String, Refusal> {
        let original = Original {
            path: "conf/swarm.yaml".to_owned(),
            text: String::new(),
            variables: BTreeMap::new(),
        };
        let originals = BTreeMap::from([("run.yaml".to_owned(), original)]);
        let copied = Copied {
            project: Path::new("/home/anna/swarm"),
            workdir: Path::new("/home/anna/swarm/jobs"),
        };
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        copied.mark(&[copied_file()], &originals, &mut words)?;
        Ok(words.join(" "))
    }

    #[test]
    fn a_file_is_found_however_the_command_names_it() {
        for [command, after] in table::<2, 6>(
            "
            t --config ../conf/swarm.yaml x | t --config {config} x
            t --config=/home/anna/swarm/conf/./swarm.yaml | t --config={config}
            t cfg=../conf/swarm.yaml | t cfg={config}
            t --config-path ../conf --config-name swarm | t --config-path {config:folder} --config-name run.yaml
            t -cn=swarm.yaml -cp=/home/anna/swarm/conf | t -cn=run.yaml -cp={config:folder}
            sh -c {config} | sh -c {config}
            ",
        ) {
            assert_eq!(marked(command).unwrap(), after);
        }
    }

    #[test]
    fn a_file_that_the_command_does_not_name_is_told() {
        for command in [
            "t",
            "t --config conf/swarm.yaml",
            "t --config-path ../other --config-name swarm",
            "t --config-path ../conf --config-name other",
            "t ${config}",
        ] {
            let refusal = marked(command).unwrap_err();
            assert!(
                refusal.0[0]
                    .what
                    .contains("does not contain conf/swarm.yaml"),
                "{command}"
            );
        }
    }

    #[test]
    fn a_copy_is_put_in_the_place_of_its_marks() {
        let mut words = ["--p={config:folder}", "{config}"].map(str::to_owned);
        Copied::place(&copied_file(), &mut words, "/a/1");
        assert_eq!(words, ["--p=/a/1", "/a/1/run.yaml"]);
    }
}
