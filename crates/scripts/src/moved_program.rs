//! A changed copy of a Python program: it imports and finds its files as the original does.

use super::python::{PythonToken, TokenKind, statements};
use oomctl_base::word_list;

/// By these names a program finds files beside the file of its code, or starts that file again in further processes.
const BOUND: [&str; 5] = word_list("hydra co_filename spawn forkserver start_processes");

/// What of `inspect` looks at no file.
const LOOKS: [&str; 9] = word_list(
    "signature Parameter isclass isfunction ismethod isgenerator iscoroutinefunction getfullargspec getmembers",
);

/// What stands before and behind the path of the original, in the line by which a copy is taken for it.
const ROOT: [&str; 2] = [
    "sys.path[0] = os.path.dirname(os.path.realpath(",
    ")) if sys.path[0] == os.path.dirname(os.path.realpath(__file__)) else sys.path[0]",
];

/// What stands before, between and behind the path of a copy and the name of its module, in the line by which a program imports it.
const FINDS: [&str; 3] = [
    "import importlib.util, sys; sys.meta_path.insert(0, type('OomctlCopy', (), {'find_spec': staticmethod(lambda name, path=None, target=None: importlib.util.spec_from_file_location(name, ",
    ") if name == ",
    " else None)}))",
];

/// Whether a copy of a program elsewhere does what the original does.
pub(super) fn can_move(tokens: &[PythonToken<'_>]) -> bool {
    let uses = |name: &str| tokens.iter().any(|t| t.is(name));
    let bound = tokens.iter().any(|t| BOUND.contains(&t.text));
    let inspects = tokens.split(|t| t.kind == TokenKind::End).any(|line| {
        let from =
            line.first().is_some_and(|t| t.is("from")) && line.iter().any(|t| t.is("inspect"));
        let mut used = line
            .windows(3)
            .filter(|w| w[0].is("inspect") && w[1].is("."));
        from || used.any(|w| !LOOKS.contains(&w[2].text))
    });
    // `open(sys.argv[0])` reads the text of the copy, which is what runs.
    let reads = |at: usize| {
        let before = at.checked_sub(4).map_or(&[][..], |from| &tokens[from..at]);
        let opens = matches!(before, [open, bracket, ..] if open.is("open") && bracket.is("("));
        opens && tokens.get(at + 4).is_some_and(|t| t.is(")"))
    };
    let mut names = tokens.windows(3).enumerate();
    let own_name =
        names.any(|(at, w)| w[0].is("argv") && w[1].is("[") && w[2].is("0") && !reads(at));
    let execs = tokens
        .iter()
        .any(|t| t.is("executable") || t.text.starts_with("exec"));
    let restarts = execs && uses("__file__");
    !(bound || inspects || own_name || restarts)
}

/// The line by which a copy is taken for its original, and the byte at which it stands. Python imports first from the folder of
/// the real file that it starts (Python 3.13, "sys.path"), but not with `-P`.
pub(super) fn original(tokens: &[PythonToken<'_>], path: &str) -> (usize, String) {
    let path = literal(path);
    let mut line = format!("import os, sys; {}{path}{}", ROOT[0], ROOT[1]);
    if tokens.iter().any(|t| t.is("__file__")) {
        line += &format!("; __file__ = {path}");
    }
    (
        begin(tokens),
        format!("{line} # oomctl: this is a changed copy\n"),
    )
}

/// The byte at which the first statement stands before which others may be put.
pub(super) fn begin(tokens: &[PythonToken<'_>]) -> usize {
    // Python wants these first.
    let is_first = |statement: &&[PythonToken<'_>]| match statement {
        [from, future, ..] if from.is("from") => future.is("__future__"),
        all => all
            .iter()
            .all(|t| t.kind == TokenKind::Text || t.is("(") || t.is(")")),
    };
    let mut statements = statements(tokens);
    let first = statements.find(|s| !is_first(s)).and_then(<[_]>::first);
    first.map_or(0, |token| token.from)
}

/// The line by which the copy of a module finds files as its original does, where it asks for its own.
pub(super) fn original_module(tokens: &[PythonToken<'_>], path: &str) -> Option<(usize, String)> {
    let asks = tokens.iter().any(|t| t.is("__file__"));
    let line = || {
        format!(
            "__file__ = {} # oomctl: this is a changed copy\n",
            literal(path)
        )
    };
    asks.then(|| (begin(tokens), line()))
}

/// A text as Python writes it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The line by which a program imports the changed copy of one of its modules. Python asks the finders of `sys.meta_path` in
/// their order ("The import system", "The meta path", Python 3.13).
pub(super) fn import_copy(name: &str, copy: &str) -> String {
    let [before, between, behind] = FINDS;
    let (name, copy) = (literal(name), literal(copy));
    format!("{before}{copy}{between}{name}{behind} # oomctl: this module is a changed copy\n")
}

/// The modules of which a copy of a program imports copies, with their paths.
pub(super) fn changed_modules(text: &str) -> Vec<(&str, &str)> {
    let [before, between, behind] = FINDS;
    let inner = |text| str::strip_suffix(str::strip_prefix(text, '\'')?, '\'');
    let all = text.split(before).skip(1).filter_map(|rest| {
        let (path, rest) = rest.split_once(between)?;
        let (name, _) = rest.split_once(behind)?;
        Some((inner(name)?, inner(path)?))
    });
    all.collect()
}

/// The folder from which a copy says that it imports first.
pub(super) fn import_root(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(ROOT[0])?;
    let (path, _) = rest.strip_prefix('\'')?.split_once("'))")?;
    Some(path.rsplit_once('/')?.0)
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
        let line = "import os, sys; sys.path[0] = os.path.dirname(os.path.realpath('/home/o\\'me/train.py')) if sys.path[0] == os.path.dirname(os.path.realpath(__file__)) else sys.path[0] # oomctl: this is a changed copy\n";
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
        let (_, line) = original(&[], "/home/me/train.py");
        assert_eq!(import_root(&line), Some("/home/me"));
        assert_eq!(import_root("sys.path.insert(0, 'x')\n"), None);
        let marked = copied("\u{feff}'Trains.'\nimport os\n");
        assert!(
            marked.starts_with("\u{feff}'Trains.'\nimport os, sys;"),
            "{marked}"
        );
    }

    #[test]
    fn a_program_that_looks_for_its_own_file_stays_where_it_is() {
        assert!(can_move(&tokens("import torch\n")));
        let logs_itself = "with open(sys.argv[0]) as f:\n    code = f.read()\n";
        assert!(can_move(&tokens(logs_itself)));
        for text in [
            "@hydra.main(config_path='conf')\n",
            "mp.set_start_method('spawn')\n",
            "inspect.getfile(f)\n",
            "from inspect import getsource\n",
            "here = Path(sys.argv[0]).parent\n",
            "f = open(sys.argv[0], 'w')\n",
            "subprocess.run([sys.executable, __file__])\n",
        ] {
            assert!(!can_move(&tokens(text)), "{text}");
        }
    }
}
