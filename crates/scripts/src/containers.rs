//! What a container shows of the files of a job, as the script says it.
//!
//! Rule: where a container sees a file is known by a mount of the script only. One that shows the files of its host shows them
//! under their own names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a launcher is told what its container sees (`presets/launchers/*.yaml`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerOptions {
    /// Options without which it starts no container; none where it always does.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Options whose value is `SOURCE:TARGET`, several behind commas, or `type=bind,source=…,target=…`.
    #[serde(default)]
    pub mounts: Vec<String>,
    /// Variables with such a value.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Options that set variables for the program: `NAME=VALUE`, several behind commas.
    #[serde(default)]
    pub sets: Vec<String>,
    /// Options that name the folder in which the program begins.
    #[serde(default)]
    pub folder: Vec<String>,
    /// It shows the files of its host too.
    #[serde(default)]
    pub sees_host: bool,
    /// Options with which the contrary holds.
    #[serde(default)]
    pub unless: Vec<String>,
}

/// What a container shows of the files of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// What it mounts.
    pub(crate) mounts: Vec<Mount>,
    /// It shows the files of its host too, under their own names.
    pub(crate) sees_host: bool,
    /// A mount of it is not known.
    pub(crate) unclear: bool,
}

/// A folder or file that a container shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its path, absolute or from the folder of the job.
    pub from: String,
    /// Its path in the container; None where that is its own.
    pub to: Option<String>,
}

impl Container {
    /// The path of what a program in the container names by an absolute path; None where that is in its image.
    pub(crate) fn outside(&self, path: &str) -> Option<String> {
        let shown = self.mounts.iter().filter_map(|mount| {
            let to = mount.to.as_ref().unwrap_or(&mount.from);
            let rest = below(to, path).filter(|_| to.starts_with('/'))?;
            Some((to.len(), rest, mount))
        });
        match shown.max_by_key(|(length, ..)| *length) {
            Some((_, rest, mount)) if mount.from.is_empty() => Some(rest.to_owned()),
            Some((_, rest, mount)) => {
                let path = format!("{}/{rest}", mount.from);
                Some(path.trim_end_matches('/').to_owned())
            }
            None => self.may_see_host().then(|| path.to_owned()),
        }
    }

    /// Whether a path may be the same outside, as far as is known.
    fn may_see_host(&self) -> bool {
        let is_here = |mount: &Mount| mount.to.is_none() && !mount.from.starts_with('/');
        self.sees_host || self.unclear || self.mounts.iter().any(is_here)
    }

    /// The path by which a program in the container names a file, given by its absolute path. `workdir` is the folder of the job.
    ///
    /// # Errors
    /// That the container does not see it, or that this is not known.
    pub(crate) fn inside(&self, path: &str, workdir: &str) -> Result<String, String> {
        let shown = self.mounts.iter().filter_map(|mount| {
            let from = absolute(&mount.from, workdir);
            let rest = below(&from, path)?.to_owned();
            Some((from.len(), rest, mount))
        });
        match shown.max_by_key(|(length, ..)| *length) {
            Some((_, rest, Mount { to: Some(to), .. })) => {
                Ok(format!("{}/{rest}", to.trim_end_matches('/')))
            }
            Some(_) => Ok(path.to_owned()),
            None if self.sees_host => Ok(path.to_owned()),
            None if self.unclear => Err(format!(
                "oomctl cannot read what the container mounts, and so not whether its program sees {path}"
            )),
            None => Err(format!("the container does not mount {path}")),
        }
    }
}

/// What of a path stands behind a folder.
fn below<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
    match rest.strip_prefix('/') {
        Some(rest) => Some(rest),
        None => rest.is_empty().then_some(rest),
    }
}

/// A path from the root.
pub(crate) fn absolute(path: &str, workdir: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{workdir}/{path}").trim_end_matches('/').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_another_name_behind_a_mount() {
        let mount = |from: &str, to: Option<&str>| Mount {
            from: from.to_owned(),
            to: to.map(str::to_owned),
        };
        let mut container = Container {
            mounts: vec![
                mount("", Some("/workspace")),
                mount("/data/x", Some("/data")),
                mount("/same", None),
            ],
            ..Container::default()
        };
        for (inside, outside) in [
            ("/workspace/a.yaml", Some("a.yaml")),
            ("/workspace", Some("")),
            ("/data/b/c", Some("/data/x/b/c")),
            ("/datab/c", None),
            ("/same/c", Some("/same/c")),
        ] {
            assert_eq!(container.outside(inside).as_deref(), outside, "{inside}");
        }
        for (outside, inside) in [
            ("/w/.oomctl/a", Ok("/workspace/.oomctl/a")),
            ("/data/x/y", Ok("/data/y")),
            ("/same/c", Ok("/same/c")),
            ("/wide/c", Err("the container does not mount /wide/c")),
        ] {
            let found = container.inside(outside, "/w");
            assert_eq!(found.as_deref().map_err(String::as_str), inside);
        }
        container.sees_host = true;
        assert_eq!(container.outside("/datab/c").as_deref(), Some("/datab/c"));
        assert_eq!(container.inside("/wide/c", "/w").as_deref(), Ok("/wide/c"));
    }
}
