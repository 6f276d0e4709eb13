//! Groups and packages: where files are looked for, and under which keys they are put.
//!
//! Source: "Packages" of Hydra 1.3's documentation, and `hydra/core/default_element.py` of hydra-core 1.3.

/// What stands for the group of a file.
pub(super) const GROUP: &str = "_group_";

/// Whether a package is put together from the names of the file that it is for.
pub(super) fn names_itself(package: &str) -> bool {
    package.contains(GROUP) || package.contains("_name_")
}

/// The package that a file asks for in its first lines.
pub(super) fn header(text: &str) -> Option<&str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut comments = lines.map_while(|line| line.strip_prefix('#'));
    comments.find_map(|line| {
        let line = line.trim_start_matches('#').trim();
        line.strip_prefix("@package ").map(str::trim)
    })
}

/// A package below another one.
pub(super) fn in_package(parent: &str, own: &str) -> String {
    let own = match own {
        "_here_" => "",
        own => own,
    };
    let whole = match (parent, own) {
        ("", own) => own.to_owned(),
        (parent, "") => parent.to_owned(),
        (parent, own) => format!("{parent}.{own}"),
    };
    match whole.rfind("_global_") {
        Some(at) => whole[at + "_global_".len()..]
            .trim_start_matches('.')
            .to_owned(),
        None => whole,
    }
}

/// A group's or file's path below the folders, as a file in `group` names it.
pub(super) fn from_root(group: &str, name: &str) -> String {
    match name.strip_prefix('/') {
        Some(name) => name.to_owned(),
        None if group.is_empty() => name.to_owned(),
        None => format!("{group}/{name}"),
    }
}

/// A group as a package.
pub(super) fn dotted(group: &str) -> String {
    group.replace('/', ".")
}

/// The name of a configuration without its ending.
pub(crate) fn stem(name: &str) -> &str {
    name.strip_suffix(".yaml").unwrap_or(name)
}
