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

#[test]
fn a_key_comes_with_the_objects_around_it_that_are_missing() {
    let with = |text: &str, key: &str| {
        let (at, more) = SettingsFormat::Json
            .read(text)?
            .room(text, key, "\"cpu\"")?;
        Some(format!("{}{more}{}", &text[..at], &text[at..]))
    };
    let text = "{\n  \"zero\": {\n    \"stage\": 3\n  }\n}";
    let added = with(text, "zero.offload.device").unwrap();
    assert_eq!(
        added,
        "{\n  \"zero\": {\n    \"stage\": 3,\n    \"offload\": {\"device\": \"cpu\"}\n  }\n}"
    );
    let settings = SettingsFormat::Json.read(&added).unwrap();
    let found = settings.find("zero.offload.device").unwrap();
    assert_eq!(found.text.as_deref(), Some("cpu"));
    assert_eq!(
        with(text, "zero.to"),
        Some(text.replace("3\n", "3,\n    \"to\": \"cpu\"\n"))
    );
    // Of a name that nothing has, it may be another program's file.
    assert_eq!(with(text, "other.offload.device"), None);
    assert_eq!(with("{\"zero\": {}}", "zero.a.b"), None);
}
