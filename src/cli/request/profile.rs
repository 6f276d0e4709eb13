//! Profiles and presets by their names.

use crate::cli::session::Session;
use crate::core::config::ConfigDocument;
use crate::io::library::LibraryFolder;
use crate::view::CommandFailure;

const PROFILE_KEYS: [&str; 6] = ["summary", "preset", "facts", "knobs", "pin", "overrides"];

/// The name under a key, from its flag or the project file. One that does not exist is refused where it is named.
pub fn named(
    session: &Session,
    key: &str,
    flag: Option<&str>,
) -> Result<Option<String>, CommandFailure> {
    if let Some(name) = flag {
        return Ok(Some(name.to_owned()));
    }
    let Some(given) = session.document.text(key)? else {
        return Ok(None);
    };
    let shelf = match key {
        "dataset" => LibraryFolder::Datasets,
        "cluster" => LibraryFolder::Clusters,
        _ => LibraryFolder::Presets,
    };
    match session.library.get(shelf, &given.text) {
        Ok(_) => Ok(Some(given.text)),
        Err(e) => Err(CommandFailure::from(e).at(&given.origin)),
    }
}

/// The profile of this name; `None` where none is named.
pub fn profile(
    session: &Session,
    shelf: LibraryFolder,
    key: &str,
    name: Option<&str>,
) -> Result<Option<ConfigDocument>, CommandFailure> {
    let Some(name) = name else {
        return Ok(None);
    };
    let source = session.library.get(shelf, name)?;
    let doc = ConfigDocument::parse(&source.path, &source.text)?;
    let mut known = PROFILE_KEYS.to_vec();
    known.push(key);
    doc.check_keys(&known)?;
    Ok(Some(doc))
}
