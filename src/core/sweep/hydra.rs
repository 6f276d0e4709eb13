//! Hydra multirun: overrides with several values, on the command line or under `hydra.sweeper.params`.
//!
//! Source: Hydra 1.3, "Extended Override syntax": `a=1,2`, `choice(a,b)`, `range(start,stop,step)` whose stop is
//! left out, `interval(a,b)`, and `shuffle`, `sort` and `tag` around them; `glob` needs the files of a
//! configuration group, which are not read here.

use super::axis::{Axis, AxisPlace, Method, ParameterStyle, Sweep, SweepFault, SweepFile, scalar};
use super::span::{DrawRange, Spread};
use crate::core::config::{ConfigContent, ConfigError, ConfigKey, ConfigNode};
use oomctl_base::Value;

/// Functions that may lie around each other.
const DEEPEST: usize = 8;

pub(super) fn from_file(
    file: &SweepFile<'_>,
    entries: &[(ConfigKey, ConfigNode)],
) -> Result<Sweep, SweepFault> {
    let mut node = entries
        .iter()
        .find(|(k, _)| k.name == "hydra")
        .map(|(_, n)| n);
    for name in ["sweeper", "params"] {
        node = node.and_then(|n| match &n.content {
            ConfigContent::Map(inner) => inner.iter().find(|(k, _)| k.name == name).map(|(_, n)| n),
            _ => None,
        });
    }
    let Some(ConfigContent::Map(params)) = node.map(|n| &n.content) else {
        return Err(file.fault(1, 1, "the file has no `hydra.sweeper.params`"));
    };
    let mut axes = Vec::new();
    for (key, node) in params {
        let ConfigContent::Scalar(text) = &node.content else {
            let what = format!(
                "{}: expected a sweep such as `1,2` or `range(1,4)`, got {}",
                key.name,
                node.noun()
            );
            return Err(file.fault(node.line, node.column, what));
        };
        let values = several(text, 0)
            .map_err(|what| file.fault(node.line, node.column, format!("{}: {what}", key.name)))?;
        let place = AxisPlace {
            line: node.line,
            column: node.column,
        };
        let mut axis = values.axis(bare(&key.name));
        if axis.values.len() == 1 {
            axis.places.push(place);
        }
        axes.push(axis);
    }
    Sweep::new(Method::Grid, ParameterStyle::Bare, axes).map_err(|what| file.fault(1, 1, what))
}

pub(super) fn from_overrides(overrides: &[String]) -> Result<Sweep, SweepFault> {
    let mut axes = Vec::new();
    for text in overrides.iter().filter(|t| !t.starts_with('~')) {
        let fault = |what: String| {
            let fault = ConfigError::plain(text, what);
            fault.hint("overrides look like `train.batch=8,16` or `model.dim=range(64,256,64)`")
        };
        let Some((key, values)) = text.split_once('=') else {
            return Err(fault("no override: there is no `=`".to_owned()));
        };
        axes.push(several(values, 0).map_err(fault)?.axis(bare(key)));
    }
    Sweep::new(Method::Grid, ParameterStyle::Bare, axes)
        .map_err(|what| ConfigError::plain("the overrides", what))
}

/// A key without the marks that add it.
fn bare(key: &str) -> &str {
    key.trim().trim_start_matches('+')
}

/// The values of an override.
enum Several {
    Listed(Vec<Value>),
    Range(DrawRange),
}

impl Several {
    fn axis(self, name: &str) -> Axis {
        match self {
            Self::Listed(values) => Axis::listed(name.to_owned(), values, Vec::new()),
            Self::Range(span) => {
                let (values, all) = span.values();
                Axis {
                    sampled: !all,
                    span: Some(span),
                    ..Axis::listed(name.to_owned(), values, Vec::new())
                }
            }
        }
    }
}

