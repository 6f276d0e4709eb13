//! The rules of the house that can be counted: lengths, documented items, banned calls and words.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::source::{Source, attributes, code_tokens, files, in_sources, is_test_item};
use oomctl_base::word_list;

const FILE_LINES: usize = 400;
const SUBCOMMAND_LINES: usize = 150;
const FUNCTION_LINES: usize = 70;
const NINE_IN_TEN_LINES: usize = 35;

/// The only folder that prints.
const PRINTS: &str = "src/view";

/// A framework's words; they belong into presets and templates. Texts of logs are recognised in `diagnose`.
const FRAMEWORK_WORDS: [&str; 8] = word_list(
    "verl ppo_mini_batch_size ppo_micro_batch_size actor_rollout_ref gpu_memory_utilization
     train_batch_size max_response_length param_offload",
);
const LOG_TEXTS: &str = "crates/diagnose/";

const PRINTING: [&str; 5] = ["println", "eprintln", "print", "eprint", "dbg"];
const UNFINISHED: [&str; 2] = ["todo", "unimplemented"];
const UNWRAPS: [&str; 4] = ["unwrap", "unwrap_err", "unwrap_unchecked", "expect_err"];
const EMPTY_NAMES: [&str; 8] = [
    "util", "utils", "helper", "helpers", "common", "manager", "managers", "misc",
];

/// Words that only we used, each with the field's word for it.
const OUR_OWN_WORDS: [(&str, &str); 15] = [
    ("condensed", "resampled"),
    ("courier", "notifier"),
    ("doomed", "infeasible"),
    ("errand", "delivery"),
    ("gauge", "model cache"),
    ("guess", "particle"),
    ("guesses", "particles"),
    ("lesson", "observation"),
    ("loom", "trainer"),
    ("quads", "bloom filter"),
    ("relay", "watch chain"),
    ("seat", "simulated supervisor"),
    ("sieve", "prefilter"),
    ("tape", "choices"),
    ("workshop", "evaluation cache"),
];

/// Lines of a file outside its test items.
fn lines_without_tests(source: &Source) -> usize {
    let tests: usize = source
        .syntax
        .items
        .iter()
        .filter(|item| is_test_item(attributes(item)))
        .map(|item| lines_of(item.span()))
        .sum();
    source.text.lines().count() - tests
}

fn lines_of(span: proc_macro2::Span) -> usize {
    span.end().line - span.start().line + 1
}

fn long_files(sources: &[Source]) -> Vec<String> {
    let shipped = sources.iter().filter(|source| !source.is_test());
    shipped
        .filter_map(|source| {
            let (lines, limit) = (lines_without_tests(source), file_limit(&source.path));
            (lines > limit).then(|| format!("{}: {lines} lines, limit {limit}", source.path))
        })
        .collect()
}

fn file_limit(path: &str) -> usize {
    if path.starts_with("src/cli/commands/") {
        SUBCOMMAND_LINES
    } else {
        FILE_LINES
    }
}

/// The lines of every function body outside tests, as (place, lines between the braces).
struct Bodies<'a> {
    path: &'a str,
    found: Vec<(String, usize)>,
}

impl Bodies<'_> {
    fn add(&mut self, name: &syn::Ident, block: &syn::Block) {
        let span = block.brace_token.span;
        let lines = (span.close().start().line - span.open().start().line).saturating_sub(1);
        let place = format!("{}:{} {name}", self.path, name.span().start().line);
        self.found.push((place, lines));
    }
}

impl<'ast> Visit<'ast> for Bodies<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_item(attributes(item)) {
            visit::visit_item(self, item);
        }
    }
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig.ident, &function.block);
        visit::visit_item_fn(self, function);
    }
    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig.ident, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig.ident, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn bodies(sources: &[Source]) -> Vec<(String, usize)> {
    let shipped = sources.iter().filter(|source| !source.is_test());
    shipped
        .flat_map(|source| {
            let mut bodies = Bodies {
                path: &source.path,
                found: Vec::new(),
            };
            bodies.visit_file(&source.syntax);
            bodies.found
        })
        .collect()
}

/// Public items without a doc comment; `pub(crate)` and items of a trait's implementation are not public here.
struct Undocumented<'a> {
    path: &'a str,
    found: Vec<String>,
}

