//! Files of settings and what stands in them.

use super::SettingsFormat;

/// The bytes of a value and what they mean; empty where there is none.
fn check(format: SettingsFormat, text: &str, key: &str, bytes: &str, meaning: &str) {
    let read = format.read(text);
    let found = read.as_ref().and_then(|s| s.find(key));
    let written = found.map_or("", |e| &text[e.bytes.clone()]);
    let meant = found.and_then(|e| e.text.as_deref()).unwrap_or("");
    assert_eq!((written, meant), (bytes, meaning), "{key} in {text}");
}

#[test]
fn a_value_of_json_is_found_with_its_bytes() {
    let json = |text: &str, key: &str, bytes: &str, meaning: &str| {
        check(SettingsFormat::Json, text, key, bytes, meaning);
    };
    let text = "{ // sizes\n \"a\": {\"b\": 4, \"c\": [1, {\"b\": 5}]},\n \"s\": \"x\\\"y\", /* no */ \"t\": true,\n}\n";
    json(text, "a.b", "4", "4");
    json(text, "s", "\"x\\\"y\"", "x\"y");
    json(text, "t", "true", "true");
    json(text, "a.c", "[1, {\"b\": 5}]", "");
    json(text, "a.d", "", "");
    // The later one counts, as in every parser in use.
    json("{\"a\": 1, \"a\": 2}", "a", "2", "2");
    json("{\"a\": {\"b\": 1}, \"a\": {}}", "a.b", "", "");
    for broken in [
        "{\"a\": 1",
        "{\"a\" 1}",
        "[",
        "{\"a\": 1} x",
        "",
        "{\"a\": }",
    ] {
        json(broken, "a", "", "");
    }
    json(&"[".repeat(100_000), "a", "", "");
}

#[test]
fn a_value_of_toml_is_found_with_its_bytes() {
    let toml = |text: &str, key: &str, bytes: &str, meaning: &str| {
        check(SettingsFormat::Toml, text, key, bytes, meaning);
    };
    let text = "# sizes\nlr = 1e-5 # no\n[train]\nbatch = 4\nname = 'x'\n[a.b]\nc = { d = true }\n";
    toml(text, "lr", "1e-5", "1e-5");
    toml(text, "train.batch", "4", "4");
    toml(text, "train.name", "'x'", "x");
    toml(text, "a.b.c.d", "true", "true");
    toml(text, "train.none", "", "");
    toml("a = ", "a", "", "");
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
