//! A report as a page, as a picture, as Markdown, and as plain text: four templates over one view.

use anyhow::Context as _;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

use super::{Report, gpu_hours};
use crate::view::CommandFailure;
use crate::view::figures::duration;
use crate::view::history_summary::HistorySummary;
use crate::view::history_view::count;
use oomctl_base::units::Bytes;

/// The pictures of a page, which are also a picture by themselves.
macro_rules! with_pictures {
    ($template:literal) => {
        concat!(include_str!("pictures.j2"), include_str!($template))
    };
}

const PAGE: &str = with_pictures!("page.html.j2");
const SUMMARY: &str = include_str!("summary.html.j2");
const PICTURE: &str = with_pictures!("picture.svg.j2");
/// Characters in a line of a picture.
const LINE_MAX: usize = 90;
const MARKDOWN: &str = include_str!("page.md.j2");
const TEXT: &str = include_str!("page.txt.j2");
const STYLE: &str = include_str!("style.css");

/// What a report is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// One HTML page, complete in itself
    Html,
    /// One SVG picture: attempts and memory over time, as for a README or slides
    Svg,
    /// Markdown, as for a job summary in CI
    Markdown,
    /// Plain text, as for a mail
    Text,
}

impl ReportFormat {
    /// The ending of a file of this format.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Svg => "svg",
            Self::Markdown => "md",
            Self::Text => "txt",
        }
    }
}

/// Renders a report.
pub fn render(report: &Report, format: ReportFormat) -> Result<String, CommandFailure> {
    let text = environment()
        .and_then(|env| env.get_template(format.extension())?.render(Serde(report)))
        .context("cannot render the report")?;
    Ok(text)
}

/// The sums of many attempts as a page.
pub fn summary_page(summary: &HistorySummary) -> Result<String, CommandFailure> {
    let text = environment()
        .and_then(|env| env.get_template("summary.html")?.render(Serde(summary)))
        .context("cannot render the page")?;
    Ok(text)
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()?;
    env.set_syntax(syntax);
    // Facts leave out what is not known: that is nothing, and a misspelled name still an error where it is shown.
    env.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    env.set_auto_escape_callback(|name| match name {
        "html" | "svg" | "summary.html" => AutoEscape::Html,
        _ => AutoEscape::None,
    });
    env.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    env.add_filter("took", duration);
    env.add_filter("gpu_hours", gpu_hours);
    env.add_filter("gib", |bytes: u64| format!("{:.1}", Bytes(bytes).gib()));
    env.add_filter("fixed", |value: f64| format!("{value:.1}"));
    env.add_filter("count", |n: usize, what: &str| count(n, what));
    env.add_filter("hundredths", |value: f64| format!("{value:.2}"));
    env.add_filter("short", short);
    env.add_filter("cell", cell);
    env.add_filter("code", code);
    env.add_filter("quoted", quoted);
    env.add_filter("folded", folded);
    env.add_template("html", PAGE)?;
    env.add_template("summary.html", SUMMARY)?;
    env.add_template("svg", PICTURE)?;
    env.add_template("md", MARKDOWN)?;
    env.add_template("txt", TEXT)?;
    Ok(env)
}

/// As much of a text as fits into a line of a picture.
fn short(text: &str) -> String {
    match text.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Text in Markdown that means nothing but itself, also in a table.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            // An at sign and a hash make mentions of people and of issues where pipelines show Markdown.
            '@' => safe.push_str("&#64;"),
            '#' => safe.push_str("&#35;"),
            c if r"\`*_[]|~!".contains(c) => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}

/// A fence that no line of `text` closes, around it.
fn code(text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    format!("{fence}text\n{text}\n{fence}")
}

/// Every line behind a mark, as mails quote.
fn quoted(text: &str) -> String {
    folded_by(text, "    > ")
}

/// Lines as mails have them.
fn folded(text: &str) -> String {
    folded_by(text, "")
}

fn folded_by(text: &str, indent: &str) -> String {
    let options = textwrap::Options::new(78)
        .initial_indent(indent)
        .subsequent_indent(indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options)
}

/// A command as one can paste it.
pub fn command_line(words: &[String]) -> String {
    let mut words = words.to_vec();
    if let Some(program) = words.first_mut() {
        "oomctl".clone_into(program);
    }
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_log_says_means_nothing_in_markdown() {
        assert_eq!(
            cell("a|b\n<img>@you #1 `x`"),
            r"a\|b &lt;img>&#64;you &#35;1 \`x\`"
        );
        assert_eq!(code("a\n```\nb"), "````text\na\n```\nb\n````");
    }
}