impl Undocumented<'_> {
    fn check(&mut self, public: &syn::Visibility, attrs: &[syn::Attribute], name: &syn::Ident) {
        if matches!(public, syn::Visibility::Public(_)) {
            self.require(attrs, name);
        }
    }
    fn require(&mut self, attrs: &[syn::Attribute], name: &syn::Ident) {
        if !attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("doc"))
        {
            let line = name.span().start().line;
            self.found
                .push(format!("{}:{line} {name} has no doc comment", self.path));
        }
    }
    fn fields(&mut self, fields: &syn::Fields) {
        for field in fields {
            if let Some(name) = &field.ident {
                self.check(&field.vis, &field.attrs, name);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Undocumented<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_item(attributes(item)) {
            return;
        }
        match item {
            syn::Item::Fn(i) => self.check(&i.vis, &i.attrs, &i.sig.ident),
            syn::Item::Const(i) => self.check(&i.vis, &i.attrs, &i.ident),
            syn::Item::Static(i) => self.check(&i.vis, &i.attrs, &i.ident),
            syn::Item::Type(i) => self.check(&i.vis, &i.attrs, &i.ident),
            syn::Item::Struct(i) => {
                self.check(&i.vis, &i.attrs, &i.ident);
                if matches!(i.vis, syn::Visibility::Public(_)) {
                    self.fields(&i.fields);
                }
            }
            syn::Item::Enum(i) => {
                self.check(&i.vis, &i.attrs, &i.ident);
                if matches!(i.vis, syn::Visibility::Public(_)) {
                    i.variants
                        .iter()
                        .for_each(|v| self.require(&v.attrs, &v.ident));
                }
            }
            syn::Item::Trait(i) => self.check(&i.vis, &i.attrs, &i.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }
    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.check(&function.vis, &function.attrs, &function.sig.ident);
    }
    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.require(&function.attrs, &function.sig.ident);
    }
}

fn undocumented(sources: &[Source]) -> Vec<String> {
    let core = sources
        .iter()
        .filter(|source| !source.is_test())
        .filter(|source| {
            ["src/core", "crates"]
                .iter()
                .any(|at| source.path.starts_with(at))
        });
    core.flat_map(|source| {
        let mut check = Undocumented {
            path: &source.path,
            found: Vec::new(),
        };
        check.visit_file(&source.syntax);
        check.found
    })
    .collect()
}

/// Calls that are banned outside tests: unwraps, an `expect` without a reason, printing, unfinished code.
fn banned_calls(sources: &[Source]) -> Vec<String> {
    let shipped = sources.iter().filter(|source| !source.is_test());
    shipped
        .flat_map(|source| {
            let tokens = code_tokens(source);
            let mut found = Vec::new();
            for at in 0..tokens.len() {
                if let Some(what) = banned_call(&tokens, at, &source.path) {
                    found.push(format!("{}:{} {what}", source.path, tokens[at].1));
                }
            }
            found
        })
        .collect()
}

fn banned_call(tokens: &[(String, usize)], at: usize, path: &str) -> Option<String> {
    let word = |offset: usize| tokens.get(offset).map_or("", |(text, _)| text.as_str());
    let (name, method) = (
        word(at),
        at > 0 && word(at - 1) == "." && word(at + 1) == "(",
    );
    let macro_call = word(at + 1) == "!";
    if method && UNWRAPS.contains(&name) {
        return Some(format!(".{name}()"));
    }
    if method && name == "expect" && !is_reason(word(at + 2)) {
        return Some(".expect() without a reason in words".to_owned());
    }
    if macro_call && PRINTING.contains(&name) && !path.starts_with(PRINTS) {
        return Some(format!("{name}! outside {PRINTS}"));
    }
    (macro_call && UNFINISHED.contains(&name)).then(|| format!("{name}!"))
}

/// A string of at least three words, such as `"parsed two lines above"`.
fn is_reason(literal: &str) -> bool {
    literal.starts_with('"') && literal.split_whitespace().count() >= 3
}

/// A framework's words in names and strings of the code; doc comments and tests may use them.
fn framework_words(sources: &[Source]) -> Vec<String> {
    let shipped = sources
        .iter()
        .filter(|source| !source.is_test() && !source.path.starts_with(LOG_TEXTS));
    shipped
        .flat_map(|source| {
            code_tokens(source).into_iter().filter_map(|(text, line)| {
                let word = FRAMEWORK_WORDS.iter().find(|word| names(&text, word))?;
                Some(format!("{}:{line} names `{word}`", source.path))
            })
        })
        .collect()
}

/// True if `word` stands in `text` as a word of its own: `verl-grpo`, not `overlap`.
fn names(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let letter = |char: char| char.is_ascii_alphabetic();
        !text[..at].ends_with(letter) && !text[at + word.len()..].starts_with(letter)
    })
}

/// The parts of a name: `EvaluationCache` and `evaluation_cache` are `evaluation` and `cache`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let shouted = !name.contains(char::is_lowercase);
    for letter in name.chars() {
        let begins = letter == '_' || letter.is_uppercase() && !shouted;
        if begins && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.extend(letter.to_lowercase());
        }
    }
    parts
}

