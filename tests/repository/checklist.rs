//! The tests that tests/CHECKLIST.md and docs/security.md lean on exist.

use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Words between backticks, in order.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A name of a test and not of something else: words joined by underscores.
fn is_test(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.contains('_') && word.chars().all(plain)
}

/// Files and the tests that lines of a document name in them; a test belongs to the file named last before it.
fn named(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let mut file = None;
        for word in quoted(line) {
            match file {
                _ if word.ends_with(".rs") => file = Some(word),
                Some(file) if is_test(word) => found.push((file.to_owned(), word.to_owned())),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn every_test_of_the_checklist_exists() {
    let text = fs::read_to_string(Path::new(ROOT).join("tests/CHECKLIST.md")).unwrap();
    let named = named(&text);
    assert!(named.len() > 60, "only {} tests are named", named.len());
    let missing = named.iter().filter(|(file, test)| {
        let text = fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_default();
        !text.contains(&format!("fn {test}("))
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

#[test]
fn every_row_names_a_test_or_says_why_not() {
    let text = fs::read_to_string(Path::new(ROOT).join("tests/CHECKLIST.md")).unwrap();
    let rows = text.lines().filter(|line| {
        line.starts_with("| ") && !line.starts_with("| #") && !line.starts_with("| what |")
    });
    let bare = rows.filter(|row| {
        named(row).is_empty() && !row.contains("| none") && !row.contains("| no test")
    });
    // Row 20 is covered by the test of the row above it.
    let bare: Vec<_> = bare.filter(|row| !row.contains("the same:")).collect();
    assert!(bare.is_empty(), "{bare:?}");
}

/// Source files below a folder.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let all = entries.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    });
    all.filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect()
}

#[test]
fn nothing_opens_a_connection_or_a_shell() {
    let words = [
        "std::net",
        "TcpStream",
        "UdpSocket",
        "Command::new(\"sh\")",
        "Command::new(\"bash\")",
    ];
    let files = ["src", "crates"].map(|folder| sources(&Path::new(ROOT).join(folder)));
    let files = files.concat();
    assert!(files.len() > 100, "only {} files", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Tests play the part of others.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let found = words.iter().find(|word| text.contains(**word));
        let found = found.filter(|_| !file.to_string_lossy().contains("/tests"));
        assert!(found.is_none(), "{}: {found:?}", file.display());
    }
}
