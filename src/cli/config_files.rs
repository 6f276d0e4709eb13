//! Reading configuration files: the project's, and those of site and user around it.

use std::path::{Path, PathBuf};
use std::sync::Once;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::core::config::ConfigDocument;
use crate::core::recipe::LayerKind;
use crate::io::files::read_text;
use crate::io::scheduler::slurm::{RestAddress, RestPlace};
use crate::io::site::site_folder;
use crate::view::{CommandFailure, print};

const MAX_FILE: u64 = 1 << 20;
const SITE_KEYS: [&str; 6] = ["cluster", "knobs", "pin", "overrides", "notices", "slurm"];

/// How Slurm is reached, where that is not by its commands.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlurmAccess {
    /// Where slurmrestd listens: http://HOST:6820 or unix:/PATH. It is asked in place of Slurm's commands.
    rest: Option<String>,
    /// A file with the token for slurmrestd, read again for each question. Without it the token is in SLURM_JWT.
    token_file: Option<String>,
}

/// Reads a configuration file; it is shown relative to `here` where it lies below.
pub fn document(path: &Path, here: &Path) -> Result<ConfigDocument, CommandFailure> {
    let text = read_text(path, MAX_FILE)?;
    let shown = path.strip_prefix(here).unwrap_or(path);
    Ok(ConfigDocument::parse(&shown.display().to_string(), &text)?)
}

/// Site and user files, where they exist.
pub fn outer_files() -> Result<Vec<(LayerKind, ConfigDocument)>, CommandFailure> {
    let checked = |path: &Path| {
        let file = document(path, Path::new("/"))?;
        file.check_keys(&SITE_KEYS)?;
        Ok(file)
    };
    let site = site_file().and_then(|path| of_site(checked(&path)));
    let mut files: Vec<_> = site
        .map(|file| (LayerKind::Site, file))
        .into_iter()
        .collect();
    use etcetera::BaseStrategy;
    if let Ok(dirs) = etcetera::choose_base_strategy() {
        let path = dirs.config_dir().join("oomctl/config.yaml");
        if path.is_file() {
            files.push((LayerKind::User, checked(&path)?));
        }
    }
    Ok(files)
}

/// The site's file: the one that `OOMCTL_SITE_CONFIG` names, or else the one in the site's folder, where that has one.
fn site_file() -> Option<PathBuf> {
    match std::env::var_os("OOMCTL_SITE_CONFIG") {
        Some(path) => (!path.is_empty()).then(|| path.into()),
        None => {
            let path = site_folder()?.join("config.yaml");
            path.is_file().then_some(path)
        }
    }
}

/// What a file of the site says; where it has a fault, nothing. That is said once: it stops nobody's job.
pub fn of_site<T>(read: Result<T, CommandFailure>) -> Option<T> {
    static SAID: Once = Once::new();
    let say = |fault: CommandFailure| {
        let fault = fault.sentence();
        SAID.call_once(|| {
            print::warn(&format!(
                "{fault}. This file is the site's, and does not count until it is fixed. Tell your site; `OOMCTL_SITE_CONFIG=` leaves it out"
            ));
        });
    };
    read.map_err(say).ok()
}

/// Where slurmrestd is, as the project says, or else the user's file, or else the site's; none where Slurm's commands are used. A
/// relative `token_file` is below `folder`.
pub fn rest_place(
    project: &ConfigDocument,
    folder: &Path,
) -> Result<Option<RestPlace>, CommandFailure> {
    if project.get("slurm").is_some() {
        return rest_place_of(project, folder);
    }
    // A fault there stops who needs all of such a file, and not who only looks at runs and logs.
    let outer = match outer_files() {
        Ok(outer) => outer,
        Err(failure) => {
            print::warn(&failure.sentence());
            return Ok(None);
        }
    };
    let doc = outer
        .iter()
        .rev()
        .find(|(_, doc)| doc.get("slurm").is_some());
    match doc {
        Some((_, doc)) => rest_place_of(doc, Path::new("/")),
        None => Ok(None),
    }
}

fn rest_place_of(doc: &ConfigDocument, folder: &Path) -> Result<Option<RestPlace>, CommandFailure> {
    let access: SlurmAccess = doc.section("slurm", &["rest", "token_file"], &[])?;
    let (Some(rest), Some(node)) = (access.rest, doc.get("slurm")) else {
        return Ok(None);
    };
    match RestAddress::read(&rest) {
        Ok(address) => Ok(Some(RestPlace {
            address,
            token_file: access.token_file.map(|file| folder.join(file)),
        })),
        Err(hint) => {
            let what = format!("slurm: rest: {rest:?} is no address of slurmrestd");
            Err(doc.fault(node, what).hint(hint).into())
        }
    }
}
