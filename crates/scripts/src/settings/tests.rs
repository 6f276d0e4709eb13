//! Files of settings and what stands in them.

use super::Format;

fn check(format: Format, text: &str, key: &str, bytes: Option<&str>, meaning: Option<&str>) {
    let read = format.read(text);
    let found = read.as_ref().and_then(|s| s.find(key));
    assert_eq!(
        found.map(|e| &text[e.bytes.clone()]),
        bytes,
        "{key} in {text}"
    );
    assert_eq!(
        found.and_then(|e| e.text.as_deref()),
        meaning,
        "{key} in {text}"
    );
}

#[test]
fn a_value_of_json_is_found_with_its_bytes() {
    let text = "{ // sizes\n \"a\": {\"b\": 4, \"c\": [1, {\"b\": 5}]},\n \"s\": \"x\\\"y\", /* no */ \"t\": true,\n}\n";
    check(Format::Json, text, "a.b", Some("4"), Some("4"));
    check(Format::Json, text, "s", Some("\"x\\\"y\""), Some("x\"y"));
    check(Format::Json, text, "t", Some("true"), Some("true"));
    check(Format::Json, text, "a.c", Some("[1, {\"b\": 5}]"), None);
    check(Format::Json, text, "a.d", None, None);
    // The later one counts, as in every parser in use.
    check(
        Format::Json,
        "{\"a\": 1, \"a\": 2}",
        "a",
        Some("2"),
        Some("2"),
    );
    check(
        Format::Json,
        "{\"a\": {\"b\": 1}, \"a\": {}}",
        "a.b",
        None,
        None,
    );
    for broken in [
        "{\"a\": 1",
        "{\"a\" 1}",
        "[",
        "{\"a\": 1} x",
        "",
        "{\"a\": }",
    ] {
        check(Format::Json, broken, "a", None, None);
    }
    let deep = "[".repeat(100_000);
    check(Format::Json, &deep, "a", None, None);
}

#[test]
fn a_value_of_toml_is_found_with_its_bytes() {
    let text = "# sizes\nlr = 1e-5 # no\n[train]\nbatch = 4\nname = 'x'\n[a.b]\nc = { d = true }\n";
    check(Format::Toml, text, "lr", Some("1e-5"), Some("1e-5"));
    check(Format::Toml, text, "train.batch", Some("4"), Some("4"));
    check(Format::Toml, text, "train.name", Some("'x'"), Some("x"));
    check(Format::Toml, text, "a.b.c.d", Some("true"), Some("true"));
    check(Format::Toml, text, "train.none", None, None);
    check(Format::Toml, "a = ", "a", None, None);
}
