//! Files of settings and what stands in them.

use super::SettingsFormat;

fn check(
    format: SettingsFormat,
    text: &str,
    key: &str,
    bytes: Option<&str>,
    meaning: Option<&str>,
) {
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
    check(SettingsFormat::Json, text, "a.b", Some("4"), Some("4"));
    check(
        SettingsFormat::Json,
        text,
        "s",
        Some("\"x\\\"y\""),
        Some("x\"y"),
    );
    check(SettingsFormat::Json, text, "t", Some("true"), Some("true"));
    check(
        SettingsFormat::Json,
        text,
        "a.c",
        Some("[1, {\"b\": 5}]"),
        None,
    );
    check(SettingsFormat::Json, text, "a.d", None, None);
    // The later one counts, as in every parser in use.
    check(
        SettingsFormat::Json,
        "{\"a\": 1, \"a\": 2}",
        "a",
        Some("2"),
        Some("2"),
    );
    check(
        SettingsFormat::Json,
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
        check(SettingsFormat::Json, broken, "a", None, None);
    }
    let deep = "[".repeat(100_000);
    check(SettingsFormat::Json, &deep, "a", None, None);
}

#[test]
fn a_value_of_toml_is_found_with_its_bytes() {
    let text = "# sizes\nlr = 1e-5 # no\n[train]\nbatch = 4\nname = 'x'\n[a.b]\nc = { d = true }\n";
    check(SettingsFormat::Toml, text, "lr", Some("1e-5"), Some("1e-5"));
    check(
        SettingsFormat::Toml,
        text,
        "train.batch",
        Some("4"),
        Some("4"),
    );
    check(
        SettingsFormat::Toml,
        text,
        "train.name",
        Some("'x'"),
        Some("x"),
    );
    check(
        SettingsFormat::Toml,
        text,
        "a.b.c.d",
        Some("true"),
        Some("true"),
    );
    check(SettingsFormat::Toml, text, "train.none", None, None);
    check(SettingsFormat::Toml, "a = ", "a", None, None);
}
