//! The template engine: our delimiters, our quoting, strict about names.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value as Jinja};

use super::quote::{comment, hydra_value, sbatch_word, shell_word};
use crate::core::recipe::expr;

/// Steps that rendering one file may take.
const FUEL: u64 = 5_000_000;
/// Bytes of one template. A chain in it (`a|b|c`) takes some of the stack for each link.
const LONGEST: usize = 32 * 1024;

/// Why a template could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{template}{}: {what}", .line.map(|l| format!(":{l}")).unwrap_or_default())]
pub struct TemplateError {
    /// Name of the template.
    pub template: String,
    /// Line, from 1.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

/// An environment with `templates` (name to text).
///
/// Every `{{ value }}` in a `*.sh.j2` or `*.sbatch.j2` is quoted for the shell; `|safe` lifts it.
/// Comments are `{## … ##}`, so that bash's `${#array[@]}` is plain text.
///
/// # Errors
/// The first template that does not parse.
pub fn environment(
    templates: &BTreeMap<String, String>,
    version: Option<&semver::Version>,
) -> Result<Environment<'static>, TemplateError> {
    let mut env = expr::environment(version);
    env.set_fuel(Some(FUEL));
    let syntax = SyntaxConfig::builder()
        .comment_delimiters("{##", "##}")
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
        .map_err(|e| to_template_error("delimiters", &e))?;
    env.set_syntax(syntax);
    env.set_auto_escape_callback(|name| {
        if name.ends_with(".sh.j2") || name.ends_with(".sbatch.j2") {
            AutoEscape::Custom("sh".into())
        } else {
            AutoEscape::None
        }
    });
    env.set_formatter(write_value);
    env.add_filter("sbatch", |v: Jinja| {
        let text = plain(&v)?;
        sbatch_word(&text)
            .map(Jinja::from_safe_string)
            .map_err(fault)
    });
    env.add_filter("comment", |v: Jinja| {
        Ok::<_, Error>(Jinja::from_safe_string(comment(&plain(&v)?)))
    });
    env.add_filter("hydra", |v: Jinja| match expr::from_jinja(&v) {
        Some(value) => Ok(hydra_value(&value)),
        None => Err(fault(format!("{v} has no form in Hydra"))),
    });
    for (name, text) in templates {
        if text.len() > LONGEST {
            return Err(TemplateError {
                template: name.clone(),
                line: None,
                what: format!("it has {} bytes; the limit is {LONGEST}", text.len()),
            });
        }
        env.add_template_owned(name.clone(), text.clone())
            .map_err(|e| to_template_error(name, &e))?;
    }
    Ok(env)
}

fn fault(what: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// A value as text; nothing, lists and maps have none.
fn plain(value: &Jinja) -> Result<String, Error> {
    if value.is_undefined() || value.is_none() {
        return Err(fault("the value is not set here".to_owned()));
    }
    match value.kind() {
        minijinja::value::ValueKind::Seq | minijinja::value::ValueKind::Map => Err(fault(
            "a list or map must be looped over or joined".to_owned(),
        )),
        _ => Ok(value.to_string()),
    }
}

fn write_value(out: &mut Output, state: &mut State, value: &Jinja) -> Result<(), Error> {
    let text = plain(value)?;
    let quoted = match state.auto_escape() {
        AutoEscape::Custom(_) if !value.is_safe() => shell_word(&text).map_err(fault)?,
        _ => text,
    };
    out.write_str(&quoted).map_err(Error::from)
}

/// Renders one template.
///
/// # Errors
/// Template, line and what is wrong: an undefined name, a value that is not set, a value that cannot
/// be quoted there.
pub fn render(env: &Environment<'_>, name: &str, context: &Jinja) -> Result<String, TemplateError> {
    env.get_template(name)
        .and_then(|t| t.render(context.clone()))
        .map_err(|e| to_template_error(name, &e))
}

/// Only name, line and detail: the engine's full report would print every variable.
fn to_template_error(name: &str, error: &Error) -> TemplateError {
    let mut inner = error;
    while let Some(cause) = std::error::Error::source(inner).and_then(|s| s.downcast_ref()) {
        inner = cause;
    }
    TemplateError {
        template: inner.name().unwrap_or(name).to_owned(),
        line: inner.line(),
        what: inner
            .detail()
            .map_or_else(|| inner.kind().to_string(), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_render(text: &str, value: &str) -> Result<String, TemplateError> {
        let templates = BTreeMap::from([("t.sh.j2".to_owned(), text.to_owned())]);
        let env = environment(&templates, None)?;
        let context = BTreeMap::from([("v", Jinja::from(value)), ("unset", Jinja::from(()))]);
        render(&env, "t.sh.j2", &Jinja::from(context))
    }

    #[test]
    fn values_are_quoted_and_bash_is_left_alone() {
        let text = "{## note ##}echo ${#a[@]} ${x%%.*} $((1+2)) {{ v }}\n";
        assert_eq!(
            try_render(text, "a b; rm -rf $HOME").unwrap(),
            "echo ${#a[@]} ${x%%.*} $((1+2)) 'a b; rm -rf $HOME'\n"
        );
        assert_eq!(try_render("{{ v|safe }}", "$X").unwrap(), "$X");
    }

    #[test]
    fn undefined_unset_and_unquotable_values_name_the_template_line() {
        let e = try_render("a\n{{ nothing }}\n", "").unwrap_err();
        assert_eq!((e.template.as_str(), e.line), ("t.sh.j2", Some(2)));
        assert!(
            try_render("{{ unset }}", "")
                .unwrap_err()
                .what
                .contains("not set")
        );
        let e = try_render("\n#SBATCH -p {{ v|sbatch }}\n", "x\ny").unwrap_err();
        assert_eq!(e.line, Some(2));
        assert!(try_render("{% if %}", "").unwrap_err().line.is_some());
        let endless =
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert!(try_render(endless, "").unwrap_err().what.contains("fuel"));
        let chain = format!("{{{{ v{} }}}}", "|e".repeat(100_000));
        assert!(try_render(&chain, "").unwrap_err().what.contains("limit"));
    }
}
