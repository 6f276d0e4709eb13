//! A changed copy of a Python program: it imports and finds its files as the original does.

use super::python::{PythonToken, TokenKind};

/// By these names a program finds files beside the file of its code, or starts that file again in further processes.
const BOUND: [&str; 4] = ["hydra", "inspect", "co_filename", "spawn"];

/// Whether a copy of a program elsewhere does what the original does.
pub(super) fn can_move(tokens: &[PythonToken<'_>]) -> bool {
    !tokens.iter().any(|t| BOUND.contains(&t.text))
}

/// The line by which a copy is taken for its original, and the byte at which it stands.
pub(super) fn original(tokens: &[PythonToken<'_>], path: &str) -> (usize, String) {
    let literal = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut line = format!("import sys; sys.path[0] = {}", literal(folder));
    if tokens.iter().any(|t| t.is("__file__")) {
        line += &format!("; __file__ = {}", literal(path));
    }
    // Python wants these first.
    let is_first = |statement: &&[PythonToken<'_>]| match statement {
        [] => true,
        [text] => text.kind == TokenKind::Text,
        [from, future, ..] => from.is("from") && future.is("__future__"),
    };
    let mut statements = tokens.split(|t| t.kind == TokenKind::End);
    let first = statements.find(|s| !is_first(s)).and_then(<[_]>::first);
    let at = first.map_or(0, |token| token.from);
    (at, format!("{line} # oomctl: this is a changed copy\n"))
}

/// The folder from which a program says that it imports first.
pub(super) fn import_root<'t>(tokens: &[PythonToken<'t>]) -> Option<&'t str> {
    tokens.windows(8).find_map(|w| {
        let set = ["sys", ".", "path", "[", "0", "]", "="].iter().zip(w);
        let is_set = set.fold(true, |all, (text, token)| all && token.is(text));
        (is_set && w[7].kind == TokenKind::Text).then_some(w[7].text)
    })
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    /// A copy with its line.
    fn copied(text: &str) -> String {
        let (at, line) = original(&tokens(text), "/home/o'me/train.py");
        format!("{}{line}{}", &text[..at], &text[at..])
    }

    #[test]
    fn a_copy_imports_from_the_folder_of_the_original() {
        let line = "import sys; sys.path[0] = '/home/o\\'me' # oomctl: this is a changed copy\n";
        let first =
            "#!/usr/bin/env python\n\"\"\"Trains.\"\"\"\nfrom __future__ import annotations\n";
        assert_eq!(
            copied(&format!("{first}\nimport os\n")),
            format!("{first}\n{line}import os\n")
        );
        let named = copied("print(__file__)\n");
        assert!(
            named.contains("; __file__ = '/home/o\\'me/train.py' #"),
            "{named}"
        );
        let root = "import sys; sys.path[0] = '/home/me'\n";
        assert_eq!(import_root(&tokens(root)), Some("/home/me"));
        assert_eq!(import_root(&tokens("sys.path.insert(0, 'x')\n")), None);
    }

    #[test]
    fn a_program_that_looks_for_its_own_file_stays_where_it_is() {
        assert!(can_move(&tokens("import torch\n")));
        for text in [
            "@hydra.main(config_path='conf')\n",
            "mp.set_start_method('spawn')\n",
            "inspect.getfile(f)\n",
        ] {
            assert!(!can_move(&tokens(text)), "{text}");
        }
    }
}
