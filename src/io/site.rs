//! The folder in which a site keeps what holds for everybody.

use std::path::PathBuf;

/// Where that is, unless `OOMCTL_SITE` says another folder.
const SITE: &str = "/etc/oomctl";

/// The site's folder; none where `OOMCTL_SITE` is set and empty.
pub fn site_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("OOMCTL_SITE").map_or_else(|| SITE.into(), PathBuf::from);
    (!folder.as_os_str().is_empty()).then_some(folder)
}
