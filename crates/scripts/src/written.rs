//! Values as texts: for the program that reads them, and for the quotes in which they stand.

use super::knobs::KnobForm;
use super::settings::SettingsFormat;
use super::traced::Quote;
use super::yaml;
use oomctl_base::Value;

/// A value as the program wants it in place of `old`; None for lists, maps, and what no line can hold.
pub(super) fn written(value: &Value, way: KnobForm, old: &str) -> Option<String> {
    let quote = old.chars().next().filter(|c| matches!(c, '"' | '\''));
    let text = match value {
        Value::Null | Value::List(_) | Value::Map(_) => return None,
        Value::Bool(on) => {
            let small = old
                .trim_matches(['"', '\''])
                .starts_with(char::is_lowercase);
            truth(*on, small || matches!(way, KnobForm::Setting { .. })).to_owned()
        }
        other => other.to_string(),
    };
    if text.chars().any(char::is_control) {
        return None;
    }
    let textual = matches!(value, Value::Text(_));
    match (way, quote) {
        (
            KnobForm::Setting {
                format: SettingsFormat::Yaml,
                ..
            },
            _,
        ) => yaml::written_like(value, old),
        (KnobForm::Setting { .. }, None) if !textual => Some(text),
        (KnobForm::Setting { .. }, _) => serde_json::to_string(&text).ok(),
        (KnobForm::Override { .. }, Some(q)) => Some(between(&text, q)),
        (KnobForm::Override { .. }, None) if textual && !is_bare(&text) => {
            Some(between(&text, '\''))
        }
        (KnobForm::Code { .. }, _) if textual => is_bare(&text).then_some(text),
        _ => Some(text),
    }
}

fn truth(on: bool, small: bool) -> &'static str {
    match (on, small) {
        (true, true) => "true",
        (true, false) => "True",
        (false, true) => "false",
        (false, false) => "False",
    }
}

/// Text between quotes of Hydra's grammar, in which a backslash counts before a quote only.
fn between(text: &str, quote: char) -> String {
    let inner = text.replace(quote, &format!("\\{quote}"));
    format!("{quote}{inner}{quote}")
}

/// Whether Hydra reads a bare word as this text.
fn is_bare(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+-".contains(c);
    let other = matches!(
        text.to_ascii_lowercase().as_str(),
        "" | "true" | "false" | "null" | "yes" | "no" | "on" | "off"
    );
    let number = text.replace('_', "").parse::<f64>().is_ok();
    text.chars().all(plain) && !other && !number && !text.ends_with(':')
}

/// Text as it is put between these quotes; None where it cannot stand there.
pub(super) fn quoted(text: &str, quote: Quote) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+-=,".contains(c);
    let escaped = |special: &[char]| {
        let mut all = String::new();
        for c in text.chars() {
            if special.contains(&c) {
                all.push('\\');
            }
            all.push(c);
        }
        all
    };
    match quote {
        Quote::Raw => Some(text.to_owned()),
        Quote::Single => (!text.contains('\'')).then(|| text.to_owned()),
        Quote::Double => Some(escaped(&['"', '$', '`', '\\'])),
        Quote::Here => Some(escaped(&['$', '`', '\\'])),
        Quote::Bare if text.is_empty() || !text.chars().all(plain) => {
            Some(format!("'{}'", text.replace('\'', "'\\''")))
        }
        Quote::Bare => Some(text.to_owned()),
        Quote::Nested => text.chars().all(plain).then(|| text.to_owned()),
    }
}
