//! The project's own Rust files, read and parsed for the tests that count and compare.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// How the names of our libraries begin in code.
pub const LIBRARY: &str = "oomctl_";

/// One parsed file.
pub struct Source {
    /// Path from the repository's root, such as `src/core/job.rs`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its syntax.
    pub syntax: syn::File,
}

impl Source {
    /// Parses `text` as if it stood at `path`.
    pub fn parse(path: &str, text: &str) -> Self {
        let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            syntax,
        }
    }

    /// Module path of the file: `src/core/ladder/mod.rs` is `core, ladder`; `crates/base/src/job.rs` is `oomctl_base, job`.
    pub fn module(&self) -> Vec<String> {
        let inside = self.path.strip_prefix("crates/");
        let library = inside.and_then(|rest| rest.split_once("/src/"));
        let inner = library.map_or(self.path.trim_start_matches("src/"), |(_, inner)| inner);
        let parts = inner.trim_end_matches(".rs").split('/');
        let parts = parts.filter(|part| !matches!(*part, "mod" | "lib"));
        let library = library.map(|(name, _)| format!("{LIBRARY}{name}"));
        library
            .into_iter()
            .chain(parts.map(str::to_owned))
            .collect()
    }

    /// True for a file that holds tests only (`tests.rs`, `tests/…`).
    pub fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part.trim_end_matches(".rs"), "tests" | "test"))
    }
}

/// Root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` (from the root) with one of the extensions, sorted, as (path, text).
pub fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(folder), extensions, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, extensions: &[&str], found: &mut Vec<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let extension = path.extension().and_then(|text| text.to_str());
        if path.is_dir() {
            walk(&path, extensions, found);
        } else if extension.is_some_and(|text| extensions.contains(&text)) {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
            found.push((name.to_owned(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// What `look` finds in all of `src` and the libraries. That is parsed once, on a thread of its own: syntax cannot change threads.
pub fn in_sources<R: Send + 'static>(look: impl FnOnce(&[Source]) -> R + Send + 'static) -> R {
    type Look = Box<dyn FnOnce(&[Source]) + Send>;
    static LOOKS: LazyLock<Mutex<Sender<Look>>> = LazyLock::new(|| {
        let (looks, asked) = channel::<Look>();
        std::thread::spawn(move || {
            let sources = sources();
            asked.into_iter().for_each(|look| look(&sources));
        });
        Mutex::new(looks)
    });
    let (answer, found) = channel();
    let look = Box::new(move |sources: &[Source]| drop(answer.send(look(sources))));
    LOOKS.lock().unwrap().send(look).unwrap();
    found.recv().expect("src can be read and looked through")
}

fn sources() -> Vec<Source> {
    let all = [files("src", &["rs"]), files("crates", &["rs"])].concat();
    let found: Vec<_> = all
        .iter()
        .filter(|(path, _)| path.contains("src/"))
        .map(|(path, text)| Source::parse(path, text))
        .collect();
    assert!(found.len() > 10, "src was not found");
    found
}

/// True if the attributes say `#[cfg(test)]` or `#[test]`.
pub fn is_test_item(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|path| path.is_ident("test"))
    })
}

/// The attributes of an item.
pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// The file's tokens without attributes, doc comments and test items, flat, with their lines. A group
/// shows as its opening and closing sign.
pub fn code_tokens(source: &Source) -> Vec<(String, usize)> {
    let tokens: TokenStream = source.text.parse().expect("the file was parsed before");
    let mut flat = Vec::new();
    flatten(tokens, &mut flat);
    flat
}

fn flatten(tokens: TokenStream, flat: &mut Vec<(String, usize)>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let line = token.span().start().line;
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                if skip_attribute(&mut tokens) {
                    skip_item(&mut tokens);
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                flat.push((open.to_owned(), line));
                flatten(group.stream(), flat);
                flat.push((close.to_owned(), group.span_close().start().line));
            }
            other => flat.push((other.to_string(), line)),
        }
    }
}

type Tokens = std::iter::Peekable<proc_macro2::token_stream::IntoIter>;

/// Takes the rest of an attribute; true if it says that the item behind it is a test.
fn skip_attribute(tokens: &mut Tokens) -> bool {
    if matches!(tokens.peek(), Some(TokenTree::Punct(sign)) if sign.as_char() == '!') {
        tokens.next();
    }
    match tokens.peek() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            let text = group.stream().to_string().replace(' ', "");
            tokens.next();
            matches!(text.as_str(), "cfg(test)" | "test")
        }
        _ => false,
    }
}

/// Takes one item: to its `;` or its braces.
fn skip_item(tokens: &mut Tokens) {
    for token in tokens.by_ref() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == ';' => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            _ => {}
        }
    }
}
