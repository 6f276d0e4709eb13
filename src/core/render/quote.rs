//! Quoting: the shell's and Hydra's.

use oomctl_base::Value;

/// A word for the shell: bare where nothing in it is special, else quoted.
///
/// # Errors
/// A NUL byte, which no shell word can hold.
pub fn shell_word(word: &str) -> Result<String, String> {
    if is_bare(word) {
        return Ok(word.to_owned());
    }
    shlex::try_quote(word)
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| format!("{word:?} holds a NUL byte, which no shell word can"))
}

/// Letters that are never special, and `=` where it cannot make the word an assignment.
fn is_bare(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c);
    match word.split_once('=') {
        None => !word.is_empty() && word.chars().all(plain),
        Some((name, rest)) => {
            name.contains(['.', '-', '+'])
                && name.chars().all(plain)
                && rest.chars().all(|c| plain(c) || c == '=')
        }
    }
}

/// Text for an `#SBATCH` line, where no shell runs and nothing can be quoted: only characters that
/// mean themselves.
///
/// # Errors
/// The text, when it holds anything else.
pub fn sbatch_word(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_.,:=/+@%*()[]&|-".contains(c);
    if !text.is_empty() && text.chars().all(fine) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not possible in an #SBATCH line: no spaces, quotes or control characters"
    ))
}

/// Text inside a comment of a shell script: one line, no control characters.
pub fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// A value in Hydra's override grammar (checked against hydra-core 1.3.8).
///
/// Text goes bare where Hydra reads it back as the same text, else in single quotes.
pub fn hydra_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Text(text) => hydra_text(text),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|i| hydra_text(i)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{k}: {}", hydra_text(v)))
                .collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

fn hydra_text(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+-".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !reads_as_another_type(text) {
        return text.to_owned();
    }
    // Inside quotes a backslash is special only before a quote and at the end.
    let mut quoted = String::from("'");
    let mut slashes = 0;
    for c in text.chars() {
        if c == '\'' {
            quoted.push_str(&"\\".repeat(slashes));
            quoted.push('\\');
        }
        slashes = if c == '\\' { slashes + 1 } else { 0 };
        quoted.push(c);
    }
    quoted.push_str(&"\\".repeat(slashes));
    quoted.push('\'');
    quoted
}

/// Words that Hydra reads as a number, a boolean or null.
fn reads_as_another_type(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(lower.as_str(), "true" | "false" | "null" | "nan" | "inf")
        || text.replace('_', "").parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_stay_bare_only_where_nothing_is_special() {
        for word in ["a.b=32", "--x=1", "+a.b=c", "/data/x.parquet", "0.6"] {
            assert_eq!(shell_word(word).unwrap(), word);
        }
        assert_eq!(shell_word("A=1").unwrap(), "'A=1'");
        assert_eq!(shell_word("").unwrap(), "''");
        assert_eq!(shell_word("a b$(id)`x`").unwrap(), "'a b$(id)`x`'");
        assert!(shell_word("a\0b").is_err());
        assert!(sbatch_word("gpu;id").is_err());
        assert!(sbatch_word("x\n#SBATCH --uid=0").is_err());
        assert_eq!(sbatch_word("a100&nvlink").unwrap(), "a100&nvlink");
        assert_eq!(comment("a\nb"), "a b");
    }

    #[test]
    fn hydra_text_comes_back_as_the_same_text() {
        let text = |t: &str| hydra_value(&Value::Text(t.to_owned()));
        assert_eq!(text("Qwen/Qwen2.5-7B"), "Qwen/Qwen2.5-7B");
        assert_eq!(text("1e-6"), "'1e-6'");
        assert_eq!(text("None"), "None");
        assert_eq!(text("true"), "'true'");
        assert_eq!(text("it's"), r"'it\'s'");
        assert_eq!(text(r"a\"), r"'a\\'");
        assert_eq!(text("a,b"), "'a,b'");
        assert_eq!(hydra_value(&Value::Bool(true)), "True");
        assert_eq!(
            hydra_value(&Value::List(vec!["console".into(), "wandb".into()])),
            "[console,wandb]"
        );
    }
}