/// Names of files and of things in code with a word in them that only we used.
fn our_own_words(sources: &[Source]) -> Vec<String> {
    let known = |name: &str| {
        let parts = parts(name);
        let ours = |(word, _): &&(&str, &str)| parts.iter().any(|part| part == word);
        OUR_OWN_WORDS.iter().find(ours)
    };
    let mut found = Vec::new();
    for source in sources {
        let names = code_tokens(source).into_iter();
        let names = names.filter(|(text, _)| text.starts_with(|c: char| c.is_alphabetic()));
        for (name, line) in names.chain([(source.path.replace(['/', '.'], "_"), 0)]) {
            found.extend(known(&name).map(|(word, instead)| {
                format!("{}:{line} {name}: for {word} write {instead}", source.path)
            }));
        }
    }
    found
}

/// Modules, files and types whose name says nothing.
fn empty_names(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for part in source.path.trim_end_matches(".rs").split('/') {
            if EMPTY_NAMES.contains(&part) {
                found.push(format!("{}: a file or folder called `{part}`", source.path));
            }
        }
        let tokens = code_tokens(source);
        for pair in tokens.windows(2) {
            let (keyword, name) = (pair[0].0.as_str(), pair[1].0.as_str());
            let vague_type = ["Manager", "Helper", "Utils", "Util"]
                .iter()
                .any(|end| name.ends_with(end));
            let vague = match keyword {
                "mod" => EMPTY_NAMES.contains(&name),
                "struct" | "enum" | "trait" => vague_type,
                _ => false,
            };
            if vague {
                found.push(format!("{}:{} {keyword} {name}", source.path, pair[1].1));
            }
        }
    }
    found
}

/// Left-over marks in what we wrote.
fn leftovers(texts: &[(String, String)]) -> Vec<String> {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
    ];
    let mut found = Vec::new();
    for (path, text) in texts {
        for (number, line) in text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) {
                found.push(format!("{path}:{} {mark}", number + 1));
            }
        }
    }
    found
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    none(&in_sources(long_files));
}

#[test]
fn no_function_is_too_long_and_nine_in_ten_are_short() {
    let mut bodies = in_sources(bodies);
    bodies.sort_by_key(|(_, lines)| *lines);
    let long: Vec<_> = bodies
        .iter()
        .filter(|(_, lines)| *lines > FUNCTION_LINES)
        .collect();
    assert!(long.is_empty(), "over {FUNCTION_LINES} lines: {long:#?}");
    let (place, lines) = &bodies[bodies.len() * 9 / 10];
    assert!(
        *lines <= NINE_IN_TEN_LINES,
        "90th percentile is {lines} lines: {place}"
    );
}

#[test]
fn every_public_item_in_core_has_a_doc_comment() {
    none(&in_sources(undocumented));
}

#[test]
fn nothing_unwraps_prints_or_is_unfinished_outside_tests() {
    none(&in_sources(banned_calls));
}

#[test]
fn no_framework_is_named_in_the_code() {
    none(&in_sources(framework_words));
}

#[test]
fn every_name_says_something() {
    let tests: Vec<Source> = files("tests", &["rs"])
        .iter()
        .map(|(path, text)| Source::parse(path, text))
        .collect();
    none(&empty_names(&tests));
    none(&in_sources(empty_names));
}

/// Types of the program and its libraries that bear a name which another one bears, too.
fn borne_twice(sources: &[Source]) -> Vec<String> {
    let mut bearers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        for item in &source.syntax.items {
            let name = match item {
                _ if is_test_item(attributes(item)) => continue,
                syn::Item::Struct(item) => &item.ident,
                syn::Item::Enum(item) => &item.ident,
                syn::Item::Trait(item) => &item.ident,
                syn::Item::Type(item) => &item.ident,
                _ => continue,
            };
            bearers
                .entry(name.to_string())
                .or_default()
                .push(&source.path);
        }
    }
    bearers.retain(|_, paths| paths.len() > 1);
    let told = bearers.iter();
    told.map(|(name, paths)| format!("{name}: {}", paths.join(", ")))
        .collect()
}

#[test]
fn no_name_is_borne_by_two_types() {
    none(&in_sources(borne_twice));
}

#[test]
fn names_are_the_words_of_the_field() {
    none(&in_sources(our_own_words));
}

#[test]
fn nothing_is_left_over() {
    let extensions = ["rs", "py", "j2", "yaml", "md", "sh", "toml"];
    let folders = word_list::<9>("src crates tests templates presets examples benches docs python");
    let texts: Vec<_> = folders
        .iter()
        .flat_map(|folder| files(folder, &extensions))
        .collect();
    none(&leftovers(&texts));
}

/// Each rule finds what was planted for it.
mod planted {
    use super::*;

