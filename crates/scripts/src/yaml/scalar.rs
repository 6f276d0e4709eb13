//! A value as YAML writes it, so that a program in Python reads what is meant: its YAML takes `no` for false,
//! `12:00` for 720, and `1e-6` for text.

use serde_yaml::granit_parser::ScalarStyle;

use oomctl_base::Value;

/// A scalar to be written.
pub(super) struct WrittenScalar {
    /// Its bytes.
    pub written: String,
    /// What a parser makes of them.
    pub meaning: String,
    pub style: ScalarStyle,
}

/// Words that YAML 1.1 reads as something else than text.
const RESERVED: [&str; 11] = [
    "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf",
];

impl WrittenScalar {
    /// A value in place of one of this style; `None` for lists and maps.
    pub(super) fn of(value: &Value, like: ScalarStyle) -> Option<Self> {
        let text = match value {
            Value::Null => return Some(Self::plain("null".to_owned())),
            Value::List(_) | Value::Map(_) => return None,
            Value::Float(x) if x.fract() == 0.0 => format!("{x:.1}"),
            other => other.to_string(),
        };
        let printable = !text
            .contains(|c: char| c.is_control() || "\u{85}\u{2028}\u{2029}\u{feff}".contains(c));
        Some(match like {
            _ if !printable => Self::double(text),
            ScalarStyle::DoubleQuoted => Self::double(text),
            ScalarStyle::SingleQuoted => Self::single(text),
            _ if !matches!(value, Value::Text(_)) || is_plain(&text) => Self::plain(text),
            _ => Self::single(text),
        })
    }

    fn plain(text: String) -> Self {
        Self {
            written: text.clone(),
            meaning: text,
            style: ScalarStyle::Plain,
        }
    }

    fn single(text: String) -> Self {
        Self {
            written: format!("'{}'", text.replace('\'', "''")),
            meaning: text,
            style: ScalarStyle::SingleQuoted,
        }
    }

    fn double(text: String) -> Self {
        let mut written = String::from('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => written.extend(['\\', c]),
                '\n' => written.push_str("\\n"),
                '\t' => written.push_str("\\t"),
                c if c.is_control() || "\u{85}\u{2028}\u{2029}\u{feff}".contains(c) => {
                    written.push_str(&format!("\\u{:04X}", u32::from(c)));
                }
                c => written.push(c),
            }
        }
        written.push('"');
        Self {
            written,
            meaning: text,
            style: ScalarStyle::DoubleQuoted,
        }
    }
}

/// Text that needs no quotes anywhere, whoever reads it.
pub(super) fn is_plain(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./@+-".contains(c);
    starts && text.chars().all(plain) && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}
