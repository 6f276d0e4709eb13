//! Modules of which a text takes all names: `from lib.config import *`.

use super::python::{PythonToken, statements};
use oomctl_base::word_list;

/// Packages whose names are none of a program's settings.
const LIBRARIES: [&str; 13] = word_list(
    "torch torchvision numpy math typing tensorflow keras fastai matplotlib pylab tkinter os time",
);

/// The last names of the user's own modules of which a text takes all names.
pub(super) fn starred<'t>(tokens: &[PythonToken<'t>]) -> impl Iterator<Item = &'t str> {
    statements(tokens).filter_map(|line| match line {
        [from, module @ .., last, import, star]
            if from.is("from") && import.is("import") && star.is("*") =>
        {
            let first = module.first().unwrap_or(last);
            (!LIBRARIES.contains(&first.text)).then_some(last.text)
        }
        _ => None,
    })
}

/// Whether a path is that of a module or a package of this name.
pub(super) fn is_module_file(path: &str, module: &str) -> bool {
    let path = path.strip_suffix(".py").unwrap_or(path);
    let path = path.strip_suffix("/__init__").unwrap_or(path);
    path.rsplit('/').next() == Some(module)
}