fn several(text: &str, depth: usize) -> Result<Several, String> {
    let text = text.trim();
    if depth > DEEPEST {
        return Err("functions lie too deep in each other".to_owned());
    }
    let Some((name, inside)) = call(text) else {
        let parts = split(text)?;
        return Ok(Several::Listed(parts.into_iter().map(literal).collect()));
    };
    match name {
        "choice" => {
            let parts = split(inside)?.into_iter();
            Ok(Several::Listed(parts.map(literal).collect()))
        }
        "shuffle" | "sort" => {
            let parts = split(inside)?;
            let kept: Vec<&str> = parts
                .into_iter()
                .filter(|p| !p.trim_start().starts_with("reverse="))
                .collect();
            several(&kept.join(","), depth + 1)
        }
        "tag" => {
            let parts = split(inside)?;
            let last = parts.last().copied().unwrap_or_default();
            Ok(match several(last, depth + 1)? {
                // Optuna's plugin for Hydra draws evenly in the logarithm where this tag stands.
                Several::Range(span) if parts.iter().any(|p| p.trim() == "log") => {
                    Several::Range(DrawRange {
                        spread: Spread::Log,
                        ..span
                    })
                }
                other => other,
            })
        }
        "range" => range(inside).map(Several::Range),
        "interval" => interval(inside).map(Several::Range),
        "glob" => Err(
            "glob() needs the files of a configuration group; list its values instead".to_owned(),
        ),
        // Casts such as `int(3.2)` and `str([a,b])` are single values of the program's.
        _ => Ok(Several::Listed(vec![Value::Text(text.to_owned())])),
    }
}

fn call(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    let inside = rest.strip_suffix(')')?;
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word.then_some((name, inside))
}

fn numbers(inside: &str) -> Result<Vec<f64>, String> {
    let parts = split(inside)?;
    let value = |part: &str| {
        part.split_once('=')
            .map_or(part, |(_, v)| v)
            .trim()
            .to_owned()
    };
    let read = |part: &&str| {
        let text = value(part);
        let number = text
            .replace('_', "")
            .parse::<f64>()
            .ok()
            .filter(|x| x.is_finite());
        number.ok_or_else(|| format!("`{text}` is not a number"))
    };
    parts.iter().map(read).collect()
}

fn range(inside: &str) -> Result<DrawRange, String> {
    let all = numbers(inside)?;
    let (start, stop, step) = match all[..] {
        [stop] => (0.0, stop, 1.0),
        [start, stop] => (start, stop, 1.0),
        [start, stop, step] => (start, stop, step),
        _ => return Err("range() takes a start, a stop and perhaps a step".to_owned()),
    };
    let count = ((stop - start) / step).ceil();
    if !count.is_finite() || count < 1.0 {
        return Err(format!("range({inside}) is empty"));
    }
    Ok(DrawRange {
        low: start.min(start + (count - 1.0) * step),
        high: start.max(start + (count - 1.0) * step),
        spread: Spread::Steps,
        whole: false,
        step: Some(step.abs()),
        origin: start,
    })
}

fn interval(inside: &str) -> Result<DrawRange, String> {
    let [low, high] = numbers(inside)?[..] else {
        return Err("interval() takes a start and an end".to_owned());
    };
    if low > high {
        return Err(format!("interval({inside}) is empty"));
    }
    Ok(DrawRange {
        low,
        high,
        spread: Spread::Even,
        whole: false,
        step: None,
        origin: low,
    })
}

/// Parts between commas that lie in no brackets and no quotes.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth, mut quote, mut escaped) =
        (Vec::new(), 0, 0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(q), _) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '{' | '(') => depth += 1,
            (None, ']' | '}' | ')') => depth = depth.checked_sub(1).ok_or("a bracket too many")?,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if quote.is_some() || depth > 0 {
        return Err("a quote or a bracket is not closed".to_owned());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn literal(text: &str) -> Value {
    let text = text.trim();
    let quoted = ['\'', '"'].into_iter().find_map(|q| {
        let inner = text.strip_prefix(q)?.strip_suffix(q)?;
        Some(inner.to_owned())
    });
    quoted.map_or_else(|| scalar(text), Value::Text)
}