    #[test]
    fn a_word_of_our_own_is_found_in_names_of_any_case() {
        for text in [
            "struct LastLesson;",
            "fn lesson_of() {}",
            "const LESSON: u8 = 1;",
        ] {
            assert_eq!(
                our_own_words(&at("src/core/job.rs", text)).len(),
                1,
                "{text}"
            );
        }
        assert_eq!(our_own_words(&at("src/core/lesson.rs", "")).len(), 1);
        assert_eq!(
            our_own_words(&at("src/core/job.rs", "struct Lessons;")).len(),
            0
        );
    }

    fn at(path: &str, text: &str) -> Vec<Source> {
        vec![Source::parse(path, text)]
    }

    #[test]
    fn a_long_file_counts_without_its_tests() {
        let code = "const A: u8 = 1;\n".repeat(FILE_LINES + 1);
        assert_eq!(long_files(&at("src/core/job.rs", &code)).len(), 1);
        let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(long_files(&at("src/core/job.rs", &tested)).len(), 0);
        let short = "const A: u8 = 1;\n".repeat(SUBCOMMAND_LINES + 1);
        assert_eq!(
            long_files(&at("src/cli/commands/submit.rs", &short)).len(),
            1
        );
        assert_eq!(long_files(&at("src/view/text.rs", &short)).len(), 0);
    }

    #[test]
    fn bodies_are_counted_between_the_braces() {
        let text =
            "fn f() {\n    a();\n    b();\n}\nimpl X { fn g() { c() } }\n#[test]\nfn t() {\n\n}\n";
        let found: Vec<usize> = bodies(&at("src/io/files.rs", text))
            .into_iter()
            .map(|b| b.1)
            .collect();
        assert_eq!(found, [2, 0]);
    }

    #[test]
    fn undocumented_items_fields_variants_and_methods_are_found() {
        let text = "pub struct A { pub b: u8, c: u8 } pub enum D { E } pub trait F { fn g(); }
            impl A { pub fn h() {} fn i() {} } pub(crate) fn j() {} /// Documented.\npub fn k() {}";
        assert_eq!(undocumented(&at("src/core/job.rs", text)).len(), 7);
        assert_eq!(undocumented(&at("src/io/files.rs", text)).len(), 0);
    }

    #[test]
    fn banned_calls_are_found_also_inside_macros() {
        let banned = [
            "fn f() { x.unwrap(); }",
            "fn f() { format!(\"{}\", x.unwrap()); }",
            "fn f() { x.expect(\"ok\"); }",
            "fn f() { x.expect(&text); }",
            "fn f() { println!(\"x\"); }",
            "fn f() { unimplemented!() }",
        ];
        for text in banned {
            assert_eq!(
                banned_calls(&at("src/io/files.rs", text)).len(),
                1,
                "{text}"
            );
        }
        let allowed = [
            "fn f() { x.expect(\"checked two lines above\"); }",
            "fn f() { x.unwrap_or_default(); }",
            "#[cfg(test)] mod tests { fn f() { x.unwrap(); println!(); } }",
            "/// `x.unwrap()`\nfn f() {}",
        ];
        for text in allowed {
            assert_eq!(
                banned_calls(&at("src/io/files.rs", text)),
                Vec::<String>::new(),
                "{text}"
            );
        }
        assert_eq!(
            banned_calls(&at("src/view/text.rs", "fn f() { println!(); }")).len(),
            0
        );
    }

    #[test]
    fn framework_words_are_found_in_code_and_not_in_comments() {
        let named = ["const A: &str = \"verl\";", "fn train_batch_size() {}"];
        for text in named {
            assert_eq!(
                framework_words(&at("src/core/job.rs", text)).len(),
                1,
                "{text}"
            );
        }
        assert!(!names("--overlap", "verl") && names("verl-grpo", "verl"));
        let said = "/// As in verl.\nfn f() {} // train_batch_size\n#[cfg(test)] mod tests { const A: &str = \"verl\"; }";
        assert_eq!(
            framework_words(&at("src/core/job.rs", said)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        assert_eq!(empty_names(&at("src/core/utils.rs", "")).len(), 1);
        assert_eq!(
            empty_names(&at("src/core/job.rs", "mod common {} struct RunManager;")).len(),
            2
        );
        assert_eq!(
            empty_names(&at("src/core/job.rs", "struct Helpful; mod commonly {}")).len(),
            0
        );
    }

    #[test]
    fn leftovers_are_found() {
        let text = format!("a\n// {}: b\n", concat!("TO", "DO"));
        assert_eq!(
            leftovers(&[("x.rs".to_owned(), text)]),
            ["x.rs:2 TO\u{44}O"]
        );
    }
}
